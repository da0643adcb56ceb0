"""Headings by day, and the filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from recording_desk import NOON, conversation

from ui.sidebar.grouping import group_conversations, group_name, matches


@pytest.mark.parametrize(
    ("days_ago", "name"),
    [
        (-0.2, "Today"),
        (0, "Today"),
        (0.45, "Today"),
        (0.6, "Yesterday"),
        (1.4, "Yesterday"),
        (2, "Last 7 days"),
        (6.4, "Last 7 days"),
        (7, "Last 30 days"),
        (29.4, "Last 30 days"),
        (31, "October 2026"),
        (400, "October 2025"),
    ],
)
def test_days_become_headings(days_ago: float, name: str) -> None:
    assert group_name(conversation(1, "x", days_ago), NOON) == name


def test_days_are_those_of_the_users_time_zone() -> None:
    zone = timezone(timedelta(hours=9))
    just_before_midnight_there = datetime(2026, 11, 27, 14, 50, tzinfo=UTC)
    after_midnight_there = just_before_midnight_there.astimezone(zone) + timedelta(minutes=20)
    one = conversation(1, "x", (NOON - just_before_midnight_there) / timedelta(days=1))
    assert group_name(one, after_midnight_there) == "Yesterday"


def test_pinned_ones_have_their_own_heading_whatever_their_age() -> None:
    groups = group_conversations(
        [
            conversation(1, "old", 90, is_pinned=True),
            conversation(2, "new"),
            conversation(3, "two"),
        ],
        NOON,
    )
    assert [(name, [c.title for c in members]) for name, members in groups] == [
        ("Pinned", ["old"]),
        ("Today", ["new", "two"]),
    ]


@pytest.mark.parametrize(
    ("needle", "is_found"),
    [("", True), ("france", True), ("FR cap", True), ("france london", False), ("straße", False)],
)
def test_the_filter_wants_every_word_in_any_order_and_case(needle: str, is_found: bool) -> None:
    assert matches(conversation(1, "The capital of France"), needle) is is_found


def test_the_filter_folds_case_as_unicode_does() -> None:
    assert matches(conversation(1, "Die STRASSE"), "straße")
