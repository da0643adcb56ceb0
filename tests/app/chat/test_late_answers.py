"""Answers of the store that come late: somebody has gone on meanwhile, and what they typed, sent
or threw away counts.

Nothing that was posted is run until the test says so, so each answer here is as late as can be.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from app.chat import events
from app.chat.attachments.attachments import LEFT_SENTENCE
from app.chat.replies.replies import CHANGING_SENTENCE
from models.records import Role

SCRIPT: dict[str, Any] = {
    "load": {"ms": 10},
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "brief", "tokens": [{"text": "brief ", "ms": 5, "repeat": 100}]},
        {"text": "Quick."},
    ],
}


def said(room: Any) -> list[str]:
    return [m.content for m in room.desk.messages if m.role is Role.USER]


def titles(room: Any) -> list[str]:
    return [each.title for each in room.desk.conversations]


def draft(room: Any) -> str:
    """What the composer was given last, and what was typed since."""
    return room.desk._shelf.draft


def opened(room: Any, conversation_id: str) -> None:
    room.until(lambda: room.desk.conversation.id == conversation_id, "the chat")


def answered(room: Any) -> None:
    """All that was asked of the store so far has been answered."""
    room.store.all_settings().result(20)
    room.pump()


@pytest.fixture
def room(make_room: Any) -> Any:
    """Two chats, the second one open."""
    made = make_room(SCRIPT).start_ready()
    made.ask("One")
    made.first = made.desk.conversation.id
    made.desk.new_conversation()
    made.ask("Two")
    made.second = made.desk.conversation.id
    return made


# --- the trash ----------------------------------------------------------------------------------


@pytest.mark.parametrize("are_many", [False, True])
def test_what_was_queued_and_typed_is_in_the_draft_of_a_chat_in_the_trash(room, are_many):
    assert room.desk.send("slow")
    room.until(room.growing)
    room.desk.queue_message("queued")
    room.desk.save_draft("typed")
    if are_many:
        room.desk.trash_conversations((room.first, room.second))
    else:
        room.desk.trash_conversation(room.second)
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "queued\n\ntyped"
    assert room.desk.queued == ()
    assert room.store.load_conversation(room.second).result(20)[0].draft == "queued\n\ntyped"


def test_what_went_along_with_a_queued_message_is_with_the_draft_again(room):
    assert room.desk.send("slow")
    room.until(room.growing)
    room.desk.attach_text("a long text " * 500)
    room.until(lambda: room.desk.attachments)
    room.desk.queue_message("queued")
    room.desk.trash_conversation(room.second)
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    room.until(lambda: [a.name for a in room.desk.attachments] == ["Pasted text"])


def test_what_is_typed_into_a_queued_message_is_kept_as_it_is_typed(room):
    assert room.desk.send("slow")
    room.until(room.growing)
    room.desk.queue_message("first")
    room.desk.queue_message("second")
    one, _two = room.desk.queued
    room.desk.edit_queued(one.id)
    room.desk.type_queued(one.id, "first and more")
    room.desk.type_queued(one.id, " ")
    room.until(lambda: room.desk.conversation.draft == "first and more\n\nsecond")
    room.desk.change_queued(one.id, "first")
    assert [each.text for each in room.desk.queued] == ["first", "second"]
    room.desk.type_queued(one.id, "first of all")
    room.desk.trash_conversation(room.second)
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert draft(room) == "first of all\n\nsecond"


@pytest.mark.parametrize("are_many", [False, True])
def test_what_is_typed_behind_a_trashed_chat_begins_a_new_one(room, are_many):
    room.desk.save_draft("old")
    if are_many:
        room.desk.new_conversation()
        room.ask("Three")
        room.desk.trash_conversations((room.second, room.desk.conversation.id))
    else:
        room.desk.trash_conversation(room.second)
    room.desk.save_draft("new words")
    room.desk._shelf.flush_draft()
    answered(room)
    assert room.desk.conversation.id not in (room.first, room.second)
    assert room.desk.conversation.draft == draft(room) == "new words"
    assert room.second not in [each.id for each in room.desk.conversations]
    stored = room.store.list_trash().result(20)
    assert {each.id: each.draft for each in stored}[room.second] == "old"
    room.desk.send("Three")
    room.until(room.ended_reply)
    assert said(room) == ["Three"]


def test_behind_a_trashed_chat_its_neighbour_is_shown(room):
    room.desk.trash_conversation(room.second)
    assert room.desk.messages == ()
    opened(room, room.first)
    assert said(room) == ["One"]


def test_a_chat_that_is_trashed_while_it_is_read_is_not_opened(room):
    room.desk.open_conversation(room.first)
    room.desk.trash_conversation(room.first)
    answered(room)
    assert room.desk.conversation.id == room.second


def test_a_list_that_was_asked_for_before_brings_nothing_back_from_the_trash(room):
    listed = room.store.list_conversations()
    room.desk.trash_conversation(room.first)
    room.desk._shelf.show_list(listed.result(20))
    assert titles(room) == ["Two"]
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    assert sorted(titles(room)) == ["One", "Two"]


def test_a_folder_that_is_deleted_while_the_list_is_read_is_gone(room):
    folder = room.desk.create_folder("Old")
    room.store.list_folders().result(20)
    room.desk._folders.read()
    room.desk.delete_folder(folder)
    answered(room)
    assert room.desk.folders == ()
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    room.until(lambda: [each.name for each in room.desk.folders] == ["Old"])


def test_presets_that_are_changed_while_the_list_is_read_stay_so(room):
    room.desk.list_presets()
    room.until(lambda: room.of(events.PresetsListed))
    gone, kept = room.desk._presets.all[:2]
    room.desk._presets.read_again()
    room.desk._presets.delete(gone.id)
    room.desk._presets.rename(kept.id, "Mine")
    made_id = room.desk._presets.create("Made")
    answered(room)
    names = {each.id: each.name for each in room.desk._presets.all}
    assert gone.id not in names
    assert (names[kept.id], names[made_id]) == ("Mine", "Made")


# --- opening ------------------------------------------------------------------------------------


def test_the_open_chat_opened_again_keeps_what_was_typed_since(room):
    room.desk.save_draft("bef")
    room.desk.open_conversation(room.second)
    room.desk.save_draft("before and after")
    answered(room)
    assert draft(room) == "before and after"
    last = room.of(events.ConversationOpened)[-1]
    assert (last.conversation.draft, [m.content for m in last.messages]) == (
        "bef",
        ["Two", "Quick."],
    )


def test_the_open_chat_opened_again_keeps_what_was_sent_since(room):
    room.desk.open_conversation(room.second)
    assert room.desk.send("More")
    answered(room)
    room.until(room.ended_reply)
    assert said(room) == ["Two", "More"]
    assert [m.content for m in room.stored()] == [m.content for m in room.desk.messages]


def test_a_chat_that_was_left_and_opened_again_has_its_draft(room):
    """Also while the database takes no writes: the one here is known best."""
    room.desk.open_conversation(room.first)
    opened(room, room.first)
    stale = room.store.load_conversation(room.first).result(20)
    room.desk.save_draft("typed here")
    room.desk.open_conversation(room.second)
    opened(room, room.second)
    late: Future[Any] = Future()
    late.set_result(stale)
    room.desk._around.store._disk.load_conversation = lambda *_args, **_options: late
    room.desk.open_conversation(room.first)
    opened(room, room.first)
    assert draft(room) == "typed here"


def test_a_chat_to_which_a_queued_message_was_sent_while_it_was_read_shows_it(room):
    late: Future[Any] = Future()

    def answer_the_first_late(*args: Any, newest: int | None = None) -> Any:
        if newest is None or late.done():
            return load(*args, newest=newest)
        return late

    load = begin_away(room, answer_the_first_late)
    room.desk.open_conversation(room.second)
    read_before = load(room.second).result(20)
    room.until(lambda: len(room.stored(room.second)) == 6, "the queued message and its reply")
    late.set_result(read_before)
    opened(room, room.second)
    assert said(room) == ["Two", "brief", "after it"]


def test_a_chat_that_is_chosen_after_a_branch_was_asked_for_stays(room):
    room.desk.branch_off(room.desk.messages[-1].id)
    room.desk.open_conversation(room.first)
    room.until(lambda: len(room.desk.conversations) == 3, "the branch in the list")
    answered(room)
    opened(room, room.first)
    answered(room)
    assert room.desk.conversation.id == room.first


def test_a_chat_that_is_chosen_after_a_hit_was_asked_for_stays(room):
    found = room.desk.messages[0].id
    room.desk.new_conversation()
    room.desk.open_message(room.second, found)
    room.desk.open_conversation(room.first)
    answered(room)
    opened(room, room.first)
    answered(room)
    assert room.desk.conversation.id == room.first


def test_two_hits_in_a_chat_that_is_not_open_end_at_the_second(room):
    found = [message.id for message in room.desk.messages]
    room.desk.new_conversation()
    for each in found:
        room.desk.open_message(room.second, each)
    room.until(lambda: room.of(events.MessageSought))
    answered(room)
    assert room.of(events.MessageSought)[-1].message_id == found[1]
    assert room.desk.conversation.id == room.second


def test_a_restored_chat_does_not_take_the_screen_from_one_chosen_since(room):
    room.desk.trash_conversation(room.first)
    room.desk.restore_conversation(room.first)
    room.desk.new_conversation()
    room.desk.save_draft("mine")
    room.until(lambda: len(room.desk.conversations) == 2)
    answered(room)
    assert draft(room) == "mine"
    assert room.desk.messages == ()


# --- paths --------------------------------------------------------------------------------------


def test_a_version_that_is_shown_late_does_not_replace_what_was_sent(room):
    reply = room.desk.messages[-1]
    room.desk.retry(reply.id)
    room.until(lambda: (r := room.ended_reply()) and r.id != reply.id)
    shown = room.desk.messages[-1].id
    room.desk.show_version(shown, -1)
    assert room.desk.send("More")
    answered(room)
    answered(room)
    assert [m.id for m in room.desk.messages][1] == shown
    room.until(room.ended_reply)
    assert said(room) == ["Two", "More"]
    assert [m.id for m in room.stored()] == [m.id for m in room.desk.messages]


def test_of_two_wishes_the_later_one_counts(room):
    first = room.desk.messages[-1].id
    room.desk.retry(first)
    room.until(lambda: (r := room.ended_reply()) and r.id != first)
    second = room.desk.messages[-1].id
    room.desk.show_version(second, -1)
    room.desk.go_to_message(first)
    room.until(lambda: room.desk.messages[-1].id == first)
    room.desk.show_version(first, 1)
    room.desk.open_conversation(room.first)
    opened(room, room.first)
    answered(room)
    assert said(room) == ["One"]


@pytest.mark.parametrize("act", ["edit", "trash", "insert", "undo"])
def test_what_is_sent_while_messages_change_goes_below_what_they_become(room, act):
    question, reply = room.desk.messages
    if act == "undo":
        room.desk.trash_message(reply.id)
        room.until(lambda: len(room.desk.messages) == 1)
        room.desk.undo(room.of(events.Noticed)[-1].undo)
    else:
        {
            "edit": lambda: room.desk.edit_message(question.id, "Edited"),
            "trash": lambda: room.desk.trash_message(reply.id),
            "insert": lambda: room.desk.insert_message(reply.id, Role.USER, "Inserted"),
        }[act]()
    assert room.desk.send("More")
    assert room.desk.attachments == ()
    room.until(lambda: said(room)[-1:] == ["More"] and room.ended_reply())
    above = {
        "edit": ["Edited", "Quick."],
        "trash": ["Two"],
        "insert": ["Two", "Quick.", "Inserted"],
        "undo": ["Two", "Quick."],
    }[act]
    shown = [m.content for m in room.desk.messages]
    assert shown == [*above, "More", "Quick."]
    assert [m.content for m in room.stored()] == shown
    assert room.desk.queued == ()
    assert room.store.load_conversation(room.second).result(20)[0].draft == ""


def test_a_second_change_before_the_first_is_shown_is_refused_in_words(room):
    question, reply = room.desk.messages
    room.desk.trash_message(question.id)
    saved: list[str] = []
    assert not room.desk.edit_message(reply.id, "lost?", saved=lambda: saved.append("lost?"))
    assert room.of(events.Noticed)[-1].sentence == CHANGING_SENTENCE
    room.until(lambda: room.desk.messages == ())
    answered(room)
    assert saved == []


# --- what goes along ----------------------------------------------------------------------------


def test_attachments_that_were_sent_while_the_draft_was_read_do_not_come_back(room):
    room.desk.attach_text("a long text " * 500)
    room.until(lambda: room.desk.attachments)
    room.desk.open_conversation(room.first)
    opened(room, room.first)
    room.desk.open_conversation(room.second)
    opened(room, room.second)  # and now its attachments are read
    assert room.desk.send("Look")
    answered(room)
    room.until(room.ended_reply)
    assert room.desk.attachments == ()
    assert [len(m.attachments) for m in room.stored() if m.content == "Look"] == [1]


def test_a_file_for_a_new_chat_that_was_left_is_refused_in_words(room, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("some notes")
    room.desk.new_conversation()
    room.desk.attach_files([str(file)])
    room.desk.open_conversation(room.first)
    room.desk._shelf.open_new()
    sentence = LEFT_SENTENCE.format(name="notes.txt")
    room.until(lambda: sentence in [each.sentence for each in room.of(events.Noticed)])


# --- the queue of a chat that is not on screen -------------------------------------------------


def begin_away(room: Any, load: Any) -> Any:
    """A reply grows in the second chat, with a message behind it; a new one is on screen. `load`
    answers from now on when a conversation is read; returns what did before."""
    assert room.desk.send("brief")
    room.until(room.growing)
    room.desk.queue_message("after it")
    room.desk.new_conversation()
    disk = room.desk._around.store._disk
    before, disk.load_conversation = disk.load_conversation, load
    return before


def test_a_queued_message_of_a_chat_that_is_trashed_before_it_is_sent_is_a_draft(room):
    late: Future[Any] = Future()
    load = begin_away(room, lambda *_args, **_options: late)
    room.until(lambda: room.second in room.desk._replies._waiting, "its turn")
    room.desk.trash_conversation(room.second)
    room.desk._around.store._disk.load_conversation = load
    late.set_result(load(room.second).result(20))
    answered(room)
    room.desk.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert draft(room) == "after it"
    assert said(room) == ["Two", "brief"]


def test_a_queued_message_whose_chat_cannot_be_read_is_held(room):
    load = begin_away(room, lambda *_args, **_options: load("nowhere"))
    room.until(lambda: room.second in room.desk._queue._held, "held")
    room.desk._around.store._disk.load_conversation = load
    room.desk.open_conversation(room.second)
    opened(room, room.second)
    last = room.of(events.QueueChanged)[-1]
    assert ([each.text for each in last.messages], last.is_held) == (["after it"], True)
