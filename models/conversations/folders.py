"""Folders of conversations, and changes to many conversations at once.

What must hold: no folder ever takes a conversation with it. A deleted one hands its chats and
folders to the one above; a folder whose `parent_id` leads nowhere, or round in a circle (a
damaged file), counts as one at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, delete, select, update

from models.conversations import tags
from models.mapping import columns_for, fields_of, folder_from
from models.records import Conversation, Folder
from models.rows import add_once, change
from models.store.errors import NotFoundError, RefusedError
from models.tables import ConversationRow, FolderRow

Contents = tuple[tuple[str, ...], tuple[str, ...]]
"""Ids of the conversations (those in the trash too) and of the folders right in a folder."""

_AT_ONCE = 500
"""Ids in one statement; SQLite takes no more than some thousand values."""

_LISTED: Final = select(*FolderRow.__table__.columns).order_by(FolderRow.position, FolderRow.row_id)

# --- questions ----------------------------------------------------------------------------------


def list_folders(connection: Connection) -> tuple[Folder, ...]:
    """All folders by position, then by age, whatever folder they are in."""
    return tuple(folder_from(row) for row in connection.execute(_LISTED))


def ids_named(connection: Connection, names: Sequence[str]) -> tuple[str, ...]:
    """The folders that have one of the casefolded names in theirs, and all below them."""
    folders = list_folders(connection)
    found = {f.id for f in folders if any(name in f.name.casefold() for name in names)}
    while below := {f.id for f in folders if f.parent_id in found} - found:
        found |= below
    return tuple(f.id for f in folders if f.id in found)


# --- changes ------------------------------------------------------------------------------------


def create_folder(connection: Connection, folder: Folder) -> Folder:
    add_once(connection, FolderRow, folder.id, columns_for(fields_of(folder)))
    return _folder(connection, folder.id)


def update_folder(connection: Connection, /, folder_id: str, **changes: Any) -> Folder:
    change(connection, FolderRow, folder_id, columns_for(changes))
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


def move_folder(connection: Connection, folder_id: str, parent_id: str | None) -> Folder:
    """RefusedError where it would lie in itself, NotFoundError where the place is gone."""
    _check_place(connection, folder_id, parent_id)
    return update_folder(connection, folder_id, parent_id=parent_id)


def take_out(connection: Connection, folder_id: str) -> Contents:
    """Delete a folder; what was in it goes to the one around it. What `put_back` needs."""
    chats = connection.scalars(
        select(ConversationRow.id).where(ConversationRow.folder_id == folder_id)
    ).all()
    inner = connection.scalars(select(FolderRow.id).where(FolderRow.parent_id == folder_id)).all()
    delete_folder(connection, folder_id)
    return tuple(chats), tuple(inner)


def put_back(connection: Connection, folder: Folder, contents: Contents) -> None:
    """The deleted folder, with what was in it and is still where it then went."""
    chats, inner = contents
    create_folder(connection, folder)
    for ids in _chunks(chats):
        connection.execute(
            update(ConversationRow)
            .where(
                ConversationRow.id.in_(ids),
                ConversationRow.folder_id.is_not_distinct_from(folder.parent_id),
            )
            .values(folder_id=folder.id)
        )
    for ids in _chunks(inner):
        connection.execute(
            update(FolderRow)
            .where(
                FolderRow.id.in_(ids), FolderRow.parent_id.is_not_distinct_from(folder.parent_id)
            )
            .values(parent_id=folder.id)
        )


def change_conversations(
    connection: Connection, changes: Mapping[str, Mapping[str, Any]]
) -> tuple[Conversation, ...]:
    """Fields of many conversations, in one transaction; an id that is gone is left out."""
    for conversation_id, fields in changes.items():
        if columns := columns_for(fields):
            connection.execute(
                update(ConversationRow).where(ConversationRow.id == conversation_id).values(columns)
            )
    tagged = {key: tuple(each["tags"]) for key, each in changes.items() if "tags" in each}
    tags.put_back(connection, tagged)
    found: list[Conversation] = []
    for ids in _chunks(changes):
        rows = connection.execute(
            select(*ConversationRow.__table__.columns).where(ConversationRow.id.in_(ids))
        )
        found += tags.conversations_of(connection, rows.all())
    return tuple(found)


def _folder(connection: Connection, folder_id: str) -> Folder:
    found = next((f for f in list_folders(connection) if f.id == folder_id), None)
    if found is None:
        raise NotFoundError("This folder is not in the database.")
    return found


def _check_place(connection: Connection, folder_id: str, parent_id: str | None) -> None:
    """Going up from the place must lead to the top, and not past the folder itself."""
    parents = {f.id: f.parent_id for f in list_folders(connection)}
    place, steps = parent_id, 0
    while place is not None:
        if place == folder_id or steps > len(parents):
            raise RefusedError("A folder can't be moved into itself.")
        if place not in parents:
            raise NotFoundError("The destination folder no longer exists.")
        place, steps = parents[place], steps + 1


def _chunks(ids: Iterable[str]) -> Iterable[list[str]]:
    listed = list(ids)
    return (listed[i : i + _AT_ONCE] for i in range(0, len(listed), _AT_ONCE))
