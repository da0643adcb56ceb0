"""Which folders are looked into for weights. What is in them is used in place."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QListWidget,
    QVBoxLayout,
    QWidget,
)

from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.widgets.check_box import CheckBox
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX = (520, 380)
WORDS = (
    "Cutaway looks for GGUF files in these folders and their subfolders. Nothing is copied or "
    "moved."
)
OTHERS = "Include models from other apps"
OTHERS_WORDS = "LM Studio, Jan, GPT4All, Ollama, llama.cpp and Hugging Face"


class FoldersDialog(QDialog):
    """Shows the setting as it is; each change counts at once."""

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.setObjectName("folders_dialog")
        self.setWindowTitle("Model folders")
        self._words = plain_label(WORDS, self, "dim", wraps=True)
        self.list = QListWidget(self)
        self.list.setObjectName("weights_folders")
        self.list.setAccessibleName("Model folders")
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.none = plain_label("No folders added yet.", self, name="no_folders")
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.sentence = plain_label("", self, "error", name="folders_sentence", wraps=True)
        self.sentence.setMinimumWidth(1)
        self.sentence.hide()
        self.others = CheckBox(theme, OTHERS, self)
        self.others.setObjectName("find_other_apps")
        self.others.setChecked(desk.settings.now.find_other_apps)
        self.others.setAccessibleDescription(OTHERS_WORDS)
        self._others_words = plain_label(OTHERS_WORDS, self, "small", wraps=True)
        self.add_button = push_button(
            "Add a folder…", self, "add_folder_button", spoken="Add a folder"
        )
        self.remove_button = push_button(
            "Remove",
            self,
            "remove_folder_button",
            spoken="Stop searching the selected folder",
            hint="The folder and its files aren't changed",
        )
        self.close_button = push_button("Done", self, "folders_done_button")
        self.close_button.setDefault(True)
        self._build()
        self.add_button.clicked.connect(self._choose)
        self.remove_button.clicked.connect(self._remove)
        self.close_button.clicked.connect(self.accept)
        self.finished.connect(lambda _: self._say(""))
        self.list.currentRowChanged.connect(lambda _: self._settle())
        self.others.toggled.connect(lambda is_on: desk.settings.set("find_other_apps", is_on))
        delete = QShortcut(QKeySequence.StandardKey.Delete, self.list, self._remove)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        theme.space(self._column, 12, margins=16)
        theme.space(self._row, 8)
        self._show()
        ZoomedSize(self, theme, SIZE_PX)

    def _build(self) -> None:
        self._row = FlowLayout()
        for button in (self.add_button, self.remove_button, self.close_button):
            self._row.addWidget(button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._words)
        self._column.addWidget(self.list, 1)
        self._column.addWidget(self.none, 1)
        self._column.addWidget(self.sentence)
        self._column.addWidget(self.others)
        self._column.addWidget(self._others_words)
        self._column.addLayout(self._row)
        order = (self.list, self.add_button, self.remove_button, self.others, self.close_button)
        for before, after in itertools.pairwise(order):
            QWidget.setTabOrder(before, after)

    def _show(self, chosen: str = "") -> None:
        folders = self._desk.settings.now.weights_folders
        row = folders.index(chosen) if chosen in folders else max(0, self.list.currentRow())
        self.list.clear()
        for folder in folders:
            self.list.addItem(one_line(folder))
            self.list.item(self.list.count() - 1).setToolTip(one_line(folder))
        self.list.setVisible(bool(folders))
        self.none.setVisible(not folders)
        if folders:
            self.list.setCurrentRow(min(row, len(folders) - 1))
        self._settle()

    def _settle(self) -> None:
        self.remove_button.setEnabled(self.list.currentRow() >= 0)

    def _choose(self) -> None:
        folders = self._desk.settings.now.weights_folders
        first = Path(folders[-1]).parent if folders else Path.home()
        dialog = QFileDialog(self, "Add a model folder", str(first))
        dialog.setObjectName("weights_folder_dialog")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.add)
        dialog.open()

    def add(self, path: str) -> None:
        """Look whether the folder can be used; it may take a while on a network."""
        self.add_button.setEnabled(False)
        self._say("")
        self._desk.local.add_folder(path, self._on_added)

    def _on_added(self, sentence: str) -> None:
        self.add_button.setEnabled(True)
        self._say(sentence)
        if not sentence:
            folders = self._desk.settings.now.weights_folders
            self._show(folders[-1] if folders else "")

    def _say(self, sentence: str) -> None:
        self.sentence.setText(one_line(sentence))
        self.sentence.setVisible(bool(sentence))

    def _remove(self) -> None:
        folders, row = self._desk.settings.now.weights_folders, self.list.currentRow()
        if 0 <= row < len(folders):
            self._say("")
            self._desk.local.remove_folder(folders[row])
            self._show()
            if not self.remove_button.isEnabled():
                self.add_button.setFocus()
