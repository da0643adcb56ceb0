"""The menu beside the title: by the mouse alone, everything can be reached."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from ui.chat.header import ChatHeader
from ui.look.theme import Theme
from ui.shell.palette import Palette
from ui.shell.window import MainWindow


def clicked(window: MainWindow, title: str) -> list[str]:
    """Click the button, then the entry. The titles that were offered."""
    button = window.chat.header.menu_button
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    menu = button.menu()
    assert menu.isVisible()
    entry = next(each for each in menu.actions() if title_of(each) == title)
    at = menu.actionGeometry(entry).center()
    QTest.mouseMove(menu, at)
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=at)
    return [title_of(each) for each in menu.actions() if each.text()]


def title_of(action: QAction) -> str:
    return action.text().split("\t")[0]


def test_the_mouse_reaches_what_has_no_button(
    open_window: Callable[..., MainWindow], desk: FakeDesk
) -> None:
    seen = clicked(open_window(), "Zoom in")
    assert desk.called("settings.set")[-1][0] == "zoom_percent"
    assert {
        "Find in this chat",
        "Chat settings",
        "Branch map",
        "Presets",
        "Import chats…",
        "Undo the last delete or move",
    } <= set(seen)


def test_the_palette_opens_by_the_mouse_and_stays(
    open_window: Callable[..., MainWindow], qtbot: QtBot
) -> None:
    window = open_window()
    clicked(window, "Command palette")
    palette = window.findChild(Palette)
    assert palette is not None
    qtbot.waitUntil(lambda: palette.isVisible() and palette.field.hasFocus())


def test_before_the_window_is_whole_there_is_nothing_to_open(qtbot: QtBot, theme: Theme) -> None:
    header = ChatHeader(theme, lambda: ())
    qtbot.addWidget(header)
    assert not header.menu_button.isEnabled()
    assert header.menu_button.accessibleName() == "Menu"
