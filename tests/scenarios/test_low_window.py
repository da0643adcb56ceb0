"""A low window, at every zoom: no panel is squeezed, and nothing in one is laid over another."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QWidget

from ui.section.kinds import KINDS
from ui.section.panel import Panel
from ui.section.rooms import RoomsPanel

SCRIPT = {"load": {"ms": 5}, "replies": [{"text": "Paris, of course. It is so for long.", "ms": 1}]}


def least(widget: QWidget) -> int:
    """The height without which it is cut, at the width that it has."""
    if widget.minimumHeight():
        return widget.minimumHeight()
    layout = widget.layout()
    if layout is not None and layout.hasHeightForWidth():
        return layout.totalMinimumHeightForWidth(widget.width())
    if isinstance(widget, QLabel) and widget.hasHeightForWidth():
        return widget.heightForWidth(widget.width())
    return widget.minimumSizeHint().height()


def squeezed(panel: QWidget) -> list[str]:
    """What is lower than it has to be, and what is laid over another."""
    found: list[str] = []
    for parent in (panel, *panel.findChildren(QWidget)):
        if parent.layout() is None or not parent.isVisible():
            continue
        inside = [w for w in parent.children() if isinstance(w, QWidget) and w.isVisible()]
        inside = [w for w in inside if parent.layout().indexOf(w) >= 0]
        found += [
            f"{widget.objectName() or widget} is lower than {least(widget)}"
            for widget in inside
            if widget.height() < least(widget)
        ]
        found += [
            f"{one.objectName() or one} over {other.objectName() or other}"
            for one, other in combinations(inside, 2)
            if not one.geometry().intersected(other.geometry()).isEmpty()
        ]
    return found


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_no_panel_is_squeezed(open_window: Any, zoom: int) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    person.app.desk.set_setting("zoom_percent", zoom)
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
