"""What enters a prompt, and in which form."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from app.chat.replies.calls import answered_by, as_answer, calls_of, with_calls
from app.chat.replies.prompts import chat_prompt, clean_message, generate_request
from app.chat.settings.settings import Settings
from app.engine.protocol.prompt_messages import ChatPrompt
from app.engine.protocol.tool_messages import ToolCall
from models.records import Conversation, Message, MessageState, Role

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
PLAIN = dataclasses.replace(Settings(), system_prompt="")
CHAT = Conversation("c", "Title", NOON, NOON)


def message(role: Role, content: str, **fields: Any) -> Message:
    return Message(f"m-{content[:8]}", "c", None, role, content, NOON, **fields)


def roles_and_texts(prompt: Any) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in prompt.messages]


def test_system_prompt_of_the_conversation_goes_before_the_general_one() -> None:
    general = dataclasses.replace(Settings(), system_prompt="general")
    own = dataclasses.replace(CHAT, system_prompt="own")
    assert roles_and_texts(chat_prompt(own, [], general, "w")) == [("system", "own")]
    assert roles_and_texts(chat_prompt(CHAT, [], general, "w")) == [("system", "general")]
    assert roles_and_texts(chat_prompt(CHAT, [], PLAIN, "w")) == []


def test_replies_without_text_and_unreadable_rows_stay_out() -> None:
    path = [
        message(Role.USER, "one"),
        message(Role.ASSISTANT, "", state=MessageState.STOPPED),
        message(Role.USER, "two"),
        message(Role.ASSISTANT, "?", state=MessageState.UNREADABLE),
    ]
    prompt = chat_prompt(CHAT, path, PLAIN, "w", draft="three")
    assert roles_and_texts(prompt) == [("user", "one"), ("user", "two"), ("user", "three")]


def test_reply_goes_in_as_its_own_ids_only_for_the_weights_that_wrote_it() -> None:
    reply = message(Role.ASSISTANT, "Paris", token_ids=(1, 2), weights_hash="w", reasoning="hm")
    (own,) = chat_prompt(CHAT, [reply], PLAIN, "w").messages
    (foreign,) = chat_prompt(CHAT, [reply], PLAIN, "other").messages
    assert (own.token_ids, own.reasoning, own.message_id) == ([1, 2], "hm", reply.id)
    assert foreign.token_ids is None
    unknown = dataclasses.replace(reply, weights_hash="")
    assert chat_prompt(CHAT, [unknown], PLAIN, "").messages[0].token_ids is None


def test_calls_and_results_go_in_as_they_are_stored() -> None:
    call = ToolCall("c1", "clock", '{"city": "Tokyo"}')
    reply = message(Role.ASSISTANT, "", settings=with_calls({"seed": 1}, [call]))
    result = message(Role.TOOL, "3 am", settings=as_answer(call))
    called, answered = chat_prompt(CHAT, [reply, result], PLAIN, "w").messages
    assert (called.tool_calls, called.content) == ([call], "")
    assert (answered.role, answered.content) == ("tool", "3 am")
    assert (answered.tool_call_id, answered.tool_name) == ("c1", "clock")


@pytest.mark.parametrize(
    "stored", [None, "x", [], {"id": 1}, [None, 3, {"name": 5}, {"name": ""}], [[]], {"a": {}}]
)
def test_strange_stored_calls_are_none(stored: Any) -> None:
    settings = {"tool_calls": stored, "tool_call": stored}
    assert calls_of(message(Role.ASSISTANT, "x", settings=settings)) == ()
    assert answered_by(message(Role.TOOL, "x", settings=settings)).name == ""


def test_request_carries_the_settings() -> None:
    settings = dataclasses.replace(Settings(), max_tokens=9, stop_strings=("END",), seed=3)
    request = generate_request(CHAT, [message(Role.USER, "hi")], settings, "w")
    assert (request.max_tokens, request.stop, request.conversation) == (9, ["END"], "c")
    assert request.sampling.seed == 3
    assert not request.stop_in_reasoning


def test_request_says_how_reasoning_is_told_apart() -> None:
    """N08, N10."""
    settings = dataclasses.replace(Settings(), stop_in_reasoning=True, reasoning_tags=("<a>…</a>",))
    request = generate_request(CHAT, [message(Role.USER, "hi")], settings, "w")
    assert request.stop_in_reasoning
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.reasoning_tags == [("<a>", "</a>")]


def test_message_text_is_cleaned_and_otherwise_left_alone() -> None:
    assert clean_message("  a\r\nb\rc\0\ud83d ") == "  a\nb\nc\ufffd "
    assert clean_message("🙂 \u202e\u200d") == "🙂 \u202e\u200d"


@pytest.mark.parametrize("text", ["plain\n" * 9, "häl 漢字 🙂\n" * 9])
def test_clean_text_is_not_copied(text: str) -> None:
    """A draft of megabytes passes here with every key, on the window's thread."""
    assert clean_message(text) is text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\0b", "ab"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\ud83db", "a\ufffdb"),
        ("ä\ud83d\0\r", "ä\ufffd\n"),
    ],
)
def test_what_is_not_clean_is_cleaned(text: str, cleaned: str) -> None:
    assert clean_message(text) == cleaned


def test_the_whole_trace_is_asked_for_and_the_policy_goes_along() -> None:
    path = [dataclasses.replace(message(Role.USER, "one"), is_pinned=True)]
    request = generate_request(CHAT, path, PLAIN, "w")
    assert (request.alternatives, request.record_stages) == (64, True)
    assert request.context_policy == "drop_oldest"
    stopping = dataclasses.replace(PLAIN, context_policy="stop")
    assert generate_request(CHAT, path, stopping, "w").context_policy == "stop"
    assert [m.is_pinned for m in request.prompt.messages] == [True]  # type: ignore[union-attr]
