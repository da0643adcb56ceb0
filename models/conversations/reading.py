"""Questions asked of the database. They run on a database thread, in a transaction of its.

Paths are walked by SQLite: one recursive query per question, however long the path is. Each
recursion is bounded by the number of messages there are, so that a damaged tree (a message
that is its own ancestor) ends too.

Messages that were deleted are on no path and no version of anything; asked for by its id
(`load_message`) each is still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select, text

from models.conversations import attachments
from models.conversations.tags import conversation_of, conversations_of
from models.mapping import message_from
from models.records import Conversation, Message
from models.rows import conversation_row, message_row
from models.store.errors import NotFoundError
from models.store.plain import MESSAGE_COLUMNS, PATH_SQL
from models.tables import (
    STAGED_US,
    ConversationRow,
    MessageRow,
    TokenTraceRow,
)

_PATH = text(PATH_SQL)

_ONE = text(
    f"""
    SELECT {", ".join(f"m.{name}" for name in MESSAGE_COLUMNS)}, m.rendered_prompt,
        (SELECT id FROM conversation WHERE row_id = m.conversation_row_id),
        (SELECT id FROM message WHERE row_id = m.parent_row_id),
        (SELECT count(*) FROM message AS s WHERE s.conversation_row_id = m.conversation_row_id
            AND s.parent_row_id IS m.parent_row_id AND s.trashed_us IS NULL
            AND s.row_id < m.row_id),
        (SELECT count(*) FROM message AS s WHERE s.conversation_row_id = m.conversation_row_id
            AND s.parent_row_id IS m.parent_row_id AND s.trashed_us IS NULL)
    FROM message AS m WHERE m.id = :id
    """
)

_LEAF_BELOW = text(
    """
    WITH RECURSIVE below(row_id) AS (
        SELECT :top
        UNION ALL
        SELECT (SELECT max(m.row_id) FROM message AS m
            WHERE m.parent_row_id = below.row_id AND m.trashed_us IS NULL)
        FROM below WHERE below.row_id IS NOT NULL
        LIMIT :bound
    )
    SELECT row_id FROM below WHERE row_id IS NOT NULL
    """
)

_LIVING_ANCESTOR = text(
    """
    WITH RECURSIVE path(row_id, parent_row_id, trashed_us) AS (
        SELECT row_id, parent_row_id, trashed_us FROM message WHERE row_id = :leaf
        UNION ALL
        SELECT m.row_id, m.parent_row_id, m.trashed_us
        FROM path JOIN message AS m ON m.row_id = path.parent_row_id
        WHERE path.trashed_us IS NOT NULL
        LIMIT :bound
    )
    SELECT row_id FROM path WHERE trashed_us IS NULL
    """
)
_NEWEST_ALIVE = text(
    """
    SELECT max(row_id) FROM message
    WHERE conversation_row_id = :conversation AND trashed_us IS NULL
    """
)
_NEWEST_VERSION = text(
    """
    SELECT max(row_id) FROM message
    WHERE conversation_row_id = :conversation AND parent_row_id IS :parent AND trashed_us IS NULL
    """
)

_COLUMNS = [MessageRow.__table__.columns[name] for name in MESSAGE_COLUMNS]

_LISTED = (
    select(*ConversationRow.__table__.columns)
    .where(ConversationRow.trashed_us.is_(None))
    .order_by(
        ConversationRow.is_pinned.desc(),
        ConversationRow.updated_us.desc(),
        ConversationRow.row_id.desc(),
    )
)
_LEAF = select(MessageRow.row_id, MessageRow.trashed_us).where(
    MessageRow.id == bindparam("leaf"), MessageRow.conversation_row_id == bindparam("conversation")
)
_LAST_ROW = select(func.max(MessageRow.row_id))

_TRASHED = MESSAGE_COLUMNS.index("trashed_us")

# --- conversations ----------------------------------------------------------------------------


def list_conversations(connection: Connection) -> tuple[Conversation, ...]:
    """All that are not in the trash: pinned first, then the newest activity."""
    return conversations_of(connection, connection.execute(_LISTED).all())


def list_trash(connection: Connection) -> tuple[Conversation, ...]:
    """What is in the trash, the last thrown away first."""
    rows = connection.execute(
        select(*ConversationRow.__table__.columns)
        .where(ConversationRow.trashed_us > STAGED_US)
        .order_by(ConversationRow.trashed_us.desc(), ConversationRow.row_id.desc())
    )
    return conversations_of(connection, rows.all())


def load_conversation(
    connection: Connection, conversation_id: str, newest: int | None = None
) -> tuple[Conversation, tuple[Message, ...]]:
    """The conversation and its active path, root first; NotFoundError.

    newest: only so many of its last messages; `load_above` has those before. The path is whole if
    its first message has no parent. `rendered_prompt` is None in these messages (it may be large):
    `load_message` has it. A leaf that is missing or of another conversation: the newest message
    is taken.
    """
    row = conversation_row(connection, conversation_id)
    leaf_row = _living_leaf_row(connection, row)
    return conversation_of(connection, row), _path(connection, conversation_id, leaf_row, newest)


# --- the tree ---------------------------------------------------------------------------------


def load_path(connection: Connection, conversation_id: str, leaf_id: str) -> tuple[Message, ...]:
    """From the root to that message, both included."""
    conversation = conversation_row(connection, conversation_id)
    leaf = message_row(connection, leaf_id)
    if leaf.conversation_row_id != conversation.row_id:
        raise NotFoundError("This message is not in that conversation.")
    return _path(connection, conversation_id, leaf.row_id)


def load_above(
    connection: Connection, conversation_id: str, message_id: str, newest: int
) -> tuple[Message, ...]:
    """The last `newest` messages of the path that ends above this message, root first."""
    row = message_row(connection, message_id)
    return _path(connection, conversation_id, row.parent_row_id, newest)


def siblings(connection: Connection, message_id: str) -> tuple[Message, ...]:
    """All versions under the same parent, that one included, oldest first."""
    row = message_row(connection, message_id)
    versions = connection.execute(
        select(*_COLUMNS)
        .where(
            MessageRow.conversation_row_id == row.conversation_row_id,
            MessageRow.parent_row_id.is_not_distinct_from(row.parent_row_id),
            MessageRow.trashed_us.is_(None),
        )
        .order_by(MessageRow.row_id)
    ).all()
    conversation_id, parent_id = _names_of(connection, row.conversation_row_id, row.parent_row_id)
    messages = tuple(
        message_from(version, conversation_id, parent_id, index, len(versions))
        for index, version in enumerate(versions)
    )
    return attachments.with_attachments(connection, conversation_id, messages)


def leaf_below(connection: Connection, message_id: str) -> str:
    """The newest message under that one that has no children (or itself)."""
    top = message_row(connection, message_id)
    leaf_row = _leaf_row_below(connection, top.conversation_row_id, top.row_id)
    return str(connection.scalar(select(MessageRow.id).where(MessageRow.row_id == leaf_row)))


def is_there(connection: Connection, message_id: str) -> bool:
    """Whether there is such a message, and it is not deleted."""
    found = connection.scalar(
        select(MessageRow.row_id).where(
            MessageRow.id == message_id, MessageRow.trashed_us.is_(None)
        )
    )
    return found is not None


def living_leaf(connection: Connection, conversation: Row[Any]) -> str | None:
    """The last message of the path that is shown."""
    row_id = _living_leaf_row(connection, conversation)
    return connection.scalar(select(MessageRow.id).where(MessageRow.row_id == row_id))


def living_above(connection: Connection, message_id: str) -> str | None:
    """The message, or where it is deleted the nearest one above it that is not."""
    row = message_row(connection, message_id)
    bound = message_count(connection, row.conversation_row_id) + 1
    above = connection.scalar(_LIVING_ANCESTOR, {"leaf": row.row_id, "bound": bound})
    return connection.scalar(select(MessageRow.id).where(MessageRow.row_id == above))


def _living_leaf_row(connection: Connection, conversation: Row[Any]) -> int | None:
    """Where the active leaf was deleted: the newest living one below what is left above it."""
    within = {"conversation": conversation.row_id}
    leaf = connection.execute(_LEAF, within | {"leaf": conversation.active_leaf_id}).one_or_none()
    if leaf is None:
        alive: int | None = connection.scalar(_NEWEST_ALIVE, within)
        return alive
    if leaf.trashed_us is None:
        return int(leaf.row_id)
    bound = message_count(connection, conversation.row_id) + 1
    above: int | None = connection.scalar(_LIVING_ANCESTOR, {"leaf": leaf.row_id, "bound": bound})
    newest = connection.scalar(_NEWEST_VERSION, within | {"parent": above})
    return above if newest is None else _leaf_row_below(connection, conversation.row_id, newest)


def _leaf_row_below(connection: Connection, conversation_row_id: int, row_id: int) -> int:
    bound = message_count(connection, conversation_row_id) + 1
    rows = connection.execute(_LEAF_BELOW, {"top": row_id, "bound": bound}).scalars().all()
    return int(rows[-1])


def load_message(connection: Connection, message_id: str) -> Message:
    """One message with everything, `rendered_prompt` too; NotFoundError."""
    row = connection.execute(_ONE, {"id": message_id}).one_or_none()
    if row is None:
        raise NotFoundError("This message was deleted.")
    prompt, conversation_id, parent_id, index, n_versions = row[len(MESSAGE_COLUMNS) :]
    count = max(n_versions, index + 1)  # a deleted one is not among them
    message = message_from(row, conversation_id or "", parent_id, index, count, prompt)
    return attachments.with_attachments(connection, message.conversation_id, (message,))[0]


def message_count(connection: Connection, conversation_row_id: int) -> int:
    return (
        connection.scalar(
            select(func.count()).where(MessageRow.conversation_row_id == conversation_row_id)
        )
        or 0
    )


def _path(
    connection: Connection,
    conversation_id: str,
    leaf_row_id: int | None,
    newest: int | None = None,
) -> tuple[Message, ...]:
    """From the root to that message, or the last `newest` of it."""
    if leaf_row_id is None:
        return ()
    # No path is longer, and unlike the count this is known without looking at every message.
    bound = newest or connection.scalar(_LAST_ROW)
    rows = connection.execute(_PATH, {"leaf": leaf_row_id, "bound": bound}).all()
    # Sorted here: SQLite would copy every text into a temporary table to sort.
    rows = sorted(rows, key=lambda row: -row[-1])
    above = _id_above(connection, rows[0][0]) if newest and rows else None
    messages = _records_along(rows, conversation_id, above)
    return attachments.with_attachments(connection, conversation_id, messages)


def _id_above(connection: Connection, message_id: str) -> str | None:
    """The message's parent."""
    parent_row_id = message_row(connection, message_id).parent_row_id
    return connection.scalar(select(MessageRow.id).where(MessageRow.row_id == parent_row_id))


