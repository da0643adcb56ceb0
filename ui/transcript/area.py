"""The messages as rows in a scroll area: where each stands, what is laid out, what stays put.

Mouse, keyboard, search and tokens work on this; `view.py` puts them together.

What must hold: what is read stays where it is while heights above become known; the end is
followed only by whoever was there.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui.chat.composer import MAX_WIDTH
from ui.look.theme import Theme
from ui.markdown.formulas import Formulas
from ui.markdown.styles import Styles
from ui.transcript.anchor import Anchor
from ui.transcript.item import GAP_BELOW
from ui.transcript.news import NewsButton
from ui.transcript.rows import Rows
from ui.transcript.selection import Selection, whole

if TYPE_CHECKING:
    from ui.pictures.thumbnails import Thumbnails

SIDE_PX = 24
TOP_PX = 24
BOTTOM_PX = 8
LOW_PX = 120


class RowsArea(QAbstractScrollArea):
    """`settled`: what is in view may have moved."""

    side_px = SIDE_PX
    settled = Signal()

    def __init__(self, theme: Theme, formulas: Formulas | None, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._theme = theme
        self.formulas = formulas or Formulas(self)
        self.formulas.arrived.connect(self._on_formulas_arrived)
        self.thumbnails: Thumbnails | None = None
        self._styles = Styles(theme, self.formulas)
        self.rows = Rows(self._styles, self._column_width())
        self.selection: Selection | None = None
        self._anchor = Anchor(self.rows)
        self.covered_top = 0
        self._sticks = True
        self._is_settling = False
        self._news = NewsButton(theme, self)
        self._news.clicked.connect(self.scroll_to_end)
        theme.changed.connect(self._on_theme_changed)

    @property
    def theme(self) -> Theme:
        return self._theme

    @property
    def styles(self) -> Styles:
        return self._styles

    def current_row(self) -> int | None:
        """The message that the keyboard is on."""
        return None

    # Following the end

    def scroll_to_end(self) -> None:
        """Show the newest text, and follow it."""
        self._sticks = True
        self._show_news(False)
        self.settle()

    def leave_end(self) -> None:
        """Something above is looked at: do not follow what comes."""
        self._sticks = False

    @property
    def is_at_end(self) -> bool:
        return self._sticks

    def _show_news(self, is_shown: bool) -> None:
        self._news.offer(is_shown)
        self._place_news()

    def _place_news(self) -> None:
        self._news.place(self.viewport().geometry(), self.column_x + self.rows.width / 2)

    # Selecting

    def select_all(self) -> None:
        if len(self.rows):
            self.selection = whole(len(self.rows))
            self.viewport().update()

    def clear_selection(self) -> None:
        self.selection = None
        self.viewport().update()

    # Geometry

    def _column_width(self) -> float:
        room = self.width() - 2 * self._theme.px(self.side_px)
        return max(80, min(self._theme.px(MAX_WIDTH), room))

    @property
    def column_x(self) -> float:
        """In the middle of the whole widget, scroll bar or not: the composer stands there too."""
        return max(0, (self.width() - self.rows.width) // 2)

    @property
    def top_space(self) -> int:
        """Above the first message, so that it can be scrolled out from under what covers it."""
        return max(self._theme.px(TOP_PX), self.covered_top)

    def cover_top(self, height: int) -> None:
        """Something stands over so much of the viewport's top; what is in view stays in place."""
        if height != self.covered_top:
            self.covered_top = height
            self._settle()

    @property
    def scroll_top(self) -> float:
        """The height in the rows that is at the upper edge."""
        return self.verticalScrollBar().value() - self.top_space

    def item_origin(self, index: int) -> QPointF:
        """Where a message's corner is in the viewport."""
        return QPointF(self.column_x, self.rows.top(index) - self.scroll_top)

    def index_at(self, y: float) -> int | None:
        """The message at a height of the viewport."""
        if not len(self.rows):
            return None
        return self.rows.at(y + self.scroll_top)

    def scroll_to(self, row_y: float) -> None:
        """Bring a height of the rows to the upper edge."""
        self.verticalScrollBar().setValue(round(row_y + self.top_space))

    # Layout

    def remeasure(self, index: int) -> None:
        """The height of a message may have changed."""
        self.rows.measure(index)
        self.settle()

    def settle_at(self, index: int, y: float) -> None:
        """Bring a height of a message to the upper edge, and keep it there."""
        self._sticks = False
        self._anchor.put(index, y)
        self.settle()

    def settle(self) -> None:
        """Bring what is in view into line with heights that may have changed."""
        self._settle()
        self.viewport().update()

    def _settle(self) -> None:
        """Lay out what is in view and bring the scroll bar into line with it."""
        height = self.viewport().height()
        if height <= 0:
            return
        for _ in range(12):
            top = self._wanted_top(height)
            if not self.rows.ensure(top - self.top_space, top - self.top_space + height):
                break
        self._is_settling = True
        bar = self.verticalScrollBar()
        bar.setRange(0, ceil(max(0, self._total() - height)))
        bar.setPageStep(height)
        bar.setSingleStep(round(self._styles.line_step * 1.5))
        bar.setValue(ceil(self._wanted_top(height)))
        self._is_settling = False
        self.rows.release(self.scroll_top, self.scroll_top + height)
        if self._sticks:
            self._anchor.take(self.scroll_top, self.viewport().height())
        self._place_news()
        self._on_settled()

    def _on_settled(self) -> None:
        self.settled.emit()

    def _on_formulas_arrived(self) -> None:
        self.rows.refresh_formulas()
        self.settle()

    def _total(self) -> float:
        # In a low view (a high zoom) the newest words matter more than the space below them.
        is_low = self.viewport().height() < self._theme.px(LOW_PX)
        below = self._theme.px(BOTTOM_PX - GAP_BELOW if is_low else BOTTOM_PX)
        return self.rows.total + self.top_space + below

    def _wanted_top(self, height: int) -> float:
        most = max(0.0, self._total() - height)
        if self._sticks:
            return most
        return min(most, max(0.0, self._anchor.y() + self.top_space))

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        if self._is_settling:
            return
        bar = self.verticalScrollBar()
        self._sticks = bar.value() >= bar.maximum() - 2
        self._anchor.take(self.scroll_top, self.viewport().height())
        self._settle()
        if self._sticks:
            self._show_news(False)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        width = self._column_width()
        if width != self.rows.width:
            self.rows.restyle(self._styles, width)
        self._settle()

    def _on_theme_changed(self) -> None:
        self._styles = Styles(self._theme, self.formulas)
        self._styles.thumbnails = self.thumbnails
        self.rows.restyle(self._styles, self._column_width())
        self.settle()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.formulas.look(self)
        self.rows.refresh_formulas()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.formulas.look_away(self)
