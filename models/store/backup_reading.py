"""Looking into a backup: what is in it, and single chats out of it. Nothing in it is changed.

One of an older version is copied and migrated first, in a temporary folder. What must hold: the
file itself is only read, without a lock or a log beside it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from models.mapping import from_us
from models.records import BackupLooked, ChatInBackup, Folder, Preset, WholeConversation
from models.store.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection

MOST_CHATS: Final = 20_000
DAMAGED: Final = "This backup is damaged, so it can't be used."
GONE: Final = "This backup is no longer there."
NEWER: Final = "This backup was made by a newer version of Cutaway."

_CHATS: Final = """
    SELECT c.id, c.title, c.updated_us, c.is_archived, count(m.row_id) AS n_messages
    FROM conversation AS c LEFT JOIN message AS m
        ON m.conversation_row_id = c.row_id{alive}
    WHERE c.trashed_us IS NULL GROUP BY c.row_id
    ORDER BY c.updated_us DESC, c.row_id DESC
"""


def look_into(path: Path) -> BackupLooked:
    """Check a backup and list what is in it."""
    try:
        with closing(_open_immutable(path)) as raw:
            if raw.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return BackupLooked(why_not=DAMAGED)
            if _is_newer(raw):
                return BackupLooked(why_not=NEWER)
            columns = {row[1] for row in raw.execute("PRAGMA table_info(message)")}
            # In the first version messages could not be thrown away.
            alive = " AND m.trashed_us IS NULL" if "trashed_us" in columns else ""
            rows = raw.execute(_CHATS.format(alive=alive)).fetchall()
    except FileNotFoundError:
        return BackupLooked(why_not=GONE)
    except (sqlite3.Error, OSError):
        return BackupLooked(why_not=DAMAGED)
    chats = tuple(
        ChatInBackup(str(row[0]), str(row[1] or ""), from_us(row[2]), int(row[4]))
        for row in rows[:MOST_CHATS]
    )
    return BackupLooked(len(rows), sum(int(row[4]) for row in rows), chats)


class OpenedBackup:
    """A backup that is read, on a thread that may wait. Made by `opened`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ids(self) -> tuple[str, ...]:
        """Of all chats that are not in its trash."""
        from models.conversations import reading

        with self._connection.begin():
            return tuple(chat.id for chat in reading.list_conversations(self._connection))

    def whole(self, conversation_id: str) -> WholeConversation:
        from models.conversations import exchange

        with self._connection.begin():
            return exchange.read_whole(self._connection, conversation_id)

    def belongings(self) -> tuple[tuple[Folder, ...], tuple[Preset, ...]]:
        from models import settings
        from models.conversations import folders

        with self._connection.begin():
            found = folders.list_folders(self._connection)
            return found, tuple(settings.list_presets(self._connection))


@contextmanager
def opened(path: Path) -> Iterator[OpenedBackup]:
    """StoreError where it cannot be used."""
    from models.migrations import migrating
    from models.store.connecting import close, connect_for_reading

    looked = look_into(path)
    if looked.why_not:
        raise StoreError(looked.why_not)
    with tempfile.TemporaryDirectory(prefix="cutaway-") as folder:
        if not _is_present(path):
            copy = Path(folder) / "backup.sqlite3"
            copy.touch(mode=0o600)
            shutil.copyfile(path, copy)
            migrating.upgrade(copy)
            connection = connect_for_reading(copy, "ro", busy_timeout_s=3.0)
        else:
            connection = connect_for_reading(path, "immutable", busy_timeout_s=3.0)
        try:
            yield OpenedBackup(connection)
        finally:
            close(connection)


def _open_immutable(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise FileNotFoundError(path)
    raw: Any = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)
    raw.text_factory = lambda data: data.decode("utf-8", "replace")
    return raw  # type: ignore[no-any-return]


def _revision(raw: sqlite3.Connection) -> str:
    row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def _is_newer(raw: sqlite3.Connection) -> bool:
    from models.migrations import migrating
    from models.store.plain import HEAD_REVISION

    revision = _revision(raw)
    return revision != HEAD_REVISION and not migrating.is_known(revision)


def _is_present(path: Path) -> bool:
    from models.store.plain import HEAD_REVISION

    with closing(_open_immutable(path)) as raw:
        return _revision(raw) == HEAD_REVISION
