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
import time
from collections.abc import Callable, Sequence
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

_FIRST: Final = 2
"""So many tokens of a reply are sent without gathering: somebody waits for them."""

_NOT_SENT: Final = "The engine could not hand over its answer. Try again with less at once."


@dataclass(frozen=True, slots=True)
class Measured:
    """The numbers of one token. The two arrays have the best k candidates, best first; `left` is
    how many candidates have a finite score."""

    logprob: float
    rank: int
    entropy: float
    alternative_ids: np.ndarray[Any, np.dtype[np.int32]]
    alternative_logprobs: Scores
    left: int


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
        left = len(depth)
        if depth.min() < _FLOOR:
            left = int(np.count_nonzero(depth > -np.inf))
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
            left=left,
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


# --- what the stages did --------------------------------------------------------------------------

SURVIVED: Final = 255
_FEW: Final = 2048
"""Up to so many, a set of Python's is quicker than numpy's sorting."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one stage changed, as little of it as says everything; evaluated on another thread.

    Copying 262,144 candidates after every stage would cost more than the stages. So:

    * nothing given: the stage left the candidates and their scores as they were;
    * `scale`: it divided all scores by this number;
    * `is_partial`: `ids` now have `scores`, all others are as before;
    * `scores` without `ids`: the scores of the whole vocabulary, by ID;
    * `ids` and `scores`: these candidates are left.
    """

    stage: str
    ids: np.ndarray[Any, np.dtype[np.int32]] | None = None
    scores: Scores | None = None
    scale: float | None = None
    is_partial: bool = False


