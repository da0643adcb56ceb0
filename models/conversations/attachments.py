"""Attachments: of the draft one by one; of messages read with a path, claimed when one is stored.

A message takes what its record holds: a text of the draft becomes the message's own, in the same
transaction; one that belongs to another message (an edited version, a copy) is copied.

The bytes of a picture or a sound lie in a table of their own. They are written and copied in the
transaction of their attachment, go with it, and are read one by one: never with a path.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update
from sqlalchemy.dialects.sqlite import insert as upsert

from models.mapping import (
    attached_to,
    attachment_from,
    clean,
    columns_for,
    fields_of,
    object_value,
    to_us,
)
from models.records import Attachment, File, Message
from models.rows import add_once, change, conversation_row, message_row
from models.store.errors import NotFoundError, RefusedError
from models.tables import AttachmentDataRow, AttachmentRow, ConversationRow, MessageRow

_FEW = 1000
"""So many messages are asked for by name; of more, the whole conversation's are read."""

_ALL: Final = (
    select(
        *AttachmentRow.__table__.columns,
        ConversationRow.id.label("conversation_id"),
        MessageRow.id.label("message_id"),
    )
    .join(ConversationRow, ConversationRow.row_id == AttachmentRow.conversation_row_id)
    .join(MessageRow, MessageRow.row_id == AttachmentRow.message_row_id)
    .where(ConversationRow.id == bindparam("conversation"))
    .order_by(AttachmentRow.position, AttachmentRow.row_id)
)
_SOME: Final = _ALL.where(MessageRow.id.in_(bindparam("messages", expanding=True)))
"""What belongs to messages of a conversation."""

_COPY_FILE: Final = text(
    """
    INSERT INTO attachment_data (attachment_row_id, media_type, blob)
    SELECT copy.row_id, data.media_type, data.blob
    FROM attachment_data AS data
        JOIN attachment AS source ON source.row_id = data.attachment_row_id
        JOIN attachment AS copy ON copy.id = :copy
    WHERE source.id = :source
    ON CONFLICT (attachment_row_id) DO NOTHING
    """
)


def with_attachments(
    connection: Connection, conversation_id: str, messages: tuple[Message, ...]
) -> tuple[Message, ...]:
    """The messages with what was attached to them."""
    if not messages:
        return messages
    question: Any = _ALL
    of: dict[str, Any] = {"conversation": conversation_id}
    if len(messages) <= _FEW:
        question, of = _SOME, of | {"messages": [message.id for message in messages]}
    rows = connection.execute(question, of).all()
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
    if not (attachments := tuple(attachments)):
        return
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
            copy_file(connection, attachment.id, new_id)


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
            kind=attachment.kind,
            details=object_value(attachment.details),
        )
    )


# --- one by one ---------------------------------------------------------------------------------


def list_attachments(
    connection: Connection, conversation_id: str, message_id: str | None = None
) -> tuple[Attachment, ...]:
    """Of the conversation, its draft's too; or of one message of it."""
    question = _attachments().where(ConversationRow.id == conversation_id)
    if message_id is not None:
        question = question.where(MessageRow.id == message_id)
    rows = connection.execute(question.order_by(AttachmentRow.position, AttachmentRow.row_id))
    return tuple(attachment_from(row) for row in rows)


def create_attachment(
    connection: Connection, attachment: Attachment, file: File | None = None
) -> Attachment:
    """`file`: its bytes, where it has some."""
    values = fields_of(attachment)
    del values["conversation_id"], values["message_id"]
    conversation = conversation_row(connection, attachment.conversation_id)
    place = {
        "conversation_row_id": conversation.row_id,
        "message_row_id": _message_row_id(connection, attachment.message_id, conversation.row_id),
    }
    add_once(connection, AttachmentRow, attachment.id, columns_for(values) | place)
    if file is not None:
        add_files(connection, {attachment.id: file})
    return _attachment(connection, attachment.id)


def update_attachment(connection: Connection, /, attachment_id: str, **changes: Any) -> Attachment:
    """`message_id` puts it to a message, or back into the draft (None)."""
    values = columns_for({name: v for name, v in changes.items() if name != "message_id"})
    if "message_id" in changes:
        conversation_row_id = connection.scalar(
            select(AttachmentRow.conversation_row_id).where(AttachmentRow.id == attachment_id)
        )
        values["message_row_id"] = _message_row_id(
            connection, changes["message_id"], conversation_row_id
        )
    change(connection, AttachmentRow, attachment_id, values)
    return _attachment(connection, attachment_id)


def delete_attachment(connection: Connection, attachment_id: str) -> File | None:
    """Its bytes, for who brings it back."""
    file = load_file(connection, attachment_id)
    connection.execute(delete(AttachmentRow).where(AttachmentRow.id == attachment_id))
    return file


# --- bytes --------------------------------------------------------------------------------------


def load_file(connection: Connection, attachment_id: str) -> File | None:
    """The media type and bytes of a picture or a sound; None where there are none."""
    row = connection.execute(
        select(AttachmentDataRow.media_type, AttachmentDataRow.blob)
        .join(AttachmentRow, AttachmentRow.row_id == AttachmentDataRow.attachment_row_id)
        .where(AttachmentRow.id == attachment_id)
    ).one_or_none()
    return file_from(*row) if row is not None else None


def file_from(media_type: Any, blob: Any) -> File | None:
    """None where damage has made something else of it."""
    return (str(media_type), blob) if isinstance(blob, bytes) and blob else None


def add_files(connection: Connection, files: Mapping[str, File]) -> None:
    """Bytes of attachments that are stored, by their ids."""
    for attachment_id, (media_type, data) in files.items():
        row_id = select(AttachmentRow.row_id).where(AttachmentRow.id == attachment_id)
        add_data = upsert(AttachmentDataRow).on_conflict_do_nothing()
        connection.execute(
            add_data,
            {
                "attachment_row_id": connection.scalar(row_id),
                "media_type": clean(media_type),
                "blob": data,
            },
        )


def copy_file(connection: Connection, source_id: str, copy_id: str) -> None:
    """Give a copy of an attachment its own bytes."""
    connection.execute(_COPY_FILE, {"source": source_id, "copy": copy_id})


def _attachments() -> Any:
    return (
        select(
            *AttachmentRow.__table__.columns,
            ConversationRow.id.label("conversation_id"),
            MessageRow.id.label("message_id"),
        )
        .join(ConversationRow, ConversationRow.row_id == AttachmentRow.conversation_row_id)
        .outerjoin(MessageRow, MessageRow.row_id == AttachmentRow.message_row_id)
    )


def _attachment(connection: Connection, attachment_id: str) -> Attachment:
    row = connection.execute(_attachments().where(AttachmentRow.id == attachment_id)).one_or_none()
    if row is None:
        raise NotFoundError("This attachment is not in the database.")
    return attachment_from(row)


def _message_row_id(
    connection: Connection, message_id: str | None, conversation_row_id: int | None
) -> int | None:
    if message_id is None:
        return None
    place = message_row(connection, message_id)
    if place.conversation_row_id != conversation_row_id:
        raise RefusedError("This message is not in the attachment's conversation.")
    return int(place.row_id)
