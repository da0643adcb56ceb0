"""A card of the section: a title, a figure at its right, rows of figures, and whatever else."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.section.term_label import ElidedTermLabel, PartsTermLabel, TermLabel, term_label
from ui.widgets.elided import ElidedLabel, PartsLabel
from ui.widgets.kit import plain_label


class Row:
    """A name at the left and its figure at the right; without a figure it is not there."""

    def __init__(self, name: str, label: str, parent: QWidget) -> None:
        self.label = ElidedTermLabel(label, parent)
        self.label.setProperty("kind", "small")
        self.value = plain_label("", parent, name=name)
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.value.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._shown: tuple[str, str] | None = None
        self.show("")

    def show(self, figure: str, label: str | None = None) -> None:
        label = self.label.text() if label is None else label
        if (figure, label) == self._shown:  # most figures stay as they are while a reply streams
            return
        self._shown = figure, label
        self.label.set_text(label)
        self.value.setText(figure)
        self.value.setAccessibleName(f"{self.label.text()}: {figure}")
        for widget in (self.label, self.value):
            widget.setVisible(bool(figure))


class FigureCard(QFrame):
    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: list[Row] = []
        self.setProperty("plane", "card")
        self.title = TermLabel(title, self)
        self.figure = ElidedLabel("", self)
        self.figure.setProperty("kind", "small")
        self._head = QHBoxLayout()
        self._head.addWidget(self.title)
        self._head.addStretch(1)
        self._head.addWidget(self.figure)
        self._grid = QGridLayout()
        self._grid.setColumnStretch(0, 1)
        self.body = QVBoxLayout(self)
        self.body.addLayout(self._head)
        self.body.addLayout(self._grid)
        theme.space(self.body, 6, margins=12)
        theme.space(self._head, 8)
        theme.space(self._grid, (8, 4))
        theme.font(self.title, Theme.font_small, QFont.Weight.DemiBold)
        theme.font(self.figure, Theme.font_small)

    def add_row(self, name: str, label: str) -> Row:
        row = Row(name, label, self)
        at = len(self._rows)
        self._theme.font(row.label, Theme.font_small)
        self._theme.font(row.value, Theme.font_small, QFont.Weight.Medium)
        self._rows.append(row)
        self._grid.addWidget(row.label, at, 0)
        self._grid.addWidget(row.value, at, 1)
        return row

    def add_caption(self, name: str) -> QLabel:
        """Words under the figures: how they were had."""
        label = term_label("", self, "small", name=name, wraps=True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        label.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._theme.font(label, Theme.font_small)
        self.body.addWidget(label)
        return label

    def add_line(self, name: str) -> PartsLabel:
        """Words of one line, which is there without words too."""
        line = PartsTermLabel("", self)
        line.setObjectName(name)
        line.setProperty("kind", "small")
        self._theme.line(line, Theme.font_small)
        self.body.addWidget(line)
        return line
