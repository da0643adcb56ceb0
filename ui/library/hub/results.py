"""The repositories that a search found: an item model, how they are painted, and their list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import (
    QAbstractListModel,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import (
    QApplication,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui.library.hub.words import ago_text, marks_of, repo_line, spoken_repo
from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex

if TYPE_CHECKING:
    from app.hub.records import HubRepo

REPO_ROLE: Final = Qt.ItemDataRole.UserRole
PAD_PX: Final = 6
SIDE_PX: Final = 8
GAP_PX: Final = 2


class ResultsModel(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.repos: list[HubRepo] = []

    def show(self, repos: tuple[HubRepo, ...]) -> None:
        self.beginResetModel()
        self.repos = list(repos)
        self.endResetModel()

    def add(self, repos: tuple[HubRepo, ...]) -> None:
        """The next page; what is there already is not listed again (pages move meanwhile)."""
        there = {repo.id for repo in self.repos}
        new = [repo for repo in repos if repo.id not in there]
        if new:
            first = len(self.repos)
            self.beginInsertRows(QModelIndex(), first, first + len(new) - 1)
            self.repos += new
            self.endInsertRows()

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.repos)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        repo = self.repos[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(repo.id)
        if role == REPO_ROLE:
            return repo
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return one_line(spoken_repo(repo))
        if role == Qt.ItemDataRole.ToolTipRole:
            return one_line(repo.id)
        return None


class ResultDelegate(QStyledItemDelegate):
    """Three lines: the name, whose it is, figures."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        px = self._theme.px
        lines = QFontMetrics(self._theme.font_text()).height()
        lines += 2 * QFontMetrics(self._theme.font_small()).height()
        return QSize(px(64), lines + 2 * px(GAP_PX) + 2 * px(PAD_PX))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        whole = QStyleOptionViewItem(option)
        self.initStyleOption(whole, index)
        whole.text = ""
        whole.state &= ~QStyle.StateFlag.State_HasFocus
        style = whole.widget.style() if whole.widget is not None else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, whole, painter, whole.widget)
        repo: HubRepo = index.data(REPO_ROLE)
        px, colors = self._theme.px, self._theme.colors
        text, small = self._theme.font_text(), self._theme.font_small()
        room = option.rect.adjusted(px(SIDE_PX), px(PAD_PX), -px(SIDE_PX), -px(PAD_PX))
        painter.save()
        line = QRect(room.left(), room.top(), room.width(), QFontMetrics(text).height())
        self._draw(painter, line, one_line(repo.name), text, colors.ink)
        below = QFontMetrics(small).height()
        line = QRect(room.left(), line.bottom() + 1 + px(GAP_PX), room.width(), below)
        updated = ago_text(repo.updated) if repo.updated else ""
        for words, color in ((updated, colors.dim), (marks_of(repo), colors.warning)):
            if words:
                width = QFontMetrics(small).horizontalAdvance(words) + 1
                at = QRect(line.right() - width, line.top(), width + 1, below)
                self._draw(painter, at, words, small, color)
                line.setRight(at.left() - px(SIDE_PX))
        self._draw(painter, line, one_line(repo.author), small, colors.dim)
        line = QRect(room.left(), line.bottom() + 1 + px(GAP_PX), room.width(), below)
        self._draw(painter, line, repo_line(repo), small, colors.dim)
        if option.state & QStyle.StateFlag.State_HasFocus:
            paint_focus(painter, option.rect, self._theme)
        painter.restore()

    def _draw(self, painter: QPainter, rect: QRect, text: str, font: QFont, color: str) -> None:
        painter.setFont(font)
        painter.setPen(QColor(color))
        shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(rect, int(flags) | int(Qt.TextFlag.TextSingleLine), shown)


def paint_focus(painter: QPainter, rect: QRect, theme: Theme) -> None:
    """A line around what has the keyboard."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.colors.accent), max(1, theme.px(1.5))))
    radius = theme.px(8)
    painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), radius, radius)


class ResultsView(QListView):
    """`chosen` names the repository that is current; `end_reached` when its end comes into view."""

    chosen = Signal(object)
    end_reached = Signal()
    left_upwards = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("hub_results")
        self.setAccessibleName("Repositories found")
        self.results = ResultsModel()
        self.setModel(self.results)
        self.setItemDelegate(ResultDelegate(theme, self))
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.verticalScrollBar().valueChanged.connect(self._look_for_end)
        self.verticalScrollBar().rangeChanged.connect(self._look_for_end)
        self.selectionModel().currentChanged.connect(self._on_current)
        theme.changed.connect(self.doItemsLayout)

    def _on_current(self, current: QModelIndex) -> None:
        if current.isValid():
            # Qt makes the first one current when focus comes, no more.
            flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
            self.selectionModel().select(current, flag)
            self.chosen.emit(current.data(REPO_ROLE))

    def choose(self, row: int) -> None:
        self.setCurrentIndex(self.results.index(row))

    def keyPressEvent(self, event: Any) -> None:
        if event.key() == Qt.Key.Key_Up and self.currentIndex().row() <= 0:
            self.left_upwards.emit()
            return
        super().keyPressEvent(event)

    def _look_for_end(self) -> None:
        bar = self.verticalScrollBar()
        if (
            self.isVisible()
            and self.results.repos
            and bar.value() >= bar.maximum() - self.height() // 2
        ):
            self.end_reached.emit()
