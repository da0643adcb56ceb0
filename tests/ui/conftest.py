"""Fixtures of the frame's tests: a theme, a recording desk and its bridge, a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from own_look import kept_look
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from ui.look.theme import Theme

if TYPE_CHECKING:
    from ui.shell.window import MainWindow


@pytest.fixture(autouse=True)
def own_look(qapp: QApplication) -> Iterator[None]:
    """What a test makes of the application's look ends with it: sheet, font and colours."""
    with kept_look(qapp):
        yield


@pytest.fixture
def theme(qapp: object) -> Theme:
    return Theme("light")


@pytest.fixture
def bridge(qapp: object) -> FakeBridge:
    return FakeBridge()


@pytest.fixture
def desk(bridge: FakeBridge, tmp_path: Path) -> FakeDesk:
    return FakeDesk(bridge, tmp_path)


@pytest.fixture
def open_window(
    qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme
) -> Callable[..., MainWindow]:
    """Builds the window on the desk as it is by then, shows it and waits for it."""

    from ui.shell.window import MainWindow

    def build(width: int = 1180, height: int = 780) -> MainWindow:
        window = MainWindow(desk, bridge, theme)  # type: ignore[arg-type]
        qtbot.addWidget(window)
        window.resize(width, height)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        return window

    return build
