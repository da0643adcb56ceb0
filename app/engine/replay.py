"""What the stages of a sampling chain did to the candidates, found out beside the next decode.

The decoding thread leaves a `Snapshot` per stage, as little as says everything; `Replay` follows
them and tells how many candidates each stage left, what share the drawn token then had, and which
of the watched tokens it removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.engine.measuring import Measured
from app.engine.protocol import StageEffect
from app.engine.shortlist import Scores

SURVIVED: Final = 255
_FEW: Final = 2048
"""Up to so many, a dictionary of Python's is quicker than numpy's sorting."""

_GONE: Final = 1 << 40
"""The place of a token that is not among the candidates."""

_Ids = np.ndarray[Any, np.dtype[np.int32]]
_Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one stage changed, as little of it as says everything; evaluated on another thread.

    Copying 262,144 candidates after every stage would cost more than the stages. So:

    * nothing given: the stage left the candidates and their scores as they were;
    * `scale`: it divided all scores by this number;
    * `first`: it kept the first so many of the candidates that the stage before it left;
    * `is_partial`: `ids` now have `scores`, all others are as before;
    * `scores` without `ids`: the scores of the whole vocabulary, by ID;
    * `ids` and `scores`: these candidates are left.
    """

    stage: str
    ids: _Ids | None = None
    scores: Scores | None = None
    scale: float | None = None
    is_partial: bool = False
    first: int | None = None


class Replay:
    """The candidates as one stage after the other left them, beginning with all scores.

    >>> replay = Replay(np.array([2, 1, 0], np.float32), 0, np.array([0, 1], np.int32))
    >>> replay.follow(Snapshot("top-k", np.array([0], np.int32), np.array([2], np.float32)))
    StageEffect(stage='top-k', left=1, probability=1.0)
    >>> replay.removed_by.tolist()
    [255, 0]
    """

    def __init__(
        self, scores: Scores, token_id: int, watched: _Ids, before: Measured | None = None
    ) -> None:
        """`before`: the same scores as already measured, which saves doing it again."""
        self._ids: _Ids | None = None
        self._scores = scores
        self._token_id = token_id
        self._watched = watched
        self._places: _Places = watched.astype(np.int64)
        self._place = token_id
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
        elif snapshot.first is not None:
            self._scores = self._scores[: snapshot.first]
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
            self._scores = snapshot.scores
            self._find_places(snapshot.ids)
        return True

    def _find_places(self, ids: _Ids | None) -> None:
        """Where the token and the watched ones lie among the candidates."""
        self._ids = ids
        if ids is None:
            self._places, self._place = self._watched.astype(np.int64), self._token_id
        elif len(ids) <= _FEW:
            place_of = {token_id: place for place, token_id in enumerate(ids.tolist())}.get
            places = [place_of(token_id, _GONE) for token_id in self._watched.tolist()]
            self._places, self._place = np.array(places, np.int64), place_of(self._token_id, _GONE)
        else:
            order = np.argsort(ids)
            wanted = np.append(self._watched, np.int32(self._token_id))
            at = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
            found = np.where(ids[order[at]] == wanted, order[at], _GONE)
            self._places, self._place = found[:-1], int(found[-1])

    def _measure(self) -> None:
        scores = self._scores
        is_left = scores > -np.inf
        left = int(np.count_nonzero(is_left))
        self._probability = 0.0
        if left and self._place < len(scores):
            weight = np.exp(scores - scores.max())
            self._probability = float(weight[self._place]) / float(weight.sum(dtype=np.float64))
        # Stages only ever remove: where as many are left as before, they are the same ones.
        if left != self._left and len(self._watched):
            gone = self._places >= len(scores)
            if left < len(scores):
                gone |= ~is_left[np.minimum(self._places, len(scores) - 1)]
            self.removed_by[gone & (self.removed_by == SURVIVED)] = self._stage
        self._left = left
