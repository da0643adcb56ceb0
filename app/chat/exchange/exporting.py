"""Writing chats into files, on a thread of its own.

What must hold: a file is whole or not there (it gets its name when everything is in it and on
disk), and a folder that is exported into loses nothing that it had.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from app.chat.exchange import json_file, markdown_format
from app.chat.exchange.choices import AS_READ, SUFFIXES, ZIP, Choices
from app.chat.exchange.reading import Chat, as_one_text
from app.chat.exchange.refusals import FileRefused
from app.markdown.formula_drawings import FormulaDrawings
from models.records import Folder, Preset, WholeConversation
from models.store.errors import NotFoundError
from models.store.store import Store

NOTHING: Final = "Nothing to export yet: this chat has no saved messages."
NO_REPLIES: Final = "Nothing to export: none of these chats has a finished reply."

sync: Final = os.fsync
"""Down to the disk itself, which may be full only then."""

_KEPT: Final = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"GGUF")
"""How files begin that nobody means to replace by an export: databases (Cutaway's own, which may be
open) with their logs, and models."""

_LONGEST_NAME: Final = 80
_FORBIDDEN: Final = '<>:"/\\|?*'
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{kind}{digit}" for kind in ("com", "lpt") for digit in "123456789¹²³"}
)


class Press(Protocol):
    """Makes a PDF, as only the window can: pages are laid out and painted by it. Called on the
    export's thread, and waits; raises FileRefused."""

    def print_chat(self, chat: Chat, choices: Choices, path: Path) -> None: ...

    def close(self) -> None:
        """Give up what is half made, once no thread asks any more. On the window's own thread."""
        ...


@dataclass(slots=True)
class Export:
    """What to write where. `ids` None: every chat that is not in the trash.

    Several chats become one file where their kind holds several; else a file each, in the folder
    `target`, or in a ZIP archive if it is called so. `check` raises when nobody wants it any more;
    `tell` hears how much is done, of how much: messages of one chat, or chats.
    """

    store: Store
    ids: Sequence[str] | None
    target: Path
    now: datetime
    check: Callable[[], None]
    choices: Choices
    tell: Callable[[int, int], None] = lambda done, total: None
    press: Press | None = None
    _drawings: FormulaDrawings = field(init=False)

    def __post_init__(self) -> None:
        self._drawings = FormulaDrawings(check=self.check)

    def run(self) -> int:
        """How many chats were written."""
        form = self.choices.form
        try:
            if form == "json":
                return self._to_json()
            if form == "training":
                return self._to_lines()
            if self.ids is not None and len(self.ids) == 1:
                return self._to_one_file()
            return self._to_zip() if self.target.suffix == ZIP else self._to_folder()
        finally:
            self._drawings.close()

    def _to_json(self) -> int:
        folders, presets = self._belongings()
        chats = self._wholes()
        with _whole_file(self.target) as file:
            count = json_file.write(file, chats, folders, presets, self.now)
            if not count:
                raise FileRefused(NOTHING)
        return count

    def _to_lines(self) -> int:
        from app.chat.exchange import training

        count = 0
        with _whole_file(self.target) as file:
            for chat in self._chats():
                is_written = False
                for line in training.lines(chat, self.choices):
                    file.write(line)
                    is_written = True
                count += is_written
            if not count:
                raise FileRefused(NO_REPLIES)
        return count

    def _to_one_file(self) -> int:
        chat = next(self._chats(), None)
        if chat is None:
            raise FileRefused(NOTHING)
        with _whole_path(self.target) as path:
            self._write(chat, path)
        return 1

    def _to_folder(self) -> int:
        count = 0
        with _in_words(self.target):
            self.target.mkdir(exist_ok=True)
            for chat in self._chats():
                path = _free_path(self.target, self._name_of(chat))
                with _whole_path(path) as part:
                    self._write(chat, part)
                count += 1
        if not count:
            raise FileRefused(NOTHING)
        return count

    def _to_zip(self) -> int:
        names: set[str] = set()
        with _whole_file(self.target) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for chat in self._chats():
                    name = _free_name(self._name_of(chat), names)
                    with _part_beside(self.target) as part:
                        self._write(chat, part)
                        archive.write(part, name)
            if not names:
                raise FileRefused(NOTHING)
        return len(names)

    def _name_of(self, chat: Chat) -> str:
        return file_name(chat.conversation.title, SUFFIXES[self.choices.form])

    def _write(self, chat: Chat, path: Path) -> None:
        """One chat as a file of its own. What one kind needs is imported where it is written."""
        choices = self.choices
        if choices.form == "pdf":
            if self.press is None:
                raise FileRefused("PDF files are made by the window. Export as HTML instead.")
            self.press.print_chat(chat, choices, path)
            return
        with path.open("wb") as file:
            if choices.form == "docx":
                from app.chat.exchange import docx_file

                docx_file.write(file, chat, choices, self.now)
                return
            for piece in self._pieces(chat):
                file.write(piece.encode())

    def _pieces(self, chat: Chat) -> Iterable[str]:
        if self.choices.form == "markdown":
            return (markdown_format.written(chat.whole),)
        if self.choices.form == "html":
            from app.chat.exchange import html_page

            return html_page.page(chat, self.choices, self.now)
        assert self.choices.form == "tokens"
        from app.chat.exchange import token_rows

        return token_rows.rows(chat, self.choices)

    def _ids(self) -> list[str]:
        if self.ids is not None:
            return list(self.ids)
        return [each.id for each in self.store.list_conversations().result()]

    def _wholes(self) -> Iterator[WholeConversation]:
        ids = self._ids()
        for done, conversation_id in enumerate(ids):
            self.check()
            self.tell(done, len(ids))
            # A chat that is not stored, or not any more; a temporary one that has ended.
            with contextlib.suppress(NotFoundError, CancelledError):
                yield self.store.read_whole(conversation_id).result()

    def _chats(self) -> Iterator[Chat]:
        """One after the other, without what is large. Those without any message are left out."""
        ids = self._ids()
        for done, conversation_id in enumerate(ids):
            self.check()
            with contextlib.suppress(NotFoundError, CancelledError):
                whole = self.store.read_texts(conversation_id).result()
                if self.choices.form in AS_READ:
                    whole = as_one_text(whole)
                chat = Chat(self.store, whole, self._drawings, self.check)
                chat.step = self._counted(len(whole.messages), done, len(ids))
                if whole.messages or len(ids) == 1:
                    yield chat

    def _counted(self, n_messages: int, done: int, n_chats: int) -> Callable[[], None]:
        """What is called for each message of a chat."""
        if n_chats > 1 or self.ids is None:
            self.tell(done, n_chats)
            return self.check
        count = 0

        def step() -> None:
            nonlocal count
            self.check()
            self.tell(min(count, n_messages), n_messages)
            count += 1

        return step

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
    write_bytes(target, text.encode())


