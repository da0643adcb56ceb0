"""What is typed into the search field, taken apart."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from each import each
from hypothesis import given, strategies as st

from models.records import Role
from models.search.query import FILTERS, SearchQuery, parse, with_filter

TODAY = date(2026, 5, 31)


def midnight(year: int, month: int = 1, day: int = 1) -> datetime:
    """When a day begins here."""
    return datetime(year, month, day).astimezone().astimezone(UTC)


@each(
    ("typed", "expected"),
    [
        ("rain", SearchQuery("rain")),
        ("  big  rain ", SearchQuery("big  rain")),
        ("rain role:user", SearchQuery("rain", roles=frozenset({Role.USER}))),
        ("ROLE:Assistant rain", SearchQuery("rain", roles=frozenset({Role.ASSISTANT}))),
        ("in:title rain", SearchQuery("rain", in_title=True)),
        ("has:reasoning", SearchQuery(has_reasoning=True)),
        ("folder:work x", SearchQuery("x", folders=("work",))),
        ('folder:"My Work" x', SearchQuery("x", folders=("my work",))),
        ("x before:2026-05-03", SearchQuery("x", before=midnight(2026, 5, 3))),
        ("x after:2026-5", SearchQuery("x", after=midnight(2026, 5))),
        ("x after:2026", SearchQuery("x", after=midnight(2026))),
        ("x after:yesterday", SearchQuery("x", after=midnight(2026, 5, 30))),
        ("before:today x", SearchQuery("x", before=midnight(2026, 5, 31))),
        ("before:2025 before:2026", SearchQuery(before=midnight(2026))),
        # No filters, only words:
        ("foo:bar", SearchQuery("foo:bar")),
        ("std::role:user", SearchQuery("std::role:user")),
        ('"say role:user twice"', SearchQuery('"say role:user twice"')),
        ("role:", SearchQuery("role:")),
    ],
)
def test_filters_and_words(typed: str, expected: SearchQuery) -> None:
    assert parse(typed, TODAY) == expected


@pytest.mark.parametrize(
    "typed", ["role:usr", "before:monday", "after:2026-13", "has:x", "in:body", "before:0000"]
)
def test_a_filter_that_makes_no_sense_is_named_and_left_out(typed: str) -> None:
    query = parse(f"rain {typed}", TODAY)
    assert query.words == "rain"
    assert len(query.problems) == 1
    assert typed.split(":")[1] in query.problems[0]
    assert SearchQuery("rain", problems=query.problems) == query


@given(st.text(max_size=60))
def test_no_text_is_an_error(typed: str) -> None:
    parse(typed)


@given(
    st.lists(
        st.sampled_from(["rain", '"big wind"', "role:user", "after:2026-01-02", "folder:x", "a:b"]),
        max_size=6,
    )
)
def test_words_and_filters_may_stand_in_any_order(parts: list[str]) -> None:
    filters = ("role:user", "after:2026-01-02", "folder:x")
    query = parse(" ".join(parts), TODAY)
    assert query.words.split() == " ".join(p for p in parts if p not in filters).split()
    assert bool(query.roles) == ("role:user" in parts)
    assert (query.after is not None) == ("after:2026-01-02" in parts)
    assert len(query.folders) == parts.count("folder:x")


def test_a_chosen_filter_takes_the_place_of_one_of_its_kind() -> None:
    assert with_filter("rain", "role:user") == "role:user rain"
    assert with_filter("role:assistant rain", "role:user") == "role:user rain"
    assert with_filter("rain before:2025", "after:2024") == "after:2024 rain before:2025"
    assert with_filter("", "has:reasoning") == "has:reasoning "


def test_every_filter_that_is_offered_is_understood() -> None:
    values = {"role:": "user", "before:": "2026", "after:": "2026"}
    values |= dict.fromkeys(("folder:", "tag:", "file:"), "x")
    for name in FILTERS:
        query = parse(name + values.get(name, ""), TODAY)
        assert query.words == "", name
        assert query.problems == (), name


def test_names_of_attachments_are_a_filter_of_messages() -> None:
    query = parse('file:ant.png legs file:"my notes"')
    assert (query.words, query.files) == ("legs", ("ant.png", "my notes"))
    assert not query.wants_titles
