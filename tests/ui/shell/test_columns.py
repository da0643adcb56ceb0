"""Chat list and chat side by side: where the list goes, writing goes on."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QApplication, QPushButton

from ui.look.theme import Theme
from ui.shell.window import MainWindow


def test_a_list_that_goes_with_the_focus_leaves_it_to_the_composer(
    open_window: Callable[..., MainWindow], theme: Theme
) -> None:
    window = open_window()
    settings = window.sidebar.findChild(QPushButton, "settings_button")
    assert settings is not None
    settings.setFocus()
    theme.set_zoom(300)
    assert not window.sidebar.isVisible()
    focus = QApplication.focusWidget()
    assert focus is not None
    assert window.chat.composer.isAncestorOf(focus), focus
