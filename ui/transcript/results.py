"""Results of tools as the transcript shows them: folded to a line, what ran and what came below.

The text of a result stands where a reply has its reasoning, so folding, finding, selecting and
copying are the same. No Qt.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from app.chat.replies.calls import answered_by
from app.chat.tools.results import Result, laid_out, result_of
from models.records import Message, Role
from ui.widgets.figures import seconds_text

_ENDINGS: Final = {
    "done": "",
    "error": "the tool reported an error",
    "failed": "failed",
    "declined": "not run",
}


def is_result(message: Message) -> bool:
    return message.role is Role.TOOL


def as_shown(message: Message) -> Message:
    """A result with its text where reasoning stands; every other message as it is."""
    result = result_of(message)
    if result is None:
        return message
    return dataclasses.replace(message, content="", reasoning=_text(message, result))


def _text(message: Message, result: Result) -> str:
    if not result.arguments:
        return message.content
    return f"{laid_out(result.arguments)}\n\n{message.content}"


def label(message: Message) -> str:
    """What the folded line says: the tool, its server, how long it took, how it ended."""
    result = result_of(message) or Result()
    name = answered_by(message).name or "Tool"
    parts = [name[:80], result.server]
    if result.is_edited:
        parts.append("edited arguments")
    if result.ended in ("done", "error") and result.took_s:
        parts.append(seconds_text(result.took_s))
    parts.append(_ENDINGS[result.ended])
    return " · ".join(part for part in parts if part)


def is_bad(message: Message) -> bool:
    """Whether it came to nothing."""
    result = result_of(message)
    return result is not None and result.ended in ("error", "failed")
