"""Many replies to one prompt: where they first differ, and how often each token came there.

All replies with the same beginning draw from the same distribution, so how often a token came can
be held against its probability: the one at the draw (`expected`, after the sampling chain), and the
one of the weights alone (`model`, temperature 1). Of n draws a share strays by sqrt(p (1 - p) / n).

    seed 1   The  cat  sat          first difference: token 2
    seed 2   The  dog                 cat  2 of 3    67 %   expected 71 % ± 26
    seed 3   The  cat  is             dog  1 of 3    33 %   expected 20 % ± 23

Behind a token that several chose, those of them part again: the same question with a longer prefix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from app.engine.protocol.messages import TokenTrace

END: Final = -1
"""In place of a token: the reply ended there by itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """A token of a run: what it was drawn from. `expected`: its probability at the draw, None where
    no stage was recorded. `others`: probabilities of the best candidates before samplers."""

    token_id: int
    piece: bytes
    model: float
    expected: float | None
    others: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """One reply. `has_ended`: by an end token, so that nothing follows; `is_over`: nothing more
    comes, for whatever reason."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    has_ended: bool = False
    is_over: bool = False

    def at(self, position: int) -> int | None:
        """The token there; END where it ended before; None where nobody knows."""
        if position < len(self.steps):
            return self.steps[position].token_id
        return END if self.has_ended and position == len(self.steps) else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A token that came. `share` of those that came this far; `seed` of the first run that drew
    it."""

    token_id: int
    piece: bytes
    count: int
    share: float
    model: float | None
    expected: float | None
    seed: int

    @property
    def is_end(self) -> bool:
        return self.token_id == END


@dataclass(frozen=True, slots=True)
class Outcomes:
    """At `position` (from 0), behind the `beginning` that they have in common, runs first differ;
    where `differs` is false, this is the last token that is known of them. `n` runs are counted
    there. `unseen`: what is expected of all tokens that did not come; `said`: the bytes of the
    beginning."""

    beginning: tuple[int, ...]
    position: int
    differs: bool
    n: int
    rows: tuple[Outcome, ...]
    unseen: float | None
    said: bytes = b""

    def stray(self, expected: float) -> float:
        """The standard deviation of a share of `n` draws."""
        p = min(max(expected, 0.0), 1.0)
        return math.sqrt(p * (1 - p) / self.n) if self.n else 0.0


def step_of(token: TokenTrace) -> Step:
    """What is kept of a token's trace."""
    ids, nats = token.alternative_ids.numbers(), token.alternative_logprobs.numbers()
    return Step(
        token.token_id,
        token.piece,
        math.exp(token.logprob),
        token.stages[-1].probability if token.stages else None,
        {int(i): math.exp(p) for i, p in zip(ids, nats, strict=True)},
    )


def outcomes(
    runs: Sequence[Run], prefix: Sequence[int] = (), end_ids: Sequence[int] = ()
) -> Outcomes | None:
    """Where those with this prefix first differ. None: nothing is known behind it. `end_ids`: the
    file's end tokens, whose probability that of an end is.

    >>> runs = [
    ...     Run(seed, [Step(7, b"The", 0.9, 1.0), Step(token, b"?", p, p)])
    ...     for seed, token, p in [(1, 5, 0.75), (2, 6, 0.25), (3, 5, 0.75), (4, 5, 0.75)]
    ... ]
    >>> found = outcomes(runs)
    >>> found.position, [(row.token_id, row.count, row.share, row.expected) for row in found.rows]
    (1, [(5, 3, 0.75, 0.75), (6, 1, 0.25, 0.25)])
    """
    start = list(prefix)
    those = [run for run in runs if _begins(run, start)]
    position, last = len(start), None
    while True:
        there = [(run, token) for run in those if (token := run.at(position)) is not None]
        if not there:
            return last
        tokens = {token for _, token in there}
        last = _counted(position, there, end_ids, differs=len(tokens) > 1)
        if len(tokens) > 1 or END in tokens:
            return last
        those, position = [run for run, _ in there], position + 1


def _begins(run: Run, prefix: list[int]) -> bool:
    return [step.token_id for step in run.steps[: len(prefix)]] == prefix


def _counted(
    position: int,
    there: Sequence[tuple[Run, int]],
    end_ids: Sequence[int],
    *,
    differs: bool,
) -> Outcomes:
    by_token: dict[int, list[Run]] = {}
    for run, token in there:
        by_token.setdefault(token, []).append(run)
    others = next((r.steps[position].others for r, token in there if token != END), {})
    rows = [
        _outcome(token, runs, position, len(there), others, end_ids)
        for token, runs in by_token.items()
    ]
    rows.sort(key=lambda row: (-row.count, -(row.expected or row.model or 0.0), row.token_id))
    known = [row.expected for row in rows]
    unseen = None if None in known else max(1.0 - math.fsum(p for p in known if p), 0.0)
    before = there[0][0].steps[:position]
    return Outcomes(
        tuple(step.token_id for step in before),
        position,
        differs,
        len(there),
        tuple(rows),
        unseen,
        b"".join(step.piece for step in before),
    )


def _outcome(
    token: int,
    runs: Sequence[Run],
    position: int,
    n: int,
    others: dict[int, float],
    end_ids: Sequence[int],
) -> Outcome:
    count, seed = len(runs), runs[0].seed
    if token == END:
        found = [others[i] for i in end_ids if i in others]
        model = math.fsum(found) if found else None
        return Outcome(END, b"", count, count / n, model, None, seed)
    steps = [run.steps[position] for run in runs]
    expected = [step.expected for step in steps if step.expected is not None]
    return Outcome(
        token,
        steps[0].piece,
        count,
        count / n,
        math.fsum(step.model for step in steps) / count,
        math.fsum(expected) / len(expected) if expected else None,
        seed,
    )
