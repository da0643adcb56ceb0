"""What is known of weights files: questions and changes, in a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from models.mapping import local_file_from, object_value, path_value, to_us
from models.records import LocalFile
from models.tables import LocalFileRow


def list_local_files(connection: Connection) -> tuple[LocalFile, ...]:
    rows = connection.execute(select(*LocalFileRow.__table__.columns).order_by(LocalFileRow.path))
    return tuple(local_file_from(row) for row in rows)


def save_local_files(connection: Connection, files: Iterable[LocalFile]) -> None:
    """Each in the place of what was known of its path."""
    for file in files:
        values = {
            "size_bytes": file.size_bytes,
            "mtime_ns": file.mtime_ns,
            "inode": str(file.inode),
            "sha256": file.sha256 or None,
            "facts": object_value(file.facts),
            "reader": file.reader,
            "seen_us": to_us(file.seen_at),
        }
        statement = insert(LocalFileRow).values(path=path_value(file.path), **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=values))


def forget_local_files(connection: Connection, before: datetime) -> int:
    """Forget what was not seen since; of how many files."""
    gone = connection.execute(delete(LocalFileRow).where(LocalFileRow.seen_us < to_us(before)))
    return gone.rowcount
