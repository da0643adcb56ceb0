"""Controls that show one setting and say when the user has changed it.

A field never judges a value: it hands on what was typed, as a number where it is one, and
`app.chat.settings.settings.checked` has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontDatabase, QKeyEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from ui.chat.message_edit import clean_text, whole_text
from ui.look import fonts
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.kit import push_button, rest_timer

APPLY_AFTER_MS = 600
"""Typing rests this long before a value is applied without Return."""


class NumberField(QLineEdit):
    """A number. Empty stands for `automatic`, if there is such a value; ↑ and ↓ step."""

    changed_by_user = Signal(object)

    def __init__(
        self,
        *,
        is_whole: bool,
        step: float = 1,
        automatic: object = ...,
        placeholder: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._is_whole = is_whole
        self._step = step
        self._automatic = automatic
        self.setPlaceholderText(placeholder)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._told = ""
        self._timer = rest_timer(self, self._tell, APPLY_AFTER_MS)
        self.textEdited.connect(lambda: self._timer.start())
        self.editingFinished.connect(self._tell)

    def show_value(self, value: object) -> None:
        """Take over a value, unless the user is in the middle of typing another."""
        text = "" if value == self._automatic else number_text(value)
        if self._timer.isActive() or (self.hasFocus() and self._parsed(self.text()) == value):
            return
        self._told = text
        if self.text() != text:
            self.setText(text)

    def value(self) -> object:
        return self._parsed(self.text())

    def tell_now(self) -> None:
        """What is being typed counts, and nothing of it comes later."""
        if self._timer.isActive():
            self._tell()

    def _tell(self) -> None:
        self._timer.stop()
        if self.text() != self._told:
            self._told = self.text()
            self.changed_by_user.emit(self.value())

    def _parsed(self, text: str) -> object:
        """The number, `automatic` for nothing, or the text itself where it is no number."""
        plain = text.strip().replace(" ", "").replace("−", "-")
        if not plain and self._automatic is not ...:
            return self._automatic
        try:
            if self._is_whole:
                return int(plain.replace(",", "").replace("_", ""))
            return float(plain.replace(",", "."))
        except ValueError:
            return text

    def keyPressEvent(self, event: QKeyEvent) -> None:
        sign = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()))
        if sign is None:
            super().keyPressEvent(event)
            return
        value = self.value()
        number = float(value) if isinstance(value, int | float) else 0.0
        stepped = round(number + sign * self._step, 6)
        self.setText(number_text(int(stepped) if self._is_whole else stepped))
        self._timer.start()


class LineField(QLineEdit):
    """A line of text, applied with Return or when it is left."""

    changed_by_user = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._told = ""
        self.editingFinished.connect(self.tell_now)

    def show_value(self, value: object) -> None:
        if not (self.hasFocus() and self.text() != self._told):
            self._told = str(value)
            self.setText(self._told)

    def value(self) -> object:
        return self.text()

    def tell_now(self) -> None:
        if self.text() != self._told:
            self._told = self.text()
            self.changed_by_user.emit(self.text())


class ChoiceField(QWidget):
    """A few exclusive choices side by side; the arrow keys move between them."""

    changed_by_user = Signal(object)

    def __init__(
        self, theme: Theme, choices: Sequence[tuple[str, str]], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._group = QButtonGroup(self)
        self._buttons: dict[str, QPushButton] = {}
        row = QHBoxLayout(self)
        theme.space(row, 4, margins=0)
        for value, text in choices:
            button = push_button(
                text,
                self,
                f"choice_{value}",
                kind="choice",
                act=lambda _=False, value=value: self._tell(value),
            )
            button.setCheckable(True)
            self._group.addButton(button)
            self._buttons[value] = button
            row.addWidget(button, 1)
        self.setFocusProxy(next(iter(self._buttons.values())))

    def _tell(self, value: str) -> None:
        self.changed_by_user.emit(self._told(value))

    def _told(self, value: str) -> object:
        """A choice as the setting has it."""
        return value

    def name_choices(self, label: str) -> None:
        for button in self._buttons.values():
            button.setAccessibleName(f"{label}: {button.text()}")

    def enable_choice(self, value: str, *, is_on: bool, hint: str = "") -> None:
        self._buttons[value].setEnabled(is_on)
        self._buttons[value].setToolTip(hint)

    def show_value(self, value: object) -> None:
        button = self._buttons.get(str(value))
        if button is not None:
            button.setChecked(True)
            self.setFocusProxy(button)

    def value(self) -> object:
        return next((key for key, each in self._buttons.items() if each.isChecked()), "")


class SwitchField(ChoiceField):
    """Off or on."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, [("off", "Off"), ("on", "On")], parent)

    def show_value(self, value: object) -> None:
        super().show_value("on" if value else "off")

    def value(self) -> object:
        return super().value() == "on"

    def _told(self, value: str) -> object:
        return value == "on"


