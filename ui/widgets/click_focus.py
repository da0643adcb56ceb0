"""Buttons beside a field of text: a click by mouse leaves the keyboard to the field.

Whoever clicks such a button goes on writing, and a space would press it once more. By keyboard the
button is reached with Tab and keeps the focus when it is pressed.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton


def leave_focus(*buttons: QAbstractButton, to: Callable[[], object] | None = None) -> None:
    """A click gives these buttons no focus; `to` is called behind each, to go on writing. Call it
    when their acts are connected."""
    for button in buttons:
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        if to is not None:
            button.clicked.connect(_unless_by_keyboard(button, to))


def _unless_by_keyboard(button: QAbstractButton, to: Callable[[], object]) -> Callable[[], None]:
    def go_on() -> None:
        if not button.hasFocus():
            to()

    return go_on
