"""The command palette (Ctrl+K) and the list of keys (Ctrl+/): everything that can be done, by name.

One field and one list over the window. The field keeps the focus; ↑ and ↓ move in the list,
Return does what is chosen, Escape or a click elsewhere closes. Built at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QHideEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from models.records import Conversation
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.keys import shown_key
from ui.shell.notices import announce
from ui.shell.palette_rows import ALSO, LIMIT, Row, ranked, tagged_with
from ui.widgets.any_index import AnyIndex
from ui.widgets.kit import plain_label

WIDTH_PX = 640
TOP_PX = 72
ROW_PX = 36
HEADING_PX = 32
MOST_ROWS = 11
EDGE_PERCENT = 45
"""How much of the dim ink its edge has: enough to lift it off what it lies over."""
ROW_ROLE = Qt.ItemDataRole.UserRole
NOTHING_FITS = "No matching command. Use “Search chats” to find words in messages."


class RowsModel(QAbstractListModel):
    """The rows that are shown."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []

    def set_rows(self, rows: list[Row]) -> None:
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: AnyIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.title
        if role == ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return spoken(row)
        return None

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        row = self.rows[index.row()]
        if row.is_heading:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


class RowDelegate(QStyledItemDelegate):
    """A name left, its key right, and where it works before the keys of all rows."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme
        self.keys_px = 0

    def measure(self, rows: Sequence[Row]) -> None:
        """Make the column of keys as wide as the widest of them."""
        metrics = QFontMetrics(self._theme.font_small())
        self.keys_px = max((metrics.horizontalAdvance(row.key) for row in rows), default=0)

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        height = HEADING_PX if index.data(ROW_ROLE).is_heading else ROW_PX
        return QSize(self._theme.px(80), self._theme.px(height))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        row: Row = index.data(ROW_ROLE)
        px, colors = self._theme.px, self._theme.colors
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = option.rect.adjusted(0, 1, 0, -1)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.accent_tone))
            painter.drawRoundedRect(rect, px(8), px(8))
        inner = rect.adjusted(px(10), 0, -px(10), 0)
        if row.is_heading:
            font = self._theme.font_small(QFont.Weight.DemiBold)
            self._draw(painter, inner.adjusted(0, px(8), 0, 0), row.title, font, colors.dim)
        else:
            room = self._draw_right(painter, inner, row)
            ink = colors.ink if row.is_enabled else colors.dim
            font = self._theme.font_text()
            self._draw(painter, inner.adjusted(0, 0, -room, 0), row.title, font, ink)
        painter.restore()

    def _draw_right(self, painter: QPainter, rect: QRect, row: Row) -> int:
        """Key, and where it works; returns how much room they take."""
        font, px = self._theme.font_small(), self._theme.px
        metrics, right = QFontMetrics(font), 0
        painter.setFont(font)
        painter.setPen(QColor(self._theme.colors.dim))
        side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        most = rect.width() * 3 // 10
        for text, least in ((row.key, self.keys_px), (row.detail, 0)):
            width = min(max(metrics.horizontalAdvance(text), least) + px(2), most)
            words = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
            painter.drawText(rect.adjusted(0, 0, -right, 0), side, words)
            right += width + px(16) if text or least else 0
        return right

    def _draw(self, painter: QPainter, rect: QRect, text: str, font: QFont, color: str) -> None:
        painter.setFont(font)
        painter.setPen(QColor(color))
        shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        alignment = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(rect, alignment | Qt.TextFlag.TextSingleLine, shown)


class Palette(QFrame):
    """Lies over `window`; `open` shows all that can be done, `open_keys` all keys by group."""

    def __init__(
        self,
        window: QWidget,
        theme: Theme,
        actions: Actions,
        conversations: Callable[[], Sequence[Conversation]],
        open_conversation: Callable[[str], object],
        models: Callable[[], Sequence[Row]] = tuple,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._theme = theme
        self._actions = actions
        self._conversations = conversations
        self._open_conversation = open_conversation
        self._models = models
        self._is_keys = False
        self._had_focus: QWidget | None = None
        self.setObjectName("palette")
        self.setProperty("plane", "card")
        self.field = QLineEdit(self)
        self.field.setObjectName("palette_field")
        self.model = RowsModel(self)
        self.view = QListView(self)
        self.view.setObjectName("palette_list")
        self.view.setModel(self.model)
        self._delegate = RowDelegate(theme, self.view)
        self.view.setItemDelegate(self._delegate)
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setMouseTracking(True)
        self.view.clicked.connect(self._run)
        self.words = plain_label("", self, "small", name="palette_words", wraps=True)
        self._column = QVBoxLayout(self)
        for widget in (self.field, self.view, self.words):
            self._column.addWidget(widget)
        self.field.textChanged.connect(self._search)
        self.field.installEventFilter(self)
        window.installEventFilter(self)
        theme.space(self._column, 8, margins=10)
        theme.size(self.field, height=38)
        theme.sheet(self, _sheet)
        theme.changed.connect(self._fit)
        self.hide()

    # --- opening and closing ------------------------------------------------------------

    def open(self) -> None:
        self._show("Type a command or chat title", "Command palette", is_keys=False)

    def open_keys(self) -> None:
        self._show("Search keyboard shortcuts", "Keyboard shortcuts", is_keys=True)

    def _show(self, placeholder: str, name: str, *, is_keys: bool) -> None:
        if not self.isVisible():
            self._had_focus = QApplication.focusWidget() or self._window.focusWidget()
        self._is_keys = is_keys
        self.setAccessibleName(name)
        self.field.setPlaceholderText(placeholder)
        self.field.setAccessibleName(name)
        self.view.setAccessibleName(f"{name}: results")
        self.field.clear()
        self._search()
        self._fit()
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)
        QApplication.instance().installEventFilter(self)  # type: ignore[union-attr]

    def hideEvent(self, event: QHideEvent) -> None:
        QApplication.instance().removeEventFilter(self)  # type: ignore[union-attr]
        super().hideEvent(event)

    def dismiss(self) -> None:
        """Close, and give the focus back to where it was."""
        former, self._had_focus = self._had_focus, None
        has_focus = self.isAncestorOf(QApplication.focusWidget() or self._window)
        self.hide()
        if has_focus and former is not None and former.isVisible():
            former.setFocus(Qt.FocusReason.PopupFocusReason)

    # --- rows ---------------------------------------------------------------------------

    def _search(self, query: str = "") -> None:
        rows = self._key_rows(query) if self._is_keys else self._all_rows(query)
        self.model.set_rows(rows)
        first = next((i for i, row in enumerate(rows) if not row.is_heading), -1)
        self.words.setText("" if rows else NOTHING_FITS)
        self.words.setVisible(not rows)
        self.view.setVisible(bool(rows))
        self._choose(first)
        self._fit()

    def _all_rows(self, query: str) -> list[Row]:
        actions = [self._row(action, action.group) for action in self._actions]
        if query.strip():  # the menu has them all
            actions += self._models()
        if tagged := tagged_with(query, self._conversations()):
            return [*map(self._chat_row, tagged[:LIMIT]), *ranked(query, actions, ())]
        chats = ((each.title, partial(self._chat_row, each)) for each in self._conversations())
        return ranked(query, actions, chats)

    def _chat_row(self, chat: Conversation) -> Row:
        return Row(chat.title, partial(self._open_conversation, chat.id), "Chat")

    def _key_rows(self, query: str) -> list[Row]:
        rows = [self._row(action, action.place) for action in self._actions if action.keys]
        if query.strip():
            return ranked(query, rows, ())
        groups = dict.fromkeys(row.group for row in rows)
        return [
            each
            for group in groups
            for each in (
                Row(group, lambda: None, is_heading=True),
                *(row for row in rows if row.group == group),
            )
        ]

    def _row(self, action: Action, detail: str) -> Row:
        keys = action.keys if self._is_keys else action.keys[:1]
        return Row(
            action.title,
            lambda: self._actions.run(action.name),
            detail,
            " · ".join(shown_key(key) for key in keys),
            action.group,
            is_enabled=action.is_enabled(),
            also=ALSO.get(action.name, ()),
        )

    # --- moving and doing ---------------------------------------------------------------

    def _choose(self, place: int) -> None:
        index = self.model.index(place, 0) if place >= 0 else QModelIndex()
        self.view.setCurrentIndex(index)
        if index.isValid():
            # The list never has the focus, so what is chosen is said by the field.
            words = spoken(self.model.rows[place])
            self.field.setAccessibleDescription(words)
            announce(self.field, words)

    def _step(self, step: int) -> None:
        rows, place = self.model.rows, self.view.currentIndex().row()
        for _ in rows:
            place = (place + step) % len(rows)
            if not rows[place].is_heading:
                self._choose(place)
                return

    def _run(self, index: AnyIndex) -> None:
        if not index.isValid():
            return
        row = self.model.rows[index.row()]
        if row.is_heading or not row.is_enabled:
            return
        self.dismiss()
        row.run()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if watched is self._window and kind == QEvent.Type.Resize and self.isVisible():
            self._fit()
        elif watched is self.field and kind == QEvent.Type.KeyPress:
            assert isinstance(event, QKeyEvent)
            return self._take_key(event)
        elif kind == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            is_here = self.rect().contains(self.mapFromGlobal(event.globalPosition().toPoint()))
            if self.isVisible() and isinstance(watched, QWidget) and not is_here:
                self.dismiss()
        elif watched is self.field and kind == QEvent.Type.FocusOut:
            reason = getattr(event, "reason", lambda: None)()
            if reason not in (
                Qt.FocusReason.ActiveWindowFocusReason,
                Qt.FocusReason.PopupFocusReason,
            ):
                self.hide()
        return False

    def _take_key(self, event: QKeyEvent) -> bool:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_Tab: 1, Qt.Key.Key_Backtab: -1}
        steps |= {Qt.Key.Key_PageDown: MOST_ROWS - 1, Qt.Key.Key_PageUp: 1 - MOST_ROWS}
        key = Qt.Key(event.key())
        if key in steps:
            self._step(steps[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._run(self.view.currentIndex())
        elif key == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            return False
        return True

    # --- size ---------------------------------------------------------------------------

    def _fit(self) -> None:
        px = self._theme.px
        self._delegate.measure(self.model.rows)
        width = min(px(WIDTH_PX), self._window.width() - px(32))
        top = min(px(TOP_PX), self._window.height() // 8)
        rows = sum(px(HEADING_PX if row.is_heading else ROW_PX) for row in self.model.rows)
        most = min(px(ROW_PX) * MOST_ROWS, self._window.height() - top - px(90))
        most -= most % px(ROW_PX)  # no row is cut
        self.view.setFixedHeight(max(px(ROW_PX), min(rows, most)))
        self.setFixedWidth(width)
        self.move((self._window.width() - width) // 2, top)
        self.adjustSize()


def spoken(row: Row) -> str:
    """A row as a screen reader says it."""
    parts = [row.title, row.detail, row.key, "" if row.is_enabled else "unavailable"]
    return ", ".join(part for part in parts if part)


def _sheet(theme: Theme) -> str:
    px, edge = theme.px, QColor(theme.colors.dim)
    border = f"rgba({edge.red()}, {edge.green()}, {edge.blue()}, {EDGE_PERCENT}%)"
    return f"#palette {{ border: 1px solid {border}; border-radius: {px(12)}px; }}"
