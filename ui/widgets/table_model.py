"""What the item models of tables have in common: named columns, numbers on the right."""

from __future__ import annotations

from typing import Any, ClassVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt

from ui.widgets.any_index import AnyIndex


class TableModel(QAbstractTableModel):
    """`hints`: none, or one for each column; `numbers`: the columns that stand right."""

    columns: ClassVar[tuple[str, ...]] = ()
    hints: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[frozenset[int]] = frozenset()

    def heading(self, column: int) -> str:
        return self.columns[column]

    def hint(self, column: int) -> str:
        return self.hints[column] if self.hints else ""

    def alignment(self, column: int) -> Qt.AlignmentFlag:
        sides = Qt.AlignmentFlag
        side = sides.AlignRight if column in self.numbers else sides.AlignLeft
        return side | sides.AlignVCenter

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.heading(section)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.hint(section) or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(section)
        return None
