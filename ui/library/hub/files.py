"""The weights in a repository, in a table: each by its real name, with bits, size and fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import (
    QModelIndex,
    QObject,
    QRect,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.amounts import bytes_words
from ui.library.fit.badge import UNKNOWN, badge_size, paint_badge
from ui.library.hub.results import SIDE_PX, paint_focus
from ui.library.hub.words import bits_text, file_line, file_title
from ui.library.local.two_lines import GAP_PX, TwoLineDelegate
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex
from ui.widgets.table_model import TableModel

if TYPE_CHECKING:
    from app.engine.planning.fit import Fit
    from app.hub.records import HubFile

FILE_ROLE: Final = Qt.ItemDataRole.UserRole
FIT_ROLE: Final = Qt.ItemDataRole.UserRole + 1
COLUMNS: Final = ("File", "Quantisation", "Bits", "Size", "Memory")
FILE, QUANTISATION, BITS, SIZE, FIT = range(len(COLUMNS))
_HINTS: Final = (
    "",
    "Storage type of the weights",
    "Approximate bits per weight",
    "Total of all parts",
    "Whether it fits in free memory",
)
_WIDEST: Final = {QUANTISATION: "UD-IQ2_XXS", BITS: "16.5", SIZE: "999.9 GB"}
_NARROW_FIT: Final = "probably fits"
_WIDE_FIT: Final = "fits with 12 of 24 layers"


class FilesModel(TableModel):
    """Fits are told by `tell_fit`, one by one, as they become known."""

    columns, hints, numbers = COLUMNS, _HINTS, frozenset({BITS, SIZE})

    def __init__(self) -> None:
        super().__init__()
        self.files: list[HubFile] = []
        self._rows: dict[str, int] = {}
        self._fits: dict[str, Fit] = {}

    def show(self, files: tuple[HubFile, ...]) -> None:
        self.beginResetModel()
        self.files = list(files)
        self._rows = {file.name: row for row, file in enumerate(self.files)}
        self._fits.clear()
        self.endResetModel()

    def fit_of(self, file: HubFile) -> Fit | None:
        return self._fits.get(file.name)

    def tell_fit(self, file: HubFile, fit: Fit) -> None:
        row = self._rows.get(file.name)
        if row is not None:
            self._fits[file.name] = fit
            at = self.index(row, FIT)
            self.dataChanged.emit(at, at)

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.files)

    def cell(self, file: HubFile, column: int) -> str:
        match column:
            case 0:
                return file_title(file)
            case 1:
                return file.quantisation
            case 2:
                return bits_text(file.bits)
            case 3:
                return bytes_words(file.size_bytes)
            case _:
                fit = self.fit_of(file)
                return fit.words if fit is not None else ""

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        file, column = self.files[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self.cell(file, column)
        if role == FILE_ROLE:
            return file
        if role == FIT_ROLE:
            return self.fit_of(file)
        if role == Qt.ItemDataRole.AccessibleTextRole and column == FILE:
            return f"{file_title(file)}. {file_line(file)}".rstrip(". ")
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{COLUMNS[column]}: {self.cell(file, column) or 'unknown'}"
        if role == Qt.ItemDataRole.ToolTipRole:
            fit = self.fit_of(file) if column == FIT else None
            return "\n".join(file.names) if column == FILE else fit.why if fit else None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(column)
        return None


class FileDelegate(TwoLineDelegate):
    """The name with what is special about it below; the fit as a badge."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(theme, parent)
        self.with_bits = False

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        text = self._paint_ground(painter, option, index)
        side = self._theme.px(SIDE_PX)
        room = option.rect.adjusted(side, 0, -side, 0)
        painter.save()
        if index.column() == FILE:
            self._paint_name(painter, room, index.data(FILE_ROLE))
        elif index.column() == FIT:
            paint_badge(painter, QRectF(room), index.data(FIT_ROLE), self._theme)
        else:
            painter.setFont(self._theme.font_text())
            painter.setPen(QColor(self._theme.colors.ink))
            self._draw(painter, room, text, index.data(Qt.ItemDataRole.TextAlignmentRole))
        if option.state & QStyle.StateFlag.State_HasFocus:
            paint_focus(painter, option.rect, self._theme)
        painter.restore()

    def _paint_name(self, painter: QPainter, room: QRect, file: HubFile) -> None:
        px, colors = self._theme.px, self._theme.colors
        text, small = self._theme.font_text(), self._theme.font_small()
        name_px, words_px = QFontMetrics(text).height(), QFontMetrics(small).height()
        words = file_line(file, with_bits=self.with_bits)
        height = name_px + (words_px + px(GAP_PX) if words else 0)
        top = room.top() + (room.height() - height) // 2
        painter.setFont(text)
        painter.setPen(QColor(colors.dim if file.missing else colors.ink))
        line = QRect(room.left(), top, room.width(), name_px)
        self._draw(painter, line, file_title(file), elide=Qt.TextElideMode.ElideMiddle)
        painter.setFont(small)
        painter.setPen(QColor(colors.warning if file.missing else colors.dim))
        below = QRect(room.left(), top + name_px + px(GAP_PX), room.width(), words_px)
        self._draw(painter, below, words)


