"""Whether two runs of the same request are the same, to the last bit.

first    12  7   9   4          the third token differs in its ID; the fourth is not looked at,
second   12  7   8   4          because it stands on another text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenComparison:
    """`differs_at`: index of the first token that is not the same, or None. `same_ids`: whether
    only its log-probability differs. A run that is longer differs where the other one ends."""

    differs_at: int | None
    same_ids: bool = True

    @property
    def is_identical(self) -> bool:
        return self.differs_at is None

    @property
    def sentence(self) -> str:
        """
        >>> TokenComparison(None).sentence, TokenComparison(2, same_ids=False).sentence
        ('Identical.', 'First differs at token 3.')
        """
        if self.differs_at is None:
            return "Identical."
        if self.same_ids:
            return f"Same tokens; the probabilities first differ at token {self.differs_at + 1:,}."
        return f"First differs at token {self.differs_at + 1:,}."


def compare_runs(
    first_ids: Sequence[int],
    second_ids: Sequence[int],
    first_logprobs: Sequence[float] | None = None,
    second_logprobs: Sequence[float] | None = None,
) -> TokenComparison:
    """Compare IDs and, where both are given, log-probabilities; equal means the same bits.

    >>> compare_runs([12, 7, 9], [12, 7, 8]).differs_at
    2
    >>> compare_runs([12, 7], [12, 7], [-0.5, -1.0], [-0.5, -1.25])
    TokenComparison(differs_at=1, same_ids=True)
    """
    ids_at = _first_difference(first_ids, second_ids)
    numbers_at = None
    if first_logprobs is not None and second_logprobs is not None:
        numbers_at = _first_difference(first_logprobs, second_logprobs)
    if numbers_at is not None and (ids_at is None or numbers_at < ids_at):
        return TokenComparison(numbers_at, same_ids=ids_at is None)
    return TokenComparison(ids_at, same_ids=False) if ids_at is not None else TokenComparison(None)


def _first_difference(first: Sequence[float], second: Sequence[float]) -> int | None:
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return index
    return min(len(first), len(second)) if len(first) != len(second) else None
