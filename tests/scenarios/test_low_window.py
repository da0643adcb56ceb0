"""A low window, at every zoom: no panel is squeezed, and nothing in one is laid over another."""

from __future__ import annotations

from typing import Any

import pytest
from squeezed import squeezed

from ui.section.kinds import KINDS
from ui.section.panel import Panel
from ui.section.rooms import RoomsPanel

SCRIPT = {"load": {"ms": 5}, "replies": [{"text": "Paris, of course. It is so for long.", "ms": 1}]}


@pytest.mark.parametrize(
    "zoom", [300, *(pytest.param(each, marks=pytest.mark.soak) for each in (100, 200))]
)
def test_no_panel_is_squeezed(open_window: Any, zoom: int) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    person.app.desk.settings.set("zoom_percent", zoom)
    person.window.resize(900, 600)
    person.window.action_registry.run("toggle_section")
    section = person.window.section_acts.section()
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces))
    looking.select(1)

    def is_whole(panel: Panel) -> bool:
        assert squeezed(panel) == []
        return True

    for kind in KINDS:
        section.show_panel(kind.title)
        panel = section.panel()
        assert panel is not None
        assert panel.isVisible()
        for at in range(panel.rooms.count()) if isinstance(panel, RoomsPanel) else (0,):
            if isinstance(panel, RoomsPanel):
                panel.rooms.setCurrentIndex(at)
            person.qtbot.waitUntil(lambda panel=panel: is_whole(panel), timeout=5000)
