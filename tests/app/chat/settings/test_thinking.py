"""Thinking from the desk: what the template offers, and where a choice is kept and counts."""

from __future__ import annotations

import os
import signal
from typing import Any

from app.chat.events import ThinkingChanged
from app.chat.settings.levels import NEXT

OFFER = {"choices": ["off", "on", "high"], "auto": "on", "has_reasoning": True}
THINKS: dict[str, Any] = {
    "thinking": OFFER,
    "replies": [
        {
            "tokens": [
                {"text": "Hm", "part": "reasoning"},
                {"text": " hm", "part": "reasoning", "repeat": 5},
                {"text": "Yes"},
                {"text": " indeed"},
            ]
        }
    ],
}


def ready(make_room: Any, script: dict[str, Any] | None = None) -> Any:
    room = make_room(script or THINKS).start_ready()
    room.until(lambda: room.desk.thinking.offer.choices or script, "the offer")
    return room


def test_the_offer_comes_with_the_weights_and_goes_with_them(make_room: Any) -> None:
    room = ready(make_room)
    assert room.desk.thinking.offer.choices == ["off", "on", "high"]
    assert room.of(ThinkingChanged)
    room.desk.levels.change("chat", "chat_format", "gemma")
    room.until(lambda: not room.desk.thinking.offer.has_reasoning)
    room.desk.levels.reset("chat", "chat_format")
    assert room.desk.thinking.offer.has_reasoning  # it is remembered
    room.desk.shelf.open_new_text()
    room.until(lambda: not room.desk.thinking.offer.has_reasoning)


def test_the_offer_outlives_an_unloading(make_room: Any) -> None:
    """The next message loads the same weights again; what is chosen meanwhile counts for it."""
    room = ready(make_room)
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    room.desk.thinking.choose("off", "message")
    assert room.desk.thinking.offer.choices
    assert room.ask("Hello").settings["thinking"] == "off"


def test_a_choice_counts_where_it_was_made(make_room: Any) -> None:
    room = ready(make_room)
    thinking = room.desk.thinking
    thinking.choose("off", "weights")
    assert (thinking.chosen, thinking.chosen_at) == ("off", "weights")
    thinking.choose("", "chat")
    assert (thinking.chosen, thinking.chosen_at) == ("", "chat")
    thinking.choose("high", "message")
    assert (thinking.chosen, thinking.chosen_at) == ("high", "message")
    thinking.choose("on", "weights")  # and nothing above it is left
    assert (thinking.chosen, thinking.chosen_at) == ("on", "weights")
    thinking.limit_to(9, "message")
    thinking.limit_to(0, "chat")
    assert thinking.limit == 0


def test_what_is_for_one_reply_is_used_up_by_it(make_room: Any) -> None:
    room = ready(make_room)
    thinking = room.desk.thinking
    thinking.choose("high", "message")
    thinking.limit_to(3, "message")
    first = room.ask("Hello")
    assert (first.settings["thinking"], first.settings["reasoning_budget"]) == ("high", 3)
    assert first.settings["levels"]["thinking"] == "message"
    assert (thinking.chosen, thinking.limit) == ("", 0)
    assert NEXT not in room.desk.shelf.open.settings
    second = room.ask("And again?")
    assert "thinking" not in second.settings
    thinking.choose("off", "message")
    room.desk.replies.answer(second.id)  # another version is a reply, too
    room.until(lambda: room.ended_reply() and room.last.id != second.id)
    assert room.last.settings["thinking"] == "off"


def test_reasoning_ends_at_its_limit_and_the_reply_says_so(make_room: Any) -> None:
    room = ready(make_room)
    room.desk.thinking.limit_to(2, "chat")
    reply = room.ask("Hello")
    assert (reply.reasoning, reply.content) == ("Hm hm", "Yes indeed")
    assert reply.settings["reasoning"] == {"n_tokens": 2, "limit": 2}
    traces = room.store.load_trace(reply.id).result(20)
    from app.insight.trace.columns import unpack

    assert [token.inserted for token in unpack(traces)] == [False, False, True, False, False]


def test_reasoning_can_be_begun_by_the_user(make_room: Any) -> None:
    room = ready(make_room)
    room.desk.thinking.begin_with("First, the facts:")
    assert room.desk.thinking.thoughts == "First, the facts:"
    reply = room.ask("Hello")
    assert reply.reasoning == "First, the facts:Hm hm hm hm hm hm"
    assert reply.content == "Yes indeed"
    assert reply.settings["given"]["reasoning_characters"] == len("First, the facts:")
    assert room.desk.thinking.thoughts == ""
    room.desk.thinking.begin_with("Again")
    room.desk.thinking.begin_with("")
    assert room.ask("And?").reasoning == "Hm hm hm hm hm hm"


