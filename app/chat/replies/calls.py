"""What a reply called, and which call a tool's message answers: as they stand in a message.

Both stand in the settings of their message, beside all else that it was made with, so every row,
file and export that there is can hold them. Who reads them does so as untrusted: a file may say
anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.engine.protocol.tool_messages import MAX_CALLS, ToolCall
from models.records import Message, Role

CALLS: Final = "tool_calls"
"""In a reply's settings: what it called, in order."""

ANSWERED: Final = "tool_call"
"""In the settings of a tool's message: id and name of the call that it answers."""

RESULT: Final = "tool_result"
"""In the same: how the call ended, and what it ran with (`app/chat/tools/results.py`)."""

NO_CALL: Final = ToolCall("", "", "")


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """What a reply called."""
    if CALLS not in message.settings or message.role is not Role.ASSISTANT:
        return ()
    found = message.settings[CALLS]
    calls = [_call(each) for each in found[:MAX_CALLS]] if isinstance(found, list) else []
    return tuple(call for call in calls if call.name)


def answered_by(message: Message) -> ToolCall:
    """The id and name of the call that a tool's message answers; both empty where none is known."""
    if message.role is not Role.TOOL:
        return NO_CALL
    return _call(message.settings.get(ANSWERED))


def unanswered(reply: Message, results: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a reply that none of the tools' messages right below it answers."""
    left = list(calls_of(reply))
    for result in results:
        answered = answered_by(result)
        found = next((call for call in left if call.id == answered.id), None)
        if found is not None:
            left.remove(found)
        elif left and not answered.id:
            left.pop(0)
    return tuple(left)


def without_unanswered(path: Sequence[Message]) -> list[Message]:
    """The messages of a path, without calls that were passed over: somebody wrote on instead of
    answering them, and templates want a result for each. Those at the end are still open."""
    found: list[Message] = []
    for at, message in enumerate(path):
        if calls_of(message):
            end = at + 1
            while end < len(path) and path[end].role is Role.TOOL:
                end += 1
            left = unanswered(message, path[at + 1 : end]) if end < len(path) else ()
            if left:
                kept = [call for call in calls_of(message) if call not in left]
                settings = {k: v for k, v in message.settings.items() if k != CALLS}
                # Nor may its tokens come again: the calls are among them.
                message = dataclasses.replace(
                    message, settings=with_calls(settings, kept), token_ids=None
                )
        found.append(message)
    return found


def lines_of(message: Message) -> str:
    """What a reply called, a line each, as it is copied: `clock({"city": "Oslo"})`."""
    return "\n".join(f"{call.name}({call.arguments})" for call in calls_of(message))


def kept_calls(message: Message) -> dict[str, Any]:
    """What another version of a message, and a file of its text, keep of its settings: what it
    called, and which call it answers."""
    calls, answered = calls_of(message), answered_by(message)
    kept = as_answer(answered) if answered.name or answered.id else {}
    if kept and RESULT in message.settings:
        kept[RESULT] = message.settings[RESULT]
    return with_calls({}, calls) | kept


def kept_together(path: Sequence[Message], gone: set[str]) -> set[str]:
    """Of messages that are to go, those that may: a reply that called stays where one of its
    results does, and all of its results with it."""
    may_go = set(gone)
    at = 0
    while at < len(path):
        end = at + 1
        if calls_of(path[at]):
            while end < len(path) and path[end].role is Role.TOOL:
                end += 1
        group = {message.id for message in path[at:end]}
        if not group <= gone:
            may_go -= group
        at = end
    return may_go


def with_calls(settings: Mapping[str, Any], calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The settings of a reply that called these."""
    if not calls:
        return dict(settings)
    return {**settings, CALLS: [_stored(call) for call in calls]}


def as_answer(call: ToolCall) -> dict[str, Any]:
    """The settings of the message that answers this call."""
    return {ANSWERED: {"id": call.id, "name": call.name}}


def _stored(call: ToolCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _call(value: object) -> ToolCall:
    if not isinstance(value, Mapping):
        return NO_CALL
    texts = [value.get(name) for name in ("id", "name", "arguments")]
    return ToolCall(*(text if isinstance(text, str) else "" for text in texts))
