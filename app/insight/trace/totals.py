"""Figures of a whole reply, computed from its trace.

With p the probability of each of n tokens before samplers, at temperature 1:

    mean log-probability = Σ ln p / n        (nat per token)
    perplexity           = exp(−mean)        (how many equally probable tokens would be as hard)
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.protocol.messages import TokenTrace
from app.insight.trace.table import TraceTable, cuts_of


@dataclass(frozen=True, slots=True)
class Totals:
    """`tokens_per_s` counts as llama-bench does: (n − 1) ÷ time after the first token; None where
    no time passed. `mean_entropy`: None where that of any token is not known."""

    n_tokens: int
    mean_logprob: float
    perplexity: float
    mean_entropy: float | None
    tokens_per_s: float | None


def speeds(
    times: Sequence[float], points: int = 100, drafted: Sequence[bool] = ()
) -> list[tuple[float, float]]:
    """(seconds after the first token, tokens/s) of at most so many stretches of equal length, from
    each token's milliseconds. The first one is left out: it waited for the prompt. A token behind a
    `drafted` one came out of the same pass, whose time the first of them has: no stretch ends
    between them.

    >>> speeds([500.0, 10.0, 10.0, 40.0, 40.0], 2)
    [(0.02, 100.0), (0.1, 25.0)]
    >>> speeds([500.0, 20.0, 0.0, 0.0, 20.0], 4, [False, True, True, False, False])
    [(0.02, 150.0), (0.04, 50.0)]
    """
    n = len(times) - 1
    if n < 1:
        return []
    size = math.ceil(n / points)
    found, at_ms = [], 0.0
    end = 1
    while end <= n:
        start, end = end, end + size
        while end <= n and end <= len(drafted) and drafted[end - 1]:
            end += 1
        stretch = times[start:end]
        took = math.fsum(stretch)
        at_ms += took
        if took > 0:
            found.append((at_ms / 1000, 1000 * len(stretch) / took))
    return found


class RunningTotals:
    """The figures of a trace that grows: each token is looked at once. `times`: milliseconds of
    each token."""

    def __init__(self) -> None:
        self.times: array[float] = array("d")
        self._logprobs: array[float] = array("d")
        self._entropies: array[float] = array("d")
        self._sums = (0.0, 0.0)
        self._n_cuts = 0

    def follow(self, tokens: Sequence[TokenTrace]) -> None:
        """Take over what is new in the same trace; what was taken back goes."""
        known = len(self.times)
        if len(tokens) < known or cuts_of(tokens) != self._n_cuts:
            # How far back a cut went is not known; it is rare, so all is looked at again.
            known = len(tokens) if cuts_of(tokens) == self._n_cuts else 0
            self._n_cuts = cuts_of(tokens)
            for column in (self.times, self._logprobs, self._entropies):
                del column[known:]
            self._sums = (math.fsum(self._logprobs), math.fsum(self._entropies))
        logprobs, entropies, times = _columns(tokens, known)
        self._logprobs.extend(logprobs)
        self._entropies.extend(entropies)
        self.times.extend(times)
        self._sums = (
            math.fsum((self._sums[0], *logprobs)),
            math.fsum((self._sums[1], *entropies)),
        )

    def totals(self, taken_over: int = 0) -> Totals | None:
        """`taken_over`: so many of the first tokens were drawn in another version, at its speed."""
        n = len(self.times)
        if not n:
            return None
        mean, own = self._sums[0] / n, self.times[taken_over:]
        after_first = math.fsum(own[1:])
        return Totals(
            n_tokens=n,
            mean_logprob=mean,
            perplexity=math.exp(min(-mean, 700.0)),
            mean_entropy=None if math.isnan(self._sums[1]) else self._sums[1] / n,
            tokens_per_s=1000 * (len(own) - 1) / after_first if after_first > 0 else None,
        )


def _columns(
    tokens: Sequence[TokenTrace], start: int
) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    if isinstance(tokens, TraceTable):  # it would make each token anew
        return (
            tokens.column("logprob", start),
            tokens.column("entropy", start),
            tokens.column("ms", start),
        )
    more = tokens[start:]
    entropies = [math.nan if t.entropy is None else t.entropy for t in more]
    return [t.logprob for t in more], entropies, [t.ms for t in more]
