"""The tables. Only plain SQLite types here: `models.mapping` turns rows into records.

Enumerations, JSON and times are kept as text and integers on purpose. A column type that
converts would raise on a row it cannot convert, and one bad row would hide a whole chat.

* Times are integers: microseconds since 1970 in UTC.
* `id` is the uuid that leaves this package; `row_id` the integer that rows refer to each
  other by. It grows with time and is never used twice, so it also orders siblings.
* `conversation.active_leaf_id`, `copied_from`, `folder_id` and `folder.parent_id` are no
  foreign keys: one that leads nowhere means "the newest" or "none".
* `conversation.trashed_us` is `STAGED_US` while an import is adding it
  (`models.conversations.importing`).
* `message.trashed_us` is set on every message of a subtree that was deleted, to the same time.
* Whatever is changed here is changed by a migration too; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, MetaData, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

STAGED_US = 1
"""A microsecond after 1970: no time at which anybody deletes anything."""

IS_STREAMING = text("state = 'streaming'")
IS_TRASHED = text("trashed_us IS NOT NULL")
"""Spelled out, since SQLite takes a partial index only for a condition it can compare."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class ConversationRow(Base):
    __tablename__ = "conversation"
    __table_args__ = ({"sqlite_autoincrement": True},)

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str]
    kind: Mapped[str]
    created_us: Mapped[int]
    updated_us: Mapped[int] = mapped_column(index=True)
    trashed_us: Mapped[int | None]
    is_pinned: Mapped[bool]
    is_archived: Mapped[bool]
    is_titled_by_user: Mapped[bool]
    folder_id: Mapped[str | None]
    preset_id: Mapped[str | None]
    weights_path: Mapped[str | None]
    active_leaf_id: Mapped[str | None]
    system_prompt: Mapped[str]
    draft: Mapped[str]
    settings: Mapped[str | None]
    """JSON object of what this conversation sets otherwise, or None for {}."""
    copied_from: Mapped[str | None]
    """The message that a branch into a conversation of its own was made at."""


class FolderRow(Base):
    __tablename__ = "folder"
    __table_args__ = ({"sqlite_autoincrement": True},)

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    parent_id: Mapped[str | None]
    position: Mapped[int]
    created_us: Mapped[int]


class MessageRow(Base):
    """A node of a conversation's tree.

    The rendered prompt stands last, compressed: SQLite then reads the other columns without
    walking through its overflow pages.
    """

    __tablename__ = "message"
    __table_args__ = (
        Index("ix_message_tree", "conversation_row_id", "parent_row_id", "trashed_us"),
        Index("ix_message_trashed", "trashed_us", sqlite_where=IS_TRASHED),
        Index("ix_message_streaming", "state", sqlite_where=IS_STREAMING),
        {"sqlite_autoincrement": True},
    )

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    conversation_row_id: Mapped[int] = mapped_column(
        ForeignKey("conversation.row_id", ondelete="CASCADE")
    )
    # Deferred, and without CASCADE: deleting a path of 10,000 messages by cascade would go
    # deeper than SQLite's triggers may.
    parent_row_id: Mapped[int | None] = mapped_column(
        ForeignKey("message.row_id", deferrable=True, initially="DEFERRED"), index=True
    )
    role: Mapped[str]
    state: Mapped[str]
    created_us: Mapped[int]
    is_pinned: Mapped[bool]
    trashed_us: Mapped[int | None]
    stop_reason: Mapped[str | None]
    error: Mapped[str | None]
    seed: Mapped[int | None]
    weights_name: Mapped[str | None]
    weights_hash: Mapped[str | None]
    settings: Mapped[str | None]
    """JSON object, or None for {}."""
    counts: Mapped[str | None]
    """JSON object of the measured ones, or None."""
    content: Mapped[str]
    reasoning: Mapped[str]
    token_ids: Mapped[bytes | None]
    """int32, little endian."""
    rendered_prompt: Mapped[bytes | None]
    """zlib over UTF-8."""


class TokenTraceRow(Base):
    __tablename__ = "token_trace"

    message_row_id: Mapped[int] = mapped_column(
        ForeignKey("message.row_id", ondelete="CASCADE"), primary_key=True
    )
    blob: Mapped[bytes]


class AttachmentRow(Base):
    """What goes along with a message, or still with the draft (no message)."""

    __tablename__ = "attachment"
    __table_args__ = ({"sqlite_autoincrement": True},)

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    conversation_row_id: Mapped[int] = mapped_column(
        ForeignKey("conversation.row_id", ondelete="CASCADE"), index=True
    )
    message_row_id: Mapped[int | None] = mapped_column(
        ForeignKey("message.row_id", ondelete="CASCADE"), index=True
    )
    name: Mapped[str]
    size_bytes: Mapped[int]
    tokens: Mapped[int | None]
    position: Mapped[int]
    created_us: Mapped[int]
    text: Mapped[str]
    kind: Mapped[str] = mapped_column(server_default="text")
    details: Mapped[str | None]
    """JSON object of what belongs to its kind, or None for {}."""


class AttachmentDataRow(Base):
    """The bytes of a picture, a sound or a file kept. Apart, as no list of messages needs them."""

    __tablename__ = "attachment_data"

    attachment_row_id: Mapped[int] = mapped_column(
        ForeignKey("attachment.row_id", ondelete="CASCADE"), primary_key=True
    )
    media_type: Mapped[str]
    blob: Mapped[bytes]


class ConversationTagRow(Base):
    """A tag is there as long as a conversation has it."""

    __tablename__ = "conversation_tag"

    conversation_row_id: Mapped[int] = mapped_column(
        ForeignKey("conversation.row_id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(primary_key=True, index=True)


class PresetRow(Base):
    __tablename__ = "preset"
    __table_args__ = ({"sqlite_autoincrement": True},)

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    value: Mapped[str]
    """JSON object."""
    position: Mapped[int]
    created_us: Mapped[int]
    updated_us: Mapped[int]


class WeightsRow(Base):
    __tablename__ = "weights"

    path: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    size_bytes: Mapped[int]
    last_used_us: Mapped[int | None]
    fast_hash: Mapped[str | None]
    sha256: Mapped[str | None]
    settings: Mapped[str | None]
    """JSON object of what is set otherwise for these weights, or None for {}."""


class DownloadRow(Base):
    """An entry of the download queue."""

    __tablename__ = "download"
    __table_args__ = ({"sqlite_autoincrement": True},)

    row_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str]
    endpoint: Mapped[str]
    repo_id: Mapped[str]
    revision: Mapped[str]
    folder: Mapped[str]
    files: Mapped[str]
    """JSON array of objects."""
    error: Mapped[str]
    attempts: Mapped[int]
    position: Mapped[int]
    added_us: Mapped[int]
    retry_us: Mapped[int | None]
    finished_us: Mapped[int | None]


class LocalFileRow(Base):
    """What was found out about a weights file on this machine, valid while size, time and inode
    are the same."""

    __tablename__ = "local_file"

    path: Mapped[str] = mapped_column(primary_key=True)
    size_bytes: Mapped[int]
    mtime_ns: Mapped[int]
    inode: Mapped[str]
    """As text: some file systems have numbers of 64 bits without a sign, and more."""
    sha256: Mapped[str | None]
    facts: Mapped[str | None]
    """JSON object of what the header says."""
    reader: Mapped[str]
    """Which version of the header's reader said so."""
    seen_us: Mapped[int]


class SettingRow(Base):
    __tablename__ = "setting"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]
    """JSON."""
