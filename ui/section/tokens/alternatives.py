"""What else was on the table: the best candidates of one token as bars, and where each ended.

Probabilities are before samplers, at temperature 1, as they were recorded. Any of them, or a text
that is typed, can become the token: in another version of the reply, which goes on from there.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QContextMenuEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.sampling.waterfall import Candidate, waterfall
from app.insight.trace.tokens_shown import percent, visible
from ui.look.theme import Theme
from ui.section.card import show_rows
from ui.section.heading_terms import HeadingTerms
from ui.section.panel import Tools
from ui.section.term_label import term_label
from ui.widgets.kit import push_button
from ui.widgets.table_model import TableModel

Index = QModelIndex | QPersistentModelIndex

SHARE: Final = Qt.ItemDataRole.UserRole
DRAWN: Final = Qt.ItemDataRole.UserRole + 1
FEWEST_ROWS: Final = 3
HINT_FROM_PX: Final = 180
CHOOSE: Final = "Choose a token to see its alternatives."
NOT_RECORDED: Final = "Alternatives weren't recorded for this token."
BRANCH_HERE: Final = "Branch here with this token"
_COLUMNS: Final = ("Token", "Prob. %", "", "Removed by")
_BAR: Final = 2


class AlternativesModel(TableModel):
    """The candidates of the token that is looked at, the most probable first."""

    columns, numbers = _COLUMNS, frozenset({1})

    def __init__(self) -> None:
        super().__init__()
        self._candidates: tuple[Candidate, ...] = ()
        self._stages: tuple[str, ...] = ()
        self._words: Pieces | None = None
        self._token: TokenTrace | None = None

    def show(self, token: TokenTrace | None, words: Pieces | None) -> None:
        self.beginResetModel()
        self._words, self._token = words, token
        if token is None:
            self._candidates, self._stages = (), ()
        else:
            found = waterfall(token, 0)
            self._candidates = found.candidates
            self._stages = tuple(step.stage for step in found.steps)
        self.endResetModel()

    @property
    def is_empty(self) -> bool:
        return self._token is None

    def candidate(self, row: int) -> Candidate:
        return self._candidates[row]

    @property
    def drawn_row(self) -> int | None:
        """Where the token itself stands; None: it is not among the candidates."""
        rows = (row for row, each in enumerate(self._candidates) if each.is_drawn)
        return next(rows, None)

    def piece(self, candidate: Candidate) -> str:
        """Its text, or its number where the words are not known."""
        if self._token is not None and candidate.is_drawn:
            return visible(self._token.piece)
        if candidate.piece is not None:
            return visible(candidate.piece)
        if self._words is None:
            return f"ID {candidate.token_id}"
        return visible(self._words.piece(candidate.token_id))

    def ended(self, candidate: Candidate) -> str:
        """Which stage removed it, or what became of it."""
        if candidate.is_drawn and self._token is not None and self._token.chosen:
            return "chosen by you"
        if candidate.is_drawn:
            return "drawn"
        if candidate.removed_by is not None and candidate.removed_by < len(self._stages):
            return self._stages[candidate.removed_by]
        return "none" if self._stages else ""

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._candidates)

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
            return percent(_log(candidate.probability)) + "%"
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
    """`picked`: a candidate, by Enter, a double click, or the menu; `piece_picked`: one that is
    known by its bytes alone. `empty_words`: what stands
    there without candidates."""

    picked = Signal(int)
    piece_picked = Signal(bytes)
    may_branch: ClassVar[bool] = True

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.empty_words = ""
        self.candidates = AlternativesModel()
        self.setObjectName("alternatives_table")
        self.setAccessibleName("Alternatives to the selected token")
        self.setModel(self.candidates)
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        # Rows that a minimum has made higher would keep that height for ever.
        self.verticalHeader().setMinimumSectionSize(1)
        self._bars = _Bars(theme, self)
        self.setItemDelegateForColumn(_BAR, self._bars)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(_BAR, QHeaderView.ResizeMode.Stretch)
        HeadingTerms(self)
        self.doubleClicked.connect(lambda index: self._pick(index.row()))
        theme.font(self, Theme.font_small)
        # The application's sheet is polished after a font and would bring its own size back.
        theme.sheet(header, _header_sheet)
        theme.keep(header, QHeaderView.setMinimumSectionSize, 40)
        theme.keep(self.verticalHeader(), QHeaderView.setDefaultSectionSize, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.candidates.rowCount() or not self.empty_words:
            return
        px = self._theme.px
        room = self.viewport().rect().adjusted(px(10), px(4), -px(10), -px(4))
        with QPainter(self.viewport()) as painter:
            painter.setFont(self._theme.font_small())
            painter.setPen(QColor(self._theme.colors.dim))
            top = Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(room, top, self.empty_words)

    def _pick(self, row: int) -> None:
        if 0 <= row < self.candidates.rowCount():
            candidate = self.candidates.candidate(row)
            if candidate.piece is not None:
                self.piece_picked.emit(candidate.piece)
            else:
                self.picked.emit(candidate.token_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._pick(self.currentIndex().row())
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        at_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if at_key else self.indexAt(event.pos())
        if not index.isValid() or not self.may_branch:
            return
        self.selectRow(index.row())
        menu = QMenu(self)
        menu.setObjectName("alternatives_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(BRANCH_HERE).triggered.connect(lambda: self._pick(index.row()))
        place = self.visualRect(index).center() if at_key else event.pos()
        menu.popup(self.viewport().mapToGlobal(place))


def _header_sheet(theme: Theme) -> str:
    return f"QHeaderView {{ font-size: {theme.font_small().pixelSize()}px; }}"


class Alternatives(QWidget):
    """The table of the token that is looked at, and how another one takes its place."""

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = tools.theme
        self._looking = tools.looking
        self._desk = tools.desk
        self.table = AlternativesTable(tools.theme, self)
        self.table.setToolTip("Enter or double-click to branch with this token")
        self.text = QLineEdit(self)
        self.text.setObjectName("branch_text")
        self.text.setPlaceholderText("or type text")
        self.text.setAccessibleName("Replacement text for the selected token")
        self.text.setToolTip("Tokenised on its own and used instead of the selected token")
        self.button = push_button(
            "Branch",
            self,
            "branch_text_button",
            spoken="Branch with this text",
            hint="Creates a version of the reply that continues after this text",
        )
        self.hint = term_label("", self, "small", name="branch_hint", wraps=True)
        self._row = QHBoxLayout()
        self._row.addWidget(self.text, 1)
        self._row.addWidget(self.button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.table, 1)
        self._column.addLayout(self._row)
        self._column.addWidget(self.hint)
        self.candidates.modelReset.connect(self._on_shown)
        self.table.picked.connect(self._on_picked)
        self.table.piece_picked.connect(self._on_piece_picked)
        self.text.returnPressed.connect(self._on_typed)
        self.text.textChanged.connect(self._follow)
        self.button.clicked.connect(self._on_typed)
        self._theme.changed.connect(self._fit)
        self._theme.space(self._column, 6)
        self._theme.space(self._row, 6)
        self._theme.font(self.text, Theme.font_small)
        self._theme.font(self.button, Theme.font_small)
        self._fit()
        self._follow()

    @property
    def candidates(self) -> AlternativesModel:
        return self.table.candidates

    def show_token(self, token: TokenTrace | None, words: Pieces | None) -> None:
        """Nothing is painted anew while a reply grows and no token is chosen."""
        if token is None and self.candidates.is_empty:
            self._follow()
        else:
            self.candidates.show(token, words)

    def _on_shown(self) -> None:
        row = self.candidates.drawn_row
        if row is not None:
            self.table.selectRow(row)
        self._follow()

    def _follow(self) -> None:
        token = self._looking.token
        self.text.setEnabled(token is not None)
        self.button.setEnabled(token is not None and bool(self.text.text()))
        choose = CHOOSE if len(self._looking.traces) else ""
        empty = choose if token is None else NOT_RECORDED
        if empty != self.table.empty_words:
            self.table.empty_words = empty
            self.table.viewport().update()
        self.table.setAccessibleDescription("" if token is not None else choose)
        if token is None:
            self.hint.setText("")
        elif token.chosen:
            self.hint.setText("You chose this token; it wasn't drawn.")
        else:
            self.hint.setText("Double-click a row to branch with that token.")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.hint.setVisible(self.height() >= self._theme.px(HINT_FROM_PX))

    def _on_picked(self, token_id: int) -> None:
        message, index = self._looking.message, self._looking.index
        if message is not None and index is not None:
            self._desk.branches.at(message.id, index, token_id)

    def _on_piece_picked(self, piece: bytes) -> None:
        message, index = self._looking.message, self._looking.index
        if message is not None and index is not None:
            self._desk.branches.at_piece(message.id, index, piece)

    def _on_typed(self) -> None:
        message, index, text = self._looking.message, self._looking.index, self.text.text()
        if message is not None and index is not None and text:
            self._desk.branches.at_text(message.id, index, text)
            self.text.clear()

    def _fit(self) -> None:
        show_rows(self.table, FEWEST_ROWS)
