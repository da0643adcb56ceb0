"""Answers of the store that come late: somebody has gone on meanwhile, and what they typed, sent
or threw away counts.

Nothing that was posted is run until the test says so, so each answer here is as late as can be.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from app.chat import events
from app.chat.alarms import Alarms
from app.chat.attachments.attachments import LEFT_SENTENCE
from app.chat.conversations import shelf
from app.chat.replies.replies import CHANGING_SENTENCE
from app.chat.surroundings import Surroundings
from models.records import Role
from models.store.errors import ClosedError

SCRIPT: dict[str, Any] = {
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "brief", "tokens": [{"text": "brief ", "ms": 5, "repeat": 50}]},
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


def memory_of(room: Any) -> Any:
    """Where the temporary chat is kept."""
    return room.desk.temporary.stores._memories[room.desk.shelf.temporary_id]


def hold(room: Any, question: str) -> Any:
    """The store answers this question late, once: when what is returned is called."""
    disk, late = room.desk.around.store._disk, Future()
    ask = getattr(disk, question)
    answers: list[Future[Any]] = []

    def asked(*args: Any, **named: Any) -> Future[Any]:
        setattr(disk, question, ask)
        answers.append(ask(*args, **named))
        return late

    def give() -> None:
        late.set_result(answers[0].result(20))
        room.pump()

    setattr(disk, question, asked)
    return give


def hold_engine(room: Any) -> Any:
    """What is asked of the engine beside replies is answered when what is returned is called."""
    questions, held = room.desk.questions, []
    take, questions.take_ending = questions.take_ending, held.append

    def give() -> None:
        room.until(lambda: len(held) == len(questions._asked) > 0, "the engine's answers")
        questions.take_ending = take
        for ending in held:
            take(ending)

    return give


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


def coming(room: Any) -> bool:
    """What the composer was told last."""
    return room.of(events.AttachmentsChanged)[-1].is_coming


def test_what_is_given_is_said_to_be_coming_until_it_is_there(room, tmp_path):
    file, export = tmp_path / "notes.txt", tmp_path / "notes.json"
    file.write_text("some notes")
    export.write_text("[1, 2]")
    for n_held, give in enumerate(
        (
            lambda: room.desk.attachments.add_paste("a long text " * 500),
            lambda: room.desk.attachments.add_files([str(file)]),
            lambda: room.desk.exchange.take_files([str(export)]),
        )
    ):
        assert not coming(room)
        give()
        assert coming(room)
        room.until(lambda: not coming(room), "it")
        assert len(room.of(events.AttachmentsChanged)[-1].attachments) == n_held + 1
        assert not room.of(events.AttachmentsChanged)[-1].is_refused


def test_what_does_not_come_after_all_is_said_to_be_refused(room, tmp_path):
    room.desk.attachments.add_files([str(tmp_path / "gone.txt")])
    assert coming(room)
    room.until(lambda: not coming(room), "the refusal")
    assert room.of(events.AttachmentsChanged)[-1].is_refused

    late: Future[Any] = Future()
    room.desk.around.store._disk.create_attachment = lambda *_: late
    room.desk.attachments.add_paste("a long text " * 500)
    assert coming(room)
    late.set_exception(ClosedError("The disk is full."))
    room.until(lambda: not coming(room), "the refusal")
    assert room.of(events.AttachmentsChanged)[-1].is_refused
    assert room.of(events.Noticed)[-1].sentence == "The disk is full."


def test_the_draft_of_a_chat_that_is_opened_is_coming_until_it_has_been_read(room):
    room.desk.attachments.add_paste("a long text " * 500)
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.attachments._drafts.clear()  # as after a start
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    answered(room)
    late = hold(room, "list_attachments")
    room.desk.shelf.open_stored(room.second)
    opened(room, room.second)
    assert coming(room)
    late()
    assert not coming(room)
    assert len(room.of(events.AttachmentsChanged)[-1].attachments) == 1


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


# --- one way for all ----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["a result", OSError("The disk is gone.")])
@pytest.mark.parametrize("moves", ["nothing", "what was asked for", "the app closes"])
def test_an_answer_is_dropped_where_it_is_so_no_longer_what_it_was_asked_for(answer, moves):
    posted: list[Any] = []
    told: list[Any] = []
    around = Surroundings(posted.append, told.append, Alarms(posted.append))
    is_so, asked = [True], Future()
    around.when_done(asked, told.append, told.append, still=lambda: is_so[0])
    around.when_done(asked, told.append, still=lambda: is_so[0])
    if isinstance(answer, str):
        asked.set_result(answer)
    else:
        asked.set_exception(answer)
    is_so[0] = moves != "what was asked for"
    around.is_closing = moves == "the app closes"
    for give in posted:
        give()
    around.alarms.close()
    if moves != "nothing":
        assert told == []
    elif isinstance(answer, str):
        assert told == [answer, answer]
    else:
        assert told == [str(answer), events.Noticed("error", str(answer))]


@pytest.mark.parametrize("act", ["restore", "restore many"])
def test_a_chat_that_was_restored_and_thrown_away_again_stays_in_the_trash(room, act):
    restore = {
        "restore": room.desk.shelf.restore,
        "restore many": lambda chat: room.desk.folders.restore([chat]),
    }[act]
    room.desk.folders.trash_one(room.first)
    answered(room)
    late = hold(room, "list_trash")
    restore(room.first)
    restore(room.first)
    room.until(lambda: room.desk.shelf.is_stored(room.first), "back in the list")
    n_restored = []
    disk = room.desk.around.store._disk
    disk.restore_conversation = lambda *args: n_restored.append(args)
    disk.change_conversations = lambda *args: n_restored.append(args)
    late()
    answered(room)
    assert n_restored == []


def test_a_chat_that_cannot_be_read_is_no_news_where_another_one_is_wanted(room):
    late: Future[Any] = Future()
    disk = room.desk.around.store._disk
    load, disk.load_conversation = disk.load_conversation, lambda *_args, **_named: late
    room.desk.shelf.open_stored(room.first)
    disk.load_conversation = load
    room.desk.shelf.open_new()
    late.set_exception(OSError("It cannot be read."))
    answered(room)
    assert room.of(events.Noticed) == []


def test_the_beginning_of_a_chat_that_was_left_and_opened_again_comes_once(room, monkeypatch):
    monkeypatch.setattr(shelf, "FIRST_PART", 1)
    monkeypatch.setattr(shelf, "PART", 1)
    room.ask("Three")
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    late = hold(room, "load_above")
    room.desk.shelf.open_stored(room.second)
    opened(room, room.second)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    assert room.desk.shelf.path[0].content != "Two"
    late()
    answered(room)
    assert room.desk.shelf.path[0].conversation_id == room.first
    room.desk.shelf.open_stored(room.second)
    room.until(lambda: len(room.desk.shelf.path) == 4, "all of it")
    answered(room)
    assert said(room) == ["Two", "Three"]


def test_a_branch_of_another_chat_that_is_restored_does_not_take_the_screen(room):
    reply = room.desk.shelf.path[-1]
    room.desk.tree.trash(reply.id)
    room.until(lambda: len(room.desk.shelf.path) == 1)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    late = hold(room, "restore_branch")
    room.desk.tree.restore(reply.id, room.second)
    room.desk.shelf.open_new()
    late()
    answered(room)
    assert room.desk.shelf.open.id not in (room.first, room.second)
    assert [m.id for m in room.stored(room.second)][-1] == reply.id


@pytest.mark.parametrize("asks", ["read_tree", "read_versions"])
def test_the_map_and_the_versions_of_a_chat_that_was_left_are_told_to_nobody(room, asks):
    kind, question, asked = {
        "read_tree": (events.TreeRead, "load_tree", ()),
        "read_versions": (events.VersionsRead, "siblings", (room.desk.shelf.path[-1].id,)),
    }[asks]
    late = hold(room, question)
    getattr(room.desk.tree, asks)(*asked)
    room.desk.shelf.open_new()
    late()
    answered(room)
    assert room.of(kind) == []


def test_a_reply_of_a_chat_that_was_left_is_not_branched(room):
    reply = room.desk.shelf.path[-1]
    late = hold(room, "load_trace")
    room.desk.branches.at(reply.id, 0, 3)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    late()
    answered(room)
    assert len(room.store.siblings(reply.id).result(20)) == 1
    assert room.of(events.Noticed) == []


def test_a_reply_of_a_chat_that_was_left_is_not_branched_with_a_text(room):
    reply = room.desk.shelf.path[-1]
    late = hold_engine(room)
    room.desk.branches.at_text(reply.id, 0, "Slow.")
    room.desk.shelf.open_new()
    late()
    answered(room)
    assert len(room.store.siblings(reply.id).result(20)) == 1
    assert room.of(events.Noticed) == []


@pytest.mark.parametrize("writes", ["its message", "its reply"])
def test_a_temporary_chat_that_ends_while_something_of_it_is_written_is_no_failure(room, writes):
    room.desk.temporary.open()
    memory, late = memory_of(room), Future()
    append = memory.append_message
    role = Role.USER if writes == "its message" else Role.ASSISTANT

    def answer_late(message: Any, **named: Any) -> Any:
        return late if message.role is role else append(message, **named)

    memory.append_message = answer_late
    assert room.desk.replies.send("slow")
    if writes == "its reply":
        room.until(lambda: room.desk.growing.is_any, "the reply's row is on its way")
    ended: list[Any] = []
    room.desk.growing.end = lambda reply, _ending: ended.append(reply)
    room.desk.temporary.end()
    late.set_exception(ClosedError("It has ended."))
    answered(room)
    assert (room.of(events.Noticed), ended) == ([], [])
    assert (room.desk.shelf.path, room.desk.shelf.draft) == ((), "")
    assert not room.desk.growing.is_any


def test_what_was_used_last_is_not_loaded_where_somebody_wanted_none(room, make_room):
    path = room.desk.loader.path
    room.close()
    again = make_room(SCRIPT, gguf=None)
    again.desk.start()
    again.desk.loader.unload()  # nothing of the store has been posted on yet
    again.until(lambda: again.desk.shelf.conversations, "the store")
    answered(again)
    assert path
    assert again.desk.loader.path == ""


def test_a_text_for_a_temporary_chat_that_has_ended_is_nobodys(room):
    room.desk.temporary.open()
    room.ask("brief")
    chat, late = room.desk.shelf.open.id, Future()
    memory_of(room).create_attachment = lambda *_: late
    assert room.desk.attachments.add_paste("a long text " * 500)
    room.desk.temporary.end()
    late.set_exception(ClosedError("It has ended."))
    answered(room)
    assert room.of(events.Noticed) == []
    assert room.desk.attachments.of_draft(chat) == ()


def with_two_versions(room: Any) -> list[str]:
    """The replies of the open chat, the older one first."""
    first = room.desk.shelf.path[-1].id
    room.desk.replies.answer(first)
    room.until(lambda: (r := room.ended_reply()) and r.id != first)
    return [first, room.desk.shelf.path[-1].id]


def test_a_message_that_is_moved_as_it_is_sent_is_shown_and_answered_where_it_is(room):
    """What it was to hang on was deleted, by another way than this desk's."""
    first, second = with_two_versions(room)
    room.store.trash_branch(second).result(20)
    assert room.desk.replies.send("More")
    room.until(lambda: said(room)[-1:] == ["More"] and room.ended_reply())
    room.until(lambda: not room.desk.replies.is_generating)
    assert [m.id for m in room.desk.shelf.path][1] == first
    assert [m.id for m in room.stored()] == [m.id for m in room.desk.shelf.path]


