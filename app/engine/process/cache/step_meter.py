"""What the KV cache saves at one step, measured on the loaded weights.

    read again    nothing in the cache, n tokens in:            scores of token n + 1
    one step      n - 1 cells there, the last token in:         the same scores

Both run in a context of their own beside the one that writes, with the same weights, threads, types
and flash attention; it is freed at the end. So nothing that the cache holds is touched, whatever
the architecture could have taken back. It takes as much memory as the chat's cells and the compute
buffer, is refused in words where that is not free, and ends when a message is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from app.amounts import bytes_words
from app.engine.process.native import native
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.protocol.cache_messages import StepMeasured
from app.refusal import Refusal

WARM_UP: Final = 1
STEPS: Final = 7
PASSES: Final = 3
"""Times that everything is read again, if one pass is short …"""

SHORT_PASS_S: Final = 0.4
"""… as short as this."""

_PADDING: Final = 256
"""llama.cpp makes its caches longer by up to so many cells."""

LEFT_OFF: Final = (
    "The measurement was interrupted by another request. Measure again when the reply is finished."
)
FAILED: Final = "llama.cpp couldn't run the measurement. The engine log has the details."


class MeasureStopped(Exception):  # noqa: N818 - whoever asked has stopped it
    pass


@dataclass(slots=True)
class StepMeter:
    """Times one conversation's tokens. `ask_whether_to_go_on` raises where it shall end;
    `progress` counts tokens read; `clock` in seconds; `adapters`: key of those it is written with.
    """

    weights: Weights
    ids: list[int]
    ask_whether_to_go_on: Callable[[], None]
    progress: Callable[[int, int], None]
    clock: Callable[[], float]
    adapters: str = ""
    _context: Any = field(default=None, init=False)
    _batch: Batch = field(init=False)

    def measure(self) -> StepMeasured:
        """Raises Refusal, or what `ask_whether_to_go_on` raises."""
        needed = needed_bytes(self.weights, len(self.ids))
        if free_bytes(self.weights) < needed:
            raise _not_enough(needed)
        adapters = self.weights.adapters_by_key(self.adapters)
        self._context = self.weights.open_beside(len(self.ids) + WARM_UP + STEPS, adapters=adapters)
        if not self._context:
            raise _not_enough(needed)
        try:
            self._batch = Batch(self.weights.n_ubatch, 1)
            passes = self._read_again()
            steps = [self._step(number) for number in range(WARM_UP + STEPS)][WARM_UP:]
        finally:
            llama.llama_free(self._context)
            self._context = None
        return StepMeasured(len(self.ids), steps, passes, self.weights.n_threads)

    def _read_again(self) -> list[float]:
        """Milliseconds of each pass over all tokens, from an empty cache."""
        passes: list[float] = []
        while len(passes) < PASSES and (not passes or passes[0] < SHORT_PASS_S * 1000):
            llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
            began = self.clock()
            for start in range(0, len(self.ids), self.weights.n_ubatch):
                self._decode(self.ids[start : start + self.weights.n_ubatch], start)
            passes.append((self.clock() - began) * 1000)
        return passes

    def _step(self, number: int) -> float:
        """Milliseconds of one more token. What cannot be taken back goes on instead."""
        last = len(self.ids) - 1
        memory = llama.llama_get_memory(self._context)
        at = last if llama.llama_memory_seq_rm(memory, 0, last, -1) else last + 1 + number
        began = self.clock()
        self._decode(self.ids[last:], at)
        return (self.clock() - began) * 1000

    def _decode(self, tokens: list[int], position: int) -> None:
        self.ask_whether_to_go_on()
        self._batch.clear()
        is_last = position + len(tokens) >= len(self.ids)
        self._batch.add(tokens, position, 0, want_scores=is_last)
        code = llama.llama_decode(self._context, self._batch.native)
        llama.llama_synchronize(self._context)
        if code:
            self.ask_whether_to_go_on()
            raise Refusal("native_error", FAILED)
        self.progress(min(position + len(tokens), len(self.ids)), len(self.ids))


def needed_bytes(weights: Weights, n_tokens: int) -> int:
    """Cache and compute buffer of one more context, as the loaded one has them."""
    compute = sum(p.size_bytes for p in weights.loaded.memory if p.what in ("compute", "output"))
    n_cells = n_tokens + WARM_UP + STEPS + _PADDING
    return weights.loaded.kv_bytes_per_token * n_cells + compute


def free_bytes(weights: Weights) -> int:
    """What is free where the layers are."""
    devices = native.list_devices()
    used = [device for device in devices if device.name in weights.loaded.devices]
    return sum(d.free_bytes for d in used or devices if used or d.kind == "cpu")


def _not_enough(needed: int) -> Refusal:
    return Refusal(
        "out_of_memory",
        f"Measuring needs another {bytes_words(needed)} of memory, which isn't free. Close other "
        "programs or measure a shorter chat.",
    )
