"""Which label of a card marks a term: the first one that says it, and no other.

So a term is underlined once in a card, however often its sentences need it. Labels join while they
are shown and leave when they are hidden; nothing is looked up before one of them is painted, and
not again before one has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, cast

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.tour.terms import Found

_PLANES: Final = frozenset(("card", "above", "side", "chat"))


class Marked(Protocol):
    """A label with terms."""

    def seen_terms(self) -> Iterable[Found]: ...


class CardTerms(QObject):
    """Of one card, whose child it is."""

    def __init__(self, card: QWidget) -> None:
        super().__init__(card)
        self._card = card
        self._labels: dict[Marked, None] = {}
        self._is_stale = True
        self._shares: dict[Marked, list[Found]] = {}

    @classmethod
    def around(cls, label: QWidget) -> CardTerms:
        """Of the card that a label stands in; of the column, where it stands in none."""
        card = label
        while (above := card.parentWidget()) is not None and not card.isWindow():
            card = above
            if card.property("plane") in _PLANES:
                break
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        return card.findChild(cls, "", direct) or cls(card)

    def join(self, label: Marked) -> None:
        self._labels[label] = None
        self._is_stale = True

    def leave(self, label: Marked) -> None:
        """Another one may mark now what this one did."""
        self._labels.pop(label, None)
        self._is_stale = True
        if self._shares.pop(label, None) and self._card.isVisible():
            for other in self._known():
                cast(QWidget, other).update()

    def hear(self) -> None:
        """A label has another text, or room for more or less of it."""
        self._is_stale = True

    def share(self, label: Marked) -> Sequence[Found]:
        """What a label marks."""
        if self._is_stale:
            self._is_stale = False
            self._hand_out()
        return self._shares.get(label, ())

    def _known(self) -> list[Marked]:
        for label in [label for label in self._labels if not isValid(cast(QObject, label))]:
            del self._labels[label]
        return list(self._labels)

    def _hand_out(self) -> None:
        """In the order in which a card is read."""
        before, self._shares = self._shares, {}
        said: set[str] = set()
        for label in sorted(self._known(), key=self._place):
            own = [found for found in label.seen_terms() if found.term.name not in said]
            said |= {found.term.name for found in own}
            self._shares[label] = own
            if own != before.get(label, []):
                cast(QWidget, label).update()

    def _place(self, label: Marked) -> tuple[int, int]:
        spot = cast(QWidget, label).mapTo(self._card, QPoint())
        return spot.y(), spot.x()
