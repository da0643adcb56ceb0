"""The frozen values that leave `models/`. Nothing here knows SQLAlchemy.

Ids are uuid strings (the tables also have integer row keys); times are UTC, as
`datetime` with tzinfo. A record is a snapshot: change goes through `models.store.store`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """A conversation without its messages.

    `settings` are those that it sets otherwise; `copied_from` is the message of another
    conversation that this one was branched at.
    """

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
    settings: dict[str, Any] = field(default_factory=dict)
    copied_from: str | None = None
    tags: tuple[str, ...] = ()
    """By name; see `models.conversations.tag_names`."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A place for conversations in the sidebar; `parent_id` is that of the folder around it."""

    id: str
    name: str
    created_at: datetime
    parent_id: str | None = None
    position: int = 0


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
    reasoning_s: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One node of a conversation's tree.

    `sibling_index` and `sibling_count` count the versions under the same parent, oldest
    first, from 0. `error` is the sentence shown under a failed or interrupted reply.
    `settings` are the resolved settings that the reply was generated with. `trashed_at` is
    set where the message was deleted, alone or with one above it.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    content: str
    created_at: datetime
    state: MessageState = MessageState.COMPLETE
    reasoning: str = ""
    """Of a reply; of a tool's result: what was called."""
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
    trashed_at: datetime | None = None
    attachments: tuple[Attachment, ...] = ()

    @property
    def author(self) -> str:
        """Who wrote it where that is neither you nor the model, as in a group chat of another
        program; else nothing."""
        author = self.settings.get("author", "")
        return author if isinstance(author, str) else ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """What goes into the prompt with a message; in the draft where `message_id` is None.

    `kind`: text; document (`text` is what was read out of it); picture or audio (their bytes are
    the store's, read one by one). `details`: what belongs to the kind, such as where the pages
    begin. `tokens` is None until it was counted.
    """

    id: str
    conversation_id: str
    name: str
    text: str
    size_bytes: int
    created_at: datetime
    message_id: str | None = None
    tokens: int | None = None
    position: int = 0
    kind: str = "text"
    details: dict[str, Any] = field(default_factory=dict)


File = tuple[str, bytes]
"""Media type and bytes of a picture, a sound or a file kept."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings under a name."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    value: dict[str, Any] = field(default_factory=dict)
    position: int = 0


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file that was used or found. `fast_hash` covers size, header and sampled blocks.

    `settings` are those that are set otherwise for these weights.
    """

    path: str
    name: str
    size_bytes: int
    last_used_at: datetime | None = None
    fast_hash: str | None = None
    sha256: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