def test_what_was_begun_stays_with_its_chat_and_comes_back(make_room: Any, tmp_path: Any) -> None:
    room = ready(make_room)
    room.ask("Hello")
    chat = room.desk.shelf.open.id
    room.desk.thinking.begin_with("So")
    room.desk.shelf.open_new()
    assert room.desk.thinking.thoughts == ""
    room.desk.shelf.open_stored(chat)
    room.until(lambda: room.desk.shelf.open.id == chat and room.desk.thinking.thoughts == "So")
    stored = room.store.load_conversation(chat).result(20)[0]
    assert stored.settings[NEXT] == {"reasoning_start": "So"}


def test_other_settings_of_the_chat_leave_it_alone(make_room: Any) -> None:
    room = ready(make_room)
    levels, thinking = room.desk.levels, room.desk.thinking
    thinking.begin_with("So")
    thinking.choose("off", "message")
    levels.change("chat", "top_k", 3)
    levels.put("chat", {"temperature": 0.5})
    levels.reset("chat", "temperature")
    assert levels.own("chat") == {}
    assert (thinking.chosen, thinking.thoughts) == ("off", "So")


def test_what_is_stored_is_untrusted(make_room: Any) -> None:
    room = ready(make_room)
    room.ask("Hello")
    for odd in ([], {"thinking": 3, "reasoning_start": []}, {"reasoning_budget": -5}, "x"):
        room.desk.shelf.change(room.desk.shelf.open.id, settings={NEXT: odd})
        assert (room.desk.thinking.chosen, room.desk.thinking.thoughts) == ("", "")
        assert room.ask("And?").content == "Yes indeed"


def test_a_stopped_reasoning_goes_on(make_room: Any) -> None:
    slow = {"text": " hm", "part": "reasoning", "repeat": 400, "ms": 2}
    script = {"thinking": OFFER, "replies": [{"tokens": [slow]}]}
    room = ready(make_room, script)
    assert room.desk.replies.send("Hello")
    room.until(lambda: room.last and room.last.reasoning.count("hm") > 3)
    room.desk.replies.stop()
    stopped = room.until(room.ended_reply)
    assert stopped.content == ""
    room.desk.replies.go_on(stopped.id)
    room.until(
        lambda: room.last.id != stopped.id and len(room.last.reasoning) > len(stopped.reasoning)
    )
    room.desk.replies.stop()
    longer = room.until(room.ended_reply)
    assert longer.reasoning.startswith(stopped.reasoning)
    assert longer.content == ""


def test_a_question_that_died_with_the_engine_is_asked_again(make_room: Any) -> None:
    room = ready(make_room)
    pid = room.desk.loader.engine.hello.pid
    os.kill(pid, signal.SIGSTOP)
    room.desk.levels.change("chat", "reasoning_tags", ["<a>…</a>"])  # another look at the template
    os.kill(pid, signal.SIGKILL)
    room.until(lambda: room.desk.loader.state.state == "crashed")
    room.desk.loader.load(room.desk.loader.path)
    room.until(lambda: room.desk.thinking.offer.choices)


def test_several_versions_have_what_is_for_the_next_reply(make_room: Any) -> None:
    room = ready(make_room)
    first = room.ask("Hello")
    room.desk.thinking.choose("off", "message")
    room.desk.thinking.begin_with("So")
    room.desk.replies.ask_several(first.id, [{"seed": 1}, {"seed": 2, "thinking": "high"}])
    room.until(lambda: room.ended_reply() and room.desk.replies.is_free())
    nodes = room.store.load_tree(room.desk.shelf.open.id).result(20)
    ids = [node.id for node in nodes if node.role == "assistant" and node.id != first.id]
    replies = sorted((room.store.load_message(i).result(20) for i in ids), key=lambda m: m.seed)
    assert [m.settings["thinking"] for m in replies] == ["off", "high"]
    assert [m.reasoning[:2] for m in replies] == ["So", "So"]
    assert room.desk.thinking.thoughts == ""


def test_a_model_that_is_unloaded_is_chosen_for_as_well(make_room: Any) -> None:
    room = ready(make_room)
    room.desk.thinking.choose("on", "chat")
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    room.desk.thinking.choose("off", "weights")
    assert (room.desk.thinking.chosen, room.desk.thinking.chosen_at) == ("off", "weights")
