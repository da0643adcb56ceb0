"""A panel of rooms: each built when it is entered, one at a time following."""

from __future__ import annotations

from typing import ClassVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ui.section.panel import Panel, Tools
from ui.section.rooms import RoomsPanel

BUILT: list[str] = []


class First(Panel):
    name: ClassVar[str] = "first"

    def __init__(self, tools: Tools, parent: object = None) -> None:
        super().__init__(tools, parent)  # type: ignore[arg-type]
        self.n_followed = 0
        BUILT.append(self.name)

    def _refresh_token(self) -> None:
        self.n_followed += 1


class Second(First):
    name: ClassVar[str] = "second"


@pytest.fixture
def panel(qtbot: QtBot, tools: Tools) -> RoomsPanel:
    BUILT.clear()
    rooms = [("One", lambda: First), ("Two", lambda: Second)]
    panel = RoomsPanel(tools, rooms, "Rooms")
    qtbot.addWidget(panel)
    panel.show()
    panel.set_active(True)
    return panel


def test_a_room_is_built_when_it_is_entered(panel: RoomsPanel) -> None:
    assert BUILT == ["first"]
    first = panel.room()
    panel.rooms.setFocus()
    QTest.keyClick(panel.rooms, Qt.Key.Key_Right)
    assert BUILT == ["first", "second"]
    assert panel.room().isVisible()
    assert not first.isVisible()
    assert panel.enter("One") is first
    assert BUILT == ["first", "second"]


def test_only_the_room_on_screen_follows(panel: RoomsPanel, tools: Tools) -> None:
    first, second = panel.room(), panel.enter("Two")
    assert isinstance(first, First)
    assert isinstance(second, First)
    before = first.n_followed, second.n_followed
    tools.looking.token_changed.emit()
    assert (first.n_followed, second.n_followed) == (before[0], before[1] + 1)
    panel.set_active(False)
    tools.looking.token_changed.emit()
    assert second.n_followed == before[1] + 1
