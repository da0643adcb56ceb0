"""A scripted server, and the engine that asks it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from scripted_servers import ScriptedServer

from app.engine.client.supervisor import Ending, EngineEvent
from app.engine.protocol.messages import (
    Command,
    Failed,
    Finished,
    Generate,
    Note,
    Stopped,
    Summary,
    TextFlushed,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt
from app.engine.protocol.remote_messages import EngineOffer, remote_path
from app.engine.remote.engine import RemoteEngine
from app.hub.gate import Gate

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
WAIT_S = 20.0
HI = ChatPrompt([ChatMessage("user", "Hi")])


@dataclass
class Talk:
    """`key`: what is sent as the server's. `events`: all that the engine told, but its log."""

    server: ScriptedServer
    gate: Gate
    engine: RemoteEngine
    events: list[EngineEvent] = field(default_factory=list)
    key: str | None = None
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def take(self, event: EngineEvent) -> None:
        with self.arrived:
            self.events.append(event)
            self.arrived.notify_all()

    def wait_for_text(self, text: str) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.text() == text, WAIT_S)

    @property
    def path(self) -> str:
        return remote_path("e1", "m")

    def load(self) -> EngineOffer:
        ending = self.engine.wait_for(self.engine.load(self.path), WAIT_S)
        assert isinstance(ending, Finished), ending
        return ending.result.remote  # type: ignore[union-attr,return-value]

    def ask(self, prompt: Prompt = HI, **fields: Any) -> Ending:
        """A reply's ending; a `Failed` too."""
        return self.end(self.engine.generate(Generate(0, prompt, **fields)))

    def end(self, request_id: int) -> Ending:
        """Its ending, when it has been told, too."""
        ending = self.engine.wait_for(request_id, WAIT_S)
        with self.arrived:
            assert self.arrived.wait_for(lambda: bool(self.endings(request_id)), WAIT_S)
        return ending

    def reply(self, prompt: Prompt = HI, **fields: Any) -> Summary:
        ending = self.ask(prompt, **fields)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return ending.result

    def failed(self, prompt: Prompt = HI, **fields: Any) -> Failed:
        ending = self.ask(prompt, **fields)
        assert isinstance(ending, Failed), ending
        return ending

    def answer(self, command: Command) -> Any:
        """A result, or the sentence of a failure."""
        ending = self.end(self.engine.request(command))
        return ending.sentence if isinstance(ending, Failed) else ending.result

    @property
    def body(self) -> dict[str, Any]:
        """Of the last request for a reply."""
        asked = [each for each in self.server.requests if each.path in (CHAT, TEXT)]
        body: dict[str, Any] = asked[-1].body
        return body

    @property
    def tokens(self) -> list[TokenTrace]:
        return [each.token for each in self.events if isinstance(each, TokenArrived)]

    @property
    def notes(self) -> list[str]:
        return [each.sentence for each in self.events if isinstance(each, Note)]

    def text(self, part: str = "content") -> str:
        """As it was told, piece by piece."""
        told = (each for each in self.events if isinstance(each, TokenArrived | TextFlushed))
        return "".join(each.text for each in told if each.part == part)

    def endings(self, request_id: int) -> list[EngineEvent]:
        ends = (Finished, Stopped, Failed)
        return [e for e in self.events if isinstance(e, ends) and e.id == request_id]
