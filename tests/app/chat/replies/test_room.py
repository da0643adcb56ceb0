"""Prompts that are too long: what is said, and the two ways to room (row C01)."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import events
from app.chat.replies.room import STILL_SENTENCE
from app.chat.replies.window_size import FOR_THE_REPLY, larger_window, room_of
from app.engine.protocol.messages import Failed
from models.records import Message, MessageState

ANSWER: dict[str, Any] = {"replies": [{"text": "Here I am."}]}
LONG = "word " * 120


def failed(room: Any) -> Message:
    return room.until(lambda: (r := room.ended_reply()) and r.state is MessageState.FAILED and r)


@pytest.fixture
def room(make_room: Any) -> Any:
    """A window of 64 tokens, with weights that were made for 8,192."""
    made = make_room(ANSWER)
    made.start()
    made.desk.settings.set("n_ctx", 64)
    made.desk.settings.set("system_prompt", "")
    made.until(lambda: made.desk.loader.state.state == "ready")
    if made.desk.loader.state.loaded.n_ctx != 64:
        made.desk.loader.load(str(made._script))
    made.until(lambda: (now := made.desk.loader.state.loaded) and now.n_ctx == 64)
    return made


def test_the_next_size_holds_the_prompt_and_a_reply():
    assert larger_window(1, 8192) == 2048
    assert larger_window(3072, 8192) == 4096
    assert larger_window(3073, 8192) == 8192
    assert larger_window(8191, 8192) == 8192
    assert larger_window(8192, 8192) is None
    for needed in range(1, 8192, 7):
        size = larger_window(needed, 8192)
        assert size == 8192 or size >= needed + FOR_THE_REPLY


def test_what_helps_is_read_from_the_failure():
    known = room_of(Failed(1, "prompt_too_long", "…", "70/64"), None, "stop")
    assert known == {"tokens": 70, "size": 64, "can_enlarge": False, "can_trim": True}
    assert room_of(Failed(1, "prompt_too_long", "…", "no numbers"), None, "stop") == {}


def test_a_larger_window_is_loaded_and_the_message_answered(room: Any):
    room.desk.replies.send(LONG)
    reply = failed(room)
    assert "64" in reply.error
    assert reply.settings["room"]["can_enlarge"] is True
    assert reply.settings["room"]["can_trim"] is False  # it is done already

    room.desk.room.enlarge(reply.id)
    answered = room.until(lambda: (r := room.ended_reply()) and r.id != reply.id and r)
    assert answered.content == "Here I am."
    assert room.desk.loader.state.loaded.n_ctx >= reply.settings["room"]["tokens"] + FOR_THE_REPLY
    assert room.desk.settings.now.n_ctx == room.desk.loader.state.loaded.n_ctx
    assert answered.sibling_count == 2
    room.ask("And now?")


def test_a_larger_window_where_the_model_has_its_own(room: Any):
    room.desk.levels.change("weights", "n_ctx", 64)
    room.desk.replies.send(LONG)
    reply = failed(room)
    room.desk.room.enlarge(reply.id)
    answered = room.until(lambda: (r := room.ended_reply()) and r.id != reply.id and r)
    assert answered.content == "Here I am."
    size = room.desk.loader.state.loaded.n_ctx
    assert size >= reply.settings["room"]["tokens"] + FOR_THE_REPLY
    assert room.desk.levels.own("weights")["n_ctx"] == size
    assert room.desk.settings.now.n_ctx == 64


def test_after_a_load_that_failed_a_later_one_asks_nothing(make_room: Any):
    fails = {"kind": "out_of_memory", "sentence": "There is not enough memory."}
    script = {**ANSWER, "load": {"above_n_ctx": 64, "fail": fails}}
    room = make_room(script, gguf=None).start()
    room.desk.settings.set("n_ctx", 64)
    room.desk.settings.set("system_prompt", "")
    room.desk.loader.load(str(room._script))
    room.until(lambda: (now := room.desk.loader.state.loaded) and now.n_ctx == 64)
    room.desk.replies.send(LONG)
    reply = failed(room)
    room.desk.room.enlarge(reply.id)
    still = STILL_SENTENCE.format(size=64)
    room.until(lambda: still in [each.sentence for each in room.of(events.Noticed)])
    assert room.desk.room._waiting is None
    assert room.desk.shelf.path[-1].id == reply.id


def test_other_weights_that_are_chosen_meanwhile_answer_nothing(room: Any):
    room.desk.replies.send(LONG)
    reply = failed(room)
    room.desk.room.enlarge(reply.id)
    room.desk.loader.load(str(room._script))
    before = room.desk.loader.state.loaded
    room.until(lambda: (now := room.desk.loader.state.loaded) and now is not before)
    room.until(lambda: room.desk.loader.state.state == "ready" and not room.desk.room._waiting)
    assert not room.desk.replies.is_generating
    assert room.desk.shelf.path[-1].id == reply.id


def test_the_oldest_turns_are_left_out_and_the_message_answered(room: Any):
    room.desk.settings.set("context_policy", "stop")
    for _ in range(4):
        room.desk.replies.send("one two three four five six seven")
        last = room.until(room.ended_reply)
        if last.state is MessageState.FAILED:
            break
    assert last.state is MessageState.FAILED
    assert last.settings["room"]["can_trim"] is True
    assert room.desk.shelf.path[-1].id == last.id

    room.desk.room.trim(last.id)
    answered = room.until(lambda: (r := room.ended_reply()) and r.id != last.id and r)
    assert answered.content == "Here I am."
    assert answered.settings["cut"]["n_messages"] > 0
    assert room.desk.settings.now.context_policy == "drop_oldest"
    room.ask("one two three four five six seven")


def test_weights_without_a_larger_window_say_so(room: Any):
    room.desk.replies.send("word " * 9000)
    reply = failed(room)
    assert reply.settings["room"]["can_enlarge"] is False
    room.desk.room.enlarge(reply.id)
    notice = room.of(events.Noticed)[-1]
    assert notice.sentence.startswith("This model doesn't support a larger context window.")
    assert room.desk.shelf.path[-1].id == reply.id
    room.desk.shelf.open_new()
    room.ask("Hello")


def test_a_larger_window_that_cannot_be_had_leaves_the_message_as_it_is(make_room: Any):
    script = {
        **ANSWER,
        "load": {
            "ms": 10,
            "above_n_ctx": 64,
            "fail": {"kind": "out_of_memory", "sentence": "There is not enough memory."},
        },
    }
    room = make_room(script, gguf=None).start()
    room.desk.settings.set("n_ctx", 64)
    room.desk.settings.set("system_prompt", "")
    room.desk.loader.load(str(room._script))
    room.until(lambda: (now := room.desk.loader.state.loaded) and now.n_ctx == 64)
    room.desk.replies.send(LONG)
    reply = failed(room)
    room.desk.room.enlarge(reply.id)
    room.until(lambda: any("not enough memory" in n.sentence for n in room.of(events.Noticed)))
    room.until(lambda: (now := room.desk.loader.state.loaded) and now.n_ctx == 64)
    assert [m.id for m in room.desk.shelf.path][-1] == reply.id
    room.desk.shelf.open_new()
    room.ask("Hello")


@pytest.mark.parametrize("level", ["weights", "chat"])
def test_where_the_chat_or_the_weights_say_stop_that_is_what_is_changed(room: Any, level: str):
    """The app's own policy leaves out the oldest already, which helps nobody here."""
    room.desk.replies.send("one two three four five six seven")
    room.until(room.ended_reply)
    room.desk.levels.change(level, "context_policy", "stop")
    for _ in range(3):
        room.desk.replies.send("one two three four five six seven")
        last = room.until(room.ended_reply)
    assert last.state is MessageState.FAILED
    assert last.error.startswith("This chat has ")
    assert last.settings["room"]["can_trim"] is True

    room.desk.room.trim(last.id)
    answered = room.until(lambda: (r := room.ended_reply()) and r.id != last.id and r)
    assert answered.state is MessageState.COMPLETE
    assert answered.settings["cut"]["n_messages"] > 0
    assert room.desk.levels.resolved().settings.context_policy == "drop_oldest"
