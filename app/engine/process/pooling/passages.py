"""Passages and questions as vectors, one text after the other, resting while a reply is written.

What must hold: nothing here touches a slot, a cell or the context of the loaded weights; a text
whose step takes longer than people notice waits until no reply is written. Threads are steered as
those of replies: beside a busy program a text of 200 tokens took 1.4 s on both of two cores, and
0.13 s on one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import numpy as np

from app.engine.process.native.native import NativeLog
from app.engine.process.pooling.embedder import Embedder, Vector, opened
from app.engine.process.scheduling.governor import Governor
from app.engine.process.scheduling.slices import Slices
from app.engine.protocol.frames import Array, clean_text
from app.engine.protocol.loading_messages import MemoryPart
from app.engine.protocol.messages import Event, Progress
from app.engine.protocol.passage_messages import (
    MAX_PASSAGE_CHARACTERS,
    EmbedPassages,
    PassagesEmbedded,
)

_TELLING: Final = 64
"""Tokens of a text from which its time tells how the threads do."""
_USUAL: Final = 200

IDLE_S: Final = 600.0
"""After the last text, before the model is given back."""

_SHARE: Final = 0.2
"""Of the time, while a reply is written."""

_NOTICED_S: Final = 0.15
"""A step of a reply stays below it."""

Planned = Callable[[Sequence[MemoryPart]], object]
Opened = Callable[[str, int, NativeLog, Planned], Generator[None, None, Embedder]]


class PassageRoom:
    """On the thread that owns contexts. `n_threads`: asked for at each text; `on_planned`: told
    what a load will take."""

    def __init__(
        self,
        log: NativeLog,
        emit: Callable[[Event], None],
        n_threads: Callable[[], int],
        clock: Callable[[], float] = time.perf_counter,
        may_begin: Callable[[int], bool] = lambda request_id: True,
        open_: Opened = opened,
        on_planned: Planned = lambda parts: None,
    ) -> None:
        self._log, self._emit, self._n_threads, self._clock = log, emit, n_threads, clock
        self._open, self._on_planned = open_, on_planned
        self._slices = Slices(self._embedding, emit, clock, may_begin, _SHARE)
        self._embedder: Embedder | None = None
        self._is_of = ""
        self._used_at = 0.0
        self._took_s = 0.0
        self._governor = Governor(1, growth=0.0)
        self._ceiling = 0

    def ask(self, command: EmbedPassages) -> None:
        """Queue it; it ends by Finished, Stopped or Failed."""
        self._slices.ask(command.id, command)

    def stop(self, request_id: int) -> None:
        self._slices.stop(request_id)

    def has_work(self, *, beside_replies: bool) -> bool:
        if beside_replies and self._took_s > _NOTICED_S:
            return False
        return self._slices.has_work(beside_replies=beside_replies)

    def step(self) -> None:
        """One text, or a moment of a load."""
        self._slices.step()

    @property
    def idle_s(self) -> float | None:
        """After how long to call `give_back`; None where there is nothing to give."""
        if self._embedder is None or not self._slices.is_empty:
            return None
        return max(self._used_at + IDLE_S - self._clock(), 0.0)

    def give_back(self) -> None:
        """Free the model if nobody has asked for long enough."""
        if self.idle_s == 0.0:
            self._free()

    def close(self) -> None:
        self._slices.stop_all()
        self._free()

    def _free(self) -> None:
        embedder, self._embedder, self._is_of = self._embedder, None, ""
        self._took_s = 0.0
        if embedder is not None:
            embedder.close()

    def _embedding(self, command: EmbedPassages) -> Generator[PassagesEmbedded | None, None, None]:
        """Raises Refusal."""
        path = os.fsdecode(command.path_bytes) if command.path_bytes else command.path
        if self._embedder is None or self._is_of != path:
            self._free()
            self._embedder = yield from self._opened(path)
            self._is_of = path
        embedder = self._embedder
        found: list[Vector] = []
        n_cut = 0
        for text in command.texts:
            yield None
            began = self._clock()
            if self._ceiling != self._n_threads():
                self._ceiling = self._n_threads()
                self._governor = Governor(self._ceiling, growth=0.0)
            embedder.set_threads(self._governor.n_threads)
            text = clean_text(text)[:MAX_PASSAGE_CHARACTERS]
            vector, n_tokens, is_cut = embedder.vector(text, is_question=command.are_questions)
            found.append(vector)
            n_cut += is_cut
            self._used_at = self._clock()
            self._took_s = self._used_at - began
            if n_tokens >= _TELLING:
                took_s = self._took_s * _USUAL / n_tokens
                self._governor.after_step(1, 0, took_s, self._used_at)
            self._emit(Progress(command.id, "passages", len(found), len(command.texts)))
        self._used_at = self._clock()
        flat: np.ndarray[Any, np.dtype[np.float32]] = np.array(found, np.float32).reshape(-1)
        yield PassagesEmbedded(
            len(found),
            embedder.n_embd,
            Array.of("f4", flat.tolist()),
            embedder.pooling,
            embedder.n_ctx,
            embedder.memory_bytes,
            n_cut,
        )

    def _opened(self, path: str) -> Generator[None, None, Embedder]:
        return (yield from self._open(path, self._n_threads(), self._log, self._on_planned))
