"""What the stages of a sampling chain did to the candidates, found out beside the next decode.

The decoding thread leaves a `Snapshot` per stage, as little as says everything; `StageFollower`
follows them and tells how many candidates each stage left, what share the drawn token then had, and
which of the watched tokens it removed. It costs the decoding thread 0.02 to 0.5 ms a token.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from app.engine.process.native.arrays import CANDIDATE
from app.engine.process.trace.measuring import Measured
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.messages import SURVIVED, StageEffect

_FEW: Final = 128

_CANDIDATE: Final = struct.Struct("<iff")

_NO_SCORES: Final = np.empty(0, np.float32)

_GONE: Final = 1 << 40
"""The place of a token that is not among the candidates."""

_Ids = np.ndarray[Any, np.dtype[np.int32]]


class Snapshot(msgspec.Struct, frozen=True):
    """What one stage changed, as little of it as says everything; evaluated on another thread.

    Copying 262,144 candidates after every stage would cost more than the stages. So:

    * nothing given: the stage left the candidates and their scores as they were;
    * `scale`: it divided all scores by this number;
    * `first`: it kept the first so many of the candidates that the stage before it left;
    * `is_partial`: `ids` now have `scores`, all others are as before;
    * `scores` without `ids`: the scores of the whole vocabulary, by ID;
    * `left`: these candidates are left, as llama.cpp has them one after the other (int32 ID,
      float32 score, float32 that means nothing here).

    `uniform`: the number that the stage drew, if it did.
    """

    stage: str
    ids: _Ids | None = None
    scores: Scores | None = None
    scale: float | None = None
    is_partial: bool = False
    first: int | None = None
    left: bytes | None = None
    uniform: float | None = None


def are_complete(snapshots: Sequence[Snapshot]) -> bool:
    """Whether what the stages did can be followed without the scores that they began with: none
    changed anything, or the first that did says of each candidate that it left how it stands."""
    for each in snapshots:
        if each.left is not None:
            return len(each.left) <= _FEW * _CANDIDATE.size
        if each.first is not None or each.scores is not None or each.scale not in (None, 1):
            return False
    return True


class StageFollower:
    """The candidates as one stage after the other left them, beginning with all scores.

    >>> follower = StageFollower(np.array([2, 1, 0], np.float32), 0, np.array([0, 1], np.int32))
    >>> follower.follow(Snapshot("top-k", left=struct.pack("<iff", 0, 2.0, 0.0)))
    StageEffect(stage='top-k', left=1, probability=1.0, uniform=None)
    >>> follower.removed_by.tolist()
    [255, 0]
    """

    def __init__(
        self, scores: Scores | None, token_id: int, watched: _Ids, before: Measured | None = None
    ) -> None:
        """`before`: the same scores as already measured, which saves doing it again. None can stand
        for the scores where the snapshots `are_complete`."""
        self._now: _Whole | _Few = _Whole(None, _NO_SCORES if scores is None else scores)
        self._n_vocab = 0 if scores is None else len(scores)
        self._token_id = token_id
        self._watched: list[int] = watched.tolist()
        self._places = self._watched
        self._place = token_id
        self._stage = 0
        self._left = 0 if before is None else before.left
        self._probability = None if before is None else math.exp(before.logprob)
        self._removed = bytearray([SURVIVED]) * len(watched)
        self._alive: Sequence[int] = range(len(watched))
        """Which of the watched ones no stage has removed so far."""

    @property
    def removed_by(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """For each watched token the index of the stage that removed it, or SURVIVED."""
        return np.frombuffer(bytes(self._removed), np.uint8)

    def follow(self, snapshot: Snapshot) -> StageEffect:
        """Go on to after this stage: how many candidates are left, and the share of the token."""
        if self._take(snapshot) or self._probability is None:
            left, self._probability = self._now.share(self._place)
            # Stages only ever remove: where as many are left as before, they are the same ones.
            if left != self._left:
                self._note_removed()
            self._left = left
        assert self._probability is not None
        self._stage += 1
        return StageEffect(snapshot.stage, self._left, self._probability, snapshot.uniform)

    def _take(self, snapshot: Snapshot) -> bool:
        """Whether the stage changed anything."""
        if snapshot.scale is not None:
            if snapshot.scale == 1:
                return False
            self._now = self._now.scaled(snapshot.scale)
        elif snapshot.first is not None:
            self._now = self._now.first(snapshot.first)
        elif snapshot.left is not None:
            self._take_left(snapshot.left)
        elif snapshot.scores is None:
            return False
        elif snapshot.is_partial:
            if snapshot.ids is None or len(snapshot.ids) == 0:
                return False
            self._now = self._now.changed(snapshot.ids, snapshot.scores)
        else:
            self._now = _Whole(None, snapshot.scores)
            self._places, self._place = self._watched, self._token_id
        return True

    def _take_left(self, left: bytes) -> None:
        """These candidates, and where the token and the watched ones lie among them."""
        if len(left) <= _FEW * _CANDIDATE.size:
            count = len(left) // _CANDIDATE.size
            numbers = struct.unpack("<" + count * "iff", left)
            self._now = _Few(list(numbers[1::3]))
            place_of = dict(zip(numbers[::3], range(count), strict=True)).get
            self._places = [place_of(token_id, _GONE) for token_id in self._watched]
            self._place = place_of(self._token_id, _GONE)
            return
        table = np.frombuffer(left, CANDIDATE)
        ids = table["id"].copy()
        self._now = _Whole(ids, table["logit"].copy())
        place_by_id = np.full(self._n_vocab, _GONE, np.int64)
        place_by_id[ids] = np.arange(len(ids))
        self._places = place_by_id[self._watched].tolist()
        self._place = int(place_by_id[self._token_id])

    def _note_removed(self) -> None:
        kept = self._now.kept(self._alive, self._places)
        if len(kept) < len(self._alive):
            for watched in set(self._alive).difference(kept):
                self._removed[watched] = self._stage
            self._alive = kept


class _Whole:
    """Many candidates, of the whole vocabulary or with their IDs: numpy's work."""

    def __init__(self, ids: _Ids | None, scores: Scores) -> None:
        self._ids = ids
        self._scores = scores

    def scaled(self, by: float) -> _Whole:
        return _Whole(self._ids, self._scores / np.float32(by))

    def first(self, count: int) -> _Whole:
        return _Whole(self._ids, self._scores[:count])

    def changed(self, ids: _Ids, scores: Scores) -> _Whole:
        if self._ids is not None:
            raise ValueError("a partial snapshot needs the whole vocabulary before it")
        copy = self._scores.copy()
        copy[ids] = scores
        return _Whole(None, copy)

    def share(self, place: int) -> tuple[int, float]:
        """How many have a finite score, and the share of the one at `place`."""
        scores = self._scores
        left = int(np.count_nonzero(scores > -np.inf))
        if not left or place >= len(scores):
            return left, 0.0
        weight = np.exp(scores - scores.max())
        return left, float(weight[place]) / float(weight.sum(dtype=np.float64))

    def kept(self, watched: Sequence[int], places: Sequence[int]) -> list[int]:
        """Those of the watched ones whose place has a finite score."""
        at = np.array([places[each] for each in watched], np.int64)
        is_kept = at < len(self._scores)
        is_kept[is_kept] = self._scores[at[is_kept]] > -np.inf
        return [each for each, stays in zip(watched, is_kept.tolist(), strict=True) if stays]


