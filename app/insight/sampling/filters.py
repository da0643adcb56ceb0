"""What each sampling stage would leave of the recorded candidates: the chain, redone by arithmetic.

The engine draws with llama.cpp's own samplers. Here the same rules are applied to what was recorded
of a token, so that other settings can be tried on it without the weights:

    scores ──top-k 40──▶ 40 ──top-p 0.95──▶ 12 ──min-p 0.05──▶ 7 ──temperature 0.8──▶ 7 ──▶ draw

What must hold: nothing is said that does not follow.

* The scores are known up to rounding, and llama.cpp reckons in float32. Where a candidate lies so
  near to a limit that this decides, both outcomes are followed: a stage returns every pool that may
  be left, mostly one.
* A stage that needs what was not recorded raises CannotTell with the reason: top-n-sigma needs the
  standard deviation of all logits, the unrecorded ones too; DRY needs the text. The engine has all
  of it (`app/engine/process/sampling/replayed_chain.py`).

The order of the rules inside a stage is llama.cpp's (llama-sampler.cpp), down to what it leaves in
which order, since the draw goes through the candidates in just that order.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from app.engine.protocol.stages import (
    Dry,
    DynamicTemperature,
    LogitBias,
    MinP,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.insight.sampling.pool import (
    FLOAT32,
    NO_REST,
    RECORD_ERROR,
    CannotTell,
    Pool,
    Rest,
    based,
    entropy_bits,
    fewer_rest,
    first,
    heated,
)

MOST_WORLDS: Final = 8
"""So many outcomes are followed; where more are possible it cannot be told."""

NEEDS_ALL: Final = "{stage} needs the logits of all tokens, but only the top {count} were recorded."
NEEDS_LOGIT: Final = (
    "The repetition penalty needs absolute logits, but only their differences were recorded."
)
NEEDS_TEXT: Final = "DRY depends on all the text before the token."
NEEDS_WORDS: Final = "A text bias needs a loaded model."
NEEDS_BEFORE: Final = "The penalties depend on prompt tokens that weren't recorded here."
LIFTS_UNKNOWN: Final = "A token outside the recorded {count} becomes more probable."
TOO_CLOSE: Final = "Some candidates are so close to a limit that rounding decides."
CUTS_ALL: Final = "None of the recorded candidates is left."

_HOPELESS: Final = 80.0
"""Before typical sampling the engine drops candidates so far below the best one."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside the candidates. `before`: the tokens before this one, oldest first;
    `is_whole`: from the very first one of the prompt on. `uniforms`: the number that each XTC stage
    of the chain drew, as far as they were recorded. `ids_of`: the tokens of a text, where the
    vocabulary is at hand."""

    before: Sequence[int] = ()
    is_whole: bool = False
    uniforms: Sequence[float | None] = ()
    ids_of: Callable[[str], Sequence[int]] | None = None

    def counts(self, last_n: int) -> Counter[int]:
        """How often each of the last so many tokens stands there."""
        if not self.is_whole and (last_n < 0 or len(self.before) < last_n):
            raise CannotTell(NEEDS_BEFORE)
        start = 0 if last_n < 0 else max(len(self.before) - last_n, 0)
        return Counter(self.before[start:])


NOTHING_KNOWN: Final = Known()

Path = tuple[Pool, ...]
"""What was there before the first stage, and what each stage left."""


def paths(pool: Pool, filters: Sequence[Stage], known: Known = NOTHING_KNOWN) -> tuple[Path, ...]:
    """A chain of filters, one after the other: every way that it may have gone. Raises CannotTell.

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 3)
    >>> [[left.ids for left in path] for path in paths(pool, [TopK(2), TopP(0.5)])]
    [[(7, 3, 9), (7, 3), (7,)]]
    """
    found: tuple[Path, ...] = ((pool,),)
    uniforms = iter(known.uniforms)
    for stage in filters:
        uniform = next(uniforms, None) if isinstance(stage, Xtc) else None
        found = tuple(
            (*path, left)
            for path in found
            for left in filtered(path[-1], stage, uniform=uniform, known=known)
        )
        if len(found) > MOST_WORLDS:
            raise CannotTell(TOO_CLOSE)
    return found


def filtered(
    pool: Pool, stage: Stage, *, uniform: float | None = None, known: Known = NOTHING_KNOWN
) -> tuple[Pool, ...]:
    """What one stage leaves: each outcome that is possible. Raises CannotTell."""
    match stage:
        case TopK():
            return top_k(pool, stage.k)
        case TopP():
            return top_p(pool, stage.p, stage.min_keep)
        case MinP():
            return min_p(pool, stage.p, stage.min_keep)
        case Typical():
            return typical(pool, stage.p, stage.min_keep)
        case TopNSigma():
            return top_n_sigma(pool, stage.n)
        case Xtc():
            return xtc(pool, stage, uniform)
        case Temperature():
            return (temperature(pool, stage.t),)
        case DynamicTemperature():
            return (dynamic_temperature(pool, stage.t, stage.spread, stage.exponent),)
        case Penalties():
            return (penalties(pool, stage, known),)
        case LogitBias():
            return (logit_bias(pool, stage, known),)
        case Dry():
            if stage.multiplier == 0 or stage.last_n == 0:
                return (pool,)
            raise CannotTell(NEEDS_TEXT)
    raise CannotTell("This stage isn't supported here.")


# --- what removes candidates ----------------------------------------------------------------------


def top_k(pool: Pool, k: int) -> tuple[Pool, ...]:
    """The k most probable candidates, sorted. 0 or less: all, as they are.

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 50_000)
    >>> [left.ids for left in top_k(pool, 2)]
    [(7, 3)]

    The third of these may be as probable as one that was not recorded, so that k = 3 leaves one of
    the rest possible only where the rest has the probability for it; here it has none to speak of.

    >>> bool(top_k(pool, 3)[0].rest), bool(top_k(pool, 4)[0].rest)
    (False, True)
    """
    if k <= 0:
        return (pool,)
    count = len(pool.ids)
    k = min(k, pool.size)
    if k < count:
        if _is_close(pool, pool.scores[k - 1], pool.scores[k]):
            raise CannotTell(TOO_CLOSE)
        return (first(pool, k, layout=True),)
    if not pool.rest or (k == count and pool.rest.ceiling < pool.scores[-1] - 2 * pool.slack):
        return (replace(pool, rest=NO_REST, size=k, layout=True),)
    return (replace(fewer_rest(pool, min(max(k - count, 1), pool.rest.most), k), layout=True),)


def top_p(pool: Pool, p: float, min_keep: int) -> tuple[Pool, ...]:
    """The fewest candidates, from the best down, whose shares reach p together; sorted.

        share      60 %     30 %    10 %
        together   60 %     90 %
                            ^ reaches 0.8: two are left

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 3)
    >>> [left.ids for left in top_p(pool, 0.8, 1)]
    [(7, 3)]

    At 0.9 float32 decides whether two are enough, so both outcomes are told.

    >>> [left.ids for left in top_p(pool, 0.9, 1)]
    [(7, 3), (7, 3, 9)]
    """
    if p >= 1:
        return (pool,)
    weights, rest = pool.weights, pool.rest
    total = math.fsum(weights)
    least, most = total + rest.low, total + rest.high
    # llama.cpp adds up in float32: each recorded weight may round by an ulp of the sum, and each of
    # the rest too, but none by more than itself.
    rounding = 2 * len(weights) * FLOAT32 + min(rest.high / total, pool.size * FLOAT32)
    slack = pool.slack + rounding
    ends, together = [], 0.0
    for at, weight in enumerate(weights):
        together += weight
        if at + 1 >= min_keep and together / least >= p - slack:
            ends.append(at + 1)
            if together / most >= p + slack:
                return _ends(pool, ends)
    if not rest:
        return _ends(pool, [*ends, len(weights)], min_keep)
    left = replace(pool, rest=replace(rest, low=0.0), layout=True)
    return (*_ends(pool, ends), left)


def min_p(pool: Pool, p: float, min_keep: int) -> tuple[Pool, ...]:
    """Candidates with at least p times the share of the best one. As a ratio of shares is a
    difference of logits, the limit is l(best) + ln p.

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 3)
    >>> [left.ids for left in min_p(pool, 0.4, 1)]  # 0.4 · 60 % = 24 %
    [(7, 3)]

    It does not sort: what is left stays by ID where it was so.
    """
    if p <= 0:
        return (pool,)
    limit, count = math.log(p), len(pool.ids)
    sure = sum(score >= limit + pool.slack for score in pool.scores)
    perhaps = sum(score >= limit - pool.slack for score in pool.scores)
    rest, lefts = pool.rest, list[Pool]()
    may_stay = bool(rest) and (rest.ceiling >= limit - pool.slack or min_keep > count)
    if may_stay and perhaps == count:
        lefts.append(replace(pool, rest=replace(rest, low=0.0)))
        perhaps -= 1
    for kept in range(perhaps, sure - 1, -1):
        # With too few left llama.cpp sorts after all, and keeps the best so many.
        layout = pool.layout if kept >= min_keep else True
        size = max(min(max(kept, min_keep, 1), pool.size), 1)
        kept = min(max(kept, min_keep, 1), count)
        if not any(len(left.ids) == kept for left in lefts):
            lefts.append(first(pool, kept, size=size, layout=layout))
    return tuple(lefts)


def typical(pool: Pool, p: float, min_keep: int) -> tuple[Pool, ...]:
    """Locally typical sampling: the *surprise* of a candidate is −ln p, and the entropy is its
    mean. Kept are those whose surprise is nearest to the mean, until they have p together.

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 3)
    >>> [left.ids for left in typical(pool, 0.5, 1)]  # surprises 0.51, 1.20, 2.30; mean 0.90
    [(7, 3)]
    >>> typical(pool, 0.5, 1)[0].layout  # 0.30 away, then 0.39
    (3, 7)
    """
    if p >= 1:
        return (pool,)
    if pool.rest:
        raise CannotTell(_needs_all("Typical", pool))
    weights = pool.weights
    count = sum(score > -_HOPELESS for score in pool.scores)
    total = math.fsum(weights[:count])
    surprises = [math.log(total) - score for score in pool.scores[:count]]
    mean = math.fsum(w / total * s for w, s in zip(weights, surprises, strict=False))
    away = [abs(surprise - mean) for surprise in surprises]
    order = sorted(range(count), key=away.__getitem__)
    slack = pool.slack + 2e-5
    ends, together = [], 0.0
    for at, place in enumerate(order):
        together += weights[place] / total
        if at + 1 >= min_keep and together > p - slack:
            ends.append(at + 1)
            if together > p + slack:
                break
    else:
        ends.append(count)
    # Of two that are equally far away llama.cpp may take either first, and the draw goes by that.
    last = max(ends)
    for a, b in pairwise(order[: last + 1]):
        if away[b] - away[a] <= slack:
            raise CannotTell(TOO_CLOSE)
    return tuple(_picked(pool, order[:end]) for end in dict.fromkeys(ends))


def top_n_sigma(pool: Pool, n: float) -> tuple[Pool, ...]:
    """Candidates whose logit is no more than n standard deviations below the best one. The others
    get −∞ but keep their places in the array.

    >>> [left.ids for left in top_n_sigma(Pool((7, 3, 9), (0.0, -1.0, -5.0), NO_REST, 3), 1.0)]
    [(7, 3)]
    """
    if n <= 0 or pool.size <= 1:
        return (pool,)
    if pool.rest:
        raise CannotTell(_needs_all("Top-n-sigma", pool))
    mean = math.fsum(pool.scores) / len(pool.scores)
    variance = math.fsum((score - mean) ** 2 for score in pool.scores) / len(pool.scores)
    limit, slack = -n * math.sqrt(variance), pool.slack + n * 1e-4
    sure = sum(score >= limit + slack for score in pool.scores)
    perhaps = sum(score >= limit - slack for score in pool.scores)
    kept = range(max(perhaps, 1), max(sure, 1) - 1, -1)
    return tuple(first(pool, count, size=pool.size) for count in kept)


def xtc(pool: Pool, stage: Xtc, uniform: float | None) -> tuple[Pool, ...]:
    """Exclude top choices: where its number is not above `probability`, all candidates with at
    least the share `threshold` go but the least probable of them.

    >>> from app.insight.sampling.pool import pool_of
    >>> pool = pool_of((7, 3, 9), [math.log(p) for p in (0.6, 0.3, 0.1)], 3)
    >>> [left.ids for left in xtc(pool, Xtc(0.5, 0.2), 0.3)]
    [(3, 9)]
    >>> [left.ids for left in xtc(pool, Xtc(0.5, 0.2), 0.7)]
    [(7, 3, 9)]

    Without the number both can be.
    """
    if stage.probability <= 0 or stage.threshold > 0.5 or pool.size < 2:
        return (pool,)
    if uniform is None and stage.probability < 1:
        return (pool, *_excluded(pool, stage))
    if uniform is not None and uniform > _as_float32(stage.probability):
        return (pool,)
    return _excluded(pool, stage)


def _excluded(pool: Pool, stage: Xtc) -> tuple[Pool, ...]:
    sure, perhaps, slack = 0, 0, pool.slack + pool.size * FLOAT32
    total = math.fsum(pool.weights)
    for weight in pool.weights:
        sure += weight / (total + pool.rest.high) >= stage.threshold + slack
        perhaps += weight / (total + pool.rest.low) >= stage.threshold - slack
    if pool.rest and max(perhaps, stage.min_keep + perhaps - 1) >= len(pool.ids):
        raise CannotTell(_needs_all("XTC", pool))
    lefts = list[Pool]()
    for above in range(perhaps, sure - 1, -1):
        last = max(above - 1, 0)
        left = replace(pool, layout=True)
        if last and pool.size - last >= stage.min_keep:
            left = replace(
                left, ids=pool.ids[last:], scores=pool.scores[last:], size=pool.size - last
            )
        if not any(len(left.ids) == len(other.ids) for other in lefts):
            lefts.append(based(left))
    return tuple(lefts)


# --- what changes scores --------------------------------------------------------------------------


def temperature(pool: Pool, t: float) -> Pool:
    """Every logit divided by t. Below 1 the differences grow and the best gain; above 1 they
    shrink and the others do. At 0 the best alone is left.

        logits 2, 1, 0      t = 1: 67, 24, 9 %      t = 0.5: 87, 12, 2 %      t = 2: 51, 31, 19 %

    >>> from app.insight.sampling.pool import shares
    >>> pool = Pool((7, 3, 9), (0.0, -1.0, -2.0), NO_REST, 3)
    >>> [round(100 * share.low) for share in shares(temperature(pool, 0.5))]
    [87, 12, 2]
    """
    if t > 0:
        return pool if t == 1 else heated(pool, t)
    _same_best(pool)
    return first(pool, 1, size=pool.size)


def dynamic_temperature(pool: Pool, t: float, spread: float, exponent: float) -> Pool:
    """A temperature from t − spread to t + spread, by how unsure the draw is: entropy ÷ the most
    that so many candidates could have, to the power of `exponent`.

    >>> two = Pool((7, 3), (0.0, -1.0), NO_REST, 2)  # 73 and 27 %: 0.84 of 1 bit
    >>> round(-1 / dynamic_temperature(two, 1.0, 0.5, 1.0).scores[1], 2)
    1.34
    """
    if spread <= 0:
        return temperature(pool, t)
    if pool.size <= 1:
        return pool
    if pool.rest:
        raise CannotTell(_needs_all("Dynamic temperature", pool))
    coldest, hottest = max(t - spread, 0.0), t + spread
    # Entries with −∞ count as candidates here: llama.cpp divides by what its array holds.
    unsure = entropy_bits(pool).low / math.log2(pool.size)
    found = coldest + (hottest - coldest) * unsure**exponent
    pool = replace(pool, layout=True)
    if found <= 1e-4:
        if found > 0 and len(pool.ids) > 1:
            raise CannotTell(TOO_CLOSE)
        return temperature(pool, 0.0)
    return heated(pool, found, wrong_by=1e-4)


def penalties(pool: Pool, stage: Penalties, known: Known) -> Pool:
    """Lower logits of tokens that stand among the last `last_n`: by `frequency` for each time and
    by `presence` for the first. Before that `repeat` divides a logit above 0 and multiplies one
    below, which needs the logit itself.

    >>> pool = Pool((7, 3), (0.0, -0.5), NO_REST, 2)
    >>> penalties(pool, Penalties(8, 1.0, 1.0, 0.5), Known([3, 7, 7], is_whole=True)).ids
    (3, 7)
    """
    is_neutral = stage.repeat == 1 and stage.frequency == 0 and stage.presence == 0
    if stage.last_n == 0 or is_neutral:
        return pool
    counts = known.counts(stage.last_n)
    added = {i: -(n * stage.frequency + stage.presence) for i, n in counts.items()}
    if stage.repeat != 1 and counts:
        pool, added = _repeated(pool, stage.repeat, added)
    return _changed(pool, added)


def _repeated(
    pool: Pool, repeat: float, added: Mapping[int, float]
) -> tuple[Pool, dict[int, float]]:
    """What the repetition penalty adds as well. Of what is not recorded only the sign is known."""
    if pool.best is None:
        raise CannotTell(NEEDS_LOGIT)
    logits = {i: s + pool.best for i, s in zip(pool.ids, pool.scores, strict=True)}
    sign = math.copysign(math.inf, 1 - repeat)
    found = {}
    for token_id, more in added.items():
        logit = logits.get(token_id)
        if logit is None:
            found[token_id] = more + sign if pool.rest else more
        else:
            by = repeat if logit <= 0 else 1 / repeat
            found[token_id] = more + logit * (by - 1)
    return replace(pool, slack=pool.slack * max(repeat, 1 / repeat, 1) + RECORD_ERROR), found


def logit_bias(pool: Pool, stage: LogitBias, known: Known) -> Pool:
    """A number added to the logits of chosen tokens; −∞ where they are banned.

    >>> from app.engine.protocol.stages import TokenBias
    >>> pool = Pool((7, 3), (0.0, -1.0), NO_REST, 2)
    >>> logit_bias(pool, LogitBias([TokenBias(7, ban=True)]), Known()).ids
    (3,)
    """
    added: dict[int, float] = {}
    for entry in stage.biases:
        value = -math.inf if entry.ban else entry.bias
        if entry.token_id is None and known.ids_of is None:
            raise CannotTell(NEEDS_WORDS)
        ids: Iterable[int] = (
            (entry.token_id,) if entry.token_id is not None else set(known.ids_of(entry.text or ""))  # type: ignore[misc]
        )
        for token_id in ids:
            added[token_id] = added.get(token_id, 0.0) + value
    return _changed(pool, added) if added else pool


def _changed(pool: Pool, added: Mapping[int, float]) -> Pool:
    """Numbers added to scores. What is not recorded may only be made less probable; and a recorded
    candidate that falls below what the rest may have becomes one of the rest."""
    rest, inside = pool.rest, set(pool.ids)
    outside = [value for token_id, value in added.items() if token_id not in inside and value]
    if rest and outside:
        if max(outside) > 0:
            raise CannotTell(LIFTS_UNKNOWN.format(count=len(pool.ids)))
        rest = replace(rest, low=0.0)
    scores = {i: s + added.get(i, 0.0) for i, s in zip(pool.ids, pool.scores, strict=True)}
    ranked = sorted((i for i in pool.ids if scores[i] > -math.inf), key=lambda i: -scores[i])
    if rest:
        fallen = [i for i in ranked if scores[i] < rest.ceiling]
        weight = math.fsum(math.exp(scores[i]) for i in fallen)
        ranked = ranked[: len(ranked) - len(fallen)]
        rest = Rest(rest.most + len(fallen), rest.ceiling, rest.low + weight, rest.high + weight)
    if not ranked:
        raise CannotTell(CUTS_ALL)
    order = tuple(pool.ids[at] for at in pool.in_native_order())
    return based(
        replace(
            pool,
            ids=tuple(ranked),
            scores=tuple(scores[i] for i in ranked),
            rest=rest,
            layout=False if pool.layout is False else order,
        )
    )


# --- small things ---------------------------------------------------------------------------------


def _ends(pool: Pool, ends: Sequence[int], min_keep: int = 1) -> tuple[Pool, ...]:
    """The first so many candidates, sorted, for each of these numbers. With fewer than `min_keep`
    entries of −∞ are kept as well."""
    lefts = []
    for end in dict.fromkeys(ends):
        if end < len(pool.ids) and _is_close(pool, pool.scores[end - 1], pool.scores[end]):
            raise CannotTell(TOO_CLOSE)
        size = max(end, min(min_keep, pool.size))
        lefts.append(first(pool, end, size=size, layout=True))
    return tuple(lefts)


def _picked(pool: Pool, order: Sequence[int]) -> Pool:
    """The candidates at these places, in this order."""
    kept = sorted(order)
    return based(
        replace(
            pool,
            ids=tuple(pool.ids[at] for at in kept),
            scores=tuple(pool.scores[at] for at in kept),
            size=len(kept),
            layout=tuple(pool.ids[at] for at in order),
        )
    )


def _is_close(pool: Pool, a: float, b: float) -> bool:
    """Whether two scores may be equal, so that sorting decides which of them comes first."""
    return abs(a - b) <= 2 * pool.slack


def _same_best(pool: Pool) -> None:
    """Raise CannotTell where another candidate may be as good as the best one."""
    others = [*pool.scores[1:2], *([pool.rest.ceiling] if pool.rest else [])]
    if any(_is_close(pool, pool.scores[0], other) for other in others):
        raise CannotTell(TOO_CLOSE)


def _needs_all(stage: str, pool: Pool) -> str:
    return NEEDS_ALL.format(stage=stage, count=len(pool.ids))


def _as_float32(number: float) -> float:
    """As llama.cpp has the value of a setting."""
    value: Any = struct.unpack("f", struct.pack("f", number))[0]
    return float(value)
