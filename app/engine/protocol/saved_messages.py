"""KV state on disk as the two processes speak of it: where it may lie, what lies there.

The window owns the folder and the key (`app/chat/weights/saved_chats.py`); the engine reads and
writes the files (`process/cache/saved.py`). Both know a chat's files by their names, so that what
is deleted for good goes from the disk also while no engine runs.
"""

from __future__ import annotations

import hashlib
from typing import Final

from app.engine.protocol.frames import Amount, Count, Name, WireMessage

KEY_BYTES: Final = 32
SUFFIX: Final = ".kv"
PART_SUFFIX: Final = ".kv-part"
"""Of a file that is being written; what is left of one is worth nothing."""


def name_start(conversation: str) -> str:
    """What the names of a chat's files begin with; a folder's listing names no chat.

    >>> name_start("a chat") == name_start("a chat") != name_start("another")
    True
    """
    return hashlib.blake2b(
        conversation.encode(), digest_size=8, person=b"cutaway kv name"
    ).hexdigest()


class SavedFolder(WireMessage, frozen=True, tag=True):
    """Where KV state may lie beyond this run. `folder`: the path as the system has it. `key`: of
    this installation, KEY_BYTES long; no file without its mark reaches native code. `cap_bytes`: of
    all files together; 0: none. Without `may_write` files are read, and none is written or deleted.
    """

    folder: bytes
    key: bytes
    cap_bytes: Amount
    may_write: bool

    def __repr__(self) -> str:
        """Without the key: what is logged holds none."""
        return f"SavedFolder({self.folder!r}, {self.cap_bytes}, {self.may_write})"


class UseSaved(WireMessage, frozen=True, tag=True):
    """From now on save there (None: nowhere). -> Done"""

    id: Amount
    saved: SavedFolder | None = None


class SaveChats(WireMessage, frozen=True, tag=True):
    """Write what stored chats have in idle slots and in host memory, as far as it is not on disk.
    Ends when it is, or cannot be; makes way for replies. Ending the child saves, too, within
    `SAVE_AT_END_S`. -> Done"""

    id: Amount


class DropSaved(WireMessage, frozen=True, tag=True):
    """Forget what is on disk: the file `number`, or all. Refused where this window may not write.
    -> Done"""

    id: Amount
    number: Amount = 0


class ForgetChats(WireMessage, frozen=True, tag=True):
    """These chats were deleted for good: nothing of theirs stays in idle slots, in host memory or
    on disk, and nothing is written any more. -> Done"""

    id: Amount
    conversations: list[str]


class SavedCopy(WireMessage, frozen=True, tag=True):
    """A sequence on disk. `number` names it in `DropSaved`. `used_at`: in seconds since 1970.
    `is_usable`: the loaded weights can go on from it, as they are loaded now."""

    number: Amount
    conversation: Name
    n_tokens: Count
    size_bytes: Amount
    used_at: Amount
    is_usable: bool


SavedCommand = UseSaved | SaveChats | DropSaved | ForgetChats
