"""Two runs, the same or not."""

from __future__ import annotations

import pytest

from app.insight.trace.repeats import TokenComparison, compare_runs


@pytest.mark.parametrize(
    ("first", "second", "at"),
    [
        ([], [], None),
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1, 2, 3], [1, 2], 2),
        ([], [4], 0),
    ],
)
def test_ids(first: list[int], second: list[int], at: int | None) -> None:
    for result in (compare_runs(first, second), compare_runs(second, first)):
        assert result.differs_at == at
        assert result.is_identical == (at is None)
        assert result.same_ids == (at is None)


def test_one_bit_of_a_log_probability_counts() -> None:
    result = compare_runs([1, 2], [1, 2], [-0.1, -0.3], [-0.1, -0.1 - 0.2])
    assert result == TokenComparison(1, same_ids=True)
    assert "probabilities first differ at token 2" in result.sentence


def test_probabilities_that_differ_before_the_ids_do() -> None:
    result = compare_runs([1, 2, 3], [1, 2, 4], [-1.0, -1.5, -2.0], [-1.0, -1.4, -2.0])
    assert result == TokenComparison(1, same_ids=False)
    assert result.sentence == "First differs at token 2."


def test_ids_that_differ_first() -> None:
    assert compare_runs([1, 2], [3, 2], [-1.0, -1.0], [-1.0, -9.0]).differs_at == 0
