"""The section's width in the whole window: as the zoom changes, and from start to start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QTabBar

from ui.section.section import Section
from ui.widgets.elided import PartsLabel


@pytest.mark.parametrize(
    "panel", ["Cache", *(pytest.param(name, marks=pytest.mark.soak) for name in ("Prompt", "Time"))]
)
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


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_width_that_was_dragged_is_there_at_each_later_start(
    open_window: Callable[..., Any], data_dir: Path, is_remembered: bool
) -> None:
    """Also where what is kept for the first paint does not know it, as that of an older version."""
    person = open_window({})
    person.wait_ready()
    person.window.resize(1440, 900)
    person.window.action_registry.run("panel_cache")
    person.window.columns.moveSplitter(person.window.columns.width() - 520, 2)
    wide = person.find(Section, "section").width()
    assert abs(wide - 520) <= 2
    person.wait(lambda: person.app.desk.settings.now.section_width == wide)
    person.app.close()
    for start in (1, 2):
        if not is_remembered:
            path = data_dir / "first-look.json"
            look = json.loads(path.read_text())
            del look["section_width"]
            path.write_text(json.dumps(look))
        person = open_window({})
        person.wait_ready()
        person.wait(lambda p=person: p.window.findChild(Section, "section"))
        before = person.app.desk.settings.now.window_geometry
        person.window.resize(1440 + start, 900)  # offscreen, the screen is smaller than that
        section = person.find(Section, "section")
        assert section.width() == wide
        assert section.panel().objectName() == "panel_cache"
        # And so it is saved again, with the window's place.
        person.wait(lambda p=person, b=before: p.app.desk.settings.now.window_geometry != b)
        assert person.app.desk.settings.now.section_width == wide
        person.app.close()
