"""What is known of weights files: questions and changes, in a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from models.mapping import local_file_from, object_value, path_value, to_us
from models.records import LocalFile
from models.tables import LocalFileRow

_LISTED: Final = select(*LocalFileRow.__table__.columns).order_by(LocalFileRow.path)


def list_local_files(connection: Connection) -> tuple[LocalFile, ...]:
    return tuple(local_file_from(row) for row in connection.execute(_LISTED))


def save_local_files(connection: Connection, files: Collection[LocalFile]) -> None:
    """Each in the place of what was known of its path."""
    rows = [
        {
            "path": path_value(file.path),
            "size_bytes": file.size_bytes,
            "mtime_ns": file.mtime_ns,
            "inode": str(file.inode),
            "sha256": file.sha256 or None,
            "facts": object_value(file.facts),
            "reader": file.reader,
            "seen_us": to_us(file.seen_at),
        }
        for file in files
    ]
    if rows:  # thousands at once are one statement
        statement = insert(LocalFileRow)
        changed = {name: statement.excluded[name] for name in rows[0] if name != "path"}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["path"], set_=changed), rows
        )


def forget_local_files(connection: Connection, before: datetime) -> int:
    """Forget what was not seen since; of how many files."""
    gone = connection.execute(delete(LocalFileRow).where(LocalFileRow.seen_us < to_us(before)))
    return gone.rowcount
