"""Boxes to tick in lists and tables: Qt's own, with the tick in the theme's colours. A style sheet
alone cannot draw one without a file of a picture."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ui.look.icons import paint_icon
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex

_State = Qt.CheckState


class TickDelegate(QStyledItemDelegate):
    """Paints a tick, or a line where the state is between. `view` gets its style from here."""

    def __init__(self, theme: Theme, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view
        theme.sheet(view, _sheet)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().paint(painter, option, index)
        value = index.data(Qt.ItemDataRole.CheckStateRole)
        if value is None or (state := _State(value)) is _State.Unchecked:
            return
        whole = QStyleOptionViewItem(option)
        self.initStyleOption(whole, index)
        element = QStyle.SubElement.SE_ItemViewItemCheckIndicator
        box = QRectF(self._view.style().subElementRect(element, whole, self._view))
        edge, colors = self._theme.px(2), self._theme.colors
        is_on = state is _State.Checked
        name, color = ("check-bold", colors.on_accent) if is_on else ("minus-bold", colors.accent)
        paint_icon(painter, box.adjusted(edge, edge, -edge, -edge), name, QColor(color))


def _sheet(theme: Theme) -> str:
    px, colors = theme.px, theme.colors
    of = "QAbstractItemView::indicator"
    return (
        f"{of} {{ width: {px(14)}px; height: {px(14)}px;"
        f" border: {px(1)}px solid {colors.dim}; border-radius: {px(4)}px;"
        " background: transparent; }"
        f"{of}:checked {{ background: {colors.accent}; border-color: {colors.accent}; }}"
        f"{of}:indeterminate {{ border-color: {colors.accent}; }}"
        f"{of}:disabled {{ border-color: {colors.line}; }}"
    )
