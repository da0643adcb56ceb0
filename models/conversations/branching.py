"""Changes of a conversation's shape: copied stretches of a path, deleted subtrees, and its map.

What must hold:

* Nothing is moved and nothing overwritten: whatever changes a path's middle copies what follows.
* A copy's id is made of the act's key and the source's id, so that an act that is done twice
  (see `models.conversations.writing`) adds nothing twice.
* Deleting marks a whole subtree with one time that no other act has, so that restoring brings
  back what that act took, and what was deleted before it stays deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, select, text, update

from models.conversations import attachments, reading, trash, writing
from models.mapping import from_us, is_summary
from models.records import (
    Conversation,
    Message,
    MessageState,
    PathStretch,
    Role,
    Trashed,
    TrashedBranch,
    TreeNode,
)
from models.rows import conversation_row, message_row
from models.store.errors import NotFoundError, RefusedError
from models.tables import STAGED_US, AttachmentRow, ConversationRow, MessageRow

EXCERPT_CHARS = 200
_ROLES: dict[Any, Role] = {role.value: role for role in Role}
_STATES: dict[Any, MessageState] = {state.value: state for state in MessageState}

_COPIED = [
    column.name
    for column in MessageRow.__table__.columns
    if column.name
    not in ("row_id", "id", "conversation_row_id", "parent_row_id", "state", "trashed_us")
]

_UP = text(
    """
    WITH RECURSIVE up(row_id, parent_row_id, height) AS (
        SELECT row_id, parent_row_id, 0 FROM message WHERE row_id = :leaf
        UNION ALL
        SELECT m.row_id, m.parent_row_id, up.height + 1
        FROM up JOIN message AS m ON m.row_id = up.parent_row_id
        WHERE up.parent_row_id IS NOT :above
        LIMIT :bound
    )
    SELECT m.row_id, m.id, m.parent_row_id, up.height
    FROM up JOIN message AS m ON m.row_id = up.row_id
    """
)

_LAST_ROW_ID = text("SELECT seq FROM sqlite_sequence WHERE name = 'message'")

_COPY = text(
    f"""
    INSERT INTO message
        (row_id, id, conversation_row_id, parent_row_id, state, {", ".join(_COPIED)})
    SELECT :copy, :id, :conversation, :parent,
        CASE state WHEN 'streaming' THEN 'interrupted' ELSE state END, {", ".join(_COPIED)}
    FROM message WHERE row_id = :source
    """
)

_COPY_TRACE = text(
    """
    INSERT INTO token_trace (message_row_id, blob)
    SELECT :copy, blob FROM token_trace WHERE message_row_id = :source
    ON CONFLICT (message_row_id) DO NOTHING
    """
)

_COPY_ATTACHMENT = text(
    """
    INSERT INTO attachment
        (id, conversation_row_id, message_row_id, name, text, size_bytes, tokens, position,
        created_us, kind, details)
    SELECT :id, :conversation, :copy, name, text, size_bytes, tokens, position, created_us, kind,
        details
    FROM attachment WHERE id = :source
    """
)

_BELOW = """
    WITH RECURSIVE below(row_id) AS (
        SELECT :top
        UNION
        SELECT m.row_id FROM below JOIN message AS m ON m.parent_row_id = below.row_id
    )
