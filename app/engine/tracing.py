"""What is recorded about a generated token, computed from a copy of its scores.

All numbers are before samplers, at temperature 1, over the whole vocabulary:

    logprob(t) = l[t] − max − ln Σ exp(l − max)              (nat)
    rank(t)    = 1 + how many scores are larger than l[t]
    entropy    = −Σ p log2 p = (ln Σ e^d − Σ e^d·d / Σ e^d) / ln 2   with d = l − max   (bit)

Two uses of exp over 49,152 scores would cost more than everything else here, so one array of
e^d serves all three. The best k candidates come from a threshold that follows the last token's
spread: a handful of scores is sorted, never the vocabulary.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from app.engine.protocol import (
    Array,
    Event,
    Failed,
    Finished,
    Held,
    Log,
    StageEffect,
    Stopped,
    TokenArrived,
    TokenTrace,
)

Scores = np.ndarray[Any, np.dtype[np.float32]]

_FLOOR: Final = np.float32(-120.0)
"""exp of it is 0 in float32: scores of −inf count as nothing instead of giving 0 · −inf."""

_ENOUGH: Final = 4

_NOT_SENT: Final = "The engine could not hand over its answer. Try again with less at once."


@dataclass(frozen=True, slots=True)
class Measured:
    """The numbers of one token. The two arrays have the best k candidates, best first."""

    logprob: float
    rank: int
    entropy: float
    alternative_ids: np.ndarray[Any, np.dtype[np.int32]]
    alternative_logprobs: Scores


class Measurer:
    """Measures tokens of one vocabulary. Keeps buffers, so one thread at a time."""

    def __init__(self, n_vocab: int) -> None:
        self.n_vocab = n_vocab
        self._depth = np.empty(n_vocab, np.float32)
        self._weight = np.empty(n_vocab, np.float32)
        self._reach = 8.0

    def measure(self, scores: Scores, token_id: int, k: int) -> Measured:
        """`scores` [n_vocab] are read only; some may be −inf, none NaN."""
        depth, weight = self._depth, self._weight
        best = scores.max()
        np.subtract(scores, best, out=depth)
        if depth.min() < _FLOOR:
            np.maximum(depth, _FLOOR, out=depth)
        np.exp(depth, out=weight)
        total = float(weight.sum())
        log_total = math.log(total)
        mean_depth = float(np.dot(weight, depth)) / total
        ids = self._best(scores, depth, min(k, len(depth)))
        return Measured(
            logprob=float(scores[token_id] - best) - log_total,
            rank=1 + int(np.count_nonzero(scores > scores[token_id])),
            entropy=max((log_total - mean_depth) / math.log(2), 0.0),
            alternative_ids=ids,
            alternative_logprobs=(scores[ids] - best - np.float32(log_total)).astype(np.float32),
        )

    def _best(self, scores: Scores, depth: Scores, k: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """IDs of the k largest, best first; of equals the smaller ID first."""
        if k <= 0:
            return np.empty(0, np.int32)
        ids = np.flatnonzero(depth > -self._reach)
        while len(ids) < k:
            if self._reach >= -float(_FLOOR):
                ids = np.arange(len(depth))
                break
            self._reach = min(self._reach * 1.5, -float(_FLOOR))
            ids = np.flatnonzero(depth > -self._reach)
        self._follow(len(ids), k)
        if len(ids) > 16 * k:
            cut = np.partition(scores[ids], len(ids) - k)[len(ids) - k]
            ids = ids[scores[ids] >= cut]
        order = np.lexsort((ids, -scores[ids]))[:k]
        return ids[order].astype(np.int32)

    def _follow(self, found: int, k: int) -> None:
        """Aim at a few times k candidates next time: neighbours in a text spread alike."""
        if found > 4 * _ENOUGH * k:
            self._reach = max(self._reach * 0.8, 1.0)
        elif found < _ENOUGH * k:
            self._reach *= 1.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The candidate array after one stage: a copy, to be evaluated later on another thread."""

    stage: str
    ids: np.ndarray[Any, np.dtype[np.int32]]
    scores: Scores


