"""The list of what was found: title and day above, the place in the text below.

Every row is as high as the others, so that a page is laid out at once.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QModelIndex, QObject, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from models.records import SearchHit
from ui.chat.plain_words import Marks, plain_words
from ui.look.theme import Theme
from ui.sidebar.conversation_delegate import SCROLL_BAR_PX
from ui.sidebar.search_model import (
    HIT_ROLE,
    MORE_TITLES,
    SearchModel,
    short_date_of,
    speaker_of,
    title_of,
)
from ui.widgets.any_index import AnyIndex
from ui.widgets.utf16 import slice_utf16, utf16_length

ROW_PX = 72
SNIPPET_LINES = 2

_ON_ONE_LINE = (
    Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextSingleLine
)
_WRAP = QTextOption()
_WRAP.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)


class Face:
    """A font and what is measured by it."""

    def __init__(self, font: QFont) -> None:
        self.font = font
        self.metrics = QFontMetrics(font)
        self.ellipsis_px = math.ceil(QFontMetricsF(font).horizontalAdvance("…")) + 1
        self.letter_px = max(1, self.metrics.averageCharWidth())


class _Look:
    """What all rows are painted with, until the theme changes."""

    def __init__(self, theme: Theme) -> None:
        self.title_px, self.below_px, self.line_px = theme.px(20), theme.px(22), theme.px(18)
        self.gap_px = theme.px(8)
        self.text = Face(theme.font_text())
        self.small = Face(theme.font_small())
        self.marked = QTextCharFormat()
        self.marked.setForeground(QColor(theme.colors.ink))
        self.marked.setBackground(QColor(theme.colors.selection))


class SearchDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._last_look: _Look | None = None
        theme.changed.connect(self._forget_look)

    def _forget_look(self) -> None:
        self._last_look = None

    @property
    def _look(self) -> _Look:
        if self._last_look is None:
            self._last_look = _Look(self._theme)
        return self._last_look

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        return QSize(self._theme.px(80), self._theme.px(ROW_PX))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        px, colors = self._theme.px, self._theme.colors
        rect = option.rect.adjusted(0, 1, -px(SCROLL_BAR_PX), -1)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            self._fill(painter, rect, colors.accent_tone)
        elif option.state & QStyle.StateFlag.State_MouseOver:
            self._fill(painter, rect, colors.hover)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(colors.accent), max(1, px(1.5))))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), px(8), px(8))
        inner = rect.adjusted(px(8), px(6), -px(8), -px(4))
        hit = index.data(HIT_ROLE)
        if hit is None:
            painter.setPen(QColor(colors.accent))
            self._draw(painter, inner, MORE_TITLES, self._look.text)
        else:
            self._paint_hit(painter, inner, hit)
        painter.restore()

    def _fill(self, painter: QPainter, rect: QRect, color: str) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(rect, self._theme.px(8), self._theme.px(8))

    def _paint_hit(self, painter: QPainter, rect: QRect, hit: SearchHit) -> None:
        colors, look = self._theme.colors, self._look
        day = short_date_of(hit)
        day_width = look.small.metrics.horizontalAdvance(day) + 1
        first = QRect(rect.left(), rect.top(), rect.width(), look.title_px)
        painter.setPen(QColor(colors.dim))
        self._draw(painter, first.adjusted(rect.width() - day_width, 0, 0, 0), day, look.small)
        title_rect = first.adjusted(0, 0, -day_width - look.gap_px, 0)
        below = rect.adjusted(0, look.below_px, 0, 0)
        if hit.message_id is None:
            self._text(painter, title_rect, hit.snippet, hit.marks, look.text, 1)
            painter.setPen(QColor(colors.dim))
            words = "Archived chat" if hit.is_archived else "Chat"
            line = QRect(below.left(), below.top(), below.width(), look.line_px)
            self._draw(painter, line, words, look.small)
            return
        painter.setPen(QColor(colors.ink))
        self._draw(painter, title_rect, title_of(hit), look.text)
        speaker = f"{speaker_of(hit)}: " if speaker_of(hit) else ""
        shift = len(speaker)
        words, found = plain_words(hit.snippet, hit.marks)
        marks = tuple((start + shift, end + shift) for start, end in found)
        self._text(painter, below, speaker + words, marks, look.small, SNIPPET_LINES)

    def _text(
        self, painter: QPainter, rect: QRect, text: str, marks: Marks, face: Face, n_lines: int
    ) -> None:
        """Some lines of text with the marks in it; the last one is cut where there is more."""
        layout = fitted(text, marks, face, self._look.marked, rect.width(), n_lines)
        painter.setPen(QColor(self._theme.colors.ink if n_lines == 1 else self._theme.colors.dim))
        painter.save()
        painter.setClipRect(rect)
        layout.draw(painter, QPointF(rect.topLeft()))
        painter.restore()

    def _draw(self, painter: QPainter, rect: QRect, text: str, face: Face) -> None:
        painter.setFont(face.font)
        shown = face.metrics.elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        painter.drawText(rect, _ON_ONE_LINE, shown)


def fitted(
    text: str, marks: Marks, face: Face, marked: QTextCharFormat, width: int, n_lines: int
) -> QTextLayout:
    """The text in at most so many lines; behind the last one an ellipsis where there is more."""
    # Most of a long text does not fit, and shaping it would be half of the work.
    begun = text[: 3 * n_lines * width // (2 * face.letter_px)]
    layout, end = _laid_out(begun, marks, face, marked, width, n_lines)
    if end == len(begun) < len(text):
        layout, end = _laid_out(text, marks, face, marked, width, n_lines)
    if end < len(text):
        kept = text[:end].rstrip()
        inside = tuple((a, min(b, len(kept))) for a, b in marks if a < len(kept))
        layout, _ = _laid_out(f"{kept}…", inside, face, marked, width, n_lines)
    return layout


def _laid_out(
    text: str, marks: Marks, face: Face, marked: QTextCharFormat, width: int, n_lines: int
) -> tuple[QTextLayout, int]:
    """At most so many lines, and how many characters they hold: all, or so many that an ellipsis
    has room behind them."""
    layout = QTextLayout(text, face.font)
    layout.setTextOption(_WRAP)
    layout.setFormats([_mark(text, a, b, marked) for a, b in marks if a < len(text)])
    layout.beginLayout()
    height, end, length = 0.0, 0, utf16_length(text)
    for number in range(n_lines):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, height))
        height += line.height()
        end = line.textStart() + line.textLength()
        if number == n_lines - 1 and end < length:
            line.setLineWidth(width - face.ellipsis_px)
            end = line.textStart() + line.textLength()
    layout.endLayout()
    return layout, len(slice_utf16(text, 0, end))


def _mark(text: str, start: int, end: int, look: QTextCharFormat) -> QTextLayout.FormatRange:
    marked = QTextLayout.FormatRange()
    marked.start = utf16_length(text[:start])
    marked.length = utf16_length(text[start:end])
    marked.format = look
    return marked


class SearchView(QListView):
    """`hit_chosen` carries the hit; `left` is Escape, or Up on the first row.

    `menu_requested` wants a menu filled for a hit.
    """

    hit_chosen = Signal(object)
    menu_requested = Signal(object, object)
    more_titles_chosen = Signal()
    left = Signal()

    def __init__(self, theme: Theme, model: SearchModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("search_results")
        self.setAccessibleName("Search results")
        self.setModel(model)
        self.setItemDelegate(SearchDelegate(theme, self))
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.clicked.connect(self.choose)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    def choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        hit = index.data(HIT_ROLE)
        if hit is None:
            self.more_titles_chosen.emit()
        else:
            self.hit_chosen.emit(hit)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_keyboard = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_by_keyboard else self.indexAt(event.pos())
        hit = index.data(HIT_ROLE) if index.isValid() else None
        if hit is None:
            return
        self.setCurrentIndex(index)
        menu = QMenu(self)
        menu.setObjectName("hit_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.menu_requested.emit(menu, hit)
        place = self.visualRect(index).bottomLeft() if is_by_keyboard else event.pos()
        menu.popup(self.viewport().mapToGlobal(place))

    def enter(self) -> None:
        """The keyboard comes from the search field."""
        if not self.currentIndex().isValid():
            self.setCurrentIndex(self.model().index(0, 0))
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.choose(self.currentIndex())
        elif key == Qt.Key.Key_Escape or (key == Qt.Key.Key_Up and self.currentIndex().row() <= 0):
            self.left.emit()
        elif key in (Qt.Key.Key_Backspace, Qt.Key.Key_Delete):
            event.accept()  # nothing is deleted from here
        else:
            super().keyPressEvent(event)
