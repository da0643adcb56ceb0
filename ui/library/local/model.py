"""The weights on this machine as an item model: filtered, sorted, with their fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QModelIndex, Qt

from app.amounts import bytes_words
from ui.library.local.words import folded, matches, one_line, second_line, whole_words
from ui.widgets.any_index import AnyIndex
from ui.widgets.figures import parameters_text, window_text
from ui.widgets.table_model import TableModel

if TYPE_CHECKING:
    from app.engine.planning.fit import Fit
    from app.gguf.local.entries import FoundWeights

COLUMNS: Final = ("Name", "Parameters", "Quantisation", "Size", "Context", "From", "Memory")
NAME, PARAMETERS, QUANTISATION, SIZE, CONTEXT, FROM, FIT = range(len(COLUMNS))
_HINTS: Final = (
    "",
    "Number of parameters",
    "Storage type of most of its weights",
    "Total of all files",
    "Longest context it was trained for, in tokens",
    "App it came from",
    "Whether it fits in free memory",
)
ROW_ROLE: Final = Qt.ItemDataRole.UserRole
FIT_ROLE: Final = Qt.ItemDataRole.UserRole + 1


class LocalModel(TableModel):
    """`fit_of` tells whether weights fit, as far as is known; `senses_of`, what they see by."""

    columns, hints, numbers = COLUMNS, _HINTS, frozenset({PARAMETERS, SIZE, CONTEXT})

    def __init__(
        self,
        home: Path,
        fit_of: Callable[[FoundWeights], Fit | None],
        senses_of: Callable[[FoundWeights], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self._home = home
        self._fit_of = fit_of
        self._senses_of = senses_of
        self._all: Sequence[FoundWeights] = ()
        self._words: list[str] = []
        self._column, self._is_down = NAME, False
        self._loaded = ""
        self.shown: list[FoundWeights] = []

    # --- what is shown --------------------------------------------------------------------------

    def show(self, entries: Sequence[FoundWeights]) -> None:
        """Entries by name, as the desk tells them."""
        self._all = entries
        self._show()

    def filter(self, text: str) -> None:
        """Only those in which each word of the text is found."""
        self._words = folded(text).split()
        self._show()

    def set_loaded(self, path: str) -> None:
        if path != self._loaded:
            self._loaded = path
            self._tell_changed(NAME, NAME)

    def is_loaded(self, weights: FoundWeights) -> bool:
        return bool(self._loaded) and any(str(path) == self._loaded for path in weights.all_paths)

    def fits_changed(self) -> None:
        """What `fit_of` tells is something else now."""
        if self._column == FIT:
            self._show()
        self._tell_changed(FIT, FIT)

    def words_of(self, weights: FoundWeights) -> str:
        """The line below the name."""
        return second_line(weights, self._home, self._senses_of(weights))

    def row_of(self, path: Path) -> int | None:
        """Where weights stand, by any of their paths."""
        rows = enumerate(self.shown)
        row = next((row for row, each in rows if each.path == path), None)
        if row is not None:
            return row
        rows = enumerate(self.shown)
        return next((row for row, each in rows if path in each.all_paths), None)

    def _show(self) -> None:
        words = self._words
        shown = [
            each for each in self._all if not words or matches(each, words, self._senses_of(each))
        ]
        if self._column != NAME:
            shown.sort(key=self._key, reverse=self._is_down)
        elif self._is_down:
            shown.reverse()
        shown.sort(key=lambda each: not each.can_load)
        if shown == self.shown:
            return
        if [each.path for each in shown] == [each.path for each in self.shown]:
            self.shown = shown
            self._tell_changed(0, len(COLUMNS) - 1)
            return
        if {each.path for each in shown} == {each.path for each in self.shown}:
            self._reorder(shown)
            return
        self.beginResetModel()
        self.shown = shown
        self.endResetModel()

    def _reorder(self, shown: list[FoundWeights]) -> None:
        """What is chosen stays chosen, wherever its row goes."""
        self.layoutAboutToBeChanged.emit()
        rows = {each.path: row for row, each in enumerate(shown)}
        before = self.persistentIndexList()
        after = [self.index(rows[self.shown[at.row()].path], at.column()) for at in before]
        self.shown = shown
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    def _key(self, weights: FoundWeights) -> Any:
        facts, fit = weights.facts, self._fit_of(weights) if self._column == FIT else None
        match self._column:
            case 1:
                return facts.n_parameters if facts is not None else -1
            case 2:
                return facts.quantisation.casefold() if facts is not None else ""
            case 3:
                return weights.size_bytes
            case 4:
                return (facts.n_ctx_train or 0) if facts is not None else -1
            case 5:
                return weights.origin.casefold()
            case _:
                order = ("fits", "fits with less", "does not fit")
                return (order.index(fit.verdict) if fit is not None else 3, weights.size_bytes)

    def _tell_changed(self, first: int, last: int) -> None:
        if self.shown:
            self.dataChanged.emit(self.index(0, first), self.index(len(self.shown) - 1, last))

    def cell(self, weights: FoundWeights, column: int) -> str:
        facts = weights.facts
        match column:
            case 0:
                return one_line(weights.name)
            case 1:
                return parameters_text(facts.n_parameters) if facts is not None else ""
            case 2:
                return one_line(facts.quantisation) if facts is not None else ""
            case 3:
                return bytes_words(weights.size_bytes)
            case 4:
                known = facts is not None and facts.n_ctx_train
                return window_text(facts.n_ctx_train or 0) if facts is not None and known else ""
            case 5:
                return weights.origin
            case _:
                fit = self._fit_of(weights)
                return fit.words if fit is not None else ""

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.shown)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._column, self._is_down = column, order is Qt.SortOrder.DescendingOrder
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)
        self._show()

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        weights, column = self.shown[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self.cell(weights, column)
        if role == ROW_ROLE:
            return weights
        if role == FIT_ROLE:
            return self._fit_of(weights)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._hint(weights, column)
        if role == Qt.ItemDataRole.AccessibleTextRole and column == NAME:
            loaded = ", loaded" if self.is_loaded(weights) else ""
            return f"{self.cell(weights, NAME)}{loaded}. {self.words_of(weights)}"
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{COLUMNS[column]}: {self.cell(weights, column) or 'unknown'}"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(column)
        return None

    def _hint(self, weights: FoundWeights, column: int) -> str | None:
        if column == NAME:
            return whole_words(weights, self._senses_of(weights))
        fit = self._fit_of(weights) if column == FIT else None
        return fit.why if fit is not None else None

    def heading(self, column: int) -> str:
        sign = (" ↑", " ↓")[self._is_down] if column == self._column else ""
        return f"{COLUMNS[column]}{sign}"
