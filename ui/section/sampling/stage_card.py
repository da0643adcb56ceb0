"""One stage of the sampling chain as a card: its values, what it does, and what it did.

A value that cannot be used gets its sentence under the fields and stays as it was typed; the
chain goes on with the last one that could.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

import msgspec
from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QKeySequence, QMouseEvent, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QMenu,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.settings.not_taken import NotTaken
from app.chat.settings.sampler_links import Link
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import RULES, check_stage
from app.engine.protocol.stages import Dry, LogitBias, Stage
from app.engine.protocol.without_effect import NEUTRAL
from app.strict_reading import snake
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.sampling.bias_editor import BiasEditor, Tokenize
from ui.section.sampling.evidence_view import EvidenceView
from ui.section.sampling.stage_words import LEVELS, Value, words_of
from ui.section.switch import Switch
from ui.section.term_label import ElidedTermLabel, term_label
from ui.settings.fields import LinesField
from ui.shell.tab_order import stops_in
from ui.widgets.flow import FlowLayout
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label

FIELD_PX: Final = 64
"""What the first number has: six digits."""
OTHER_PX: Final = 42
GOES_ON: Final = "The previous value stays in effect."
ESC: Final = "Esc restores it."
_NUMBERS: Final = frozenset(("seed", "bias"))
"""Beside the stage's own values."""


class Handle(IconButton):
    """The grip of a card: dragged it moves the card, clicked it opens its menu."""

    dragged = Signal(QPoint)
    dropped = Signal()

    def __init__(self, theme: Theme, spoken: str, parent: QWidget) -> None:
        super().__init__(theme, "dots-six-vertical", spoken, parent=parent)
        self._pressed: QPoint | None = None
        self._is_dragging = False
        self.setObjectName("move_handle")
        self.setCursor(Qt.CursorShape.OpenHandCursor)

    def _dress(self) -> None:
        super()._dress()
        self.setFixedSize(self._theme.px(22), self._theme.px(26))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed = event.globalPosition().toPoint()
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        if self._pressed is None:
            return
        at = event.globalPosition().toPoint()
        far = (at - self._pressed).manhattanLength() >= QApplication.startDragDistance()
        if self._is_dragging or far:
            self._is_dragging = True
            self.dragged.emit(at)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        was_dragging, self._is_dragging, self._pressed = self._is_dragging, False, None
        if was_dragging:
            self.setDown(False)
            self.dropped.emit()
        else:
            super().mouseReleaseEvent(event)


