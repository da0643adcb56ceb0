"""A card of a panel: what it is about on the left, its figure on the right, the evidence below."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QTableView, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.look.theme_sheet import CELL_PX, HEADING_PX, ITEM_MARGIN
from ui.section.term_label import TermLabel
from ui.widgets.elided import PartsLabel


class Card(QFrame):
    """Add evidence to `body`, buttons to `head`."""

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setProperty("plane", "card")
        self.title = TermLabel(title, self)
        self.figure = PartsLabel("", self)
        self.head = QHBoxLayout()
        self.head.addWidget(self.title)
        self.head.addStretch(1)
        self.head.addWidget(self.figure)
        self.body = QVBoxLayout(self)
        self.body.addLayout(self.head)
        theme.font(self.title, Theme.font_small, QFont.Weight.DemiBold)
        theme.font(self.figure, Theme.font_small)
        theme.space(self.body, 6, margins=(12, 8))
        theme.space(self.head, 6)


def small_label(text: str, parent: QWidget, name: str = "") -> QLabel:
    """A line of dim small text that may go on in the next one."""
    label = TermLabel(text, parent)
    label.setWordWrap(True)
    label.setProperty("kind", "small")
    label.setObjectName(name)
    return label


def set_alone(body: QVBoxLayout, label: QLabel, is_alone: bool) -> None:
    """Where a sentence is all that a card has to say, it stands right below the title."""
    label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
    body.setStretchFactor(label, int(is_alone))


def tighten(table: QTableView, theme: Theme) -> None:
    """Small text, rows close to each other, and columns that leave little beside their text."""
    px = theme.px
    table.setProperty("kind", "tight")
    table.setFont(theme.font_small())
    table.horizontalHeader().setMinimumSectionSize(px(26))
    rows = table.verticalHeader()
    # Rows that a minimum has made higher would keep that height for ever.
    rows.setMinimumSectionSize(1)
    rows.setDefaultSectionSize(px(24))
    rows.setMinimumSectionSize(px(20))


def column_px(theme: Theme, heading: str, *cells: str) -> int:
    """How wide a column of a tight table is in which these cells are seen whole, and the heading
    with each of its lines and the arrow of the sorting."""
    metrics = QFontMetricsF(theme.font_small())
    *lines, last = heading.split("\n")
    head = max(metrics.horizontalAdvance(line) for line in (*lines, f"{last} ↑", f"{last} ↓"))
    cell = max((metrics.horizontalAdvance(text) for text in cells), default=0.0)
    wide = max(head + 2 * theme.px(HEADING_PX), cell + 2 * (theme.px(CELL_PX) + ITEM_MARGIN))
    return math.ceil(wide)


def show_rows(table: QTableView, fewest: int) -> None:
    """It is never lower than its head and so many rows."""
    row = table.verticalHeader().defaultSectionSize()
    table.setMinimumHeight(table.horizontalHeader().sizeHint().height() + fewest * row)
