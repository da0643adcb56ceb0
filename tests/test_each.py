"""Each case is tried, and the one that fails is named."""

from __future__ import annotations

import pytest
from each import each

SEEN: list[tuple[str, int]] = []


@each("text", ["a", pytest.param("b", id="bee")])
@each("number", [1, 2])
def test_each_is_tried(text: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(monkeypatch, pytest.MonkeyPatch)
    SEEN.append((text, number))


def test_all_were_tried() -> None:
    SEEN.clear()
    with pytest.MonkeyPatch.context() as monkeypatch:
        test_each_is_tried(monkeypatch=monkeypatch)  # type: ignore[call-arg]
    assert SEEN == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_the_failing_case_is_named() -> None:
    @each("text", [pytest.param("a", id="ay"), "b"])
    @each(("x", "y"), [(1, 1), (1, 2)])
    def equal(x: int, y: int, text: str) -> None:
        assert x == y

    with pytest.raises(AssertionError) as caught:
        equal()
    assert caught.value.__notes__ == ["in the case of x = 1, y = 2", "in the case of ay"]


def test_no_cases_are_a_fault() -> None:
    with pytest.raises(AssertionError, match="cannot fail"):
        each("n", [])