def stage_effect(snapshot: Snapshot, token_id: int) -> StageEffect:
    """How many candidates a stage left, and the probability of `token_id` among them.

    Three scores 2, 1, −inf leave two candidates; the first has e² / (e² + e) = 0.73.
    """
    scores = snapshot.scores
    left = int(np.count_nonzero(scores > -np.inf))
    at = _index_of(snapshot.ids, token_id)
    if at is None or not left:
        return StageEffect(snapshot.stage, left, 0.0)
    weight = np.exp(scores - scores.max())
    return StageEffect(snapshot.stage, left, float(weight[at] / weight.sum(dtype=np.float64)))


def _index_of(ids: np.ndarray[Any, np.dtype[np.int32]], token_id: int) -> int | None:
    # Until a stage sorts, candidate i is token i.
    if token_id < len(ids) and ids[token_id] == token_id:
        return token_id
    found = np.flatnonzero(ids == token_id)
    return int(found[0]) if len(found) else None


def as_array(values: np.ndarray[Any, Any]) -> Array:
    """A numpy array as it travels on the wire.

    >>> as_array(np.array([1, 2], np.int32)).dtype
    'i4'
    """
    values = np.ascontiguousarray(values)
    name = f"{values.dtype.kind}{values.dtype.itemsize}"
    data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return Array(name, list(values.shape), data)


# --- beside the next decode -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What the decoding thread leaves behind of a token; the event is made of it elsewhere.

    `scores` is a copy: the next decode overwrites the original. `held`: announce the token
    instead of appending it (step mode).
    """

    request_id: int
    index: int
    token_id: int
    piece: bytes
    scores: Scores
    snapshots: tuple[Snapshot, ...]
    alternatives: int
    ms: float
    text: str = ""
    part: Literal["content", "reasoning"] = "content"
    context_used: int = 0
    held: bool = False

    def event(self, measurer: Measurer) -> TokenArrived | Held:
        measured = measurer.measure(self.scores, self.token_id, self.alternatives)
        trace = TokenTrace(
            index=self.index,
            token_id=self.token_id,
            piece=self.piece,
            logprob=measured.logprob,
            rank=measured.rank,
            entropy=measured.entropy,
            alternative_ids=as_array(measured.alternative_ids),
            alternative_logprobs=as_array(measured.alternative_logprobs),
            stages=[stage_effect(snapshot, self.token_id) for snapshot in self.snapshots],
            ms=self.ms,
        )
        if self.held:
            return Held(self.request_id, trace)
        return TokenArrived(self.request_id, trace, self.text, self.part, self.context_used)


class Outbox:
    """Sends everything that the engine says, in the order in which it was put in.

    One thread makes the events of tokens while the next decode runs. It is bounded: when the
    reader at the other end stops reading, `put` waits, and so does decoding.
    """

    _LIMIT: Final = 64

    def __init__(self, send: Callable[[Event], None], on_broken: Callable[[], None]) -> None:
        self._send = send
        self._on_broken = on_broken
        self._queue: queue.Queue[Event | TokenRecord | None] = queue.Queue(self._LIMIT)
        self._measurer: Measurer | None = None
        self._broken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, item: Event | TokenRecord) -> None:
        """Send `item` after everything before it; it is dropped when nobody reads any more."""
        while not self._broken.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def close(self, timeout_s: float = 2.0) -> None:
        """Send what is left and end the thread."""
        if not self._broken.is_set():
            self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._send_one(item)
        except (OSError, ValueError):  # the pipe is closed: the window is gone
            self._broken.set()
            self._on_broken()

    def _send_one(self, item: Event | TokenRecord) -> None:
        """What cannot be made or sent must not silence the rest; its request still ends."""
        try:
            self._send(self._event(item))
        except (OSError, ValueError):
            raise
        except Exception as error:  # noqa: BLE001 - reported as the ending of its request
            if isinstance(item, Finished | Stopped):
                self._send(Failed(item.id, "internal", _NOT_SENT, repr(error)))
            else:
                self._send(Log("error", f"{type(item).__name__} was not sent: {error!r}"))

    def _event(self, item: Event | TokenRecord) -> Event:
        if not isinstance(item, TokenRecord):
            return item
        if self._measurer is None or self._measurer.n_vocab != len(item.scores):
            self._measurer = Measurer(len(item.scores))
        return item.event(self._measurer)
