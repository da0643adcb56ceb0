"""Words as points on a plane; a word that is chosen is joined to those nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QWidget

from app.insight.inside.labels import Box, placed
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.inside.rows import Picture

if TYPE_CHECKING:
    from app.insight.inside.embedding import WordMap

LEAST_PX: Final = 280
MOST_PX: Final = 520
SHAPE: Final = 0.6
"""Height by width, between these."""
DOT_PX: Final = 2.5
REACH_PX: Final = 12
"""So near a point the pointer means it."""

_KEYS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Down: 1,
}


class WordMapView(Picture):
    """`word_chosen`: by a click or an arrow key; −1 where the chosen one is clicked again."""

    word_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.map: WordMap | None = None
        self.words: tuple[str, ...] = ()
        self.chosen: int | None = None
        self.hovered: int | None = None
        self.setObjectName("inside_word_map")
        self.setAccessibleName("Map of words")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._laid: tuple[list[QPointF], list[Box | None]] | None = None
        theme.changed.connect(self._fit)

    def show_map(self, found: WordMap | None, words: Sequence[str]) -> None:
        """`words`: one for each point. The one that was chosen stays so while it is there."""
        was = None if self.chosen is None else self.words[self.chosen]
        self.map, self.words = found, tuple(words)
        self.chosen = self.words.index(was) if was in self.words else None
        self.hovered = None
        self._fit()

    def choose(self, word: int | None) -> None:
        self.chosen = word
        self._fit()

    def _fit(self) -> None:
        """Names stand elsewhere now."""
        self._laid = None
        self.updateGeometry()
        self.update()

    # --- neighbours -----------------------------------------------------------------------------

    def neighbours(self, word: int) -> list[tuple[int, bool]]:
        """The nearest in all dimensions, best first, and whether each is among as many on the
        map."""
        if self.map is None:
            return []
        found = self.map.neighbours[word].tolist()
        apart = np.linalg.norm(self.map.points - self.map.points[word], axis=1)
        apart[word] = np.inf
        near = set(np.argsort(apart, kind="stable")[: len(found)].tolist())
        return [(other, other in near) for other in found]

    def words_of(self, word: int) -> str:
        """A word, and what is nearest to it."""
        found = self.neighbours(word)
        if not found:
            return quoted(self.words[word])
        names = ", ".join(quoted(self.words[other]) for other, _ in found)
        n_kept = sum(is_near for _, is_near in found)
        return (
            f"{quoted(self.words[word])} is nearest to {names}. "
            f"{n_kept} of {len(found)} are also nearest on the map."
        )

    # --- places ---------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        px = self._theme.px
        height = min(max(round(self.width() * SHAPE), px(LEAST_PX)), px(MOST_PX))
        return QSize(px(280), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.sizeHint().height())

    def place_of(self, word: int) -> QPointF:
        """Both axes have one scale: what is near on the map is near in the picture."""
        assert self.map is not None
        points, px = self.map.points, self._theme.px
        low, high = points.min(axis=0), points.max(axis=0)
        spread = np.maximum(high - low, 1e-9)
        room = np.array([self.width() - px(64), self.height() - px(32)])
        scale = float((room / spread).min())
        at = (points[word] - (low + high) / 2) * scale
        return QPointF(self.width() / 2 + float(at[0]), self.height() / 2 - float(at[1]))

    def _laid_out(self) -> tuple[list[QPointF], list[Box | None]]:
        """Where points and their names are; of a hundred words that is found out once."""
        if self._laid is None:
            places = [self.place_of(word) for word in range(len(self.words))]
            metrics, px = QFontMetricsF(self._theme.font_small()), self._theme.px
            height = metrics.height() - px(3)
            sizes = [(metrics.horizontalAdvance(word) + 1, height) for word in self.words]
            room = Box(0, 0, self.width(), self.height())
            points = [(place.x(), place.y()) for place in places]
            self._laid = (places, placed(points, sizes, room, px(DOT_PX), self._first()))
        return self._laid

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def word_at(self, point: QPointF) -> int | None:
        """The nearest within reach, or whose name is there."""
        if self.map is None or self.is_pending or not self.words:
            return None
        places, boxes = self._laid_out()
        for word, box in enumerate(boxes):
            if box is not None and QRectF(*box).contains(point):
                return word
        apart = [(place - point).manhattanLength() for place in places]
        nearest = int(np.argmin(apart))
        return nearest if apart[nearest] <= self._theme.px(REACH_PX) else None

    def _first(self) -> list[int]:
        """Whose names must be seen: the chosen word's, and its neighbours'."""
        if self.chosen is None:
            return []
        return [self.chosen, *(other for other, _ in self.neighbours(self.chosen))]

    # --- events ---------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, colors, px = QPainter(self), self._theme.colors, self._theme.px
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font_small())
        if self.map is not None and self.words and not self.is_pending:
            (places, boxes), first = self._laid_out(), self._first()
            if self.chosen is not None:
                for other, is_near in self.neighbours(self.chosen):
                    style = Qt.PenStyle.SolidLine if is_near else Qt.PenStyle.DashLine
                    painter.setPen(QPen(QColor(colors.accent), 1, style))
                    painter.drawLine(places[self.chosen], places[other])
            for word, (place, box) in enumerate(zip(places, boxes, strict=True)):
                is_meant = word in first or word == self.hovered
                plain = colors.ink if self.chosen is None or is_meant else colors.dim
                color = QColor(colors.accent if word == self.chosen else plain)
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(colors.accent) if is_meant else color)
                painter.drawEllipse(place, px(DOT_PX), px(DOT_PX))
                if box is not None:
                    painter.setPen(color)
                    flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip
                    painter.drawText(QRectF(*box), flags, self.words[word])
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.word_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(None)

    def _hover(self, word: int | None) -> None:
        if word != self.hovered:
            self.hovered = word
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        word = self.word_at(event.position())
        self.word_chosen.emit(-1 if word is None or word == self.chosen else word)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = _KEYS.get(Qt.Key(event.key()))
        if by is None or not self.words or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
            return
        start = self.chosen if self.chosen is not None else (-1 if by > 0 else 0)
        self.word_chosen.emit((start + by) % len(self.words))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def words_at(self, point: QPointF) -> str:
        word = self.word_at(point)
        return "" if word is None else self.words_of(word)
