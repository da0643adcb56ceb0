"""Tags of conversations: read with them, set for them, renamed or taken away everywhere.

A tag is there as long as a conversation has it, one in the trash too. What must hold: a
conversation never has a tag twice, in whatever case (`tag_names.key_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from models.conversations.tag_names import cleaned, key_of, tidied
from models.mapping import conversation_from
from models.records import Conversation
from models.tables import ConversationRow, ConversationTagRow

Before = dict[str, tuple[str, ...]]
"""The tags that each conversation had, by its id."""

_FEW: Final = 50
"""So many conversations are asked for by their keys; of more, all tags are read."""

_ALL: Final = select(ConversationTagRow.conversation_row_id, ConversationTagRow.name)
_SOME: Final = _ALL.where(
    ConversationTagRow.conversation_row_id.in_(bindparam("rows", expanding=True))
)
_DROP: Final = delete(ConversationTagRow).where(
    ConversationTagRow.conversation_row_id == bindparam("row")
)
_ADD: Final = insert(ConversationTagRow)


def conversations_of(connection: Connection, rows: Sequence[Row[Any]]) -> tuple[Conversation, ...]:
    """The records of whole rows of the table, with their tags."""
    tags = _tags_of(connection, [row.row_id for row in rows])
    return tuple(conversation_from(row, tags.get(row.row_id, ())) for row in rows)


def conversation_of(connection: Connection, row: Row[Any]) -> Conversation:
    return conversations_of(connection, [row])[0]


def set_tags(connection: Connection, conversation_row_id: int, names: Iterable[str]) -> None:
    """These, and no others."""
    connection.execute(_DROP, {"row": conversation_row_id})
    rows = [{"conversation_row_id": conversation_row_id, "name": name} for name in tidied(names)]
    if rows:
        connection.execute(_ADD, rows)


def rename_tag(connection: Connection, name: str, new_name: str) -> Before:
    """Everywhere, in the trash too; an empty new name takes it away. Where a conversation has both,
    they become one. What those that had it had before, for `put_back`."""
    name, new_name, before = cleaned(name), cleaned(new_name), Before()
    had = {row.conversation_row_id for row in connection.execute(_ALL) if _is(row.name, name)}
    for rows in _chunks(sorted(had)):
        tags = _tags_of(connection, rows)
        ids = connection.execute(
            select(ConversationRow.row_id, ConversationRow.id).where(
                ConversationRow.row_id.in_(rows)
            )
        )
        for row_id, conversation_id in ids.all():
            before[conversation_id] = tags[row_id]
            kept = [each for each in tags[row_id] if not _is(each, name)]
            set_tags(connection, row_id, [new_name, *kept])
    return before


def put_back(connection: Connection, before: Before) -> None:
    """What `rename_tag` changed; conversations that are gone are left out."""
    for ids in _chunks(list(before)):
        rows = select(ConversationRow.row_id, ConversationRow.id).where(ConversationRow.id.in_(ids))
        for row_id, conversation_id in connection.execute(rows).all():
            set_tags(connection, row_id, before[conversation_id])


def names_that_mean(connection: Connection, typed: str) -> tuple[str, ...]:
    """The stored names of a tag that somebody searches for; where none is called so, of those that
    begin so."""
    key = key_of(cleaned(typed))
    stored = connection.scalars(select(ConversationTagRow.name).distinct()).all()
    exact = tuple(name for name in stored if key and key_of(name) == key)
    return exact or tuple(name for name in stored if key and key_of(name).startswith(key))


def _is(name: str, other: str) -> bool:
    return key_of(name) == key_of(other)


def _tags_of(connection: Connection, rows: Sequence[int]) -> dict[int, tuple[str, ...]]:
    few = len(rows) <= _FEW
    asked = connection.execute(_SOME, {"rows": rows}) if few else connection.execute(_ALL)
    found: dict[int, list[str]] = {}
    for row_id, name in asked:
        found.setdefault(row_id, []).append(name)
    return {row_id: tidied(names) for row_id, names in found.items()}


def _chunks(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + _FEW] for start in range(0, len(items), _FEW))