class ListField(Combo):
    """One of many choices, in a list that opens."""

    changed_by_user = Signal(object)

    def __init__(
        self, theme: Theme, choices: Sequence[tuple[str, str]], parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, parent)
        for value, text in choices:
            self.addItem(text, value)
        self.activated.connect(lambda _: self.changed_by_user.emit(self.value()))

    def show_value(self, value: object) -> None:
        self.setCurrentIndex(self.findData(value))

    def value(self) -> object:
        return self.currentData()


class FontField(Combo):
    """A family of type, or the one that the program carries (an empty name). Families are listed
    when it is first opened or shown a value."""

    changed_by_user = Signal(object)

    def __init__(
        self, theme: Theme, *, is_mono: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, parent)
        self._is_mono = is_mono
        own = fonts.KNOWN_AS[fonts.MONO_FAMILY if is_mono else fonts.TEXT_FAMILY]
        self.addItem(f"{own} (included)", "")
        self.setMaxVisibleItems(12)
        self.activated.connect(lambda _: self.changed_by_user.emit(self.value()))

    def _fill(self) -> None:
        if self.count() > 1:
            return
        kinds = QFontDatabase.SystemFont
        system = QFontDatabase.systemFont(kinds.FixedFont if self._is_mono else kinds.GeneralFont)
        self.addItem("System font", system.family())
        for family in QFontDatabase.families():
            is_fitting = not self._is_mono or QFontDatabase.isFixedPitch(family)
            if is_fitting and _can_be_read(family):
                self.addItem(family, family)

    def show_value(self, value: object) -> None:
        if value:
            self._fill()
        place = self.findData(value)
        if place < 0:  # a family that is not installed here (any more)
            self.addItem(f"{value} (not installed)", value)
            place = self.count() - 1
        self.setCurrentIndex(place)

    def value(self) -> object:
        return self.currentData()

    def showPopup(self) -> None:  # noqa: N802
        self._fill()
        super().showPopup()

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._fill()  # the arrow keys choose without opening it
        super().focusInEvent(event)


def _can_be_read(family: str) -> bool:
    """Not the system's private ones, nor fonts of signs alone; nor what is carried, which stands
    above them all."""
    signs = (QFontDatabase.WritingSystem.Any, QFontDatabase.WritingSystem.Symbol)
    if QFontDatabase.isPrivateFamily(family):
        return False
    if family.startswith(tuple(fonts.KNOWN_AS)):
        return False
    return any(each not in signs for each in QFontDatabase.writingSystems(family))


class TextField(QPlainTextEdit):
    """A text of several lines. Tab leaves it."""

    changed_by_user = Signal(object)

    def __init__(self, placeholder: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText(placeholder)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._shown = ""
        self._timer = rest_timer(self, self._tell, APPLY_AFTER_MS)
        self.textChanged.connect(self._on_text_changed)

    def show_value(self, value: object) -> None:
        text = clean_text(self.as_text(value))
        if self.text() != text and not self._timer.isActive() and not self.hasFocus():
            self._shown = text
            self.setPlainText(text)

    def text(self) -> str:
        return whole_text(self)

    def value(self) -> object:
        return self.from_text(self.text())

    def tell_now(self) -> None:
        """What is being typed counts, and nothing of it comes later."""
        if self._timer.isActive():
            self._tell()

    def as_text(self, value: Any) -> str:
        return str(value)

    def from_text(self, text: str) -> object:
        return text

    def _on_text_changed(self) -> None:
        if self.text() != self._shown:
            self._timer.start()

    def _tell(self) -> None:
        self._timer.stop()
        if self.text() != self._shown:
            self._shown = self.text()
            self.changed_by_user.emit(self.value())

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._tell()


class LinesField(TextField):
    r"""A list of texts, one a line; `\n`, `\t` and `\\` stand for the characters themselves."""

    _ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"))

    def as_text(self, value: Any) -> str:
        lines = []
        for text in value:
            for plain, escaped in self._ESCAPES:
                text = text.replace(plain, escaped)
            lines.append(text)
        return "\n".join(lines)

    def from_text(self, text: str) -> object:
        return [_unescaped(line) for line in text.split("\n") if line]


def _unescaped(line: str) -> str:
    signs = {"n": "\n", "t": "\t", "\\": "\\"}
    pieces, rest = [], line
    while rest:
        head, backslash, rest = rest.partition("\\")
        pieces.append(head)
        if backslash:
            pieces.append(signs.get(rest[:1], "\\" + rest[:1]))
            rest = rest[1:]
    return "".join(pieces)


def number_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


Field = NumberField | LineField | ChoiceField | ListField | FontField | TextField
