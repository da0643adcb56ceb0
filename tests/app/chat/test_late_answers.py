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
    return [m.content for m in room.desk.shelf.path if m.role is Role.USER]


def titles(room: Any) -> list[str]:
    return [each.title for each in room.desk.shelf.conversations]


def draft(room: Any) -> str:
    """What the composer was given last, and what was typed since."""
    return room.desk.shelf.draft


def opened(room: Any, conversation_id: str) -> None:
    room.until(lambda: room.desk.shelf.open.id == conversation_id, "the chat")


def answered(room: Any) -> None:
    """All that was asked of the store so far has been answered."""
    room.store.all_settings().result(20)
    room.pump()


@pytest.fixture
def room(make_room: Any) -> Any:
    """Two chats, the second one open."""
    made = make_room(SCRIPT).start_ready()
    made.ask("One")
    made.first = made.desk.shelf.open.id
    made.desk.shelf.open_new()
    made.ask("Two")
    made.second = made.desk.shelf.open.id
    return made


# --- the trash ----------------------------------------------------------------------------------


@pytest.mark.parametrize("are_many", [False, True])
def test_what_was_queued_and_typed_is_in_the_draft_of_a_chat_in_the_trash(room, are_many):
    assert room.desk.replies.send("slow")
    room.until(room.growing)
    room.desk.queue.add("queued")
    room.desk.shelf.save_draft("typed")
    if are_many:
        room.desk.folders.trash((room.first, room.second))
    else:
        room.desk.folders.trash_one(room.second)
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert room.of(events.ConversationOpened)[-1].conversation.draft == "queued\n\ntyped"
    assert room.desk.queue.of_open == ()
    assert room.store.load_conversation(room.second).result(20)[0].draft == "queued\n\ntyped"


def test_what_went_along_with_a_queued_message_is_with_the_draft_again(room):
    assert room.desk.replies.send("slow")
    room.until(room.growing)
    room.desk.attachments.add_paste("a long text " * 500)
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.queue.add("queued")
    room.desk.folders.trash_one(room.second)
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    room.until(lambda: [a.name for a in room.desk.attachments.of_open] == ["Pasted text"])


def test_what_is_typed_into_a_queued_message_is_kept_as_it_is_typed(room):
    assert room.desk.replies.send("slow")
    room.until(room.growing)
    room.desk.queue.add("first")
    room.desk.queue.add("second")
    one, _two = room.desk.queue.of_open
    room.desk.queue.edit(one.id)
    room.desk.queue.type_into(one.id, "first and more")
    room.desk.queue.type_into(one.id, " ")
    room.until(lambda: room.desk.shelf.open.draft == "first and more\n\nsecond")
    room.desk.queue.change(one.id, "first")
    assert [each.text for each in room.desk.queue.of_open] == ["first", "second"]
    room.desk.queue.type_into(one.id, "first of all")
    room.desk.folders.trash_one(room.second)
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert draft(room) == "first of all\n\nsecond"


@pytest.mark.parametrize("are_many", [False, True])
def test_what_is_typed_behind_a_trashed_chat_begins_a_new_one(room, are_many):
    room.desk.shelf.save_draft("old")
    if are_many:
        room.desk.shelf.open_new()
        room.ask("Three")
        room.desk.folders.trash((room.second, room.desk.shelf.open.id))
    else:
        room.desk.folders.trash_one(room.second)
    room.desk.shelf.save_draft("new words")
    room.desk.shelf.flush_draft()
    answered(room)
    assert room.desk.shelf.open.id not in (room.first, room.second)
    assert room.desk.shelf.open.draft == draft(room) == "new words"
    assert room.second not in [each.id for each in room.desk.shelf.conversations]
    stored = room.store.list_trash().result(20)
    assert {each.id: each.draft for each in stored}[room.second] == "old"
    room.desk.replies.send("Three")
    room.until(room.ended_reply)
    assert said(room) == ["Three"]


def test_behind_a_trashed_chat_its_neighbour_is_shown(room):
    room.desk.folders.trash_one(room.second)
    assert room.desk.shelf.path == ()
    opened(room, room.first)
    assert said(room) == ["One"]


def test_a_chat_that_is_trashed_while_it_is_read_is_not_opened(room):
    room.desk.shelf.open_stored(room.first)
    room.desk.folders.trash_one(room.first)
    answered(room)
    assert room.desk.shelf.open.id == room.second


def test_a_list_that_was_asked_for_before_brings_nothing_back_from_the_trash(room):
    listed = room.store.list_conversations()
    room.desk.folders.trash_one(room.first)
    room.desk.shelf.show_list(listed.result(20))
    assert titles(room) == ["Two"]
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    assert sorted(titles(room)) == ["One", "Two"]


def test_a_folder_that_is_deleted_while_the_list_is_read_is_gone(room):
    folder = room.desk.folders.create("Old")
    room.store.list_folders().result(20)
    room.desk.folders.read()
    room.desk.folders.delete(folder)
    answered(room)
    assert room.desk.folders.all == ()
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    room.until(lambda: [each.name for each in room.desk.folders.all] == ["Old"])


