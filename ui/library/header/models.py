"""What a header says as item models: its values, its tensors, and these by type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QBrush, QColor, QFont

from app.amounts import bytes_words
from app.library.header_shown import HeaderShown, TensorRow, ValueRow, matches, one_line
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex
from ui.widgets.table_model import TableModel

if TYPE_CHECKING:
    from app.gguf.facts import TypeShare

T = TypeVar("T")

TIP_CHARACTERS: Final = 600
KEY, KIND, VALUE = range(3)


class RowsModel(TableModel, Generic[T]):
    """Rows of one kind, filtered by words and sorted by a column; −1 is the file's order."""

    def __init__(self) -> None:
        super().__init__()
        self._all: Sequence[T] = ()
        self._words: list[str] = []
        self._column, self._is_down = -1, False
        self.shown: list[T] = []

    def show(self, rows: Sequence[T]) -> None:
        self._all = rows
        self._show()

    def filter(self, text: str) -> None:
        """Only those in which each word of the text is found."""
        words = text.casefold().split()
        if words != self._words:
            self._words = words
            self._show()

    def row_at(self, index: AnyIndex) -> T | None:
        row = index.row()
        return self.shown[row] if index.isValid() and row < len(self.shown) else None

    def as_text(self, rows: Sequence[int]) -> str:
        """Rows for the clipboard: cells with tabs between them."""
        cells = (
            [self.whole(self.shown[row], column) for column in range(len(self.columns))]
            for row in rows
            if row < len(self.shown)
        )
        return "\n".join("\t".join(line) for line in cells)

    def sought(self, row: T) -> str:
        """What a search looks into, casefolded."""
        return ""

    def cell(self, row: T, column: int) -> str:
        raise NotImplementedError

    def whole(self, row: T, column: int) -> str:
        """The cell as it is copied."""
        return self.cell(row, column)

    def order(self, row: T, column: int) -> Any:
        return self.cell(row, column).casefold()

    def _show(self) -> None:
        words = self._words
        shown = [row for row in self._all if not words or matches(self.sought(row), words)]
        if self._column >= 0:
            key: Callable[[T], Any] = lambda row: self.order(row, self._column)  # noqa: E731
            shown.sort(key=key, reverse=self._is_down)
        self.beginResetModel()
        self.shown = shown
        self.endResetModel()

    def _sign(self, column: int) -> str:
        """Which way the rows are sorted, beside the name of the column."""
        if column != self._column:
            return ""
        return " ↓" if self._is_down else " ↑"

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.shown)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._column, self._is_down = column, order is Qt.SortOrder.DescendingOrder
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)
        self._show()

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row_at(index)
        if row is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.cell(row, index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        return self.look(row, index.column(), role)

    def look(self, row: T, column: int, role: int) -> Any:
        return None

    def heading(self, column: int) -> str:
        return self.columns[column] + self._sign(column)


class ValuesModel(RowsModel[ValueRow]):
    columns = ("Key", "Kind", "Value")
    hints = ("", "Storage type", "")

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def row_of(self, key: str) -> int | None:
        return next((at for at, row in enumerate(self.shown) if row.key == key), None)

    def sought(self, row: ValueRow) -> str:
        return row.sought

    def cell(self, row: ValueRow, column: int) -> str:
        if column == KEY:
            return one_line(row.key, 200)
        return row.kind_name if column == KIND else row.preview

    def look(self, row: ValueRow, column: int, role: int) -> Any:
        colors = self._theme.colors
        match role:
            case Qt.ItemDataRole.ToolTipRole:
                return _value_tip(row) if column == VALUE else one_line(row.key, TIP_CHARACTERS)
            case Qt.ItemDataRole.ForegroundRole:
                if row.is_removed:
                    return QBrush(QColor(colors.dim))
                if row.new is not None and column != KIND:
                    return QBrush(QColor(colors.accent))
                return QBrush(QColor(colors.dim)) if column == KIND else None
            case Qt.ItemDataRole.FontRole:
                if not row.is_changed:
                    return None
                font = QFont(self._theme.font_small())
                font.setStrikeOut(row.is_removed)
                return font
            case Qt.ItemDataRole.AccessibleTextRole:
                return f"{self.cell(row, column)}{_state_words(row)}" if column == KEY else None
        return None


class TensorsModel(RowsModel[TensorRow]):
    columns = ("Name", "Type", "Shape", "Weights", "Bits", "Size", "At byte")
    hints = (
        "",
        "Storage type",
        "Dimensions, fastest first",
        "Number of weights",
        "Bits per weight, including scales",
        "Size in the file",
        "Position in the file, after the number of its part",
    )
    numbers = frozenset({3, 4, 5, 6})

    def sought(self, row: TensorRow) -> str:
        return row.sought

    def cell(self, row: TensorRow, column: int) -> str:
        match column:
            case 0:
                return one_line(row.name, 200)
            case 1:
                return row.type_name
            case 2:
                return " × ".join(f"{extent:,}" for extent in row.shape)
            case 3:
                return f"{row.n_weights:,}"
            case 4:
                return f"{row.bits_per_weight:.2f}"
            case 5:
                return bytes_words(row.size_bytes)
            case _:
                return f"{row.part}: {row.begins:,}" if row.part else f"{row.begins:,}"

    def whole(self, row: TensorRow, column: int) -> str:
        return str(row.size_bytes) if column == 5 else self.cell(row, column)

    def order(self, row: TensorRow, column: int) -> Any:
        match column:
            case 2:
                return row.shape
            case 3:
                return row.n_weights
            case 4:
                return row.bits_per_weight
            case 5:
                return row.size_bytes
            case 6:
                return row.part, row.begins
            case _:
                return self.cell(row, column).casefold()


class TypesModel(RowsModel["TypeShare"]):
    columns = ("Type", "Tensors", "Weights", "Share", "Bits", "Size")
    hints = ("", "", "", "Share of all weights", "Bits per weight, including scales", "")
    numbers = frozenset({1, 2, 3, 4, 5})

    def __init__(self) -> None:
        super().__init__()
        self._n_weights = 0

    def show_header(self, shown: HeaderShown) -> None:
        self._n_weights = shown.facts.n_parameters
        self.show(shown.facts.types)

    def cell(self, row: TypeShare, column: int) -> str:
        match column:
            case 0:
                return row.type_name
            case 1:
                return f"{row.n_tensors:,}"
            case 2:
                return f"{row.n_weights:,}"
            case 3:
                return share_text(row.n_weights, self._n_weights)
            case 4:
                return f"{row.bits_per_weight:.2f}"
            case _:
                return bytes_words(row.size_bytes)


def share_text(part: int, whole: int) -> str:
    """A share in per cent; what is there is never 0 %.

    >>> share_text(1, 3), share_text(1, 10_000), share_text(0, 0)
    ('33.3%', '< 0.1%', '')
    """
    if not whole:
        return ""
    share = 100 * part / whole
    return "< 0.1%" if 0 < share < 0.05 else f"{share:.1f}%"


def _value_tip(row: ValueRow) -> str:
    return f"{row.preview[:TIP_CHARACTERS]}{_state_words(row)}"


def _state_words(row: ValueRow) -> str:
    if row.is_removed:
        return " (not in the copy)"
    if row.new is None:
        return ""
    return " (new in the copy)" if row.entry is None else " (changed in the copy)"
