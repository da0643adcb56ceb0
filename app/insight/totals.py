"""Figures of a whole reply, computed from its trace.

With p the probability of each of n tokens before samplers, at temperature 1:

    mean log-probability = Σ ln p / n        (nat per token)
    perplexity           = exp(−mean)        (how many equally probable tokens would be as hard)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from app.engine.protocol import TokenTrace


@dataclass(frozen=True, slots=True)
class Totals:
    """`tokens_per_s` counts as llama-bench does: (n − 1) ÷ time after the first token."""

    n_tokens: int
    mean_logprob: float
    perplexity: float
    mean_entropy: float
    tokens_per_s: float
    usual_ms: float


def totals(tokens: Sequence[TokenTrace]) -> Totals | None:
    """None without tokens."""
    n = len(tokens)
    if not n:
        return None
    # A trace that grows makes each token anew for whoever asks, so it is asked once.
    rows = [(token.logprob, token.entropy, token.ms) for token in tokens]
    logprobs, entropies, times = zip(*rows, strict=True)
    mean, after_first = math.fsum(logprobs) / n, math.fsum(times[1:])
    return Totals(
        n_tokens=n,
        mean_logprob=mean,
        perplexity=math.exp(min(-mean, 700.0)),
        mean_entropy=math.fsum(entropies) / n,
        tokens_per_s=1000 * (n - 1) / after_first if after_first > 0 else 0.0,
        usual_ms=median(times),
    )


def speed_over_time(tokens: Sequence[TokenTrace], points: int = 100) -> list[tuple[float, float]]:
    """(seconds after the first token, tokens/s) of at most so many stretches of equal length.

    >>> speed_over_time([], 3)
    []
    """
    n = len(tokens) - 1
    if n < 1:
        return []
    size = math.ceil(n / points)
    found, at_ms = [], 0.0
    for start in range(1, n + 1, size):
        times = [tokens[at].ms for at in range(start, min(start + size, n + 1))]
        took = math.fsum(times)
        at_ms += took
        if took > 0:
            found.append((at_ms / 1000, 1000 * len(times) / took))
    return found
