"""Drives a Scheduler in the test's own process, one step at a time, and keeps what it says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights, load
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.outbox import TokenRecord
from app.engine.prompts.midway import Stretch
from app.engine.prompts.prompt import PromptNote
from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    Stopped,
    Summary,
    TextFlushed,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import CutMessage, IdsPrompt
from app.engine.protocol.stages import Greedy, Sampling
from app.engine.text.call_form import CallForm

BROKEN_OFF = 2
"""What llama_decode returns for a step that was ended from outside."""
GREEDY = Sampling(filters=[], select=Greedy())


@dataclass
class ReadyPrompt:
    """A prompt as `build_prompt` would return it."""

    ids: list[int]
    rendered: str = ""
    notes: list[PromptNote] = field(default_factory=list)
    cut: list[CutMessage] = field(default_factory=list)
    turn_end: str = ""
    n_begun: int = 0
    n_continued: int = 0
    parts: list[PromptPart] = field(default_factory=list)
    tail: bytes = b""
    template: str = ""
    stretches: list[Stretch] = field(default_factory=list)
    calls: CallForm | None = None
    call_grammars: Mapping[str, str] = field(default_factory=dict)
    loose_tools: frozenset[str] = frozenset()
    media: list[MediaSpan] = field(default_factory=list)
    chunks: list[object] = field(default_factory=list)


def load_quietly(path: Path, log: NativeLog, projector: str = "", **options: Any) -> Weights:
    return load(
        str(path),
        LoadOptions(**options),
        log=log,
        on_progress=lambda done, total: None,
        is_cancelled=lambda: False,
        projector=projector,
    )


def load_in_float32(path: Path, log: NativeLog, flash: str = "off", **options: Any) -> Weights:
    """A small file of float32 whose keys and values are float32, too."""
    plain = {"n_ctx": 256, "n_threads": 1, "type_k": "f32", "type_v": "f32"}
    return load_quietly(path, log, flash_attention=flash, **{**plain, **options})


class NativeSession:
    """A fresh scheduler on weights that others may have used before."""

    def __init__(self, weights: Weights, log: NativeLog, **options: Any) -> None:
        llama.llama_memory_clear(weights.memory, True)
        self.weights = weights
        self.events: list[Event] = []
        self.scheduler = Scheduler(weights, self._take, log, **options)
        self._measurer = Measurer(weights.vocabulary.n_vocab)
        self._ids = count(1)

    def _take(self, item: Event | TokenRecord) -> None:
        self.events.append(item.event(self._measurer) if isinstance(item, TokenRecord) else item)

    def add(self, ids: list[int], sampling: Sampling = GREEDY, **fields: Any) -> int:
        """Queue a request and return its id."""
        request_id = next(self._ids)
        n_begun = fields.pop("n_begun", 0)
        prompt = fields.pop("prompt", IdsPrompt(ids))
        ready = ReadyPrompt(ids, n_begun=n_begun, stretches=fields.pop("stretches", []))
        generate = Generate(request_id, prompt, sampling, **fields)
        self.scheduler.add(generate, ready, time.perf_counter())
        return request_id

    def run(self) -> None:
        while self.scheduler.has_work:
            self.scheduler.step()

    def reply(self, ids: list[int], sampling: Sampling = GREEDY, **fields: Any) -> Summary:
        """Run one request to its designed ending."""
        request_id = self.add(ids, sampling, **fields)
        self.run()
        ending = self.ending(request_id)
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Summary)
        return ending.result

    def of(self, request_id: int) -> list[Event]:
        return [event for event in self.events if getattr(event, "id", None) == request_id]

    def tokens(self, request_id: int) -> list[TokenArrived]:
        return [event for event in self.of(request_id) if isinstance(event, TokenArrived)]

    def ending(self, request_id: int) -> Finished | Stopped | Failed:
        """The one ending of a request; it must be its last event."""
        events = self.of(request_id)
        endings = [e for e in events if isinstance(e, Finished | Stopped | Failed)]
        assert len(endings) == 1
        assert events[-1] is endings[0]
        return endings[0]

    def streamed(self, request_id: int, part: str = "content") -> str:
        """The text that the events of a request join to."""
        return "".join(
            event.text
            for event in self.of(request_id)
            if isinstance(event, TokenArrived | TextFlushed) and event.part == part
        )
