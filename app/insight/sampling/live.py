"""One token's candidates under values that are being moved: logits, softmax, cuts, temperature.

    before   softmax of the logits, at temperature 1, as recorded
    after    what top-k, top-p and min-p leave, at the temperature that is set

All shares of either column add up to 100 % with those that are not listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stages import Dist, MinP, Stage, Temperature, TopK, TopP
from app.insight.sampling.filters import Path, paths
from app.insight.sampling.pool import (
    Between,
    CannotTell,
    Pool,
    entropy_bits,
    recorded,
    rest_share,
    shares,
)
from app.insight.sampling.what_if import drawn

ORDER: Final[tuple[type[Stage], ...]] = (TopK, TopP, MinP, Temperature)
"""llama.cpp's own."""

NOTHING: Final = Between(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Values:
    """As the settings have them: top-k 0, top-p 1 and min-p 0 cut nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def stages(self, order: Sequence[type[Stage]] = ORDER) -> list[Stage]:
        made: dict[type[Stage], Stage] = {
            TopK: TopK(self.top_k),
            TopP: TopP(self.top_p),
            MinP: MinP(self.min_p),
            Temperature: Temperature(self.temperature),
        }
        return [made[kind] for kind in order]


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate. `logit`: relative to the best one's. `after`: None where it is not known.
    `removed_by`: the stage that cut it. `is_hit`: the recorded number falls on it now."""

    token_id: int
    logit: float
    before: float
    after: Between | None
    removed_by: type[Stage] | None
    is_drawn: bool
    is_hit: bool


@dataclass(frozen=True, slots=True)
class Live:
    """`rows`: the `n_recorded` recorded candidates, the best first, and the drawn token where it is
    none of them. `covered`: the probability of the recorded ones together. `left`: how many are
    left; at least so many where `is_at_least`. `is_close`: a limit is so near that rounding decides
    who is left."""

    rows: tuple[Row, ...]
    n_recorded: int
    covered: float
    rest_before: float
    rest_after: Between
    left: int
    is_at_least: bool
    is_close: bool
    entropy_before: float
    entropy_after: Between
    uniform: float | None


def live(
    token: TokenTrace, n_vocab: int, values: Values, order: Sequence[type[Stage]] = ORDER
) -> Live:
    """Raises CannotTell where no candidates were recorded, or equal ones stand at a cut."""
    pool = recorded(token, n_vocab)
    stages = values.stages(order)
    ways = paths(pool, stages)
    path = ways[0]
    left = path[-1]
    before = [share.low for share in shares(pool)]
    after = dict(zip(left.ids, shares(left), strict=True))
    hit = _hit(left, token.uniform)
    removed = dict(_removed(path, stages))
    rows = [
        Row(
            token_id,
            score,
            before[at],
            after.get(token_id, NOTHING),
            removed.get(token_id),
            token_id == token.token_id,
            token_id in hit,
        )
        for at, (token_id, score) in enumerate(zip(pool.ids, pool.scores, strict=True))
    ]
    if token.token_id not in pool.ids:
        rows.append(_outside(token, pool, left))
    covered = math.fsum(before)
    return Live(
        tuple(rows),
        len(pool.ids),
        covered,
        max(1 - covered, 0.0),
        rest_share(left),
        len(left.ids),
        bool(left.rest),
        len(ways) > 1,
        token.entropy,
        entropy_bits(left),
        token.uniform,
    )


def _hit(pool: Pool, uniform: float | None) -> frozenset[int]:
    try:
        return drawn(pool, Dist(), uniform)
    except CannotTell:
        return frozenset()


def _removed(path: Path, stages: Sequence[Stage]) -> Iterator[tuple[int, type[Stage]]]:
    for stage, before, after in zip(stages, path, path[1:], strict=False):
        kept = set(after.ids)
        for token_id in before.ids:
            if token_id not in kept:
                yield token_id, type(stage)


def _outside(token: TokenTrace, pool: Pool, left: Pool) -> Row:
    """The drawn token where it is none of the recorded: its own probability was recorded."""
    best = math.log(shares(pool)[0].low)
    after = None if left.rest else NOTHING
    return Row(
        *(token.token_id, token.logprob - best, math.exp(token.logprob), after, None),
        is_drawn=True,
        is_hit=False,
    )
