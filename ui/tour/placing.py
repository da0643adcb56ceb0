"""Where a card stands beside what it talks about: pure geometry.

┌─ window ───────────────┐    The four sides of the target are tried, the one with the most room
│          ┌────┐┌─────┐ │    first; there the card is pushed into the window. Where no side has
│          │card││aim  │ │    room for all of it, it covers as little of the target as it can.
│          └────┘└─────┘ │
└────────────────────────┘
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize


def place(card: QSize, aim: QRect, window: QRect, gap: int) -> QRect:
    """The card's place inside `window`, which it never leaves; it is made smaller where the window
    is. `aim`: the target, as far as it can be seen (empty: none, then it stands at the bottom
    right)."""
    size = card.boundedTo(window.size())
    aim = aim.intersected(window)
    if aim.isEmpty():
        corner = QPoint(window.right() - size.width() + 1, window.bottom() - size.height() + 1)
        return QRect(corner, size)
    spots = [_into(QRect(corner, size), window) for corner in _corners(size, aim, gap)]
    return min(spots, key=lambda spot: _area(spot.intersected(aim)))


def _corners(size: QSize, aim: QRect, gap: int) -> list[QPoint]:
    """The upper left corners of a card to the left, to the right, below and above."""
    middle = aim.center().y() - size.height() // 2
    return [
        QPoint(aim.left() - gap - size.width(), middle),
        QPoint(aim.right() + 1 + gap, middle),
        QPoint(aim.right() - size.width() + 1, aim.bottom() + 1 + gap),
        QPoint(aim.right() - size.width() + 1, aim.top() - gap - size.height()),
    ]


def _into(spot: QRect, window: QRect) -> QRect:
    """Pushed inside; it fits by its size."""
    left = min(max(spot.left(), window.left()), window.right() - spot.width() + 1)
    top = min(max(spot.top(), window.top()), window.bottom() - spot.height() + 1)
    return QRect(QPoint(left, top), spot.size())


def _area(rect: QRect) -> int:
    return 0 if rect.isEmpty() else rect.width() * rect.height()
