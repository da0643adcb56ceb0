"""Deleted for good is deleted: the words are in no byte of any file of the data folder."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message

from models.records import Attachment, Conversation, Message, MessageState, Role
from models.store import erasing
from models.store.connecting import open_raw
from models.store.errors import ClosedError
from models.store.plain import ERASE
from models.store.store import Store

SECRET = "qzx"
"""What the words begin with that are to be nowhere. In the index, whose words share beginnings,
such a word may stand without its own, so each has an end of its own too."""
END = "vkjw"


def secret(name: str) -> str:
    return f"{SECRET}{name}{END}"


def found_in(folder: Path) -> dict[str, list[bytes]]:
    """The secrets that stand in files, by file."""
    found: dict[str, list[bytes]] = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for part in (SECRET.encode(), END.encode()):
            if (at := data.find(part)) >= 0:
                found.setdefault(path.name, []).append(data[max(0, at - 10) : at + 20])
    return found


def words(dice: random.Random, count: int) -> str:
    letters = "abcdefghi mnopqrstu"
    return "".join(dice.choices(letters, k=5 * count))


def fill(store: Store, dice: random.Random, n_secret: int = 4) -> list[str]:
    """Chats whose pages lie between one another; the ids of those with the secrets."""
    chats = [store.create_conversation(a_conversation()).result() for _ in range(12)]
    last: dict[str, Message | None] = dict.fromkeys(chat.id for chat in chats)
    for number in range(300):
        chat = dice.choice(chats)
        has_secret = chats.index(chat) < n_secret
        text = words(dice, dice.choice([3, 20, 100, 900]))
        if has_secret:
            text = f"{secret(f'a{number}')} {text} {secret(f'b{number}')}"
        message = a_message(chat, last[chat.id], content=text, reasoning=text[:200])
        saved, last[chat.id] = store.append_message(message), message
        if number % 20 == 19:
            saved.result(20)
    return [chat.id for chat in chats[:n_secret]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[str]]:
    """The file of a closed database with such chats, and the ids of those with the secrets."""
    folder = tmp_path_factory.mktemp("filled")
    store = Store.open(folder, backup_after_s=None)
    ids = fill(store, random.Random(7))
    store.close()
    return (folder / "db" / "cutaway.sqlite3").read_bytes(), ids


@pytest.fixture
def secrets(filled: tuple[bytes, list[str]], database: Path) -> list[str]:
    """The ids of chats with secrets, in the database that the test's store finds."""
    database.parent.mkdir(parents=True)
    database.write_bytes(filled[0])
    return filled[1]


def fill_every_place(store: Store) -> str:
    """A chat that has its secrets wherever something can be typed or kept."""
    chat = store.create_conversation(
        a_conversation(title=secret("title"), system_prompt=secret("system"), draft=secret("draft"))
    ).result()
    store.update_conversation(chat.id, draft=secret("draft2"), title=secret("title2")).result()
    store.update_conversation(chat.id, settings={"note": secret("settings")}).result()
    question = store.append_message(a_message(chat, content=secret("question"))).result()
    reply = a_message(chat, question, role=Role.ASSISTANT, state=MessageState.STREAMING, content="")
    store.append_message(reply).result()
    for part in range(5):
        store.save_streaming_text(reply.id, secret("part") * (part + 1), secret("thought")).result()
    store.update_message(
        reply.id,
        state=MessageState.COMPLETE,
        content=secret("reply") * 300,
        error=secret("error"),
        settings={"stop": secret("stop")},
        rendered_prompt=secret("prompt"),
    ).result()
    store.save_trace(reply.id, secret("trace").encode()).result()
    for owner in (reply.id, None):
        store.create_attachment(
            Attachment(
                id=f"attachment {owner}",
                conversation_id=chat.id,
                message_id=owner,
                name=secret("file"),
                text=secret("attached") * 500,
                created_at=chat.created_at,
                size_bytes=1,
            ),
            ("image/png", secret("picture").encode() * 500),
        ).result()
    return chat.id


def delete(store: Store, *ids: str) -> None:
    for each in ids:
        store.trash_conversation(each).result()
    assert store.delete_trashed(ids).result() == len(ids)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
def test_the_words_are_in_no_file_while_the_store_is_open_and_after(
    store: Store, data_dir: Path, seed: int
) -> None:
    secrets = [*fill(store, random.Random(seed)), fill_every_place(store)]
    assert "cutaway.sqlite3-wal" in found_in(data_dir)
    for each in secrets:  # not at once: rows move between pages with each
        delete(store, each)
    store.erased().result(30)
    assert found_in(data_dir) == {}
    assert store.search(SECRET).result().hits == ()
    assert len(store.list_conversations().result()) == 8
    store.close()
    assert found_in(data_dir) == {}


def test_deleted_messages_too(store: Store, data_dir: Path) -> None:
    chat = store.create_conversation(a_conversation()).result()
    kept = store.append_message(a_message(chat, content="kept")).result()
    for number in range(40):
        gone = store.append_message(a_message(chat, kept, content=secret(f"m{number}"))).result()
        store.trash_branch(gone.id).result()
    later = replace(chat).updated_at.replace(year=2999)
    assert store.purge_branches(later).result() == 40
    store.erased().result(30)
    assert found_in(data_dir) == {}


