"""What is kept of a request whose child dies."""

from __future__ import annotations

from app.engine.client.open_request import OpenRequest
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import (
    Failed,
    Generate,
    Note,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    TokenTrace,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.tool_messages import BAD_CALL, ToolCall, ToolCalled

NOTHING = Array("i4", [0], b"")


def token(index: int, token_id: int, text: str) -> TokenArrived:
    trace = TokenTrace(
        index, token_id, text.encode(), 0.0, 1, 0.0, NOTHING, NOTHING, stages=[], ms=10.0
    )
    return TokenArrived(1, trace, text, "content", 20 + index)


def test_tokens_that_were_taken_back_are_not_in_the_partial_reply() -> None:
    request = OpenRequest(Generate(1, ChatPrompt([ChatMessage("user", "x")])), 0.0)
    for event in (
        token(0, 5, "good "),
        token(1, 6, ""),
        token(2, 7, ""),
        TextTakenBack(1, 2),
        token(1, 8, "day"),
    ):
        request.note(event)
    partial = request.failed(Failed(1, "native_error", "It died."), 256).partial
    assert partial is not None
    assert (partial.token_ids, partial.text, partial.generated) == ([5, 8], "good day", 2)


def test_more_than_there_is_cannot_be_taken_back() -> None:
    request = OpenRequest(Generate(1, ChatPrompt([ChatMessage("user", "x")])), 0.0)
    request.note(token(0, 5, "a"))
    request.note(TextTakenBack(1, 9))
    assert request.failed(Failed(1, "native_error", "It died."), 256).partial is None


def test_calls_that_are_whole_are_kept_and_a_half_one_is_text() -> None:
    request = OpenRequest(Generate(1, ChatPrompt([ChatMessage("user", "x")])), 0.0)
    call = ToolCall("c1", "clock", "{}")
    for event in (
        token(0, 5, "Wait. "),
        TextFlushed(1, "<tool_call>clock</tool_call>", "call"),
        ToolCalled(1, 0, call),
        TextFlushed(1, "<tool_call>clo", "call"),
    ):
        request.note(event)
    partial = request.failed(Failed(1, "native_error", "It died."), 256).partial
    assert partial is not None
    assert partial.tool_calls == [call]
    assert partial.text == "Wait. <tool_call>clo"


def test_a_call_that_was_none_is_not_said_twice() -> None:
    request = OpenRequest(Generate(1, ChatPrompt([ChatMessage("user", "x")])), 0.0)
    request.note(token(0, 5, ""))
    request.note(TextFlushed(1, "<tool_call>?", "call"))
    request.note(Note(1, BAD_CALL, "It is no call."))
    request.note(TextFlushed(1, "<tool_call>?", "content"))
    partial = request.failed(Failed(1, "native_error", "It died."), 256).partial
    assert partial is not None
    assert partial.text == "<tool_call>?"
