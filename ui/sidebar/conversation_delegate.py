"""Paints headings, folders and conversations of the list, and edits a title in place."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QEvent, QObject, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui.look.icons import paint_icon
from ui.look.theme import Theme
from ui.sidebar.conversation_model import IS_OPEN_ROLE, IS_REPLYING_ROLE, ROW_ROLE
from ui.sidebar.grouping import Row
from ui.widgets.any_index import AnyIndex

ROW_PX = 36
"""Of every row, headings too: tens of thousands of equal ones are laid out at once."""
INDENT_PX = 16
DEEPEST_INDENT = 5
SCROLL_BAR_PX = 10
"""The list reaches into the column's margin by this, so that a scroll bar narrows no row."""
TAGS_PERCENT = 30
"""Of a row: so much of it tags may take from a long title."""
LEAST_TAG_PX = 24
BRANCH_ICON = "git-branch"
TITLE_LIMIT = 200
"""Characters of a title that a person may type."""


class ConversationDelegate(QStyledItemDelegate):
    """`shows_selection` is set while several rows are chosen; `drop_row` is where what is
    dragged would go."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.shows_selection = False
        self.drop_row = -1

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        return QSize(self._theme.px(80), self._theme.px(ROW_PX))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        row = index.data(ROW_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_plane(painter, option, index)
        if row.kind == "heading":
            self._paint_heading(painter, option.rect, row.text)
        elif row.kind == "folder":
            self._paint_folder(painter, option, row)
        else:
            self._paint_chat(painter, option, row, is_replying=index.data(IS_REPLYING_ROLE))
        painter.restore()

    def _paint_plane(
        self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex
    ) -> None:
        """What lies under the row: chosen, open, under the pointer; and the keyboard's frame."""
        px, colors = self._theme.px, self._theme.colors
        rect = self._row_rect(option)
        state = option.state
        is_chosen = self.shows_selection and bool(state & QStyle.StateFlag.State_Selected)
        if is_chosen or index.row() == self.drop_row:
            self._fill(painter, rect, colors.selection)
        elif index.data(IS_OPEN_ROLE):
            self._fill(painter, rect, colors.accent_tone)
        elif state & QStyle.StateFlag.State_MouseOver and index.data(ROW_ROLE).id:
            self._fill(painter, rect, colors.hover)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(colors.accent), max(1, px(1.5))))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), px(8), px(8))

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        px = self._theme.px
        painter.setPen(QColor(self._theme.colors.dim))
        place = rect.adjusted(px(8), px(12), -px(8), 0)
        self._draw(painter, place, text, self._theme.font_small())

    def _paint_folder(self, painter: QPainter, option: QStyleOptionViewItem, row: Row) -> None:
        px, colors = self._theme.px, self._theme.colors
        rect = self._content_rect(option, row)
        painter.setPen(QColor(colors.dim))
        count = f"{row.n_chats:,}" if row.n_chats else ""
        font = self._theme.font_small()
        width = QFontMetrics(font).horizontalAdvance(count)
        self._draw(painter, rect.adjusted(rect.width() - width - 1, 0, 0, 0), count, font)
        caret = QRectF(rect.left(), rect.center().y() - px(6) + 1, px(12), px(12))
        name = "caret-down" if row.is_expanded else "caret-right"
        paint_icon(painter, caret, name, QColor(colors.dim))
        icon = QRectF(rect.left() + px(16), rect.center().y() - px(8) + 1, px(16), px(16))
        shape = "folder-open" if row.is_expanded else "folder"
        paint_icon(painter, icon, shape, QColor(colors.dim))
        painter.setPen(QColor(colors.ink))
        text_rect = rect.adjusted(px(38), 0, -width - px(8), 0)
        self._draw(painter, text_rect, row.text, self._theme.font_text())

    def _paint_chat(
        self, painter: QPainter, option: QStyleOptionViewItem, row: Row, *, is_replying: bool
    ) -> None:
        px, rect = self._theme.px, self._content_rect(option, row)
        if row.is_branch:  # before the title: at its end it would be the first to be cut off
            sign = QRectF(rect.left(), rect.center().y() - px(7) + 1, px(14), px(14))
            paint_icon(painter, sign, BRANCH_ICON, QColor(self._theme.colors.dim))
            rect = rect.adjusted(px(20), 0, 0, 0)
        if is_replying:
            dot = QRectF(rect.right() - px(8) + 1, rect.center().y() - px(4) + 1, px(8), px(8))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._theme.colors.accent))
            painter.drawEllipse(dot)
            rect = rect.adjusted(0, 0, -px(14), 0)
        if row.tags:
            rect = self._paint_tags(painter, rect, row)
        painter.setPen(QColor(self._theme.colors.ink))
        self._draw(painter, rect, row.text, self._theme.font_text())

    def _paint_tags(self, painter: QPainter, rect: QRect, row: Row) -> QRect:
        """Quietly at the end, as far as the title leaves room; what is left for the title."""
        px, font = self._theme.px, self._theme.font_small()
        words = " ".join(f"#{tag}" for tag in row.tags)
        title = QFontMetrics(self._theme.font_text()).horizontalAdvance(row.text)
        room = max(rect.width() - title - px(8), rect.width() * TAGS_PERCENT // 100)
        width = min(QFontMetrics(font).horizontalAdvance(words) + 1, room)
        if width < px(LEAST_TAG_PX):
            return rect
        painter.setPen(QColor(self._theme.colors.dim))
        self._draw(painter, rect.adjusted(rect.width() - width, 0, 0, 0), words, font)
        return rect.adjusted(0, 0, -width - px(8), 0)

    def _row_rect(self, option: QStyleOptionViewItem) -> QRect:
        """The same width with and without a scroll bar beside it."""
        view = option.widget
        has_bar = isinstance(view, QAbstractScrollArea) and view.verticalScrollBar().isVisible()
        return option.rect.adjusted(0, 1, 0 if has_bar else -self._theme.px(SCROLL_BAR_PX), -1)

    def _content_rect(self, option: QStyleOptionViewItem, row: Row) -> QRect:
        """Inside of the row, moved in by the folders around it."""
        px = self._theme.px
        indent = px(INDENT_PX) * min(row.depth, DEEPEST_INDENT)
        if row.kind == "chat" and row.depth:
            indent += px(6)  # below the name of its folder, not below the folder's sign
        return self._row_rect(option).adjusted(px(8) + indent, 0, -px(8), 0)

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
        is_folder = index.data(ROW_ROLE).kind == "folder"
        editor.setAccessibleName("New folder name" if is_folder else "New title")
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
        rect, row, px = self._row_rect(option), index.data(ROW_ROLE), self._theme.px
        indent = px(INDENT_PX) * min(row.depth, DEEPEST_INDENT)
        indent += px(38) if row.kind == "folder" else 0
        editor.setGeometry(rect.adjusted(indent, 0, 0, 0))

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
