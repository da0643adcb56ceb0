"""What the window itself can do, by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from recording_desk import FakeDesk

from ui.shell.window import MainWindow


@pytest.mark.parametrize("mode", ["light", "dark", "system"])
def test_the_theme_is_chosen_by_name(
    open_window: Callable[..., MainWindow], desk: FakeDesk, mode: str
) -> None:
    desk.settings.set("theme", "light" if mode == "dark" else "dark")
    window = open_window()
    window.action_registry.run(f"theme_{mode}")
    assert desk.settings.now.theme == mode
    desk.calls.clear()
    window.action_registry.run(f"theme_{mode}")
    assert desk.called("settings.set") == [], "it is so already"


@pytest.mark.parametrize("is_maximized", [False, True])
def test_the_key_of_the_platform_fills_the_screen_and_gives_the_window_back(
    open_window: Callable[..., MainWindow], is_maximized: bool
) -> None:
    window = open_window()
    if is_maximized:
        window.showMaximized()
    field, menu = window.focusWidget(), window.chat.header.menu_button.menu()
    assert field is not None
    for is_full in (True, False):
        QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.FullScreen))
        assert window.isFullScreen() is is_full
        menu.aboutToShow.emit()
        entry = next(each for each in menu.actions() if each.text().startswith("Full screen"))
        assert entry.isChecked() is is_full
    assert window.isMaximized() is is_maximized


def test_f11_fills_the_screen(open_window: Callable[..., MainWindow]) -> None:
    """What the platform gives where nobody knows its theme."""
    window = open_window()
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_F11)
    assert window.isFullScreen()
