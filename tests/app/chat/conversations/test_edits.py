"""Unfinished texts of editors: kept through crashes, in their chat, and no longer than needed."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat.conversations.edits import MAX_KEPT, SETTING, Edit

QUICK: dict[str, Any] = {"replies": [{"text": "Quick."}]}


def stored(room: Any) -> Any:
    return room.store.get_setting(SETTING).result(20)


@pytest.mark.usefixtures("soon")
def test_a_crash_leaves_what_was_typed(make_room):
    """The first room is never closed before the second one reads: as after `kill -9`."""
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    room.desk.edits.keep("edit", reply.id, Edit("Quick, and more", "because"))
    room.until(lambda: stored(room))

    again = make_room(QUICK, read_only=True).start()
    again.until(lambda: again.desk.shelf.path)
    assert again.desk.edits.of("edit", reply.id) == Edit("Quick, and more", "because")
    assert again.desk.edits.of("begin", reply.id) is None


def test_what_was_removed_is_kept_with_the_text(make_room):
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    edit = Edit("Hello", removed=("a1", "a2"))
    room.desk.edits.keep("edit", reply.id, edit)
    room.desk.shutdown()
    again = make_room(QUICK, read_only=True).start()
    again.until(lambda: again.desk.shelf.path)
    assert again.desk.edits.of("edit", reply.id) == edit


def test_closing_saves_the_last_key(make_room):
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    room.desk.edits.keep("insert", reply.id, Edit("half"))
    room.desk.shutdown()
    again = make_room(QUICK, read_only=True).start()
    again.until(lambda: again.desk.shelf.path)
    assert again.desk.edits.of("insert", reply.id) == Edit("half")


@pytest.mark.usefixtures("soon")
def test_what_was_decided_is_not_kept(make_room):
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    room.desk.edits.keep("edit", reply.id, Edit("more"))
    room.until(lambda: stored(room))
    room.desk.edits.keep("edit", reply.id, None)
    assert room.desk.edits.of("edit", reply.id) is None
    room.until(lambda: stored(room) == [])


def test_what_was_typed_since_stays_when_what_was_decided_is_on_disk(make_room):
    """A beginning is on disk when its reply has a row, which may wait for weights."""
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    decided = Edit("Well,")
    room.desk.edits.keep("begin", reply.id, decided)
    room.desk.edits.keep("begin", reply.id, Edit("Then again"))
    room.desk.edits.drop("begin", reply.id, decided)
    kept = room.desk.edits.of("begin", reply.id)
    assert kept is not None
    assert kept.text == "Then again"


@pytest.mark.usefixtures("soon")
def test_what_is_on_disk_is_dropped_whatever_chat_is_open_by_then(make_room):
    room = make_room(QUICK).start_ready()
    reply = room.ask("Hello")
    room.desk.edits.keep("edit", reply.id, Edit("more"))
    room.desk.edits.keep("begin", reply.id, Edit("Well"))
    chat = room.desk.shelf.open.id
    room.until(lambda: stored(room))
    room.desk.shelf.open_new()
    room.desk.edits.drop("edit", reply.id, Edit("more"))
    room.until(lambda: stored(room) == [[chat, "begin", reply.id, "Well", ""]])


def test_each_chat_has_its_own(make_room):
    room = make_room(QUICK).start_ready()
    room.ask("Hello")
    room.desk.edits.keep("edit", "m", Edit("one"))
    room.desk.shelf.open_new()
    assert room.desk.edits.of("edit", "m") is None


@pytest.mark.usefixtures("soon")
def test_that_of_a_temporary_chat_is_never_written(make_room):
    room = make_room(QUICK).start_ready()
    room.ask("Hello")
    kept_id = room.desk.shelf.open.id
    room.desk.edits.keep("edit", "m", Edit("kept"))
    room.desk.temporary.open()
    reply = room.ask("Secret")
    room.desk.edits.keep("edit", reply.id, Edit("secret"))
    room.until(lambda: stored(room))
    assert stored(room) == [[kept_id, "edit", "m", "kept", ""]]
    assert room.desk.edits.of("edit", reply.id) == Edit("secret")
    room.desk.temporary.end()
    room.desk.edits.keep("edit", "other", Edit("more"))
    room.until(lambda: len(stored(room)) == 2)
    assert "secret" not in str(stored(room))


def test_those_of_a_chat_that_is_gone_for_good_go_at_the_next_start(make_room):
    room = make_room(QUICK).start_ready()
    room.ask("Hello")
    here = [room.desk.shelf.open.id, "edit", "m", "here", ""]
    room.store.set_setting(SETTING, [["gone", "edit", "m", "old", ""], here]).result(20)
    room.desk.shutdown()
    again = make_room(QUICK).start_ready()
    again.until(lambda: stored(again) == [here])


def test_anything_else_in_the_setting_counts_as_nothing(make_room):
    room = make_room(QUICK).start_ready()
    room.ask("Hello")
    chat = room.desk.shelf.open.id
    for rubbish in ({"a": 1}, "x", [[chat, "edit", "m", 5, ""], ["short"], None]):
        room.store.set_setting(SETTING, rubbish).result(20)
        again = make_room(QUICK, read_only=True).start()
        again.until(lambda again=again: again.desk.shelf.path)
        assert again.desk.edits.of("edit", "m") is None
        again.desk.shutdown()


def test_the_oldest_give_way(make_room):
    room = make_room(QUICK).start_ready()
    room.ask("Hello")
    for number in range(MAX_KEPT + 1):
        room.desk.edits.keep("edit", f"m{number}", Edit("text"))
    assert room.desk.edits.of("edit", "m0") is None
    assert room.desk.edits.of("edit", "m1") == Edit("text")
