"""What flash attention is worth on this text: the same tokens with it and without.

Each side has a context of its own, one after the other and never both at once, so that the memory
of one is enough. Both read the text in the same chunks; timed are the last chunk and one more
token. A quantised cache of values exists only with flash attention, and then there is nothing to
compare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from app.amounts import bytes_words
from app.engine.planning.sizes import PLAIN_TYPES
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.process.probe.probe import TOO_LONG
from app.engine.process.probe.tensors import Values
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.machine_messages import FlashCompared, FlashSide
from app.refusal import Refusal

RUNS: Final = 5
WARM_UP: Final = 1
CHUNK: Final = 64
"""Tokens read at once, so that a message that is sent waits for no more."""

NEEDS_FLASH: Final = (
    "A quantised V cache needs flash attention, so there is nothing to compare it with. Load the "
    "model with a V cache of F16."
)
NO_FLASH: Final = "llama.cpp can't use flash attention with this model."
TOO_SHORT: Final = "This text is too short to measure. Choose a longer one."
FAILED: Final = "llama.cpp couldn't run the measurement. The engine log has the details."
_NO_ROOM: Final = (
    "Measuring needs another {needed} of memory, which isn't free. Close other programs or measure "
    "a shorter chat."
)


class _Side(NamedTuple):
    told: FlashSide
    scores: Values


def compare_flash(
    weights: Weights,
    ids: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[FlashCompared | None]:
    """A slice for each `next`, then the answer. Raises Refusal."""
    if weights.loaded.type_v not in PLAIN_TYPES:
        raise Refusal("unsupported", NEEDS_FLASH)
    if len(ids) < 2:
        raise Refusal("bad_setting", TOO_SHORT)
    if len(ids) > weights.n_ctx:
        raise Refusal("bad_setting", TOO_LONG.format(n=len(ids), n_ctx=weights.n_ctx))
    needed = flash_bytes(weights, len(ids))
    if free_bytes(weights) < needed:
        raise Refusal("out_of_memory", _NO_ROOM.format(needed=bytes_words(needed)))
    sides: list[_Side] = []
    for number, is_on in enumerate((True, False)):

        def tell(done: int, number: int = number) -> None:
            progress(number * len(ids) + done, 2 * len(ids))

        for side in _measure(weights, list(ids), is_on, needed, tell, clock):
            if side is None:
                yield None
            else:
                sides.append(side)
    on, off = sides
    yield FlashCompared(
        n_tokens=len(ids),
        n_chunk=_n_chunk(weights, len(ids)),
        n_threads=weights.n_threads,
        on=on.told,
        off=off.told,
        largest_difference=float(np.abs(on.scores - off.scores).max()),
    )


def flash_bytes(weights: Weights, n_tokens: int) -> int:
    """What the larger side takes. Without flash attention the shares of all heads lie in memory,
    before and after their softmax, for each token of a batch and each cell."""
    loaded = weights.loaded
    shares = 2 * 4 * loaded.n_head * weights.n_ubatch * n_tokens
    return needed_bytes(weights, n_tokens) + (shares if loaded.flash_attention else 0)


def _n_chunk(weights: Weights, n_tokens: int) -> int:
    return min(CHUNK, weights.n_ubatch, n_tokens - 1)


def _measure(
    weights: Weights,
    ids: list[int],
    is_on: bool,
    needed: int,
    progress: Callable[[int], None],
    clock: Callable[[], float],
) -> Iterator[_Side | None]:
    context, report = weights.open_measured(len(ids) + WARM_UP + RUNS, flash_attention=is_on)
    if not context:
        raise Refusal("out_of_memory", _NO_ROOM.format(needed=bytes_words(needed)))
    try:
        if report.flash_attention is not is_on:
            raise Refusal("unsupported", NO_FLASH)
        n_chunk = _n_chunk(weights, len(ids))
        batch, memory = Batch(n_chunk, 1), llama.llama_get_memory(context)

        def decode(tokens: list[int], at: int) -> float:
            batch.clear()
            batch.add(tokens, at, 0, want_scores=True)
            weights.abort.clear()  # it was set for a reply
            began = clock()
            code = llama.llama_decode(context, batch.native)
            llama.llama_synchronize(context)
            if code:
                raise Refusal("native_error", FAILED)
            return 1000 * (clock() - began)

        yield None
        # The last chunk is a whole one, and it begins at the same place on both sides.
        last = len(ids) - n_chunk
        for at in range(0, last, n_chunk):
            decode(ids[at : min(at + n_chunk, last)], at)
            progress(min(at + n_chunk, last))
            yield None
        chunks = yield from _timed(
            lambda: decode(ids[last:], last),
            lambda: llama.llama_memory_seq_rm(memory, 0, last, -1),
        )
        progress(len(ids))
        scores = scores_of(context, n_chunk - 1, weights.vocabulary.n_vocab).copy()
        top = int(scores.argmax())
        steps = yield from _timed(
            lambda: decode([top], len(ids)),
            lambda: llama.llama_memory_seq_rm(memory, 0, len(ids), -1),
        )
    finally:
        llama.llama_free(context)
    compute = sum(part.size_bytes for part in report.memory if part.what == "compute")
    yield _Side(FlashSide(chunks, steps, compute, top), scores)


def _timed(decode: Callable[[], float], take_back: Callable[[], Any]) -> Any:
    """A generator that returns the milliseconds of each run. What can't be taken back, a state, is
    timed once."""
    times = [decode()]
    yield None
    for _ in range(WARM_UP + RUNS - 1):
        if not take_back():
            return times
        times.append(decode())
        yield None
    return times[WARM_UP:]
