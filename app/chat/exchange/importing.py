"""Reading files that shall be imported: looked through first, and again while they are stored.

What must hold: whatever a file holds, it is refused in a sentence or understood as a whole. A file
is read chat by chat both times, so it must be the same one: `ImportSource.stamp` tells.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from app.amounts import bytes_words
from app.chat.exchange import json_file, markdown_foreign, markdown_format
from app.chat.exchange.json_format import folders_of, presets_of
from app.chat.exchange.refusals import FileRefused
from app.reading.files import shown_name
from models.records import Folder, Preset, Whereabouts, WholeConversation
from models.store.store import Store

MAX_MARKDOWN_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 1000

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Looked:
    """A chat of a file, and what the store has of it."""

    title: str
    n_messages: int
    updated_at: datetime
    file: str
    whereabouts: Whereabouts


@dataclass(slots=True)
class ImportSource:
    """A file that could be read from its beginning to its end."""

    path: Path
    stamp: Stamp


@dataclass(slots=True)
class ImportPreview:
    """What an import would bring. `refusals` are sentences about files that bring nothing."""

    now: datetime
    sources: list[ImportSource] = field(default_factory=list)
    chats: list[Looked] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    folders: list[Folder] = field(default_factory=list)
    presets: list[Preset] = field(default_factory=list)

    def chats_again(self, check: Callable[[], None]) -> Iterator[WholeConversation]:
        """Everything that was looked at, for the store. Raises where a file has changed."""
        for source in self.sources:
            name = shown_name(str(source.path))
            with _opened(source.path, name) as (file, stamp):
                if stamp != source.stamp:
                    raise FileRefused(f"{name} has changed since you chose it. Choose it again.")
                for chat in _chats(file, name, self.now, ImportPreview(self.now)):
                    check()
                    yield chat


def look_through(
    store: Store, paths: Sequence[str], now: datetime, check: Callable[[], None]
) -> ImportPreview:
    """Read every file and ask the store about every chat. A bad file costs a sentence."""
    preview = ImportPreview(now)
    if len(paths) > MAX_FILES:
        preview.refusals.append(f"Only the first {MAX_FILES} files were read. Choose fewer.")
    seen: set[str] = set()
    for path in paths[:MAX_FILES]:
        found = ImportPreview(now)
        try:
            _look_at(store, Path(path), found, seen, check)
        except FileRefused as refused:
            preview.refusals.append(str(refused))
            continue
        for name in ("sources", "chats", "folders", "presets"):
            getattr(preview, name).extend(getattr(found, name))
    return preview


def _look_at(
    store: Store, path: Path, found: ImportPreview, seen: set[str], check: Callable[[], None]
) -> None:
    name = shown_name(str(path))
    with _opened(path, name) as (file, stamp):
        for chat in _chats(file, name, found.now, found):
            check()
            where = store.whereabouts(chat).result()
            if chat.conversation.id in seen and where is Whereabouts.NEW:
                where = Whereabouts.OTHER  # unless it is the same, which the import will see
            seen.add(chat.conversation.id)
            c = chat.conversation
            found.chats.append(Looked(c.title, len(chat.messages), c.updated_at, name, where))
    if not found.chats:
        raise FileRefused(f"{name} contains no chat.")
    found.sources.append(ImportSource(path, stamp))


def _chats(
    file: BinaryIO, name: str, now: datetime, found: ImportPreview
) -> Iterable[WholeConversation]:
    beginning = file.read(64)
    file.seek(0)
    is_json = beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    if not is_json and not name.lower().endswith(".json"):
        return [_markdown(file, name, now)]
    head, chats = json_file.read(file, name)
    found.folders += folders_of(head)
    found.presets += presets_of(head)
    return chats


def _markdown(file: BinaryIO, name: str, now: datetime) -> WholeConversation:
    raw = file.read(MAX_MARKDOWN_BYTES + 1)
    if len(raw) > MAX_MARKDOWN_BYTES:
        raise FileRefused(
            f"{name} is larger than {bytes_words(MAX_MARKDOWN_BYTES)}, too large for a Markdown "
            "chat."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused(
            f"{name} is neither a JSON chat nor UTF-8 text. Choose an exported file."
        ) from error
    if markdown_format.is_ours(text):
        return markdown_format.read(text, name, now)
    return markdown_foreign.read(text, name, now)


@contextlib.contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[BinaryIO, Stamp]]:
    """Only a plain file: opening a pipe would wait for ever."""
    try:
        about = _about(path, name)
        if not stat.S_ISREG(about.st_mode):
            raise FileRefused(f"{name} isn't a file. Choose an exported file.")
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            yield file, (about.st_ino, about.st_size, about.st_mtime_ns)
    except OSError as error:
        why = error.strerror or str(error)
        raise FileRefused(f"{name} couldn't be read ({why}). Check that it exists.") from error


def _about(path: Path, name: str) -> os.stat_result:
    try:
        return path.stat()
    except ValueError as error:  # a NUL in it
        raise FileRefused(f"{name} has a name that can't be opened. Rename it.") from error