"""

_TRASH = text(
    f"""
    {_BELOW}
    UPDATE message SET trashed_us = :time
    WHERE trashed_us IS NULL AND row_id IN (SELECT row_id FROM below)
    """
)

_RESTORE = text(
    f"""
    {_BELOW}
    UPDATE message SET trashed_us = NULL
    WHERE trashed_us = :time AND row_id IN (SELECT row_id FROM below)
    """
)

_TREE = text(
    f"""
    SELECT m.id, p.id, m.role, m.state, substr(m.content, 1, {EXCERPT_CHARS}), m.created_us,
        m.trashed_us, m.weights_name, m.is_pinned,
        CASE m.role WHEN 'system' THEN m.settings END
    FROM message AS m LEFT JOIN message AS p ON p.row_id = m.parent_row_id
    WHERE m.conversation_row_id = :conversation
    ORDER BY m.row_id
    """
)

_TRASHED = text(
    f"""
    SELECT m.id, c.id, c.title, m.role, substr(m.content, 1, {EXCERPT_CHARS}), m.trashed_us,
        (SELECT count(*) FROM message AS t WHERE t.trashed_us = m.trashed_us
            AND t.conversation_row_id = m.conversation_row_id)
    FROM message AS m
    JOIN conversation AS c ON c.row_id = m.conversation_row_id
    LEFT JOIN message AS p ON p.row_id = m.parent_row_id
    WHERE m.trashed_us > {STAGED_US} AND m.trashed_us IS NOT p.trashed_us AND c.trashed_us IS NULL
    ORDER BY m.trashed_us DESC
    """
)

# --- copies -----------------------------------------------------------------------------------


def add_branch(connection: Connection, message: Message, following: PathStretch | None) -> str:
    """A message, and below it copies of a stretch. The last of them is the active leaf; its id.

    Where what it is to hang on was deleted meanwhile, it hangs on what is left above that.
    """
    if message.parent_id is not None:
        message = replace(message, parent_id=reading.living_above(connection, message.parent_id))
    writing.append_message(connection, message)
    leaf_id = message.id
    if following is not None:
        row_id = conversation_row(connection, message.conversation_id).row_id
        copies = _copy(connection, following, row_id, leaf_id)
        leaf_id = copies[-1] if copies else leaf_id
    writing.set_active_leaf(connection, message.conversation_id, leaf_id)
    return leaf_id


def copy_conversation(
    connection: Connection, conversation: Conversation, path: PathStretch
) -> Conversation:
    """A new conversation with a copy of a path of another one."""
    writing.create_conversation(connection, conversation)
    row = conversation_row(connection, conversation.id)
    copies = _copy(connection, path, row.row_id, None)
    leaf_id = copies[-1] if copies else None
    return writing.update_conversation(connection, conversation.id, active_leaf_id=leaf_id)


def _copy(
    connection: Connection, stretch: PathStretch, conversation_row_id: int, parent_id: str | None
) -> list[str]:
    """Copy a stretch below a message; the copies' ids, from above."""
    sources = _rows_of(connection, stretch)
    copies = [_id_of_copy(stretch, source.id) for source in sources]
    if not copies or _has_row(connection, copies[0]):  # done before, as a whole
        return copies
    parent = None if parent_id is None else message_row(connection, parent_id).row_id
    first = (connection.scalar(_LAST_ROW_ID) or 0) + 1
    values = [
        {
            "copy": first + place,
            "id": copy_id,
            "conversation": conversation_row_id,
            "parent": first + place - 1 if place else parent,
            "source": source.row_id,
        }
        for place, (source, copy_id) in enumerate(zip(sources, copies, strict=True))
    ]
    connection.execute(_COPY, values)
    connection.execute(_COPY_TRACE, values)
    _copy_attachments(connection, stretch, {v["source"]: v for v in values})
    return copies


def _copy_attachments(
    connection: Connection, stretch: PathStretch, values_of: dict[Any, dict[str, Any]]
) -> None:
    conversation = select(MessageRow.conversation_row_id).where(MessageRow.id == stretch.leaf_id)
    attached = connection.execute(
        select(AttachmentRow.id, AttachmentRow.message_row_id).where(
            AttachmentRow.conversation_row_id == conversation.scalar_subquery(),
            AttachmentRow.message_row_id.is_not(None),
        )
    ).all()
    for attachment in attached:
        if attachment.message_row_id in values_of:
            values = values_of[attachment.message_row_id]
            ids = {"id": _id_of_copy(stretch, attachment.id), "source": attachment.id}
            connection.execute(_COPY_ATTACHMENT, values | ids)
            attachments.copy_file(connection, attachment.id, ids["id"])


def _is_copied(connection: Connection, stretch: PathStretch) -> bool:
    sources = _rows_of(connection, stretch)
    return bool(sources) and _has_row(connection, _id_of_copy(stretch, sources[0].id))


def _has_row(connection: Connection, message_id: str) -> bool:
    found = connection.scalar(select(MessageRow.row_id).where(MessageRow.id == message_id))
    return found is not None


def _id_of_copy(stretch: PathStretch, source_id: str) -> str:
    return str(uuid.uuid5(uuid.UUID(stretch.key), source_id))


def _rows_of(connection: Connection, stretch: PathStretch) -> list[Row[int, str, int | None, int]]:
    """The stretch's messages, the uppermost first."""
    leaf = message_row(connection, stretch.leaf_id)
    above = None
    if stretch.above_id is not None:
        above = message_row(connection, stretch.above_id).row_id
    if leaf.row_id == above:
        return []
    bound = connection.scalar(select(func.max(MessageRow.row_id)))
    rows = connection.execute(_UP, {"leaf": leaf.row_id, "above": above, "bound": bound}).all()
    rows = sorted(rows, key=lambda row: -row[-1])
    if rows[0].parent_row_id != above:
        raise RefusedError("This message does not stand above that one.")
    return rows


# --- deleting ---------------------------------------------------------------------------------


