"""How far an import is, or a page that is saved, with a way to give it up. Shown where it takes
longer than a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

WIDTH_PX = 380


@dataclass(frozen=True, slots=True)
class Work:
    """What is on its way. `far` has two places: how much is done, of how much (if it is known)."""

    name: str
    title: str
    bar: str
    far: str
    cancel: str
    does: str
    undoing: str


IMPORT: Final = Work(
    "import",
    "Importing chats",
    "Messages imported",
    "{:,} of {:,} messages",
    "Cancel the import",
    "Cancel the import without adding anything",
    "Undoing the import…",
)
LOOK: Final = Work(
    "import_look",
    "Reading what to import",
    "Reading",
    "{:,} chats found so far",
    "Cancel",
    "Cancel without importing anything",
    "Cancelling…",
)
PAGE: Final = Work(
    "page",
    "Saving the tour as a page",
    "Questions answered",
    "Looking inside: {:,} of {:,}",
    "Cancel",
    "Cancel without saving anything",
    "Cancelling…",
)
EXPORTS: Final = {
    unit: Work(
        "export",
        "Exporting chats",
        f"{unit.capitalize()} exported",
        f"{{:,}} of {{:,}} {unit}",
        "Cancel the export",
        "Cancel the export; files that are whole stay",
        "Cancelling the export…",
    )
    for unit in ("messages", "chats")
}


class Progress(QDialog):
    """Beside the window, which goes on. Closing it is no cancelling: the work goes on too."""

    cancelled = Signal()

    def __init__(self, theme: Theme, work: Work, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._work = work
        self.setObjectName(f"{work.name}_progress")
        self.setWindowTitle(work.title)
        self.setAccessibleName(work.title)
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)  # somebody may be typing
        self.words = plain_label("", self, name=f"{work.name}_words")
        self.bar = QProgressBar(self)
        self.bar.setObjectName(f"{work.name}_bar")
        self.bar.setAccessibleName(work.bar)
        self.bar.setTextVisible(False)
        self.cancel = push_button(
            work.cancel,
            self,
            f"cancel_{work.name}_button",
            spoken=work.does,
            act=self._on_cancel,
        )
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.cancel)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.words)
        self._column.addWidget(self.bar)
        self._column.addLayout(row)
        theme.space(self._column, 10, margins=(20, 16))
        theme.at_least(self, WIDTH_PX)

    def show_progress(self, done: int, total: int) -> None:
        self.words.setText(self._work.far.format(done, total))
        self.bar.setRange(0, total)  # without a total it is only busy
        self.bar.setValue(done)

    def _on_cancel(self) -> None:
        self.cancel.setEnabled(False)
        self.words.setText(self._work.undoing)
        self.cancelled.emit()
