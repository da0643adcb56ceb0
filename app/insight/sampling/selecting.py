"""What the selecting stage makes of the candidates that the filters left, before a number falls.

    greedy        the best one alone
    dist          all of them, as they are
    mirostat 1    the k best, where k is estimated from how fast probabilities fall with their rank
    mirostat 2    those whose surprise, −log2 p, is not above a limit mu
    adaptive-p    all, weighed by how near they are to the probability that it aims at

The last three remember: mirostat its limit, adaptive-p the mean probability of what it drew. Their
memory moves with every draw, so the one before a token follows from all draws before it:

    mu ← mu − eta · (surprise of the drawn token − tau)                 begins at 2 · tau
    aim = 2 · target − (Σ decay^i · p(i)) ÷ (Σ decay^i)                 begins at the target

Formulas: llama-sampler.cpp; Basu et al., "Mirostat: A neural text decoding algorithm that directly
controls perplexity", ICLR 2021. As in `filters.py` nothing is said that does not follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.protocol.stages import AdaptiveP, Greedy, Mirostat, MirostatV2, SelectStage
from app.insight.sampling.filters import TOO_CLOSE
from app.insight.sampling.pool import NO_REST, CannotTell, Pool, based, first

BEYOND: Final = "These settings keep candidates outside the recorded {count}."
TOO_MANY: Final = (
    "Mirostat's k is larger than llama.cpp can count here, and what it keeps then isn't defined."
)
UNKNOWN_BEFORE: Final = "This depends on an earlier draw that the record doesn't determine."

_MOST_WRONG: Final = 0.05
"""More than that a memory may not be off, in bits or as a probability."""
_WIDTH: Final = 0.3
_PEAK: Final = 5.0
_SHARPNESS: Final = 10.0
"""Adaptive-p's constants in llama.cpp."""
_LONGEST_DECAY: Final = 0.99
_COUNTED: Final = 2.0**31
_FLOAT_BITS: Final = 128.0
"""k is cast from a float to an int: the bounds of the one, and of 2^mu in the other."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of mirostat `value` is its limit mu, in bits; of adaptive-p it is the decaying sum of
    probabilities, and `weight` that of ones. `slack`: so much the limit or aim may be wrong."""

    value: float
    weight: float = 0.0
    slack: float = 1e-5


def remembers(select: SelectStage) -> bool:
    """Whether a selecting stage draws by what it drew before.

    >>> remembers(MirostatV2()), remembers(AdaptiveP(-1.0)), remembers(Greedy())
    (True, False, False)
    """
    return isinstance(select, Mirostat | MirostatV2) or (
        isinstance(select, AdaptiveP) and select.target >= 0
    )


def first_memory(select: SelectStage) -> Memory | None:
    """What it has before its first draw; None where it remembers nothing."""
    if isinstance(select, Mirostat | MirostatV2):
        return Memory(2 * select.tau)
    if isinstance(select, AdaptiveP) and remembers(select):
        weight = 1 / (1 - min(select.decay, _LONGEST_DECAY))
        return Memory(select.target * weight, weight)
    return None


def aim(select: AdaptiveP, memory: Memory) -> float:
    """The probability that adaptive-p aims at: as far above its target as the mean is below.

    >>> round(aim(AdaptiveP(0.5), Memory(4.0, 10.0)), 3)  # the mean is 0.4
    0.6
    """
    return min(max(2 * min(select.target, 1.0) - memory.value / memory.weight, 0.0), 1.0)


def shown_memory(select: SelectStage, memory: Memory) -> float:
    """Mirostat's limit, or what adaptive-p aims at."""
    return aim(select, memory) if isinstance(select, AdaptiveP) else memory.value


