"""The candidates of one draw, as far as they were recorded, and what softmax makes of them.

A model gives every token of its vocabulary a raw score, the *logit*. *Softmax* turns logits into
probabilities that add up to 1:

    p(i) = e^l(i) / (e^l(1) + e^l(2) + … + e^l(n))

Recorded are the log-probabilities ln p of the 64 best. A logit is known from them up to a constant
that is the same for all, since ln p(i) = l(i) − C; and softmax does not notice a constant:

    e^(l(i) − C) / Σ e^(l(j) − C)  =  e^l(i) / Σ e^l(j)

So scores are told relative to the best one, which has 0, and nothing is lost but the constant. It
is recorded, too (`TokenTrace.log_total`), for whoever wants to see the logits themselves.

All other tokens of the vocabulary are the *rest*. Of them one thing is known exactly, their
probability together: what the recorded ones leave of 1. And one more: none is more probable than
the last recorded one. From the two it follows how much they can weigh after a temperature, from
`low` to `high`; where that is not one number, shares are told from … to ….
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import unpack
from app.insight.trace.alternatives import has_ids
from app.insight.trace.columns import LOGPROB_TOLERANCE, STEPS_PER_NAT

FLOAT32: Final = 2.0**-24
"""The most that one float32 operation is wrong by, relative to its result."""

RECORD_ERROR: Final = 4e-6
"""Log-probabilities are recorded in float32: so far from the true one a score may be."""

SUM_ERROR: Final = 2e-5
"""So far the sum that they were divided by may be wrong, and with it what is left of 1."""

_MOST_EXPONENT: Final = 700.0


class CannotTell(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """What happens next does not follow from what was recorded."""

    @property
    def sentence(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Rest:
    """The candidates that were not recorded. There are at most `most`; none has a larger score than
    `ceiling`; e^score adds up to something from `low` to `high` over all of them."""

    most: int = 0
    ceiling: float = -math.inf
    low: float = 0.0
    high: float = 0.0

    def __bool__(self) -> bool:
        return self.most > 0 and self.high > 0


NO_REST: Final = Rest()

Layout = tuple[int, ...] | bool
"""How llama.cpp has the candidates one after the other: IDs in their order; True: the best one
first; False: by ID."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates before or after a stage. `ids` and `scores`: of those that were recorded and
    are left, the best first, with 0. `size`: how many entries llama.cpp's array has, those with no
    chance (−∞) too. `slack`: so much a score may be wrong. `best`: the logit of the best one, where
    it is known: add it to a score, and that is a logit."""

    ids: tuple[int, ...]
    scores: tuple[float, ...]
    rest: Rest
    size: int
    layout: Layout = False
    slack: float = RECORD_ERROR
    best: float | None = None

    @property
    def weights(self) -> list[float]:
        """e^score: what softmax divides by their sum."""
        return [math.exp(score) for score in self.scores]

    def in_native_order(self) -> list[int]:
        """Places in `ids`, in the order in which llama.cpp has them."""
        if self.layout is True:
            return list(range(len(self.ids)))
        if self.layout is False:
            return sorted(range(len(self.ids)), key=self.ids.__getitem__)
        place = {token_id: at for at, token_id in enumerate(self.ids)}
        return [place[token_id] for token_id in self.layout if token_id in place]


@dataclass(frozen=True, slots=True)
class Between:
    """A number that lies from `low` to `high`; mostly the two are the same."""

    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high


def recorded(token: TokenTrace, n_vocab: int) -> Pool:
    """The candidates of a token before the first stage. Raises CannotTell where none are known.

    In a stored trace they are rounded, all but the drawn one: then scores may be wrong by as much.
    """
    if not has_ids(token):
        raise CannotTell("The server that wrote this reply doesn't say the token IDs.")
    ids, logprobs = unpack(token.alternative_ids), list(unpack(token.alternative_logprobs))
    slack = RECORD_ERROR
    if all((lp * STEPS_PER_NAT).is_integer() for lp in logprobs if math.isfinite(lp)):
        slack += LOGPROB_TOLERANCE
    if token.token_id in ids:
        at = ids.index(token.token_id)
        above = logprobs[at - 1] if at else math.inf
        below = logprobs[at + 1] if at + 1 < len(logprobs) else -math.inf
        logprobs[at] = min(max(token.logprob, below), above)  # the order stays
    return replace(pool_of(ids, logprobs, n_vocab), slack=slack, best=best_logit(token))


def best_logit(token: TokenTrace) -> float | None:
    """The logit of the best candidate: add it to a score of the pool, and that is a logit. None
    where it was not recorded."""
    logprobs = unpack(token.alternative_logprobs)
    return None if token.log_total is None or not logprobs else logprobs[0] + token.log_total


def pool_of(ids: Sequence[int], logprobs: Sequence[float], n_vocab: int) -> Pool:
    """The same from IDs and log-probabilities, the best first.

    Three of ten tokens were recorded, with 50, 20 and 10 %: the seven others have 20 % together.

    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.5, 0.2, 0.1)], 10)
    >>> [round(score, 3) for score in pool.scores]
    [0.0, -0.916, -1.609]
    >>> [round(share.low, 3) for share in shares(pool)], round(rest_share(pool).low, 3)
    ([0.5, 0.2, 0.1], 0.2)
    """
    pairs = [(i, min(lp, 0.0)) for i, lp in zip(ids, logprobs, strict=False) if lp > -math.inf]
    if not pairs or pairs[0][1] < -_MOST_EXPONENT:
        raise CannotTell("The candidates of this token weren't recorded.")
    best = pairs[0][1]
    scores = tuple(lp - best for _, lp in pairs)
    left_over = max(1.0 - math.fsum(math.exp(lp) for _, lp in pairs), 0.0)
    scale = math.exp(-best)
    most, high = max(n_vocab - len(pairs), 0), (left_over + SUM_ERROR) * scale
    rest = Rest(
        most,
        min(scores[-1], math.log(high)),  # one alone weighs no more than all of them together
        max(left_over - SUM_ERROR, 0.0) * scale,
        high,
    )
    return Pool(tuple(i for i, _ in pairs), scores, rest if most else NO_REST, n_vocab)


def shares(pool: Pool) -> list[Between]:
    """Softmax: the share of each candidate of all that are left, in the order of `pool.ids`.

    >>> shares(Pool((4, 5), (0.0, 0.0), NO_REST, 2))
    [Between(low=0.5, high=0.5), Between(low=0.5, high=0.5)]
    """
    weights = pool.weights
    total = math.fsum(weights)
    least, most = total + pool.rest.low, total + pool.rest.high
    return [Between(weight / most, weight / least) for weight in weights]


def rest_share(pool: Pool) -> Between:
    """What all that were not recorded have together, as far as they are left."""
    total, rest = math.fsum(pool.weights), pool.rest
    if not rest:
        return Between(0.0, 0.0)
    return Between(rest.low / (total + rest.low), rest.high / (total + rest.high))


def entropy_bits(pool: Pool) -> Between:
    """How unsure the draw is: −Σ p log2 p, in bits. One candidate: 0; two equal ones: 1; eight: 3.

    >>> entropy_bits(Pool((4, 5), (0.0, 0.0), NO_REST, 2)).high
    1.0

    The rest adds least where it is few tokens as probable as they may be, and most where it is all
    of them, equally probable. Each of its tokens surprises more than the mean, so more rest is more
    entropy.
    """
    rest = pool.rest
    if not rest:
        nats = _entropy(pool, 0.0, 0.0)
        return Between(nats / math.log(2), nats / math.log(2))
    low = _entropy(pool, rest.low, rest.low * rest.ceiling)
    spread = rest.high * math.log(rest.high / rest.most)
    high = _entropy(pool, rest.high, spread)
    return Between(min(low, high) / math.log(2), max(low, high) / math.log(2))


def _entropy(pool: Pool, rest: float, rest_sum: float) -> float:
    """−Σ p ln p = ln T − Σ w·s / T, with w = e^s and T their sum; `rest_sum`: the rest's Σ w·s."""
    weights = pool.weights
    total = math.fsum(weights) + rest
    weighed = math.fsum(w * s for w, s in zip(weights, pool.scores, strict=True)) + rest_sum
    return max(math.log(total) - weighed / total, 0.0)


