"""Paints a download: name and state, a thin bar, and below it what else is to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from models.records import DownloadState as State
from ui.library.downloads.model import ROW_ROLE
from ui.library.downloads.words import second_line, state_text
from ui.library.local.words import one_line
from ui.look.icons import paint_icon
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex

if TYPE_CHECKING:
    from app.hub.downloads.progress import DownloadProgress

PAD_PX: Final = 8
SIDE_PX: Final = 8
GAP_PX: Final = 6
BAR_PX: Final = 4
SIGN_PX: Final = 16
ICONS: Final = {
    State.QUEUED: "clock",
    State.RUNNING: "download-simple",
    State.WAITING: "hourglass",
    State.PAUSED: "pause",
    State.FAILED: "warning",
    State.DONE: "check-circle",
    State.CANCELLED: "x-circle",
}


class DownloadDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def row_height(self) -> int:
        px = self._theme.px
        lines = QFontMetrics(self._theme.font_text()).height()
        lines += QFontMetrics(self._theme.font_small()).height()
        return lines + 2 * px(PAD_PX) + 2 * px(GAP_PX) + px(BAR_PX)

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        return QSize(self._theme.px(200), self.row_height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        whole = QStyleOptionViewItem(option)
        self.initStyleOption(whole, index)
        whole.text = ""
        whole.state &= ~QStyle.StateFlag.State_HasFocus
        style = whole.widget.style() if whole.widget is not None else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, whole, painter, whole.widget)
        px, colors, progress = self._theme.px, self._theme.colors, index.data(ROW_ROLE)
        room = option.rect.adjusted(px(SIDE_PX), px(PAD_PX), -px(SIDE_PX), -px(PAD_PX))
        painter.save()
        line_px = QFontMetrics(self._theme.font_text()).height()
        # Without a bar the two lines stand together.
        in_px = 0 if has_bar(progress) else (px(GAP_PX) + px(BAR_PX)) // 2
        line = QRect(room.left(), room.top() + in_px, room.width(), line_px)
        self._paint_sign(painter, line, progress)
        line.setLeft(line.left() + px(SIGN_PX) + px(8))
        self._paint_line(painter, line, progress)
        bar = QRectF(line.left(), line.bottom() + 1 + px(GAP_PX), line.width(), px(BAR_PX))
        self._paint_bar(painter, bar, progress)
        words_px = QFontMetrics(self._theme.font_small()).height()
        top = room.bottom() + 1 - words_px - in_px
        below = QRect(line.left(), top, line.width(), words_px)
        is_wrong = progress.state in (State.FAILED, State.WAITING)
        painter.setPen(QColor(colors.error if is_wrong else colors.dim))
        self._draw(painter, below, second_line(progress), self._theme.font_small())
        painter.restore()

    def _paint_sign(self, painter: QPainter, line: QRect, progress: DownloadProgress) -> None:
        side = self._theme.px(SIGN_PX)
        sign = QRectF(line.left(), line.center().y() - side / 2, side, side)
        paint_icon(painter, sign, ICONS[progress.state], QColor(self._color(progress.state)))

    def _color(self, state: State) -> str:
        colors = self._theme.colors
        if state in (State.RUNNING, State.DONE):
            return colors.accent
        return colors.error if state in (State.FAILED, State.WAITING) else colors.dim

    def _paint_line(self, painter: QPainter, line: QRect, progress: DownloadProgress) -> None:
        font, colors = self._theme.font_text(), self._theme.colors
        words = state_text(progress)
        # A font's advances are fractions; the sum is rounded down.
        advance = QFontMetrics(font).horizontalAdvance(words) + self._theme.px(2)
        width = min(advance, line.width() * 2 // 3)
        right = QRect(line.right() + 1 - width, line.top(), width, line.height())
        painter.setPen(QColor(colors.dim))
        self._draw(painter, right, words, font)
        left = line.adjusted(0, 0, -(width + self._theme.px(12)), 0)
        painter.setPen(QColor(colors.ink))
        self._draw(painter, left, one_line(progress.name), font)

    def _paint_bar(self, painter: QPainter, bar: QRectF, progress: DownloadProgress) -> None:
        """A little is seen as a little, not as nothing."""
        if not has_bar(progress):
            return
        colors, radius = self._theme.colors, bar.height() / 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.line))
        painter.drawRoundedRect(bar, radius, radius)
        if progress.done_bytes:
            filled = QRectF(bar)
            filled.setWidth(max(bar.height(), bar.width() * progress.fraction))
            is_moving = progress.state is State.RUNNING
            painter.setBrush(QColor(colors.accent if is_moving else colors.dim))
            painter.drawRoundedRect(filled, radius, radius)

    def _draw(self, painter: QPainter, rect: QRect, text: str, font: QFont) -> None:
        painter.setFont(font)
        shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(rect, int(flags) | int(Qt.TextFlag.TextSingleLine), shown)


def has_bar(progress: DownloadProgress) -> bool:
    """Whether there is something left to come."""
    return progress.state not in (State.DONE, State.CANCELLED)
