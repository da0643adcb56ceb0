"""What a stage did to the chosen token's candidates: figures, the best as bars, who was removed."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.engine.protocol.pieces import Pieces
from app.insight.sampling.stage_evidence import DrawEvidence, Kept, StageEvidence
from app.insight.sampling.waterfall import Candidate
from app.insight.trace.tokens_shown import visible
from ui.look.theme import Theme
from ui.section.sampling.share_bars import Bar, DrawMark, Segment, ShareBars, percent
from ui.section.term_label import term_label
from ui.widgets.kit import push_button
from ui.widgets.table_model import TableModel

Index = QModelIndex | QPersistentModelIndex

N_BARS: Final = 4
_HINTS: Final = (
    "Token, most probable first",
    "Its probability before samplers, at temperature 1",
    "Stage that removed it",
)
_ROWS_SHOWN: Final = 7
_ROW_PX: Final = 22
_COLUMNS: Final = ("Removed", "Before", "By")


def name_of(token_id: int, words: Pieces | None) -> str:
    """A token's text, or its ID where the words are not known."""
    return f"ID {token_id}" if words is None else visible(words.piece(token_id))


def best_and_drawn(row: StageEvidence) -> list[Kept]:
    """The best that are left, and the drawn one where it is none of them."""
    best = list(row.kept[:N_BARS])
    return best + [each for each in row.kept[N_BARS:] if each.is_drawn]


class RemovedModel(TableModel):
    """The recorded candidates that a stage removed, the most probable first; then how many it
    removed of those that were not recorded."""

    columns, hints, numbers = _COLUMNS, _HINTS, frozenset({1})

    def __init__(self) -> None:
        super().__init__()
        self._removed: tuple[Candidate, ...] = ()
        self._n_unknown = 0
        self._stage = ""
        self._words: Pieces | None = None

    def show(self, row: StageEvidence, title: str, words: Pieces | None) -> None:
        self.beginResetModel()
        self._removed, self._n_unknown = row.removed_known, row.removed_unknown
        self._stage, self._words = title, words
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._removed) + (self._n_unknown > 0)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if index.row() >= len(self._removed):
            words = f"{self._n_unknown:,} less probable tokens"
            return (words, "not recorded", self._stage)[index.column()]
        candidate = self._removed[index.row()]
        match index.column():
            case 0:
                return name_of(candidate.token_id, self._words)
            case 1:
                return f"{100 * candidate.probability:.3g}%"
        return self._stage


