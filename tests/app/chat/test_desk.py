"""Sending, streaming, stopping, retrying: the desk with a real store and a scripted engine."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

import pytest

from app.chat import events
from app.chat.settings.sampler_links import stages_of_reply
from app.engine.protocol.messages import ThreadsChanged
from app.engine.protocol.stages import Dist
from models.records import MessageState, Role

LONG = "again " * 10


def slow(ms: float = 5) -> dict[str, Any]:
    return {
        "replies": [{"tokens": [{"text": "again ", "ms": ms, "repeat": 4000}]}],
    }


def dying(happening: dict[str, Any]) -> dict[str, Any]:
    """A first reply that ends in a death, then a good one."""
    return {
        "replies": [
            {"tokens": [{"text": "half ", "ms": 1, "repeat": 20}, happening], "match": "die"},
            {"text": "All is well."},
        ],
    }


def test_a_message_is_answered_and_kept(make_room):
    room = make_room().start_ready()
    reply = room.ask("What is the capital of France?")

    assert reply.content == "Paris is the capital of France."
    assert reply.state is MessageState.COMPLETE
    assert reply.counts.generated
    assert reply.counts.prompt_tokens
    assert reply.seed is not None
    assert reply.token_ids
    user, kept = room.stored()
    assert (user.role, user.content) == (Role.USER, "What is the capital of France?")
    assert kept.content == reply.content
    assert kept.state is MessageState.COMPLETE
    assert kept.counts == reply.counts
    assert kept.settings["temperature"] == room.desk.settings.now.temperature
    assert kept.weights_name == reply.weights_name != ""


def test_events_tell_the_reply_from_begin_to_end(make_room):
    room = make_room().start_ready()
    room.ask("Hello")

    added = [event.message.role for event in room.of(events.MessageAdded)]
    assert added == [Role.USER, Role.ASSISTANT]
    assert "".join(event.text for event in room.of(events.TextArrived)) == (
        "Paris is the capital of France."
    )
    assert len(room.of(events.TokenRecorded)) >= 3
    figures = room.of(events.StatusFigures)[-1]
    assert figures.generated == len(room.of(events.TokenRecorded))
    assert figures.first_token_s is not None
    assert figures.context_size > 0
    last = room.of(events.MessageChanged)[-1].message
    assert last.state is MessageState.COMPLETE


def test_views_that_ask_at_each_event_see_when_send_is_stop(make_room):
    room = make_room().start_ready()
    seen: list[tuple[str, bool]] = []
    emit = room.desk.around.emit

    def listen(event: events.Event) -> None:
        if isinstance(event, events.MessageAdded | events.MessageChanged | events.SendQueued):
            seen.append((type(event).__name__, room.desk.replies.is_generating))
        emit(event)

    room.desk.around.emit = listen
    room.ask("Hello")
    assert seen == [
        ("MessageAdded", True),
        ("MessageAdded", True),
        ("MessageChanged", True),
        ("MessageChanged", False),
    ]


def test_a_reply_that_grows_says_what_it_is_drawn_with(make_room):
    tokens = [{"text": "again ", "ms": 5, "repeat": 4000}]
    room = make_room({"replies": [{"tokens": tokens}]}).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(2), "some text")
    (told,) = room.of(events.MessageChanged)
    assert told.message.settings == room.desk.shelf.path[-1].settings
    assert stages_of_reply(told.message.settings)[-1] == Dist()
    room.desk.replies.stop()
    room.until(room.ended_reply, "the end")
    assert stages_of_reply(told.message.settings) == stages_of_reply(
        room.desk.shelf.path[-1].settings
    )


def test_the_chats_that_reply_are_told_and_told_once(make_room):
    room = make_room().start_ready()
    room.ask("Hello")
    own = room.desk.shelf.open.id
    told = [event.conversation_ids for event in room.of(events.ReplyingChanged)]
    assert told == [frozenset({own}), frozenset()]


def test_first_message_names_the_conversation_until_the_user_does(make_room):
    room = make_room().start_ready()
    room.ask("Tell me about whales")
    assert room.desk.shelf.open.title == "Tell me about whales"
    assert room.desk.shelf.conversations[0].title == "Tell me about whales"

    room.desk.shelf.rename(room.desk.shelf.open.id, "  Whales \n of the sea ")
    assert room.desk.shelf.open.title == "Whales of the sea"
    assert room.desk.shelf.open.is_titled_by_user
    room.desk.shelf.rename(room.desk.shelf.open.id, "   ")
    assert room.desk.shelf.open.title == "Whales of the sea"


def test_message_is_on_disk_before_the_engine_sees_it(make_room, monkeypatch):
    room = make_room().start_ready()
    seen: list[list[str]] = []
    engine = room.desk._engine
    generate = engine.generate

    def spy(request):
        seen.append([message.state.value for message in room.stored()])
        return generate(request)

    monkeypatch.setattr(engine, "generate", spy)
    room.ask("Hello")
    assert seen == [["complete", "streaming"]]


def test_send_waits_for_weights_and_is_then_answered(make_room):
    room = make_room({"load": {"ms": 300}, "replies": [{"text": "Here."}]}).start()
    assert room.desk.replies.send("Are you there?")
    room.until(lambda: room.of(events.SendQueued), "queued")

    assert room.desk.replies.is_generating
    assert [m.role for m in room.stored()] == [Role.USER]
    reply = room.until(room.ended_reply)
    assert reply.content == "Here."
    assert [event.waiting for event in room.of(events.SendQueued)] == [True, False]


def test_message_sent_before_the_start_is_answered(make_room):
    room = make_room()
    assert room.desk.replies.send("Early bird")
    room.start()
    assert room.until(room.ended_reply).content == "Paris is the capital of France."
    assert next(m.content for m in room.stored()) == "Early bird"


def test_stop_forgets_what_waits_but_keeps_the_message(make_room):
    room = make_room({"load": {"ms": 300}, "replies": [{"text": "Here."}]}).start()
    room.desk.replies.send("Are you there?")
    room.until(lambda: room.of(events.SendQueued))
    room.desk.replies.stop()
    assert not room.desk.replies.is_generating
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert [m.role for m in room.desk.shelf.path] == [Role.USER]

    room.desk.replies.answer(room.desk.shelf.path[0].id)
    assert room.until(room.ended_reply).content == "Here."


def test_stop_keeps_what_has_arrived(make_room):
    room = make_room(slow()).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(30))
    room.desk.replies.stop()
    reply = room.until(room.ended_reply)

    assert reply.state is MessageState.STOPPED
    assert reply.stop_reason == "stopped"
    assert reply.content.startswith("again again")
    assert room.stored()[-1].content == reply.content


def test_stop_right_after_send_ends_the_reply(make_room):
    room = make_room(slow()).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: len(room.desk.shelf.path) == 2)
    room.desk.replies.stop()
    assert room.until(room.ended_reply).state is MessageState.STOPPED


def test_empty_and_second_sends_are_not_taken(make_room):
    room = make_room(slow()).start_ready()
    assert not room.desk.replies.send("  \n ")
    assert room.desk.replies.send("Go on")
    assert not room.desk.replies.send("And this?")
    room.desk.replies.stop()
    room.until(lambda: not room.desk.replies.is_generating)


def test_text_is_cleaned_before_it_is_stored(make_room):
    room = make_room().start_ready()
    room.ask("a\ud83d b\0c\r\nd")
    assert room.stored()[0].content == "a\ufffd bc\nd"


def test_what_a_dead_engine_did_not_measure_is_unknown_and_not_zero(make_room):
    room = make_room(dying({"signal": "SEGV"})).start_ready()
    counts = room.ask("Please die").counts
    assert counts.generated
    assert (counts.first_token_s, counts.total_s) == (None, None)
    assert (counts.reused, counts.evaluated) == (None, None)


@pytest.mark.parametrize("happening", [{"signal": "SEGV"}, {"exit": 3}, {"signal": "KILL"}])
def test_death_of_the_engine_keeps_the_text_and_can_be_retried(make_room, happening):
    room = make_room(dying(happening)).start_ready()
    reply = room.ask("Please die")

    assert reply.state is MessageState.INTERRUPTED
    assert reply.content == "half " * 20
    assert reply.error
    assert reply.error.endswith(".")
    assert room.stored()[-1].error == reply.error

    room.until(lambda: room.desk.loader.state.state == "crashed")
    assert room.desk.loader.state.sentence
    room.desk.replies.answer(reply.id)
    room.until(lambda: room.desk.shelf.path[-1].id != reply.id)
    again = room.until(room.ended_reply)
    assert again.id != reply.id
    assert (again.sibling_index, again.sibling_count) == (1, 2)


def test_next_message_after_a_death_is_answered(make_room):
    room = make_room(dying({"signal": "ABRT"})).start_ready()
    room.ask("Please die")
    room.until(lambda: room.desk.loader.state.state == "crashed")
    room.desk.replies.send("And now?")
    room.until(lambda: len(room.desk.shelf.path) == 4)
    assert room.until(room.ended_reply).content == "All is well."


def too_long(n_ctx: int) -> dict[str, Any]:
    fail = {"kind": "prompt_too_long", "sentence": "Too long.", "evidence": "5000/2048"}
    loaded = {"n_ctx": n_ctx, "n_ctx_train": 4096}
    return {
        "load": {"loaded": loaded},
        "replies": [{"tokens": [{"fail": fail}]}],
    }


def test_chat_that_is_too_long_says_what_can_be_done(make_room):
    room = make_room(too_long(2048)).start_ready()
    reply = room.ask("Hello")
    assert (reply.state, reply.stop_reason) == (MessageState.FAILED, "prompt_too_long")
    assert reply.error == (
        "Even after dropping older messages, this chat still has 5,000 tokens, but the context "
        "window holds only 2,048. Start a new chat, write a shorter message, or set a larger "
        "context window in Settings → Engines and reload the model."
    )


def test_no_larger_window_is_proposed_than_the_weights_were_trained_for(make_room):
    room = make_room(too_long(4096)).start_ready()
    error = room.ask("Hello").error
    assert error.endswith("Start a new chat, write a shorter message, or choose another model.")


def test_failure_in_words_is_shown_with_the_reply(make_room):
    failure = {"fail": {"kind": "no_candidate", "sentence": "Top-k left nothing. Raise it."}}
    room = make_room(dying(failure)).start_ready()
    reply = room.ask("Please die")
    assert reply.state is MessageState.FAILED
    assert reply.error == "Top-k left nothing. Raise it."
    assert reply.content == "half " * 20


def test_retry_adds_a_version_and_versions_can_be_flipped(make_room):
    script = {"replies": [{"text": "First."}, {"text": "Second."}]}
    room = make_room(script).start_ready()
    first = room.ask("Hello")
    room.desk.replies.answer(first.id)
    room.until(lambda: room.desk.shelf.path[-1].id != first.id)
    second = room.until(room.ended_reply)

    assert second.content == "Second."
    assert (second.sibling_index, second.sibling_count) == (1, 2)
    assert second.parent_id == first.parent_id
    room.desk.paths.show_version(second.id, -1)
    room.until(lambda: room.desk.shelf.path[-1].id == first.id)
    assert room.desk.shelf.path[-1].sibling_count == 2
    room.desk.paths.show_version(first.id, -1)
    room.desk.paths.show_version(first.id, +1)
    room.until(lambda: room.desk.shelf.path[-1].id == second.id)


def test_other_conversation_can_be_read_while_a_reply_grows(make_room):
    room = make_room(slow()).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(30))
    writing = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    assert room.desk.shelf.path == ()
    assert not room.desk.replies.is_generating
    left_at = len(room.events)
    room.until(lambda: len(room.of(events.TokenRecorded)) > 20)

    room.desk.shelf.open_stored(writing)
    room.until(lambda: room.desk.shelf.open.id == writing)
    assert room.desk.replies.is_generating
    opened = room.of(events.ConversationOpened)[-1]
    opened_at = room.events.index(opened)
    away = room.events[left_at:opened_at]
    assert not any(isinstance(event, events.TextArrived) for event in away)
    room.desk.replies.stop()
    reply = room.until(room.ended_reply)
    back = [e.text for e in room.events[opened_at:] if isinstance(e, events.TextArrived)]
    assert opened.messages[-1].content + "".join(back) == reply.content


def test_growing_reply_is_saved_within_a_second(make_room):
    room = make_room(slow(ms=10)).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(1))
    begun = room.desk.around.clock()
    room.until(lambda: room.stored()[-1].content, "text on disk")
    assert room.desk.around.clock() - begun < 1.0
    saved = room.stored()[-1]
    assert saved.state is MessageState.STREAMING
    assert saved.token_ids
    room.desk.replies.stop()
    room.until(room.ended_reply)


def test_closing_keeps_a_growing_reply_marked_as_interrupted(make_room):
    room = make_room(slow()).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(30))
    conversation_id, text = room.desk.shelf.open.id, room.desk.shelf.path[-1].content
    room.close()

    again = make_room().start()
    again.until(lambda: again.desk.shelf.open.id == conversation_id)
    reply = again.desk.shelf.path[-1]
    assert reply.state is MessageState.INTERRUPTED
    assert reply.content.startswith(text)
    assert reply.error


def test_locked_database_delays_the_reply_and_loses_nothing(make_room):
    room = make_room(busy_timeout_s=0.1).start_ready()
    room.ask("Hello")
    (path,) = room.data_dir.glob("db/*.sqlite3")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert room.desk.replies.send("Are you there?")
        room.until(lambda: room.desk.around.store_state.state == "unsaved")
        assert room.desk.around.store_state.sentence
        assert len(room.desk.shelf.path) == 3, "nothing is asked before the message is on disk"
        other.execute("ROLLBACK")
        room.until(lambda: room.desk.around.store_state.state == "ok")
        room.until(lambda: len(room.desk.shelf.path) == 4)
        room.until(room.ended_reply)
    finally:
        other.close()
    assert [m.content for m in room.stored()][2] == "Are you there?"


@pytest.mark.parametrize("locked_s", [1.5, pytest.param(6.0, marks=pytest.mark.soak)])
def test_closing_under_a_lock_waits_for_the_sent_message(make_room, locked_s):
    room = make_room(busy_timeout_s=0.1).start_ready()
    room.ask("Hello")
    (path,) = room.data_dir.glob("db/*.sqlite3")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    assert room.desk.replies.send("Do not forget me.")
    free = threading.Timer(locked_s, lambda: other.execute("ROLLBACK"))
    free.start()
    room.close()
    free.join()
    kept = other.execute("SELECT content FROM message ORDER BY row_id").fetchall()
    other.close()
    assert kept[2] == ("Do not forget me.",)


def test_halves_of_characters_are_replaced_and_told_once(make_room):
    room = make_room().start_ready()
    room.ask("a\ud83d b")
    room.ask("c\udc00")
    assert [m.content for m in room.stored()[::2]] == ["a\ufffd b", "c\ufffd"]
    told = [event for event in room.of(events.Noticed) if "broken characters" in event.sentence]
    assert len(told) == 1


def test_the_status_line_follows_the_threads(make_room):
    """The engine steers them; replies to come begin with the number that it settled on."""
    room = make_room(slow()).start_ready()
    assert room.desk.replies.send("Hello")
    room.until(lambda: room.growing(20), "text")
    (request_id,) = room.desk.growing._requests
    room.desk._take(ThreadsChanged(request_id, 1, "Another program is using the CPU."))
    assert room.of(events.StatusFigures)[-1].n_threads == 1
    assert room.of(events.StatusFigures)[-1].is_shown
    chat = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    room.desk._take(ThreadsChanged(request_id, 1, "Another program is using the CPU."))
    assert not room.of(events.StatusFigures)[-1].is_shown
    room.desk.shelf.open_stored(chat)
    room.until(lambda: room.desk.shelf.open.id == chat)
    room.desk.replies.stop()
    room.until(room.ended_reply, "the end")
    count = len(room.of(events.StatusFigures))
    assert room.desk.replies.send("Again")
    room.until(lambda: len(room.of(events.StatusFigures)) > count, "figures")
    assert room.of(events.StatusFigures)[-1].n_threads == 1
    room.desk.replies.stop()
    room.until(room.ended_reply, "the end")
