"""Whether the chat that was open last may be opened by itself at the start.

A chat that hangs or crashes the window while it is shown must not do so again at every start:
its id stands in a small file from when it is opened until the window has lived on for a
moment. Who finds it there at the start leaves that chat closed, once, and says so.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from app.chat.alarms import Alarms

HARMLESS_AFTER_S: Final = 2.0
LEFT_CLOSED_SENTENCE: Final = (
    "The last chat was left closed, because the program ended while it was being shown. "
    "It is in the list."
)
_FILE: Final = "opening-chat"
_MAX_BYTES: Final = 200


class LastChat:
    """Belongs to the owner's thread; the file is a few bytes."""

    def __init__(self, data_dir: Path, alarms: Alarms) -> None:
        self._path = data_dir / _FILE
        self._alarms = alarms
        self._is_opening = False

    def may_open(self, conversation_id: str) -> bool:
        """Note that this chat is being opened. False: the last start did not survive that."""
        try:
            with self._path.open("rb") as file:
                noted = file.read(_MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            noted = ""
        if noted == conversation_id:
            self._forget()
            return False
        self._is_opening = True
        with contextlib.suppress(OSError):
            self._path.write_text(conversation_id, encoding="utf-8")
        return True

    def on_shown(self) -> None:
        """A chat is on screen now: if the window lives on, it did no harm."""
        if self._is_opening:
            self._alarms.set("last chat", HARMLESS_AFTER_S, self.close)

    def close(self) -> None:
        """It did no harm, or the app closes in an orderly way."""
        if self._is_opening:
            self._is_opening = False
            self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
