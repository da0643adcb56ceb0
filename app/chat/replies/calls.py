"""What a reply called, and which call a tool's message answers: as they stand in a message.

Both stand in the settings of their message, beside all else that it was made with, so every row,
file and export that there is can hold them. Who reads them does so as untrusted: a file may say
anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.engine.protocol.tool_messages import MAX_CALLS, ToolCall
from models.records import Message, Role

CALLS: Final = "tool_calls"
"""In a reply's settings: what it called, in order."""

ANSWERED: Final = "tool_call"
"""In the settings of a tool's message: id and name of the call that it answers."""

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
