"""A card of the panel *Inside*: it opens in place, and says why where it has nothing to show."""

from __future__ import annotations

from typing import ClassVar, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.chat.inspection.inside import Seen
from ui.section.card import Card, small_label
from ui.section.inside.rows import Picture
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.icon_button import IconButton

NOT_HERE: Final = "not in this model"


class InsideCard(Card):
    """Override `show_seen`, which is called while the card is open and on screen, whenever what
    is seen has changed and all of `needs` is there; and `show_figure`, whenever it has changed.
    `content` holds what is folded: add to `rows`. `wants`: what is asked for besides, from when the
    card is first opened. `help_words`: what stands behind “?”. `told`: labels about the token,
    which are empty while its arrays are on their way. `measured`: what was, for whoever asked.
    """

    measured = Signal(object)

    title_words: ClassVar[str] = ""
    name: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    wants: ClassVar[tuple[str, ...]] = ()
    help_words: ClassVar[str] = ""
    is_open_at_first: ClassVar[bool] = False

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools.theme, self.title_words, parent)
        self._tools = tools
        self.view = view
        self.told: list[QLabel] = []
        self.is_open = False
        self._is_active = False
        self.setObjectName(f"inside_{self.name}")
        self.fold_button = IconButton(tools.theme, "caret-right", self.title_words, parent=self)
        self.fold_button.setObjectName(f"inside_{self.name}_fold")
        tools.theme.size(self.fold_button, 20, 20)
        self.head.insertWidget(0, self.fold_button)
        self.content = QWidget(self)
        self.rows = QVBoxLayout(self.content)
        self.rows.setContentsMargins(0, 0, 0, 0)
        self.help_button = IconButton(
            tools.theme, "question", f"Explain: {self.title_words}", parent=self
        )
        self.help_button.setObjectName(f"inside_{self.name}_help_button")
        self.help_button.setCheckable(True)
        tools.theme.size(self.help_button, 20, 20)
        self.head.addWidget(self.help_button)
        self.help = small_label(self.help_words, self)
        self.help.setObjectName(f"inside_{self.name}_help")
        self.body.addWidget(self.help)
        self.reason = small_label("", self)
        self.reason.setObjectName(f"inside_{self.name}_reason")
        self.body.addWidget(self.content)
        self.body.addWidget(self.reason)
        tools.theme.space(self.rows, 6)
        self.fold_button.clicked.connect(lambda _=False: self.set_open(not self.is_open))
        self.help_button.toggled.connect(self._on_help)
        view.seen_changed.connect(self.refresh)
        tools.theme.changed.connect(self.refresh)
        self._fold()
        if self.is_open_at_first:
            self.set_open(True)

    # --- what a card is about -------------------------------------------------------------------

    @property
    def is_about_file(self) -> bool:
        """Whether it has something to show now, whatever token is looked at."""
        return False

    @property
    def lack(self) -> str:
        """Why it has nothing to show of any token of these weights; empty where it has."""
        lacks = self.view.lacks
        return next((lacks[name] for name in self.needs if name in lacks), "")

    def show_seen(self, seen: Seen) -> None: ...

    def show_figure(self, seen: Seen | None) -> None:
        self.figure.set_text("")  # of other weights it may have said that they have none

    def _on_help(self, is_asked: bool) -> None:
        self.help_button.set_lit(is_asked)
        if is_asked:
            self.set_open(True)
        self.help.setVisible(is_asked and self.is_open)

    # --- folding --------------------------------------------------------------------------------

    def set_open(self, is_open: bool) -> None:
        if is_open == self.is_open:
            return
        self.is_open = is_open
        self._fold()
        if is_open:
            self.view.want((*self.needs, *self.wants))
        self.refresh()

    def set_active(self, is_active: bool) -> None:
        """Whether the panel is on screen."""
        self._is_active = is_active
        self.refresh()

    def refresh(self) -> None:
        if not self._is_active:
            return
        seen = self.view.seen
        self.show_figure(seen)
        reason = self.lack if seen is None else self._reason(seen)
        is_there = seen is not None and not reason and all(map(seen.has, self.needs))
        for widget in (self.title, self.figure):
            widget.setEnabled(not reason)
        if reason:
            self.figure.set_text(NOT_HERE)
        self.reason.setText(reason)
        self.reason.setVisible(self.is_open and bool(reason))
        self.content.setVisible(self.is_open and not reason)
        for picture in self.content.findChildren(Picture):
            picture.set_pending(not is_there)
        for label in () if is_there else self.told:
            label.setText("")
        if self.is_open and is_there and seen is not None:
            self.show_seen(seen)

    def _reason(self, seen: Seen) -> str:
        """Why the first of what it needs is not there; empty where all of it is, or may come."""
        lacking = (
            name for name in self.needs if name in seen.missing and not _is_there(seen, name)
        )
        return next((seen.missing[name] for name in lacking), "")

    def _fold(self) -> None:
        self.content.setVisible(self.is_open)
        self.title.set_marked(self.is_open)  # a click on the title of a closed card opens it
        self.reason.setVisible(False)
        self.help_button.setVisible(self.is_open and bool(self.help_words))
        self.help.setVisible(self.is_open and self.help_button.isChecked())
        self.fold_button.show_icon("caret-down" if self.is_open else "caret-right")
        verb = "Close" if self.is_open else "Open"
        self.fold_button.setAccessibleName(f"{verb}: {self.title_words}")
        self.fold_button.setToolTip(f"{verb} this card")

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click on its head folds it."""
        super().mouseReleaseEvent(event)
        head = self.head.geometry()
        if event.button() == Qt.MouseButton.LeftButton and head.contains(
            event.position().toPoint()
        ):
            self.set_open(not self.is_open)


def _is_there(seen: Seen, name: str) -> bool:
    return ("lens_ids" if name == "lens" else name) in seen.arrays