class EvidenceView(QWidget):
    """Of one stage at the chosen token."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._row: StageEvidence | None = None
        self._title = ""
        self._words: Pieces | None = None
        self._table: QTableView | None = None
        self._removed_model: RemovedModel | None = None
        self.left = term_label("", self, "small", wraps=True, name="left_label")
        self.removed_button = push_button(
            "", self, "removed_button", kind="quiet", act=self._show_removed
        )
        self.removed_button.setCheckable(True)
        self.bars = ShareBars(theme, self)
        self.mark = DrawMark(theme, self)
        self.note = term_label("", self, "small", wraps=True, name="evidence_note")
        self._head = QHBoxLayout()
        self._head.addWidget(self.left, 1)
        self._head.addWidget(self.removed_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._head)
        self._column.addWidget(self.bars)
        self._column.addWidget(self.mark)
        self._column.addWidget(self.note)
        theme.changed.connect(self._fit)
        theme.space(self._column, 4)
        theme.sheet(self.removed_button, _removed_sheet)
        self.hide()

    @property
    def table(self) -> QTableView | None:
        """The list of removed candidates, once it was opened."""
        return self._table

    def clear(self) -> None:
        self._row = None
        self.hide()

    def show_stage(
        self,
        row: StageEvidence,
        title: str,
        words: Pieces | None,
        *,
        decided: str = "",
        draw: DrawEvidence | None = None,
        seed: int | None = None,
    ) -> None:
        """`decided`: what a stage of chance drew, in words. `draw`, with its seed: on the last."""
        self._row, self._title, self._words = row, title, words
        self.left.setText(f"{row.left:,} left")
        shown, spoken = _removed_words(row)
        is_any, spoken = removes(row), f"{title} removed {spoken}"
        self.removed_button.setText(shown)
        self.removed_button.setEnabled(is_any)
        self.removed_button.setAccessibleName(f"{spoken}. Show them" if is_any else spoken)
        self.removed_button.setToolTip("Show removed candidates" if is_any else "")
        self.bars.show_bars(
            [Bar(name_of(k.token_id, words), k.share, k.is_drawn) for k in best_and_drawn(row)]
        )
        self.mark.setVisible(draw is not None and bool(draw.parts))
        said = [decided] if draw is None else self._drawn(draw, seed)
        self._say([*said, "" if row.reason in said else row.reason])
        self._show_removed()
        self.show()

    def _drawn(self, draw: DrawEvidence, seed: int | None) -> list[str]:
        """Put the mark where the number fell; the draw in words."""
        if draw.uniform is None:
            return [draw.reason]
        segments = [
            Segment(name_of(part.token_id, self._words), part.start, part.end, part.is_drawn)
            for part in draw.parts
        ]
        self.mark.show_draw(segments, draw.uniform)
        begun = f"Seed {seed} drew" if seed is not None else "Drew"
        where = next((f", which falls on “{s.name}”" for s in segments if s.is_drawn), "")
        return [f"{begun} {draw.uniform:.4f} between 0 and 1{where}.", draw.reason]

    def _say(self, sentences: list[str]) -> None:
        text = " ".join(sentence for sentence in sentences if sentence)
        if text != self.note.text():
            self.note.setText(text)
        self.note.setVisible(bool(text))

    def _show_removed(self) -> None:
        is_open = self.removed_button.isChecked() and self._row is not None
        is_open = is_open and self._row is not None and removes(self._row)
        if is_open and self._table is None:
            self._table = self._make_table()
            self._column.addWidget(self._table)
        if self._table is not None:
            self._table.setVisible(is_open)
        if is_open and self._row is not None and self._removed_model is not None:
            self._removed_model.show(self._row, self._title, self._words)
            self._fit()

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        self._removed_model = RemovedModel()
        table.setObjectName("removed_table")
        table.setAccessibleName(f"Candidates that {self._title} removed")
        table.setModel(self._removed_model)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._theme.font(table, Theme.font_small)
        self._theme.sheet(table, _table_sheet)
        rows = table.verticalHeader()
        self._theme.keep(rows, QHeaderView.setMinimumSectionSize, 20)
        self._theme.keep(rows, QHeaderView.setDefaultSectionSize, _ROW_PX)
        return table

    def _fit(self) -> None:
        """As high as its first rows."""
        if self._table is not None and self._removed_model is not None:
            rows = min(self._removed_model.rowCount(), _ROWS_SHOWN)
            self._table.setFixedHeight(self._theme.px(_ROW_PX) * rows + self._theme.px(26))


def _removed_sheet(theme: Theme) -> str:
    px = theme.px
    return (
        f"QPushButton {{ padding: {px(1)}px 0 {px(1)}px {px(4)}px; color: {theme.colors.dim};"
        f" font-size: {theme.font_small().pixelSize()}px; }}"
    )


def _table_sheet(theme: Theme) -> str:
    return (
        f"QHeaderView::section {{ font-size: {theme.font_small().pixelSize()}px;"
        f" padding: {theme.px(2)}px {theme.px(8)}px; }}"
    )


def removes(row: StageEvidence) -> bool:
    return bool(row.removed_known) if row.removed is None else row.removed > 0


def _removed_words(row: StageEvidence) -> tuple[str, str]:
    """How many a stage removed: shown, and spoken."""
    n_known = len(row.removed_known)
    if row.removed is None:  # other weights are loaded: nobody knows how many there were
        return f"−{n_known:,} of the recorded", f"{n_known:,} of the recorded candidates"
    shown = f"−{row.removed:,} removed" if row.removed > 0 else "removes none"
    return shown, f"{row.removed:,} candidates"


__all__ = ["EvidenceView", "RemovedModel", "name_of", "percent", "removes"]
