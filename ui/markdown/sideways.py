"""What is wider than its column: how far it is moved, and the thin bar that says so."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from ui.markdown.styles import Styles

BAR = 4
MIN_THUMB = 32


@dataclass(slots=True)
class Sideways:
    """Content of some width seen through a room; `shift` is how much of it is left of the room.

    >>> view = Sideways(content=300.0, room=100.0)
    >>> view.move(250), view.shift, view.move(250)
    (True, 200.0, False)
    """

    content: float
    room: float
    shift: float = 0.0

    @property
    def limit(self) -> float:
        """How far it can be moved; 0 where everything is in view."""
        beyond = self.content - self.room
        return beyond if beyond >= 1 else 0.0

    def set(self, shift: float) -> None:
        self.shift = min(max(0.0, shift), self.limit)

    def move(self, step: float) -> bool:
        """Move by so many pixels; whether anything moved."""
        before = self.shift
        self.set(before + step)
        return self.shift != before

    def thumb(self, track: QRectF) -> QRectF:
        """Where the handle is in the track of a bar."""
        wide = min(track.width(), max(MIN_THUMB, track.width() * self.room / self.content))
        share = self.shift / self.limit if self.limit else 0.0
        x = track.left() + share * (track.width() - wide)
        return QRectF(x, track.top(), wide, track.height())

    def step_of_drag(self, dx: float, track: QRectF) -> float:
        """How far the content moves when the handle is dragged by so many pixels."""
        free = track.width() - self.thumb(track).width()
        return dx * self.limit / free if free > 0 else 0.0


def paint_bar(painter: QPainter, view: Sideways, track: QRectF, styles: Styles) -> None:
    """Draw the handle of a bar in its track."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    color = QColor(styles.colors.dim)
    color.setAlphaF(0.55)
    painter.setBrush(color)
    thumb = view.thumb(track)
    radius = thumb.height() / 2
    painter.drawRoundedRect(thumb, radius, radius)


def grip(track: QRectF, styles: Styles) -> QRectF:
    """The place where a thin bar can be taken hold of."""
    return track.adjusted(0, -styles.px(5), 0, styles.px(5))
