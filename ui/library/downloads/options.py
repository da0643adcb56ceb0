"""Where downloads are saved, how many run at once, and how fast they may be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from ui.library.local.words import one_line, place_text
from ui.look.theme import Theme
from ui.settings.fields import NumberField
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX: Final = (520, 300)
WORDS: Final = (
    "New downloads are saved here, in a folder per repository. Existing files stay where they are."
)


class DownloadOptions(QDialog):
    """Each change counts at once. A folder is tried before it is taken."""

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.setObjectName("download_options")
        self.setWindowTitle("Downloads")
        self._words = plain_label(WORDS, self, "dim", wraps=True)
        self.folder = plain_label("", self, name="download_folder", wraps=True)
        self.change_button = push_button(
            "Change…",
            self,
            "change_download_folder_button",
            spoken="Change the download folder",
        )
        self.usual_button = push_button("Use the data folder", self, "usual_download_folder_button")
        self.sentence = plain_label("", self, "error", name="download_folder_sentence", wraps=True)
        self.sentence.hide()
        self._fields: dict[str, NumberField] = {}
        self._grid = QGridLayout()
        self.at_once = self._number("downloads_at_once", "Simultaneous downloads")
        self.limit = self._number(
            "download_limit_kbs", "Speed limit in kB/s, for all", "Speed limit in kB/s", automatic=0
        )
        self.limit.setPlaceholderText("No limit")
        self.close_button = push_button("Done", self, "download_options_done_button")
        self.close_button.setDefault(True)
        self._build()
        self.change_button.clicked.connect(self._choose)
        self.usual_button.clicked.connect(lambda: self.use(""))
        self.close_button.clicked.connect(self.accept)
        theme.space(self._column, 12, margins=16)
        theme.space(self._folder_row, 8)
        theme.space(self._grid, (None, 8))
        for field in self._fields.values():
            theme.size(field, 110)
        self._show()
        ZoomedSize(self, theme, SIZE_PX)

    def _number(
        self, name: str, title: str, spoken: str = "", automatic: object = ...
    ) -> NumberField:
        """A row for the setting of this name."""
        field = self._fields[name] = NumberField(is_whole=True, automatic=automatic, parent=self)
        field.setObjectName(name)
        field.setAccessibleName(spoken or title)
        label = QLabel(title, self)
        label.setBuddy(field)
        row = len(self._fields) - 1
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(field, row, 1)
        field.changed_by_user.connect(lambda value: self._desk.settings.set(name, value))
        return field

    def _build(self) -> None:
        self._folder_row = QHBoxLayout()
        self._folder_row.addWidget(self.folder, 1)
        self._folder_row.addWidget(self.change_button)
        self._folder_row.addWidget(self.usual_button)
        self._grid.setColumnStretch(0, 1)
        self._foot = QHBoxLayout()
        self._foot.addStretch(1)
        self._foot.addWidget(self.close_button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._words)
        self._column.addLayout(self._folder_row)
        self._column.addWidget(self.sentence)
        self._column.addLayout(self._grid)
        self._column.addStretch(1)
        self._column.addLayout(self._foot)

    def _show(self) -> None:
        settings = self._desk.settings.now
        self.folder.setText(one_line(place_text(self._desk.downloads.folder, Path.home())))
        self.usual_button.setVisible(bool(settings.download_folder))
        for name, field in self._fields.items():
            field.show_value(getattr(settings, name))

    def _choose(self) -> None:
        dialog = QFileDialog(self, "Save downloads in", str(self._desk.downloads.folder))
        dialog.setObjectName("download_folder_dialog")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.use)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def use(self, path: str) -> None:
        """Try whether something can be saved there; it may take a while on a network."""
        self.change_button.setEnabled(False)
        self._say("")
        self._desk.downloads.set_folder(path, self._on_tried)

    def _on_tried(self, trouble: str) -> None:
        self.change_button.setEnabled(True)
        self._say(trouble)
        self._show()

    def _say(self, sentence: str) -> None:
        self.sentence.setText(one_line(sentence))
        self.sentence.setVisible(bool(sentence))