def selectable(
    pool: Pool, select: SelectStage, memory: Memory | None, n_vocab: int
) -> tuple[Pool, ...]:
    """What the number falls on: each outcome that is possible. Raises CannotTell.

    >>> pool = Pool((7, 3, 9), (0.0, math.log(1 / 2), math.log(1 / 6)), NO_REST, 3, True)
    >>> surprises = 0.74, 1.74, 3.32  # bits
    >>> [left.ids for left in selectable(pool, MirostatV2(), Memory(2.0), 3)]
    [(7, 3)]
    >>> [left.ids for left in selectable(pool, AdaptiveP(0.3), Memory(3.0, 10.0), 3)]
    [(3, 9, 7)]
    """
    if isinstance(select, Greedy):
        return _best(pool)
    if not remembers(select):
        return (pool,)
    if memory is None or memory.slack > _MOST_WRONG:
        raise CannotTell(UNKNOWN_BEFORE)
    if isinstance(select, Mirostat):
        return _mirostat(pool, select, memory, n_vocab)
    if isinstance(select, MirostatV2):
        return _mirostat_2(pool, memory)
    assert isinstance(select, AdaptiveP)
    return (_adapted(pool, select, memory),)


def _best(pool: Pool) -> tuple[Pool, ...]:
    if pool.rest and pool.rest.ceiling >= -2 * pool.slack:
        raise CannotTell(TOO_CLOSE)
    near = [i for i, s in zip(pool.ids, pool.scores, strict=True) if s >= -2 * pool.slack]
    return tuple(replace(first(pool, 1), ids=(token_id,)) for token_id in near)


def _mirostat(pool: Pool, select: Mirostat, memory: Memory, n_vocab: int) -> tuple[Pool, ...]:
    """Zipf's law, p(rank) ~ rank^−s: s by least squares over the ratios of ranks and shares, and
    from it the k that would surprise by mu.

        s = Σ ln((i+1)/i) · ln(p(i)/p(i+1)) ÷ Σ ln((i+1)/i)²          i = 1 … m − 1
        k = ((s − 1) · 2^mu ÷ (1 − n^−(s−1)))^(1/s)                   n: size of the vocabulary
    """
    n_ratios = min(select.m - 1, (pool.size if pool.rest else len(pool.ids)) - 1)
    if n_ratios < 1:
        return (first(pool, 1, layout=True),)
    if n_ratios > len(pool.ids) - 1:
        raise CannotTell(BEYOND.format(count=len(pool.ids)))
    weighed = squares = wrong = 0.0
    for i in range(n_ratios):
        t = math.log((i + 2) / (i + 1))
        weighed += t * (pool.scores[i] - pool.scores[i + 1])
        squares += t * t
        wrong += 2 * t * pool.slack
    slack = wrong / squares + 1e-5
    s = weighed / squares
    if s < 2 * slack + 0.05:
        raise CannotTell(TOO_CLOSE)  # the root is so high that nothing follows
    ks = [
        _k(s + ds, memory.value + dmu, n_vocab)
        for ds in (-slack, slack)
        for dmu in (-memory.slack, memory.slack)
    ]
    low, high = min(ks), max(ks)
    if high > _COUNTED * (1 - 1e-5):
        raise CannotTell(TOO_MANY)
    if high - low > max(2e-3 * high, 0.5):
        raise CannotTell(TOO_CLOSE)
    counts = range(max(math.floor(low * (1 - 1e-6)), 1), max(math.floor(high * (1 + 1e-6)), 1) + 1)
    lefts = []
    for count in counts:
        if count >= len(pool.ids):
            if pool.rest:
                raise CannotTell(BEYOND.format(count=len(pool.ids)))
            lefts.append(replace(pool, layout=True))
            break
        lefts.append(first(pool, count, layout=True))
    return tuple(lefts)


def _k(s: float, mu: float, n_vocab: int) -> float:
    if mu >= _FLOAT_BITS - 1:
        return math.inf
    epsilon = s - 1 or 1e-9
    return float((epsilon * 2.0**mu / (1 - float(n_vocab) ** -epsilon)) ** (1 / s))


