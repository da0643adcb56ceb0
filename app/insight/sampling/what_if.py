"""Same dice, other settings: which token of a reply would have been another one first.

With each token the number is recorded that drew it. The candidates lie side by side from 0 to 1, as
wide as their shares, and the number falls on one of them:

    settings of the reply    0 |   town 0.62         |  city 0.30   | 1      the number 0.58: town
    temperature 1.5          0 |   town 0.48   |    city 0.35    |… | 1      the same 0.58: city

So other settings are tried by cutting the recorded candidates as they would (`filters.py`) and
letting the same number fall again. Up to the first token that changes the text before each token is
the same, so everything recorded still holds; behind it nothing does.

Mirostat and adaptive-p draw by what they drew before; their memory is moved along, draw by draw.

An answer is *exact* where all candidates that the settings leave are among the recorded ones, and
no limit or edge is so near that rounding decides. Where it is not, the position is `unsure`, with
the reason; the engine can be asked about it, since it has all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stages import SelectStage, Stage, Xtc
from app.insight.sampling.dice import Dice, Numbers
from app.insight.sampling.filters import TOO_CLOSE, Known, paths
from app.insight.sampling.pool import NO_REST, RECORD_ERROR, CannotTell, Pool, Rest, recorded
from app.insight.sampling.selecting import (
    BEYOND,
    first_memory,
    memory_after,
    selectable,
    together,
)

NO_NUMBER: Final = "No number was drawn for this token."
BY_GRAMMAR: Final = "The grammar decided here, and what else it allows wasn't recorded."
GRAMMAR_UNASKED: Final = "Whether the grammar allows another token here wasn't recorded."

_BANS: Final = frozenset(("end-token-ban", "banned-strings"))


@dataclass(frozen=True, slots=True)
class Change:
    """The token at `index` would have been `token_id`. `is_replayed`: by the engine's word."""

    index: int
    token_id: int
    is_replayed: bool = False


@dataclass(frozen=True, slots=True)
class Unsure:
    """What does not follow from the record at `index`, a place in the trace. `may_be`: the only
    tokens that it can be, where that much is known. `is_asked`: the engine could not tell either.
    """

    index: int
    reason: str
    may_be: frozenset[int] = frozenset()
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class WhatIf:
    """`first`: the first token that is sure to change; None: none is. `unsure`: positions before it
    (or in the whole reply) that may already change. `looked_at`: how many tokens were drawn again;
    `replayed`: how many of them by the engine.
    """

    first: Change | None
    unsure: tuple[Unsure, ...]
    looked_at: int
    replayed: int = 0


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """What to draw with instead. `is_bound`: a grammar bound the reply. `first`: tokens before it
    were drawn with other settings, since the reply was branched there. `prompt`: the tokens before
    the reply's trace, None where they are not known. `seed`: of the reply, for numbers that it did
    not draw. `ids_of`: as in `Known`."""

    filters: Sequence[Stage]
    select: SelectStage
    n_vocab: int
    is_bound: bool = False
    first: int = 0
    prompt: Sequence[int] | None = None
    seed: int | None = None
    ids_of: Callable[[str], Sequence[int]] | None = field(default=None, compare=False)


