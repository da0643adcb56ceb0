"""What tables say of their columns."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QApplication

from ui.widgets.any_index import AnyIndex
from ui.widgets.table_model import TableModel


class Fruits(TableModel):
    columns, hints, numbers = ("Fruit", "Grams"), ("", "Without the stone"), frozenset({1})

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0


def test_headings_hints_and_sides(qapp: QApplication) -> None:
    model, role, side = Fruits(), Qt.ItemDataRole, Qt.AlignmentFlag
    across, down = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
    assert model.columnCount() == 2
    assert [model.headerData(at, across) for at in range(2)] == ["Fruit", "Grams"]
    tips = [model.headerData(at, across, role.ToolTipRole) for at in range(2)]
    assert tips == [None, "Without the stone"]
    sides = [model.headerData(at, across, role.TextAlignmentRole) for at in range(2)]
    assert sides == [side.AlignLeft | side.AlignVCenter, side.AlignRight | side.AlignVCenter]
    assert model.headerData(0, down) is None
