"""Attachments as parts of messages: read with a path, claimed when a message is stored.

A message takes what its record holds: a text of the draft becomes the message's own, in the same
transaction; one that belongs to another message (an edited version, a copy) is copied.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, insert, select, update

from models.mapping import attached_to, attachment_from, clean, to_us
from models.records import Attachment, Message
from models.tables import AttachmentRow, ConversationRow, MessageRow

_FEW = 1000
"""So many messages are asked for by name; of more, the whole conversation's are read."""


def with_attachments(
    connection: Connection, conversation_id: str, messages: tuple[Message, ...]
) -> tuple[Message, ...]:
    """The messages with what was attached to them."""
    if not messages:
        return messages
    question: Any = (
        select(
            *AttachmentRow.__table__.columns,
            ConversationRow.id.label("conversation_id"),
            MessageRow.id.label("message_id"),
        )
        .join(ConversationRow, ConversationRow.row_id == AttachmentRow.conversation_row_id)
        .join(MessageRow, MessageRow.row_id == AttachmentRow.message_row_id)
        .where(ConversationRow.id == conversation_id)
        .order_by(AttachmentRow.position, AttachmentRow.row_id)
    )
    if len(messages) <= _FEW:
        question = question.where(MessageRow.id.in_([message.id for message in messages]))
    rows = connection.execute(question).all()
    attached: dict[str, list[Attachment]] = {}
    for row in rows:
        attached.setdefault(str(row.message_id), []).append(attachment_from(row))
    return attached_to(messages, attached)


def claim(
    connection: Connection,
    conversation_row_id: int,
    message: Message,
    attachments: Iterable[Attachment],
) -> None:
    """Make them parts of a message that is stored already. Done twice, it is done once."""
    message_row_id = connection.scalar(select(MessageRow.row_id).where(MessageRow.id == message.id))
    for place, attachment in enumerate(attachments):
        owner = connection.execute(
            select(AttachmentRow.message_row_id).where(
                AttachmentRow.id == attachment.id,
                AttachmentRow.conversation_row_id == conversation_row_id,
            )
        ).one_or_none()
        if owner is not None and owner.message_row_id in (None, message_row_id):
            connection.execute(
                update(AttachmentRow)
                .where(AttachmentRow.id == attachment.id)
                .values(message_row_id=message_row_id, position=place)
            )
            continue
        copy_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{message.id} {attachment.id}"))
        new_id = attachment.id if owner is None and _is_free(connection, attachment.id) else copy_id
        if _is_free(connection, new_id):
            _insert(connection, conversation_row_id, message_row_id, attachment, new_id, place)


def _is_free(connection: Connection, attachment_id: str) -> bool:
    found = connection.scalar(select(AttachmentRow.row_id).where(AttachmentRow.id == attachment_id))
    return found is None


def _insert(
    connection: Connection,
    conversation_row_id: int,
    message_row_id: int | None,
    attachment: Attachment,
    attachment_id: str,
    place: int,
) -> None:
    connection.execute(
        insert(AttachmentRow).values(
            id=attachment_id,
            conversation_row_id=conversation_row_id,
            message_row_id=message_row_id,
            name=clean(attachment.name),
            size_bytes=attachment.size_bytes,
            tokens=attachment.tokens,
            position=place,
            created_us=to_us(attachment.created_at),
            text=clean(attachment.text),
        )
    )