class Replay:
    """The candidates as one stage after the other left them, beginning with all scores.

    >>> replay = Replay(np.array([2, 1, 0], np.float32), 0, np.array([0, 1], np.int32))
    >>> replay.follow(Snapshot("top-k", np.array([0], np.int32), np.array([2], np.float32)))
    StageEffect(stage='top-k', left=1, probability=1.0)
    >>> replay.removed_by.tolist()
    [255, 0]
    """

    def __init__(
        self,
        scores: Scores,
        token_id: int,
        watched: np.ndarray[Any, np.dtype[np.int32]],
        before: Measured | None = None,
    ) -> None:
        """`before`: the same scores as already measured, which saves doing it again."""
        self._ids: np.ndarray[Any, np.dtype[np.int32]] | None = None
        self._scores = scores
        self._token_id = token_id
        self._watched = watched
        self._stage = 0
        self._left = 0 if before is None else before.left
        self._probability = None if before is None else math.exp(before.logprob)
        self.removed_by = np.full(len(watched), SURVIVED, np.uint8)

    def follow(self, snapshot: Snapshot) -> StageEffect:
        """Go on to after this stage: how many candidates are left, and the share of the token."""
        if self._take(snapshot) or self._probability is None:
            self._measure()
        assert self._probability is not None
        self._stage += 1
        return StageEffect(snapshot.stage, self._left, self._probability)

    def _take(self, snapshot: Snapshot) -> bool:
        """Whether the stage changed anything."""
        if snapshot.scale is not None:
            if snapshot.scale == 1:
                return False
            self._scores = self._scores / np.float32(snapshot.scale)
        elif snapshot.scores is None:
            return False
        elif snapshot.is_partial:
            if self._ids is not None:
                raise ValueError("a partial snapshot needs the whole vocabulary before it")
            if snapshot.ids is None or len(snapshot.ids) == 0:
                return False
            self._scores = self._scores.copy()
            self._scores[snapshot.ids] = snapshot.scores
        else:
            self._ids, self._scores = snapshot.ids, snapshot.scores
        return True

    def _measure(self) -> None:
        scores = self._scores
        best = scores.max()
        is_left = scores > -np.inf
        left = int(np.count_nonzero(is_left))
        self._probability = 0.0
        at = self._index_of(self._token_id)
        if at is not None and left:
            weight = np.exp(scores - best)
            self._probability = float(weight[at]) / float(weight.sum(dtype=np.float64))
        # Stages only ever remove: where as many are left as before, they are the same ones.
        if left != self._left and len(self._watched):
            here = self._is_here(is_left, left)
            self.removed_by[~here & (self.removed_by == SURVIVED)] = self._stage
        self._left = left

    def _is_here(
        self, is_left: np.ndarray[Any, np.dtype[np.bool_]], left: int
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the watched tokens are among the candidates that are left."""
        if self._ids is None:
            here: np.ndarray[Any, np.dtype[np.bool_]] = is_left[self._watched]
            return here
        ids = self._ids if left == len(self._ids) else self._ids[is_left]
        if left > _FEW:
            return np.isin(self._watched, ids)
        few = frozenset(ids.tolist())
        return np.fromiter((i in few for i in self._watched.tolist()), np.bool_)

    def _index_of(self, token_id: int) -> int | None:
        if self._ids is None:
            return token_id
        found = np.flatnonzero(self._ids == token_id)
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
    uniform: float | None = None
    text: str = ""
    part: Literal["content", "reasoning"] = "content"
    context_used: int = 0
    held: bool = False

    def event(self, measurer: Measurer) -> TokenArrived | Held:
        measured = measurer.measure(self.scores, self.token_id, self.alternatives)
        replay = Replay(self.scores, self.token_id, measured.alternative_ids, measured)
        trace = TokenTrace(
            index=self.index,
            token_id=self.token_id,
            piece=self.piece,
            logprob=measured.logprob,
            rank=measured.rank,
            entropy=measured.entropy,
            alternative_ids=as_array(measured.alternative_ids),
            alternative_logprobs=as_array(measured.alternative_logprobs),
            stages=[replay.follow(snapshot) for snapshot in self.snapshots],
            ms=self.ms,
            removed_by=as_array(replay.removed_by) if self.snapshots else None,
            uniform=self.uniform,
        )
        if self.held:
            return Held(self.request_id, trace)
        return TokenArrived(self.request_id, trace, self.text, self.part, self.context_used)


class Outbox:
    """Sends everything that the engine says, in the order in which it was put in.

    One thread makes the events of tokens while the next decode runs. On a processor it takes its
    time from the threads that decode, so tokens that follow each other quickly are made and sent
    a few at a time: one that was put waits `GATHER_S` at most, and everything else wakes the
    thread at once. It is bounded: when the reader at the other end stops reading, `put` waits,
    and so does decoding.
    """

    GATHER_S: Final = 0.025
    _LIMIT: Final = 64
    _MOST_AT_ONCE: Final = 16

    def __init__(
        self,
        send: Callable[[Event], None],
        on_broken: Callable[[], None],
        send_all: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        """`send_all` may send several events with one write; `send` is used for one that fails."""
        self._send = send
        self._send_all = send_all
        self._on_broken = on_broken
        self._queue: queue.SimpleQueue[Event | TokenRecord | None] = queue.SimpleQueue()
        self._urgent = threading.Event()
        self._measurer: Measurer | None = None
        self._broken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, item: Event | TokenRecord) -> None:
        """Send `item` after everything before it; it is dropped when nobody reads any more."""
        while self._queue.qsize() >= self._LIMIT and not self._broken.is_set():
            time.sleep(0.002)
        if self._broken.is_set():
            return
        self._queue.put(item)
        if not isinstance(item, TokenRecord) or item.held or item.index < _FIRST:
            self._urgent.set()

    def close(self, timeout_s: float = 2.0) -> None:
        """Send what is left and end the thread."""
        self._queue.put(None)
        self._urgent.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while items := self._gather():
                self._send_few(items)
        except (OSError, ValueError):  # the pipe is closed: the window is gone
            self._broken.set()
            self._on_broken()

    def _gather(self) -> list[Event | TokenRecord]:
        """What there is to send now, at least one; empty at the end."""
        items: list[Event | TokenRecord] = []
        while len(items) < self._MOST_AT_ONCE:
            try:
                item = self._queue.get(block=not items)
            except queue.Empty:
                break
            if item is None:
                self._queue.put(None)  # found again when what came before it is sent
                break
            items.append(item)
        return items

    def _send_few(self, items: list[Event | TokenRecord]) -> None:
        began = time.monotonic()
        self._urgent.clear()
        if self._send_all is None or len(items) == 1:
            for item in items:
                self._send_one(item)
        else:
            self._send_together(items, self._send_all)
        if self._queue.qsize() == 0:
            self._urgent.wait(max(began + self.GATHER_S - time.monotonic(), 0.0))

    def _send_together(
        self, items: list[Event | TokenRecord], send_all: Callable[[Sequence[Event]], None]
    ) -> None:
        """With one write; one by one where one of them cannot be made or sent."""
        try:
            events = [self._event(item) for item in items]
            send_all(events)
        except (OSError, ValueError):
            raise
        except Exception:  # noqa: BLE001 - nothing was written yet; each is tried alone
            for item in items:
                self._send_one(item)

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
