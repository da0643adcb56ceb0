"""Cells that are painted without the style look exactly as the style paints them."""

from __future__ import annotations

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtGui import QIcon, QImage, QPixmap
from PySide6.QtWidgets import QApplication, QStyledItemDelegate, QTableView
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.card import tighten
from ui.section.plain_cells import PlainCells
from ui.section.tokens.model import CHOSEN, TOKEN, TokenModel

PIECES = [
    b"The",
    "سلام".encode(),
    b" capital",
    "日本".encode(),
    "▁▄█".encode(),  # from the other family that is carried, whose lines are higher
    b"\n",
    b" a piece that is far too long for it",
    b"g",
]


def grabbed(table: QTableView) -> QImage:
    return table.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize(
    "zoom", [100, *(pytest.param(zoom, marks=pytest.mark.soak) for zoom in (150, 200))]
)
def test_the_pixels_are_the_styles(qtbot: QtBot, qapp: QApplication, name: str, zoom: int) -> None:
    theme = Theme(name, zoom)
    theme.apply_to(qapp)
    model = TokenModel()
    sign = QPixmap(16, 16)
    sign.fill("red")
    model.signs = {CHOSEN: QIcon(sign)}
    table = QTableView()
    qtbot.addWidget(table)
    table.setModel(model)
    table.setShowGrid(False)
    table.setWordWrap(False)
    tighten(table, theme)
    traces = list(trace_of(PIECES))
    traces[1] = msgspec.structs.replace(traces[1], chosen=True)
    model.show(traces)
    for column, width in enumerate((30, 77, 51, 63, 48, 57, 49, 60, 70)):
        table.setColumnWidth(column, width * zoom // 100)
    table.resize(620 * zoom // 100, 260 * zoom // 100)
    table.show()
    table.selectRow(4)

    table.setItemDelegate(QStyledItemDelegate(table))
    by_style = grabbed(table)
    cells = PlainCells(theme, model, table)
    table.setItemDelegate(cells)
    assert grabbed(table) == by_style

    model.show(trace_of([b"Other"] * len(PIECES)))
    table.selectRow(4)
    assert grabbed(table) != by_style  # it looks at what it paints
    assert model.plain(1, TOKEN) == ("Other", False)


@pytest.mark.parametrize("chosen", [-1, 0])
def test_the_pixels_are_the_styles_after_the_zoom_has_changed(
    qtbot: QtBot, qapp: QApplication, chosen: int
) -> None:
    theme = Theme("light", 100)
    theme.apply_to(qapp)
    model = TokenModel()
    table = QTableView()
    qtbot.addWidget(table)
    table.setModel(model)
    table.setShowGrid(False)
    tighten(table, theme)
    theme.changed.connect(lambda: tighten(table, theme))
    table.setItemDelegate(PlainCells(theme, model, table))
    model.show(trace_of(PIECES))
    table.resize(900, 500)
    table.show()
    if chosen >= 0:
        table.selectRow(chosen)
    grabbed(table)
    for zoom in (200, 125):
        theme.set_zoom(zoom)
        plain = grabbed(table)
        own = table.itemDelegate()
        table.setItemDelegate(QStyledItemDelegate(table))
        by_style = grabbed(table)
        table.setItemDelegate(own)
        assert plain == by_style
