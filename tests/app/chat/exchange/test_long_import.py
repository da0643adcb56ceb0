"""A long import: how far it is, giving it up, and a kill in its middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whole_chats import a_chat

from app.chat import events
from app.chat.exchange import exchange, json_file
from models.conversations import importing

Told = Callable[[str], str]
Looked = Callable[..., events.ImportPreviewed]
LONG = a_chat("long", 1500)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "long.json"
    with path.open("wb") as opened:
        json_file.write(opened, iter([LONG]), [], [], LONG.conversation.created_at)
    return path


@pytest.fixture
def always_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "TOLD_EVERY_S", 0.0)


def progress(room: Any) -> list[events.ImportProgressed]:
    return list(room.of(events.ImportProgressed))


@pytest.mark.usefixtures("always_told")
def test_it_says_how_far_it_is(room: Any, told: Told, looked: Looked, file: Path) -> None:
    assert looked(file).chats[0].n_messages == 3000
    room.desk.exchange.import_previewed()
    told("1 chat was imported.")
    assert [(p.done, p.total, p.is_over) for p in progress(room)] == [
        *((done, 3000, False) for done in range(500, 3001, 500)),
        (3000, 3000, True),
    ]


@pytest.mark.usefixtures("always_told")
def test_looking_says_how_many_chats_there_are_and_can_be_cancelled(
    room: Any, looked: Looked, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(file)
    told = [(each.n_chats, each.is_over) for each in room.of(events.ImportLooked)]
    assert told[0] == (0, False)  # while it is looked for
    assert told[-2:] == [(1, False), (0, True)]
    whereabouts = room.store.whereabouts

    def cancelled(chat: Any) -> Any:
        room.desk.exchange.cancel()
        return whereabouts(chat)

    monkeypatch.setattr(room.store, "whereabouts", cancelled)
    n_previews = len(room.of(events.ImportPreviewed))
    room.desk.exchange.preview([str(file), str(file)])
    room.until(lambda: len([e for e in room.of(events.ImportLooked) if e.is_over]) == 2)
    room.until(lambda: not room.desk.exchange._is_busy)
    assert len(room.of(events.ImportPreviewed)) == n_previews


@pytest.mark.usefixtures("always_told")
def test_a_draft_is_saved_while_it_runs(room: Any, looked: Looked, file: Path) -> None:
    looked(file)
    room.desk.exchange.import_previewed()
    room.until(lambda: progress(room))
    chat = room.desk.shelf.open.id
    room.desk.shelf.save_draft("in between")
    room.desk.shelf.flush_draft()
    saved = room.store.set_setting("a mark", 1)
    saved.result(20)
    assert room.store.read_whole(chat).result(20).conversation.draft == "in between"
    room.until(lambda: progress(room)[-1].is_over)


@pytest.mark.usefixtures("always_told")
def test_cancelled_it_leaves_nothing(room: Any, told: Told, looked: Looked, file: Path) -> None:
    before = room.desk.shelf.conversations
    looked(file)
    room.desk.exchange.import_previewed()
    room.desk.exchange.cancel()
    told("Import cancelled. Nothing was added.")
    assert room.desk.shelf.conversations == before
    assert room.store.staged_ids().result(20) == ()
    assert room.store.list_trash().result(20) == ()
    looked(file)
    room.desk.exchange.import_previewed()
    told("1 chat was imported.")


def test_what_a_kill_left_is_gone_after_the_next_start(
    room: Any, looked: Looked, file: Path, monkeypatch: pytest.MonkeyPatch, make_room: Any
) -> None:
    """The first room is closed in the midst of it, which leaves what a kill leaves."""

    def close(done: int) -> None:
        if done >= 1000:
            room.desk.exchange._closing.set()

    monkeypatch.setattr(
        room.desk.exchange, "_progress", lambda _total: lambda done: (close(done), check())[0]
    )
    check = room.desk.exchange._check
    looked(file)
    room.desk.exchange.import_previewed()
    room.until(lambda: progress(room)[-1:] and progress(room)[-1].is_over)
    assert room.store.staged_ids().result(20) == ("long",)
    room.close()
    again = make_room().start_ready()
    again.until(lambda: again.store.staged_ids().result(20) == ())
    assert [c.title for c in again.desk.shelf.conversations] == ["What is the capital of France?"]
    assert again.store.whereabouts(LONG).result(20).value == "new"


def test_a_piece_that_a_close_meets_is_no_change_that_was_lost(
    room: Any, looked: Looked, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = importing._add

    def close(*args: Any, **named: Any) -> None:
        room.desk.exchange._closing.set()
        add(*args, **named)

    monkeypatch.setattr(importing, "_add", close)
    looked(file)
    room.desk.exchange.import_previewed()
    room.until(lambda: not room.desk.exchange._is_busy)
    assert room.store._writer._unsaved == 0