# --- what all stages are made of ----------------------------------------------------------------


def heated(pool: Pool, t: float, *, wrong_by: float = 0.0) -> Pool:
    """All scores divided by a temperature. Of the rest only bounds follow: with a = 1/t and none
    above the ceiling c, each weight w = e^s becomes

        w^a = w · w^(a−1), which is  ≤ w · e^(c·(a−1))  where a > 1,  and ≥ that  where a < 1

    and for the other side the sum is least (a > 1) or most (a < 1) where all weigh the same.

    >>> [round(s, 2) for s in heated(Pool((1, 2), (0.0, -1.0), NO_REST, 2), 0.5).scores]
    [0.0, -2.0]
    """
    a, rest = 1.0 / t, pool.rest
    if rest:

        def bound(weight: float) -> tuple[float, float]:
            if weight <= 0:
                return 0.0, 0.0
            by_ceiling = _exp(math.log(weight) + (a - 1) * rest.ceiling)
            if_equal = _exp(math.log(rest.most) + a * math.log(weight / rest.most))
            return min(by_ceiling, if_equal), max(by_ceiling, if_equal)

        rest = Rest(rest.most, rest.ceiling * a, bound(rest.low)[0], bound(rest.high)[1])
    return replace(
        pool,
        scores=tuple(score / t for score in pool.scores),
        rest=rest,
        slack=(pool.slack + RECORD_ERROR + wrong_by) / t,
        best=None if pool.best is None else pool.best / t,
    )


def based(pool: Pool) -> Pool:
    """The same with 0 as the best score."""
    best = pool.scores[0]
    if best == 0:
        return pool
    scale, rest = _exp(-best), pool.rest
    if rest:
        rest = Rest(rest.most, rest.ceiling - best, rest.low * scale, rest.high * scale)
    scores = tuple(score - best for score in pool.scores)
    logit = None if pool.best is None else pool.best + best
    return replace(pool, scores=scores, rest=rest, best=logit)


def first(pool: Pool, count: int, *, size: int | None = None, layout: Layout | None = None) -> Pool:
    """The first `count` recorded candidates and nothing of the rest."""
    return replace(
        pool,
        ids=pool.ids[:count],
        scores=pool.scores[:count],
        rest=NO_REST,
        size=count if size is None else size,
        layout=pool.layout if layout is None else layout,
    )


def fewer_rest(pool: Pool, most: int, size: int) -> Pool:
    """All recorded ones and the best `most` of the rest, which have at least the mean's share."""
    rest = pool.rest
    low = rest.low * most / rest.most
    high = min(rest.high, most * math.exp(rest.ceiling))
    return replace(pool, rest=Rest(most, rest.ceiling, min(low, high), high), size=size)


def _exp(x: float) -> float:
    return math.exp(min(x, _MOST_EXPONENT))
