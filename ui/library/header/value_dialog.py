"""A value that is to be another one in the copy, or a new key."""

from __future__ import annotations

from collections.abc import Callable, Collection

from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.gguf.rewrite import refusal_of_key
from app.gguf.values import KIND_CHOICES, NewValue, value_typed
from app.library.header_shown import one_line
from app.refusal import Refusal
from ui.chat.message_edit import clean_text, whole_text
from ui.look.theme import Theme
from ui.shell.dialogs import space_buttons
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

SIZE_PX = (560, 400)
ARRAYS = tuple(f"array of {name}" for name in ("string", "int32", "float32", "bool"))


class ValueDialog(QDialog):
    """`taken` gets the key and the value once they can be written. Without a key, one is asked
    for, which must not be among those `known`."""

    def __init__(
        self,
        theme: Theme,
        taken: Callable[[str, NewValue], None],
        *,
        key: str = "",
        kind_name: str = "string",
        text: str = "",
        known: Collection[str] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._taken = taken
        self._key = key
        self._text = text
        self._known = known
        self.setObjectName("value_dialog")
        self.setWindowTitle("Change a value" if key else "Add a key")
        self.key_field = QLineEdit(key, self)
        self.key_field.setObjectName("value_key")
        self.key_field.setReadOnly(bool(key))
        self.key_field.setPlaceholderText("general.description")
        self.kind_field = Combo(theme, self)
        self.kind_field.setObjectName("value_kind")
        for name in dict.fromkeys((kind_name, *KIND_CHOICES, *ARRAYS) if not key else (kind_name,)):
            self.kind_field.addItem(name)
        self.kind_field.setEnabled(not key)
        self.value_field = QPlainTextEdit(self)
        self.value_field.setObjectName("value_field")
        self.value_field.setTabChangesFocus(True)
        # To wrap a line of some 100,000 characters takes Qt seconds.
        self.value_field.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.value_field.setPlainText(text)
        self.sentence = plain_label("", self, "error", name="value_sentence", wraps=True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.ok_button = push_button("Change in the copy", name="keep_value_button", kind="primary")
        self.buttons.addButton(self.ok_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self._build()
        self.key_field.textChanged.connect(self._check)
        self.kind_field.currentTextChanged.connect(self._check)
        self.value_field.textChanged.connect(self._check)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        theme.space(self._column, 12, margins=16)
        theme.space(self._form, 8)
        theme.font(self.value_field, Theme.font_mono, 12)
        space_buttons(theme, self.buttons)
        self._check()
        self.sentence.setVisible(bool(key))  # an empty field is no mistake yet
        (self.value_field if key else self.key_field).setFocus()
        self.value_field.selectAll()
        ZoomedSize(self, theme, SIZE_PX)

    def _build(self) -> None:
        self._form = QFormLayout()
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        for words, field in (
            ("&Key", self.key_field),
            ("K&ind", self.kind_field),
            ("&Value", self.value_field),
        ):
            label = QLabel(words, self)
            label.setBuddy(field)
            field.setAccessibleName(words.replace("&", ""))
            self._form.addRow(label, field)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._form, 1)
        self._column.addWidget(self.sentence)
        self._column.addWidget(self.buttons)

    def value(self) -> NewValue:
        """What was typed, or Refusal."""
        typed = whole_text(self.value_field)
        if typed == clean_text(self._text):
            typed = self._text
        elif "\r\n" in self._text:  # a field holds line feeds only
            typed = typed.replace("\n", "\r\n")
        return value_typed(self.kind_field.currentText(), typed)

    def refusal(self) -> str:
        """Why this cannot be written; "" if it can."""
        key = self.key_field.text().strip()
        if not self._key:
            if why := refusal_of_key(key):
                return why
            if key in self._known:
                return f"The key “{one_line(key, 80)}” already exists. Change that one instead."
        try:
            self.value()
        except Refusal as refused:
            return refused.sentence
        return ""

    def _check(self) -> None:
        why = self.refusal()
        self.sentence.setText(why)
        self.sentence.setVisible(bool(why))
        self.ok_button.setEnabled(not why)

    def accept(self) -> None:
        if not self.refusal():
            self._taken(self.key_field.text().strip(), self.value())
            super().accept()
