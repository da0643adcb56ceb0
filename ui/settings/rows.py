"""A labelled setting: its words left, its control right, a refusal under both."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLabel,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.settings.adapter_field import AdapterField, AnyField
from ui.settings.fields import ChoiceField, TextField
from ui.shell.tab_order import stops_in
from ui.widgets.kit import plain_label
from ui.widgets.steady_area import SteadyArea

CONTROL_PX = 220
STACK_BELOW_PX = 460
Apply = Callable[[str, object], str]
"""Try a setting; returns the sentence of a refusal, or nothing."""


class SettingRow(QWidget):
    def __init__(
        self,
        theme: Theme,
        name: str,
        label: str,
        hint: str,
        field: AnyField,
        apply: Apply,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.name = name
        self.field = field
        self._apply = apply
        self._is_wide_field = isinstance(field, TextField | AdapterField)
        self._beside: list[QWidget] = []
        self._label = QLabel(label, self)
        self._label.setBuddy(field)
        self._hint = plain_label(hint, self, "small", wraps=True)
        self._hint.setVisible(bool(hint))
        self.refusal = plain_label("", self, "refusal", name=f"refusal_{name}", wraps=True)
        self.refusal.hide()
        field.setObjectName(f"setting_{name}")
        field.setAccessibleName(label)
        field.setAccessibleDescription(hint)
        if isinstance(field, ChoiceField):
            field.name_choices(label)
        field.changed_by_user.connect(self._on_changed)
        self._build()
        if isinstance(field, TextField):
            theme.size(field, height=96)
        theme.changed.connect(self._arrange)
        self._arrange()

    def _build(self) -> None:
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._label)
        words.addWidget(self._hint)
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.addLayout(words, 1)
        self._pair = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._pair.addLayout(self._head, 1)
        self._pair.addWidget(self.field, 0, Qt.AlignmentFlag.AlignVCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(self._pair)
        column.addWidget(self.refusal)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where there is room, else the control under its words."""
        px = self._theme.px
        is_stacked = self._is_wide_field or self.width() < px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        self._pair.setDirection(direction.TopToBottom if is_stacked else direction.LeftToRight)
        self._pair.setSpacing(px(8 if is_stacked else 16))
        self._pair.setAlignment(
            self.field,
            Qt.AlignmentFlag(0) if is_stacked else Qt.AlignmentFlag.AlignVCenter,
        )
        if is_stacked:
            self.field.setMinimumWidth(0)
            self.field.setMaximumWidth(16_777_215)
        else:
            self.field.setFixedWidth(px(CONTROL_PX))

    def show_value(self, value: object) -> None:
        self.field.show_value(value)

    def show_hint(self, text: str) -> None:
        """Other words below the label."""
        if self._hint.text() != text:
            self._hint.setText(text)
            self._hint.setVisible(bool(text))
            if self.refusal.isHidden():
                self.field.setAccessibleDescription(text)

    def add_beside(self, widget: QWidget) -> None:
        """One more control, right of the field, or of the words over a wide one."""
        self._beside.append(widget)
        policy = widget.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        widget.setSizePolicy(policy)
        row = self._head if self._is_wide_field else self._pair
        row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)

    def stops(self) -> list[QWidget]:
        """What Tab stops at in this row, from left to right."""
        found = [each for widget in (self.field, *self._beside) for each in stops_in(widget)]
        # The list of a combo box is a window of its own.
        return [each for each in found if each.window() is self.window()]

    def refuse(self, sentence: str) -> None:
        """Say why a value does not fit; nothing takes it back."""
        self.refusal.setText(sentence)
        self.refusal.setVisible(bool(sentence))
        self.field.setAccessibleDescription(sentence or self._hint.text())

    def _on_changed(self, value: object) -> None:
        self.refuse(self._apply(self.name, value))


class Page(SteadyArea):
    """A scrolling column of cards."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName(f"page_{name}")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._body = QWidget(self)
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addStretch()
        self.setWidget(self._body)
        # Qt has just switched this on; the window's own plane shall show.
        self._body.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        theme.space(self._column, 8)

    def add_card(self, *widgets: QWidget) -> None:
        card = QFrame(self._body)
        card.setProperty("plane", "card")
        card.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        column = QVBoxLayout(card)
        for widget in widgets:
            column.addWidget(widget)
        self._theme.space(column, 18, margins=(16, 14))
        self._column.insertWidget(self._column.count() - 1, card)
