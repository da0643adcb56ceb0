"""Reading what can still be read out of a damaged database.

A damaged page makes SQLite stop where it meets it. So each table is read by SQLite until that
happens, and what it does not give page by page (`models.store.pages`). What is missing then is
filled from a backup. Rows whose surroundings are lost get them back as far as possible:

* a message whose parent is lost hangs under a placeholder, which hangs under the message
  before it, so that the conversation still reads from top to bottom;
* messages whose conversation is lost are put into a new one, "Recovered messages".
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects.sqlite import dialect, insert
from sqlalchemy.schema import CreateTable

from models.store.connecting import open_raw
from models.store.pages import FoundRow, Pages
from models.tables import AttachmentDataRow, Base, ConversationRow, MessageRow

LOST_STATE = "lost"
"""No known state on purpose: it reads as UNREADABLE."""

_Found = tuple[Table, FoundRow]
_CUT_TEXTS = ("content", "reasoning")
_AT_ONCE: Final = 50
"""Rows that are written in one go; one by one takes three times as long."""
_LARGE: Final = AttachmentDataRow.__table__
"""Each of its rows is megabytes."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was saved: conversations and messages in all, and how many came from a backup.

    `own` counts the conversations and messages that the damaged file itself gave.
    """

    own: int
    conversations: int
    messages: int
    messages_from_backup: int

    @property
    def sentence(self) -> str:
        text = (
            f"The database was damaged. {self.messages} messages in {self.conversations} chats "
            "were recovered"
        )
        if self.messages_from_backup:
            text += f", {self.messages_from_backup} of them from the last backup"
        return text + "."


def salvage(damaged: Path, target: Connection, backup: Path | None) -> Counted:
    """Copy every row that can be read into the empty `target`, then what the backup adds.

    The damaged file is only read. `target` has foreign keys off.
    """
    with target.begin():
        cut = _copy_from(damaged, target)
        own_messages = _count(target, "message")
        own = own_messages + _count(target, "conversation") + len(cut)
        if backup is not None:
            cut += _copy_from(backup, target)
        messages = _count(target, "message")
        _add(target, cut)
        _adopt_messages(target)
        _bridge_gaps(target)
        _drop_strays(target)
        conversations = _count(target, "conversation")
        return Counted(own, conversations, messages, messages - own_messages)


def _copy_from(source: Path, target: Connection) -> list[_Found]:
    """By SQLite as far as it reads, table by table; what it does not, page by page. The rows that
    are there only in part, which a backup may have whole."""
    cut: list[_Found] = []
    tables = Base.metadata.sorted_tables
    unread = [table for table in tables if not _copy_table(source, table, target)]
    if not unread:
        return cut
    by_name = {table.name: table for table in unread}
    try:
        pages = Pages(source)
    except (OSError, ValueError):
        return cut  # not even its beginning is that of a database
    with closing(pages):
        wanted = {
            table.name: str(CreateTable(table).compile(dialect=dialect())) for table in unread
        }
        _add(target, _uncut(((by_name[name], row) for name, row in pages.rows(wanted)), cut))
    return cut


def _uncut(found: Iterable[_Found], cut: list[_Found]) -> Iterator[_Found]:
    """Those that are whole; the others go into `cut`."""
    for each in found:
        if each[1].cut:
            cut.append(each)
        else:
            yield each


def _copy_table(source: Path, table: Table, target: Connection) -> bool:
    """Whether it was read to its end."""
    try:
        with closing(open_raw(source, "ro")) as raw:
            there = {row[1] for row in raw.execute(f'PRAGMA table_info("{table.name}")')}
            names = [column.name for column in table.columns if column.name in there]
            if not names:
                return True  # a table that came later
            columns = ", ".join(f'"{name}"' for name in names)
            rows = raw.execute(f'SELECT {columns} FROM "{table.name}" NOT INDEXED')
            _add(target, ((table, FoundRow(dict(zip(names, row, strict=True)))) for row in rows))
    except sqlite3.Error:
        return False
    return True


def _add(target: Connection, found: Iterable[_Found]) -> None:
    """All rows that have their keys. What came before a fault is written, too."""
    waiting: dict[Table, list[dict[str, Any]]] = {}
    try:
        for table, each in found:
            rows = waiting.setdefault(table, [])
            if (row := _whole(table, each)) is not None:
                rows.append(row)
            if len(rows) >= (1 if table is _LARGE else _AT_ONCE):
                _write(target, table, waiting.pop(table))
    finally:
        for table, rows in waiting.items():
            _write(target, table, rows)


def _whole(table: Table, found: FoundRow) -> dict[str, Any] | None:
    """A row, if its keys are there: with a default for each null that must not be. What should be
    the number of a row and is none leads nowhere. A message whose text is cut is kept as one that
    cannot be read."""
    row: dict[str, Any] = {c.name: found.values.get(c.name) for c in table.columns}
    if found.cut in _CUT_TEXTS:
        row["state"] = LOST_STATE
    for column in table.columns:
        leads = column.foreign_keys and column.type.python_type is int
        if leads and not isinstance(row[column.name], int):
            row[column.name] = None
        if row.get(column.name) is None and not column.nullable:
            if column.primary_key or column.unique or column.foreign_keys:
                return None
            row[column.name] = column.type.python_type()
    return row


def _write(target: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """As they are: SQLAlchemy refuses a value of another type than its column's, and damage makes
    such. Whoever reads them can tell (`models.mapping`)."""
    if rows:
        target.exec_driver_sql(_adding(table), [tuple(row.values()) for row in rows])


@cache
def _adding(table: Table) -> str:
    return str(insert(table).on_conflict_do_nothing().compile(dialect=dialect()))


# --- what belongs together ----------------------------------------------------------------------


def _adopt_messages(target: Connection) -> None:
    """Give messages of lost conversations a conversation, one for each that is lost."""
    lost = target.execute(
        text(
            "SELECT conversation_row_id, min(created_us), max(created_us) FROM message "
            "WHERE conversation_row_id NOT IN (SELECT row_id FROM conversation) GROUP BY 1"
        )
    ).all()
    for row_id, created_us, updated_us in lost:
        target.execute(
            insert(ConversationRow).values(
                row_id=row_id,
                id=str(uuid.uuid4()),
                title="Recovered messages",
                kind="chat",
                created_us=created_us,
                updated_us=updated_us,
                is_pinned=False,
                is_archived=False,
                is_titled_by_user=True,
                system_prompt="",
                draft="",
            )
        )


def _bridge_gaps(target: Connection) -> None:
    """Put a placeholder where a message has a parent that is lost."""
    gaps = target.execute(
        text(
            "SELECT parent_row_id, conversation_row_id, min(row_id), min(created_us) FROM message "
            "WHERE parent_row_id NOT IN (SELECT row_id FROM message) GROUP BY 1"
        )
    ).all()
    for row_id, conversation_row_id, child_row_id, created_us in gaps:
        child_role = target.scalar(
            text("SELECT role FROM message WHERE row_id = :row"), {"row": child_row_id}
        )
        before = target.scalar(
            text(
                "SELECT max(row_id) FROM message "
                "WHERE conversation_row_id = :conversation AND row_id < :row"
            ),
            {"conversation": conversation_row_id, "row": row_id},
        )
        target.execute(
            insert(MessageRow).values(
                row_id=row_id,
                id=str(uuid.uuid4()),
                conversation_row_id=conversation_row_id,
                parent_row_id=before,
                role="user" if child_role == "assistant" else "assistant",
                state=LOST_STATE,
                created_us=created_us,
                is_pinned=False,
                error="This message was lost when the database was damaged.",
                content="",
                reasoning="",
            )
        )


def _drop_strays(target: Connection) -> None:
    for strays in (
        "token_trace WHERE message_row_id NOT IN (SELECT row_id FROM message)",
        "attachment WHERE message_row_id NOT IN (SELECT row_id FROM message)",
        "attachment WHERE conversation_row_id NOT IN (SELECT row_id FROM conversation)",
        "attachment_data WHERE attachment_row_id NOT IN (SELECT row_id FROM attachment)",
        "conversation_tag WHERE conversation_row_id NOT IN (SELECT row_id FROM conversation)",
    ):
        target.execute(text(f"DELETE FROM {strays}"))


def _count(target: Connection, table: str) -> int:
    return int(target.scalar(text(f"SELECT count(*) FROM {table}")) or 0)
