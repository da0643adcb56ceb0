"""Folders, presets and attachments in the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message, next_time

from models import settings
from models.conversations import attachments, folders
from models.migrations.migrating import create_tables
from models.records import Attachment, Folder, Preset
from models.store.connecting import close, connect_in_memory
from models.store.errors import NotFoundError, RefusedError
from models.store.salvage import salvage
from models.store.store import Store


def a_folder(folder_id: str, **fields: Any) -> Folder:
    return Folder(folder_id, folder_id.title(), next_time(), **fields)


def an_attachment(conversation_id: str, attachment_id: str, **fields: Any) -> Attachment:
    text = f"{attachment_id}\0 \U0001f30d"
    return Attachment(
        attachment_id,
        conversation_id,
        f"{attachment_id}.txt",
        text,
        len(text.encode()),
        next_time(),
        **{"kind": "document", "details": {"places": [[0, "page 1"]]}} | fields,
    )


def test_folders_come_back_as_they_were_given(store: Store) -> None:
    outer, inner = a_folder("outer", position=2), a_folder("inner", parent_id="outer", position=1)
    assert store.create_folder(outer).result() == outer
    assert store.create_folder(inner).result() == inner
    store.create_folder(a_folder("outer", position=9))
    assert store.list_folders().result() == (inner, outer)
    renamed = store.update_folder("outer", name="Work", position=0).result()
    assert (renamed.name, renamed.position) == ("Work", 0)
    assert [f.id for f in store.list_folders().result()] == ["outer", "inner"]
    with pytest.raises(NotFoundError):
        store.update_folder("nowhere", name="x").result()


def test_what_is_in_a_deleted_folder_moves_out_of_it(store: Store) -> None:
    for folder in (
        a_folder("outer"),
        a_folder("middle", parent_id="outer"),
        a_folder("inner", parent_id="middle"),
    ):
        store.create_folder(folder)
    chat = a_conversation(folder_id="middle")
    store.create_conversation(chat)
    store.take_folder_out("middle")
    assert [(f.id, f.parent_id) for f in store.list_folders().result()] == [
        ("outer", None),
        ("inner", "outer"),
    ]
    assert store.load_conversation(chat.id).result()[0].folder_id == "outer"
    store.take_folder_out("outer")
    assert store.load_conversation(chat.id).result()[0].folder_id is None
    store.take_folder_out("outer").result()


def test_presets_have_names_of_their_own(store: Store) -> None:
    time = next_time()
    precise = Preset("1", "Precise", time, time, {"temperature": 0.1, "stop": ["\n"]}, position=1)
    wild = Preset("2", "Wild", time, time)
    assert store.create_preset(precise).result() == precise
    assert store.create_preset(wild).result() == wild
    assert store.list_presets().result() == (wild, precise)
    with pytest.raises(RefusedError, match=r"named “Wild” already"):
        store.create_preset(Preset("3", "Wild", time, time)).result()
    with pytest.raises(RefusedError, match=r"named “Wild” already"):
        store.update_preset("1", name="Wild").result()
    changed = store.update_preset("1", value={"temperature": 0.2}).result()
    assert changed.value == {"temperature": 0.2}
    store.delete_preset("2")
    assert [p.id for p in store.list_presets().result()] == ["1"]
    with pytest.raises(NotFoundError):
        store.update_preset("2", name="Gone").result()


def test_an_attachment_goes_from_the_draft_to_a_message(store: Store) -> None:
    chat, other = a_conversation(), a_conversation()
    store.create_conversation(chat)
    store.create_conversation(other)
    message = store.append_message(a_message(chat)).result()
    elsewhere = store.append_message(a_message(other)).result()
    first = an_attachment(chat.id, "first", position=1)
    second = an_attachment(chat.id, "second", message_id=message.id, tokens=12)
    assert store.create_attachment(first).result() == first
    assert store.create_attachment(second).result() == second
    assert store.list_attachments(chat.id).result() == (second, first)
    assert store.list_attachments(chat.id, message.id).result() == (second,)
    assert store.list_attachments(other.id).result() == ()
    moved = store.update_attachment("first", message_id=message.id, tokens=7).result()
    assert (moved.message_id, moved.tokens) == (message.id, 7)
    assert store.update_attachment("first", message_id=None).result().message_id is None
    with pytest.raises(RefusedError):
        store.update_attachment("first", message_id=elsewhere.id).result()
    with pytest.raises(RefusedError):
        store.create_attachment(an_attachment(chat.id, "x", message_id=elsewhere.id)).result()
    with pytest.raises(NotFoundError):
        store.update_attachment("nowhere", tokens=1).result()
    store.delete_attachment("first")
    assert [a.id for a in store.list_attachments(chat.id).result()] == ["second"]


def test_attachments_go_with_their_conversation(store: Store) -> None:
    chat = a_conversation()
    store.create_conversation(chat)
    store.create_attachment(an_attachment(chat.id, "draft")).result()
    trashed = store.trash_conversation(chat.id).result().trashed_at
    assert trashed is not None
    assert len(store.list_attachments(chat.id).result()) == 1
    store.purge_some(trashed.replace(year=trashed.year + 1)).result()
    with pytest.raises(NotFoundError):
        store.update_attachment("draft", tokens=1).result()


def test_what_cannot_be_read_in_a_row_becomes_its_default(store: Store, database: Path) -> None:
    chat = a_conversation()
    store.create_conversation(chat)
    store.create_attachment(an_attachment(chat.id, "draft"))
    time = next_time()
    store.create_preset(Preset("1", "Precise", time, time, {"seed": 1}))
    store.create_folder(a_folder("folder", position=3)).result()
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("UPDATE preset SET value = '{', created_us = 'x', position = 'y'")
        raw.execute("UPDATE attachment SET tokens = 'x', size_bytes = 'y', text = x'ff'")
        raw.execute("UPDATE folder SET position = 'x', created_us = 9e99")
        raw.commit()
    assert store.list_presets().result()[0].value == {}
    attachment = store.list_attachments(chat.id).result()[0]
    assert (attachment.tokens, attachment.size_bytes, attachment.text) == (None, 0, "\ufffd")
    assert store.list_folders().result()[0].position == 0


def test_what_a_conversation_and_weights_set_otherwise(store: Store) -> None:
    chat = a_conversation(settings={"temperature": 0.3}, copied_from="some-message")
    assert store.create_conversation(chat).result() == chat
    assert store.update_conversation(chat.id, settings={}).result().settings == {}


def test_they_are_read_out_of_a_damaged_database_too(open_store: Any, database: Path) -> None:
    """An attachment whose message is lost goes with it; the draft's stays."""
    store = open_store()
    chat = a_conversation(folder_id="folder")
    store.create_conversation(chat)
    store.create_folder(a_folder("folder"))
    time = next_time()
    store.create_preset(Preset("preset", "Precise", time, time, {"seed": 1}))
    message = store.append_message(a_message(chat)).result()
    store.create_attachment(an_attachment(chat.id, "draft"))
    store.create_attachment(an_attachment(chat.id, "lost", message_id=message.id)).result()
    store.close()
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("UPDATE attachment SET message_row_id = 99 WHERE id = 'lost'")
        raw.commit()
    target = connect_in_memory()
    with target.begin():
        target.exec_driver_sql("PRAGMA foreign_keys = OFF")
        create_tables(target)
    salvage(database, target, None)
    with target.begin():
        assert [f.name for f in folders.list_folders(target)] == ["Folder"]
        assert [p.value for p in settings.list_presets(target)] == [{"seed": 1}]
        assert [a.id for a in attachments.list_attachments(target, chat.id)] == ["draft"]
    close(target)
