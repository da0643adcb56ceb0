"""Markdown that Cutaway did not write: a chat by its headings.

A message begins with a heading (`## User`) or with bold words (`**Assistant:** Yes.`) that name who
speaks; in a code block nothing begins. A first heading that names nobody is the title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Final

from app.chat.exchange.markdown_format import made_id, one_line
from app.chat.exchange.refusals import FileRefused
from models.records import Conversation, Message, Role, WholeConversation

_ROLES: Final = {
    "user": Role.USER,
    "you": Role.USER,
    "human": Role.USER,
    "me": Role.USER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "system prompt": Role.SYSTEM,
    "tool": Role.TOOL,
}
_WORDS: Final = "|".join(sorted(_ROLES, key=len, reverse=True))
_SPEAKER: Final = re.compile(
    rf"(?:#{{1,6}}[ \t]+(?:\*\*)?({_WORDS})(?:\*\*)?[ \t]*(?:[:·(].*)?|"
    rf"\*\*({_WORDS})(?::\*\*|\*\*:)(.*))\s*\Z",
    re.IGNORECASE,
)
_SIGNS: Final = frozenset("#*`~ ")
"""What a line begins with that may begin something."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TITLE: Final = re.compile(r"#[ \t]+(.+)")


def read(text: str, name: str, now: datetime) -> WholeConversation:
    """The chat, or FileRefused where nobody speaks in it."""
    title, said = "", []
    for role, words in _spoken(text):
        if role is None:
            title = next((m[1] for line in words.split("\n") if (m := _TITLE.match(line))), "")
        elif words.strip("\r\n"):
            said.append((role, words.strip("\r\n")))
    if not said:
        raise FileRefused(
            f"{name} contains no recognisable messages. It needs headings such as “## User” and "
            "“## Assistant”."
        )
    salt = blake2b(text.encode()).hexdigest()
    chat_id = made_id(salt, "chat")
    messages: list[Message] = []
    for number, (role, words) in enumerate(said):
        messages.append(
            Message(
                id=made_id(salt, f"{number}"),
                conversation_id=chat_id,
                parent_id=messages[-1].id if messages else None,
                role=role,
                content=words,
                created_at=now,
            )
        )
    conversation = Conversation(
        id=chat_id,
        title=one_line(title) or name.rpartition(".")[0] or name,
        created_at=now,
        updated_at=now,
        active_leaf_id=messages[-1].id,
        is_titled_by_user=True,
    )
    return WholeConversation(conversation, tuple(messages), has_only_text=True)


def _spoken(text: str) -> Iterator[tuple[Role | None, str]]:
    """Who says what; first, with None, what stands before anybody speaks."""
    role: Role | None = None
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if line[:1] not in _SIGNS:
            lines.append(line)
            continue
        opened = _FENCE.match(line)
        if opened and not fence:
            fence = opened[1]
        elif opened and opened[1].startswith(fence) and not line.strip(" \t\r`~"):
            fence = ""
        speaker = None if fence else _SPEAKER.match(line)
        if speaker is None:
            lines.append(line)
            continue
        yield role, "\n".join(lines)
        role = _ROLES[(speaker[1] or speaker[2]).lower()]
        lines = [(speaker[3] or "").strip()] if speaker[3] else []
    yield role, "\n".join(lines)
