"""The frozen values that leave `models/`. Nothing here knows SQLAlchemy.

Ids are uuid strings (the tables also have integer row keys); times are UTC, as
`datetime` with tzinfo. A record is a snapshot: change goes through `models.store`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MessageState(StrEnum):
    """`UNREADABLE` is never stored: it marks a row whose content could not be read."""

    COMPLETE = "complete"
    STREAMING = "streaming"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    UNREADABLE = "unreadable"


class ConversationKind(StrEnum):
    CHAT = "chat"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its messages."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    kind: ConversationKind = ConversationKind.CHAT
    folder_id: str | None = None
    is_pinned: bool = False
    is_archived: bool = False
    trashed_at: datetime | None = None
    system_prompt: str = ""
    draft: str = ""
    weights_path: str | None = None
    preset_id: str | None = None
    active_leaf_id: str | None = None
    is_titled_by_user: bool = False


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """Figures of a generated reply. None where nothing was measured (an interrupted reply)."""

    prompt_tokens: int | None = None
    reused: int | None = None
    evaluated: int | None = None
    generated: int | None = None
    first_token_s: float | None = None
    total_s: float | None = None
    tokens_per_s: float | None = None
    context_used: int | None = None
    context_size: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One node of a conversation's tree.

    `sibling_index` and `sibling_count` count the versions under the same parent, oldest
    first, from 0. `error` is the sentence shown under a failed or interrupted reply.
    `settings` are the resolved settings that the reply was generated with.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    content: str
    created_at: datetime
    state: MessageState = MessageState.COMPLETE
    reasoning: str = ""
    token_ids: tuple[int, ...] | None = None
    is_pinned: bool = False
    stop_reason: str | None = None
    error: str | None = None
    seed: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    weights_name: str | None = None
    weights_hash: str | None = None
    rendered_prompt: str | None = None
    counts: MessageCounts = field(default_factory=MessageCounts)
    sibling_index: int = 0
    sibling_count: int = 1


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file that was used or found. `fast_hash` covers size, header and sampled blocks."""

    path: str
    name: str
    size_bytes: int
    last_used_at: datetime | None = None
    fast_hash: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class StoreOpened:
    """How the database was opened.

    `state`: `ok`; `fresh` (a new, empty one); `read_only`; `salvaged` (read out of a damaged
    file); `restored` (a backup). `sentence` is for the user and empty where there is nothing
    to say (a first start is `fresh` without words). `interrupted` counts the replies that a
    former run left unfinished.
    """

    state: str
    sentence: str = ""
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, or a title (`message_id` None), that holds what was searched for.

    `snippet` is plain text around the first match, on one line.
    """

    conversation_id: str
    conversation_title: str
    created_at: datetime
    message_id: str | None = None
    role: Role | None = None
    snippet: str = ""
