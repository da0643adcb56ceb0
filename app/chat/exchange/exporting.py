"""Writing chats into files, on a thread of its own.

What must hold: a file is whole or not there (it gets its name when everything is in it and on
disk), and a folder that is exported into loses nothing that it had.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from app.chat.exchange import json_file, markdown_format
from app.chat.exchange.refusals import FileRefused
from models.records import Folder, Preset, WholeConversation
from models.store.errors import NotFoundError
from models.store.store import Store

NOTHING: Final = "Nothing to export yet: this chat has no saved messages."

_LONGEST_NAME: Final = 80
_FORBIDDEN: Final = '<>:"/\\|?*'
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10))}
)


@dataclass(slots=True)
class Export:
    """What to write where. `ids` None: every chat that is not in the trash.

    As Markdown several chats become several files in the folder `target`. `check` raises when
    nobody wants it any more.
    """

    store: Store
    ids: Sequence[str] | None
    target: Path
    now: datetime
    check: Callable[[], None]

    def to_json(self) -> int:
        """One file; how many chats are in it."""
        folders, presets = self._belongings()
        chats = self._chats()
        with _whole_file(self.target) as file:
            count = json_file.write(file, chats, folders, presets, self.now)
            if not count:
                raise FileRefused(NOTHING)
        return count

    def to_markdown_file(self) -> int:
        chat = next(self._chats(), None)
        if chat is None:
            raise FileRefused(NOTHING)
        with _whole_file(self.target) as file:
            file.write(markdown_format.written(chat).encode())
        return 1

    def to_markdown_folder(self) -> int:
        count = 0
        with _in_words(self.target):
            self.target.mkdir(exist_ok=True)
            for chat in self._chats():
                path = _free_path(self.target, file_name(chat.conversation.title, ".md"))
                with _whole_file(path) as file:
                    file.write(markdown_format.written(chat).encode())
                count += 1
        if not count:
            raise FileRefused(NOTHING)
        return count

    def _chats(self) -> Iterator[WholeConversation]:
        ids = self.ids
        if ids is None:
            ids = [each.id for each in self.store.list_conversations().result()]
        for conversation_id in ids:
            self.check()
            # A chat that is not stored, or not any more; a temporary one that has ended.
            with contextlib.suppress(NotFoundError, CancelledError):
                yield self.store.read_whole(conversation_id).result()

    def _belongings(self) -> tuple[list[Folder], list[Preset]]:
        """The folders and presets that these chats are in and have."""
        chats = self.store.list_conversations().result()
        if self.ids is not None:
            chats = tuple(each for each in chats if each.id in set(self.ids))
        folders = {folder.id: folder for folder in self.store.list_folders().result()}
        needed: set[str] = set()
        for chat in chats:
            place = chat.folder_id
            while place in folders and place not in needed:
                needed.add(place)
                place = folders[place].parent_id
        presets = {chat.preset_id for chat in chats}
        return (
            [_rooted(folder, folders) for folder in folders.values() if folder.id in needed],
            [each for each in self.store.list_presets().result() if each.id in presets],
        )


def _rooted(folder: Folder, folders: dict[str, Folder]) -> Folder:
    """At the top, where the folders around it lead in a circle (a damaged database)."""
    place, steps = folder.parent_id, 0
    while place is not None and steps <= len(folders):
        place = folders[place].parent_id if place in folders else None
        steps += 1
    if place is None:
        return folder
    return Folder(folder.id, folder.name, folder.created_at, None, folder.position)


def write_text(target: Path, text: str) -> None:
    """A file of its own; one that is there is replaced."""
    with _whole_file(target) as file:
        file.write(text.encode())


def file_name(title: str, suffix: str) -> str:
    """A name that every file system takes.

    >>> file_name("What is 1/2 + 1/2?", ".md")
    'What is 1 2 + 1 2.md'
    """
    name = "".join(" " if c in _FORBIDDEN or not c.isprintable() else c for c in title)
    name = " ".join(name.split())[:_LONGEST_NAME].strip(". ")
    while len(name.encode()) > 2 * _LONGEST_NAME:
        name = name[:-1]
    if not name or name.partition(".")[0].lower() in _RESERVED:
        name = f"Chat {name}".strip()
    return name + suffix


def _free_path(folder: Path, name: str) -> Path:
    wanted = folder / name
    number, path = 1, wanted
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.stem} ({number}){wanted.suffix}")
    return path


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the name `path` at the end, if nothing was raised."""
    with _in_words(path):
        if path.exists() and not path.is_file():
            raise FileRefused(f"“{path.name}” isn't a file that can be written. Choose another.")
        handle, part = tempfile.mkstemp(prefix=".cutaway-", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(part).replace(path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise FileRefused(
            f"“{path.name}” couldn't be saved ({why}). Choose another location or free some space."
        ) from error
