"""Deleted for good through the desk: in no file of the data folder, whatever was typed at it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import outside
import pytest

from app.chat import events
from app.chat.conversations.edits import SETTING, Edit
from app.chat.surroundings import ALWAYS

SECRET = "qzxvkjw"
SCRIPT = {"replies": [{"text": f"The answer is {SECRET}."}]}


def files_with_it(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if SECRET.encode() in path.read_bytes())


def erased(room: Any) -> None:
    """What the desk asks for when something was deleted, and then the store's part."""
    room.until(lambda: any("permanently deleted" in n.sentence for n in room.of(events.Noticed)))
    room.until(lambda: outside.setting(room.data_dir, SETTING) == [], "the edits")
    for _ in range(3):
        done: list[bool] = []
        room.desk.around.when_done(
            room.store.erased(), lambda _, d=done: d.append(True), still=ALWAYS
        )
        room.until(lambda d=done: d, "erased")


@pytest.fixture
def room(make_room: Any) -> Any:
    made = make_room(SCRIPT).start_ready()
    made.ask(f"What is {SECRET}?")
    made.desk.edits.keep("edit", made.desk.shelf.path[0].id, Edit(f"changed {SECRET}"))
    made.desk.shelf.save_draft(f"next: {SECRET}")
    made.until(lambda: outside.setting(made.data_dir, SETTING))
    return made


def test_a_chat_that_is_deleted_for_good_is_in_no_file(room: Any) -> None:
    gone = room.desk.shelf.open.id
    room.desk.folders.trash_one(gone)
    room.until(lambda: room.desk.shelf.open.id != gone)
    assert files_with_it(room.data_dir) != []
    room.desk.folders.delete_for_good([gone])
    erased(room)
    assert files_with_it(room.data_dir) == []
    room.close()
    assert files_with_it(room.data_dir) == []


def test_backups_hold_it_until_they_are_deleted_as_well(room: Any) -> None:
    gone = room.desk.shelf.open.id
    room.store.back_up().result(20)
    room.desk.folders.trash_one(gone)
    room.desk.folders.delete_for_good([gone])
    erased(room)
    (backup,) = files_with_it(room.data_dir)
    assert backup.startswith("cutaway-")
    room.desk.folders.delete_backups()
    room.until(lambda: any("backup was deleted" in n.sentence for n in room.of(events.Noticed)))
    assert files_with_it(room.data_dir) == []
    room.until(lambda: list(room.data_dir.glob("backups/cutaway-*")), "a new one")


def test_what_has_been_in_the_trash_for_too_long_is_in_no_file_either(
    room: Any, make_room: Any
) -> None:
    """A chat, and a message of a chat that stays."""
    room.desk.shelf.open_stored(room.desk.shelf.open.id)
    kept = room.ask("Keep?").conversation_id
    reply = room.desk.shelf.path[-1]
    room.desk.edits.keep("edit", reply.id, Edit(f"typed at a reply: {SECRET}"))
    room.desk.tree.trash(reply.id)
    room.until(lambda: room.desk.shelf.path[-1].id != reply.id, "the reply is gone")
    room.desk.tree.trash(room.desk.shelf.path[0].id)
    room.until(lambda: not room.desk.shelf.path, "all messages are gone")
    room.store.update_conversation(kept, draft="", title="kept").result(20)
    room.desk.shelf.save_draft("")
    before = int((datetime.now(UTC) - timedelta(days=31)).timestamp() * 1e6)
    for table, column in (("conversation", "updated_us"), ("message", "created_us")):
        sql = f"UPDATE {table} SET {column} = {before}"
        room.store._write(lambda c, s=sql: c.exec_driver_sql(s)).result(20)
    sql = f"UPDATE message SET trashed_us = {before} WHERE trashed_us IS NOT NULL"
    room.store._write(lambda c: c.exec_driver_sql(sql)).result(20)
    room.close()
    again = make_room(SCRIPT).start_ready()
    again.until(
        lambda: outside.rows(again.data_dir, "SELECT count(*) FROM message") == [(0,)], "purged"
    )
    again.until(lambda: outside.setting(again.data_dir, SETTING) == [], "the edits")
    again.store.erased().result(20)
    assert files_with_it(again.data_dir) == []
