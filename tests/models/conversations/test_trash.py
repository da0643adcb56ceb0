"""The trash and the clock: nothing is due that cannot surely be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from store_records import a_conversation, a_message

from models.conversations import trash
from models.records import Conversation, Message
from models.store.store import Store

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
Y2000 = datetime(2000, 1, 1, 0, 3, tzinfo=UTC)
KEEP = 30 * DAY


class Clock:
    """What the store takes for the time."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self, _zone: object = None) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(trash, "datetime", made)
    return made


class Trash:
    """A chat with a deleted message in it, and a deleted chat."""

    def __init__(self, store: Store, clock: Clock, last_change: datetime = NOW - 60 * DAY) -> None:
        self.store, self.clock = store, clock
        chat = a_conversation(created_at=last_change, updated_at=last_change)
        self.gone = store.create_conversation(replace(chat)).result()
        self.chat = store.create_conversation(
            a_conversation(created_at=last_change, updated_at=last_change)
        ).result()
        self.messages = [self.say(last_change) for _ in range(3)]

    def say(self, when: datetime, parent: Message | None = None) -> Message:
        return self.store.append_message(a_message(self.chat, parent, created_at=when)).result()

    def throw_away(self) -> None:
        self.store.trash_conversation(self.gone.id).result()
        self.store.trash_branch(self.messages[1].id).result()

    def start(self) -> tuple[int, int]:
        """What a start does; how many chats and messages it deletes."""
        now = self.clock.time
        self.store.see_clock(now, KEEP / 2).result()
        return (
            self.store.purge_some(now - KEEP, 20).result(),
            self.store.purge_branches(now - KEEP).result(),
        )

    def days_old(self) -> list[int]:
        (chat,), (branch,) = (
            self.store.list_trash().result(),
            self.store.list_trashed_branches().result(),
        )
        assert chat.trashed_at is not None
        return [(self.clock.time - each) // DAY for each in (chat.trashed_at, branch.trashed_at)]


def test_what_is_old_enough_goes(store: Store, clock: Clock) -> None:
    kept = Trash(store, clock)
    assert kept.start() == (0, 0)
    kept.throw_away()
    clock.time += 14 * DAY
    assert kept.start() == (0, 0)
    clock.time += 14 * DAY
    assert kept.start() == (0, 0)
    clock.time += 3 * DAY
    assert kept.start() == (1, 1)


def test_a_clock_that_stood_in_2000_empties_nothing(store: Store, clock: Clock) -> None:
    """Thrown away while the clock was wrong, then the right time, then a start."""
    kept = Trash(store, clock)
    kept.start()
    clock.time = Y2000
    kept.start()
    kept.throw_away()
    clock.time = NOW + DAY
    assert kept.start() == (0, 0)
    assert kept.days_old() in ([0, 0], [1, 1])
    for _ in range(2):
        clock.time += 14 * DAY
        assert kept.start() == (0, 0)
    clock.time += 3 * DAY
    assert kept.start() == (1, 1), "but for ever it does not stay either"


def test_so_does_one_that_was_never_right_before(store: Store, clock: Clock) -> None:
    """The chat too is of the year 2000, as the clock had it."""
    clock.time = Y2000
    kept = Trash(store, clock, last_change=Y2000)
    kept.start()
    kept.throw_away()
    clock.time = NOW
    assert kept.start() == (0, 0)
    assert kept.days_old() == [0, 0]


def test_a_clock_that_jumps_ahead_and_back_makes_nothing_older(store: Store, clock: Clock) -> None:
    kept = Trash(store, clock)
    kept.start()
    kept.throw_away()
    clock.time += 2 * DAY
    kept.start()
    clock.time += 4 * 365 * DAY
    assert kept.start() == (0, 0)
    clock.time = NOW + 3 * DAY
    assert kept.start() == (0, 0)
    assert kept.days_old()[0] <= 2 + 15


def test_a_clock_that_was_right_at_the_start_and_fell_back_since(
    store: Store, clock: Clock
) -> None:
    kept = Trash(store, clock)
    kept.start()
    clock.time = Y2000
    kept.throw_away()
    clock.time = NOW + timedelta(hours=1)
    assert kept.start() == (0, 0)
    assert kept.days_old() == [0, 0]


def test_what_was_thrown_away_before_its_own_last_change_is_not_purged(
    store: Store, clock: Clock, execute: Callable[..., Any]
) -> None:
    """Also without a look at the clock, as in a database of an older version."""
    kept = Trash(store, clock, last_change=NOW - 40 * DAY)
    kept.throw_away()
    before = (NOW - 50 * DAY).timestamp() * 1e6
    execute("UPDATE conversation SET trashed_us = ? WHERE trashed_us IS NOT NULL", before)
    execute("UPDATE message SET trashed_us = ? WHERE trashed_us IS NOT NULL", before)
    assert store.purge_some(NOW - KEEP).result() == 0
    assert store.purge_branches(NOW - KEEP).result() == 0
    assert kept.start() == (0, 0)
    assert kept.days_old() == [0, 0]


def test_acts_of_deleting_stay_apart_when_they_get_another_time(store: Store, clock: Clock) -> None:
    """Restoring one brings back that one alone."""
    clock.time = Y2000
    kept = Trash(store, clock, last_change=Y2000)
    below = kept.say(Y2000, kept.messages[1])
    store.trash_branch(below.id).result()
    store.trash_branch(kept.messages[1].id).result()
    clock.time = NOW
    kept.start()
    store.restore_branch(kept.messages[1].id).result()
    assert store.load_message(kept.messages[1].id).result().trashed_at is None
    assert store.load_message(below.id).result().trashed_at is not None


def test_a_purge_takes_nothing_that_is_not_due_itself(store: Store, clock: Clock) -> None:
    """A message that was deleted later hangs on one that was deleted long ago."""
    kept = Trash(store, clock)
    child = kept.say(NOW, kept.messages[1])
    clock.time = NOW - 50 * DAY
    other = store.trash_branch(kept.messages[2].id).result()
    assert other.leaf_id
    clock.time = NOW
    store.trash_branch(child.id).result()
    clock.time = NOW - 45 * DAY
    store._write(
        lambda c: c.exec_driver_sql(
            "UPDATE message SET trashed_us = (SELECT min(trashed_us) FROM message) WHERE id = ?",
            (kept.messages[1].id,),
        ),
    ).result()
    assert store.purge_branches(NOW - KEEP).result() == 1, "the one with nothing below it"
    there = {node.id for node in store.load_tree(kept.chat.id).result()}
    assert {kept.messages[1].id, child.id} <= there


def test_several_chats_are_thrown_away_with_one_time(store: Store, clock: Clock) -> None:
    made: list[Conversation] = [
        store.create_conversation(a_conversation()).result() for _ in range(3)
    ]
    store.trash_conversations([made[0].id, made[2].id, "nobody"]).result()
    assert {c.id for c in store.list_trash().result()} == {made[0].id, made[2].id}
    assert len({c.trashed_at for c in store.list_trash().result()}) == 1
    assert clock.time > NOW