@pytest.mark.parametrize("asks", ["send", "another version", "several"])
def test_a_reply_that_waited_for_weights_does_not_take_the_screen_from_a_version_shown_since(
    room, asks
):
    first, second = with_two_versions(room)
    path = room.desk.loader.path
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.loaded is None, "no weights")
    room.desk.loader.load_again = lambda: True  # they come when the test says so
    {
        "send": lambda: room.desk.replies.send("More"),
        "another version": lambda: room.desk.replies.answer(second),
        "several": lambda: room.desk.replies.ask_several(second, [{"seed": 1}, {"seed": 2}]),
    }[asks]()
    if asks == "send":
        room.until(lambda: room.desk.replies.is_waiting, "it is stored")
    room.desk.paths.show_version(second, -1)
    room.until(lambda: room.desk.shelf.path[-1].id == first, "the older version")
    room.desk.loader.load(path)
    room.until(lambda: room.desk.growing.is_any, "the reply")
    room.until(lambda: not room.desk.replies.is_generating, "its end")
    answered(room)
    assert [m.id for m in room.desk.shelf.path][1:] == [first]
    assert room.of(events.AnswersBegan) == []
    n_below = len(room.store.load_tree(room.second).result(20))
    assert n_below == {"send": 5, "another version": 4, "several": 5}[asks]