def test_what_was_cut_short_is_gone_after_the_next_start(
    secrets: list[str],
    open_store: Callable[..., Store],
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store()
    monkeypatch.setattr(erasing.Eraser, "go_on", lambda *_: 1000.0)
    delete(store, *secrets)
    erased = store.erased()
    store.close()
    with pytest.raises(ClosedError):
        erased.result(5)
    assert found_in(data_dir) != {}, "this proves that the test sees something"
    monkeypatch.undo()
    open_store().erased().result(30)
    assert found_in(data_dir) == {}


def test_closing_right_after_a_deletion_erases(
    secrets: list[str], store: Store, data_dir: Path
) -> None:
    delete(store, *secrets)
    store.close(timeout=30)
    assert found_in(data_dir) == {}


def test_a_write_does_not_wait_for_the_database_to_be_written_anew(
    secrets: list[str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VACUUM is broken off for it, and begun again."""
    begun: list[bool] = []
    real = erasing._asking

    def asking(raw: sqlite3.Connection, may_go_on: Callable[[], bool]) -> Any:
        def asked() -> bool:
            if len(begun) < 3:  # somebody writes, just now
                begun.append(may_go_on())
                return False
            return may_go_on()

        return real(raw, asked)

    monkeypatch.setattr(erasing, "_asking", asking)
    monkeypatch.setattr(erasing, "_STEPS_BETWEEN_ASKING", 1)
    monkeypatch.setattr(erasing, "_AGAIN_S", 0.01)
    delete(store, *secrets)
    store.erased().result(30)
    assert len(begun) == 3


def test_a_large_database_is_written_anew_only_when_it_is_quiet(
    secrets: list[str],
    store: Store,
    database: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(erasing.Eraser, "go_on", lambda *_: 1000.0)
    delete(store, *secrets)
    store.close()
    monkeypatch.undo()
    monkeypatch.setattr(erasing, "_LARGE_BYTES", 0)
    eraser = erasing.Eraser(database)
    with closing(open_raw(database, "rw")) as raw:
        while (rest_s := eraser.go_on(raw, lambda: True, 5.0)) == 0.0:
            pass
        assert rest_s == erasing._QUIET_S - 5.0
        assert found_in(data_dir) != {}
        while eraser.go_on(raw, lambda: True, erasing._QUIET_S) is not None:
            pass
        assert found_in(data_dir) == {}


def test_what_a_repair_left_half_built_is_gone_after_the_next_start(
    open_store: Callable[..., Store], database: Path, data_dir: Path
) -> None:
    open_store().close()
    for suffix in ("", "-journal"):
        database.with_name(f"cutaway.building.sqlite3{suffix}").write_text(SECRET)
    open_store()
    assert found_in(data_dir) == {}


def test_a_reader_that_holds_the_log_only_delays_it(
    secrets: list[str],
    store: Store,
    database: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(erasing, "_AGAIN_S", 0.01)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM message").fetchone()
        delete(store, *secrets)
        erased = store.erased()
        with pytest.raises(TimeoutError):
            erased.result(0.5)
        store.set_setting("theme", "dark").result(5)
    erased.result(30)
    assert found_in(data_dir) == {}


def test_backups_hold_it_until_they_are_deleted_too(
    secrets: list[str], store: Store, data_dir: Path
) -> None:
    store.back_up().result(30)
    (data_dir / "backups" / "unfinished.sqlite3").write_text(SECRET)
    for name in ("damaged-1.sqlite3", "damaged-1.sqlite3-wal", "damaged-2.sqlite3"):
        (data_dir / "db" / f"cutaway.{name}").write_text(SECRET)
    (data_dir / "backups" / "mine.txt").write_text("kept")
    delete(store, *secrets)
    store.erased().result(30)
    assert len(found_in(data_dir)) == 5
    assert store.delete_backups().result(30) == 3
    store.back_up().result(30)  # the one that follows by itself may take its place
    assert found_in(data_dir) == {}
    assert (data_dir / "backups" / "mine.txt").exists()
    names = sorted(path.name for path in (data_dir / "backups").glob("cutaway-*"))
    assert names, "a new one"


def test_a_backup_that_is_made_before_all_is_erased_has_nothing_of_it(
    secrets: list[str], store: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing.Eraser, "go_on", lambda *_: 1000.0)
    delete(store, *secrets)
    backup = store.back_up().result(30)
    assert found_in(backup.parent) == {}
    with closing(sqlite3.connect(backup)) as raw:
        assert raw.execute("SELECT * FROM setting WHERE name = ?", (ERASE,)).fetchall() == []
    assert found_in(data_dir) != {}


def test_the_notes_of_the_store_are_no_settings(store: Store) -> None:
    chat: Conversation = store.create_conversation(a_conversation()).result()
    delete(store, chat.id)
    assert store.all_settings().result() == {}
