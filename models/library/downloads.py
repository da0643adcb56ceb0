"""The download queue: questions and changes, in a transaction of the caller's.

As in `models.conversations.writing`, adding what is there already under the same id changes
nothing.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, delete, select

from models.mapping import columns_for, download_from, fields_of
from models.records import Download
from models.rows import add_once, change
from models.store.errors import NotFoundError
from models.tables import DownloadRow

_LISTED: Final = select(*DownloadRow.__table__.columns).order_by(
    DownloadRow.position, DownloadRow.row_id
)


def list_downloads(connection: Connection) -> tuple[Download, ...]:
    """In the queue's order: by position, then by age."""
    return tuple(download_from(row) for row in connection.execute(_LISTED))


def create_download(connection: Connection, download: Download) -> Download:
    add_once(connection, DownloadRow, download.id, columns_for(fields_of(download)))
    return _download(connection, download.id)


def update_download(connection: Connection, /, download_id: str, **changes: Any) -> Download:
    change(connection, DownloadRow, download_id, columns_for(changes))
    return _download(connection, download_id)


def delete_download(connection: Connection, download_id: str) -> None:
    """Take it off the list; its files are not touched."""
    connection.execute(delete(DownloadRow).where(DownloadRow.id == download_id))


def _download(connection: Connection, download_id: str) -> Download:
    row = connection.execute(
        select(*DownloadRow.__table__.columns).where(DownloadRow.id == download_id)
    ).one_or_none()
    if row is None:
        raise NotFoundError("This download is not in the database.")
    return download_from(row)
