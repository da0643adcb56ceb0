"""Rows of a table that are as high as a line and a small one below it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex

GAP_PX: Final = 2
PAD_PX: Final = 6
LEFT: Final = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft


class TwoLineDelegate(QStyledItemDelegate):
    """Every row is equally high: thousands of them are laid out at once."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def row_height(self) -> int:
        lines = QFontMetrics(self._theme.font_text()).height()
        lines += QFontMetrics(self._theme.font_small()).height()
        return lines + self._theme.px(GAP_PX) + 2 * self._theme.px(PAD_PX)

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        return QSize(self._theme.px(64), self.row_height())

    def _paint_ground(
        self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex
    ) -> str:
        """What the style paints behind the text; the text itself, which is still to be painted."""
        whole = QStyleOptionViewItem(option)
        self.initStyleOption(whole, index)
        text, whole.text = whole.text, ""
        whole.state &= ~QStyle.StateFlag.State_HasFocus
        style = whole.widget.style() if whole.widget is not None else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, whole, painter, whole.widget)
        return text

    def _draw(
        self,
        painter: QPainter,
        rect: QRect,
        text: str,
        flag: Qt.AlignmentFlag = LEFT,
        *,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        """In the painter's font."""
        shown = painter.fontMetrics().elidedText(text, elide, rect.width())
        painter.drawText(rect, int(flag) | int(Qt.TextFlag.TextSingleLine), shown)
