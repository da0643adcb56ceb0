"""What binds every draw whatever the chain says: lengths, end tokens, banned texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.chat.settings.resolved import Resolved
from app.chat.settings.settings import checked
from app.engine.protocol.stage_rules import MAX_MIN_TOKENS
from app.refusal import Refusal
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.sampling.stage_words import LEVELS
from ui.section.switch import Switch
from ui.section.term_label import term_label
from ui.settings.fields import LinesField
from ui.widgets.kit import plain_label

NAMES: Final = ("min_tokens", "ban_end_token", "banned_strings")
_FIELD_PX: Final = 64


class DrawRulesCard(QFrame):
    """`changed(name, value)`: a value that can be used."""

    changed = Signal(str, object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._refused: dict[str, str] = {}
        self._least = 0
        self.setProperty("plane", "card")
        self.setObjectName("draw_rules")
        self.setAccessibleName("Rules for every token")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.title = term_label("Rules for every token", self, "strong")
        self.least = DragNumber(is_whole=True, step=8, bounds=(0, MAX_MIN_TOKENS), parent=self)
        self.least.setObjectName("value_min_tokens")
        self.least.setAccessibleName("Minimum tokens before the reply can end")
        self.ban_end = Switch(theme, "Ban end tokens: the reply continues past its end", self)
        self.ban_end.setObjectName("value_ban_end_token")
        self.banned = LinesField("None (one text per line)", self)
        self.banned.setObjectName("value_banned_strings")
        self.banned.setAccessibleName("Banned texts, one per line")
        self.banned.setToolTip(
            "When one appears, generation goes back to the token where it started and draws "
            "another."
        )
        self.refusal = plain_label("", self, "refusal", name="refusal_label", wraps=True)
        self.refusal.hide()
        self.away = plain_label("", self, "caution", name="away_label", wraps=True)
        self.away.hide()
        self.whence = _small("", self)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.title)
        self._add("At least", self.least, "tokens before the reply can end")
        self._add("Ban end tokens", self.ban_end, "")
        self._column.addWidget(_small("Banned texts", self))
        self._column.addWidget(self.banned)
        self._column.addWidget(self.away)
        self._column.addWidget(self.whence)
        self._column.addWidget(self.refusal)
        self.least.changed_by_user.connect(partial(self._on_value, "min_tokens"))
        self.least.taken_back.connect(self._take_back)
        self.ban_end.clicked.connect(lambda is_on: self._on_value("ban_end_token", is_on))
        self.banned.changed_by_user.connect(partial(self._on_value, "banned_strings"))
        theme.space(self._column, 6, margins=(12, 10))
        theme.size(self.banned, height=56)
        theme.keep(self.least, DragNumber.set_least_width, _FIELD_PX)

    def _add(self, before: str, control: QWidget, after: str) -> None:
        row = QHBoxLayout()
        self._theme.space(row, 6)
        row.addWidget(_small(before, self))
        row.addWidget(control)
        row.addWidget(_small(after, self), 1)
        self._column.addLayout(row)

    def show_settings(self, resolved: Resolved) -> None:
        settings = resolved.settings
        self._least = settings.min_tokens
        shows: tuple[tuple[str, Callable[[Any], None], object], ...] = (
            ("min_tokens", self.least.show_value, settings.min_tokens),
            ("ban_end_token", self.ban_end.setChecked, settings.ban_end_token),
            ("banned_strings", self.banned.show_value, settings.banned_strings),
        )
        for name, show, value in shows:
            if name not in self._refused:
                show(value)
        levels = {resolved.level_of(name) for name in NAMES}
        words = " and ".join(words for level, words in LEVELS.items() if level in levels)
        idle = settings.ban_end_token and settings.min_tokens > 0
        self.whence.setText(
            ("End tokens are banned, so the minimum length has no effect. " * idle)
            + f"Set by {words}."
        )

    def show_away(self, whys: Mapping[str, str]) -> None:
        """By setting, why the engine does not take it; empty: it does."""
        for name, control in (
            ("min_tokens", self.least),
            ("ban_end_token", self.ban_end),
            ("banned_strings", self.banned),
        ):
            control.setEnabled(not whys.get(name))
        self.away.setText(" ".join(dict.fromkeys(why for why in whys.values() if why)))
        self.away.setVisible(bool(self.away.text()))

    def _on_value(self, name: str, value: object) -> None:
        try:
            usable = checked(name, value)
        except Refusal as refused:
            self._refused[name] = refused.sentence
        else:
            self._refused.pop(name, None)
            self.changed.emit(name, usable)
        self._show_refusal()

    def _take_back(self) -> None:
        self._refused.pop("min_tokens", None)
        self.least.show_value(self._least)
        self._show_refusal()

    def _show_refusal(self) -> None:
        self.least.show_refused("min_tokens" in self._refused)
        self.refusal.setText(" ".join(self._refused.values()))
        self.refusal.setVisible(bool(self._refused))


def _small(text: str, parent: QWidget) -> QLabel:
    label = term_label(text, parent, "small")
    label.setWordWrap(len(text) > 20 or not text)
    return label
