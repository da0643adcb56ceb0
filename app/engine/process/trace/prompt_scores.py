"""How probable each token of a prompt was, before samplers.

The scores of row i say how probable each token is at position i + 1. So for a prompt t0 … tn,
row i is asked about t(i+1), and t0 has nothing before it:

    logprob(t) = l[t] − max − ln Σ exp(l − max)        rank(t) = 1 + how many scores are larger

In float64: a prompt has many tokens, and what is compared is often their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.trace.shortlist import Scores
from app.engine.protocol.messages import PromptScores


class PromptScorer:
    """Scores the tokens of prompts over one vocabulary. Keeps a buffer, so one thread at a time."""

    def __init__(self, n_vocab: int) -> None:
        self._wide = np.empty(n_vocab, np.float64)

    def score(self, scores: Scores, token_id: int) -> tuple[float, int]:
        """Log-probability (nat) and rank of `token_id` by `scores` [n_vocab]."""
        wide = self._wide
        best = float(scores.max())
        np.subtract(scores, best, out=wide, dtype=np.float64)
        own = float(wide[token_id])
        rank = 1 + int(np.count_nonzero(scores > scores[token_id]))
        np.exp(wide, out=wide)
        return own - math.log(float(wide.sum())), rank

    def chunk(
        self, request_id: int, start: int, token_ids: Sequence[int], row: Callable[[int], Scores]
    ) -> PromptScores:
        """Tokens start … of a prompt; `row(i)` gives the scores for the i-th of them."""
        pairs = [self.score(row(i), token_id) for i, token_id in enumerate(token_ids)]
        logprobs: np.ndarray[Any, Any] = np.array([pair[0] for pair in pairs], np.float32)
        ranks: np.ndarray[Any, Any] = np.array([pair[1] for pair in pairs], np.int32)
        return PromptScores(request_id, start, list(token_ids), as_array(logprobs), as_array(ranks))