class StageCard(QFrame):
    """`changed`: another value, that can be used. `move_requested`: up (−1) or down (1)."""

    changed = Signal(object)
    switched = Signal(bool)
    move_requested = Signal(int)
    remove_requested = Signal()

    has_value_in_head: ClassVar[bool] = True
    """Whether the first value stands beside the title."""

    def __init__(
        self,
        theme: Theme,
        link: Link,
        tokenize: Tokenize,
        *,
        is_editable: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_editable = is_editable
        self._words = words_of(link.stage)
        self._link = link
        self._n_vocab: int | None = None
        self._refused: dict[str, str] = {}
        self._away: NotTaken | None = None
        self.setProperty("plane", "card")
        self.setObjectName(f"stage_{snake(type(link.stage).__name__)}")
        self.setAccessibleName(self._words.title)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.title = ElidedTermLabel("Draw" if link.selects else self._words.title, self)
        self.title.setObjectName("stage_title")
        self.fields: dict[str, DragNumber] = {}
        self.handle = Handle(
            theme, f"Move {self._words.title}: drag, or press Alt+Up or Alt+Down", self
        )
        self.switch = Switch(theme, f"{self._words.title} on", self)
        self.switch.setObjectName("stage_switch")
        self.idle = term_label("", self, "small", name="idle_label", wraps=True)
        self.sentence = term_label("", self, "small", name="stage_sentence", wraps=True)
        self.away = plain_label("", self, "caution", name="away_label", wraps=True)
        self.away.hide()
        self.refusal = plain_label("", self, "refusal", name="refusal_label", wraps=True)
        self.refusal.hide()
        self.evidence = EvidenceView(theme, self)
        self.bias: BiasEditor | None = None
        self.breakers: LinesField | None = None
        self._build(tokenize)
        self._connect()
        theme.changed.connect(self._fit)
        theme.space(self.column, 4, margins=(12, 8, 12, 10))
        theme.space(self.head, 6)
        theme.space(self._flow, 6)
        self._fit()
        self.show_link(link)

    @property
    def link(self) -> Link:
        return self._link

    # --- building -------------------------------------------------------------------------------

    def _build(self, tokenize: Tokenize) -> None:
        self.head = QHBoxLayout()
        self.head.addWidget(self.handle)
        self.head.addWidget(self.title, 1)
        self._others = QWidget(self)
        policy = self._others.sizePolicy()
        policy.setHeightForWidth(True)
        self._others.setSizePolicy(policy)
        self._flow = FlowLayout(self._others)
        for at, value in enumerate(self._words.values):
            field = self._field(value)
            if at == 0 and self.has_value_in_head:
                self.head.addWidget(self._boxed(value, field, with_label=False))
            else:
                self._flow.addWidget(self._boxed(value, field, with_label=True))
        self._others.setVisible(len(self._words.values) > self.has_value_in_head)
        self.head.addWidget(self.switch)
        self.column = QVBoxLayout(self)
        self.column.addLayout(self.head)
        self.column.addWidget(self._others)
        if isinstance(self._link.stage, LogitBias):
            self.bias = BiasEditor(self._theme, tokenize, self, is_editable=self._is_editable)
            self.column.addWidget(self.bias)
        if isinstance(self._link.stage, Dry):
            self.breakers = LinesField("None", self)
            self.breakers.setObjectName("value_breakers")
            self.breakers.setAccessibleName("DRY breakers, one per line")
            self.breakers.setToolTip("Repetitions don't extend across these; one per line")
            self._theme.size(self.breakers, height=76)
            self.breakers.setReadOnly(not self._is_editable)
            self.column.addWidget(plain_label("breakers, one per line", self, "small"))
            self.column.addWidget(self.breakers)
        self.column.addWidget(self.sentence)
        self.column.addWidget(self.away)
        self.column.addWidget(self.idle)
        self.column.addWidget(self.refusal)
        self.column.addWidget(self.evidence)
        self.handle.setVisible(self._is_editable and not self._link.selects)
        self.switch.setVisible(self._is_editable and not self._link.selects)

    def _field(self, value: Value) -> DragNumber:
        checks = RULES[type(self._link.stage)].checks
        bounds = {attribute: (most.low, most.high) for attribute, _, most in checks}
        field = DragNumber(
            is_whole=value.is_whole,
            step=value.step,
            bounds=bounds[value.attribute],
            parent=self,
        )
        field.setObjectName(f"value_{value.attribute}")
        field.setAccessibleName(f"{self._words.title}: {value.label} {value.unit}".strip())
        field.setReadOnly(not self._is_editable)
        field.setEnabled(self._is_editable)
        is_first = not self.fields and self.has_value_in_head
        self._theme.keep(field, DragNumber.set_least_width, FIELD_PX if is_first else OTHER_PX)
        self.fields[value.attribute] = field
        return field

    def _boxed(self, value: Value, field: DragNumber, *, with_label: bool) -> QWidget:
        box = QWidget(self)
        row = QHBoxLayout(box)
        self._theme.space(row, 3, margins=0)
        if with_label:
            row.addWidget(plain_label(value.label, box, "small"))
        row.addWidget(field)
        if value.unit:
            unit = plain_label(value.unit, box, "small")
            row.addWidget(unit)
        return box

    def _connect(self) -> None:
        for attribute, field in self.fields.items():
            field.changed_by_user.connect(partial(self._on_value, attribute))
            field.taken_back.connect(partial(self._take_back, attribute))
        if self.bias is not None:
            self.bias.changed.connect(partial(self._on_value, "biases"))
            self.bias.refused.connect(partial(self.refuse, "bias"))
            self.bias.text.textEdited.connect(lambda _text: self.refuse("biases", ""))
        if self.breakers is not None:
            self.breakers.changed_by_user.connect(partial(self._on_value, "breakers"))
        self.switch.clicked.connect(self.switched)
        self.handle.clicked.connect(self.open_menu)
        if self._is_editable and not self._link.selects:
            for key, by in (("Alt+Up", -1), ("Alt+Down", 1)):
                shortcut = QShortcut(QKeySequence(key), self)
                shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
                shortcut.activated.connect(partial(self.move_requested.emit, by))

    def menu(self) -> QMenu:
        """What can be done with the card, for keys and mouse alike."""
        menu = QMenu(self)
        menu.setObjectName("stage_menu")
        for words, act in (
            ("Move up", partial(self.move_requested.emit, -1)),
            ("Move down", partial(self.move_requested.emit, 1)),
            ("Remove", self.remove_requested.emit),
        ):
            menu.addAction(words).triggered.connect(lambda _=False, act=act: act())
        return menu

    def open_menu(self) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.handle.mapToGlobal(self.handle.rect().bottomLeft()))

    def stops(self) -> list[QWidget]:
        """Where Tab stops, as the eye goes."""
        there = stops_in(self)
        first = [each for each in self._first_stops() if each in there]
        return [*first, *(each for each in there if each not in first)]

    def _first_stops(self) -> list[QWidget]:
        values = list(self.fields.values())
        return [self.handle, *values[:1], self.switch, *values[1:]]

    # --- showing --------------------------------------------------------------------------------

    def show_link(self, link: Link, n_vocab: int | None = None) -> None:
        """The stage as it counts. What was refused stays in its field until it is right."""
        self._link, self._n_vocab = link, n_vocab
        for attribute, field in self.fields.items():
            if attribute not in self._refused and not field.is_dragging:
                field.show_value(getattr(link.stage, attribute))
            level = LEVELS.get(link.levels.get(attribute, ""), "")
            hint = next(v.hint for v in self._words.values if v.attribute == attribute)
            parts = (f"Set by {level}" if level else "", hint, "Drag left or right")
            field.setToolTip(". ".join(part for part in parts if part) + ".")
        if self.bias is not None and isinstance(link.stage, LogitBias):
            self.bias.show_biases(link.stage.biases)
        if self.breakers is not None and isinstance(link.stage, Dry):
            self.breakers.show_value(link.stage.breakers)
        self.switch.setChecked(link.is_on)
        self.sentence.setText(f"{self._words.sentence} {_whence(link)}".strip())
        if not link.is_on:
            self.show_idle("")
        self._dress()

    def show_idle(self, reason: str) -> None:
        """Why the stage changes nothing where it stands; nothing: it may."""
        self.idle.setText(reason)
        self._dress_idle()
        self.idle.setVisible(bool(reason))
        away = "" if self._away is None else self._away.sentence
        self.setAccessibleDescription(away or reason or self._words.sentence)

    def show_away(self, away: NotTaken | None) -> None:
        """What of the stage the engine does not take: it is grey, and kept as it is set."""
        if away == self._away:
            return
        self._away = away
        is_whole = away is not None and bool(away.stage)
        for attribute, field in self.fields.items():
            is_away = is_whole or (away is not None and attribute in away.fields)
            field.setEnabled(self._is_editable and not is_away)
        for part in (self.bias, self.breakers):
            if part is not None:
                part.setEnabled(not is_whole)
        self.away.setText("" if away is None else away.sentence)
        self.away.setVisible(away is not None)
        self._dress()

    def refuse(self, attribute: str, sentence: str) -> None:
        """Why a value cannot be used; nothing takes that back."""
        if sentence:
            self._refused[attribute] = sentence
        else:
            self._refused.pop(attribute, None)
        are_numbers = self._refused.keys() <= self.fields.keys() | _NUMBERS
        rest = [GOES_ON, ESC] if are_numbers else [GOES_ON]
        self.refusal.setText(" ".join([*self._refused.values(), *rest]))
        self.refusal.setVisible(bool(self._refused))
        field = self._field_of(attribute)
        if field is not None:
            field.setAccessibleDescription(sentence)
            field.show_refused(bool(sentence))

    def _field_of(self, attribute: str) -> DragNumber | None:
        return self.fields.get(attribute)

    def _take_back(self, attribute: str) -> None:
        """What counts instead of what was refused."""
        self.refuse(attribute, "")
        self.fields[attribute].show_value(getattr(self._link.stage, attribute))
        self.fields[attribute].selectAll()

    def take_keyboard(self) -> None:
        """To what one would write first."""
        first = self.bias.text if self.bias is not None else next(iter(self.fields.values()), None)
        (first or self.handle).setFocus(Qt.FocusReason.TabFocusReason)

    # --- changing -------------------------------------------------------------------------------

    def _on_value(self, attribute: str, value: object) -> None:
        stage = msgspec.structs.replace(self._link.stage, **{attribute: value})
        problem = self._problem(stage, attribute)
        self.refuse(attribute, problem)
        if not problem:
            self.changed.emit(stage)

    def _problem(self, stage: Stage, attribute: str) -> str:
        try:
            check_stage(stage, "", self._n_vocab)
        except BadSetting as refused:
            # Another value of the stage may have been refused before; it has its own sentence.
            return refused.sentence if refused.field.startswith(f".{attribute}") else ""
        return ""

    # --- looks ----------------------------------------------------------------------------------

    def _dress(self) -> None:
        colors = self._theme.colors
        is_taken = self._away is None or not self._away.stage
        color = colors.ink if self._link.is_on and is_taken else colors.dim
        sheet = f"font-weight: 600; color: {color};"
        if sheet != self.title.styleSheet():  # a new sheet is a new layout
            self.title.setStyleSheet(sheet)

    def _dress_idle(self) -> None:
        colors = self._theme.colors
        color = colors.dim if self.idle.text().startswith(NEUTRAL) else colors.warning
        sheet = f"color: {color}; font-size: {self._theme.font_small().pixelSize()}px;"
        if sheet != self.idle.styleSheet():
            self.idle.setStyleSheet(sheet)

    def _fit(self) -> None:
        self._dress_idle()
        self._dress()


def _whence(link: Link) -> str:
    """Which levels say the values."""
    if not link.is_on:
        return "Turned off in this chat."
    return said_by(link.levels)


def said_by(levels: Mapping[str, str]) -> str:
    """
    >>> said_by({"k": "app"}), said_by({"repeat": "chat", "last_n": "app"})
    ('Set by the app.', 'Set by the app and this chat.')
    """
    names = [words for level, words in LEVELS.items() if level in levels.values()]
    return f"Set by {' and '.join(names)}." if names else ""