def _mirostat_2(pool: Pool, memory: Memory) -> tuple[Pool, ...]:
    weights, rest = pool.weights, pool.rest
    total = math.fsum(weights)
    slack = memory.slack + 4 * pool.slack + 1e-5
    least, most = math.log2(total + rest.low), math.log2(total + rest.high)
    surprises = [(least - _log2(w), most - _log2(w)) for w in weights]
    if rest and least - rest.ceiling / math.log(2) <= memory.value + slack:
        raise CannotTell(BEYOND.format(count=len(pool.ids)))
    sure = sum(high <= memory.value - slack for _, high in surprises)
    perhaps = sum(low <= memory.value + slack for low, _ in surprises)
    counts = range(max(perhaps, 1), max(sure, 1) - 1, -1)
    return tuple(first(pool, count, layout=True) for count in counts)


def _log2(weight: float) -> float:
    """Of a candidate that is too improbable for a number, too: it surprises without end."""
    return math.log2(weight) if weight > 0 else -math.inf


def _adapted(pool: Pool, select: AdaptiveP, memory: Memory) -> Pool:
    if pool.rest:  # together they weigh something wherever it aims
        raise CannotTell(BEYOND.format(count=len(pool.ids)))
    wanted, weights = aim(select, memory), pool.weights
    total = math.fsum(weights)
    scores = {}
    for token_id, weight in zip(pool.ids, weights, strict=True):
        away = abs(weight / total - wanted) / _WIDTH
        scores[token_id] = _PEAK - _SHARPNESS * away * away / (1 + away)
    order = tuple(pool.ids[at] for at in pool.in_native_order())
    ranked = sorted(pool.ids, key=lambda token_id: -scores[token_id])
    return based(
        replace(
            pool,
            ids=tuple(ranked),
            scores=tuple(scores[token_id] for token_id in ranked),
            rest=NO_REST,
            layout=order,
            slack=(2 * pool.slack + memory.slack) * _SHARPNESS / _WIDTH + 1e-5,
            best=None,
        )
    )


def memory_after(
    select: SelectStage,
    memory: Memory,
    filtered: Pool,
    selected: Pool,
    token_id: int,
    *,
    is_written: bool,
) -> Memory:
    """What is remembered after a draw from `selected`, which the stage made of `filtered`.
    `is_written`: the token that it drew is the one that stands there; adaptive-p counts no other.
    A token that these settings do not leave was not drawn by them, and changes nothing.

    >>> pool = Pool((7, 3), (0.0, 0.0), NO_REST, 2, True)
    >>> found = memory_after(MirostatV2(5.0, 0.1), Memory(10.0), pool, pool, 7, is_written=True)
    >>> round(found.value, 2)  # 1 bit is 4 less than tau
    10.4
    """
    if token_id not in selected.ids:
        return memory
    if isinstance(select, AdaptiveP):
        if not is_written:
            return memory
        share = _share(filtered, token_id)
        decay = min(select.decay, _LONGEST_DECAY)
        weight = 1 + decay * memory.weight
        # The mean's error: older ones weigh less, and the new one is as wrong as its share.
        slack = (decay * memory.weight * memory.slack + 2 * filtered.slack) / weight + 1e-7
        return Memory(share + decay * memory.value, weight, slack)
    assert isinstance(select, Mirostat | MirostatV2)
    surprise = -_log2(_share(selected, token_id))
    wrong = 4 * selected.slack + 1e-6
    value = memory.value - select.eta * (surprise - select.tau)
    return Memory(value, 0.0, memory.slack + select.eta * wrong)


def together(memories: Sequence[Memory]) -> Memory | None:
    """One that holds all of these; None where they have counted different draws.

    >>> together([Memory(4.0, slack=0.1), Memory(4.4, slack=0.1)])
    Memory(value=4.2, weight=0.0, slack=0.3)
    """
    weight = memories[0].weight
    if any(memory.weight != weight for memory in memories):
        return None
    per = weight or 1.0
    low = min(memory.value / per - memory.slack for memory in memories)
    high = max(memory.value / per + memory.slack for memory in memories)
    return Memory((low + high) / 2 * per, weight, round((high - low) / 2, 12))


def _share(pool: Pool, token_id: int) -> float:
    weights = pool.weights
    return weights[pool.ids.index(token_id)] / math.fsum(weights)
