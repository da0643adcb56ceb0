"""What can be done with several chosen chats, below the list while several are chosen."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label

_ACTS = (
    ("pin", "push-pin", "Pin the selected chats"),
    ("move", "folder", "Move the selected chats to a folder"),
    ("tag", "tag", "Tag the selected chats"),
    ("archive", "archive", "Archive the selected chats"),
    ("trash", "trash", "Move the selected chats to the trash"),
    ("done", "x", "Stop selecting"),
)


class BulkBar(QWidget):
    """`asked` carries the name of an act: pin, move, tag, archive, trash or done."""

    asked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bulk_bar")
        self.setAccessibleName("Selected chats")
        self._words = plain_label("", self, "small")
        self._row = QHBoxLayout(self)
        self._row.addWidget(self._words, 1)
        for name, icon_name, spoken in _ACTS:
            button = IconButton(theme, icon_name, spoken, parent=self)
            button.setObjectName(f"bulk_{name}_button")
            button.clicked.connect(lambda _=False, name=name: self.asked.emit(name))
            self._row.addWidget(button)
        theme.space(self._row, 0, margins=(8, 4, 10, 4))
        self.hide()

    def show_count(self, count: int, is_choosing: bool) -> None:
        """`is_choosing`: it stays, however few are chosen."""
        # The number alone: beside six buttons a narrow column has no room for more.
        self._words.setText(f"{count:,}")
        self._words.setToolTip(f"{count:,} chats selected")
        self._words.setAccessibleName(f"{count:,} chats selected")
        self.setVisible(is_choosing or count > 1)
