"""The ladder from a data folder to a usable database. The original is kept at every step."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import schema_file
from store_records import a_conversation, a_message

from models.migrations import migrating
from models.records import Message, MessageState, Role
from models.store import opening
from models.store.errors import StoreError
from models.store.plain import HEAD_REVISION
from models.store.store import Store

ROOT = Path(__file__).parents[3]
Execute = Callable[..., list[tuple[Any, ...]]]


def fill(store: Store, chats: int = 3, turns: int = 40) -> list[list[Message]]:
    """Chats of one path each, a few pages of the database long."""
    paths: list[list[Message]] = []
    for number in range(chats):
        conversation = a_conversation(title=f"Chat {number}")
        store.create_conversation(conversation)
        path: list[Message] = []
        for turn in range(turns):
            message = a_message(
                conversation,
                path[-1] if path else None,
                role=Role.ASSISTANT if turn % 2 else Role.USER,
                content=f"chat {number} turn {turn} " + "words and more words " * 40,
            )
            path.append(store.append_message(message).result(20))
        paths.append(path)
    return paths


def damage(database: Path, start: float, end: float) -> None:
    """Overwrite a part of the file, given as fractions of its length."""
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(int(size * start))
        file.write(os.urandom(int(size * (end - start))))


def kept_files(database: Path) -> list[Path]:
    return sorted(database.parent.glob("cutaway.damaged-*.sqlite3"))


# --- the good ways --------------------------------------------------------------------------------


def test_a_first_start_is_fresh_and_without_words(open_store: Any) -> None:
    opened = open_store().opened.result()
    assert (opened.state, opened.sentence, opened.interrupted) == ("fresh", "", 0)


@pytest.fixture
def onlookers(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Others (an indexer, a backup program) open each new database while it is being built."""
    create_tables = migrating.create_tables
    building = data_dir / "db" / "cutaway.building.sqlite3"
    readers: list[Any] = []

    def create_before_readers(connection: Any) -> None:
        create_tables(connection)
        uri = f"{building.as_uri()}?mode=ro"
        readers.append(sqlite3.connect(uri, uri=True, check_same_thread=False))
        readers[-1].execute("SELECT count(*) FROM sqlite_master").fetchall()

    monkeypatch.setattr(migrating, "create_tables", create_before_readers)
    yield readers
    for reader in readers:
        reader.close()


def test_a_first_start_is_whole_while_others_look_on(open_store: Any, onlookers: list[Any]) -> None:
    store = open_store()
    assert store.opened.result().state == "fresh"
    conversation = store.create_conversation(a_conversation()).result()
    store.append_message(a_message(conversation, content="Hello")).result()
    store.close()
    assert len(onlookers) == 1
    store = open_store()
    assert store.opened.result().state == "ok"
    assert len(store.list_conversations().result()) == 1


def test_what_is_salvaged_is_whole_while_others_look_on(
    open_store: Any, database: Path, request: pytest.FixtureRequest
) -> None:
    store = open_store()
    fill(store, chats=2, turns=20)
    store.close()
    damage(database, 0.5, 0.55)
    onlookers = request.getfixturevalue("onlookers")
    store = open_store()
    assert store.opened.result().state == "salvaged"
    assert len(store.list_conversations().result()) == 2
    assert len(onlookers) == 1


def test_what_was_streaming_is_interrupted_and_counted(open_store: Any) -> None:
    store = open_store()
    conversation = a_conversation()
    store.create_conversation(conversation)
    for state in (MessageState.STREAMING, MessageState.STREAMING, MessageState.STOPPED):
        store.append_message(
            a_message(conversation, role=Role.ASSISTANT, state=state, content="Par")
        )
    store.close()
    store = open_store()
    assert store.opened.result().interrupted == 2
    (message,) = store.load_conversation(conversation.id).result()[1]
    states = [(m.state, m.content) for m in store.siblings(message.id).result()]
    assert states == [("interrupted", "Par"), ("interrupted", "Par"), ("stopped", "Par")]
    sentence = store.siblings(message.id).result()[0].error
    assert sentence is not None
    assert "Regenerate it" in sentence
    store.close()
    assert open_store().opened.result().interrupted == 0


