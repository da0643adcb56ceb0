"""Where a step or a term is alive: a widget of the window, brought on screen and found by name."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.chat.tour.chapters import Spot
from ui.shell.section_acts import SectionActs


class Spots:
    """Finds what a `Spot` names in this window."""

    def __init__(self, window: QWidget, section_acts: SectionActs) -> None:
        self._window = window
        self._section_acts = section_acts

    def show(self, spot: Spot) -> QWidget | None:
        """Open its panel and its room; then its widget, None where there is none now."""
        if spot.panel:
            self._section_acts.go_to(spot.panel, spot.room)
        else:
            self._section_acts.go_to_chat()
        return self.find(spot)

    def find(self, spot: Spot) -> QWidget | None:
        """The widget, if it is on screen; else what it stands in, as far as that is."""
        for name in (spot.widget, _card_of(spot), _panel_of(spot)):
            if not name:
                continue
            for found in self._window.findChildren(QWidget, name):
                if found.isVisible():
                    return found
        return None


def _card_of(spot: Spot) -> str:
    return f"inside_{spot.room}" if spot.panel == "Inside" and spot.room else ""


def _panel_of(spot: Spot) -> str:
    return f"panel_{spot.panel.lower()}" if spot.panel else ""