@pytest.mark.parametrize("fails", [False, True])
def test_a_reply_whose_row_comes_when_its_temporary_chat_has_ended_is_nobodys(
    room, monkeypatch, fails
):
    room.desk.temporary.open()
    room.ask("brief")
    memory, late = memory_of(room), Future()
    append, answers, asked = memory.append_message, [], []

    def held(message: Any, **named: Any) -> Future[Any]:
        if message.role is Role.USER:
            return append(message, **named)
        answers.append(append(message, **named))
        return late

    memory.append_message = held
    monkeypatch.setattr(room.desk._engine, "generate", asked.append)
    assert room.desk.replies.send("More")
    room.until(lambda: answers, "the reply's row")
    chat = room.desk.shelf.open.id
    assert room.desk.replies.is_busy(chat)
    room.desk.temporary.end()
    n_told, placed = len(room.events), []
    monkeypatch.setattr(room.desk.shelf, "place", placed.append)
    if fails:
        late.set_exception(ClosedError("It has ended."))
    else:
        late.set_result(answers[0].result(20))
    answered(room)
    assert (asked, placed) == ([], [])
    assert not room.desk.replies.is_busy(chat)
    told = {type(event) for event in room.events[n_told:]}
    assert not told & {events.MessageChanged, events.Noticed, events.ReplyingChanged}


