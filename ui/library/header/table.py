"""A table of the header's window: rows are chosen, copied and sorted by keys."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ui.library.header.models import RowsModel
from ui.look.theme import Theme
from ui.section.card import column_px, tighten


class HeaderTable(QTableView):
    """`stretched` is the column that takes what room is left, but never less than its own of the
    `widths`, which are those at 100 %."""

    def __init__(
        self,
        theme: Theme,
        model: RowsModel[Any],
        stretched: int,
        widths: dict[int, int],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows = model
        self._stretched = stretched
        self._widths = widths
        self._most_rows = 0
        self.setModel(model)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        columns = self.horizontalHeader()
        columns.setHighlightSections(False)
        columns.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        columns.setSortIndicatorClearable(True)
        self.setSortingEnabled(True)
        theme.changed.connect(self.fit)
        self.fit()

    def fit(self) -> None:
        tighten(self, self._theme)
        for column in self._widths:
            self.setColumnWidth(column, self._least(column))
        self._spread()

    def _least(self, column: int) -> int:
        """What was asked for, or what the heading needs in the font of now."""
        heading = self._rows.columns[column]
        return max(self._theme.px(self._widths[column]), column_px(self._theme, heading))

    def fit_rows(self, most: int) -> None:
        """Be as high as the rows that there are, up to so many."""
        self._most_rows = most
        self._spread()

    def _spread(self) -> None:
        least = self._least(self._stretched)
        columns = range(self._rows.columnCount())
        others = sum(self.columnWidth(column) for column in columns if column != self._stretched)
        room = self.viewport().width() - others
        self.setColumnWidth(self._stretched, max(least, room))
        if self._most_rows:
            head, row = self.horizontalHeader().sizeHint(), self.verticalHeader()
            height = head.height() + min(self._most_rows, max(1, self._rows.rowCount())) * (
                row.defaultSectionSize()
            )
            if room < least:
                height += self.horizontalScrollBar().sizeHint().height()
            self.setFixedHeight(height + 2 * self.frameWidth())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._spread()

    def chosen_rows(self) -> list[int]:
        return sorted({index.row() for index in self.selectedIndexes()})

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self._rows.as_text(self.chosen_rows()))
            return
        super().keyPressEvent(event)
