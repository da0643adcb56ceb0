"""What else was on the table: the best candidates of one token as bars, and where each ended.

Probabilities are before samplers, at temperature 1, as they were recorded.
"""

from __future__ import annotations

import math
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.engine.pieces import Pieces
from app.engine.protocol import TokenTrace
from app.insight.tokens_shown import visible
from app.insight.waterfall import Candidate, waterfall
from ui.section.token_model import percent
from ui.theme import Theme

Index = QModelIndex | QPersistentModelIndex

SHARE: Final = Qt.ItemDataRole.UserRole
DRAWN: Final = Qt.ItemDataRole.UserRole + 1
_COLUMNS: Final = ("Token", "Prob. %", "", "Removed by")
_BAR: Final = 2


class AlternativesModel(QAbstractTableModel):
    """The candidates of the token that is looked at, the most probable first."""

    def __init__(self) -> None:
        super().__init__()
        self._candidates: tuple[Candidate, ...] = ()
        self._stages: tuple[str, ...] = ()
        self._words: Pieces | None = None

    def show(self, token: TokenTrace | None, words: Pieces | None) -> None:
        self.beginResetModel()
        self._words = words
        if token is None:
            self._candidates, self._stages = (), ()
        else:
            found = waterfall(token, 0)
            self._candidates = found.candidates
            self._stages = tuple(step.stage for step in found.steps)
        self.endResetModel()

    def candidate(self, row: int) -> Candidate:
        return self._candidates[row]

    def piece(self, candidate: Candidate) -> str:
        """Its text, or its number where the words are not known."""
        if self._words is None:
            return f"ID {candidate.token_id}"
        return visible(self._words.piece(candidate.token_id))

    def ended(self, candidate: Candidate) -> str:
        """Which stage removed it, or what became of it."""
        if candidate.is_drawn:
            return "drawn"
        if candidate.removed_by is not None and candidate.removed_by < len(self._stages):
            return self._stages[candidate.removed_by]
        return "none: left at the draw" if self._stages else ""

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._candidates)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(_COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        candidate = self._candidates[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            match index.column():
                case 0:
                    return self.piece(candidate)
                case 1:
                    return percent(_log(candidate.probability))
                case 3:
                    return self.ended(candidate)
        if role == SHARE:
            return candidate.probability
        if role == DRAWN:
            return candidate.is_drawn
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() == 1:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == _BAR:
            return percent(_log(candidate.probability)) + " %"
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if section == 1 else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


class _Bars(QStyledItemDelegate):
    """A bar as long as the probability; that of the drawn token is the accent's."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        colors, px = self._theme.colors, self._theme.px
        room = QRectF(option.rect).adjusted(px(4), 0, -px(4), 0)
        height = px(8)
        width = max(room.width() * float(index.data(SHARE)), px(2))
        bar = QRectF(room.left(), room.center().y() - height / 2, width, height)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        color = QColor(colors.accent)
        if not index.data(DRAWN):
            color.setAlphaF(0.45)
        painter.setBrush(color)
        painter.drawRoundedRect(bar, px(2), px(2))
        painter.restore()


class AlternativesTable(QTableView):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.candidates = AlternativesModel()
        self.setObjectName("alternatives_table")
        self.setAccessibleName("Alternatives of the chosen token")
        self.setModel(self.candidates)
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self._bars = _Bars(theme, self)
        self.setItemDelegateForColumn(_BAR, self._bars)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(_BAR, QHeaderView.ResizeMode.Stretch)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        self.setFont(self._theme.font_small())
        self.horizontalHeader().setFont(self._theme.font_small())
        self.horizontalHeader().setMinimumSectionSize(self._theme.px(40))
        self.verticalHeader().setDefaultSectionSize(self._theme.px(24))
        self.verticalHeader().setMinimumSectionSize(self._theme.px(20))