def trash_branch(
    connection: Connection, message_id: str, following: PathStretch | None = None
) -> Trashed:
    """Delete a message with all below it; `following` is copied into its place first.

    Where the active path led through it and nothing took its place, the version beside it is
    shown, else what is above.
    """
    top = message_row(connection, message_id)
    conversation = connection.execute(
        select(ConversationRow.id, ConversationRow.active_leaf_id).where(
            ConversationRow.row_id == top.conversation_row_id
        )
    ).one()
    leaf_id, copies = conversation.active_leaf_id, list[str]()
    is_first = reading.is_there(connection, message_id)
    if following is not None and (is_first or _is_copied(connection, following)):
        parent_id = connection.scalar(
            select(MessageRow.id).where(MessageRow.row_id == top.parent_row_id)
        )
        copies = _copy(connection, following, top.conversation_row_id, parent_id)
        leaf_id = copies[-1] if copies else leaf_id
    latest = connection.scalar(select(func.max(MessageRow.trashed_us))) or 0
    time = max(trash.time_us(connection), latest + 1)
    connection.execute(_TRASH, {"top": top.row_id, "time": time})
    if leaf_id is None or not reading.is_there(connection, leaf_id):
        if is_first:
            leaf_id = _leaf_beside(connection, top)
        else:
            row = conversation_row(connection, conversation.id)
            leaf_id = reading.living_leaf(connection, row)
    writing.set_active_leaf(connection, conversation.id, leaf_id)
    return Trashed(leaf_id, copies[0] if copies else None)


def restore_branch(connection: Connection, message_id: str) -> str:
    """Bring back what was deleted with a message, and show it; the active leaf then.

    What stands above it is there again too: without it nothing leads there.
    """
    row = connection.execute(
        select(MessageRow.row_id, MessageRow.conversation_row_id, MessageRow.trashed_us).where(
            MessageRow.id == message_id
        )
    ).one_or_none()
    if row is None:
        raise NotFoundError("This message was deleted.")
    connection.execute(_RESTORE, {"top": row.row_id, "time": row.trashed_us})
    bound = connection.scalar(select(func.max(MessageRow.row_id)))
    above = connection.execute(_UP, {"leaf": row.row_id, "above": None, "bound": bound}).all()
    connection.execute(
        update(MessageRow)
        .where(MessageRow.row_id == bindparam("above"), MessageRow.trashed_us.is_not(None))
        .values(trashed_us=None),
        [{"above": each.row_id} for each in above],
    )
    leaf_id = reading.leaf_below(connection, message_id)
    conversation_id = connection.scalar(
        select(ConversationRow.id).where(ConversationRow.row_id == row.conversation_row_id)
    )
    assert conversation_id is not None
    writing.set_active_leaf(connection, conversation_id, leaf_id)
    return leaf_id


def _leaf_beside(connection: Connection, top: Row[int, int, int | None]) -> str | None:
    """Where to go from a message that is gone: the version before it, after it, or above."""
    beside = connection.execute(
        select(MessageRow.id, MessageRow.row_id).where(
            MessageRow.conversation_row_id == top.conversation_row_id,
            MessageRow.parent_row_id.is_not_distinct_from(top.parent_row_id),
            MessageRow.trashed_us.is_(None),
        )
    ).all()
    if beside:
        before = [each for each in beside if each.row_id < top.row_id]
        nearest = max(before, key=lambda m: m.row_id) if before else min(beside, key=_row_id)
        return reading.leaf_below(connection, nearest.id)
    return connection.scalar(select(MessageRow.id).where(MessageRow.row_id == top.parent_row_id))


def _row_id(row: Row[str, int]) -> int:
    return int(row.row_id)


# --- the map ----------------------------------------------------------------------------------


def load_tree(connection: Connection, conversation_id: str) -> tuple[TreeNode, ...]:
    """Every message of a conversation, deleted ones too, parents before children."""
    row = conversation_row(connection, conversation_id)
    nodes = connection.execute(_TREE, {"conversation": row.row_id})
    return tuple(_node(node) for node in nodes)


def list_trashed(connection: Connection) -> tuple[TrashedBranch, ...]:
    """What was deleted from conversations that are there, the last first."""
    return tuple(_branch(row) for row in connection.execute(_TRASHED))


def _node(row: Sequence[Any]) -> TreeNode:
    (
        message_id,
        parent_id,
        role,
        state,
        excerpt,
        created_us,
        trashed_us,
        weights,
        pinned,
        settings,
    ) = row
    return TreeNode(
        id=message_id,
        parent_id=parent_id,
        role=_ROLES.get(role, Role.ASSISTANT),
        state=_STATES.get(state, MessageState.UNREADABLE),
        excerpt=str(excerpt or ""),
        created_at=from_us(created_us),
        trashed_at=None if trashed_us is None else from_us(trashed_us),
        weights_name=weights,
        is_pinned=bool(pinned),
        is_summary=is_summary(role, settings),
    )


def _branch(row: Sequence[Any]) -> TrashedBranch:
    message_id, conversation_id, title, role, excerpt, trashed_us, n_messages = row
    return TrashedBranch(
        id=message_id,
        conversation_id=conversation_id,
        conversation_title=str(title or ""),
        role=_ROLES.get(role, Role.ASSISTANT),
        excerpt=str(excerpt or ""),
        trashed_at=from_us(trashed_us),
        n_messages=n_messages,
    )
