"""Paints headings and conversations of the list, and edits a title in place."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QEvent, QObject, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui.sidebar.conversation_model import IS_HEADING_ROLE, IS_OPEN_ROLE, AnyIndex
from ui.theme import Theme

ROW_PX = 36
HEADING_PX = 36
SCROLL_BAR_PX = 10
"""The list reaches into the column's margin by this, so that a scroll bar narrows no row."""
TITLE_LIMIT = 200
"""Characters of a title that a person may type."""


class ConversationDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        height = HEADING_PX if index.data(IS_HEADING_ROLE) else ROW_PX
        return QSize(self._theme.px(80), self._theme.px(height))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if index.data(IS_HEADING_ROLE):
            self._paint_heading(painter, option.rect, str(index.data()))
        else:
            self._paint_conversation(painter, option, index)
        painter.restore()

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        px = self._theme.px
        rect = rect.adjusted(px(8), px(12), -px(8), 0)
        painter.setFont(self._theme.font_small())
        painter.setPen(QColor(self._theme.colors.dim))
        self._draw(painter, rect, text, self._theme.font_small())

    def _paint_conversation(
        self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex
    ) -> None:
        px, colors = self._theme.px, self._theme.colors
        rect = self._row_rect(option)
        is_open = bool(index.data(IS_OPEN_ROLE))
        if is_open:
            self._fill(painter, rect, colors.accent_tone)
        elif option.state & QStyle.StateFlag.State_MouseOver:
            self._fill(painter, rect, colors.hover)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(colors.accent), max(1, px(1.5))))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), px(8), px(8))
        painter.setPen(QColor(colors.ink))
        text_rect = rect.adjusted(px(8), 0, -px(8), 0)
        self._draw(painter, text_rect, str(index.data()), self._theme.font_text())

    def _row_rect(self, option: QStyleOptionViewItem) -> QRect:
        """The same width with and without a scroll bar beside it."""
        view = option.widget
        has_bar = isinstance(view, QAbstractScrollArea) and view.verticalScrollBar().isVisible()
        return option.rect.adjusted(0, 1, 0 if has_bar else -self._theme.px(SCROLL_BAR_PX), -1)

    def _fill(self, painter: QPainter, rect: QRect, color: str) -> None:
        radius = self._theme.px(8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(rect, radius, radius)

    def _draw(self, painter: QPainter, rect: QRect, text: str, font: QFont) -> None:
        metrics = QFontMetrics(font)
        painter.setFont(font)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        alignment = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(rect, alignment | Qt.TextFlag.TextSingleLine, shown)

    # --- rename in place ----------------------------------------------------------------

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: AnyIndex
    ) -> QWidget:
        editor = QLineEdit(parent)
        editor.setObjectName("rename_field")
        editor.setAccessibleName("New title")
        editor.setMaxLength(TITLE_LIMIT)
        editor.setFont(self._theme.font_text())
        px = self._theme.px
        # The text stays where it stood in the row: 8 px, of which the border takes one.
        editor.setStyleSheet(
            f"QLineEdit {{ padding: 0 {px(7)}px; border: 1px solid {self._theme.colors.accent}; }}"
        )
        return editor

    def setEditorData(self, editor: QWidget, index: AnyIndex) -> None:
        assert isinstance(editor, QLineEdit)
        if not editor.isModified():
            editor.setText(str(index.data(Qt.ItemDataRole.EditRole)))
            editor.selectAll()

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: AnyIndex) -> None:
        assert isinstance(editor, QLineEdit)
        model.setData(model.index(index.row(), 0), editor.text(), Qt.ItemDataRole.EditRole)

    def updateEditorGeometry(  # noqa: N802
        self, editor: QWidget, option: QStyleOptionViewItem, index: AnyIndex
    ) -> None:
        editor.setGeometry(self._row_rect(option))

    def eventFilter(self, editor: QObject, event: QEvent) -> bool:
        """Tab ends the rename and keeps it; Qt would jump into the next row's editor."""
        if (
            isinstance(editor, QLineEdit)
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab)
        ):
            self.commitData.emit(editor)
            self.closeEditor.emit(editor, QStyledItemDelegate.EndEditHint.NoHint)
            return True
        return super().eventFilter(editor, event)
