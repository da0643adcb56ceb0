"""Where a step or a term is alive: a widget of the window, brought on screen and found by name."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QWidget

from app.chat.tour.chapters import Spot
from ui.chat.header import ELSE_IN
from ui.shell.section_acts import SectionActs


class Spots:
    """Finds what a `Spot` names in this window."""

    def __init__(self, window: QWidget, section_acts: SectionActs) -> None:
        self._window = window
        self._section_acts = section_acts

    def show(self, spot: Spot) -> QWidget | None:
        """Open its panel and its room, or the chat; then its widget, None where there is none."""
        if spot.panel:
            self._section_acts.go_to(spot.panel, spot.room)
        else:
            self._section_acts.go_to_chat()
        return self.find(spot)

    def live(self, spot: Spot) -> QWidget | None:
        """The widget, if it is on screen, or what leads to it where there is no room for it."""
        return _on_screen([*self._named(spot.widget), *self._leading(spot)])

    def find(self, spot: Spot) -> QWidget | None:
        """The same; else what it stands in, as far as that is on screen."""
        return self.live(spot) or _on_screen(self._around(spot))

    def built(self, spot: Spot) -> QWidget | None:
        """The widget or what it stands in, also while it isn't on screen."""
        return next(iter((*self._named(spot.widget), *self._around(spot))), None)

    def _named(self, name: str) -> list[QWidget]:
        return self._window.findChildren(QWidget, name) if name else []

    def _leading(self, spot: Spot) -> list[QWidget]:
        ways = [each.property(ELSE_IN) for each in self._named(spot.widget)]
        return [each for way in ways if way for each in self._named(way)]

    def _around(self, spot: Spot) -> list[QWidget]:
        return [*self._named(_card_of(spot)), *self._named(_panel_of(spot))]


def _on_screen(widgets: list[QWidget]) -> QWidget | None:
    return next((each for each in widgets if each.isVisible()), None)


def take_keyboard(widget: QWidget) -> None:
    """It has it, or the first in it that can."""
    for each in (widget, *widget.findChildren(QWidget)):
        if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.isVisible() and each.isEnabled():
            each.setFocus(Qt.FocusReason.OtherFocusReason)
            return


def bring_into_view(widget: QWidget, margin: int) -> None:
    """Scroll what it stands in so that it is seen, or as much of it as there is room for, from its
    top on."""
    area = widget.parentWidget()
    while area is not None:
        inner = area.widget() if isinstance(area, QScrollArea) else None
        if isinstance(area, QScrollArea) and inner is not None and inner.isAncestorOf(widget):
            bar, page = area.verticalScrollBar(), area.viewport().height()
            top = widget.mapTo(inner, widget.rect().topLeft()).y() - margin
            bottom = top + widget.height() + 2 * margin
            if top < bar.value() or bottom - top > page:
                bar.setValue(top)
            elif bottom > bar.value() + page:
                bar.setValue(bottom - page)
        area = area.parentWidget()


def panel_around(widget: QWidget, spot: Spot) -> QWidget:
    """The panel in which it stands; itself, where it is in none."""
    outer: QWidget | None = widget
    while outer is not None and outer.objectName() != _panel_of(spot):
        outer = outer.parentWidget()
    return widget if outer is None or not spot.panel else outer


def _card_of(spot: Spot) -> str:
    return f"inside_{spot.room}" if spot.panel == "Inside" and spot.room else ""


def _panel_of(spot: Spot) -> str:
    return f"panel_{spot.panel.lower()}" if spot.panel else "chat_column"