def what_if(
    traces: Sequence[TokenTrace],
    settings: DrawSettings,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> WhatIf:
    """Draw each token again with the number that drew it. Ends at the first that is sure to
    change; also where somebody says that the answer is not wanted any more.

    >>> from app.engine.protocol.stages import Dist
    >>> from app.insight.sampling.pool import pool_of
    >>> town, city = 7, 3
    >>> pool = pool_of((town, city), [math.log(0.6), math.log(0.4)], 2)
    >>> drawn(pool, 0.58)  # by ID: city from 0 to 0.4, town from there to 1
    frozenset({7})
    """
    unsure: list[Unsure] = []
    walk = Walk(settings)
    for index in range(len(traces)):
        token = traces[index]
        if index < settings.first:
            walk.pass_over(token)
        else:
            found = walk.draw(token)
            if isinstance(found, Unsure):
                unsure.append(replace(found, index=index))
            elif found != token.token_id:
                return WhatIf(Change(index, found), tuple(unsure), index + 1)
        if index % 64 == 63 and is_unwanted():
            break
    return WhatIf(None, tuple(unsure), len(traces))


class Walk:
    """Along a reply, token by token: what the settings draw in the place of each, and what their
    selecting stage remembers then (`memory`; None: nothing, or it does not follow)."""

    def __init__(self, settings: DrawSettings) -> None:
        self._settings = settings
        self._before = [*(settings.prompt or ())]
        self._n_passed = 0
        self._n_xtc = sum(isinstance(stage, Xtc) for stage in settings.filters)
        self._dice = Dice(settings.seed, settings.first)
        self.memory = first_memory(settings.select)

    def numbers(self, token: TokenTrace) -> Numbers:
        """What the next token is drawn with."""
        return self._dice.of(token, self._n_passed, self._n_xtc)

    def known(self, numbers: Numbers) -> Known:
        """What is known at the next token, beside its candidates."""
        settings = self._settings
        is_whole = settings.prompt is not None
        return Known(self._before, is_whole, numbers.deciding, settings.ids_of)

    def pass_over(self, token: TokenTrace) -> None:
        """One that was drawn with other settings."""
        self._before.append(token.token_id)
        self._n_passed += 1

    def jump(self, index: int, token_ids: Sequence[int]) -> None:
        """To a place in the trace, behind these tokens of it."""
        self._before.extend(token_ids)
        self._n_passed = index

    def draw(self, token: TokenTrace) -> int | Unsure:
        """What is drawn in its place. What was chosen by hand stays, and counts as drawn."""
        ways: list[tuple[Pool, Pool]] = []
        found: int | Unsure = token.token_id
        if not token.chosen or self.memory is not None:
            found = self._drawn(token, ways)
        if self.memory is not None:
            self._remember(token, ways, token.token_id if token.chosen else found)
        self.pass_over(token)
        return token.token_id if token.chosen else found

    def _drawn(self, token: TokenTrace, ways: list[tuple[Pool, Pool]]) -> int | Unsure:
        settings = self._settings
        may_be: frozenset[int] = frozenset()
        numbers = self.numbers(token)
        try:
            pool = before_stages(token, settings.n_vocab)
            for path in paths(pool, settings.filters, self.known(numbers)):
                for left in selectable(path[-1], settings.select, self.memory, settings.n_vocab):
                    ways.append((path[-1], left))
                    if not token.chosen:
                        may_be |= drawn(left, numbers.uniform)
        except CannotTell as reason:
            ways.clear()
            return Unsure(token.index, reason.sentence)
        if token.chosen:
            return token.token_id
        if len(may_be) > 1:
            return Unsure(token.index, TOO_CLOSE, may_be)
        (found,) = may_be
        if settings.is_bound and found != token.token_id:
            return Unsure(token.index, GRAMMAR_UNASKED, may_be)
        return found

    def _remember(
        self, token: TokenTrace, ways: list[tuple[Pool, Pool]], found: int | Unsure
    ) -> None:
        """Of the ways that it may have gone all are remembered as one that is less exact."""
        if not ways or isinstance(found, Unsure):
            self.memory = None
            return
        select, memory, is_written = self._settings.select, self.memory, found == token.token_id
        assert memory is not None
        self.memory = together(
            [memory_after(select, memory, *way, found, is_written=is_written) for way in ways]
        )


def redrawn(token: TokenTrace, settings: DrawSettings, known: Known) -> int | Unsure:
    """The token that the same number draws with these settings, if nothing is remembered."""
    walk = Walk(replace(settings, prompt=known.before if known.is_whole else None))
    walk._before = [*known.before]
    return walk.draw(token)


def drawn(pool: Pool, uniform: float | None) -> frozenset[int]:
    """The token on which the number falls; two where it falls on their edge. Raises CannotTell.

    llama.cpp goes through the candidates in its order, adds up their shares, and takes the first
    with which the sum reaches the number:

    >>> pool = Pool((7, 3, 9), (0.0, math.log(1 / 2), math.log(1 / 6)), NO_REST, 3, True)
    >>> [sorted(drawn(pool, number)) for number in (0.2, 0.6, 0.75)]
    [[7], [3, 7], [3]]
    """
    if pool.rest:
        raise CannotTell(NO_NUMBER if uniform is None else BEYOND.format(count=len(pool.ids)))
    if len(pool.ids) == 1:
        return frozenset(pool.ids)
    if uniform is None:
        raise CannotTell(NO_NUMBER)
    return frozenset(_under(pool, uniform))


def _under(pool: Pool, uniform: float) -> Iterator[int]:
    """The candidates whose part of the line the number may fall on."""
    weights = pool.weights
    order = pool.in_native_order()
    total = math.fsum(weights)
    slack = pool.slack + RECORD_ERROR
    start = 0.0
    for nth, at in enumerate(order):
        end = start + weights[at] / total
        is_last = nth + 1 == len(order)
        if start - slack <= uniform and (uniform <= end + slack or is_last):
            yield pool.ids[at]
            # Of equal candidates either may come first where they were sorted.
            if pool.layout is not False:
                yield from _equals(pool, at)
        start = end


def _equals(pool: Pool, at: int) -> Iterator[int]:
    score = pool.scores[at]
    for other, token_id in zip(pool.scores, pool.ids, strict=True):
        if abs(other - score) <= 2 * pool.slack:
            yield token_id


def before_stages(token: TokenTrace, n_vocab: int) -> Pool:
    """The candidates that reached the first stage: without those that were forbidden then."""
    if any(effect.stage == "grammar" for effect in token.stages):
        raise CannotTell(BY_GRAMMAR)
    pool = recorded(token, n_vocab)
    bans = {at for at, effect in enumerate(token.stages) if effect.stage in _BANS}
    if not bans or token.removed_by is None:
        return pool
    removed = token.removed_by.data
    kept = [at for at in range(len(pool.ids)) if at >= len(removed) or removed[at] not in bans]
    if not kept:
        raise CannotTell(BEYOND.format(count=len(pool.ids)))
    best, rest = pool.scores[kept[0]], pool.rest
    scale = math.exp(-best)
    return Pool(
        tuple(pool.ids[at] for at in kept),
        tuple(pool.scores[at] - best for at in kept),
        Rest(rest.most, rest.ceiling - best, 0.0, rest.high * scale) if rest else NO_REST,
        pool.size,
        slack=pool.slack,
        best=None if pool.best is None else pool.best + best,
    )
