"""What the theme keeps right by itself: spaces, sizes and fonts that were said once."""

from __future__ import annotations

import gc
import weakref

from PySide6.QtCore import QMargins
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QApplication,
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from app.chat.settings.settings import Settings
from ui.look.theme import Theme
from ui.widgets.flow import FlowLayout


def margins_of(one: QWidget | QVBoxLayout | QHBoxLayout) -> tuple[int, int, int, int]:
    found: QMargins = one.contentsMargins()
    return found.left(), found.top(), found.right(), found.bottom()


def test_spaces_follow_the_zoom(qtbot: QtBot, qapp: QApplication) -> None:
    theme, widget, label = Theme("light"), QWidget(), QLabel("here")
    qtbot.addWidget(widget)
    column, row, flow, grid = QVBoxLayout(widget), QHBoxLayout(), FlowLayout(), QGridLayout()
    form = QFormLayout()
    for each in (row, flow, grid, form):
        column.addLayout(each)
    column.addWidget(label)
    theme.space(column, 12, margins=(16, 12, 20, 8))
    theme.space(row, 8, margins=(4, 2))
    theme.space(flow, 6)
    theme.space(grid, (10, 4))
    theme.space(form, (12, 2))
    theme.space(label, margins=10)

    def found() -> tuple[object, ...]:
        return (
            (column.spacing(), margins_of(column)),
            (row.spacing(), margins_of(row)),
            (flow.spacing(),),
            (grid.horizontalSpacing(), grid.verticalSpacing()),
            (form.horizontalSpacing(), form.verticalSpacing()),
            (margins_of(label),),
        )

    assert found() == (
        (12, (16, 12, 20, 8)),
        (8, (4, 2, 4, 2)),
        (6,),
        (10, 4),
        (12, 2),
        ((10, 10, 10, 10),),
    )
    theme.set_zoom(150)
    assert found() == (
        (18, (24, 18, 30, 12)),
        (12, (6, 3, 6, 3)),
        (9,),
        (15, 6),
        (18, 3),
        ((15, 15, 15, 15),),
    )


def test_what_is_said_last_counts_and_the_rest_stays(qtbot: QtBot, qapp: QApplication) -> None:
    theme, widget = Theme("light"), QWidget()
    qtbot.addWidget(widget)
    column = QVBoxLayout(widget)
    theme.space(column, 12, margins=16)
    theme.space(column, 4)
    theme.set_zoom(200)
    assert (column.spacing(), margins_of(column)) == (8, (32, 32, 32, 32))


def test_sizes_and_fonts_follow(qtbot: QtBot, qapp: QApplication) -> None:
    theme, label, box = Theme("light"), QLabel("here"), QWidget()
    qtbot.addWidget(label)
    qtbot.addWidget(box)
    theme.size(label, 120, 24)
    theme.at_least(box, 40, 30)
    theme.at_most(box, width=400)
    theme.font(label, Theme.font_small, QFont.Weight.DemiBold)

    def found() -> tuple[object, ...]:
        least = (box.minimumWidth(), box.minimumHeight())
        return (label.minimumSize().toTuple(), label.maximumSize().toTuple(), least)

    assert found() == ((120, 24), (120, 24), (40, 30))
    assert (box.maximumWidth(), label.font().pixelSize()) == (400, 12)
    theme.set_zoom(200)
    assert found() == ((240, 48), (240, 48), (80, 60))
    assert (box.maximumWidth(), label.font().pixelSize()) == (800, 24)
    theme.set_fonts(Settings(text_px=28))
    assert label.font().pixelSize() == 48
    assert label.font().weight() == QFont.Weight.DemiBold


def test_who_hears_of_a_change_finds_all_of_it_done(qtbot: QtBot, qapp: QApplication) -> None:
    """Colours too: `changed` comes after the program's palette and after what is kept."""
    theme, widget = Theme("light"), QWidget()
    qtbot.addWidget(widget)
    column = QVBoxLayout(widget)
    heard: list[object] = []
    theme.changed.connect(
        lambda: heard.append((column.spacing(), qapp.palette() == theme.palette()))
    )
    theme.apply_to(qapp)
    theme.space(column, 10)
    theme.set_zoom(150)
    theme.set_mode("dark")
    assert heard == [(15, True), (15, True)]
    theme.set_mode("system")


def test_a_layout_that_only_qt_holds_is_kept_right(qtbot: QtBot, qapp: QApplication) -> None:
    theme, widget = Theme("light"), QWidget()
    qtbot.addWidget(widget)

    def build() -> None:
        row = QHBoxLayout()
        QVBoxLayout(widget).addLayout(row)
        theme.space(row, 8)

    build()
    gc.collect()
    theme.set_zoom(150)
    column = widget.layout()
    assert column is not None
    inner = column.itemAt(0)
    assert inner is not None
    row = inner.layout()
    assert row is not None
    assert row.spacing() == 12


def test_a_dropped_widget_is_collected_and_forgotten(qapp: QApplication) -> None:
    theme, widget = Theme("light"), QWidget()
    theme.space(QVBoxLayout(widget), 8, margins=4)
    theme.size(widget, 100)
    theme.font(widget, Theme.font_small)
    known = weakref.ref(widget)
    assert len(theme._kept) == 2
    del widget
    gc.collect()
    assert known() is None
    assert len(theme._kept) == 0


def test_what_qt_deleted_is_forgotten_at_the_next_change(qapp: QApplication) -> None:
    """Somebody may hold the Python half for longer."""
    theme, widget = Theme("light"), QWidget()
    column = QVBoxLayout(widget)
    theme.space(column, 8)
    theme.size(widget, 100)
    delete(widget)
    theme.set_zoom(150)
    assert len(theme._kept) == 0
