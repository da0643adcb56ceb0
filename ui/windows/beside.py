"""What every window beside the main one is: a plane of its own that closing hides."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme


class WindowBeside(QWidget):
    """`keys` close it; `come_forward` brings it back."""

    def __init__(
        self,
        theme: Theme,
        name: str,
        title: str = "",
        parent: QWidget | None = None,
        *,
        spoken: str = "",
        keys: Iterable[str] = ("Esc", "Ctrl+W"),
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._theme = theme
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAccessibleName(spoken or title)
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        for key in keys:
            QShortcut(QKeySequence(key), self, self.close)

    def come_forward(self, focus: QWidget | None = None) -> None:
        """`focus`: where the keyboard is then."""
        self.show()
        self.raise_()
        self.activateWindow()
        if focus is not None:
            focus.setFocus(Qt.FocusReason.ActiveWindowFocusReason)
