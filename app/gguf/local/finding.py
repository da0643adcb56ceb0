"""Finds the weights in a place, and reads what each file says of itself.

`scan` walks one place and says what lies there (paths, stamps, no content); `has_changed` whether
that is still so; `look_at` reads the header of one file. Which of all files are one entry is told
by `app.gguf.local.entries`. What must hold:

* A walk ends: folders are known by device and inode, so no loop of links is walked twice, and
  what cannot be read is named while the rest goes on.
* What is not whole is never taken for whole: neither a file under the name that programs give to a
  download they have begun (the only ones that are not listed at all), nor one beside such a file.

All of it is for a thread: disks sleep, and networks hang.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import sys
from pathlib import Path
from typing import Final

from app.gguf.facts import facts_of
from app.gguf.header import read_header
from app.gguf.local.ollama_store import STORE, scan_ollama
from app.gguf.local.places import Origin, Place, PlaceLayout, absolute, small_text
from app.gguf.local.seen import (
    SHA256,
    AtEachStep,
    LookedFile,
    Scan,
    SeenFile,
    is_folder,
    is_readable,
    is_there,
    stamp_of,
)
from app.gguf.local.split_names import part_names, set_name
from app.gguf.refusal import HeaderRefused

ENDING: Final = ".gguf"
PARTIAL_ENDINGS: Final = (
    ".part",
    ".partial",
    ".incomplete",
    ".crdownload",
    ".download",
    ".downloadinprogress",
    ".aria2",
    ".opdownload",
    ".!qb",
    ".!ut",
    ".bc!",
    ".tmp",
)
"""What programs add to the name of a file that they have not fetched whole. Some (Firefox, aria2)
put an empty or a sparse file under the final name beside it."""
PARTIAL_BEGINNINGS: Final = ("incomplete-", "downloading_")
NOT_ENTERED: Final = frozenset(
    {
        "$recycle.bin",
        ".fseventsd",
        ".spotlight-v100",
        ".trash",
        ".trashes",
        ".git",
        "lost+found",
        "system volume information",
    }
)
"""Trash and what belongs to the file system: nobody keeps weights there to use them."""
PROJECTORS: Final = ("mmproj", "projector")
"""What names of projectors have in them."""
MAX_BESIDE: Final = 4096
"""Files of a folder that are looked at for what belongs to one of them."""
JANS_FILE: Final = "model.yml"
_IMPORTED: Final = re.compile(
    r"^(?:model|mmproj)_path:[ \t]*(?P<path>\S.*?)[ \t\r]*$", re.MULTILINE
)
_NOT_REAL: Final = tuple(Path(name) for name in ("/proc", "/sys", "/dev", "/run"))
_SINGLE: Final = (Origin.INCLUDED, Origin.OPENED)
"""Files: whoever loads one that may not be read is told so then."""


def scan(place: Place, pace: AtEachStep = lambda: None) -> Scan:
    """What lies in the place. A folder that is not there is a trouble only if it was chosen."""
    found = Scan(place)
    try:
        info = place.path.stat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        if place.is_chosen or (not is_gone and place.origin not in _SINGLE):
            found.add_trouble(place.path, error)
        return found
    if stat.S_ISREG(info.st_mode):
        _take_one(found)
    elif place.layout is PlaceLayout.OLLAMA:
        scan_ollama(found, place.path, pace)
    else:
        _walk(found, place.path, pace)
    return found


def has_changed(found: Scan, pace: AtEachStep = lambda: None) -> bool:
    """Whether anything in a scanned place is not as it was. Asks for times and sizes only."""
    if not found.folders and not found.files:
        return is_there(found.place.path)
    for folder, changed_ns in found.folders.items():
        pace()
        try:
            if folder.stat().st_mtime_ns != changed_ns:
                return True
        except OSError:
            return True
    for seen in found.files:
        pace()
        try:
            if stamp_of(seen.path.stat()) != seen.stamp:
                return True
        except OSError:
            return True
    for path in found.lost:
        pace()
        if is_readable(path):
            return True
    return False


def _walk(found: Scan, top: Path, pace: AtEachStep) -> None:
    """Every folder below `top` once; by links only those that are not reached without."""
    entered: set[object] = set()
    waiting, linked = [(top, Path(os.path.realpath(top)))], list[tuple[Path, Path]]()
    while waiting or linked:
        folder, real = waiting.pop() if waiting else linked.pop()
        pace()
        if real in _NOT_REAL:
            continue
        try:
            info = folder.stat()
            identity = (info.st_dev, info.st_ino) if info.st_ino else os.fspath(real)
            if identity in entered:
                continue
            entered.add(identity)
            with os.scandir(folder) as opened:
                listed = sorted(opened, key=lambda entry: entry.name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or folder == top:
                found.add_trouble(folder, error)
            continue
        found.folders[folder] = info.st_mtime_ns
        names = {entry.name.casefold() for entry in listed}
        if names >= STORE:  # of a service, whose settings nobody else knows
            scan_ollama(found, folder, pace)
        for entry in listed:
            pace()
            path, below = folder / entry.name, real / entry.name
            if is_folder(entry):
                if not _may_enter(entry.name):
                    continue
                if _is_link(entry):
                    linked.append((path, Path(os.path.realpath(path))))
                else:
                    waiting.append((path, below))
            elif is_weights_name(entry.name):
                _take_file(found, path, below, entry, names)
            elif found.place.origin is Origin.JAN and entry.name == JANS_FILE:
                _take_imported(found, path)


def _take_imported(found: Scan, file: Path) -> None:
    """Weights, and their projector, that Jan uses where they lie: its `model.yml` has their
    absolute paths."""
    for line in _IMPORTED.finditer(small_text(file)):
        path = absolute(line["path"].strip("\"'"), Path.home())
        if path is None or not is_weights_name(path.name):
            continue
        try:
            info = path.stat()
        except OSError:
            found.lost.append(path)  # moved or deleted since: Jan cannot use it either
            continue
        if stat.S_ISREG(info.st_mode):
            real = Path(os.path.realpath(path))
            kept = (f"jan {file}",)
            found.files.append(SeenFile(path, real, stamp_of(info), Origin.JAN, kept_with=kept))


def _take_one(found: Scan) -> None:
    """A place that is a file: that file, or the split set that it is a part of, and projectors that
    lie beside it."""
    path = found.place.path
    with contextlib.suppress(OSError):  # parts come and go beside it
        found.folders[path.parent] = path.parent.stat().st_mtime_ns
    split = set_name(path.name)
    names = part_names(split) if split is not None else [path.name]
    for name in (*names, *(each for each in _projectors_in(path.parent) if each not in names)):
        other = path.with_name(name)
        try:
            info = other.stat()
        except OSError:
            continue  # a missing part is named by its set
        real = Path(os.path.realpath(other))
        begun = any(is_there(other.with_name(name + e)) for e in PARTIAL_ENDINGS)
        called = (found.place.name,) if found.place.name and name in names else ()
        origin, by_name = found.place.origin, _named_by(real)
        found.files.append(SeenFile(other, real, stamp_of(info), origin, called, by_name, begun))


def _projectors_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MAX_BESIDE)]
    except OSError:
        return []
    return sorted(name for name in names if is_projector_name(name) and is_weights_name(name))


def is_projector_name(name: str) -> bool:
    """
    >>> is_projector_name("mmproj-F16.gguf"), is_projector_name("tiny-Q4_0.gguf")
    (True, False)
    """
    folded = name.casefold()
    return folded.endswith(ENDING) and any(each in folded for each in PROJECTORS)


def _may_enter(name: str) -> bool:
    folded = name.casefold()
    return folded not in NOT_ENTERED and not folded.startswith(".trash-")


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() or (sys.version_info >= (3, 12) and entry.is_junction())
    except OSError:
        return True


def is_weights_name(name: str) -> bool:
    """Whether a file is called as whole weights are.

    >>> is_weights_name("Tiny-Q4_K_M.GGUF"), is_weights_name("tiny.gguf.part")
    (True, False)
    """
    folded = name.casefold()
    if folded.startswith("._"):  # what macOS puts beside each file on a foreign disk
        return False
    return folded.endswith(ENDING) and not folded.startswith(PARTIAL_BEGINNINGS)


def _take_file(
    found: Scan, path: Path, real: Path, entry: os.DirEntry[str], names: set[str]
) -> None:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            return
        if _is_link(entry):
            real = Path(os.path.realpath(path))
    except OSError as error:
        if _is_link(entry) and isinstance(error, FileNotFoundError):
            found.lacks(
                path,
                f"“{path}” links to a file that no longer exists. Download it again or delete "
                "the link.",
            )
        else:
            found.add_trouble(path, error)
        return
    folded = entry.name.casefold()
    found.files.append(
        SeenFile(
            path,
            real,
            stamp_of(info),
            found.place.origin,
            named_sha256=_named_by(real),
            is_begun=any(folded + ending in names for ending in PARTIAL_ENDINGS),
        )
    )


def _named_by(real: Path) -> str:
    """The SHA-256 that a blob in Hugging Face's cache is called by, if it is one."""
    is_blob = real.parent.name == "blobs" and SHA256.fullmatch(real.name)
    return real.name if is_blob else ""


def look_at(seen: SeenFile) -> LookedFile:
    """What the header of the file says, or the sentence why it cannot be used."""
    if seen.is_begun:
        return LookedFile(
            seen,
            trouble=(
                f"“{seen.path.name}” is still being downloaded by another program. Wait until it "
                "is finished."
            ),
        )
    try:
        facts = facts_of(read_header(seen.path))
    except HeaderRefused as refused:
        is_unread = isinstance(refused.__cause__, OSError)
        return LookedFile(seen, trouble=refused.sentence, is_unread=is_unread)
    return LookedFile(seen, facts)
