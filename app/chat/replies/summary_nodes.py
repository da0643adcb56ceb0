"""Summaries among the messages of a conversation: which of them stands for what.

A summary is a message of its own in the tree, made below the newest message of its path. It stands
for messages above it, which are known by their places on the path from the root, and by a digest of
what they say: so it holds on copies and after an import, and not where one of them was edited or
deleted. On another branch it is not on the path. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeGuard

from models.records import Message, Role

SUMMARY: Final = "summary"


@dataclass(frozen=True, slots=True)
class Stands:
    """For messages `first` to `last` of the path, counted from 0 without summaries, but for those
    that were `kept` among them."""

    first: int
    last: int
    kept: frozenset[int]
    digest: str

    @property
    def words(self) -> str:
        """
        >>> Stands(2, 13, frozenset(), "").words, Stands(0, 0, frozenset(), "").words
        ('Summary of messages 3–14', 'Summary of message 1')
        """
        if self.first == self.last:
            return f"Summary of message {self.first + 1:,}"
        return f"Summary of messages {self.first + 1:,}–{self.last + 1:,}"

    def as_recorded(self) -> dict[str, Any]:
        kept = sorted(self.kept)
        return {"first": self.first, "last": self.last, "kept": kept, "digest": self.digest}


def stands_of(message: Message) -> Stands | None:
    """What a summary stands for; None: it is none. What is stored is untrusted."""
    stored = message.settings.get(SUMMARY)
    if message.role is not Role.SYSTEM or not isinstance(stored, dict):
        return None
    first, last, kept = stored.get("first"), stored.get("last"), stored.get("kept")
    digest = stored.get("digest")
    if not (_is_place(first) and _is_place(last) and isinstance(digest, str)) or first > last:
        return None
    if not isinstance(kept, list) or not all(map(_is_place, kept)):
        return None
    return Stands(first, last, frozenset(kept), digest)


def _is_place(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def kept_marks(message: Message) -> dict[str, Any]:
    """What another version of a message keeps of its settings: what it stands for."""
    return {SUMMARY: message.settings[SUMMARY]} if stands_of(message) is not None else {}


def without_summaries(path: Iterable[Message]) -> list[Message]:
    return [message for message in path if stands_of(message) is None]


def stands_for(path: Sequence[Message], covered: set[str], first: int) -> Stands:
    """What a summary of these messages stands for; `path` is whole. `first`: where what was read
    for it begins."""
    plain = without_summaries(path)
    last = max(i for i, message in enumerate(plain) if message.id in covered)
    kept = frozenset(i for i in range(last) if plain[i].id not in covered)
    return Stands(first, last, kept, _digest(plain, last, kept))


def covered_by(summary: Message, path: Sequence[Message]) -> list[Message]:
    """The messages of the whole path that it stands for; none where they are not as they were."""
    stands, plain = stands_of(summary), without_summaries(path)
    if stands is None or stands.last >= len(plain):
        return []
    if _digest(plain, stands.last, stands.kept) != stands.digest:
        return []
    return [plain[i] for i in range(stands.last + 1) if i not in stands.kept]


def newest_summary(path: Sequence[Message]) -> Message | None:
    """The last summary of the path that holds."""
    found = (message for message in reversed(path) if stands_of(message) is not None)
    return next((message for message in found if covered_by(message, path)), None)


def _digest(plain: Sequence[Message], last: int, kept: frozenset[int]) -> str:
    digest = blake2b(digest_size=16)
    for place in range(last + 1):
        if place not in kept:
            message = plain[place]
            attached = (a.text or a.name for a in message.attachments)
            for part in (message.role.value, message.content, *attached):
                data = part.encode("utf-8", "replace")
                digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
