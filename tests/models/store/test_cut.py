"""Databases of which a part is missing: what is there is saved, what can be made anew is."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from store_records import a_conversation, a_message

from models.records import Message, MessageState, Role
from models.store.pages import Pages
from models.store.store import Store
from models.tables import Base

OpenStore = Callable[..., Store]
Execute = Callable[..., list[tuple[Any, ...]]]
N_MESSAGES = 320
PAGE = 4096


def fill(store: Store) -> dict[str, str]:
    """Chats that were written in turn, with messages from three words to some pages; all texts."""
    dice = random.Random(3)
    chats = [
        store.create_conversation(a_conversation(title=f"Chat {n}")).result() for n in range(8)
    ]
    last: dict[str, Message] = {}
    texts: dict[str, str] = {}
    for number in range(N_MESSAGES):
        chat = dice.choice(chats)
        words = " ".join(
            f"word{dice.randrange(3000)}" for _ in range(dice.choice((3, 20, 80, 300, 1200)))
        )
        message = a_message(
            chat,
            last.get(chat.id),
            role=Role.ASSISTANT if number % 2 else Role.USER,
            content=f"message {number} {words}",
            rendered_prompt=words if number % 5 == 0 else None,
        )
        last[chat.id] = message
        texts[message.id] = message.content
        saved = store.append_message(message)
        if number % 2:
            saved = store.save_trace(message.id, dice.randbytes(600))
        if number % 40 == 39:
            saved.result(20)
    return texts


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, str]]:
    """The file of a closed database, and the messages in it."""
    folder = tmp_path_factory.mktemp("whole")
    store = Store.open(folder, backup_after_s=None)
    texts = fill(store)
    store.close()
    return (folder / "db" / "cutaway.sqlite3").read_bytes(), texts


def opened_from(folder: Path, data: bytes) -> Store:
    (folder / "db").mkdir(parents=True)
    (folder / "db" / "cutaway.sqlite3").write_bytes(data)
    store = Store.open(folder, backup_after_s=None)
    store.opened.result(60)
    return store


def saved_in(store: Store, texts: dict[str, str]) -> int:
    """How many messages are there, whole; what is there of others is marked so."""
    whole = 0
    rows = store._read(
        lambda c: c.exec_driver_sql("SELECT id, content, state FROM message").all()
    ).result(20)
    for message_id, content, state in rows:
        if state == "complete":
            assert content == texts[message_id]
            whole += 1
        else:
            assert texts.get(message_id, "").startswith(content)
    return whole


def cuts(size: int, part: int | str) -> dict[str, int]:
    """Lengths to cut a file to: every tenth percent from one on, or at borders of its last pages
    and anywhere near its end."""
    if isinstance(part, int):
        return {f"{percent}%": size * percent // 100 for percent in range(part or 10, 100, 10)}
    left = {"end": (1, 511, 4097, PAGE, 10 * PAGE), "near": (512, 4095, 10_001, 2 * PAGE, 3 * PAGE)}
    return {f"-{each} bytes": size - each for each in left[part]}


@pytest.mark.parametrize(
    "part",
    [
        "end",
        *(pytest.param(part, marks=pytest.mark.soak) for part in ("near", *range(10))),
    ],
)
def test_of_a_file_that_was_cut_what_is_there_is_saved(
    tmp_path: Path, whole: tuple[bytes, dict[str, str]], part: int | str
) -> None:
    """About as much of the messages as of the file; of the last pages nearly all."""
    data, texts = whole
    for name, size in cuts(len(data), part).items():
        store = opened_from(tmp_path / name, data[:size])
        opened = store.opened.result()
        share = size / len(data)
        saved = saved_in(store, texts) / N_MESSAGES
        n_chats = len(store.list_conversations().result())
        searched = len(store.search("message", limit=1000).result().hits)
        store.close()
        assert not re.search("SELECT|INSERT|sqlalche|Traceback", opened.sentence), opened.sentence
        if share > 0.2:
            assert opened.state in ("ok", "salvaged"), name
            assert saved >= share - 0.1, (name, saved)
            assert n_chats == 8
            assert searched >= saved * N_MESSAGES
        if share >= 0.99:
            assert saved >= 0.97, (name, saved)


def test_where_the_schema_is_lost_the_rows_are_known_by_their_shape(
    tmp_path: Path, whole: tuple[bytes, dict[str, str]]
) -> None:
    """All of the first page but the header of the file."""
    data, texts = whole
    store = opened_from(tmp_path / "x", data[:100] + bytes(PAGE - 100) + data[PAGE:])
    assert store.opened.result().state == "salvaged"
    assert saved_in(store, texts) == N_MESSAGES
    assert len(store.list_conversations().result()) == 8
    store.close()


def test_of_a_cut_file_with_a_log_the_newest_form_is_saved(
    open_store: OpenStore, database: Path, tmp_path: Path
) -> None:
    """Killed while it wrote, then cut: the log has pages that the file has not."""
    store = open_store()
    texts = fill(store)
    chat = store.list_conversations().result()[0]
    late = store.append_message(a_message(chat, content="written late")).result()
    folder = tmp_path / "copy"
    (folder / "db").mkdir(parents=True)
    for path in database.parent.glob("cutaway.sqlite3*"):
        shutil.copyfile(path, folder / "db" / path.name)
    copy = folder / "db" / database.name
    with copy.open("r+b") as file:
        file.truncate(max(PAGE, copy.stat().st_size // 2))
    store = open_store(folder)
    assert store.load_message(late.id).result().content == "written late"
    assert saved_in(store, texts | {late.id: late.content}) > 0.5 * N_MESSAGES


def test_a_text_that_is_only_there_in_part_is_marked_and_kept(
    open_store: OpenStore, database: Path
) -> None:
    store = open_store()
    chat = store.create_conversation(a_conversation()).result()
    first = store.append_message(a_message(chat, content="first")).result()
    long = store.append_message(a_message(chat, first, content="long " * 20_000)).result()
    store.close()
    data = database.read_bytes()
    database.write_bytes(data[: data.index(b"long long") + 40_000])
    store = open_store()
    assert store.load_message(first.id).result().state is MessageState.COMPLETE
    found = store.load_message(long.id).result()
    assert found.state is MessageState.UNREADABLE
    assert found.content.startswith("long long")
    assert 1000 < len(found.content) < 100_000


# --- what can be made anew ------------------------------------------------------------------------


PLAIN = sorted(set(Base.metadata.tables) - {"conversation", "message"})


@pytest.mark.parametrize("table", PLAIN)
def test_a_table_that_is_missing_is_made_again(
    open_store: OpenStore, execute: Execute, table: str
) -> None:
    store = open_store()
    chat = store.create_conversation(a_conversation(title="Kept")).result()
    message = store.append_message(a_message(chat)).result()
    store.close()
    execute(f"DROP TABLE {table}")
    store = open_store()
    opened = store.opened.result()
    assert opened.state == "ok"
    assert "empty now" in opened.sentence
    assert store.load_message(message.id).result().content == message.content
    store.set_setting("theme", "dark").result()
    store.save_trace(message.id, b"trace").result()
    assert store.all_settings().result() == {"theme": "dark"}
    store.close()
    assert open_store().opened.result().sentence == ""


@pytest.mark.parametrize("table", ["setting", "folder"])
def test_a_table_of_another_shape_is_made_again(
    open_store: OpenStore, execute: Execute, table: str
) -> None:
    store = open_store()
    chat = store.create_conversation(a_conversation(title="Kept")).result()
    store.close()
    execute(f"DROP TABLE {table}")
    execute(f"CREATE TABLE {table} (other)")
    store = open_store()
    store.set_setting("theme", "dark").result()
    assert store.all_settings().result() == {"theme": "dark"}
    assert store.list_folders().result() == ()
    assert [c.id for c in store.list_conversations().result()] == [chat.id]


INDEX_PARTS = [
    f"{table}{part}"
    for table in ("message_search", "conversation_search")
    for part in ("", "_data", "_idx", "_docsize", "_config", "_insert", "_update", "_delete")
]


@pytest.mark.parametrize("part", INDEX_PARTS)
def test_a_part_of_the_index_that_is_missing_costs_nothing(
    open_store: OpenStore, database: Path, part: str
) -> None:
    store = open_store()
    chat = store.create_conversation(a_conversation(title="A title")).result()
    store.append_message(a_message(chat, content="Some words")).result()
    store.close()
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("DELETE FROM sqlite_master WHERE name = ?", (part,))
        raw.execute("PRAGMA writable_schema = RESET")
    works_as_before(open_store)


@pytest.mark.parametrize("table", ["message_search", "conversation_search"])
@pytest.mark.parametrize("how", ["rubbish", "emptied"])
def test_an_index_that_is_damaged_is_made_anew(
    open_store: OpenStore, execute: Execute, table: str, how: str
) -> None:
    store = open_store()
    chat = store.create_conversation(a_conversation(title="A title")).result()
    store.append_message(a_message(chat, content="Some words")).result()
    store.close()
    if how == "rubbish":
        execute(f"UPDATE {table}_data SET block = x'0102030405060708'")
    else:
        execute(f"DELETE FROM {table}_data")
    works_as_before(open_store)


def works_as_before(open_store: OpenStore) -> None:
    store = open_store()
    opened = store.opened.result()
    assert opened.state in ("ok", "salvaged")
    assert not re.search("SELECT|INSERT|sqlalche", opened.sentence)
    (chat,) = store.list_conversations().result()
    (message,) = store.load_conversation(chat.id).result()[1]
    assert message.content == "Some words"
    assert len(store.search("words").result().hits) == 1
    assert len(store.search("title").result().hits) == 1
    store.update_conversation(chat.id, title="Renamed").result()
    store.append_message(a_message(chat, message, content="More words")).result()
    assert len(store.search("words").result().hits) == 2
    assert store.search("title").result().hits == ()
    store.close()
    assert open_store().opened.result().state == "ok"


def test_a_journal_of_another_database_is_not_the_end(
    open_store: OpenStore, database: Path, tmp_path: Path, whole: tuple[bytes, dict[str, str]]
) -> None:
    """SQLite would write its pages into this one."""
    data, texts = whole
    database.parent.mkdir(parents=True)
    database.write_bytes(data)
    other = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(other, isolation_level=None)) as raw:
        raw.execute("PRAGMA page_size = 4096")
        raw.execute("CREATE TABLE t (x)")
        raw.executemany("INSERT INTO t VALUES (?)", [("y" * 3000,)] * 50)
        raw.execute("PRAGMA cache_size = 2")
        raw.execute("BEGIN")
        raw.execute("UPDATE t SET x = 'z' || x")
        journal = other.with_name("other.sqlite3-journal").read_bytes()
        raw.execute("ROLLBACK")
    assert len(journal) > 10_000
    database.with_name("cutaway.sqlite3-journal").write_bytes(journal)
    store = open_store()
    assert store.opened.result().state == "ok"
    assert saved_in(store, texts) == N_MESSAGES
    assert len(list(database.parent.glob("cutaway.damaged-*-journal"))) == 1


# --- any bytes ------------------------------------------------------------------------------------


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(min_value=0), n_changes=st.integers(min_value=0, max_value=200))
def test_any_bytes_are_read_to_their_end(
    whole: tuple[bytes, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    n_changes: int,
) -> None:
    data, texts = whole
    dice = random.Random(seed)
    changed = bytearray(data[: dice.randrange(PAGE, len(data))])
    for _ in range(n_changes):
        at = dice.randrange(100, len(changed))
        length = dice.choice((1, 2, 8, PAGE))
        changed[at : at + length] = dice.randbytes(min(length, len(changed) - at))
    path = tmp_path_factory.getbasetemp() / "changed.sqlite3"
    path.write_bytes(changed)
    with closing(Pages(path)) as pages:
        count = sum(
            1 for _ in pages.rows(dict.fromkeys(("conversation", "message", "setting"), ""))
        )
    assert count <= 4 * len(texts)
