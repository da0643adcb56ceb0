"""A panel of several rooms, one of which is on screen.

A room is built when it is first entered, and only the one on screen follows anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from ui.section.away import PanelPlace
from ui.section.panel import Panel, Tools
from ui.section.segments import Segments

Room = tuple[str, Callable[[], type[Panel]]]
"""Its title, and what imports it."""


class RoomsPanel(Panel):
    """`spoken`: what one chooses between."""

    def __init__(
        self, tools: Tools, rooms: Sequence[Room], spoken: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(tools, parent)
        self._kinds = tuple(rooms)
        self._rooms: dict[int, Panel] = {}
        self._places: dict[int, PanelPlace] = {}
        self.rooms = Segments(tools.theme, [title for title, _ in rooms], spoken, self)
        self._stack = QStackedWidget(self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.rooms)
        self._column.addWidget(self._stack, 1)
        self.rooms.currentChanged.connect(lambda _: self._enter())
        tools.theme.space(self._column, 8)
        self._enter()

    def room(self) -> Panel:
        """The one on screen."""
        at = self.rooms.currentIndex()
        if at not in self._rooms:
            built = self._rooms[at] = self._kinds[at][1]()(self._tools, self)
            self._places[at] = PanelPlace(self._tools, built, self._stack)
            self._stack.addWidget(self._places[at])
        return self._rooms[at]

    def enter(self, title: str) -> Panel:
        """Go to a room by its title."""
        self.rooms.setCurrentIndex([name for name, _ in self._kinds].index(title))
        return self.room()

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        self.room()
        for at, place in self._places.items():
            place.set_active(is_active and at == self.rooms.currentIndex())

    def _enter(self) -> None:
        self.room()
        self._stack.setCurrentWidget(self._places[self.rooms.currentIndex()])
        self.set_active(self._is_active)
