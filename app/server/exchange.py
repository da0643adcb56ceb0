"""What the window is told of each request: who asked for what, and what became of it.

A `Served` is a reply as the desk has them: its `Generate`, and all events that the engine told of
it, so that the panels show it like any other. Its events come on the engine's thread; the window
takes them away as it reads them.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Final, Literal

from app.engine.client.supervisor import Ending, EngineEvent
from app.engine.protocol.messages import Failed, Finished, Generate, Stopped, Summary

ExchangeState = Literal["running", "finished", "stopped", "failed"]

_numbers: Final = itertools.count(1)


@dataclass(eq=False)
class Served:
    """One reply. `request_id` is the engine's, 0 before it was sent."""

    generate: Generate
    request_id: int = 0
    events: list[EngineEvent] = field(default_factory=list)
    ending: Ending | None = None

    @property
    def summary(self) -> Summary | None:
        """How it ended; of one that failed, what there is of it."""
        if isinstance(self.ending, Failed):
            return self.ending.partial
        result = self.ending.result if self.ending is not None else None
        return result if isinstance(result, Summary) else None

    def take(self, event: EngineEvent) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Stopped | Failed):
            self.ending = event


@dataclass(eq=False)
class Exchange:
    """One HTTP request. `began` is `time.time()`; `who` the client's address and the name that its
    program gives itself; `status` the HTTP status, 0 while none was sent; `sentence` why it failed,
    or was refused. `replies`: none for what asks for no reply. `body`: what was
    sent, where it was JSON. `seconds`: None while it runs."""

    endpoint: str
    who: str
    model: str = ""
    number: int = field(default_factory=lambda: next(_numbers))
    began: float = field(default_factory=time.time)
    status: int = 0
    sentence: str = ""
    replies: list[Served] = field(default_factory=list)
    is_streaming: bool = False
    body: bytes = b""
    seconds: float | None = None
    prompt_tokens: int | None = None
    """Of what asks for no reply, but reads a text."""
    is_gone: bool = False
    """The client went before it had its answer."""

    @property
    def state(self) -> ExchangeState:
        if self.seconds is None:
            return "running"
        if self.is_gone:
            return "stopped"
        return "failed" if self.sentence or self.status >= 400 else "finished"

    def end(self) -> None:
        if self.seconds is None:
            self.seconds = max(time.time() - self.began, 0.0)
