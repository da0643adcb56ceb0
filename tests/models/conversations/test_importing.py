"""Chats come in piece by piece: seen all at once or never, with other writes in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection
from store_records import next_time
from whole_chats import a_chat

from models.conversations import importing
from models.records import Attachment, Folder, Preset, Whereabouts
from models.store.errors import StoreError
from models.store.store import Store

Execute = Callable[..., list[tuple[Any, ...]]]
LONG = a_chat("long", 700)


def ids(store: Store) -> list[str]:
    return [each.id for each in store.list_conversations().result()]


def count(execute: Execute) -> int:
    return int(execute("SELECT count(*) FROM message")[0][0])


def test_other_writes_come_in_between_and_nothing_is_seen_until_all_is_there(
    store: Store, execute: Execute
) -> None:
    told: list[int] = []

    def look(done: int) -> None:
        told.append(done)
        store.set_setting("while", done).result(10)
        assert ids(store) == []
        assert store.list_trash().result() == ()
        assert store.search("question").result().hits == ()

    store.add_all([LONG, a_chat("short")], told=look)
    assert told == [500, 1000, 1400, 1404]
    assert store.get_setting("while").result() == 1404
    assert set(ids(store)) == {"long", "short"}
    assert store.read_whole("long").result() == LONG


def test_a_piece_is_bounded_by_its_size_too(store: Store) -> None:
    chat = a_chat("big", 4)
    messages = tuple(replace(m, content="x" * (importing.PIECE_CHARS // 2)) for m in chat.messages)
    told: list[int] = []
    store.add_all([replace(chat, messages=messages)], told=told.append)
    assert told == [2, 4, 6, 8]


def test_parents_traces_and_attachments_are_found_across_pieces(store: Store) -> None:
    time = next_time()
    late = LONG.messages[-1]
    attached = Attachment("a", "long", "a.txt", "text", 4, time, late.id)
    draft = Attachment("d", "long", "d.txt", "text", 4, time)
    turned = replace(late, parent_id=LONG.messages[0].id, attachments=(attached,))
    chat = replace(
        LONG,
        messages=(*LONG.messages[:-1], turned),
        traces={LONG.messages[3].id: b"early", late.id: b"late"},
        draft_attachments=(draft,),
    )
    store.add_all([chat])
    assert store.read_whole("long").result() == chat


def test_what_only_has_a_draft_comes_too(store: Store) -> None:
    empty = a_chat("empty", 0, draft="half a thought")
    attached = Attachment("d", "empty", "d.txt", "text", 4, next_time())
    chat = replace(empty, draft_attachments=(attached,))
    store.add_all([chat])
    assert store.read_whole("empty").result() == chat


def test_the_same_chat_twice_in_one_import_comes_once(store: Store) -> None:
    imported = store.add_all([a_chat("one"), a_chat("one")])
    assert (imported.ids, imported.renamed, imported.there) == (("one",), 0, 1)


def test_what_is_cancelled_leaves_nothing(store: Store, execute: Execute) -> None:
    def stop(done: int) -> None:
        if done >= 1000:
            raise StoreError("Enough.")

    folder, time = Folder("f", "Travel", next_time()), next_time()
    preset = Preset("p", "Precise", time, time, {"temperature": 0.1})
    chats = [a_chat("first", folder_id="f", preset_id="p"), LONG]
    with pytest.raises(StoreError, match="Enough"):
        store.add_all(chats, [folder], [preset], stop)
    assert (ids(store), count(execute)) == ([], 0)
    assert (store.list_folders().result(), store.list_presets().result()) == ((), ())
    assert execute("SELECT count(*) FROM conversation") == [(0,)]
    assert store.whereabouts(LONG).result() is Whereabouts.NEW


def test_what_a_kill_left_is_hidden_and_dropped_piece_by_piece(
    store: Store, execute: Execute
) -> None:
    class KilledError(BaseException):
        pass

    def write(work: Callable[[Connection], Any]) -> Any:
        if len(done) == 4:  # the row of the chat and its first two pieces, and no more
            raise KilledError
        done.append(work)
        return store._writer.submit(work)

    done: list[Any] = [None]
    with pytest.raises(KilledError):
        importing.add_all(store._reader.submit, write, [LONG])
    assert count(execute) == 1000
    assert (ids(store), store.list_trash().result()) == ([], ())
    later = next_time().replace(year=2999)
    assert store.purge_some(later).result() == 0
    assert store.purge_some(later, 10).result() == 0
    staged = store.staged_ids().result()
    assert staged == ("long",)
    dropped = []
    while step := store.drop_some(staged).result():
        dropped.append(step)
    assert dropped == [501, 501, 1]
    assert (count(execute), store.staged_ids().result()) == (0, ())


def test_only_what_is_staged_is_dropped(store: Store) -> None:
    store.add_all([a_chat("one")])
    assert store.drop_some(["one", "unknown"]).result() == 0
    assert ids(store) == ["one"]


def test_a_transaction_that_is_done_twice_adds_nothing_twice(store: Store) -> None:
    def twice(work: Callable[[Connection], Any]) -> Any:
        store._writer.submit(work).result()
        return store._writer.submit(work)

    chat = replace(
        LONG, draft_attachments=(Attachment("d", "long", "d.txt", "text", 4, next_time()),)
    )
    importing.add_all(store._reader.submit, twice, [chat])
    assert store.read_whole("long").result() == chat


def test_an_import_that_waits_for_a_full_disk_can_be_given_up(
    store: Store, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    class GivenUpError(StoreError):
        pass

    tries: list[int] = []

    def without_room(*_args: Any) -> bool:
        if len(tries) < 3:
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        return False

    def check() -> None:
        tries.append(1)
        if len(tries) == 3:
            raise GivenUpError("Cancelled.")

    monkeypatch.setattr(importing, "_is_there", without_room)
    with pytest.raises(GivenUpError):
        store.add_all([a_chat("short")], check=check)
    assert (ids(store), count(execute), len(tries)) == ([], 0, 3)
    store.add_all([a_chat("short")])
    assert ids(store) == ["short"]
