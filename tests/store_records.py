"""Records for the tests of the store."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from models.records import Conversation, Message, Role

START = datetime(2026, 5, 3, 12, 0, 0, 123456, tzinfo=UTC)
_seconds = itertools.count()


def next_time() -> datetime:
    """A time later than all before it."""
    return START + timedelta(seconds=next(_seconds))


def a_conversation(**fields: Any) -> Conversation:
    now = next_time()
    return Conversation(
        **{"id": str(uuid.uuid4()), "title": "A chat", "created_at": now, "updated_at": now}
        | fields
    )


def a_message(
    conversation: Conversation, parent: Message | str | None = None, **fields: Any
) -> Message:
    """A user's message below `parent` (a message or its id)."""
    parent_id = parent.id if isinstance(parent, Message) else parent
    return Message(
        **{
            "id": str(uuid.uuid4()),
            "conversation_id": conversation.id,
            "parent_id": parent_id,
            "role": Role.USER,
            "content": "What is the capital of France?",
            "created_at": next_time(),
        }
        | fields
    )