class FilesTable(QTableView):
    """`chosen` names the file that is current; `wanted`, the one to download."""

    chosen = Signal(object)
    wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.weights = FilesModel()
        self._delegate = FileDelegate(theme, self)
        self.setObjectName("hub_files")
        self.setAccessibleName("Files in this repository")
        self.setProperty("kind", "tight")
        self.setModel(self.weights)
        self.setItemDelegate(self._delegate)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setMinimumSectionSize(1)
        head.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        head.setSectionResizeMode(FILE, QHeaderView.ResizeMode.Stretch)
        self.activated.connect(lambda index: self.wanted.emit(index.data(FILE_ROLE)))
        self.selectionModel().currentChanged.connect(self._on_current)
        theme.changed.connect(self._fit)
        self._fit()

    def _on_current(self, current: QModelIndex, previous: QModelIndex) -> None:
        if current.isValid() and current.row() != previous.row():
            self.selectRow(current.row())  # Qt makes the first current when focus comes, no more
            self.chosen.emit(current.data(FILE_ROLE))

    def choose(self, file: HubFile) -> None:
        if file in self.weights.files:
            self.setCurrentIndex(self.weights.index(self.weights.files.index(file), FILE))

    def rows_height(self, n_rows: int) -> int:
        """How high the table is with so many rows in view."""
        return self.horizontalHeader().sizeHint().height() + n_rows * self._delegate.row_height()

    def resizeEvent(self, event: Any) -> None:
        super().resizeEvent(event)
        self._share()

    def _fit(self) -> None:
        self.verticalHeader().setDefaultSectionSize(self._delegate.row_height())
        self.horizontalHeader().setFont(self._theme.font_small())
        self._share()

    def _share(self) -> None:
        """The name has what the others leave. Where that is too little, quantisation and bits go
        below it."""
        side = 2 * self._theme.px(SIDE_PX)
        metrics = QFontMetrics(self._theme.font_text())
        small = QFontMetrics(self._theme.font_small())
        widths = {
            column: max(
                metrics.horizontalAdvance(text), small.horizontalAdvance(COLUMNS[column])
            )
            + side + 2
            for column, text in _WIDEST.items()
        }  # fmt: skip
        sign = badge_size(None, self._theme).width() - small.horizontalAdvance(UNKNOWN) + side
        left, least = self.viewport().width(), self._theme.px(240)
        widths[FIT] = sign + small.horizontalAdvance(_WIDE_FIT)
        hidden: set[int] = set()
        if left - sum(widths.values()) < least:
            widths[FIT] = sign + small.horizontalAdvance(_NARROW_FIT)
        if left - sum(widths.values()) < least:
            hidden = {BITS, QUANTISATION}
        self._delegate.with_bits = bool(hidden)
        for column, width in widths.items():
            self.setColumnHidden(column, column in hidden)
            self.setColumnWidth(column, width)
