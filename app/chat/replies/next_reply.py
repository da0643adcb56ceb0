"""What was chosen for the next reply of a chat alone: its thinking, how its reasoning begins, and
that it calls a tool.

It stands with the chat's settings, so that what was typed is not lost with the window, and is used
up by the reply that is asked for next, whichever that is: to a new message, to one from the queue,
another version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.chat.conversations.shelf import Shelf
from app.chat.replies.prompts import clean_message
from app.chat.replies.reply import NOTHING, Beginning
from app.chat.settings.levels import NEXT
from app.chat.settings.resolved import SHAPING, taken
from app.chat.surroundings import Surroundings
from models.records import Conversation

THOUGHTS: Final = "reasoning_start"
MAX_THOUGHTS: Final = 100_000


class NextReply:
    def __init__(self, around: Surroundings, shelf: Shelf) -> None:
        self._around = around
        self._shelf = shelf

    def changes(self, chat: Conversation) -> dict[str, Any]:
        """The settings that it has otherwise than the chat. What is stored is untrusted."""
        return taken(_stored(chat), (*SHAPING, "tool_choice"))

    def thoughts(self, chat: Conversation) -> str:
        """What its reasoning begins with."""
        text = _stored(chat).get(THOUGHTS)
        return text if isinstance(text, str) else ""

    def put(self, name: str, value: object) -> None:
        """Choose something for the next reply of the open chat; None takes it back. `name`: a
        setting, or THOUGHTS."""
        if not self._around.may_write():
            return
        if name == THOUGHTS:
            value = clean_message(str(value or ""))[:MAX_THOUGHTS] or None
        self._shelf.ensure_stored()
        chat = self._shelf.open
        stored = {key: each for key, each in _stored(chat).items() if key != name}
        if value is not None:
            stored[name] = value
        self._keep(chat, stored)

    def take(self, conversation_id: str) -> tuple[dict[str, Any], Beginning]:
        """What the reply that is asked for now has of its own; the one after it has nothing."""
        chat = self._shelf.conversation(conversation_id)
        if chat is None or not _stored(chat):
            return {}, NOTHING
        changes, thoughts = self.changes(chat), self.thoughts(chat)
        self._keep(chat, {})
        return changes, Beginning("", thoughts) if thoughts.strip() else NOTHING

    def _keep(self, chat: Conversation, stored: Mapping[str, Any]) -> None:
        settings = {name: value for name, value in chat.settings.items() if name != NEXT}
        if stored:
            settings[NEXT] = dict(stored)
        self._shelf.change(chat.id, settings=settings)


def _stored(chat: Conversation) -> dict[str, Any]:
    found = chat.settings.get(NEXT)
    return found if isinstance(found, dict) else {}
