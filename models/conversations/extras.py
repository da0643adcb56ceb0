"""Folders, presets and attachments: questions and changes, in a transaction of the caller's.

As in `models.conversations.writing`, adding what is there already under the same id changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from models.conversations import reading
from models.mapping import attachment_from, columns_for, folder_from, preset_from
from models.records import Attachment, Folder, Preset
from models.store.errors import NotFoundError, RefusedError
from models.tables import AttachmentRow, Base, ConversationRow, FolderRow, MessageRow, PresetRow

# --- folders ------------------------------------------------------------------------------------


def list_folders(connection: Connection) -> tuple[Folder, ...]:
    """All folders by position, then by age, whatever folder they are in."""
    rows = connection.execute(
        select(*FolderRow.__table__.columns).order_by(FolderRow.position, FolderRow.row_id)
    )
    return tuple(folder_from(row) for row in rows)


def create_folder(connection: Connection, folder: Folder) -> Folder:
    _add(connection, FolderRow, folder.id, columns_for(_fields_of(folder)))
    return _folder(connection, folder.id)


def update_folder(connection: Connection, /, folder_id: str, **changes: Any) -> Folder:
    _change(connection, FolderRow, folder_id, columns_for(changes))
    return _folder(connection, folder_id)


def delete_folder(connection: Connection, folder_id: str) -> None:
    """What is in it moves to the folder around it."""
    around = next((f.parent_id for f in list_folders(connection) if f.id == folder_id), None)
    connection.execute(
        update(ConversationRow)
        .where(ConversationRow.folder_id == folder_id)
        .values(folder_id=around)
    )
    connection.execute(
        update(FolderRow).where(FolderRow.parent_id == folder_id).values(parent_id=around)
    )
    connection.execute(delete(FolderRow).where(FolderRow.id == folder_id))


def _folder(connection: Connection, folder_id: str) -> Folder:
    found = next((f for f in list_folders(connection) if f.id == folder_id), None)
    if found is None:
        raise NotFoundError("This folder is not in the database.")
    return found


# --- presets ------------------------------------------------------------------------------------


def list_presets(connection: Connection) -> tuple[Preset, ...]:
    """All presets by position, then by age."""
    rows = connection.execute(
        select(*PresetRow.__table__.columns).order_by(PresetRow.position, PresetRow.row_id)
    )
    return tuple(preset_from(row) for row in rows)


def create_preset(connection: Connection, preset: Preset) -> Preset:
    with _name_is_free(preset.name):
        _add(connection, PresetRow, preset.id, columns_for(_fields_of(preset)))
    return _preset(connection, preset.id)


def update_preset(connection: Connection, /, preset_id: str, **changes: Any) -> Preset:
    with _name_is_free(str(changes.get("name", ""))):
        _change(connection, PresetRow, preset_id, columns_for(changes))
    return _preset(connection, preset_id)


def delete_preset(connection: Connection, preset_id: str) -> None:
    connection.execute(delete(PresetRow).where(PresetRow.id == preset_id))


def _preset(connection: Connection, preset_id: str) -> Preset:
    found = next((p for p in list_presets(connection) if p.id == preset_id), None)
    if found is None:
        raise NotFoundError("This preset is not in the database.")
    return found


@contextmanager
def _name_is_free(name: str) -> Iterator[None]:
    """Says in words that it is not."""
    try:
        yield
    except IntegrityError as error:
        raise RefusedError(
            f"There is a preset named “{name}” already: choose another name."
        ) from error


# --- attachments --------------------------------------------------------------------------------


def list_attachments(
    connection: Connection, conversation_id: str, message_id: str | None = None
) -> tuple[Attachment, ...]:
    """Of the conversation, its draft's too; or of one message of it."""
    question = _attachments().where(ConversationRow.id == conversation_id)
    if message_id is not None:
        question = question.where(MessageRow.id == message_id)
    rows = connection.execute(question.order_by(AttachmentRow.position, AttachmentRow.row_id))
    return tuple(attachment_from(row) for row in rows)


def create_attachment(connection: Connection, attachment: Attachment) -> Attachment:
    values = _fields_of(attachment)
    del values["conversation_id"], values["message_id"]
    conversation = reading.conversation_row(connection, attachment.conversation_id)
    place = {
        "conversation_row_id": conversation.row_id,
        "message_row_id": _message_row_id(connection, attachment.message_id, conversation.row_id),
    }
    _add(connection, AttachmentRow, attachment.id, columns_for(values) | place)
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
    _change(connection, AttachmentRow, attachment_id, values)
    return _attachment(connection, attachment_id)


def delete_attachment(connection: Connection, attachment_id: str) -> None:
    connection.execute(delete(AttachmentRow).where(AttachmentRow.id == attachment_id))


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
    place = reading.message_row(connection, message_id)
    if place.conversation_row_id != conversation_row_id:
        raise RefusedError("This message is not in the attachment's conversation.")
    return int(place.row_id)


# --- how it is done -----------------------------------------------------------------------------


def _add(
    connection: Connection, table: type[Base], record_id: str, values: Mapping[str, Any]
) -> None:
    column = table.__table__.columns["id"]
    if connection.scalar(select(column).where(column == record_id)) is None:
        connection.execute(insert(table).values(**values))


def _change(
    connection: Connection, table: type[Base], record_id: str, values: Mapping[str, Any]
) -> None:
    if values:
        column = table.__table__.columns["id"]
        connection.execute(update(table).where(column == record_id).values(**values))


def _fields_of(record: Folder | Preset | Attachment) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}