def _records_along(
    rows: Sequence[Sequence[Any]], conversation_id: str, parent_id: str | None
) -> tuple[Message, ...]:
    """Each row's parent is the one before it. What follows a deleted one is deleted too."""
    messages: list[Message] = []
    for row in rows:
        if row[_TRASHED] is not None:
            break
        sibling_index, sibling_count, _height = row[-3:]
        messages.append(message_from(row, conversation_id, parent_id, sibling_index, sibling_count))
        parent_id = messages[-1].id
    return tuple(messages)


def _names_of(
    connection: Connection, conversation_row_id: int, parent_row_id: int | None
) -> tuple[str, str | None]:
    """The uuids of a message's conversation and parent."""
    conversation_id = connection.scalar(
        select(ConversationRow.id).where(ConversationRow.row_id == conversation_row_id)
    )
    parent_id = connection.scalar(select(MessageRow.id).where(MessageRow.row_id == parent_row_id))
    return conversation_id or "", parent_id


# --- settings, traces ---------------------------------------------------------------------------


def load_trace(connection: Connection, message_id: str) -> bytes | None:
    return connection.scalar(
        select(TokenTraceRow.blob)
        .join(MessageRow, MessageRow.row_id == TokenTraceRow.message_row_id)
        .where(MessageRow.id == message_id)
    )