# --- what the engine counts ---------------------------------------------------------------------


def replace_weights(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ones are loaded from now on; what was asked of those before is answered still."""
    other = msgspec.structs.replace(room.desk.loader.loaded, fast_hash="other")
    monkeypatch.setattr(type(room.desk.loader), "loaded", property(lambda _self: other))


def test_the_words_of_weights_that_went_are_not_those_of_the_loaded_ones(room, monkeypatch):
    before, late = room.desk.loader.loaded.fast_hash, hold_engine(room)
    room.desk.words.read()
    replace_weights(room, monkeypatch)
    late()
    assert room.desk.words.of("other") is None
    assert room.desk.words.of(before) is not None


def test_the_words_of_other_weights_are_asked_for_while_the_first_are_on_their_way(
    room, monkeypatch
):
    before, late = room.desk.loader.loaded.fast_hash, hold_engine(room)
    room.desk.words.read()
    replace_weights(room, monkeypatch)
    for _ in range(2):
        room.desk.words.read()
    assert len(room.desk.questions._asked) == 2
    late()
    assert [each.weights_hash for each in room.of(events.VocabularyRead)] == ["other"]
    assert room.desk.words.of(before) is None
    assert room.desk.words.of("other") is not None


def test_words_that_could_not_be_read_are_asked_for_again_and_others_still_come(room, monkeypatch):
    asked: list[Any] = []

    def ask(_command: Any, _kind: Any, _then: Any, failed: Any, *, still: Any) -> None:
        asked.append(lambda: failed("No.") if still() else None)

    monkeypatch.setattr(room.desk.questions, "ask", ask)
    room.desk.words.read()
    replace_weights(room, monkeypatch)
    room.desk.words.read()
    asked[0]()
    room.desk.words.read()
    assert len(asked) == 2, "those of the loaded ones are on their way"
    asked[1]()
    room.desk.words.read()
    assert len(asked) == 3


def test_the_count_of_a_chat_that_was_left_is_not_that_of_the_open_one(room):
    late = hold_engine(room)
    room.desk.meter._count()
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    before = len(room.of(events.ContextCounted))
    room.desk.around.alarms.cancel("count")
    late()
    assert len(room.of(events.ContextCounted)) == before
    assert room.desk.meter.last is None


def test_the_count_of_a_text_that_is_read_otherwise_by_now_is_not_its_own(room, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_bytes(("Größe " * 300).encode("cp1252"))
    late = hold_engine(room)
    room.desk.attachments.add_files([str(file)])
    room.until(lambda: room.desk.attachments.of_open)
    (attachment,) = room.desk.attachments.of_open
    room.until(lambda: not room.of(events.AttachmentsChanged)[-1].is_coming)
    room.desk.attachments.read_as(attachment.id, "utf-16-le")
    room.until(lambda: room.desk.attachments.of_open[0].text != attachment.text)
    counts: list[int | None] = []
    tell = room.desk.attachments._tell
    room.desk.attachments._tell = lambda chat: (
        counts.append(room.desk.attachments.of_open[0].tokens),
        tell(chat),
    )
    late()
    room.until(lambda: not room.desk.attachments._is_counting, "counted anew")
    answered(room)
    (stored,) = room.store.list_attachments(room.second).result(20)
    assert set(counts) == {stored.tokens}, "never the number of the other text"


# --- files that are read beside the window ------------------------------------------------------


def test_files_that_were_dropped_on_a_chat_that_was_left_are_its_own(room, tmp_path, monkeypatch):
    """Where one of them may be an export, they are looked into first, which may take a while."""
    goes_on = threading.Event()
    monkeypatch.setattr(
        "app.chat.exchange.recognising.is_import", lambda _path: not goes_on.wait(20)
    )
    (tmp_path / "some.json").write_text("[]")
    (tmp_path / "notes.txt").write_text("some notes")
    paths = [str(tmp_path / name) for name in ("some.json", "notes.txt")]
    room.desk.exchange.take_files(paths)
    room.desk.shelf.open_stored(room.first)
    opened(room, room.first)
    goes_on.set()
    room.until(
        lambda: sum(len(room.desk.attachments.of_draft(c)) for c in (room.first, room.second)) == 2,
        "both files",
    )
    answered(room)
    assert room.desk.attachments.of_draft(room.first) == ()


def test_of_two_folders_for_downloads_the_one_that_was_chosen_last_counts(
    room, tmp_path, monkeypatch
):
    """The first one lies on a network that takes its time."""
    goes_on = threading.Event()

    def trouble(folder: Any, **_options: Any) -> str:
        if folder.name == "slow":
            goes_on.wait(20)
        return ""

    monkeypatch.setattr("app.hub.downloads.space.folder_trouble", trouble)
    told: list[str] = []
    room.desk.downloads.set_folder(str(tmp_path / "slow"), lambda _: told.append("slow"))
    (slow,) = (t for t in threading.enumerate() if t.name == "download-folder")
    room.desk.downloads.set_folder(str(tmp_path / "quick"), lambda _: told.append("quick"))
    room.until(lambda: told, "the second one")
    goes_on.set()
    slow.join(20)
    answered(room)
    assert told == ["quick"]
    assert room.desk.downloads.folder == tmp_path / "quick"
