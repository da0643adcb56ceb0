"""The foot of the header's window: what is changed, and the copy that has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFileDialog,
    QHBoxLayout,
    QProgressBar,
    QWidget,
)

from app.amounts import bytes_words
from app.library.header_shown import one_line
from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.chat.weights.header_files import CopyJob
    from app.gguf.values import NewValue

STEPS: Final = 1000
WORDS_PX: Final = 200
NEVER: Final = "This file is never changed. Changes go into a copy."


class CopyBar(QWidget):
    """`copy_asked`: the button was pressed; `ask` then asks where to. `began` and `ended` are
    around each copy, `written` comes before the end of one that is there; `show_asked` has its
    path where it shall be shown."""

    copy_asked = Signal()
    began = Signal()
    ended = Signal()
    written = Signal()
    show_asked = Signal(object)

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._job: CopyJob | None = None
        self._n_changes = 0
        self._copy = Path()
        self.setObjectName("copy_bar")
        self.words = plain_label("", self, "small", name="copy_words", wraps=True)
        self.progress = QProgressBar(self)
        self.progress.setObjectName("copy_progress")
        self.progress.setAccessibleName("Saving the copy")
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.show_button = push_button("Show the copy", self, "show_copy_button")
        self.undo_button = push_button(
            "Undo all", self, "undo_changes_button", spoken="Undo all changes"
        )
        self.cancel_button = push_button(
            "Cancel", self, "cancel_copy_button", spoken="Cancel the copy"
        )
        self.copy_button = push_button(
            "Save an edited copy…", self, "write_copy_button", kind="primary"
        )
        self._buttons = QHBoxLayout()
        self._buttons.addStretch(1)
        for widget in (self.progress, self.show_button, self.undo_button, self.cancel_button):
            self._buttons.addWidget(widget)
        self._buttons.addWidget(self.copy_button)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addWidget(self.words, 1)
        self._row.addLayout(self._buttons)
        self.copy_button.clicked.connect(self.copy_asked)
        self.cancel_button.clicked.connect(self._cancel)
        self.show_button.clicked.connect(lambda: self.show_asked.emit(self._copy))
        theme.changed.connect(self._lay)
        theme.space(self._row, 8)
        theme.space(self._buttons, 8)
        self._lay()
        theme.size(self.progress, 120, 4)
        self.say("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay()

    def _lay(self) -> None:
        """Words beside the buttons, or above them where they would be squeezed."""
        room = self.width() - self._buttons.sizeHint().width()
        ways = QBoxLayout.Direction
        is_wide = room >= self._theme.px(WORDS_PX)
        self._row.setDirection(ways.LeftToRight if is_wide else ways.TopToBottom)

    @property
    def is_writing(self) -> bool:
        return self._job is not None

    def forget(self) -> None:
        """Another file is shown: what was said of the one before is over."""
        self._copy = Path()
        self.say("")

    def show_changes(self, n_changes: int) -> None:
        if n_changes != self._n_changes:
            self._n_changes = n_changes
            self.say("")

    def say(self, sentence: str) -> None:
        """Say this, or how many changes there are."""
        if not sentence:
            n = self._n_changes
            sentence = f"{n} change{'' if n == 1 else 's'} to save in a copy." if n else NEVER
        self.words.setText(one_line(sentence, 1000))
        self._settle()

    def _settle(self) -> None:
        is_writing = self.is_writing
        self.progress.setVisible(is_writing)
        self.cancel_button.setVisible(is_writing)
        self.copy_button.setVisible(not is_writing)
        self.copy_button.setEnabled(bool(self._n_changes))
        self.undo_button.setVisible(bool(self._n_changes) and not is_writing)
        self.show_button.setVisible(self._copy != Path() and not is_writing)
        self._lay()

    def ask(self, original: Path, changes: Mapping[str, NewValue | None]) -> None:
        """Ask where the copy shall lie; then write it."""
        folder = self._desk.local.folder_for_copy(original)
        dialog = QFileDialog(self, "Save an edited copy", str(folder))
        dialog.setObjectName("copy_dialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)  # none is overwritten
        dialog.setNameFilters(["GGUF files (*.gguf)"])
        dialog.setDefaultSuffix("gguf")
        dialog.selectFile(f"{original.stem}-corrected.gguf")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        kept = dict(changes)
        dialog.fileSelected.connect(lambda path: self.write(original, Path(path), kept))
        dialog.open()

    def write(self, original: Path, target: Path, changes: Mapping[str, NewValue | None]) -> None:
        """Write the copy; the desk says how far it is, and how it ends."""
        if self.is_writing:
            return
        self._copy = Path()
        self.progress.setValue(0)
        self._job = self._desk.headers.write_copy(
            original,
            target,
            changes,
            on_progress=self._on_progress,
            then=self._on_written,
            failed=self._on_failed,
        )
        self.say(f"Saving “{target.name}”…")
        self.began.emit()

    def _cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()

    def _on_progress(self, done: int, total: int) -> None:
        if self.is_writing:
            self.progress.setValue(STEPS * done // max(1, total))
            self.words.setText(f"{bytes_words(done)} of {bytes_words(total)} saved.")

    def _on_written(self, path: Path) -> None:
        self._job, self._copy = None, path
        self._n_changes = 0
        self.written.emit()
        self.say(f"Copy saved: “{path}”.")
        self.ended.emit()

    def _on_failed(self, sentence: str) -> None:
        self._job = None
        self.say(sentence)
        self.ended.emit()
