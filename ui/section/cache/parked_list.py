"""The copies of chats in host memory: whose, how large, and a button to forget each."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.amounts import bytes_words
from app.engine.protocol.cache_messages import ParkedCopy
from ui.look.theme import Theme
from ui.section.cache.words import tokens_text
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label


class _ParkedRow(QWidget):
    drop_requested = Signal(int)

    def __init__(self, theme: Theme, copy: ParkedCopy, title: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.number = copy.number
        self.title = ElidedLabel("", self)
        self.title.setObjectName("parked_title")
        self.size_label = plain_label("", self, "small", name="parked_size")
        self.button = IconButton(theme, "x", "", parent=self)
        self.button.setObjectName("drop_parked_button")
        self.button.clicked.connect(lambda: self.drop_requested.emit(self.number))
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.title, 1)
        self._row.addWidget(self.size_label)
        self._row.addWidget(self.button)
        theme.space(self._row, 8, margins=0)
        for label in (self.title, self.size_label):
            theme.font(label, Theme.font_small)
        self.show_copy(copy, title)

    def show_copy(self, copy: ParkedCopy, title: str) -> None:
        self.title.set_text(title)
        self.size_label.setText(f"{tokens_text(copy.n_tokens)} · {bytes_words(copy.size_bytes)}")
        words = f"Drop the parked copy of “{title}”. It is processed again when the chat continues."
        self.button.setAccessibleName(words)
        self.button.setToolTip(words)


class ParkedList(QWidget):
    """`drop_requested` carries the number of a copy. `keyboard_left`: the button that had the focus
    went, and there is no other one."""

    drop_requested = Signal(int)
    keyboard_left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: dict[int, _ParkedRow] = {}
        self.setObjectName("parked_list")
        self.setAccessibleName("Chats parked in host memory")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        theme.space(self._column, 2)

    def show_copies(self, copies: list[ParkedCopy], title_of: Callable[[str], str]) -> None:
        """The newest first. What was there keeps its row, and so the keyboard."""
        wanted = {copy.number for copy in copies}
        for number in [number for number in self._rows if number not in wanted]:
            self._remove(number)
        for at, copy in enumerate(reversed(copies)):
            title, row = title_of(copy.conversation), self._rows.get(copy.number)
            if row is None:
                row = self._rows[copy.number] = _ParkedRow(self._theme, copy, title, self)
                row.drop_requested.connect(self.drop_requested)
            else:
                row.show_copy(copy, title)
            if self._column.indexOf(row) != at:
                self._column.insertWidget(at, row)

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
