"""A button that opened a menu looks hovered only while the pointer is on it.

Qt tells a button that the pointer left it only if the pointer goes out while no menu has it.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QAbstractButton, QMenu


def let_go_after(menu: QMenu, button: QAbstractButton) -> None:
    def look() -> None:
        is_there = button.rect().contains(button.mapFromGlobal(QCursor.pos()))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, is_there)
        button.update()

    menu.aboutToHide.connect(look)
