"""Out of one database, into another, and out again: the two files are equal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection
from whole_chats import add_to, whole_chats

from app.chat.exchange import json_file
from app.chat.exchange.json_format import folders_of, presets_of
from models.conversations import exchange, folders, reading, writing
from models.migrations.migrating import create_tables
from models.records import Folder, Preset, WholeConversation
from models.settings import create_preset, list_presets
from models.store.connecting import close, connect_in_memory

NOW = datetime(2026, 11, 28, 4, 40, tzinfo=UTC)


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Connection, Connection]]:
    """Two empty ones in memory; each example takes back what it adds."""
    first, second = connect_in_memory(), connect_in_memory()
    for connection in (first, second):
        with connection.begin():
            create_tables(connection)
    yield first, second
    for connection in (first, second):
        close(connection)


def exported(connection: Connection) -> bytes:
    file = io.BytesIO()
    chats = sorted(reading.list_conversations(connection), key=lambda chat: chat.id)
    wholes = [exchange.read_whole(connection, chat.id) for chat in chats]
    used = {chat.folder_id for chat in chats}
    used |= {folder.parent_id for folder in folders.list_folders(connection) if folder.id in used}
    around = [folder for folder in folders.list_folders(connection) if folder.id in used]
    around.sort(key=lambda folder: folder.id)
    json_file.write(file, wholes, around, list_presets(connection), NOW)
    return file.getvalue()


def import_into(connection: Connection, raw: bytes) -> None:
    head, chats = json_file.read(io.BytesIO(raw), "chats.json")
    add_to(connection, *chats, folders=folders_of(head), presets=presets_of(head))


@settings(max_examples=examples(25))
@given(
    chats=st.lists(whole_chats(), min_size=1, max_size=3),
    places=st.lists(st.sampled_from([None, "outer", "inner"]), min_size=3, max_size=3),
)
def test_export_import_export(
    databases: tuple[Connection, Connection],
    chats: Sequence[WholeConversation],
    places: Sequence[str | None],
) -> None:
    first, second = databases
    with first.begin() as here, second.begin() as there:
        add_to(first, *chats)
        folders.create_folder(first, Folder("outer", "Work", NOW))
        folders.create_folder(first, Folder("inner", "Cutaway", NOW, "outer", 2))
        preset = create_preset(first, Preset("p", "Precise", NOW, NOW, {"top_k": 1}))
        for chat, place in zip(chats, places, strict=False):
            changes = {"folder_id": place, "preset_id": preset.id}
            writing.update_conversation(first, chat.conversation.id, **changes)
        raw = exported(first)
        import_into(second, raw)
        assert exported(second) == raw
        import_into(second, raw)
        assert exported(second) == raw, "a second time changes nothing"
        here.rollback()
        there.rollback()
