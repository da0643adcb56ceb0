"""A document as a tree of changes: whatever is typed and generated, the path says the text."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.chat.documents.text_document import PLACE, change, document, generated_ranges, place_of
from app.chat.documents.text_prompt import text_prompt
from models.records import Message, MessageState, Role


def node(content: str, place: Any, role: Role = Role.USER, **fields: Any) -> Message:
    settings = {} if place is None else {PLACE: place}
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return Message("m", "c", None, role, content, when, settings=settings, **fields)


def test_the_worked_example() -> None:
    path = [
        node("Once upon ", [0, 0]),
        node("a time.", [10, 10], Role.ASSISTANT),
        node("twice", [5, 9]),
    ]
    assert document(path[:2]) == "Once upon a time."
    assert document(path) == "Once twice a time."
    assert generated_ranges(path[:2]) == ((10, 17),)
    assert generated_ranges(path) == ((11, 18),)


def test_an_edit_inside_of_a_continuation_makes_it_the_users() -> None:
    path = [node("continued", [0, 0], Role.ASSISTANT), node("X", [3, 3])]
    assert generated_ranges(path) == ()


@pytest.mark.parametrize(
    "place", [None, [], [1], "ab", [1.5, 2], [True, 2], [99, 120], [2, 1], [-5, -1], {"a": 1}]
)
def test_a_place_that_does_not_fit_is_brought_into_the_document(place: Any) -> None:
    start, end = place_of(node("x", place), 4)
    assert 0 <= start <= end <= 4
    assert len(document([node("abcd", [0, 0]), node("x", place)])) <= 5


def test_what_cannot_be_read_changes_nothing() -> None:
    broken = node("", [0, 4], state=MessageState.UNREADABLE)
    assert document([node("abcd", [0, 0]), broken]) == "abcd"


@given(st.lists(st.text(alphabet="ab\n🙂", max_size=12), min_size=1, max_size=12))
def test_any_row_of_texts_is_read_back(texts: list[str]) -> None:
    path: list[Message] = []
    for text in texts:
        changed = change(document(path), text)
        if changed is not None:
            start, end, new = changed
            path.append(node(new, [start, end]))
        assert document(path) == text


@given(st.text(alphabet="ab", max_size=20), st.text(alphabet="ab", max_size=20))
def test_a_change_is_as_small_as_its_ends_allow(before: str, after: str) -> None:
    changed = change(before, after)
    if changed is None:
        assert before == after
        return
    start, end, new = changed
    assert before[:start] + new + before[end:] == after
    removed = before[start:end]
    assert not (removed and new) or (removed[0] != new[0] and removed[-1] != new[-1])


def test_a_megabyte_is_compared_quickly() -> None:
    before = "All happy families are alike. " * 40_000
    after = before[:500_000] + "x" + before[500_000:]
    began = time.thread_time()
    assert change(before, after) == (500_000, 500_000, "x")
    assert time.thread_time() - began < 0.1


def test_of_a_long_text_the_prompt_has_what_can_fit_and_begins_alike_for_long() -> None:
    text = "".join(f"line {number}\n" for number in range(200_000))
    assert text_prompt(text[:1000], 4096).text == text[:1000]
    starts = set()
    for length in range(1_000_000, 1_060_000, 4_000):
        kept = text_prompt(text[:length], 4096).text
        assert text[:length].endswith(kept)
        assert 16 * 4096 <= len(kept) <= 2 * 16 * 4096
        starts.add(length - len(kept))
    assert len(starts) <= 2
