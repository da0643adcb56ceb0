"""Headings by day, and folders."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st
from recording_desk import NOON, conversation

from models.records import Conversation, Folder
from ui.sidebar.grouping import Arrangement, Row, group_conversations, tree_of


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
    assert name_of(conversation(1, "x", days_ago), NOON) == name


def test_days_are_those_of_the_users_time_zone() -> None:
    zone = timezone(timedelta(hours=9))
    just_before_midnight_there = datetime(2026, 11, 27, 14, 50, tzinfo=UTC)
    after_midnight_there = just_before_midnight_there.astimezone(zone) + timedelta(minutes=20)
    one = conversation(1, "x", (NOON - just_before_midnight_there) / timedelta(days=1))
    assert name_of(one, after_midnight_there) == "Yesterday"


def test_a_day_that_the_time_zone_does_not_have_is_named_all_the_same() -> None:
    first_day = replace(conversation(1, "x", 0), updated_at=datetime.min.replace(tzinfo=UTC))
    west = timezone(timedelta(hours=-9))
    assert name_of(first_day, NOON.astimezone(west)) == "January 1"


def name_of(one: Conversation, now: datetime) -> str:
    ((name, _members),) = group_conversations([one], now)
    return name


@given(st.lists(st.floats(-0.4, 900), max_size=12))
def test_every_chat_is_named_by_its_own_day(ages: list[float]) -> None:
    """Whatever the order of the list, as if each stood alone."""
    chats = [conversation(number, "x", age) for number, age in enumerate(ages)]
    for name, members in group_conversations(chats, NOON):
        assert {name_of(each, NOON) for each in members} == {name}


def folder(number: int, name: str, parent: str | None = None) -> Folder:
    return Folder(f"f{number}", name, NOON, parent)


def shown(rows: list[Row]) -> list[str]:
    """Each row indented by its depth."""
    signs = {"heading": "# ", "folder": "/", "chat": ""}
    return ["  " * row.depth + signs[row.kind] + row.text for row in rows]


CHATS = [
    conversation(1, "old", 90, is_pinned=True, folder_id="f1"),
    conversation(2, "new"),
    conversation(3, "in work", folder_id="f1"),
    conversation(4, "in taxes", folder_id="f2"),
    conversation(5, "lost", folder_id="nowhere"),
    conversation(6, "away", is_archived=True, folder_id="f1"),
]
FOLDERS = [folder(2, "Taxes", "f1"), folder(1, "work"), folder(3, "Art")]


def test_pinned_then_folders_then_days() -> None:
    rows = Arrangement().rows(CHATS, FOLDERS, frozenset(), NOON)
    assert shown(rows) == [
        "# Pinned",
        "old",
        "# Folders",
        "/Art",
        "/work",
        "  /Taxes",
        "    in taxes",
        "  in work",
        "# Today",
        "new",
        "lost",
    ]
    assert [row.n_chats for row in rows if row.kind == "folder"] == [0, 2, 1]


def test_a_closed_folder_hides_what_is_in_it_and_counts_it() -> None:
    rows = Arrangement().rows(CHATS, FOLDERS, frozenset({"f1"}), NOON)
    assert shown(rows)[2:6] == ["# Folders", "/Art", "/work", "# Today"]
    assert rows[4].n_chats == 2


def test_the_archive_has_only_what_was_put_there() -> None:
    pinned = conversation(7, "once pinned", 3, is_archived=True, is_pinned=True)
    rows = Arrangement().rows([pinned, *CHATS], FOLDERS, frozenset(), NOON, archived=True)
    assert shown(rows) == ["# Today", "away", "# Last 7 days", "once pinned"]


def test_rows_of_unchanged_chats_are_kept() -> None:
    arrangement = Arrangement()
    first = arrangement.rows(CHATS[1:2], [], frozenset(), NOON)
    changed = conversation(2, "renamed")
    again = arrangement.rows([changed], [], frozenset(), NOON)
    assert (first[1].text, again[1].text) == ("new", "renamed")
    assert arrangement.rows([changed], [], frozenset(), NOON)[1] is again[1]


IDS = [f"f{number}" for number in range(6)]


@given(
    st.lists(st.sampled_from([*IDS, None, "gone"]), min_size=6, max_size=6),
    st.lists(st.sampled_from([*IDS, None, "gone"]), max_size=8),
)
def test_no_folder_and_no_chat_is_ever_lost(
    parents: list[str | None], places: list[str | None]
) -> None:
    """Whatever lies in whatever, also in a circle (a damaged file)."""
    folders = [Folder(each, each, NOON, parent) for each, parent in zip(IDS, parents, strict=True)]
    chats = [
        conversation(number, f"c{number}", folder_id=place) for number, place in enumerate(places)
    ]
    rows = Arrangement().rows(chats, folders, frozenset(), NOON)
    assert sorted(row.id for row in rows if row.kind == "folder") == IDS
    assert sorted(row.id for row in rows if row.kind == "chat") == sorted(c.id for c in chats)
    assert sorted(f.id for f, _depth in tree_of(folders)) == IDS


def test_folders_deeper_than_anybody_puts_them_are_no_trouble() -> None:
    deep = [Folder(f"d{n}", f"d{n}", NOON, f"d{n - 1}" if n else None) for n in range(3000)]
    rows = Arrangement().rows([], deep, frozenset(), NOON)
    assert sum(row.kind == "folder" for row in rows) == 3000
