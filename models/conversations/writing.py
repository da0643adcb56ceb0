"""Changes to the database. Each function runs in one transaction on the writer thread.

A commit can fail after it was done (an I/O error while the file is synced); the writer then
does the change again. So adding something that is there already, under the same id, is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from models.conversations import attachments, reading, tags, trash
from models.mapping import (
    columns_for,
    fields_of,
)
from models.records import Conversation, Message, MessageState
from models.rows import conversation_row, message_row
from models.store.errors import NotFoundError, RefusedError
from models.tables import (
    IS_STREAMING,
    ConversationRow,
    MessageRow,
    TokenTraceRow,
)

INTERRUPTED_SENTENCE = (
    "Cutaway closed before this reply finished. The partial text is kept. Regenerate it for a "
    "complete reply."
)

_PLACE_IN_TREE = frozenset(
    {"conversation_id", "parent_id", "sibling_index", "sibling_count", "attachments"}
)

# Made once (see `models.rows`); the columns come with their values.
_ADD_CONVERSATION: Final = upsert(ConversationRow).on_conflict_do_nothing()
_CHANGE_CONVERSATION: Final = update(ConversationRow).where(
    ConversationRow.id == bindparam("which")
)
_ADD_MESSAGE: Final = upsert(MessageRow).on_conflict_do_nothing(index_elements=["id"])
_CHANGE_MESSAGE: Final = update(MessageRow).where(MessageRow.id == bindparam("which"))
_TRASHED: Final = select(MessageRow.trashed_us).where(MessageRow.row_id == bindparam("row_id"))
_INTERRUPT: Final = (
    update(MessageRow)
    .where(IS_STREAMING)
    .values(state=MessageState.INTERRUPTED.value, error=INTERRUPTED_SENTENCE)
)
_DROP_TRACE: Final = delete(TokenTraceRow).where(
    TokenTraceRow.message_row_id == bindparam("message_row_id")
)
_ADD_TRACE: Final = insert(TokenTraceRow)
_CHANGE_GROWING: Final = _CHANGE_MESSAGE.where(MessageRow.state == MessageState.STREAMING.value)

# --- conversations ----------------------------------------------------------------------------


def create_conversation(connection: Connection, conversation: Conversation) -> Conversation:
    values = columns_for(fields_of(conversation))
    connection.execute(_ADD_CONVERSATION, values)
    row = conversation_row(connection, conversation.id)
    if conversation.tags:
        tags.set_tags(connection, row.row_id, conversation.tags)
    return tags.conversation_of(connection, row)


def update_conversation(
    connection: Connection, /, conversation_id: str, **changes: Any
) -> Conversation:
    """Change fields of the record by their names. `updated_at` stays unless it is given."""
    if columns := columns_for(changes):
        connection.execute(_CHANGE_CONVERSATION, {"which": conversation_id} | columns)
    row = conversation_row(connection, conversation_id)
    if "tags" in changes:
        tags.set_tags(connection, row.row_id, changes["tags"])
    return tags.conversation_of(connection, row)


def trash_conversation(connection: Connection, conversation_id: str) -> Conversation:
    trash.throw_away(connection, [conversation_id])
    return tags.conversation_of(connection, conversation_row(connection, conversation_id))


def restore_conversation(connection: Connection, conversation_id: str) -> Conversation:
    return update_conversation(connection, conversation_id, trashed_at=None)


# --- messages ---------------------------------------------------------------------------------


def append_message(
    connection: Connection, message: Message, *, keep_in_view: bool = False
) -> Message:
    """Add a node below `parent_id` (None: a root) and make it the active leaf. Done twice with the
    same id, it is added once; the message tells where it stands.

    keep_in_view: what it is to hang on may have been deleted meanwhile; then it ends the path
    that is shown. Without it, what hangs on a deleted message is deleted with that one.
    """
    conversation = conversation_row(connection, message.conversation_id)
    if keep_in_view and _is_gone(connection, message):
        message = replace(message, parent_id=reading.living_leaf(connection, conversation))
    parent_row_id = _parent_row_id(connection, message, conversation.row_id)
    values = columns_for(
        {name: v for name, v in fields_of(message).items() if name not in _PLACE_IN_TREE}
    )
    values |= {"conversation_row_id": conversation.row_id, "parent_row_id": parent_row_id}
    if parent_row_id is not None:  # an answer that comes after its question was deleted
        values["trashed_us"] = connection.scalar(_TRASHED, {"row_id": parent_row_id})
    connection.execute(_ADD_MESSAGE, values)
    attachments.claim(connection, conversation.row_id, message, message.attachments)
    before_us = conversation.updated_us
    updated_us = max(before_us if isinstance(before_us, int) else 0, values["created_us"])
    connection.execute(
        _CHANGE_CONVERSATION,
        {"which": conversation.id, "active_leaf_id": message.id, "updated_us": updated_us},
    )
    return reading.load_message(connection, message.id)


def update_message(connection: Connection, /, message_id: str, **changes: Any) -> Message:
    """Change fields of the record by their names; place in the tree and id are fixed."""
    if changes:
        connection.execute(_CHANGE_MESSAGE, {"which": message_id} | columns_for(changes))
    return reading.load_message(connection, message_id)


def save_streaming_text(
    connection: Connection,
    message_id: str,
    content: str,
    reasoning: str,
    token_ids: tuple[int, ...] | None,
) -> None:
    changes: dict[str, Any] = {"content": content, "reasoning": reasoning}
    if token_ids is not None:
        changes["token_ids"] = token_ids
    connection.execute(_CHANGE_GROWING, {"which": message_id} | columns_for(changes))


def set_active_leaf(connection: Connection, conversation_id: str, leaf_id: str | None) -> None:
    """The path to that message is the one to show; it must be of that conversation."""
    conversation = conversation_row(connection, conversation_id)
    if leaf_id is not None:
        leaf = message_row(connection, leaf_id)
        if leaf.conversation_row_id != conversation.row_id:
            raise RefusedError("This message is not in that conversation.")
    update_conversation(connection, conversation_id, active_leaf_id=leaf_id)


def interrupt_streaming(connection: Connection) -> int:
    """What a former run left growing is interrupted; how many messages that were."""
    return connection.execute(_INTERRUPT).rowcount


def _is_gone(connection: Connection, message: Message) -> bool:
    """Whether the message has no place yet, and what it is to hang on is deleted."""
    if message.parent_id is None or reading.is_there(connection, message.parent_id):
        return False
    return connection.scalar(select(MessageRow.row_id).where(MessageRow.id == message.id)) is None


def _parent_row_id(
    connection: Connection, message: Message, conversation_row_id: int
) -> int | None:
    if message.parent_id is None:
        return None
    try:
        parent = message_row(connection, message.parent_id)
    except NotFoundError:
        raise NotFoundError("The message to continue from is not in the database.") from None
    if parent.conversation_row_id != conversation_row_id:
        raise RefusedError("The message to continue from is in another conversation.")
    return int(parent.row_id)


# --- settings, traces ---------------------------------------------------------------------------


def save_trace(connection: Connection, message_id: str, blob: bytes | Callable[[], bytes]) -> None:
    """Keep the compressed trace of a reply, in place of an earlier one. A function is called here,
    on the writing thread: compressing takes its time."""
    owner = {"message_row_id": message_row(connection, message_id).row_id}
    connection.execute(_DROP_TRACE, owner)
    connection.execute(_ADD_TRACE, owner | {"blob": blob() if callable(blob) else blob})
