"""The glossary of a window: a term that is clicked has its entry beside it, all are in a list.

Built when a term is first asked for. `ask` answers `TermAsked`, from this window or one beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QPoint
from PySide6.QtWidgets import QWidget

from app.chat.tour.chapters import Term
from ui.look.theme import Theme
from ui.section.panel_terms import terms_of
from ui.section.term_label import TermAsked
from ui.tour.glossary_card import GlossaryCard
from ui.tour.showing import Showing
from ui.windows.glossary_window import GlossaryWindow

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from ui.shell.section_acts import SectionActs

OF_PANEL: Final = "{} panel"


class Glossary(QObject):
    def __init__(
        self, window: QWidget, desk: Desk, theme: Theme, section_acts: SectionActs
    ) -> None:
        super().__init__(window)
        self._main = window
        self._theme = theme
        self._section_acts = section_acts
        self._showing = Showing(window, desk, theme, section_acts)
        self._showing.ended.connect(self._on_ended)
        self._by: GlossaryCard | GlossaryWindow | None = None
        self.card: GlossaryCard | None = None
        self.window: GlossaryWindow | None = None

    # --- one term -------------------------------------------------------------------------------

    def ask(self, asked: TermAsked) -> None:
        """The entry beside the word; in the glossary's own window it is chosen there."""
        host = asked.widget.window()
        if self.window is not None and host is self.window:
            self.window.choose(asked.term)
            return
        card = self._card_in(host)
        if card.isAncestorOf(asked.widget):
            card.show_term(asked.term)
        else:
            corner = asked.widget.mapTo(host, QPoint())
            card.show_term(asked.term, asked.place.translated(corner))

    def _card_in(self, host: QWidget) -> GlossaryCard:
        if self.card is None or self.card.parentWidget() is not host:
            if self.card is not None:
                self.card.hide()
                self.card.deleteLater()
            card = self.card = GlossaryCard(self._theme, host)
            card.show_wanted.connect(lambda term: self._show_live(term, card))
            card.all_wanted.connect(self.open)
            card.destroyed.connect(lambda _=None: self._forget(card))
        return self.card

    def _forget(self, card: GlossaryCard) -> None:
        """With the window that it stood in."""
        if self.card is card:
            self.card = None

    # --- all of them ----------------------------------------------------------------------------

    def open(self, term: Term | None = None) -> None:
        self._window().open(term)

    def explain_panel(self) -> None:
        """The terms of the panel on screen; all where there is none."""
        panel = self._section_acts.panel_on_screen()
        some = () if panel is None else terms_of(panel)
        title = OF_PANEL.format(panel.title) if panel is not None else ""
        self._window().open(some=some, title=title)

    def _window(self) -> GlossaryWindow:
        if self.window is None:
            self.window = GlossaryWindow(self._theme, self._main)
            window = self.window
            window.show_wanted.connect(lambda term: self._show_live(term, window))
        return self.window

    def close(self) -> None:
        if self.window is not None:
            self.window.close()

    # --- the live thing -------------------------------------------------------------------------

    def _show_live(self, term: Term, by: GlossaryCard | GlossaryWindow) -> None:
        self._by = by
        if by.window() is not self._main:
            self._main.raise_()
            self._main.activateWindow()
        self._showing.show(term)

    def _on_ended(self, sentence: str) -> None:
        by, self._by = self._by, None
        if by is None:
            return
        if sentence:
            by.say(sentence)
        elif isinstance(by, GlossaryCard):
            by.hide()  # the keyboard is in the panel that was opened
