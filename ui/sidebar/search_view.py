"""The list of what was found: title and day above, the place in the text below.

Every row is as high as the others, so that a page is laid out at once.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QObject, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QPainter,
    QPen,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import (
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from models.records import SearchHit
from ui.sidebar.conversation_delegate import SCROLL_BAR_PX
from ui.sidebar.conversation_model import AnyIndex
from ui.sidebar.search_model import (
    HIT_ROLE,
    MORE_TITLES,
    SearchModel,
    short_date_of,
    speaker_of,
    title_of,
)
from ui.theme import Theme

ROW_PX = 72
SNIPPET_LINES = 2


class SearchDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

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
            self._draw(painter, inner, MORE_TITLES, self._theme.font_text())
        else:
            self._paint_hit(painter, inner, hit)
        painter.restore()

    def _fill(self, painter: QPainter, rect: QRect, color: str) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(rect, self._theme.px(8), self._theme.px(8))

    def _paint_hit(self, painter: QPainter, rect: QRect, hit: SearchHit) -> None:
        colors, small = self._theme.colors, self._theme.font_small()
        day = short_date_of(hit)
        day_width = QFontMetrics(small).horizontalAdvance(day) + 1
        first = QRect(rect.left(), rect.top(), rect.width(), self._theme.px(20))
        painter.setPen(QColor(colors.dim))
        self._draw(painter, first.adjusted(rect.width() - day_width, 0, 0, 0), day, small)
        title_rect = first.adjusted(0, 0, -day_width - self._theme.px(8), 0)
        below = rect.adjusted(0, self._theme.px(22), 0, 0)
        if hit.message_id is None:
            self._text(painter, title_rect, hit.snippet, hit.marks, self._theme.font_text(), 1)
            painter.setPen(QColor(colors.dim))
            words = "Chat, in the archive" if hit.is_archived else "Chat"
            line = QRect(below.left(), below.top(), below.width(), self._theme.px(18))
            self._draw(painter, line, words, small)
            return
        painter.setPen(QColor(colors.ink))
        self._draw(painter, title_rect, title_of(hit), self._theme.font_text())
        speaker = f"{speaker_of(hit)}: " if speaker_of(hit) else ""
        shift = len(speaker)
        marks = tuple((start + shift, end + shift) for start, end in hit.marks)
        self._text(painter, below, speaker + hit.snippet, marks, small, SNIPPET_LINES)

    def _text(
        self,
        painter: QPainter,
        rect: QRect,
        text: str,
        marks: tuple[tuple[int, int], ...],
        font: QFont,
        n_lines: int,
    ) -> None:
        """Some lines of text with the marks in it; the last one is cut where there is more."""
        colors = self._theme.colors
        layout = QTextLayout(text, font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats([self._mark(start, end) for start, end in marks])
        layout.beginLayout()
        height, cut = 0.0, -1
        for number in range(n_lines + 1):
            line = layout.createLine()
            if not line.isValid():
                break
            if number == n_lines:
                cut = line.textStart()
                break
            line.setLineWidth(rect.width())
            line.setPosition(QPointF(0, height))
            height += line.height()
        layout.endLayout()
        painter.setPen(QColor(colors.ink if n_lines == 1 else colors.dim))
        if cut > 1:
            # Once more with an ellipsis where the text goes on below.
            kept = text[: cut - 1].rstrip()
            inside = tuple((a, min(b, len(kept))) for a, b in marks if a < len(kept))
            self._text(painter, rect, f"{kept}…", inside, font, n_lines)
            return
        painter.save()
        painter.setClipRect(rect)
        layout.draw(painter, QPointF(rect.topLeft()))
        painter.restore()

    def _mark(self, start: int, end: int) -> QTextLayout.FormatRange:
        marked = QTextLayout.FormatRange()
        marked.start = start
        marked.length = end - start
        look = QTextCharFormat()
        look.setForeground(QColor(self._theme.colors.ink))
        look.setBackground(QColor(self._theme.colors.selection))
        marked.format = look
        return marked

    def _draw(self, painter: QPainter, rect: QRect, text: str, font: QFont) -> None:
        painter.setFont(font)
        shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        alignment = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(rect, alignment | Qt.TextFlag.TextSingleLine, shown)


class SearchView(QListView):
    """`hit_chosen` carries the hit; `left` is Escape, or Up on the first row."""

    hit_chosen = Signal(object)
    more_titles_chosen = Signal()
    left = Signal()

    def __init__(self, theme: Theme, model: SearchModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("search_results")
        self.setAccessibleName("Found in chats")
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
