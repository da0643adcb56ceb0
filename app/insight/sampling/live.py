"""One token's candidates under a chain that is being changed: logits, softmax, cuts, shares, draw.

    before   softmax of the logits, at temperature 1, as recorded
    after    the share by which each is drawn: what the filters leave of it, and what the selecting
             stage makes of that

All shares of either column add up to 100 % with those that are not listed. What was recorded says
it of most chains. For the others the engine replays the position, and says it of all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from app.engine.protocol.messages import SURVIVED, TokenTrace
from app.engine.protocol.pieces import unpack
from app.engine.protocol.replay_messages import FORBIDDEN, DrawExplained, ReplayedDraw
from app.engine.protocol.stages import Greedy
from app.insight.sampling.dice import Numbers
from app.insight.sampling.filters import TOO_CLOSE, Path, paths
from app.insight.sampling.pool import (
    Between,
    CannotTell,
    Pool,
    entropy_bits,
    recorded,
    rest_share,
    shares,
)
from app.insight.sampling.selecting import remembers, selectable, shown_memory
from app.insight.sampling.what_if import (
    GRAMMAR_UNASKED,
    NO_NUMBER,
    DrawSettings,
    Walk,
    before_stages,
    drawn,
)

NOTHING: Final = Between(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate. `logit`: relative to the best one's. `after`: None where it is not known.
    `removed_by`: the stage that cut it, by its place in the chain; negative for what stands before
    it. `is_hit`: the recorded number falls on it now."""

    token_id: int
    logit: float
    before: float
    after: Between | None
    removed_by: int | None
    is_drawn: bool
    is_hit: bool


BANNED: Final = -1
BY_RULE: Final = -2
"""By a ban, and by the grammar, before the first stage."""