def test_an_interrupted_reply_is_found_by_search(open_store: Any) -> None:
    store = open_store()
    conversation = a_conversation()
    store.create_conversation(conversation)
    store.append_message(
        a_message(conversation, state=MessageState.STREAMING, content="halfway")
    ).result()
    assert store.search("halfway").result().hits == ()
    store.close()
    assert len(open_store().search("halfway").result().hits) == 1


# --- older and newer ------------------------------------------------------------------------------


@pytest.fixture
def older(database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A database of the schema before, and a version whose newest is a made-up one."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for(HEAD_REVISION), database)
    folder = tmp_path / "migrations"
    shutil.copytree(migrating.MIGRATIONS, folder)
    (folder / "versions" / "9999_made_up.py").write_text(
        "from alembic import op\n"
        f"revision, down_revision = '9999', '{HEAD_REVISION}'\n"
        "def upgrade():\n"
        "    op.execute('CREATE TABLE made_up (x)')\n"
    )
    for module in (migrating, opening):
        monkeypatch.setattr(module, "HEAD_REVISION", "9999")
    monkeypatch.setattr(migrating, "MIGRATIONS", folder)


@pytest.mark.usefixtures("older")
def test_an_older_database_is_backed_up_and_migrated(
    open_store: Any, data_dir: Path, execute: Execute
) -> None:
    original = schema_file.path_for(HEAD_REVISION).as_uri() + "?immutable=1"
    opened = open_store().opened.result()
    assert (opened.state, opened.sentence, opened.interrupted) == ("ok", "", 1)
    assert execute("SELECT version_num FROM alembic_version") == [("9999",)]
    assert execute("SELECT * FROM made_up") == []
    (backup,) = (data_dir / "backups").iterdir()
    assert backup.name.endswith("-before-9999.sqlite3")
    with (
        closing(sqlite3.connect(backup)) as copy,
        closing(sqlite3.connect(original, uri=True)) as old,
    ):
        assert list(copy.iterdump()) == list(old.iterdump())


@pytest.mark.usefixtures("older")
def test_an_older_database_of_a_second_instance_is_migrated_in_a_copy(
    open_store: Any, database: Path
) -> None:
    before = database.read_bytes()
    store = open_store(read_only=True)
    assert store.opened.result().state == "read_only"
    assert [c.title for c in store.list_conversations().result()] == ["Capitals"]
    copies = Path(tempfile.gettempdir()).glob("cutaway-*/copy.sqlite3")
    store.close()
    assert list(copies) == []
    assert database.read_bytes() == before


@pytest.mark.usefixtures("older")
def test_a_migration_that_fails_leaves_the_database_readable(
    open_store: Any, database: Path, data_dir: Path, tmp_path: Path
) -> None:
    script = tmp_path / "migrations" / "versions" / "9999_made_up.py"
    script.write_text(script.read_text().replace("CREATE TABLE made_up", "CREATE NONSENSE"))
    before = database.read_bytes()
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "read_only"
    assert "older version" in opened.sentence
    assert [c.title for c in store.list_conversations().result()] == ["Capitals"]
    assert database.read_bytes() == before
    assert len(list((data_dir / "backups").iterdir())) == 1


def test_an_older_database_that_cannot_be_migrated_is_shown_all_the_same(
    open_store: Any, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables lack columns that this version asks for."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for("0001"), database)
    before = database.read_bytes()
    folder = tmp_path / "migrations"
    shutil.copytree(migrating.MIGRATIONS, folder)
    (second,) = (folder / "versions").glob("0002_*.py")
    second.write_text(
        second.read_text().replace("def upgrade() -> None:", "def upgrade() -> None:\n    1 / 0")
    )
    monkeypatch.setattr(migrating, "MIGRATIONS", folder)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "read_only"
    assert "division by zero" in opened.sentence
    assert [c.title for c in store.list_conversations().result()] == ["Capitals"]
    path = store.load_conversation("chat").result()[1]
    assert [m.content for m in path] == ["What is the capital of Spain?", "Mad"]
    assert store.load_trace("reply").result() == b"trace"
    assert len(store.search("paris").result().hits) == 1
    store.close()
    assert database.read_bytes() == before


def test_a_newer_database_is_opened_read_only_and_left_as_it_is(
    open_store: Any, execute: Execute, database: Path
) -> None:
    store = open_store()
    paths = fill(store, chats=1, turns=3)
    store.close()
    execute("UPDATE alembic_version SET version_num = '9999'")
    execute("ALTER TABLE message ADD COLUMN telepathy TEXT")
    before = database.read_bytes()
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "read_only"
    assert "newer version" in opened.sentence
    conversation_id = paths[0][0].conversation_id
    assert len(store.load_conversation(conversation_id).result()[1]) == 3
    with pytest.raises(StoreError, match="newer version"):
        store.set_setting("a", 1).result()
    store.close()
    assert database.read_bytes() == before


# --- read-only ------------------------------------------------------------------------------------


def test_a_second_instance_reads_what_the_first_one_writes(open_store: Any) -> None:
    first = open_store()
    second = open_store(read_only=True)
    opened = second.opened.result()
    assert opened.state == "read_only"
    assert "already running" in opened.sentence
    conversation = a_conversation()
    first.create_conversation(conversation).result()
    assert second.list_conversations().result() == (conversation,)


def test_a_second_instance_interrupts_nothing(open_store: Any) -> None:
    first = open_store()
    conversation = a_conversation()
    first.create_conversation(conversation)
    reply = a_message(conversation, state=MessageState.STREAMING)
    first.append_message(reply).result()
    second = open_store(read_only=True)
    assert second.opened.result().interrupted == 0
    assert first.load_message(reply.id).result().state is MessageState.STREAMING


def test_reading_a_folder_that_has_no_database(open_store: Any, data_dir: Path) -> None:
    store = open_store(read_only=True)
    assert store.opened.result().state == "read_only"
    assert store.list_conversations().result() == ()
    assert store.search("x").result().hits == ()
    assert not data_dir.exists()


_AS_NOBODY = """
import os, sys
from pathlib import Path
from models.store.store import Store

def look(folder):
    store = Store.open(folder, backup_after_s=None)
    opened = store.opened.result(20)
    titles = [c.title for c in store.list_conversations().result(20)]
    store.close()
    return opened.state, titles, opened.sentence

look(Path(sys.argv[2]))  # so that nothing is left to import for somebody who may read nothing
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(look(Path(sys.argv[1])))
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A temporary folder that other users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "data"


def set_modes(folder: Path, directories: int, files: int) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(directories if path.is_dir() else files)


def look_as_nobody(folder: Path, scratch: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(folder), str(scratch)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("log_is_left", [False, True])
def test_a_folder_that_cannot_be_written_to_is_read(
    open_store: Any, open_to_all: Path, tmp_path: Path, log_is_left: bool
) -> None:
    """Case E13. With a write-ahead log left over, SQLite has to read that too."""
    store = open_store(open_to_all)
    fill(store, chats=1, turns=2)
    database = open_to_all / "db" / "cutaway.sqlite3"
    if log_is_left:
        copies = tmp_path / "copies"
        shutil.copytree(database.parent, copies)
        store.close()
        shutil.rmtree(database.parent)
        shutil.copytree(copies, database.parent)
        (database.parent / "cutaway.sqlite3-shm").unlink()
        assert (database.parent / "cutaway.sqlite3-wal").stat().st_size > 0
    else:
        store.close()
    set_modes(open_to_all, 0o555, 0o444)
    try:
        out = look_as_nobody(open_to_all, tmp_path / "scratch")
    finally:
        set_modes(open_to_all, 0o755, 0o644)
    assert "('read_only', ['Chat 0']," in out
    assert "Can't save in the data folder" in out


def test_a_folder_that_cannot_even_be_read_is_said(
    open_store: Any, open_to_all: Path, tmp_path: Path
) -> None:
    open_store(open_to_all).close()
    set_modes(open_to_all, 0o700, 0o600)
    if os.geteuid() != 0:
        (open_to_all / "db").chmod(0)
    out = look_as_nobody(open_to_all, tmp_path / "scratch")
    (open_to_all / "db").chmod(0o700)
    assert "('read_only', []," in out
    assert "can't be read" in out


# --- damaged --------------------------------------------------------------------------------------


def test_a_damaged_page_costs_its_rows_and_no_more(open_store: Any, database: Path) -> None:
    store = open_store()
    paths = fill(store)
    store.close()
    damage(database, 0.5, 0.55)
    before = database.read_bytes()
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "salvaged"
    assert "damaged" in opened.sentence
    (kept,) = kept_files(database)
    assert kept.name in opened.sentence
    assert kept.read_bytes() == before
    assert len(store.list_conversations().result()) == 3
    saved = 0
    for path in paths:
        loaded = store.load_conversation(path[0].conversation_id).result()[1]
        readable = [m for m in loaded if m.state is not MessageState.UNREADABLE]
        assert {m.content for m in readable} <= {m.content for m in path}
        saved += len(readable)
    assert saved > 80
    store.append_message(a_message(a_conversation(id=paths[0][0].conversation_id))).result()
    store.close()
    assert open_store().opened.result().state == "ok"


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 12))]
)
def test_any_damage_ends_in_a_database_that_works(
    open_store: Any, database: Path, seed: int
) -> None:
    """Pages overwritten, zeroed or cut off, anywhere: never an exception, never no words."""
    store = open_store()
    paths = fill(store, chats=2, turns=20)
    store.close()
    spoil(database, random.Random(seed))
    before = database.read_bytes()
    store = open_store()
    opened = store.opened.result()
    assert opened.state in ("ok", "salvaged", "fresh")
    if opened.state != "ok":
        assert opened.sentence
        assert [path.read_bytes() for path in kept_files(database)] == [before]
    written = {m.content for path in paths for m in path}
    for conversation in store.list_conversations().result():
        for message in store.load_conversation(conversation.id).result()[1]:
            assert message.content in written or message.state is MessageState.UNREADABLE
    conversation = store.create_conversation(a_conversation()).result()
    store.append_message(a_message(conversation)).result()
    store.close()
    assert open_store().opened.result().state == "ok"


def spoil(database: Path, dice: random.Random) -> None:
    size = database.stat().st_size
    if dice.random() < 0.25:
        os.truncate(database, dice.randrange(1, size))
    with database.open("r+b") as file:
        for _ in range(dice.randrange(4)):
            file.seek(dice.randrange(size // 4096) * 4096)
            page = bytes(4096) if dice.random() < 0.5 else dice.randbytes(4096)
            file.write(page)


def test_a_backup_fills_what_is_damaged(open_store: Any, database: Path) -> None:
    store = open_store()
    paths = fill(store)
    store.back_up().result()
    later = store.append_message(
        a_message(a_conversation(id=paths[2][0].conversation_id), paths[2][-1], content="later")
    ).result()
    store.close()
    damage(database, 0.5, 0.55)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "salvaged"
    assert "last backup" in opened.sentence
    for path in paths:
        loaded = store.load_conversation(path[0].conversation_id).result()[1]
        assert [m.content for m in loaded[: len(path)]] == [m.content for m in path]
    assert store.load_message(later.id).result().content == "later"


@pytest.mark.parametrize("how", ["header", "empty", "text", "missing", "foreign"])
def test_what_cannot_be_read_is_restored_from_the_backup(
    open_store: Any, database: Path, how: str
) -> None:
    store = open_store()
    fill(store, chats=1, turns=2)
    store.back_up().result()
    store.close()
    before = make_unreadable(database, how)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "restored"
    assert "backup of" in opened.sentence
    assert [c.title for c in store.list_conversations().result()] == ["Chat 0"]
    assert [path.read_bytes() for path in kept_files(database)] == before


@pytest.mark.parametrize("how", ["header", "empty", "text", "foreign"])
def test_without_a_backup_it_starts_empty_and_says_so(
    open_store: Any, database: Path, how: str
) -> None:
    store = open_store()
    fill(store, chats=1, turns=2)
    store.close()
    before = make_unreadable(database, how)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "fresh"
    assert "starts empty" in opened.sentence
    assert "saved as" in opened.sentence
    assert [path.read_bytes() for path in kept_files(database)] == before
    store.create_conversation(a_conversation()).result()


def make_unreadable(database: Path, how: str) -> list[bytes]:
    """Spoil the file; the contents that must be kept."""
    if how == "missing":
        database.unlink()
        return []
    if how == "foreign":
        database.unlink()
        with closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TABLE recipes (name)")
    elif how == "header":
        with database.open("r+b") as file:
            file.write(b"\0" * 4096)
    else:
        database.write_bytes(b"" if how == "empty" else b"Dear diary, " * 1000)
    return [database.read_bytes()]


def test_a_damaged_backup_is_passed_over(open_store: Any, database: Path, data_dir: Path) -> None:
    store = open_store()
    fill(store, chats=1, turns=2)
    good = store.back_up().result()
    store.close()
    newer = datetime.now(UTC) + timedelta(hours=1)
    bad = good.with_name(f"cutaway-{newer:%Y%m%dT%H%M%S}Z.sqlite3")
    bad.write_bytes(good.read_bytes()[:50_000])
    make_unreadable(database, "text")
    store = open_store()
    assert store.opened.result().state == "restored"
    assert len(store.list_conversations().result()) == 1
    assert sorted((data_dir / "backups").iterdir()) == [good, bad]


def test_a_repair_that_was_cut_short_is_finished(open_store: Any, database: Path) -> None:
    """Whatever renames were done before the power failed, the next start does the rest."""
    store = open_store()
    fill(store, chats=1, turns=2)
    store.close()
    good = database.read_bytes()
    folder = database.parent
    for done in range(3):
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "cutaway.repaired.sqlite3").write_bytes(good)
        if done < 2:
            database.write_bytes(b"damaged")
        if done < 1:
            (folder / "cutaway.sqlite3-wal").write_bytes(b"old log")
        store = open_store()
        assert store.opened.result().state == "ok"
        assert len(store.list_conversations().result()) == 1
        store.close()
        assert [path.read_bytes() for path in kept_files(database)] == [b"damaged"] * (done < 2)
        assert database.exists()
        assert not (folder / "cutaway.repaired.sqlite3").exists()


def test_a_repair_that_has_no_room_leaves_everything_readable(
    open_store: Any, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    fill(store)
    store.close()
    damage(database, 0.5, 0.55)
    before = database.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.store.salvage.salvage", full)
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "read_only"
    assert "couldn't be repaired" in opened.sentence
    assert len(store.list_conversations().result()) == 3
    assert database.read_bytes() == before


def test_an_unexpected_error_reaches_everybody_who_waits(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("unheard of")

    monkeypatch.setattr(opening, "open_database", broken)
    told: list[tuple[str, str]] = []
    store = Store.open(data_dir, on_problem=lambda *what: told.append(what), backup_after_s=None)
    futures = [store.opened, store.list_conversations(), store.set_setting("a", 1), store.back_up()]
    for future in futures:
        with pytest.raises(StoreError, match="unheard of"):
            future.result(20)
    assert told[0][0] == "failed"
    store.close()


def test_an_unexpected_error_of_sqlite_is_said_in_one_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy's own text has the statement, and an address."""

    def broken(connection: Any) -> None:
        connection.exec_driver_sql("UPDATE gone SET a = 1")

    monkeypatch.setattr("models.conversations.writing.interrupt_streaming", broken)
    store = Store.open(data_dir, backup_after_s=None)
    with pytest.raises(StoreError) as raised:
        store.opened.result(20)
    assert str(raised.value) == (
        "The database couldn't be opened (no such table: gone). Nothing is saved in this "
        "window. Restart Cutaway."
    )
    store.close()
