"""The list, drafts, trash and reopening."""

from __future__ import annotations

import pytest

from app.chat import events
from app.chat.conversations.titles import UNTITLED


def test_new_conversation_costs_nothing_until_it_holds_something(make_room):
    room = make_room().start()
    room.desk.shelf.open_new()
    room.desk.shelf.open_new()
    assert room.desk.shelf.conversations == ()
    assert room.desk.shelf.open.title == UNTITLED


def test_draft_and_last_chat_come_back(make_room):
    room = make_room().start_ready()
    room.ask("Hello")
    conversation_id = room.desk.shelf.open.id
    room.desk.shelf.save_draft("half a thou")
    room.desk.shelf.save_draft("half a thought")
    room.close()

    again = make_room().start()
    again.until(lambda: again.desk.shelf.open.id == conversation_id)
    assert again.desk.shelf.open.draft == "half a thought"
    assert next(m.content for m in again.desk.shelf.path) == "Hello"


def test_draft_of_a_new_chat_comes_back(make_room):
    room = make_room().start()
    room.desk.shelf.save_draft("not sent yet")
    room.close()
    again = make_room().start()
    again.until(lambda: again.desk.shelf.open.draft == "not sent yet")


@pytest.mark.usefixtures("soon")
def test_draft_is_saved_after_a_short_rest(make_room):
    room = make_room().start()
    room.desk.shelf.save_draft("text")
    room.until(
        lambda: room.desk.shelf.conversations and room.desk.shelf.conversations[0].draft == "text"
    )


def test_each_conversation_keeps_its_own_draft(make_room):
    room = make_room().start_ready()
    room.ask("One")
    first = room.desk.shelf.open.id
    room.desk.shelf.save_draft("draft of one")
    room.desk.shelf.open_new()
    room.ask("Two")
    second = room.desk.shelf.open.id
    room.desk.shelf.save_draft("draft of two")
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    assert room.desk.shelf.open.draft == "draft of one"
    room.desk.shelf.open_stored(second)
    room.until(lambda: room.desk.shelf.open.id == second)
    assert room.desk.shelf.open.draft == "draft of two"


def test_sending_empties_the_draft(make_room):
    room = make_room().start_ready()
    room.desk.shelf.save_draft("Hello")
    room.ask("Hello")
    assert room.desk.shelf.open.draft == ""
    room.close()
    again = make_room().start()
    again.until(lambda: again.desk.shelf.path)
    assert again.desk.shelf.open.draft == ""


def test_text_typed_before_the_last_chat_is_read_joins_its_draft(make_room):
    room = make_room().start_ready()
    room.ask("Hello")
    conversation_id = room.desk.shelf.open.id
    room.close()

    again = make_room()
    again.desk.shelf.save_draft("typed early")
    again.start()
    again.until(lambda: again.desk.shelf.open.id == conversation_id)
    assert again.desk.shelf.open.draft == "typed early"
    assert len(again.desk.shelf.conversations) == 1


def test_the_newest_activity_is_first(make_room):
    room = make_room().start_ready()
    room.ask("One")
    first = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    room.ask("Two")
    assert [c.title for c in room.desk.shelf.conversations] == ["Two", "One"]
    room.desk.shelf.open_stored(first)
    room.until(lambda: room.desk.shelf.open.id == first)
    room.ask("One more")
    assert [c.title for c in room.desk.shelf.conversations] == ["One", "Two"]


def test_trash_can_be_undone(make_room):
    room = make_room().start_ready()
    room.ask("Keep me")
    conversation_id = room.desk.shelf.open.id
    room.desk.folders.trash_one(conversation_id)

    assert room.desk.shelf.conversations == ()
    assert room.desk.shelf.open.id != conversation_id
    notice = room.of(events.Noticed)[-1]
    assert "Keep me" in notice.sentence
    room.desk.shelf.undo(notice.undo)
    room.until(lambda: room.desk.shelf.open.id == conversation_id)
    assert next(m.content for m in room.desk.shelf.path) == "Keep me"
    assert len(room.desk.shelf.conversations) == 1
    room.desk.shelf.undo(notice.undo)
    assert len(room.desk.shelf.conversations) == 1


def test_trashing_the_open_chat_shows_its_neighbour_and_stops_its_reply(make_room):
    script = {
        "replies": [
            {"match": "slow", "tokens": [{"text": "on ", "ms": 5, "repeat": 4000}]},
            {"text": "Done."},
        ],
    }
    room = make_room(script).start_ready()
    room.ask("One")
    first = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    room.desk.replies.send("slow")
    room.until(lambda: room.growing(5))
    room.desk.folders.trash_one(room.desk.shelf.open.id)
    room.until(lambda: room.desk.shelf.open.id == first)
    room.until(lambda: room.desk.loader.state.state == "ready", "the reply to end")


def test_second_window_reads_and_says_so(make_room):
    room = make_room().start_ready()
    room.ask("Hello")
    first_look = next(room.data_dir.glob("first-look.json"))
    first_look.unlink()
    second = make_room(read_only=True).start()
    second.until(lambda: second.desk.shelf.path)
    assert not first_look.exists()

    states = [event.state for event in second.of(events.StoreStateChanged)]
    assert states == ["read_only"]
    assert not second.desk.replies.send("May I?")
    assert second.of(events.Noticed)[-1].sentence == "Another window writes."
    second.desk.shelf.save_draft("can't be empty")
    second.desk.settings.set("top_k", 5)
    second.desk.shelf.rename(second.desk.shelf.open.id, "Mine")
    second.desk.folders.trash_one(second.desk.shelf.open.id)
    second.close()
    assert [c.title for c in room.desk.shelf.conversations] == ["Hello"]


def test_system_prompt_belongs_to_the_conversation(make_room):
    room = make_room().start_ready()
    room.desk.levels.change("chat", "system_prompt", "Be brief.")
    room.ask("Hello")
    assert room.desk.shelf.open.system_prompt == "Be brief."
    room.desk.shelf.open_new()
    assert room.desk.shelf.open.system_prompt == ""
