"""What does not come with an import, and how it is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from models.records import Folder, Preset, WholeConversation


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """`what` does not come, in words that stand for all of its kind ("Canvas documents"); `where`:
    the chat or the file; `count`: how often there."""

    what: str
    where: str = ""
    count: int = 1


Brought = WholeConversation | Folder | Preset | NotUnderstood
"""What a reader yields: folders before the chats in them."""


@dataclass(slots=True)
class Told:
    """Gathers what is said of one chat or file, to be handed on once for each kind."""

    where: str
    _counts: dict[str, int] = field(default_factory=dict)

    def of(self, what: str, count: int = 1) -> None:
        if count:
            self._counts[what] = self._counts.get(what, 0) + count

    def all(self) -> Iterator[NotUnderstood]:
        for what, count in self._counts.items():
            yield NotUnderstood(what, self.where, count)
