"""The disk's side of a download: a partial file that becomes the whole one, or stays a partial.

`name.gguf` grows as `.name.gguf.1a2b3c4d.part` beside it (the mark is of its SHA-256). What must
hold:

* The final name is given by linking, which fails where something is: nothing that is there is
  ever overwritten. On a disk without links the name is asked for first, under the lock.
* One writer per file, whatever program or instance it belongs to: `.name.gguf.lock`. It is taken
  and taken away only under the folder's own lock, which stays: a lock that may vanish between
  opening and locking would let two in.
* What was hashed is what was written. A partial that is taken up again is read again from its
  beginning, so its hash does not rest on what a former run believed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from filelock import FileLock

FOLDER_LOCK: Final = ".cutaway.lock"
FOLDER_LOCK_TIMEOUT_S: Final = 10.0
MARK_LENGTH: Final = 8
READ_BYTES: Final = 1 << 20
SYNC_EVERY_BYTES: Final = 256 << 20
_BINARY: Final = getattr(os, "O_BINARY", 0)
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NO_LINKS: Final = frozenset(
    {
        errno.EPERM,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.EMLINK,
        errno.EXDEV,
        errno.EINVAL,
    }
)


class Occupied(Exception):  # noqa: N818
    """Another window or program writes this very file."""


class NameTaken(Exception):  # noqa: N818
    """Something is there under the final name."""


def part_path(target: Path, sha256: str = "") -> Path:
    """Files of one name and of different content have partials of their own."""
    mark = f".{sha256[:MARK_LENGTH].lower()}" if sha256 else ""
    return target.with_name(f".{target.name}{mark}.part")


def lock_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


class Partial:
    """The partial file of `target` with that content, locked from `open` to `close`."""

    def __init__(self, target: Path, sha256: str = "") -> None:
        self.target = target
        self.path = part_path(target, sha256)
        self._lock: FileLock | None = None
        self._fd = -1
        self._hash = hashlib.sha256()
        self._unsynced = 0
        self.size_bytes = 0

    def open(self) -> None:
        """Take the lock and open what is there, or begin anew. Raises Occupied, OSError."""
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._open_file()
        except BaseException:
            self._drop_lock()
            raise

    def close(self) -> None:
        """Leave what there is for another time."""
        try:
            if self._fd >= 0:
                self._close_file()
        finally:
            self._drop_lock()

    def remove(self) -> None:
        """Close it, with nothing left."""
        try:
            if self._fd >= 0:
                self._close_file()
            self.path.unlink(missing_ok=True)
        finally:
            self._drop_lock()

    # --- content --------------------------------------------------------------------------------

    def read_again(self, go_on: Callable[[int], None]) -> None:
        """Hash what is there. `go_on` hears how many bytes were read, and may raise."""
        self._hash = hashlib.sha256()
        os.lseek(self._fd, 0, os.SEEK_SET)
        done = 0
        while block := os.read(self._fd, READ_BYTES):
            self._hash.update(block)
            done += len(block)
            go_on(done)
        self.size_bytes = done

    def append(self, block: bytes) -> None:
        """Write and hash. Raises OSError; what was written before it counts."""
        view = memoryview(block)
        while view:
            written = self._write(view)
            self._hash.update(view[:written])
            self.size_bytes += written
            self._unsynced += written
            view = view[written:]
        if self._unsynced >= SYNC_EVERY_BYTES:
            self._sync()

    def _write(self, view: memoryview) -> int:
        return os.write(self._fd, view)

    def start_over(self) -> None:
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def finish(self) -> int:
        """Give it the final name; its time of change in nanoseconds. Raises NameTaken, OSError."""
        self._sync()
        mtime_ns = os.fstat(self._fd).st_mtime_ns
        self._close_file()
        self._give_name()
        _sync_folder(self.target.parent)
        self._drop_lock()
        return mtime_ns

    def _give_name(self) -> None:
        try:
            os.link(self.path, self.target)
        except FileExistsError as error:
            raise NameTaken from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(self.target):
                raise NameTaken from error
            self.path.rename(self.target)
        else:
            self.path.unlink()

    # --- how it is done -------------------------------------------------------------------------

    def _open_file(self) -> None:
        self._remove_strange()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | _BINARY | _NO_FOLLOW, 0o644)
        self.size_bytes = os.fstat(self._fd).st_size

    def _remove_strange(self) -> None:
        """Whatever stands there and is no plain file of its own would be written through: a link,
        or the second name of a whole file that a killed program had just finished."""
        with contextlib.suppress(FileNotFoundError):
            found = self.path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                self.path.unlink()

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def _sync(self) -> None:
        os.fsync(self._fd)
        self._unsynced = 0

    def _take_lock(self) -> None:
        from filelock import FileLock, Timeout

        lock = FileLock(lock_path(self.target), is_singleton=False, thread_local=False)
        with self._folder_lock():
            try:
                lock.acquire(blocking=False)
            except Timeout as error:
                raise Occupied from error
        self._lock = lock

    def _drop_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            with contextlib.suppress(OSError), self._folder_lock():
                lock_path(self.target).unlink(missing_ok=True)
        finally:
            lock.release()

    def _folder_lock(self) -> FileLock:
        from filelock import FileLock

        return FileLock(
            self.target.parent / FOLDER_LOCK,
            timeout=FOLDER_LOCK_TIMEOUT_S,
            is_singleton=False,
            thread_local=False,
        )


def sha256_of(path: Path, go_on: Callable[[int], None]) -> str:
    """Of a whole file. `go_on` hears how many bytes were read, and may raise."""
    digest = hashlib.sha256()
    done = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
            done += len(block)
            go_on(done)
    return digest.hexdigest()


def remove_leftovers(target: Path, sha256: str = "") -> bool:
    """Remove the partial of a file that nobody fetches any more; False where somebody does."""
    partial = Partial(target, sha256)
    if not os.path.lexists(partial.path) and not os.path.lexists(lock_path(target)):
        return True
    try:
        partial._take_lock()
    except Occupied:
        return False
    partial.remove()
    return True


def _sync_folder(folder: Path) -> None:
    """So that the new name itself is on the disk; some systems cannot."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
