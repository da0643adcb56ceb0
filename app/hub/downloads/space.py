"""Whether a folder takes a download: that it can be written to, and that its disk has room.

What is queued for the same disk counts when a download is added; what runs, when one begins and
every 64 MiB or 5 s. Everything here asks a disk, which may be slow or gone: for a thread that may
wait.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.amounts import bytes_words

RESERVE_BYTES: Final = 256 * 1024 * 1024
"""Left free: the conversations are on a disk too, perhaps on this one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Bytes that are still to come into a folder."""

    folder: Path
    left_bytes: int


def folder_trouble(folder: Path, *, is_used_now: bool = True) -> str:
    """Why nothing can be saved in a folder, as a sentence; empty if it can. Makes the folder,
    and takes away again what it made unless it `is_used_now`.

    It is tried, since permissions alone do not tell: a disk can be mounted read-only, a network
    folder have rules of its own.
    """
    if not folder.is_absolute():
        return f"“{folder}” isn't a full path. Enter the full path of a folder."
    try:
        made = _make(folder)
        with tempfile.TemporaryFile(prefix=".cutaway-", dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            return f"“{folder}” is a file or inside one. Choose a folder."
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            return (
                f"Can't save in “{folder}”: it is read-only, or you don't have permission. "
                "Choose another folder."
            )
        why = error.strerror or type(error).__name__
        return f"Can't save in “{folder}” ({why}). Choose another folder."
    for each in () if is_used_now else made:
        with contextlib.suppress(OSError):
            each.rmdir()
    return ""


def _make(folder: Path) -> list[Path]:
    """Make it and what is missing above; what was made, the innermost first."""
    missing = []
    above = folder
    while not above.exists() and above != above.parent:
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def free_bytes(folder: Path) -> int:
    """What the disk of a folder (or of what it will be in) has free for us. Raises OSError."""
    return shutil.disk_usage(_there(folder)).free


def shortage(wanted: Claim, others: Iterable[Claim] = (), free: int | None = None) -> str:
    """Why there is no room for `wanted` beside the others on its disk; empty if there is.

    `free` is what the disk has, asked for where it is None. A disk that does not tell is taken to
    have room: the write will say.
    """
    try:
        place = _there(wanted.folder)
        disk = place.stat().st_dev
        have = free_bytes(wanted.folder) if free is None else free
    except OSError:
        return ""
    claimed = sum(each.left_bytes for each in others if _disk_of(each.folder) == disk)
    if wanted.left_bytes + claimed + RESERVE_BYTES <= have:
        return ""
    also = f", of which other downloads need {bytes_words(claimed)}" if claimed else ""
    return (
        f"{bytes_words(wanted.left_bytes)} are still to be downloaded, but the disk with "
        f"“{wanted.folder}” has only {bytes_words(have)} free{also}; {bytes_words(RESERVE_BYTES)} "
        "stay reserved. Free some space or choose a folder on another disk on the Downloads page, "
        "then try again."
    )


def _disk_of(folder: Path) -> int:
    try:
        return _there(folder).stat().st_dev
    except OSError:
        return -1


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
