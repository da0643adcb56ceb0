"""Which embedding model finds parts of documents: one of this computer's, a file, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat.retrieval.embedder import EmbeddingModel
from ui.look.theme import Theme
from ui.widgets.combo import Combo

NONE: Final = "None (by words)"
_CHOOSE: Final = "\0choose"


class EmbeddingField(Combo):
    """`known`: asked when the list opens."""

    changed_by_user = Signal(object)

    def __init__(
        self,
        theme: Theme,
        known: Callable[[], Sequence[EmbeddingModel]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, parent)
        self._known = known
        self._path = ""
        self._fill()
        self.activated.connect(lambda _: self._tell())

    def _fill(self) -> None:
        self.clear()
        self.addItem(NONE, "")
        for each in self._known():
            self.addItem(each.name, each.path)
        if self.findData(self._path) < 0:
            self.addItem(Path(self._path).name, self._path)
        self.addItem("Choose a file…", _CHOOSE)
        self.setCurrentIndex(self.findData(self._path))

    def show_value(self, value: object) -> None:
        self._path = str(value)
        self._fill()

    def value(self) -> object:
        return self._path

    def _tell(self) -> None:
        chosen = str(self.currentData())
        if chosen != _CHOOSE:
            self._path = chosen
            self.changed_by_user.emit(chosen)
            return
        self.setCurrentIndex(self.findData(self._path))
        dialog = QFileDialog(self, "Choose an embedding model", str(Path.home()), "GGUF (*.gguf)")
        dialog.setObjectName("embedding_dialog")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self._take)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _take(self, path: str) -> None:
        self.show_value(path)
        self.changed_by_user.emit(path)

    def showPopup(self) -> None:  # noqa: N802
        self._fill()
        super().showPopup()

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._fill()
        super().focusInEvent(event)
