"""Folders, many chats at once and the trash, through the desk, on a real store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from store_records import a_conversation, a_message

from app.chat import events


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room().start()


def put(room: Any, *titles: str, **fields: Any) -> list[str]:
    """Chats in the store, as a former run left them; their ids."""
    made = [a_conversation(title=title, **fields) for title in titles]
    for conversation in made:
        room.store.create_conversation(conversation).result()
        room.store.append_message(a_message(conversation, content=conversation.title)).result()
    stored = room.store.list_conversations().result()
    room.desk.shelf.show_list(stored)
    return [each.id for each in made]


def listed(room: Any) -> set[str]:
    return {c.id for c in room.desk.shelf.conversations}


def in_store(room: Any) -> dict[str, Any]:
    return {c.id: c for c in room.store.list_conversations().result()}


def undo_last(room: Any) -> None:
    notices = [e for e in room.events if isinstance(e, events.Noticed) and e.undo]
    room.desk.shelf.undo(notices[-1].undo)


def notices(room: Any) -> list[str]:
    return [e.sentence for e in room.events if isinstance(e, events.Noticed)]


def test_a_folder_is_made_renamed_and_there_after_a_restart(make_room: Any) -> None:
    room = make_room().start()
    outer = room.desk.folders.create("  Work \n at home ")
    inner = room.desk.folders.create("Taxes", outer)
    room.desk.folders.rename(outer, "Work")
    room.desk.folders.rename(inner, "   ")
    room.close()
    again = make_room().start()
    again.until(lambda: len(again.desk.folders.all) == 2)
    assert [(f.name, f.parent_id) for f in again.desk.folders.all] == [
        ("Taxes", outer),
        ("Work", None),
    ]


def test_deleting_a_folder_hands_its_chats_up_and_can_be_undone(room: Any) -> None:
    outer = room.desk.folders.create("Outer")
    middle = room.desk.folders.create("Middle", outer)
    inner = room.desk.folders.create("Inner", middle)
    ids = put(room, "a", "b")
    room.desk.folders.move_chats(ids, middle)
    room.desk.folders.delete(middle)
    assert notices(room)[-1] == "The folder “Middle” was deleted. 2 chats from it stayed."
    assert {c.folder_id for c in room.desk.shelf.conversations} == {outer}
    assert {c.folder_id for c in in_store(room).values()} == {outer}
    places = {f.id: f.parent_id for f in room.desk.folders.all}
    assert places == {outer: None, inner: outer}

    undo_last(room)
    room.until(lambda: {c.folder_id for c in room.desk.shelf.conversations} == {middle})
    assert {c.folder_id for c in in_store(room).values()} == {middle}
    places = {f.id: f.parent_id for f in room.store.list_folders().result()}
    assert places == {outer: None, middle: outer, inner: middle}


def test_a_chat_in_the_trash_survives_its_folder(room: Any) -> None:
    folder = room.desk.folders.create("Gone soon")
    (chat,) = put(room, "a")
    room.desk.folders.move_chats([chat], folder)
    room.desk.folders.trash([chat])
    room.desk.folders.delete(folder)
    room.desk.folders.restore([chat])
    room.until(lambda: listed(room) == {chat})
    assert in_store(room)[chat].folder_id is None


def test_a_folder_never_lies_in_itself(room: Any) -> None:
    outer = room.desk.folders.create("Outer")
    inner = room.desk.folders.create("Inner", outer)
    room.desk.folders.move(outer, inner)
    room.desk.folders.move(outer, outer)
    assert {f.id: f.parent_id for f in room.desk.folders.all} == {outer: None, inner: outer}
    assert "itself" in notices(room)[-1]
    room.desk.folders.move(inner, None)
    assert {f.id: f.parent_id for f in room.desk.folders.all} == {outer: None, inner: None}
    undo_last(room)
    assert {f.id: f.parent_id for f in room.store.list_folders().result()} == {
        outer: None,
        inner: outer,
    }


@pytest.mark.parametrize(
    ("act", "field", "value"),
    [
        (lambda desk, ids: desk.folders.pin(ids, True), "is_pinned", True),
        (lambda desk, ids: desk.folders.archive(ids, True), "is_archived", True),
    ],
)
def test_one_act_on_many_chats_is_undone_as_one(
    room: Any, act: Any, field: str, value: bool
) -> None:
    ids = put(room, "a", "b", "c")
    room.desk.folders.pin([ids[2]], True)
    room.desk.folders.archive([ids[2]], True)
    before = in_store(room)
    act(room.desk, [*ids, ids[0], "nobody"])
    assert {getattr(c, field) for c in in_store(room).values()} == {value}
    assert "2 chats" in notices(room)[-1]
    undo_last(room)
    assert in_store(room) == before
    assert {c.id: c for c in room.desk.shelf.conversations} == before


def test_many_are_trashed_and_come_back_with_one_undo(room: Any) -> None:
    ids = put(room, "a", "b", "c")
    room.desk.shelf.open_stored(ids[0])
    room.until(lambda: room.desk.shelf.open.id == ids[0])
    room.desk.folders.trash(ids[:2])
    assert listed(room) == set(in_store(room)) == {ids[2]}
    room.until(lambda: room.desk.shelf.open.id == ids[2])
    assert notices(room)[-1] == "2 chats are in the trash."
    undo_last(room)
    assert listed(room) == set(in_store(room)) == set(ids)
    room.until(lambda: room.desk.shelf.open.id == ids[0])


def test_the_trash_is_restored_or_deleted_for_good(room: Any) -> None:
    ids = put(room, "a", "b", "c")
    room.desk.folders.trash(ids)
    room.desk.folders.restore(ids[:1])
    room.until(lambda: room.desk.shelf.open.id == ids[0])
    room.desk.folders.delete_for_good([ids[0], ids[1]])
    room.until(lambda: "One chat was permanently deleted." in notices(room))
    assert set(in_store(room)) == {ids[0]}
    assert [c.id for c in room.store.list_trash().result()] == [ids[2]]


def test_what_is_old_in_the_trash_is_deleted_at_the_start(make_room: Any) -> None:
    room = make_room().start()
    old = put(room, *(f"old {number}" for number in range(45)))
    young = put(room, "young")
    kept = put(room, "kept")
    day = timedelta(days=1)
    times = dict.fromkeys(old, datetime.now(UTC) - 31 * day)
    times |= dict.fromkeys(young, datetime.now(UTC) - 29 * day)
    room.store.change_conversations({i: {"trashed_at": t} for i, t in times.items()}).result()
    room.close()

    again = make_room().start()
    again.until(lambda: any("permanently deleted" in s for s in notices(again)))
    assert notices(again)[-1] == (
        "45 chats were in the trash for 30 days and has now been permanently deleted."
    )
    assert [c.id for c in again.store.list_trash().result()] == young
    assert set(in_store(again)) == set(kept)


def test_the_trash_keeps_everything_where_the_user_wants_that(make_room: Any) -> None:
    room = make_room().start()
    (old,) = put(room, "old")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    room.store.change_conversations({old: {"trashed_at": long_ago}}).result()
    room.desk.settings.set("trash_days", 0)
    room.close()
    again = make_room().start()
    again.until(lambda: again.desk.settings.now.trash_days == 0)
    again.pump()
    assert [c.id for c in again.store.list_trash().result()] == [old]


def test_a_second_window_changes_nothing(make_room: Any) -> None:
    make_room().start()
    reader = make_room(read_only=True).start()
    assert reader.desk.folders.create("x") == ""
    reader.desk.folders.trash(["c"])
    assert reader.desk.folders.all == ()
