"""The bytes of pictures and sounds: written, copied, exported and lost with their attachments."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from store_records import a_conversation, a_message, next_time

from models.migrations.migrating import create_tables
from models.records import (
    Attachment,
    Conversation,
    Message,
    PathStretch,
    Role,
    Whereabouts,
    WholeConversation,
)
from models.store.connecting import connect_in_memory
from models.store.salvage import salvage
from models.store.store import Store
from models.store.temporary import TemporaryStore

PICTURE = ("image/png", b"\x89PNG" + bytes(range(256)) * 40)
OTHER = ("image/jpeg", b"\xff\xd8\xff" + b"other" * 900)
N_FILES = "SELECT count(*) FROM attachment_data"


def a_picture(chat: Conversation, message_id: str | None = None, **fields: Any) -> Attachment:
    own = fields.pop("id", str(uuid.uuid4()))
    details = {"width": 4, "height": 3, "media_type": "image/png"}
    return Attachment(
        own, chat.id, "ant.png", "", 5, next_time(), message_id, None, 0, "picture", details
    )


def sent(store: Store) -> tuple[Conversation, Message, Attachment]:
    """A chat whose question has a picture, by way of its draft."""
    chat = a_conversation()
    store.create_conversation(chat).result()
    picture = store.create_attachment(a_picture(chat), PICTURE).result()
    question = a_message(chat, attachments=(picture,))
    return chat, store.append_message(question).result(), picture


def test_they_are_read_one_by_one_and_stay_with_what_they_belong_to(store: Store) -> None:
    chat, question, picture = sent(store)
    assert [each.id for each in question.attachments] == [picture.id]
    assert store.load_file(picture.id).result() == PICTURE
    assert store.load_file("nobody").result() is None
    reply = a_message(chat, question, role=Role.ASSISTANT)
    later = a_message(chat, reply)
    for message in (reply, later):
        store.append_message(message)

    edited = a_message(chat, content="again", attachments=question.attachments)
    following = PathStretch(later.id, question.id, str(uuid.uuid4()))
    store.add_branch(edited, following).result()
    branch = a_conversation(title="branch")
    stretch = PathStretch(later.id, None, str(uuid.uuid4()))
    store.copy_conversation(branch, stretch).result()
    store.copy_conversation(branch, stretch).result()  # as after a commit that seemed to fail
    _, path = store.load_conversation(branch.id).result()
    copies = [store.load_message(edited.id).result().attachments[0], path[0].attachments[0]]
    assert len({picture.id, *(each.id for each in copies)}) == 3
    for copy in copies:
        assert store.load_file(copy.id).result() == PICTURE
        assert copy.details == picture.details

    # Without its own bytes nobody's are gone.
    assert store.delete_attachment(picture.id).result() == PICTURE
    assert store.load_file(picture.id).result() is None
    assert [store.load_file(copy.id).result() for copy in copies] == [PICTURE, PICTURE]
    store.create_attachment(picture, PICTURE).result()
    assert store.load_file(picture.id).result() == PICTURE


def test_a_purged_chat_leaves_no_bytes(store: Store, execute: Callable[..., Any]) -> None:
    chat, _, _ = sent(store)
    store.create_attachment(a_picture(chat), OTHER).result()
    assert execute(N_FILES) == [(2,)]
    store.trash_conversation(chat.id).result()
    assert store.delete_trashed([chat.id]).result() == 1
    assert execute(N_FILES) == [(0,)]


def test_they_come_with_whole_chats_under_any_ids(store: Store) -> None:
    chat, question, picture = sent(store)
    drafted = store.create_attachment(a_picture(chat), OTHER).result()
    whole = store.read_whole(chat.id).result()
    assert whole.files == {picture.id: PICTURE, drafted.id: OTHER}
    assert store.whereabouts(whole).result() is Whereabouts.THERE
    other = replace(whole, files={picture.id: OTHER})
    assert store.whereabouts(other).result() is Whereabouts.OTHER
    (added,) = store.add_all([other]).ids
    copy = store.read_whole(added).result()
    (attached,) = copy.messages[0].attachments
    assert copy.files == {attached.id: OTHER}
    assert store.add_all([other]).there == 1
    assert store.load_file(picture.id).result() == PICTURE
    assert question.id not in {each.id for each in copy.messages}


def test_a_deleted_message_takes_its_picture_out_of_what_is_exported(store: Store) -> None:
    chat, question, _ = sent(store)
    store.trash_branch(question.id).result()
    assert store.read_whole(chat.id).result().files == {}


def test_a_temporary_chat_keeps_them_in_memory() -> None:
    store = TemporaryStore()
    _, _, picture = sent(store)
    assert store.load_file(picture.id).result() == PICTURE
    store.close()


def salvaged(damaged: Path, backup: Path | None = None) -> list[tuple[Any, ...]]:
    """Name of the attachment, media type and bytes of all that was saved."""
    with connect_in_memory() as target:
        with target.begin():
            create_tables(target)
        salvage(damaged, target, backup)
        return _files(target)


def _files(target: Connection) -> list[tuple[Any, ...]]:
    found = target.exec_driver_sql(
        "SELECT a.id, d.media_type, d.blob FROM attachment_data AS d"
        " LEFT JOIN attachment AS a ON a.row_id = d.attachment_row_id"
    )
    return [tuple(row) for row in found.all()]


def test_out_of_a_damaged_file_they_come_with_their_attachments(
    store: Store, database: Path, execute: Callable[..., Any], tmp_path: Path
) -> None:
    chat, _, picture = sent(store)
    lost = store.create_attachment(a_picture(chat), OTHER).result()
    store.close()
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = tmp_path / "backup.sqlite3"
    whole.write_bytes(database.read_bytes())
    assert salvaged(database) == [(picture.id, *PICTURE), (lost.id, *OTHER)]

    # The end of one picture is damaged: what is before it, and all of the other, is there.
    data = bytearray(database.read_bytes())
    at = data.rfind(b"other" * 50)
    page = at - at % 4096
    data[page : page + 4096] = b"\xff" * 4096
    database.write_bytes(data)
    saved = {own: (kind, blob) for own, kind, blob in salvaged(database)}
    assert saved[picture.id] == PICTURE
    assert saved.get(lost.id, OTHER) != OTHER or lost.id not in saved
    # A row without its attachment is nobody's.
    with closing(sqlite3.connect(whole)) as raw, raw:
        raw.execute("DELETE FROM attachment WHERE id = ?", (lost.id,))
    assert salvaged(whole) == [(picture.id, *PICTURE)]


def test_bytes_that_damage_made_something_else_of_are_none(
    store: Store, execute: Callable[..., Any]
) -> None:
    chat, _, picture = sent(store)
    execute("UPDATE attachment_data SET blob = 'text'")
    assert store.load_file(picture.id).result() is None
    assert isinstance(store.read_whole(chat.id).result(), WholeConversation)
    assert store.read_whole(chat.id).result().files == {}
