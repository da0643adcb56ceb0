"""The section's width in the whole window, as the zoom changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtWidgets import QTabBar

from ui.elided import PartsLabel
from ui.section.section import Section


@pytest.mark.parametrize("panel", ["Cache", "Prompt", "Time"])
def test_zooming_in_and_back_leaves_the_columns_as_they_were(
    open_window: Callable[..., Any], panel: str
) -> None:
    person = open_window({"load": {"ms": 5}, "replies": [{"text": "Paris."}]})
    person.wait_ready()
    person.window.resize(1440, 900)
    person.window.action_registry.run("toggle_section")
    section = person.wait(lambda: person.window.findChild(Section, "section"))
    person.wait(section.isVisible)
    tabs = person.find(QTabBar, "section_tabs")
    tabs.setCurrentIndex(next(i for i in range(tabs.count()) if tabs.tabText(i) == panel))
    person.send("Which city?")
    person.wait_ended()
    before = person.window.columns.sizes()
    lines = [each for each in section.panel().findChildren(PartsLabel) if each.isVisible()]
    heights = [line.height() for line in lines]
    theme = person.window.chat.transcript.theme
    for percent in (150, 250, 100):
        theme.set_zoom(percent)
        person.qtbot.wait(20)
    person.wait(lambda: person.window.columns.sizes() == before)
    person.wait(lambda: [line.height() for line in lines] == heights)
