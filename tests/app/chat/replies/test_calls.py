"""Replies that called tools: their calls stay with them, and with their results."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

from whole_chats import NOON

from app.chat.exchange import json_file
from app.chat.replies.calls import answered_by, as_answer, calls_of, kept_together, with_calls
from app.chat.replies.prompts import chat_prompt
from app.chat.replies.reply import Beginning, Reply, beginning_of
from app.chat.replies.summaries import summary_node
from app.chat.replies.summary_nodes import stands_for
from app.chat.settings.settings import Settings
from app.engine.prompts.summarizing import summary_request
from app.engine.protocol.messages import Finished, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.tool_messages import Tool, ToolCall
from models.records import Conversation, Message, MessageState, Role, WholeConversation

CALL, OTHER = ToolCall("c1", "clock", '{"city": "Oslo"}'), ToolCall("c2", "light", "{}")
CHAT = Conversation("c", "Title", NOON, NOON)


def path_of(*said: tuple[Role, str, dict[str, Any]]) -> tuple[Message, ...]:
    made: list[Message] = []
    for number, (role, text, fields) in enumerate(said):
        parent = made[-1].id if made else None
        made.append(Message(f"m{number}", "c", parent, role, text, NOON, **fields))
    return tuple(made)


def a_round(**of_result: Any) -> tuple[tuple[Role, str, dict[str, Any]], ...]:
    return (
        (Role.USER, "What time is it?", {}),
        (Role.ASSISTANT, "", {"settings": with_calls({}, [CALL, OTHER])}),
        (Role.TOOL, "3 am", {"settings": as_answer(CALL), **of_result}),
        (Role.TOOL, "on", {"settings": as_answer(OTHER)}),
        (Role.ASSISTANT, "It is 3 am.", {}),
    )


def test_a_call_and_its_results_go_together_or_stay_together() -> None:
    path = path_of(*a_round(), *a_round())
    everything = {message.id for message in path}
    assert kept_together(path, everything) == everything
    assert kept_together(path, everything - {"m2"}) == everything - {"m1", "m2", "m3"}
    assert kept_together(path, {"m0", "m1"}) == {"m0"}
    assert kept_together(path, set()) == set()


def test_a_pinned_result_brings_its_call_back_from_behind_a_summary() -> None:
    path = path_of(*a_round(is_pinned=True), (Role.USER, "And now?", {}))
    stands = stands_for(path, {f"m{number}" for number in (0, 1, 3, 4)}, 0)
    summary = summary_node("c", path[-1].id, "They spoke.", stands)
    settings = dataclasses.replace(Settings(), system_prompt="", context_policy="summarize")
    prompt = chat_prompt(CHAT, (*path, summary), settings, "w")
    assert [message.role for message in prompt.messages] == [
        "system", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    assert prompt.messages[1].tool_calls == [CALL, OTHER]


def test_what_was_called_is_told_to_who_summarizes() -> None:
    said = [
        ChatMessage("assistant", "One moment.", tool_calls=[CALL]),
        ChatMessage("tool", "3 am", tool_call_id="c1", tool_name="clock"),
    ]
    prompt = summary_request(said, "", ChatPrompt([]), 4096).prompt
    assert isinstance(prompt, ChatPrompt)
    told = 'Assistant: One moment.\n(called clock with {"city": "Oslo"})\n\nTool: 3 am'
    assert told in prompt.messages[1].content


def test_who_goes_on_goes_on_behind_the_text_of_a_reply_that_called() -> None:
    fields = {"token_ids": (1, 2, 3), "weights_hash": "w", "stop_reason": "tool_calls"}
    (plain,) = path_of((Role.ASSISTANT, "One moment.", fields))
    called = dataclasses.replace(plain, settings=with_calls({}, [CALL]))
    assert beginning_of(plain, "w").token_ids == (1, 2, 3)
    beginning = beginning_of(called, "w")
    assert (beginning.content, beginning.token_ids) == ("One moment.", None)


def test_a_half_call_that_was_gone_on_with_is_no_text_any_more() -> None:
    half = 'Wait. <tool_call>{"name": "clock", '
    (message,) = path_of((Role.ASSISTANT, half, {"state": MessageState.STREAMING}))
    reply = Reply(message, Beginning(half, "", (1, 2)))
    reply.take_call(CALL)
    ended = reply.ended(Finished(1, Summary("tool_calls", token_ids=[3], tool_calls=[CALL])))
    assert (ended.content, ended.token_ids) == ("Wait. ", (1, 2, 3))
    assert calls_of(ended) == (CALL,)
    bare = Reply(message, Beginning(half, "", (1, 2)))
    assert bare.ended(Finished(1, Summary("max_tokens", token_ids=[3]))).content == half


def test_calls_come_back_from_a_file() -> None:
    path = path_of(*a_round())
    file = io.BytesIO()
    json_file.write(file, [WholeConversation(CHAT, path)], (), (), NOON)
    _, chats = json_file.read(io.BytesIO(file.getvalue()), "chats.json")
    (again,) = chats
    assert calls_of(again.messages[1]) == (CALL, OTHER)
    assert [answered_by(m).id for m in again.messages[2:4]] == ["c1", "c2"]
    assert again.messages == path


SCRIPT = {
    "replies": [
        {"match": "What time", "text": "One moment.", "calls": [{"name": "clock", "id": "c1"}]},
        {"text": "It is 3 am."},
    ]
}


def test_other_texts_of_a_call_and_its_result_keep_what_they_belong_to(make_room: Any) -> None:
    """F12."""
    room = make_room(SCRIPT).start_ready()
    room.desk.around.tools_of = lambda _chat: (Tool("clock"),)
    assert room.desk.replies.send("What time is it?")

    def texts() -> list[str]:
        return [message.content for message in room.desk.shelf.path]

    def is_at_rest() -> bool:
        return not room.desk.replies.is_occupied(room.desk.shelf.open.id)

    room.until(lambda: len(texts()) == 4 and is_at_rest(), "the answer")
    assert texts()[3] == "It is 3 am."
    path = room.desk.shelf.path
    assert calls_of(path[1]) == (ToolCall("c1", "clock", "{}"),)
    assert answered_by(path[2]).id == "c1"

    room.desk.tree.edit(path[1].id, "Just a moment.")
    room.until(lambda: texts()[1] == "Just a moment." and is_at_rest(), "the edited reply")
    assert calls_of(room.desk.shelf.path[1]) == (ToolCall("c1", "clock", "{}"),)
    assert len(texts()) == 4
    room.desk.tree.edit(room.desk.shelf.path[2].id, "4 am")
    room.until(lambda: texts()[2] == "4 am" and is_at_rest(), "the edited result")
    assert answered_by(room.desk.shelf.path[2]).id == "c1"
    assert [calls_of(m) for m in room.stored()] == [calls_of(m) for m in room.desk.shelf.path]
