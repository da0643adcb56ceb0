"""The engines in the settings: this computer, and the servers that were entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget

from app.chat.engines.engines import Standing
from ui.look.theme import Theme
from ui.settings.engine_dialog import EngineDialog
from ui.settings.engine_words import can_words, cannot_lines, key_words, model_lines, state_words
from ui.shell.tab_order import put_in_order, stops_in
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk


class EngineRow(QFrame):
    """One server: what it is, whether it answers, and what it can when that is wished for."""

    def __init__(self, desk: Desk, theme: Theme, engine_id: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self.engine_id = engine_id
        self._standing: Standing | None = None
        self.setObjectName("engine_row")
        self.name = plain_label("", self, "strong", wraps=True)
        self.state = plain_label("", self, "small", name="engine_state", wraps=True)
        self.sentence = plain_label("", self, "refusal", name="engine_trouble", wraps=True)
        self.note = plain_label("", self, "small", name="engine_key_note", wraps=True)
        self.offers = plain_label("", self, "small", name="engine_offers", wraps=True)
        flags = Qt.TextInteractionFlag
        self.offers.setTextInteractionFlags(flags.TextSelectableByMouse)
        self.try_button = self._button("Try", "try_engine_button", self._try)
        self.more_button = self._button("What it offers", "engine_offers_button", self._settle)
        self.more_button.setCheckable(True)
        self.change_button = self._button("Change…", "change_engine_button", self._change)
        self.forget_button = self._button("Remove key", "forget_engine_key_button", self._forget)
        self.remove_button = self._button("Remove", "remove_engine_button", self._remove)
        self._buttons = FlowLayout()
        for button in (
            self.try_button,
            self.more_button,
            self.change_button,
            self.forget_button,
            self.remove_button,
        ):
            self._buttons.addWidget(button)
        column = QVBoxLayout(self)
        for label in (self.name, self.state, self.sentence, self.note):
            column.addWidget(label)
        column.addLayout(self._buttons)
        column.addWidget(self.offers)
        theme.space(column, 4, margins=0)
        theme.space(self._buttons, 6)

    def _button(self, text: str, name: str, act: Callable[[], None]) -> QPushButton:
        return push_button(text, self, name, kind="compact", act=lambda _=False: act())

    def show_standing(self, standing: Standing) -> None:
        self._standing = standing
        name, offer = standing.address.name, standing.offer
        self.name.setText(name)
        self.setAccessibleName(name)
        parts = (state_words(standing), standing.address.url, key_words(standing))
        self.state.setText(" · ".join(parts))
        for label, sentence in (
            (self.sentence, standing.sentence),
            (self.note, standing.key_note),
        ):
            label.setText(sentence)
            label.setVisible(bool(sentence))
        self.try_button.setEnabled(not standing.is_asking)
        self.more_button.setVisible(offer is not None)
        self.forget_button.setVisible(standing.key != "none")
        for button, words in (
            (self.try_button, "Try"),
            (self.more_button, "What it offers:"),
            (self.change_button, "Change"),
            (self.forget_button, "Remove the key of"),
            (self.remove_button, "Remove"),
        ):
            button.setAccessibleName(f"{words} {name}")
        self._settle()

    def _settle(self) -> None:
        offer = self._standing.offer if self._standing is not None else None
        is_open = offer is not None and self.more_button.isChecked()
        self.offers.setVisible(is_open)
        if offer is not None and is_open:
            lines = [*model_lines(offer), can_words(offer), *cannot_lines(offer), *offer.notes]
            self.offers.setText("\n".join(line for line in lines if line))

    def _try(self) -> None:
        self._desk.engines.try_now(self.engine_id)

    def _change(self) -> None:
        EngineDialog(self._desk, self._theme, self._standing, self.window()).open()

    def _forget(self) -> None:
        self._desk.engines.forget_key(self.engine_id)

    def _remove(self) -> None:
        self._desk.engines.remove(self.engine_id)


class EngineRows(QWidget):
    """Follows the list while it exists."""

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self.setObjectName("engine_rows")
        self.setAccessibleName("Engines")
        self.rows: dict[str, EngineRow] = {}
        self.add_button = push_button(
            "Add an engine…", self, "add_engine_button", spoken="Add an engine", act=self.add
        )
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.add_button, 0, Qt.AlignmentFlag.AlignLeft)
        theme.space(self._column, 14, margins=0)
        self.destroyed.connect(desk.engines.follow(self._show))
        self._show()

    def add(self) -> None:
        EngineDialog(self._desk, self._theme, None, self.window()).open()

    def _show(self) -> None:
        standings = {each.address.id: each for each in self._desk.engines.all}
        has_changed = list(standings) != list(self.rows)
        for engine_id in [each for each in self.rows if each not in standings]:
            row = self.rows.pop(engine_id)
            if row.isAncestorOf(self.focusWidget() or self):
                self.add_button.setFocus()
            self._column.removeWidget(row)
            row.deleteLater()
        for place, (engine_id, standing) in enumerate(standings.items()):
            row_here = self.rows.get(engine_id)
            if row_here is None:
                row_here = EngineRow(self._desk, self._theme, engine_id, self)
                self._column.insertWidget(place, row_here)
                row_here.show()
            self.rows[engine_id] = row_here
            row_here.show_standing(standing)
        self.rows = {each: self.rows[each] for each in standings}
        if has_changed:
            stops = [stop for row in self.rows.values() for stop in stops_in(row)]
            put_in_order([*stops, self.add_button], self.add_button)
