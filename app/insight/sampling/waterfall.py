"""The sampling chain at one token: what each stage left, and where each candidate ended.

Recorded are, per stage, how many candidates were left and the drawn token's share among them, and
of the 64 best candidates which stage removed them. The share of another candidate follows from
that: between two that are left the ratio of shares is that of their weights, and stages that
only remove change no weight; a temperature t takes the root, p^(1/t).

    share(c) = share(drawn) · (p(c) ÷ p(drawn))^(1/t)

A token that was chosen by hand may have been removed, or be too improbable for float32 to tell its
share. Then the ratio says nothing, but where all candidates that are left are recorded, their
shares are their weights over the sum of these:

    share(c) = p(c)^(1/t) ÷ Σ p(kept)^(1/t)

Where a stage changes scores by itself (penalties, logit bias, DRY) or by a temperature that is
not recorded (dynamic temperature, mirostat), the shares after it cannot be told so, and are None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace
from app.insight.trace.alternatives import alternatives_of

_ONLY_REMOVE: Final = frozenset(
    (
        *("top-k", "top-p", "min-p", "typical", "top-n-sigma", "xtc", "greedy", "dist"),
        *("grammar", "end-token-ban", "banned-strings"),
    )
)
_TOLERANCE: Final = 1e-4
LEAST_SHARE: Final = 1e-30
"""With less of its own, the drawn token's share says nothing about another one's."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best before samplers. `probability`: there, at temperature 1. `removed_by`: a
    position in the stages; None: it was there at the draw. `is_drawn`: it became the token.
    `piece`: its bytes, where they were recorded with it."""

    token_id: int
    probability: float
    removed_by: int | None
    is_drawn: bool
    piece: bytes | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One stage. `removed`: how many it removed of all candidates; None where it is not known how
    many there were. `probability`: the drawn
    token's share after it. `shares`: of each candidate after it, 0 for those that are gone; None
    where that cannot be told."""

    stage: str
    left: int
    removed: int | None
    probability: float
    uniform: float | None
    shares: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`rest`: the probability before samplers of all that are not among the candidates."""

    candidates: tuple[Candidate, ...]
    rest: float
    steps: tuple[Step, ...]


def waterfall(
    token: TokenTrace, n_vocab: int | None, temperatures: Mapping[int, float] | None = None
) -> Waterfall:
    """`n_vocab`: None where it is not known. `temperatures`: of the stages that divide by a fixed
    one, by position."""
    recorded = alternatives_of(token)
    logprobs = tuple(each.logprob for each in recorded)
    removed_by = token.removed_by.data if token.removed_by is not None else b""
    candidates = tuple(
        Candidate(
            each.token_id,
            math.exp(min(each.logprob, 0.0)),
            _end(removed_by, at),
            each.is_drawn,
            each.piece,
        )
        for at, each in enumerate(recorded)
    )
    rest = max(1 - math.fsum(candidate.probability for candidate in candidates), 0.0)
    return Waterfall(
        candidates, rest, tuple(_steps(token, n_vocab, candidates, logprobs, temperatures or {}))
    )


def _end(removed_by: bytes, at: int) -> int | None:
    return removed_by[at] if at < len(removed_by) and removed_by[at] != SURVIVED else None


def _steps(
    token: TokenTrace,
    n_vocab: int | None,
    candidates: Sequence[Candidate],
    logprobs: Sequence[float],
    temperatures: Mapping[int, float],
) -> list[Step]:
    steps: list[Step] = []
    before, share, temperature = n_vocab, math.exp(min(token.logprob, 0.0)), 1.0
    is_told = True
    for at, effect in enumerate(token.stages):
        if at in temperatures and temperatures[at] > 0:
            temperature *= temperatures[at]
        elif effect.stage not in _ONLY_REMOVE:
            changed = abs(effect.probability - share) > _TOLERANCE * max(share, 1e-9)
            is_told = is_told and effect.left == (effect.left if before is None else before)
            is_told = is_told and not changed and share >= LEAST_SHARE
        shares = None
        if is_told:
            shares = _shares(at, effect, token, candidates, logprobs, temperature)
        steps.append(
            Step(
                effect.stage,
                effect.left,
                None if before is None else max(before - effect.left, 0),
                effect.probability,
                effect.uniform,
                shares,
            )
        )
        before, share = effect.left, effect.probability
    return steps


def _shares(
    at: int,
    effect: StageEffect,
    token: TokenTrace,
    candidates: Sequence[Candidate],
    logprobs: Sequence[float],
    temperature: float,
) -> tuple[float, ...] | None:
    """Of each candidate after the stage at `at`; None where that does not follow."""
    is_left = [each.removed_by is None or each.removed_by > at for each in candidates]
    kept = [lp for lp, is_kept in zip(logprobs, is_left, strict=True) if is_kept]
    if not kept:
        return (0.0,) * len(candidates)
    if effect.probability >= LEAST_SHARE:
        known, share = token.logprob, effect.probability
    elif effect.left == len(kept):
        known = max(kept)
        share = 1.0 / math.fsum(math.exp((lp - known) / temperature) for lp in kept)
    else:
        return None
    return tuple(
        _share(logprob - known, share, temperature) if is_kept else 0.0
        for logprob, is_kept in zip(logprobs, is_left, strict=True)
    )


def _share(nats: float, known: float, temperature: float) -> float:
    """The share of a candidate whose log-probability is so far above that of the one whose share
    is known. Rounding may put it above 1."""
    exponent = min(nats / temperature, -math.log(known))
    return min(known * math.exp(exponent), 1.0)
