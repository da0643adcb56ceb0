"""Tokens as chips that flow like words: the piece visible, below it what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui.look.theme import Theme

Index = QModelIndex | QPersistentModelIndex

CHIP: Final = Qt.ItemDataRole.UserRole
BATCH: Final = 400
"""So many chips are laid out at once; with more the window lives on in between."""
_PIECE_PX: Final = 13
_MAX_WIDTHS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Chip:
    """`text`: the piece, visible. `below`: its ID and, where it is none of the normal ones, its
    type. `is_second`: of a word with the other tone. `is_new`: what the last step made."""

    text: str
    below: str
    hint: str = ""
    is_second: bool = False
    is_new: bool = False


class ChipModel(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self._chips: Sequence[Chip] = ()

    def show(self, chips: Sequence[Chip]) -> None:
        self.beginResetModel()
        self._chips = chips
        self.endResetModel()

    def chip(self, row: int) -> Chip:
        return self._chips[row]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._chips)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        chip = self._chips[index.row()]
        if role == CHIP:
            return chip
        if role == Qt.ItemDataRole.DisplayRole:
            return chip.text
        if role == Qt.ItemDataRole.ToolTipRole:
            return chip.hint or chip.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{chip.text}, {chip.below}" if chip.below else chip.text
        return None


class _ChipDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.fit()

    def fit(self) -> None:
        self._piece_font = self._theme.font_mono(_PIECE_PX)
        self._small_font = self._theme.font_small()
        self._small_font.setPixelSize(max(8, self._theme.px(10)))
        self._piece = QFontMetrics(self._piece_font)
        self._small = QFontMetrics(self._small_font)
        self._widths: dict[tuple[str, str], int] = {}

    def _width(self, chip: Chip) -> int:
        key = (chip.text, chip.below)
        width = self._widths.get(key)
        if width is None:
            if len(self._widths) > _MAX_WIDTHS:
                self._widths.clear()
            text, below = map(QFontMetrics.horizontalAdvance, (self._piece, self._small), key)
            width = self._widths[key] = max(text, below)
        return width

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        chip: Chip = index.data(CHIP)
        px, width = self._theme.px, self._width(chip)
        room = option.widget.viewport().width() if isinstance(option.widget, QListView) else width
        height = self._piece.height() + px(6) + (self._small.height() if chip.below else 0)
        return QSize(min(width + px(12), max(room - px(8), px(20))), height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        chip: Chip = index.data(CHIP)
        colors, px = self._theme.colors, self._theme.px
        is_chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        rect = QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        plain = colors.card if chip.is_second else colors.hover
        painter.setBrush(QColor(colors.accent_tone if chip.is_new or is_chosen else plain))
        if is_chosen or chip.is_new:
            painter.setPen(QPen(QColor(colors.accent), px(1)))
        else:
            painter.setPen(QPen(QColor(colors.line), 1))
        painter.drawRoundedRect(rect, px(3), px(3))
        inner = option.rect.adjusted(px(5), px(3), -px(5), -px(3))
        centred = Qt.AlignmentFlag.AlignHCenter
        elide = Qt.TextElideMode.ElideRight
        painter.setFont(self._piece_font)
        painter.setPen(QColor(colors.ink))
        text = self._piece.elidedText(chip.text, elide, inner.width())
        painter.drawText(inner, centred | Qt.AlignmentFlag.AlignTop, text)
        if chip.below:
            painter.setFont(self._small_font)
            painter.setPen(QColor(colors.ink if is_chosen else colors.dim))
            below = self._small.elidedText(chip.below, elide, inner.width())
            painter.drawText(inner, centred | Qt.AlignmentFlag.AlignBottom, below)
        painter.restore()


class ChipView(QListView):
    """Arrow keys move from chip to chip."""

    def __init__(self, theme: Theme, spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.chips = ChipModel()
        self.setAccessibleName(spoken)
        self.setModel(self.chips)
        self._delegate = _ChipDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.setFlow(QListView.Flow.LeftToRight)
        self.setWrapping(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setMovement(QListView.Movement.Static)
        self.setUniformItemSizes(False)
        self.setLayoutMode(QListView.LayoutMode.Batched)
        self.setBatchSize(BATCH)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        theme.changed.connect(self._fit)
        theme.space(self, 2)
        self._fit()

    def show_chips(self, chips: Sequence[Chip]) -> None:
        self.chips.show(chips)

    def _fit(self) -> None:
        self._delegate.fit()
        self.scheduleDelayedItemsLayout()
