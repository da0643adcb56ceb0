"""The chat that was open last, read with the standard library alone, before SQLAlchemy is there.

A window can show it half a second sooner so. Only what is surely the same as the store will say
is told; whatever is out of the ordinary (another version of the database, a lock, damage, a
reply that was cut off, a document) is nothing here, and the store has the first word.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from models.conversations.tag_names import tidied
from models.mapping import attached_to, attachment_from, conversation_from, message_from
from models.records import Attachment, Conversation, ConversationKind, Message, MessageState
from models.store.plain import HEAD_REVISION, PATH_SQL

NEWEST: Final = 40
"""More messages than a screen holds; the store brings the others."""
LONGEST: Final = 1_000_000
"""Characters: laying out a longer message takes longer than what is won."""
_BUSY_S: Final = 0.05

Peeked = tuple[Conversation, tuple[Message, ...]]


def last_chat(data_dir: Path) -> Peeked | None:
    """The conversation and the last messages of its active path, or None."""
    folder = data_dir / "db"
    path = folder / "cutaway.sqlite3"
    if (folder / "suspect").exists() or not path.is_file():
        return None
    address = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as raw:
            raw.row_factory = sqlite3.Row
            raw.text_factory = partial(str, encoding="utf-8", errors="replace")
            return _read(raw)
    except (sqlite3.Error, OSError, ValueError, RecursionError):
        return None


def _read(raw: sqlite3.Connection) -> Peeked | None:
    raw.execute("BEGIN")  # all questions of one moment
    revisions = [row[0] for row in raw.execute("SELECT version_num FROM alembic_version")]
    if revisions != [HEAD_REVISION]:
        return None
    stored = raw.execute("SELECT value FROM setting WHERE name = 'last_conversation_id'").fetchone()
    last_id = json.loads(stored[0]) if stored else None
    row = raw.execute(
        "SELECT * FROM conversation WHERE id = ? AND trashed_us IS NULL", (last_id,)
    ).fetchone()
    if row is None or row["kind"] != ConversationKind.CHAT:
        return None
    leaf = raw.execute(
        "SELECT row_id FROM message"
        " WHERE id = ? AND conversation_row_id = ? AND trashed_us IS NULL",
        (row["active_leaf_id"], row["row_id"]),
    ).fetchone()
    if leaf is None:
        return None
    messages = _path(raw, row["id"], leaf["row_id"])
    if any(_is_extraordinary(message) for message in messages):
        return None
    tags = [
        name
        for (name,) in raw.execute(
            "SELECT name FROM conversation_tag WHERE conversation_row_id = ?", (row["row_id"],)
        )
    ]
    return conversation_from(_named(row), tidied(tags)), _with_attachments(raw, row["id"], messages)


def _path(raw: sqlite3.Connection, conversation_id: str, leaf: int) -> tuple[Message, ...]:
    rows = raw.execute(PATH_SQL, {"leaf": leaf, "bound": NEWEST}).fetchall()
    rows.sort(key=lambda row: -row["height"])
    above = raw.execute(
        "SELECT id FROM message WHERE row_id = (SELECT parent_row_id FROM message WHERE id = ?)",
        (rows[0]["id"],),
    ).fetchone()
    parent_id, messages = above["id"] if above else None, list[Message]()
    for row in rows:
        index, count = row["sibling_index"], row["sibling_count"]
        messages.append(message_from(tuple(row), conversation_id, parent_id, index, count))
        parent_id = messages[-1].id
    return tuple(messages)


def _is_extraordinary(message: Message) -> bool:
    return (
        message.trashed_at is not None
        or message.state in (MessageState.STREAMING, MessageState.UNREADABLE)
        or len(message.content) + len(message.reasoning) > LONGEST
    )


def _with_attachments(
    raw: sqlite3.Connection, conversation_id: str, messages: tuple[Message, ...]
) -> tuple[Message, ...]:
    attached: dict[str, list[Attachment]] = {}
    for row in raw.execute(
        "SELECT a.*, m.id AS message_id, ? AS conversation_id FROM attachment AS a"
        " JOIN message AS m ON m.row_id = a.message_row_id"
        f" WHERE m.id IN ({', '.join('?' * len(messages))}) ORDER BY a.position, a.row_id",
        (conversation_id, *(message.id for message in messages)),
    ):
        attached.setdefault(row["message_id"], []).append(attachment_from(_named(row)))
    return attached_to(messages, attached)


def _named(row: sqlite3.Row) -> Any:
    """A row whose columns are attributes, as SQLAlchemy's are."""
    return SimpleNamespace(**dict(row))
