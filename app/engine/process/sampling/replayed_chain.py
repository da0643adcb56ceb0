"""A chain whose random numbers are given: the same dice, other settings.

    scores ──the filters, llama.cpp's own──▶ what is left ──the given number──▶ token

llama.cpp's drawing samplers take their numbers from a generator that no one can set. So the filters
alone are its work here, XTC's too once it is decided whether it acts; the last step, adding up
shares until they reach the number, is done as `llama_sampler_dist` does it (softmax in float32, sum
in float64), and for mirostat and adaptive-p as libstdc++'s `discrete_distribution` does.

These two remember the draws before. Their cuts and shares are llama.cpp's own as well: mirostat
begins at mu = 2 · tau, so a sampler made with tau = mu ÷ 2 cuts as one that has come to mu; and
adaptive-p begins as if its target had always been reached, so one made with the target that it
has come to aim at weighs as that one does. What they remember is moved on by their formulas:

    mirostat      mu ← mu − eta · (surprise of the drawn token − tau)
                  Basu et al., "Mirostat: A neural text decoding algorithm …", ICLR 2021
    adaptive-p    aim = 2 · target − Σ decay^i · p(i) ÷ Σ decay^i,  p(i): of the i-th last token,
                  before the transform; counted only where the token that it drew was written
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.trace.effects import Snapshot
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.messages import SURVIVED
from app.engine.protocol.replay_messages import (
    BANNED_BEFORE,
    FORBIDDEN,
    AskedDraw,
    DrawExplained,
)
from app.engine.protocol.stages import (
    AdaptiveP,
    Greedy,
    Mirostat,
    MirostatV2,
    Sampling,
    SelectStage,
    Xtc,
)

NO_NUMBER: Final = "No number was drawn for this token."
NO_DECISION: Final = "The random number that decided whether XTC applies here wasn't recorded."
GRAMMAR: Final = (
    "The grammar rejects the token that the number selects, and there is no number for a second "
    "draw."
)

N_LISTED: Final = 64
N_AFTER: Final = 16
"""Of the best after the chain, which may be others than those before."""

_Ids = np.ndarray[Any, np.dtype[np.int32]]
_Float = np.float32


class Undecided(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """What would be drawn does not follow from the numbers that are given."""


class Drawn(msgspec.Struct, frozen=True):
    """A token, its share, and how many were left."""

    token_id: int
    share: float
    left: int


def remembers(select: SelectStage) -> bool:
    """Whether a selecting stage draws by what it drew before."""
    return isinstance(select, Mirostat | MirostatV2) or (
        isinstance(select, AdaptiveP) and select.target >= 0
    )


class _Surprise:
    """What mirostat remembers: mu, in float32 as llama.cpp has it."""

    def __init__(self, stage: Mirostat | MirostatV2, n_vocab: int) -> None:
        self._stage, self._n_vocab = stage, n_vocab
        self.value = _Float(2) * _Float(stage.tau)

    def apply(self, candidates: Candidates) -> None:
        stage, tau = self._stage, float(self.value / _Float(2))
        _apply_once(
            llama.llama_sampler_init_mirostat(self._n_vocab, 0, tau, stage.eta, stage.m)
            if isinstance(stage, Mirostat)
            else llama.llama_sampler_init_mirostat_v2(0, tau, stage.eta),
            candidates,
        )

    def draws(self, token_id: int, share: np.float32) -> None:
        del token_id
        surprise = -np.log2(share, dtype=np.float32)
        off = surprise - _Float(self._stage.tau)
        self.value = self.value - _Float(self._stage.eta) * off

    def accept(self, token_id: int) -> None:
        """Nothing: the draw alone counts."""


class _Mean:
    """What adaptive-p remembers: the mean probability of what it drew, older ones less."""

    def __init__(self, stage: AdaptiveP) -> None:
        one = _Float(1)
        self._target = _Float(stage.target)
        self._decay = min(max(_Float(stage.decay), _Float(0)), _Float(0.99))
        self._sum = self._target / (one - self._decay)
        self._weight = one / (one - self._decay)
        self._before: dict[int, np.float32] = {}
        self._pending: tuple[int, np.float32] | None = None

    @property
    def value(self) -> np.float32:
        """The probability that is aimed at now."""
        target = min(max(self._target, _Float(0)), _Float(1))
        aim = _Float(2) * target - self._sum / self._weight
        return min(max(aim, _Float(0)), _Float(1))

    def apply(self, candidates: Candidates) -> None:
        _apply_once(llama.llama_sampler_init_adaptive_p(-1.0, 0.0, 0), candidates)  # softmax
        left = candidates.view
        self._before = dict(zip(left["id"].tolist(), left["p"].copy(), strict=True))
        _apply_once(llama.llama_sampler_init_adaptive_p(float(self.value), 0.0, 0), candidates)

    def draws(self, token_id: int, share: np.float32) -> None:
        del share
        self._pending = (token_id, self._before.get(token_id, _Float(0)))

    def accept(self, token_id: int) -> None:
        if self._pending is not None and self._pending[0] == token_id:
            self._sum = self._pending[1] + self._decay * self._sum
            self._weight = _Float(1) + self._decay * self._weight
        self._pending = None


def _apply_once(sampler: Any, candidates: Candidates) -> None:
    llama.llama_sampler_apply(sampler, candidates.reference)
    llama.llama_sampler_free(sampler)


@dataclass(slots=True)
class _Followed:
    """Candidates whose end is noted. `ids`: ascending; `removed_by`: of each."""

    ids: _Ids
    removed_by: np.ndarray[Any, np.dtype[np.uint8]]
    left: dict[int, int]
    """By the place of the stage."""

    def note(self, candidates: Candidates, removed_by: int) -> int:
        """Who is left now; how many of all."""
        view = candidates.view
        there = view["id"][view["logit"] > -np.inf]
        gone = ~np.isin(self.ids, there) & (self.removed_by == SURVIVED)
        self.removed_by[gone] = removed_by
        return len(there)


class ReplayedChain(Chain):
    """A chain whose numbers are given. `draw` may not be called."""

    def __init__(self, sampling: Sampling, *, n_vocab: int, **named: Any) -> None:
        filters = [
            msgspec.structs.replace(s, probability=1.0 if s.probability > 0 else 0.0)
            if isinstance(s, Xtc)
            else s
            for s in sampling.filters
        ]
        super().__init__(
            msgspec.structs.replace(sampling, filters=filters, seed=sampling.seed or 0),
            n_vocab=n_vocab,
            **named,
        )
        self._select = sampling.select
        chances = (s.probability for s in sampling.filters if isinstance(s, Xtc))
        xtc = (at for at, step in enumerate(self._steps) if step.name == "xtc")
        self._xtc = {
            id(self._steps[at]): (nth, _Float(chance))
            for nth, (at, chance) in enumerate(zip(xtc, chances, strict=True))
        }
        self._given: Sequence[float | None] = ()
        self._memory: _Surprise | _Mean | None = None
        if isinstance(self._select, Mirostat | MirostatV2):
            self._memory = _Surprise(self._select, n_vocab)
        elif isinstance(self._select, AdaptiveP) and remembers(self._select):
            self._memory = _Mean(self._select)
        self._followed: _Followed | None = None
        self.explained: DrawExplained | None = None

    # --- a draw ---------------------------------------------------------------------------------

    def replayed(
        self,
        scores: Scores,
        candidates: Candidates,
        asked: AskedDraw,
        *,
        written: int = -1,
        explain: bool = False,
    ) -> Drawn:
        """The token on which the number falls. `written`: the one that stands there; what was
        chosen by hand counts as drawn. With `explain` there is `explained` then, also where it
        raises Undecided. Raises NoCandidate or Undecided."""
        memory = None if self._memory is None else float(self._memory.value)
        self._given = asked.deciding
        self._fill(scores, candidates, asked.banned, None)
        if explain:
            self._followed = _follow(scores, candidates, written)
        drawn = self._through(candidates, asked.uniform, written)
        is_second = drawn is not None and not self.allows(drawn.token_id)
        if is_second:
            if asked.again is None and not isinstance(self._select, Greedy):
                raise Undecided(GRAMMAR)
            self._given = asked.deciding_again
            self._fill(scores, candidates, asked.banned, None)
            if explain:
                self._followed = _follow(scores, candidates, written)
            assert self._grammar is not None
            self._grammar.mask(candidates)
            if not math.isfinite(float(np.max(candidates.view["logit"]))):
                return Drawn(self._only_end(), 1.0, 1)
            if self._followed is not None:
                self._followed.note(candidates, FORBIDDEN)
            drawn = self._through(candidates, asked.again, written)
        if self._followed is not None:
            self.explained = self._explained(scores, candidates, drawn, memory, is_second)
            self._followed = None
        if drawn is None:
            raise Undecided(NO_NUMBER)
        return drawn

    def _through(self, candidates: Candidates, uniform: float | None, written: int) -> Drawn | None:
        """All stages; None where there is no number to draw with."""
        selected, _ = self._apply(candidates, None)
        left = candidates.view
        n_left = int(np.count_nonzero(left["logit"] > -np.inf))
        if isinstance(self._select, Greedy):
            place = int(np.flatnonzero(left["id"] == selected)[0])
        elif uniform is None and len(left) > 1:
            self._take_written(left, written)
            return None
        else:
            place = self._under(left, uniform or 0.0)
        shares = self._shares(left, place)
        token_id, share = int(left["id"][place]), float(shares[place])
        if self._memory is not None:
            self._memory.draws(token_id, left["p"][place])
        return Drawn(token_id, share, n_left)

    def _take_written(self, left: np.ndarray[Any, Any], written: int) -> None:
        """What was chosen by hand is what was drawn, if these settings leave it."""
        place = np.flatnonzero(left["id"] == written)
        if self._memory is not None and len(place) and left["p"][place[0]] > 0:
            self._memory.draws(written, left["p"][place[0]])

    def _under(self, left: np.ndarray[Any, Any], uniform: float) -> int:
        """The place of the candidate on which the number falls."""
        if self._memory is not None:
            together = np.cumsum(left["p"].astype(np.float64) / _in_turn(left["p"]))
            together[-1] = 1.0
            return int(np.searchsorted(together, uniform))
        weights = np.exp(left["logit"] - left["logit"].max())
        together = np.cumsum(weights, dtype=np.float64)
        reached = together >= uniform * float(together[-1])
        return int(np.argmax(reached)) if reached.any() else len(left) - 1

    def _shares(self, left: np.ndarray[Any, Any], place: int) -> np.ndarray[Any, Any]:
        """By which each candidate that is left is drawn."""
        if isinstance(self._select, Greedy):
            return np.asarray(np.arange(len(left)) == place, np.float64)
        weights = np.exp((left["logit"] - left["logit"].max()).astype(np.float64))
        return np.asarray(weights / weights.sum())

    def accept(self, token_id: int) -> None:
        super().accept(token_id)
        if self._memory is not None:
            self._memory.accept(token_id)

    # --- its stages -----------------------------------------------------------------------------

    def _apply_one(
        self,
        step: Any,
        candidates: Candidates,
        is_whole: bool,
        snapshots: list[Snapshot] | None,
    ) -> bool:
        if step is self._steps[-1] and self._memory is not None:
            self._memory.apply(candidates)
        elif step.name != "xtc" or self._acts(step, int(candidates.native.size)):
            is_whole = super()._apply_one(step, candidates, is_whole, snapshots)
        if self._followed is not None:
            place = next(at for at, each in enumerate(self._steps) if each is step)
            self._followed.left[place] = self._followed.note(candidates, place)
        return is_whole

    def _acts(self, step: Any, size: int) -> bool:
        """Whether XTC would act with its own probability and the number that is given."""
        at, chance = self._xtc[id(step)]
        if chance >= 1 or size < 2:
            return True
        number = self._given[at] if at < len(self._given) else None
        if number is None:
            raise Undecided(NO_DECISION)
        return bool(_Float(number) <= chance)

    # --- telling --------------------------------------------------------------------------------

    def _explained(
        self,
        scores: Scores,
        candidates: Candidates,
        drawn: Drawn | None,
        memory: float | None,
        is_second: bool,
    ) -> DrawExplained:
        followed = self._followed
        assert followed is not None
        left = candidates.view
        at = 0 if drawn is None else int(np.flatnonzero(left["id"] == drawn.token_id)[0])
        shares = self._shares(left, at)
        best = np.argsort(-shares, kind="stable")[:N_AFTER]
        some = left["id"][best[shares[best] > 0]]
        more = np.setdiff1d(some, followed.ids)
        ids = np.concatenate([followed.ids, more]).astype(np.int32)
        removed_by = np.concatenate([followed.removed_by, np.full(len(more), SURVIVED, np.uint8)])
        order = np.argsort(-scores[ids], kind="stable")
        ids, removed_by = ids[order], removed_by[order]
        by_id = np.zeros(len(scores))
        by_id[left["id"]] = shares
        if isinstance(self._select, Greedy):
            removed_by[(removed_by == SURVIVED) & (by_id[ids] == 0)] = len(self._steps) - 1
        exact = scores.astype(np.float64)
        log_total = float(exact.max()) + math.log(float(np.exp(exact - exact.max()).sum()))
        logprobs = np.minimum(exact - log_total, 0.0)
        n_left, lefts = len(scores), []
        for place in range(len(self._steps)):
            n_left = followed.left.get(place, n_left)
            lefts.append(n_left)
        if isinstance(self._select, Greedy):
            lefts[-1] = 1
        return DrawExplained(
            as_array(ids),
            as_array(scores[ids].astype(np.float32)),
            as_array(logprobs[ids].astype(np.float32)),
            as_array(by_id[ids].astype(np.float32)),
            as_array(removed_by),
            lefts,
            _entropy(np.exp(logprobs)),
            _entropy(shares),
            memory,
            is_second,
        )


def _follow(scores: Scores, candidates: Candidates, written: int) -> _Followed:
    """The best before the stages, and the token that was written."""
    count = min(N_LISTED, len(scores))
    best = np.argpartition(-scores, count - 1)[:count]
    also = [written] if 0 <= written < len(scores) else []
    ids = np.unique(np.concatenate([best, also])).astype(np.int32)
    followed = _Followed(ids, np.full(len(ids), SURVIVED, np.uint8), {})
    followed.note(candidates, BANNED_BEFORE)
    return followed


def _in_turn(numbers: np.ndarray[Any, Any]) -> np.float64:
    """Their sum in double precision, one after the other."""
    return np.float64(np.cumsum(numbers, dtype=np.float64)[-1])


def _entropy(shares: np.ndarray[Any, Any]) -> float:
    """In bits."""
    some = shares[shares > 0]
    return max(float(-(some * np.log2(some)).sum()), 0.0)