@dataclass(frozen=True, slots=True)
class Live:
    """`rows`: the best recorded candidates, the best first, and the written token. `n_recorded`:
    how many of them are known, with `covered` of the probability. `left`: how many are left; at
    least so many where `is_at_least`. `is_close`: a limit is so near that rounding decides who is
    left. `uniform`: the number that draws (`is_of_seed`: the reply drew none); `hit`: the token on
    which it falls, `unsure` why that cannot be told. `memory`: what mirostat lets through (bits),
    what adaptive-p aims at. `is_replayed`: by the engine, from all candidates; `is_second`: the
    grammar refused a first draw. `best`: the best one's logit, as the engine has it."""

    rows: tuple[Row, ...]
    n_recorded: int
    covered: float
    rest_before: float
    rest_after: Between
    left: int
    is_at_least: bool
    is_close: bool
    entropy_before: float | None
    entropy_after: Between
    uniform: float | None
    hit: int | None = None
    unsure: str = ""
    memory: float | None = None
    is_of_seed: bool = False
    is_replayed: bool = False
    is_second: bool = False
    best: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to tell: who is left, with what share, and who is drawn."""
        return not (self.unsure or self.is_at_least or self.is_close)

    @property
    def needs_engine(self) -> bool:
        """Whether the engine could tell more; where no number was drawn it could not."""
        return not self.is_whole and (self.is_at_least or self.is_close or self.unsure != NO_NUMBER)


def live(token: TokenTrace, settings: DrawSettings, walk: Walk | None = None) -> Live:
    """`walk`: along the tokens before it, where the selecting stage remembers them or a penalty
    counts them. Raises CannotTell where no candidates were recorded, or equal ones stand at a cut.
    """
    walk = Walk(settings) if walk is None else walk
    whole = recorded(token, settings.n_vocab)
    pool = before_stages(token, settings.n_vocab)
    memory, numbers = walk.memory, walk.numbers(token)
    ways = [
        (path, left)
        for path in paths(pool, settings.filters, walk.known(numbers))
        for left in selectable(path[-1], settings.select, memory, settings.n_vocab)
    ]
    path, left = ways[0]
    before = [share.low for share in shares(whole)]
    after = dict(zip(left.ids, shares(left), strict=True))
    hit, unsure = _hit(token, settings, left, numbers.uniform)
    removed, fallen = _removed((whole, *path, left))
    rows = [
        Row(
            token_id,
            score,
            before[at],
            None if token_id in fallen else after.get(token_id, NOTHING),
            removed.get(token_id),
            token_id == token.token_id,
            token_id == hit,
        )
        for at, (token_id, score) in enumerate(zip(whole.ids, whole.scores, strict=True))
    ]
    if token.token_id not in whole.ids:
        rows.append(_outside(token, whole, left))
    covered = math.fsum(before)
    return Live(
        tuple(rows),
        len(whole.ids),
        covered,
        max(1 - covered, 0.0),
        rest_share(left),
        len(left.ids),
        bool(left.rest),
        len(ways) > 1,
        token.entropy,
        entropy_bits(left),
        None if isinstance(settings.select, Greedy) else numbers.uniform,
        hit,
        unsure,
        None if memory is None else shown_memory(settings.select, memory),
        is_of_seed=numbers.is_of_seed,
    )


def _hit(
    token: TokenTrace, settings: DrawSettings, pool: Pool, uniform: float | None
) -> tuple[int | None, str]:
    """The token that is drawn; None, and why, where that is not one that is known."""
    try:
        found = drawn(pool, uniform)
    except CannotTell as reason:
        return None, reason.sentence
    if len(found) > 1:
        return None, TOO_CLOSE
    (hit,) = found
    if settings.is_bound and hit != token.token_id:
        return None, GRAMMAR_UNASKED
    return hit, ""


def _removed(path: Path) -> tuple[dict[int, int], set[int]]:
    """Where each candidate was removed, −1 before the first stage; and those that fell among the
    ones that were not recorded, which go with them."""
    found: dict[int, int] = {}
    fallen: set[int] = set()
    for at, (before, after) in enumerate(pairwise(path), BANNED):
        gone = set(before.ids) - set(after.ids)
        if after.rest.most > before.rest.most:  # a penalty or a bias has put it there
            fallen |= gone
        else:
            found.update(dict.fromkeys(gone, at))
        if not after.rest:
            found.update(dict.fromkeys(fallen, at))
            fallen.clear()
    return found, fallen


def _outside(token: TokenTrace, pool: Pool, left: Pool) -> Row:
    """The drawn token where it is none of the recorded: its own probability was recorded."""
    best = math.log(shares(pool)[0].low)
    after = None if left.rest else NOTHING
    return Row(
        *(token.token_id, token.logprob - best, math.exp(token.logprob), after, None),
        is_drawn=True,
        is_hit=False,
    )


def live_along(traces: Sequence[TokenTrace], index: int, settings: DrawSettings) -> Live:
    """The same for the token at this place, with what a selecting stage remembers of the draws
    before it; as a penalty counts them. Raises CannotTell."""
    walk = Walk(settings)
    for at in range(index):
        if at < settings.first or not remembers(settings.select):
            walk.pass_over(traces[at])
        else:
            walk.draw(traces[at])
    return live(traces[index], settings, walk)


def live_at(token: TokenTrace, index: int, before: Sequence[int], settings: DrawSettings) -> Live:
    """The same where nothing is remembered of the draws `before`, tokens of the reply. Raises
    CannotTell."""
    walk = Walk(settings)
    walk.jump(index, before)
    return live(token, settings, walk)


def replayed(token: TokenTrace, told: DrawExplained, draw: ReplayedDraw, numbers: Numbers) -> Live:
    """What the engine says of it. `numbers`: what it drew with; none where it takes the best."""
    ids, logits = unpack(told.ids), unpack(told.logits)
    before = [math.exp(logprob) for logprob in unpack(told.logprobs)]
    after, ends = unpack(told.shares), told.removed_by.data
    n_stages = len(told.left)
    hit = draw.token_id if draw.token_id >= 0 else None
    rows = tuple(
        Row(
            token_id,
            logits[at] - logits[0],
            before[at],
            Between(after[at], after[at]),
            _end(ends[at], n_stages),
            token_id == token.token_id,
            token_id == hit,
        )
        for at, token_id in enumerate(ids)
    )
    rest = max(1 - math.fsum(after), 0.0)
    rest = 0.0 if rest < 1e-6 else rest
    return Live(
        rows,
        len(rows),
        math.fsum(before),
        max(1 - math.fsum(before), 0.0),
        Between(rest, rest),
        told.left[-1] if told.left else len(rows),
        is_at_least=False,
        is_close=False,
        entropy_before=told.entropy_before,
        entropy_after=Between(told.entropy_after, told.entropy_after),
        uniform=numbers.again if told.is_second else numbers.uniform,
        hit=hit,
        unsure=draw.reason,
        memory=told.memory,
        is_of_seed=numbers.is_of_seed,
        is_replayed=True,
        is_second=told.is_second,
        best=logits[0],
    )


def _end(removed_by: int, n_stages: int) -> int | None:
    if removed_by == SURVIVED:
        return None
    if removed_by < n_stages:
        return removed_by
    return BY_RULE if removed_by == FORBIDDEN else BANNED
