"""Whether the chat that was open last may be opened by itself at the start.

A chat that hangs or crashes the window while it is shown must not do so again at every start:
its id stands in a small file from when it is opened until the window has lived on for a
moment. Who finds it there at the start leaves that chat closed, once, and says so.

A chat that is shown before there is a desk (`models.store.peek`) has a file of its own until the
desk has taken over, with the process that shows it: so the desk can tell this start from the last.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from app.chat.alarms import Alarms

HARMLESS_AFTER_S: Final = 2.0
LEFT_CLOSED_SENTENCE: Final = (
    "Your last chat wasn't reopened because Cutaway closed unexpectedly while showing it. It is "
    "still in the list."
)
_FILE: Final = "opening-chat"
_PEEK_FILE: Final = "peeking-chat"
_MAX_BYTES: Final = 200


def may_peek(data_dir: Path, conversation_id: str) -> bool:
    """Note that this process is about to show this chat before there is a desk. False: one that
    did so has not lived on, or another one is just starting."""
    path = data_dir / _PEEK_FILE
    if path.exists() or _noted(data_dir / _FILE) == conversation_id:
        return False
    with contextlib.suppress(OSError):
        path.write_text(f"{os.getpid()} {conversation_id}", encoding="utf-8")
        return True
    return False


def end_peek(data_dir: Path) -> None:
    """The desk has taken over, or the program ends in an orderly way."""
    path = data_dir / _PEEK_FILE
    if _noted(path).startswith(f"{os.getpid()} "):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _noted(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class LastChat:
    """Belongs to the owner's thread; the file is a few bytes."""

    def __init__(self, data_dir: Path, alarms: Alarms) -> None:
        self._data_dir = data_dir
        self._path = data_dir / _FILE
        self._peek_path = data_dir / _PEEK_FILE
        self._alarms = alarms
        self._is_opening = False

    def may_open(self, conversation_id: str) -> bool:
        """Note that this chat is being opened. False: the last start did not survive that."""
        peeking_process, _, peeked = _noted(self._peek_path).partition(" ")
        is_of_this_start = peeking_process == str(os.getpid())
        if peeked and not is_of_this_start:
            with contextlib.suppress(OSError):
                self._peek_path.unlink(missing_ok=True)
            if peeked == conversation_id:
                return False
        if _noted(self._path) == conversation_id:
            self._forget()
            return False
        self._is_opening = True
        with contextlib.suppress(OSError):
            self._path.write_text(conversation_id, encoding="utf-8")
        return True

    def on_settled(self) -> None:
        """It is decided whether the last chat comes; what was shown before is over."""
        end_peek(self._data_dir)

    def on_shown(self) -> None:
        """A chat is on screen now: if the window lives on, it did no harm."""
        if self._is_opening:
            self._alarms.set("last chat", HARMLESS_AFTER_S, self.close)

    def close(self) -> None:
        """It did no harm, or the app closes in an orderly way."""
        end_peek(self._data_dir)
        if self._is_opening:
            self._is_opening = False
            self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
