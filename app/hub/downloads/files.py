"""The files of a download on the disk: where they go, and what is removed of them.

Each repository has a folder of its own; where another file has the name there, one of its revision.

Everything that touches a disk here is for a thread that may wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from app.hub.address import file_url, page_of as page_at
from app.hub.downloads.partial import FOLDER_LOCK, remove_leftovers as remove_partial
from app.hub.downloads.safe_names import NameRefused, safe_part, saved_name
from models.records import Download, DownloadFile

MARK_LENGTH: Final = 8


def saved_names(names: Sequence[str]) -> list[str]:
    """What the files are saved as. Raises NameRefused, also where two would have one name."""
    saved = [saved_name(name) for name in names]
    if len({name.casefold() for name in saved}) < len(saved):
        raise NameRefused(
            "Two files of this model would have the same name on this disk, so it can't be "
            "downloaded. Choose another file."
        )
    return saved


def folder_of(folder: Path, repo_id: str) -> Path:
    """Files of one repository lie together: other repositories have files of the same names."""
    return folder.joinpath(*(safe_part(part) for part in repo_id.split("/")))


def folder_of_revision(folder: Path, revision: str) -> Path:
    mark = safe_part(revision[:MARK_LENGTH])
    return folder if folder.name == mark else folder / mark


def url_of(download: Download, file: DownloadFile) -> str:
    return file_url(download.endpoint, download.repo_id, download.revision, file.name)


def page_of(download: Download) -> str:
    return page_at(download.endpoint, download.repo_id)


def remove_leftovers(download: Download) -> str:
    """Partials and locks that a killed program left beside whole or unwanted files."""
    for file in download.files:
        with contextlib.suppress(OSError):
            remove_partial(_path(download, file), file.sha256)
    return ""


def what_is_missing(download: Download) -> str:
    """Which file of a finished download is not there any more, as a sentence; nothing if all
    are. What a killed program left beside them is removed."""
    remove_leftovers(download)
    for file in download.files:
        if not _path(download, file).is_file():
            return (
                f"“{file.saved_as}” is no longer in “{download.folder}”. Reconnect its disk, "
                "press Retry to download it again, or remove it from the list."
            )
    return ""


def remove_unfinished(download: Download) -> str:
    """Everything of a download that is no longer wanted: partials, and of a set that never was
    whole the parts that we fetched and nobody has touched since."""
    remove_leftovers(download)
    for file in download.files if download.finished_at is None else ():
        if is_as_fetched(download, file):
            with contextlib.suppress(OSError):
                _path(download, file).unlink()
    _remove_folders(download)
    return ""


def is_as_fetched(download: Download, file: DownloadFile) -> bool:
    """Whether a file is the one that we fetched, untouched since."""
    if file.mtime_ns is None:
        return False
    try:
        found = _path(download, file).lstat()
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (file.size_bytes, file.mtime_ns)


def to_trash(download: Download, trash: Callable[[str], bool]) -> str:
    """Why not, as a sentence, or nothing. Either all files go, or the first that cannot is told."""
    ours = [file for file in download.files if file.mtime_ns is not None]
    if not ours:
        return (
            "These files weren't downloaded by Cutaway, so they weren't deleted. Remove them from "
            "the list, or delete them in your file manager."
        )
    there = [file for file in ours if _path(download, file).exists()]
    for file in there:
        if not is_as_fetched(download, file):
            return (
                f"“{file.saved_as}” has changed since it was downloaded, so it wasn't deleted. "
                "Delete it in your file manager if you don't need it."
            )
    for file in there:
        if not trash(str(_path(download, file))):
            return (
                f"“{file.saved_as}” couldn't be moved to the trash; its disk may not have one. "
                f"Delete it in your file manager, in “{download.folder}”."
            )
    remove_leftovers(download)
    _remove_folders(download)
    return ""


def _remove_folders(download: Download) -> None:
    """Those that were made for this repository, if they hold nothing but our lock."""
    made = [safe_part(part) for part in download.repo_id.split("/")]
    mark, folder = safe_part(download.revision[:MARK_LENGTH]), Path(download.folder)
    for name in [*([mark] if folder.name == mark else []), *reversed(made)]:
        if folder.name != name:
            return
        with contextlib.suppress(OSError):
            if all(path.name == FOLDER_LOCK for path in folder.iterdir()):
                (folder / FOLDER_LOCK).unlink(missing_ok=True)
                folder.rmdir()
        folder = folder.parent


def _path(download: Download, file: DownloadFile) -> Path:
    return Path(download.folder) / file.saved_as