def test_presets_that_are_changed_while_the_list_is_read_stay_so(room):
    room.desk.presets.list()
    room.until(lambda: room.of(events.PresetsListed))
    gone, kept = room.desk.presets.all[:2]
    room.desk.presets.read_again()
    room.desk.presets.delete(gone.id)
    room.desk.presets.rename(kept.id, "Mine")
    made_id = room.desk.presets.create("Made")
    answered(room)
    names = {each.id: each.name for each in room.desk.presets.all}
    assert gone.id not in names
    assert (names[kept.id], names[made_id]) == ("Mine", "Made")


# --- opening ------------------------------------------------------------------------------------


def test_the_open_chat_opened_again_keeps_what_was_typed_since(room):
    room.desk.shelf.save_draft("bef")
    room.desk.shelf.open_stored(room.second)
    room.desk.shelf.save_draft("before and after")
    answered(room)
    assert draft(room) == "before and after"
    last = room.of(events.ConversationOpened)[-1]
    assert (last.conversation.draft, [m.content for m in last.messages]) == (
        "bef",
        ["Two", "Quick."],
    )


def test_the_open_chat_opened_again_keeps_what_was_sent_since(room):
    room.desk.shelf.open_stored(room.second)
    assert room.desk.replies.send("More")
    answered(room)
    room.until(room.ended_reply)
    assert said(room) == ["Two", "More"]
    assert [m.content for m in room.stored()] == [m.content for m in room.desk.shelf.path]


def test_a_chat_that_was_left_and_opened_again_has_its_draft(room):
    """Also while the database takes no writes: the one here is known best."""
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    stale = room.store.load_conversation(room.first).result(20)
    room.desk.shelf.save_draft("typed here")
    room.desk.shelf.open_stored(room.second)
    opened(room, room.second)
    late: Future[Any] = Future()
    late.set_result(stale)
    room.desk.around.store._disk.load_conversation = lambda *_args, **_options: late
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    assert draft(room) == "typed here"


def test_a_chat_to_which_a_queued_message_was_sent_while_it_was_read_shows_it(room):
    late: Future[Any] = Future()

    def answer_the_first_late(*args: Any, newest: int | None = None) -> Any:
        if newest is None or late.done():
            return load(*args, newest=newest)
        return late

    load = begin_away(room, answer_the_first_late)
    room.desk.shelf.open_stored(room.second)
    read_before = load(room.second).result(20)
    room.until(lambda: len(room.stored(room.second)) == 6, "the queued message and its reply")
    late.set_result(read_before)
    opened(room, room.second)
    assert said(room) == ["Two", "brief", "after it"]


def test_a_chat_that_is_chosen_after_a_branch_was_asked_for_stays(room):
    room.desk.tree.branch_off(room.desk.shelf.path[-1].id)
    room.desk.shelf.open_stored(room.first)
    room.until(lambda: len(room.desk.shelf.conversations) == 3, "the branch in the list")
    answered(room)
    opened(room, room.first)
    answered(room)
    assert room.desk.shelf.open.id == room.first


def test_a_chat_that_is_chosen_after_a_hit_was_asked_for_stays(room):
    found = room.desk.shelf.path[0].id
    room.desk.shelf.open_new()
    room.desk.searching.open_at(room.second, found)
    room.desk.shelf.open_stored(room.first)
    answered(room)
    opened(room, room.first)
    answered(room)
    assert room.desk.shelf.open.id == room.first


def test_two_hits_in_a_chat_that_is_not_open_end_at_the_second(room):
    found = [message.id for message in room.desk.shelf.path]
    room.desk.shelf.open_new()
    for each in found:
        room.desk.searching.open_at(room.second, each)
    room.until(lambda: room.of(events.MessageSought))
    answered(room)
    assert room.of(events.MessageSought)[-1].message_id == found[1]
    assert room.desk.shelf.open.id == room.second


def test_a_restored_chat_does_not_take_the_screen_from_one_chosen_since(room):
    room.desk.folders.trash_one(room.first)
    room.desk.shelf.restore(room.first)
    room.desk.shelf.open_new()
    room.desk.shelf.save_draft("mine")
    room.until(lambda: len(room.desk.shelf.conversations) == 2)
    answered(room)
    assert draft(room) == "mine"
    assert room.desk.shelf.path == ()


# --- paths --------------------------------------------------------------------------------------


def test_a_version_that_is_shown_late_does_not_replace_what_was_sent(room):
    reply = room.desk.shelf.path[-1]
    room.desk.replies.answer(reply.id)
    room.until(lambda: (r := room.ended_reply()) and r.id != reply.id)
    shown = room.desk.shelf.path[-1].id
    room.desk.paths.show_version(shown, -1)
    assert room.desk.replies.send("More")
    answered(room)
    answered(room)
    assert [m.id for m in room.desk.shelf.path][1] == shown
    room.until(room.ended_reply)
    assert said(room) == ["Two", "More"]
    assert [m.id for m in room.stored()] == [m.id for m in room.desk.shelf.path]


