"""Makes a vector of each text: its tokens are read, their last vectors pooled, the length made 1.

A file that was trained for this says how it pools, and llama.cpp does it; of any other the mean is
taken here, as llama-server's `--pooling mean` has it. A text is read in chunks: a mean of all is
the mean of the chunks' means, each counted by its tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Final

import numpy as np

from app.amounts import bytes_words
from app.engine.process.cache.step_meter import free_bytes, needed_bytes
from app.engine.process.native.native import Batch, NativeError, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.admission import check_ids
from app.engine.process.scheduling.slices import Slices
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import Event
from app.engine.protocol.pooling_messages import MAX_INPUTS, EmbedTexts, TextsEmbedded
from app.refusal import Refusal

CHUNK: Final = 32
"""Tokens per pass: each has an output row, with scores of all the vocabulary beside its vector."""

NO_ROOM: Final = (
    "This needs another {needed} of memory, which isn't free. Close other programs, or send "
    "shorter texts."
)
RANKS: Final = "This model ranks texts, so it has no vectors for them."
_SHARE: Final = 0.2
"""Of the time, while a reply is written."""
_OWN, _MEAN, _CLS, _LAST = 0, 1, 2, 3
"""llama.cpp's kinds of pooling; the first one is none."""
_NAMES: Final = {_OWN: "mean", _MEAN: "mean", _CLS: "cls", _LAST: "last"}

Vector = np.ndarray[Any, np.dtype[np.float64]]


class PoolingRoom:
    """The texts of one pair of weights, on the thread that owns their contexts."""

    def __init__(
        self,
        weights: Weights,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.perf_counter,
        may_begin: Callable[[int], bool] = lambda request_id: True,
    ) -> None:
        """`may_begin`: asked once of each request, before its first slice."""
        self._weights = weights
        self._slices = Slices(self._embedding, emit, clock, may_begin, _SHARE)

    def ask(self, command: EmbedTexts) -> None:
        """Queue it; it ends by Finished, Stopped or Failed."""
        self._slices.ask(command.id, command)

    def stop(self, request_id: int) -> None:
        self._slices.stop(request_id)

    def has_work(self, *, beside_replies: bool) -> bool:
        return self._slices.has_work(beside_replies=beside_replies)

    def step(self) -> None:
        """One chunk."""
        self._slices.step()

    def close(self) -> None:
        self._slices.stop_all()

    def _embedding(self, command: EmbedTexts) -> Generator[TextsEmbedded | None, None, None]:
        """Raises Refusal."""
        longest = self._checked(command.inputs)
        context = self._open(longest)
        try:
            pooling = int(llama.llama_pooling_type(context))
            if pooling not in _NAMES:
                raise Refusal("unsupported", RANKS)
            llama.llama_set_embeddings(context, True)
            batch = Batch(CHUNK, 1)
            found: list[Vector] = []
            for ids in command.inputs:
                llama.llama_memory_clear(llama.llama_get_memory(context), True)
                parts: list[Vector] = []
                for start in range(0, len(ids), CHUNK):
                    yield None
                    parts.append(self._read(context, batch, ids[start : start + CHUNK], start))
                found.append(_pooled(parts, len(ids), pooling))
        finally:
            llama.llama_free(context)
        flat = np.concatenate(found).astype(np.float32)
        n_embd = len(found[0])
        yield TextsEmbedded(len(found), n_embd, Array.of("f4", flat.tolist()), _NAMES[pooling])

    def _checked(self, inputs: list[list[int]]) -> int:
        """How long the longest is. Raises Refusal."""
        if not inputs or len(inputs) > MAX_INPUTS:
            raise BadSetting("input", f"Send 1 to {MAX_INPUTS} texts at once.")
        n_ctx = self._weights.n_ctx
        for ids in inputs:
            if not ids:
                raise BadSetting("input", "A text is empty, so it has no vector.")
            check_ids(ids, self._weights.vocabulary.n_vocab)
            if len(ids) > n_ctx:
                raise Refusal(
                    "prompt_too_long",
                    f"A text has {len(ids):,} tokens, but the context window holds only {n_ctx:,}.",
                )
        return max(map(len, inputs))

    def _open(self, n_tokens: int) -> Any:
        """Raises Refusal."""
        needed = needed_bytes(self._weights, n_tokens)
        refusal = Refusal("out_of_memory", NO_ROOM.format(needed=bytes_words(needed)))
        if free_bytes(self._weights) < needed:
            raise refusal
        # As many sequences as rows with an output: the context has room for as many.
        context = self._weights.open_beside(n_tokens + CHUNK, n_slots=CHUNK)
        if not context:
            raise refusal
        return context

    def _read(self, context: Any, batch: Batch, ids: list[int], start: int) -> Vector:
        """The mean of a chunk's vectors, or what llama.cpp has pooled them to, times its tokens;
        [n_embd]."""
        batch.clear()
        batch.add(ids, start, 0, want_scores=True, want_all=True)
        code = int(llama.llama_decode(context, batch.native))
        if code != 0:
            raise NativeError(f"llama_decode returned {code}")
        n_embd = int(llama.llama_model_n_embd(self._weights.model))
        if int(llama.llama_pooling_type(context)) == _OWN:
            rows, native = len(ids), llama.llama_get_embeddings(context)
        else:
            rows, native = 1, llama.llama_get_embeddings_seq(context, 0)
        if not native:
            raise Refusal("unsupported", "This model's architecture gives no vectors of texts.")
        vectors = np.ctypeslib.as_array(native, (rows, n_embd)).astype(np.float64)
        found: Vector = vectors.mean(axis=0) * len(ids)
        return found


def _pooled(parts: list[Vector], n_tokens: int, pooling: int) -> Vector:
    """One vector of length 1, of what the chunks gave (`_read`)."""
    if pooling == _LAST:
        vector = parts[-1]
    elif pooling == _CLS:
        vector = parts[0]
    else:
        vector = np.sum(parts, axis=0) / n_tokens
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length):
        raise Refusal("no_candidate", "The model's numbers are none for this text.")
    return vector / length if length else vector
