"""“Show me”: the live thing of a term, brought on screen and outlined; or what to do first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.tour.chapters import Term
from ui.look.theme import Theme
from ui.tour.outline import Outline
from ui.tour.spots import Spots, bring_into_view

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from ui.shell.section_acts import SectionActs

LOOK_MS: Final = 50
MARGIN_PX: Final = 8
PATIENCE_MS: Final = 2000
"""So long a panel has for what it reads."""
NEEDS_MODEL: Final = "Load a model to see it live."
NEEDS_REPLY: Final = "Send a message to see it live: it is part of a reply."
NOT_NOW: Final = "This model or reply has nothing to show of it. Try another one."
_OF_NO_TOKEN: Final = frozenset(("", "Cache", "Prompt"))


class Showing(QObject):
    """`ended`: with what to do first; empty where the thing is outlined."""

    ended = Signal(str)

    def __init__(
        self,
        window: QWidget,
        desk: Desk,
        theme: Theme,
        section_acts: SectionActs,
    ) -> None:
        super().__init__(window)
        self._desk = desk
        self._theme = theme
        self._section_acts = section_acts
        self._spots = Spots(window, section_acts)
        self._term: Term | None = None
        self._left_ms = 0
        self._outline: Outline | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)

    def show(self, term: Term) -> None:
        """Open its panel. What isn't on screen yet is waited for."""
        self._term, self._left_ms = term, PATIENCE_MS
        self._spots.show(term.show)
        self._timer.start()
        self._look()

    def stop(self) -> None:
        self._timer.stop()
        self._term = None

    def _look(self) -> None:
        term = self._term
        if term is None:
            return
        self._choose_token(term)
        live = self._spots.live(term.show)
        is_there = live is not None
        found = live or self._spots.find(term.show)
        self._left_ms -= LOOK_MS
        if not is_there and self._left_ms > 0 and self._may_come():
            return
        self.stop()
        if found is not None:
            QTimer.singleShot(0, found, lambda: self._outline_it(found))
        self.ended.emit("" if is_there else self._what_to_do(term))

    def _choose_token(self, term: Term) -> None:
        """Panels about a token show nothing before one is chosen."""
        if term.show.panel in _OF_NO_TOKEN:
            return
        looking = self._section_acts.looking()
        if looking.index is None and not looking.aside and len(looking.traces):
            looking.select(0)

    def _may_come(self) -> bool:
        looking = self._section_acts.looking()
        return self._desk.loader.state.loaded is not None or looking.message is not None

    def _what_to_do(self, term: Term) -> str:
        looking = self._section_acts.looking()
        has_reply = len(looking.traces) > 0
        if term.otherwise:
            return term.otherwise
        if self._desk.loader.state.loaded is None and not has_reply:
            return NEEDS_MODEL
        return NOT_NOW if has_reply else NEEDS_REPLY

    def _outline_it(self, widget: QWidget) -> None:
        """After the panel has laid out what it opened."""
        if self._outline is not None and isValid(self._outline):
            self._outline.close_()
        bring_into_view(widget, self._theme.px(MARGIN_PX))
        self._outline = Outline(self._theme, widget)