class _Few:
    """The same for a few candidates: lists of Python's, since between two decodes the caches are
    cold and a handful of calls of numpy's costs more than a loop over forty numbers."""

    def __init__(self, scores: list[float]) -> None:
        self._scores = scores
        self._weights: list[float] | None = None

    def scaled(self, by: float) -> _Few:
        return _Few([score / by for score in self._scores])

    def first(self, count: int) -> _Few:
        few = _Few(self._scores[:count])
        few._weights = None if self._weights is None else self._weights[:count]
        return few

    def changed(self, ids: _Ids, scores: Scores) -> _Few:
        raise ValueError("a partial snapshot needs the whole vocabulary before it")

    def share(self, place: int) -> tuple[int, float]:
        scores = self._scores
        left = len(scores) - scores.count(-math.inf)
        if not left or place >= len(scores):
            return left, 0.0
        if self._weights is None:
            best = max(scores)
            self._weights = [math.exp(score - best) for score in scores]
        return left, self._weights[place] / sum(self._weights)

    def kept(self, watched: Sequence[int], places: Sequence[int]) -> list[int]:
        scores, count = self._scores, len(self._scores)
        if -math.inf not in scores:
            return [each for each in watched if places[each] < count]
        return [
            each
            for each in watched
            if (place := places[each]) < count and scores[place] > -math.inf
        ]
