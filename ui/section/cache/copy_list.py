"""The copies of chats in one place (host memory, disk): whose, how large, how old, and a button to
forget each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.section.cache.words import Copy
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label

MOST_ROWS: Final = 12
"""A disk may hold hundreds; the newest are listed."""


class _CopyRow(QWidget):
    drop_requested = Signal(int)

    def __init__(self, theme: Theme, copy: Copy, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.number = copy.number
        self.title = ElidedLabel("", self)
        self.title.setObjectName(f"{name}_title")
        self.size_label = plain_label("", self, "small", name=f"{name}_size")
        self.button = IconButton(theme, "x", "", parent=self)
        self.button.setObjectName(f"drop_{name}_button")
        self.button.clicked.connect(lambda: self.drop_requested.emit(self.number))
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.title, 1)
        self._row.addWidget(self.size_label)
        self._row.addWidget(self.button)
        theme.space(self._row, 8, margins=0)
        for label in (self.title, self.size_label):
            theme.font(label, Theme.font_small)
        self.show_copy(copy)

    def show_copy(self, copy: Copy) -> None:
        self.title.set_text(copy.title)
        if self.size_label.text() != copy.words:
            self.size_label.setText(copy.words)
        if self.button.toolTip() != copy.hint:
            self.button.setAccessibleName(copy.hint)
            self.button.setToolTip(copy.hint)


class CopyList(QWidget):
    """`drop_requested` carries the number of a copy. `keyboard_left`: the button that had the focus
    went, and there is no other one. `name` stands in the names of its parts."""

    drop_requested = Signal(int)
    keyboard_left = Signal()

    def __init__(self, theme: Theme, name: str, spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._name = name
        self._rows: dict[int, _CopyRow] = {}
        self.setObjectName(f"{name}_list")
        self.setAccessibleName(spoken)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        theme.space(self._column, 2)
        self.rest = plain_label("", self, "small", name=f"{name}_rest")
        theme.font(self.rest, Theme.font_small)
        self._column.addWidget(self.rest)

    def show_copies(self, copies: Sequence[Copy]) -> None:
        """The last one on top. What was there keeps its row, and so the keyboard."""
        shown = copies[-MOST_ROWS:]
        wanted = {copy.number for copy in shown}
        for number in [number for number in self._rows if number not in wanted]:
            self._remove(number)
        for at, copy in enumerate(reversed(shown)):
            row = self._rows.get(copy.number)
            if row is None:
                row = self._rows[copy.number] = _CopyRow(self._theme, copy, self._name, self)
                row.drop_requested.connect(self.drop_requested)
            else:
                row.show_copy(copy)
            if self._column.indexOf(row) != at:
                self._column.insertWidget(at, row)
        n_more = len(copies) - len(shown)
        self.rest.setText(f"and {n_more:,} older" if n_more else "")
        self.rest.setVisible(bool(n_more))

    def _remove(self, number: int) -> None:
        row = self._rows.pop(number)
        had_keyboard = row.button.hasFocus()
        self._column.removeWidget(row)
        row.hide()
        row.deleteLater()
        if had_keyboard and self._rows:
            next(iter(self._rows.values())).button.setFocus()
        elif had_keyboard:
            self.keyboard_left.emit()
