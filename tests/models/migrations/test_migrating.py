"""The schema that `create_tables` makes and the one that the migrations make are the same."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import schema_file
from sqlalchemy import select
from store_records import a_message

from models.migrations import migrating
from models.records import Folder, MessageState
from models.store.connecting import close, connect_for_writing, connect_in_memory
from models.store.plain import HEAD_REVISION
from models.tables import Base, MessageRow


def schema_of(raw: sqlite3.Connection) -> dict[str, str]:
    """Each object's definition, without regard to white space and quoted names."""
    return {
        name: " ".join(sql.replace('"', "").split()).replace("( ", "(").replace(" )", ")")
        for name, sql in raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    }


def test_creating_and_migrating_give_the_same_schema(tmp_path: Path) -> None:
    path = tmp_path / "migrated.sqlite3"
    path.touch()
    migrating.upgrade(path)
    memory = connect_in_memory()
    with memory.begin():
        migrating.create_tables(memory)
    raw = memory.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    with closing(sqlite3.connect(path)) as migrated:
        assert schema_of(migrated) == schema_of(raw)
        assert len(schema_of(migrated)) > 20
        for table in Base.metadata.tables:
            question = f"SELECT * FROM pragma_table_xinfo('{table}')"
            assert migrated.execute(question).fetchall() == raw.execute(question).fetchall()
        version = migrated.execute("SELECT version_num FROM alembic_version").fetchall()
        assert version == raw.execute("SELECT version_num FROM alembic_version").fetchall()
        assert version == [(HEAD_REVISION,)]
    close(memory)


def test_the_head_revision_is_the_newest_migration() -> None:
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(migrating._config())
    assert script.get_heads() == [HEAD_REVISION]
    assert migrating.is_known(HEAD_REVISION)
    assert not migrating.is_known("9999")


def test_a_migration_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.sqlite3"
    path.touch()

    def broken(*_: Any, **__: Any) -> None:
        config.attributes["connection"].exec_driver_sql("CREATE TABLE half (x)")
        raise RuntimeError("the migration is broken")

    config = migrating._config()
    monkeypatch.setattr(migrating, "_config", lambda: config)
    monkeypatch.setattr("alembic.command.upgrade", broken)
    with pytest.raises(RuntimeError):
        migrating.upgrade(path)
    connection = connect_for_writing(path, busy_timeout_s=1.0)
    assert connection.exec_driver_sql("SELECT name FROM sqlite_master").all() == []
    close(connection)


@pytest.mark.parametrize("file", schema_file.all_files(), ids=lambda path: path.stem)
def test_a_database_of_every_schema_opens(open_store: Any, database: Path, file: Path) -> None:
    """Case F04. The files are made by `schema_file.py` when a schema is new."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(file, database)
    store = open_store()
    opened = store.opened.result()
    assert (opened.state, opened.interrupted) == ("ok", 1)
    conversations = store.list_conversations().result()
    assert [c.title for c in conversations] == ["Capitals"]
    conversation, path = store.load_conversation(conversations[0].id).result()
    assert conversation.draft == "And of Italy?"
    assert [m.content for m in path] == ["What is the capital of Spain?", "Mad"]
    assert path[1].state is MessageState.INTERRUPTED
    assert path[0].sibling_count == 2
    assert store.load_message("reply").result().counts.generated == 2
    assert store.load_trace("reply").result() == b"trace"
    assert len(store.search("paris").result().hits) == 1
    assert store.get_setting("theme").result() == "dark"
    assert [w.name for w in store.list_weights().result()] == ["SmolLM2 135M"]
    assert [c.title for c in store.list_trash().result()] == ["Thrown away"]


@pytest.mark.parametrize("file", schema_file.all_files(), ids=lambda path: path.stem)
def test_a_database_of_every_schema_takes_what_is_new(
    open_store: Any, database: Path, file: Path
) -> None:
    """The search index and the keys go on as if nothing had been built anew."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(file, database)
    with closing(sqlite3.connect(file.as_uri() + "?immutable=1", uri=True)) as raw:
        (used,) = raw.execute("SELECT seq FROM sqlite_sequence WHERE name = 'message'").fetchone()
    store = open_store()
    conversation = store.load_conversation("chat").result()[0]
    assert conversation.copied_from is None
    folder = store.create_folder(Folder("folder", "Travel", conversation.created_at)).result()
    store.update_conversation("chat", folder_id=folder.id, settings={"temperature": 0.2})
    assert store.load_conversation("chat").result()[0].settings == {"temperature": 0.2}
    store.update_message("growing", content="Madrid")
    assert [hit.message_id for hit in store.search("madrid").result().hits] == ["growing"]
    added = store.append_message(a_message(conversation, content="Berlin")).result()
    assert [hit.message_id for hit in store.search("berlin").result().hits] == [added.id]
    row_of = select(MessageRow.row_id).where(MessageRow.id == added.id)
    assert store._read(lambda c: c.scalar(row_of)).result() > used
    store.purge_some(datetime.now(UTC)).result()
    assert store.list_trash().result() == ()


def test_keys_that_were_used_are_not_used_again(open_store: Any, database: Path) -> None:
    """Also not where the newest messages were gone when the table was built anew."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for("0001"), database)
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("UPDATE sqlite_sequence SET seq = 1000")
        raw.commit()
    store = open_store()
    conversation = store.load_conversation("chat").result()[0]
    added = store.append_message(a_message(conversation)).result()
    row_of = select(MessageRow.row_id).where(MessageRow.id == added.id)
    assert store._read(lambda c: c.scalar(row_of)).result() == 1001


def test_there_is_a_file_for_this_schema() -> None:
    assert schema_file.path_for(HEAD_REVISION) in schema_file.all_files()
