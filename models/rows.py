"""Rows by their ids: found, added once, changed.

To make a statement takes SQLAlchemy longer than to run it, so what is asked with every message is
made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from models.store.errors import NotFoundError
from models.tables import Base, ConversationRow, MessageRow

_CONVERSATION: Final = select(*ConversationRow.__table__.columns).where(
    ConversationRow.id == bindparam("id")
)
_MESSAGE: Final = select(
    MessageRow.row_id, MessageRow.conversation_row_id, MessageRow.parent_row_id
).where(MessageRow.id == bindparam("id"))


def conversation_row(connection: Connection, conversation_id: str) -> Row[Any]:
    row = connection.execute(_CONVERSATION, {"id": conversation_id}).one_or_none()
    if row is None:
        raise NotFoundError("This chat was deleted.")
    return row


def message_row(connection: Connection, message_id: str) -> Row[int, int, int | None]:
    """Where a message stands: row_id, conversation_row_id, parent_row_id."""
    row = connection.execute(_MESSAGE, {"id": message_id}).one_or_none()
    if row is None:
        raise NotFoundError("This message was deleted.")
    return row


def add_once(
    connection: Connection, table: type[Base], record_id: str, values: Mapping[str, Any]
) -> None:
    """Where this id is there already, nothing is added."""
    column = table.__table__.columns["id"]
    if connection.scalar(select(column).where(column == record_id)) is None:
        connection.execute(insert(table).values(**values))


def change(
    connection: Connection, table: type[Base], record_id: str, values: Mapping[str, Any]
) -> None:
    if values:
        column = table.__table__.columns["id"]
        connection.execute(update(table).where(column == record_id).values(**values))
