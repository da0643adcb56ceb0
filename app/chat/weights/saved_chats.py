"""What the KV cache leaves on disk, as the window sees it: the folder, the key, and what goes.

The engine writes and reads the files (`app/engine/process/cache/saved.py`); here they are only
counted and deleted, by their names. What must hold: the key is made once, by the window that may
write, and is for its owner alone; what is deleted for good goes from the disk also while no engine
runs, and the engine is told, so that it does not write it again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.chat.events import Noticed
from app.chat.inspection.questions import Questions
from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.chat.weights.file_work import answer, begin
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import Done
from app.engine.protocol.saved_messages import (
    KEY_BYTES,
    PART_SUFFIX,
    SUFFIX,
    DropSaved,
    ForgetChats,
    SavedCommand,
    SavedFolder,
    UseSaved,
    name_start,
)

if TYPE_CHECKING:
    from models.store.store import Store

FOLDER: Final = "kv"
KEY_FILE: Final = "kv.key"
MB: Final = 1_000_000


class SavedChats:
    """`setting` is `saved_chats_mb`: how much of the disk they may take, 0: none."""

    def __init__(
        self, around: Surroundings, loader: Loader, questions: Questions, data_dir: Path
    ) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._folder = data_dir / FOLDER
        self._key_file = data_dir / KEY_FILE
        self._key = b""
        self._is_opened = False

    # --- what the engine is told --------------------------------------------------------------

    def for_engine(self) -> SavedFolder | None:
        """Where chats are saved; None before the key is known."""
        if not self._key:
            return None
        cap_bytes = self._around.settings.saved_chats_mb * MB
        may_write = self._is_opened and self._around.can_write
        return SavedFolder(os.fsencode(self._folder), self._key, cap_bytes, may_write)

    def begin(self) -> None:
        """At the start, before anything is loaded: read the key of a run before."""
        self._with_key(lambda: _read_key(self._key_file))

    def on_store_opened(self) -> None:
        """Now it is known whether this window may write."""
        self._is_opened = True
        if self._around.can_write:
            self._with_key(lambda: _read_key(self._key_file) or _make_key(self._key_file))

    def _with_key(self, work: Callable[[], bytes]) -> None:
        def take(key: bytes) -> None:
            if key:
                self._key = key
                self.tell()

        key, _ = begin(work, "saved-key")
        # There is one key. Without it (a full disk, a folder of others) nothing is saved.
        answer(self._around, key, take, lambda _: None, str, ALWAYS)

    def tell(self) -> None:
        """Tell the loaded weights' engine where things stand. It may have been loaded before that
        was known, or by the supervisor, after a crash."""
        if (folder := self.for_engine()) is not None:
            self._ask(UseSaved(0, folder))

    def on_settings_changed(self) -> None:
        self.tell()
        if not self._around.settings.saved_chats_mb and self._around.can_write:
            self._remove(lambda name: True)

    def _ask(self, command: SavedCommand) -> None:
        """What is asked is done, or there is no engine that knows of anything."""
        self._questions.ask(command, Done, lambda _: None, lambda _: None, still=ALWAYS)

    # --- what there is ------------------------------------------------------------------------

    def measure(self, then: Callable[[int], None], *, still: Still) -> None:
        """How many bytes all files take."""
        size, _ = begin(lambda: sum(_sizes(self._folder).values()), "saved-size")
        answer(self._around, size, then, lambda _: then(0), str, still)

    # --- what goes ----------------------------------------------------------------------------

    def drop_all(self, then: Callable[[], None] = lambda: None) -> None:
        """Remove all files, of whatever weights, and say so."""

        def tell() -> None:
            self._around.emit(Noticed("info", "All saved chat caches were deleted."))
            then()

        if self._around.may_write():
            self._ask(DropSaved(0))
            self._remove(lambda name: True, tell)

    def forget(self, conversation_ids: Iterable[str]) -> None:
        """These chats were deleted for good."""
        ids = list(conversation_ids)
        if ids and self._around.can_write:
            self._ask(ForgetChats(0, ids))
            starts = set(map(name_start, ids))
            self._remove(lambda name: name.partition("-")[0] in starts)

    def sweep(self) -> None:
        """Remove what belongs to no chat that is stored: some were deleted in another way, or the
        program ended in between."""
        store = self._around.store
        if store is None or not self._around.can_write:
            return

        def take(names: list[str]) -> None:
            if names:
                self._sweep(names, store)

        # First the files: what comes later may be of a chat that comes later.
        listed, _ = begin(lambda: list(_sizes(self._folder)), "saved-list")
        answer(self._around, listed, take, lambda _: None, str, ALWAYS)  # of all chats

    def _sweep(self, names: list[str], store: Store) -> None:
        known = [store.list_conversations(), store.list_trash()]

        def remove(_: object) -> None:
            starts = {name_start(chat.id) for each in known for chat in each.result()}
            self._remove(lambda name: name in names and name.partition("-")[0] not in starts)

        # The second answer comes last: both are read by one thread.
        self._around.when_done(known[1], remove, lambda _: None, still=ALWAYS)  # of all chats

    def _remove(
        self, is_meant: Callable[[str], bool], then: Callable[[], None] = lambda: None
    ) -> None:
        def remove() -> None:
            for name in _sizes(self._folder):
                if is_meant(name):
                    with contextlib.suppress(OSError):
                        (self._folder / name).unlink()

        done, _ = begin(remove, "saved-remove")
        answer(self._around, done, lambda _: then(), lambda _: then(), str, ALWAYS)  # it is done


def _sizes(folder: Path) -> dict[str, int]:
    """The files and what they take; nothing where there is no folder yet."""
    sizes = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((SUFFIX, PART_SUFFIX)):
                with contextlib.suppress(OSError):  # gone meanwhile
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return sizes


def _read_key(path: Path) -> bytes:
    """Empty where there is none, or something else in its place."""
    try:
        if not path.is_file():  # opening a pipe would wait for who never comes
            return b""
        with path.open("rb") as file:
            key = file.read(KEY_BYTES + 1)
    except OSError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def _make_key(path: Path) -> bytes:
    """Raises OSError."""
    key = secrets.token_bytes(KEY_BYTES)
    part = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return key
