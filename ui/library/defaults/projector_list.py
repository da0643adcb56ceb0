"""Which projector a model is loaded with, so that it sees pictures or hears: the best that was
found, another one, or none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from app.amounts import bytes_words
from app.chat.weights.load_settings import NO_PROJECTOR, PROJECTOR
from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.shell.dialogs import choose_gguf
from ui.widgets.kit import push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.gguf.local.projecting import Projector

EFFECT: Final = (
    "A projector (mmproj file) lets a model see pictures or hear. It takes memory of its own. "
    "Applies after reloading."
)
NONE: Final = "None"
AUTOMATIC: Final = "Automatic"
AUTOMATIC_NONE: Final = "Automatic: none was found"
NEEDS_ONE: Final = "This model was made for a projector, and none is on this computer."
_PATH: Final = Qt.ItemDataRole.UserRole


class ProjectorList(QWidget):
    """The chosen row is kept as soon as it is chosen. `get_requested`: for the model in this file
    one is to be found on the hub."""

    get_requested = Signal(str)

    def __init__(
        self,
        desk: Desk,
        theme: Theme,
        apply: Callable[[str, object], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._apply = apply
        self._path = ""
        self.setObjectName("projector_list")
        self.words = small_label(EFFECT, self, name="projector_words")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.list = QListWidget(self)
        self.list.setObjectName("projectors")
        self.list.setAccessibleName("Projector")
        self.list.currentItemChanged.connect(self._on_chosen)
        self.file_button = push_button("Other file…", self, "projector_file_button")
        self.get_button = push_button("Get the projector…", self, "get_projector_button")
        self.file_button.clicked.connect(self._on_file)
        self.get_button.clicked.connect(lambda: self.get_requested.emit(self._path))
        row = QHBoxLayout()
        row.addWidget(self.file_button)
        row.addWidget(self.get_button)
        row.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.words)
        self._column.addWidget(self.list, 1)
        self._column.addLayout(row)
        theme.space(self._column, 8)
        theme.space(row, 8)
        theme.at_least(self.list, height=96)

    def show_path(self, path: str) -> None:
        if path != self._path:
            self._path = path
            self.words.setText(EFFECT)
        self._show()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show()  # there may be others by now

    def _show(self) -> None:
        if not self._path:
            return
        projectors, path = self._desk.projectors, self._path
        chosen = self._desk.defaults.value(path, PROJECTOR)
        belonging = projectors.of(path)
        first = f"{AUTOMATIC}: {_named(belonging[0])}" if belonging else AUTOMATIC_NONE
        rows = [("", first), (NO_PROJECTOR, NONE)]
        rows += [(os.fspath(each.path), _line(each)) for each in projectors.choices(path)]
        if chosen and chosen not in (each for each, _ in rows):
            rows.append((chosen, one_line(Path(chosen).name)))
        self.list.blockSignals(True)
        self.list.clear()
        for value, words in rows:
            item = QListWidgetItem(words, self.list)
            item.setData(_PATH, value)
            if value not in ("", NO_PROJECTOR):
                item.setToolTip(one_line(value))
            if value == chosen:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        needs_one = projectors.may_need_one(path)
        self.get_button.setVisible(needs_one)
        if needs_one and self.words.text() == EFFECT:
            self.words.setText(f"{EFFECT} {NEEDS_ONE}")

    def _on_chosen(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.words.setText(self._apply(PROJECTOR, item.data(_PATH)) or EFFECT)

    def _on_file(self) -> None:
        choose_gguf(self, Path(self._path).parent, self._take_file)

    def _take_file(self, path: str) -> None:
        self.words.setText(self._apply(PROJECTOR, path) or EFFECT)
        self._show()


def _named(projector: Projector) -> str:
    return f"{one_line(projector.path.name)} · {bytes_words(projector.size_bytes)}"


def _line(projector: Projector) -> str:
    return f"{_named(projector)} · {projector.senses}"
