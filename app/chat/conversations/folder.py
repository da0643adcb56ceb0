"""The data folder: where it is, that it is ours alone, and who may write in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.paths import typed_path

if TYPE_CHECKING:
    from filelock import FileLock

ENVIRONMENT_VARIABLE: Final = "CUTAWAY_DATA_DIR"
SECOND_INSTANCE_SENTENCE: Final = (
    "Cutaway is already open with this data folder, so this window is read-only. To make "
    "changes, close the other window and reopen this one."
)
_LOCK_FILE: Final = "cutaway.lock"


class FolderRefused(Exception):  # noqa: N818
    """The data folder cannot be used; the text is a sentence for the user."""


def default_data_dir() -> Path:
    """The folder of the environment variable, else the platform's own."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_data_path("Cutaway", appauthor=False))


class DataFolder:
    """One data folder; `take_lock` decides whether this process may write in it."""

    def __init__(self, path: Path) -> None:
        self.path = typed_path(path)
        self._lock: FileLock | None = None

    def prepare(self) -> None:
        """Make the folder, readable by its owner alone. Raises FolderRefused.

        One that exists keeps its mode: it may hold other things, for other people.
        """
        try:
            if not self.path.is_dir():
                self.path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FolderRefused(
                f"The data folder “{self.path}” can't be created ({error.strerror or error}). "
                "Choose another one with --data-dir."
            ) from error

    def take_lock(self) -> bool:
        """Whether this process is now the one that writes. Never waits."""
        # Imported here: it is not needed before the first paint.
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / _LOCK_FILE)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        except OSError:
            return True  # a folder that cannot be written: the store finds out and says so
        self._lock = lock
        return True

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