class DownloadState(StrEnum):
    """`WAITING` is between two attempts; only `QUEUED`, `RUNNING` and `WAITING` go on by
    themselves."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class DownloadFile:
    """One file of a download; a split set has one for each part.

    `name` is that in the repository, with its folders; `saved_as` that in the download's own
    folder. `sha256` is what the hub says (empty: it says none), `etag` that of the content
    that the partial file holds. `mtime_ns` is set once the whole file is there and was fetched
    by us; it stays None for one that was there already.
    """

    name: str
    size_bytes: int
    sha256: str = ""
    saved_as: str = ""
    etag: str = ""
    done_bytes: int = 0
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """An entry of the download queue: the files of one GGUF, of one revision of a repository.

    `revision` is a commit, `folder` an absolute path. `error` is the sentence for the user
    where it failed or waits; `attempts` counts failures without progress between them;
    `retry_at` is when a waiting one goes on.
    """

    id: str
    endpoint: str
    repo_id: str
    revision: str
    folder: str
    files: tuple[DownloadFile, ...]
    added_at: datetime
    state: DownloadState = DownloadState.QUEUED
    error: str = ""
    attempts: int = 0
    retry_at: datetime | None = None
    finished_at: datetime | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class LocalFile:
    """What was found out about a weights file on this machine.

    It holds while the file's size, time and inode are these. `sha256` is empty as long as it was
    not computed; `facts` is what the header says, as `reader` read it (empty: not read).
    """

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    seen_at: datetime
    sha256: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    reader: str = ""


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

    `snippet` is plain text around the first match, on one line; `marks` are the places
    (start, end) in it that were searched for.
    """

    conversation_id: str
    conversation_title: str
    created_at: datetime
    message_id: str | None = None
    role: Role | None = None
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    in_reasoning: bool = False
    is_archived: bool = False
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Hits, newest first; a later page begins below `next_below` (None: there is none).

    `problems` are sentences about filters that make no sense.
    """

    hits: tuple[SearchHit, ...] = ()
    next_below: int | None = None
    has_more_titles: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PathStretch:
    """A part of a path: from below `above_id` (None: from the root) down to `leaf_id`.

    `key` is a uuid made for the one act of copying it.
    """

    leaf_id: str
    above_id: str | None
    key: str


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A message as the map of its conversation shows it: the beginning of its text."""

    id: str
    parent_id: str | None
    role: Role
    state: MessageState
    excerpt: str
    created_at: datetime
    trashed_at: datetime | None = None
    weights_name: str | None = None
    is_pinned: bool = False
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class Trashed:
    """What deleting left: the leaf to show (None: no message), and the first of the copies that
    took the deleted message's place."""

    leaf_id: str | None
    instead_id: str | None = None


@dataclass(frozen=True, slots=True)
class TrashedBranch:
    """A deleted message, with how many were deleted together with it (itself included)."""

    id: str
    conversation_id: str
    conversation_title: str
    role: Role
    excerpt: str
    trashed_at: datetime
    n_messages: int


@dataclass(frozen=True, slots=True)
class WholeConversation:
    """A conversation with its whole tree, parents before children, as it is exported.

    Its messages have their rendered prompts and attachments; `traces` are by message;
    `draft_attachments` go with the draft; `files` are the bytes of attachments, by their ids.
    `has_only_text`: of a file that does not tell how the messages were made, so what it does not
    tell is not compared. `is_brought`: out of another app; its ids are made of that app's, so what
    is stored under them is it, and only what isn't is added (`models.conversations.exchange`).
    """

    conversation: Conversation
    messages: tuple[Message, ...] = ()
    traces: dict[str, bytes] = field(default_factory=dict)
    draft_attachments: tuple[Attachment, ...] = ()
    files: Mapping[str, File] = field(default_factory=dict)
    has_only_text: bool = False
    is_brought: bool = False


class Whereabouts(StrEnum):
    """What the store has of a conversation that is to be imported: nothing; all of it; something
    else under one of its ids; or the beginning of it, which more is added to."""

    NEW = "new"
    THERE = "there"
    OTHER = "other"
    MORE = "more"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup of the whole database. why: daily, by_hand, migration or restore (before one)."""

    path: str
    made_at: datetime
    size_bytes: int
    why: str = "daily"


@dataclass(frozen=True, slots=True)
class BackupList:
    """`folder`: where they lie; `restores_at`: which one the next start restores, by its time."""

    folder: str
    backups: tuple[BackupFile, ...] = ()
    restores_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChatInBackup:
    id: str
    title: str
    updated_at: datetime
    n_messages: int


@dataclass(frozen=True, slots=True)
class BackupLooked:
    """What is in a backup. `chats`: the newest first, at most some thousand; `why_not`: why it
    cannot be used, in a sentence, with nothing else known then."""

    n_chats: int = 0
    n_messages: int = 0
    chats: tuple[ChatInBackup, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: ids of the conversations added, how many of them under new ids, and
    how many were there already; `grown`: ids of those there that have more messages now;
    `presets`: names of those that were asked for and are new."""

    ids: tuple[str, ...] = ()
    renamed: int = 0
    there: int = 0
    grown: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