def test_of_two_wishes_the_later_one_counts(room):
    first = room.desk.shelf.path[-1].id
    room.desk.replies.answer(first)
    room.until(lambda: (r := room.ended_reply()) and r.id != first)
    second = room.desk.shelf.path[-1].id
    room.desk.paths.show_version(second, -1)
    room.desk.tree.go_to(first)
    room.until(lambda: room.desk.shelf.path[-1].id == first)
    room.desk.paths.show_version(first, 1)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    answered(room)
    assert said(room) == ["One"]


@pytest.mark.parametrize("act", ["edit", "trash", "insert", "undo"])
def test_what_is_sent_while_messages_change_goes_below_what_they_become(room, act):
    question, reply = room.desk.shelf.path
    if act == "undo":
        room.desk.tree.trash(reply.id)
        room.until(lambda: len(room.desk.shelf.path) == 1)
        room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    else:
        {
            "edit": lambda: room.desk.tree.edit(question.id, "Edited"),
            "trash": lambda: room.desk.tree.trash(reply.id),
            "insert": lambda: room.desk.tree.insert(reply.id, Role.USER, "Inserted"),
        }[act]()
    assert room.desk.replies.send("More")
    assert room.desk.attachments.of_open == ()
    room.until(lambda: said(room)[-1:] == ["More"] and room.ended_reply())
    above = {
        "edit": ["Edited", "Quick."],
        "trash": ["Two"],
        "insert": ["Two", "Quick.", "Inserted"],
        "undo": ["Two", "Quick."],
    }[act]
    shown = [m.content for m in room.desk.shelf.path]
    assert shown == [*above, "More", "Quick."]
    assert [m.content for m in room.stored()] == shown
    assert room.desk.queue.of_open == ()
    assert room.store.load_conversation(room.second).result(20)[0].draft == ""


def test_a_second_change_before_the_first_is_shown_is_refused_in_words(room):
    question, reply = room.desk.shelf.path
    room.desk.tree.trash(question.id)
    saved: list[str] = []
    assert not room.desk.tree.edit(reply.id, "lost?", saved=lambda: saved.append("lost?"))
    assert room.of(events.Noticed)[-1].sentence == CHANGING_SENTENCE
    room.until(lambda: room.desk.shelf.path == ())
    answered(room)
    assert saved == []


# --- what goes along ----------------------------------------------------------------------------


def test_attachments_that_were_sent_while_the_draft_was_read_do_not_come_back(room):
    room.desk.attachments.add_paste("a long text " * 500)
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    room.desk.shelf.open_stored(room.second)
    opened(room, room.second)  # and now its attachments are read
    assert room.desk.replies.send("Look")
    answered(room)
    room.until(room.ended_reply)
    assert room.desk.attachments.of_open == ()
    assert [len(m.attachments) for m in room.stored() if m.content == "Look"] == [1]


def test_a_file_for_a_new_chat_that_was_left_is_refused_in_words(room, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("some notes")
    room.desk.shelf.open_new()
    room.desk.attachments.add_files([str(file)])
    room.desk.shelf.open_stored(room.first)
    room.desk.shelf.open_new()
    sentence = LEFT_SENTENCE.format(name="notes.txt")
    room.until(lambda: sentence in [each.sentence for each in room.of(events.Noticed)])


# --- the queue of a chat that is not on screen -------------------------------------------------


def begin_away(room: Any, load: Any) -> Any:
    """A reply grows in the second chat, with a message behind it; a new one is on screen. `load`
    answers from now on when a conversation is read; returns what did before."""
    assert room.desk.replies.send("brief")
    room.until(room.growing)
    room.desk.queue.add("after it")
    room.desk.shelf.open_new()
    disk = room.desk.around.store._disk
    before, disk.load_conversation = disk.load_conversation, load
    return before


def test_a_queued_message_of_a_chat_that_is_trashed_before_it_is_sent_is_a_draft(room):
    late: Future[Any] = Future()
    load = begin_away(room, lambda *_args, **_options: late)
    room.until(lambda: room.second in room.desk.replies._waiting, "its turn")
    room.desk.folders.trash_one(room.second)
    room.desk.around.store._disk.load_conversation = load
    late.set_result(load(room.second).result(20))
    answered(room)
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    opened(room, room.second)
    assert draft(room) == "after it"
    assert said(room) == ["Two", "brief"]


def test_a_queued_message_whose_chat_cannot_be_read_is_held(room):
    load = begin_away(room, lambda *_args, **_options: load("nowhere"))
    room.until(lambda: room.second in room.desk.queue._held, "held")
    room.desk.around.store._disk.load_conversation = load
    room.desk.shelf.open_stored(room.second)
    opened(room, room.second)
    last = room.of(events.QueueChanged)[-1]
    assert ([each.text for each in last.messages], last.is_held) == (["after it"], True)
