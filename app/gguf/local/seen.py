"""What is seen of files on this machine before they are put together: paths, stamps, headers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.gguf.facts import Facts
from app.gguf.local.places import Origin, Place

SHA256: Final = re.compile(r"[0-9a-f]{64}")

AtEachStep = Callable[[], None]
"""Called at every step of a walk; it may wait, and raises to end the walk."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """While nothing of this has changed, neither has the content of the file."""

    size_bytes: int
    mtime_ns: int
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One path to a file that may hold weights.

    `real` is the path without links. `names` are what another program calls it. `named_sha256`
    is the hash that its store names it by: what is claimed, not what was computed. `is_begun`:
    a program has begun to fetch it, and has not ended. `kept_with`: names of what another program
    keeps together (weights and their projector), each the same for all files of it.
    """

    path: Path
    real: Path
    stamp: Stamp
    origin: Origin
    names: tuple[str, ...] = ()
    named_sha256: str = ""
    is_begun: bool = False
    kept_with: tuple[str, ...] = ()


@dataclass(slots=True)
class Scan:
    """What lies in one place. `troubles` are sentences; `folders` has the time of the last
    change in each folder that was walked, by which a change is found again; `lost` are paths
    that could not be read, which no such time tells of."""

    place: Place
    files: list[SeenFile] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    folders: dict[Path, int] = field(default_factory=dict)
    lost: list[Path] = field(default_factory=list)

    def add_trouble(self, path: Path, error: OSError) -> None:
        others = "exclude models from other apps under “Folders…”"
        instead = "remove the folder here" if self.place.is_chosen else others
        self.lacks(path, sentence_of(path, error, instead))

    def lacks(self, path: Path, sentence: str) -> None:
        self.troubles.append(sentence)
        self.lost.append(path)


@dataclass(frozen=True, slots=True)
class LookedFile:
    """A file with what its header says, or why it cannot be used. `sha256` was computed.
    `is_unread`: the disk did not give it, which may be otherwise without a change of the file."""

    seen: SeenFile
    facts: Facts | None = None
    trouble: str = ""
    sha256: str = ""
    is_unread: bool = False


def sentence_of(path: Path, error: OSError, instead: str = "remove the folder here") -> str:
    """Why a folder or a file cannot be looked into, and what to do; `instead` is the other way."""
    if isinstance(error, PermissionError):
        return f"You don't have permission to read “{path}”. Change its permissions, or {instead}."
    if isinstance(error, FileNotFoundError):
        return f"“{path}” can't be found. Connect its disk, or {instead}."
    if isinstance(error, NotADirectoryError):
        return f"“{path}” isn't a folder. Choose the folder that contains it."
    reason = error.strerror or type(error).__name__
    return f"“{path}” can't be read ({reason}). Check its disk or connection."


def stamp_of(info: os.stat_result) -> Stamp:
    return Stamp(info.st_size, info.st_mtime_ns, info.st_dev, info.st_ino)


def is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_readable(path: Path) -> bool:
    """Whether a folder can be listed, or a file be read."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            with os.scandir(path) as opened:
                return all(True for _ in opened)
        if stat.S_ISREG(mode):  # a pipe would never end
            with path.open("rb", buffering=0) as file:
                file.read(1)
                return True
    except OSError:
        pass
    return False


def is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
