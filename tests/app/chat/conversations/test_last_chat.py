"""One chat never locks anybody out: what hung the window is not opened again by itself."""

from __future__ import annotations

import pytest

from app.chat import events
from app.chat.conversations import last_chat
from app.chat.conversations.last_chat import LEFT_CLOSED_SENTENCE, end_peek, may_peek

MARK = "opening-chat"
PEEK_MARK = "peeking-chat"


def sentences(room) -> list[str]:
    return [event.sentence for event in room.of(events.Noticed)]


@pytest.fixture
def last_id(make_room) -> str:
    """A stored chat that was open last; the program ended in an orderly way."""
    room = make_room().start_ready()
    room.ask("Hello")
    conversation_id = room.desk.shelf.open.id
    room.close()
    return conversation_id


def test_chat_that_ended_the_program_is_left_closed_once(make_room, data_dir, last_id):
    room = make_room().start()
    room.until(lambda: room.desk.shelf.path)
    mark = (data_dir / MARK).read_text()
    assert mark == last_id
    room.close()
    assert not (data_dir / MARK).exists(), "an orderly end did no harm"

    (data_dir / MARK).write_text(mark)  # as the kill of a hanging window leaves it
    again = make_room().start()
    again.until(lambda: LEFT_CLOSED_SENTENCE in sentences(again))
    assert again.desk.shelf.path == ()
    assert last_id in [each.id for each in again.desk.shelf.conversations]
    again.desk.shelf.open_stored(last_id)
    again.until(lambda: again.desk.shelf.path)
    again.close()

    third = make_room().start()
    third.until(lambda: third.desk.shelf.path)
    assert LEFT_CLOSED_SENTENCE not in sentences(third)


def test_chat_that_was_shown_for_a_moment_did_no_harm(make_room, data_dir, last_id, monkeypatch):
    monkeypatch.setattr(last_chat, "HARMLESS_AFTER_S", 0.01)
    room = make_room().start()
    room.until(lambda: room.desk.shelf.path)
    room.until(lambda: not (data_dir / MARK).exists())


def test_mark_of_another_chat_or_nonsense_is_no_reason(make_room, data_dir, last_id):
    (data_dir / MARK).write_bytes(b"\xff\x00" * 4000)
    room = make_room().start()
    room.until(lambda: room.desk.shelf.path)
    assert LEFT_CLOSED_SENTENCE not in sentences(room)


def test_chat_that_is_shown_early_is_taken_over_by_the_desk(make_room, data_dir, last_id):
    assert may_peek(data_dir, last_id)
    assert last_id in (data_dir / PEEK_MARK).read_text()
    room = make_room().start()
    room.until(lambda: room.desk.shelf.path)
    assert not (data_dir / PEEK_MARK).exists()
    assert (data_dir / MARK).read_text() == last_id
    assert LEFT_CLOSED_SENTENCE not in sentences(room)


def test_chat_that_ended_the_program_when_shown_early_is_left_closed_once(
    make_room, data_dir, last_id
):
    (data_dir / PEEK_MARK).write_text(f"1 {last_id}")  # of a process that is gone
    assert not may_peek(data_dir, last_id)
    room = make_room().start()
    room.until(lambda: LEFT_CLOSED_SENTENCE in sentences(room))
    assert room.of(events.LastChatStays)
    assert room.desk.shelf.path == ()
    room.close()
    assert may_peek(data_dir, last_id)
    end_peek(data_dir)
    assert may_peek(data_dir, last_id)
    end_peek(data_dir)


def test_chat_that_ended_the_program_when_opened_is_not_shown_early(data_dir, last_id):
    (data_dir / MARK).write_text(last_id)
    assert not may_peek(data_dir, last_id)
    assert not (data_dir / PEEK_MARK).exists()


def test_what_another_process_shows_is_its_own(data_dir, last_id):
    (data_dir / PEEK_MARK).write_text(f"1 {last_id}")
    end_peek(data_dir)
    assert (data_dir / PEEK_MARK).exists()


def test_it_is_told_where_no_chat_comes(make_room, data_dir):
    room = make_room().start_ready()
    assert room.of(events.LastChatStays)
    assert not room.of(events.ConversationOpened)
