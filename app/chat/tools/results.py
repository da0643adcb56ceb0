"""Results of calls as messages: made, read back, and which calls of a path have none yet.

A result is a message of the role "tool" below the reply that called, one below the other in the
order of the calls. What else is known of it (its arguments as they ran, the time) stands in its
settings, which are read as untrusted. What was called stands in its `reasoning` as well, which no
prompt has: so the search, whose index holds texts alone, finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.chat.conversations.shelf import new_id
from app.chat.replies.calls import RESULT, as_answer, calls_of, unanswered
from app.chat.surroundings import now
from app.engine.protocol.tool_messages import ToolCall
from models.records import Attachment, Message, MessageState, Role

Ended = Literal["done", "error", "failed", "declined"]
"""done: the tool answered. error: it says that it failed. failed: no answer came. declined: it did
not run."""


@dataclass(frozen=True, slots=True)
class Result:
    """`arguments`: JSON text as the tool got it. `is_edited`: they are not those of the model."""

    ended: Ended = "done"
    server: str = ""
    arguments: str = ""
    took_s: float = 0.0
    is_edited: bool = False


def result_message(
    parent: Message,
    call: ToolCall,
    text: str,
    result: Result,
    attachments: tuple[Attachment, ...] = (),
) -> Message:
    """The message that answers a call, below `parent`."""
    return Message(
        id=new_id(),
        conversation_id=parent.conversation_id,
        parent_id=parent.id,
        role=Role.TOOL,
        content=text,
        reasoning=f"{call.name}({result.arguments})",
        created_at=now(),
        settings={
            **as_answer(call),
            RESULT: {
                "ended": result.ended,
                "server": result.server,
                "arguments": result.arguments,
                "took_s": round(result.took_s, 3),
                "is_edited": result.is_edited,
            },
        },
        attachments=attachments,
    )


def result_of(message: Message) -> Result | None:
    """What is known of a result beside its text; None for what is no result."""
    if message.role is not Role.TOOL:
        return None
    found = message.settings.get(RESULT)
    if not isinstance(found, Mapping):
        return Result()
    ended, took_s = found.get("ended"), found.get("took_s")
    is_number = isinstance(took_s, int | float) and not isinstance(took_s, bool)
    return Result(
        ended if ended in ("done", "error", "failed", "declined") else "done",
        _text(found.get("server"))[:200],
        _text(found.get("arguments")),
        max(0.0, float(took_s)) if is_number else 0.0,  # type: ignore[arg-type]
        found.get("is_edited") is True,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Open:
    """The end of a path that waits for results: the reply, its calls without one, and the message
    that the next result goes below. `n_calls` are all of the reply; with none left open (`calls`
    empty) the reply to the results is what is missing. `n_rounds`: so many replies called in a row
    since a person last said something."""

    reply: Message
    calls: tuple[ToolCall, ...]
    below: Message
    n_calls: int
    n_rounds: int


def open_calls(path: Sequence[Message]) -> Open | None:
    """What is open at the end of a path; None: nothing."""
    at = len(path) - 1
    results: list[Message] = []
    while at >= 0 and path[at].role is Role.TOOL:
        results.append(path[at])
        at -= 1
    if at < 0:
        return None
    reply = path[at]
    calls = calls_of(reply)
    is_over = reply.state in (MessageState.COMPLETE, MessageState.INTERRUPTED)
    if not calls or not is_over:
        return None
    left = unanswered(reply, results[::-1])
    return Open(reply, left, path[-1], len(calls), _rounds(path[: at + 1]))


def _rounds(path: Sequence[Message]) -> int:
    n_rounds = 0
    for message in reversed(path):
        if message.role is Role.USER:
            break
        n_rounds += bool(calls_of(message))
    return n_rounds


def laid_out(arguments: str) -> str:
    """Arguments as JSON that people read; as they are where they are none."""
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return arguments
