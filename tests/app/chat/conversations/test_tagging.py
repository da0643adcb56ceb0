"""Tags through the desk, on a real store: several at once, renamed, deleted, taken back."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import a_conversation

from app.chat import events
from app.chat.conversations.tagging import FULL, KnownTag
from models.conversations.tag_names import MAX_TAGS


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room().start()


def put(room: Any, *titles: str) -> list[str]:
    made = [a_conversation(title=title) for title in titles]
    for conversation in made:
        room.store.create_conversation(conversation).result()
    room.desk.shelf.show_list(room.store.list_conversations().result())
    return [each.id for each in made]


def tags(room: Any, *ids: str) -> list[tuple[str, ...]]:
    """As they are shown, which is as they are stored."""
    shown = {c.id: c.tags for c in room.desk.shelf.conversations}
    stored = {c.id: c.tags for c in room.store.list_conversations().result()}
    assert shown == stored
    return [shown[each] for each in ids]


def undo_last(room: Any) -> None:
    told = [e for e in room.events if isinstance(e, events.Noticed) and e.undo]
    room.desk.shelf.undo(told[-1].undo)


def said(room: Any) -> str:
    return [e.sentence for e in room.events if isinstance(e, events.Noticed)][-1]


def test_several_chats_are_tagged_renamed_and_all_of_it_is_taken_back(room: Any) -> None:
    tagging = room.desk.tagging
    a, b, c = put(room, "a", "b", "c")
    tagging.change([a, b, "nobody"], ["Work", "#home  now"])
    assert said(room) == "Tagged 2 chats: home now, Work."
    assert tags(room, a, b, c) == [("home now", "Work")] * 2 + [()]
    tagging.change([b, c], ["WORK"], ["Home Now"])  # the same tags, as they are written already
    assert tags(room, a, b, c) == [("home now", "Work"), ("Work",), ("Work",)]
    assert tagging.all == (KnownTag("home now", 1), KnownTag("Work", 3))
    undo_last(room)
    assert tags(room, b, c) == [("home now", "Work"), ()]

    room.desk.folders.trash([b])
    tagging.rename("work", "HOME NOW")  # one that is there: they become one
    assert said(room) == "The tag “work” is now one with “home now”."
    room.desk.folders.restore([b])
    room.until(lambda: room.desk.shelf.is_stored(b))
    stored = {each.id: each.tags for each in room.store.list_conversations().result()}
    assert stored == {a: ("home now",), b: ("home now",), c: ()}
    tagging.delete("home now")
    assert tags(room, a, c) == [(), ()]
    undo_last(room)
    room.until(lambda: tags(room, a, c) == [("home now",), ()])


def test_too_many_or_nothing_is_said_or_ignored(room: Any) -> None:
    (a,) = put(room, "a")
    room.desk.tagging.change([a], [f"t{n:02}" for n in range(MAX_TAGS)])
    room.desk.tagging.change([a], ["one more"])
    assert said(room) == FULL
    assert len(tags(room, a)[0]) == MAX_TAGS
    n_said = len(room.events)
    room.desk.tagging.change([a], ["  ", "#"], ["not there"])
    room.desk.tagging.rename("t00", " # ")
    assert len(room.events) == n_said


def test_a_copy_and_a_restart_keep_them(make_room: Any) -> None:
    room = make_room().start()
    (a,) = put(room, "a")
    room.desk.tagging.change([a], ["東京"])
    room.close()
    again = make_room().start()
    again.until(lambda: again.desk.tagging.all == (KnownTag("東京", 1),))