def write_bytes(target: Path, data: bytes) -> None:
    with _whole_file(target) as file:
        file.write(data)


def file_name(title: str, suffix: str) -> str:
    """A name that every file system takes.

    >>> file_name("What is 1/2 + 1/2?", ".md")
    'What is 1 2 + 1 2.md'
    """
    name = "".join(" " if c in _FORBIDDEN or not c.isprintable() else c for c in title)
    name = " ".join(name.split())[:_LONGEST_NAME].strip(". ")
    while len(name.encode()) > 2 * _LONGEST_NAME:
        name = name[:-1]
    if not name or name.partition(".")[0].rstrip().lower() in _RESERVED:
        name = f"Chat {name}".strip()
    return name + suffix


def _free_path(folder: Path, name: str) -> Path:
    wanted = folder / name
    number, path = 1, wanted
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.stem} ({number}){wanted.suffix}")
    return path


def _free_name(name: str, taken: set[str]) -> str:
    """In an archive, where letters alone may be large or small: not everywhere are they told
    apart."""
    stem, dot, suffix = name.rpartition(".")
    number, free = 1, name
    while free.casefold() in taken:
        number += 1
        free = f"{stem} ({number}){dot}{suffix}"
    taken.add(free.casefold())
    return free


@contextlib.contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the name `path` at the end, if nothing was raised."""
    with _whole_path(path) as part, part.open("wb") as file:
        yield file


@contextlib.contextmanager
def _whole_path(path: Path) -> Iterator[Path]:
    """What is written there takes the name `path` at the end, if nothing was raised."""
    with _in_words(path):
        _check_replaceable(path)
        with _part_beside(path) as part:
            yield part
            with part.open("rb+") as file:
                sync(file.fileno())
            part.replace(path)


def _check_replaceable(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise FileRefused(f"“{path.name}” isn't a file that can be written. Choose another.")
    if not path.stat().st_mode & stat.S_IWUSR:
        raise FileRefused(f"“{path.name}” is read-only. Choose another name.")
    with path.open("rb") as file:
        if file.read(16).startswith(_KEPT):
            raise FileRefused(f"“{path.name}” is a database or a model. Choose another name.")


@contextlib.contextmanager
def _part_beside(path: Path) -> Iterator[Path]:
    """An empty file in the same folder, gone afterwards."""
    handle, name = tempfile.mkstemp(prefix=".cutaway-", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise FileRefused(
            f"“{path.name}” couldn't be saved ({why}). Choose another location or free some space."
        ) from error
