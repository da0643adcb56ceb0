"""The arguments of a call, to be read and changed: a field for each where they are simple, else the
JSON itself. What stands in it is always the JSON text (`text`); nothing is judged here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from app.tools.schemas import FormField, form_fields, read_arguments
from ui.look.theme import Theme
from ui.section.switch import Switch
from ui.widgets.combo import Combo
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button

NONE_CHOSEN: Final = "—"
LINES_PX: Final = 58
JSON_PX: Final = 110


class ArgumentsForm(QWidget):
    """`changed`: by the user."""

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._fields: tuple[FormField, ...] = ()
        self._readers: dict[str, Callable[[], Any]] = {}
        self._body: QWidget | None = None
        self._schema = "{}"
        self._values: dict[str, Any] = {}
        self.json: QPlainTextEdit | None = None
        self.as_json = push_button(
            "Edit as JSON", self, "arguments_json_button", kind="compact", act=self._to_json
        )
        self.setObjectName("arguments_form")
        self.setAccessibleName("Arguments")
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.as_json, 0, Qt.AlignmentFlag.AlignLeft)
        theme.space(self._column, 4, margins=0)

    def show_call(self, schema: str, arguments: str) -> None:
        """Other arguments, and what they must be."""
        self._schema = schema
        fields = form_fields(schema)
        values, wrong = read_arguments(arguments)
        known = {field.name for field in fields or ()}
        is_simple = fields is not None and not wrong and known >= values.keys()
        if fields is not None and is_simple and all(_fits(f, values) for f in fields):
            self._show_fields(fields, values)
        else:
            self._show_json(arguments)

    def text(self) -> str:
        """The arguments as JSON text, as they stand there now."""
        if self.json is not None:
            return self.json.toPlainText()
        values = {field.name: self._readers[field.name]() for field in self._fields}
        return json.dumps(
            {name: value for name, value in values.items() if value is not ...}, ensure_ascii=False
        )

    def stops(self) -> list[QWidget]:
        """What Tab goes through."""
        from ui.shell.tab_order import stops_in

        # The list of a combo box is a window of its own.
        return [each for each in stops_in(self) if each.window() is self.window()]

    def _to_json(self) -> None:
        values, _ = read_arguments(self.text())
        self._show_json(json.dumps(values, ensure_ascii=False, indent=2))
        if self.json is not None:
            self.json.setFocus()

    # --- JSON -----------------------------------------------------------------------------------

    def _show_json(self, text: str) -> None:
        body = self._new_body()
        edit = QPlainTextEdit(body)
        edit.setObjectName("arguments_json")
        edit.setAccessibleName("Arguments as JSON")
        edit.setTabChangesFocus(True)
        edit.setPlainText(text)
        edit.textChanged.connect(self.changed)
        self._theme.font(edit, Theme.font_mono, 13)
        self._theme.size(edit, height=JSON_PX)
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(edit)
        self.json = edit
        self.as_json.hide()

    # --- fields ---------------------------------------------------------------------------------

    def _show_fields(self, fields: tuple[FormField, ...], values: dict[str, Any]) -> None:
        body = self._new_body()
        self._fields, self.json, self._values = fields, None, values
        column = QVBoxLayout(body)
        for field in fields:
            name = field.name if field.is_required else f"{field.name} (optional)"
            column.addWidget(plain_label(name, body, "small"))
            control = self._control(field, values.get(field.name, ...), body)
            control.setAccessibleName(name)
            control.setAccessibleDescription(field.description)
            control.setToolTip(tip_text(field.description))
            column.addWidget(control)
        if not fields:
            column.addWidget(plain_label("No arguments", body, "small"))
        self.as_json.setVisible(bool(fields))
        self._theme.space(column, 3, margins=0)

    def _control(self, field: FormField, value: Any, body: QWidget) -> QWidget:
        match field.kind:
            case "switch":
                return self._switch(field, value, body)
            case "choice":
                return self._choice(field, value, body)
            case "lines":
                return self._lines(field, value, body)
        line = QLineEdit(body)
        line.setObjectName(f"argument_{field.name}")
        is_text = field.kind == "text"
        shown = value if is_text else json.dumps(value) if value is not ... else ""
        line.setText("" if value is ... else str(shown))
        if field.default is not None:
            line.setPlaceholderText(f"Default: {str(field.default)[:100]}")
        line.textEdited.connect(self.changed)
        was_given = value is not ...

        def read() -> Any:
            text = line.text()
            if not text and not (was_given and is_text) and not (field.is_required and is_text):
                return ...
            return text if is_text else _number(text)

        self._readers[field.name] = read
        return line

    def _switch(self, field: FormField, value: Any, body: QWidget) -> QWidget:
        switch = Switch(self._theme, field.name, body)
        default = field.default if isinstance(field.default, bool) else False
        switch.setChecked(value if isinstance(value, bool) else default)
        switch.clicked.connect(self.changed)
        is_given = value is not ... or field.is_required

        def read() -> Any:
            was = value if isinstance(value, bool) else default
            return switch.isChecked() if is_given or switch.isChecked() != was else ...

        self._readers[field.name] = read
        return switch

    def _choice(self, field: FormField, value: Any, body: QWidget) -> QWidget:
        combo = Combo(self._theme, body)
        choices = list(field.choices)
        rows = choices if field.is_required else [NONE_CHOSEN, *choices]
        if value is ... and field.is_required:
            rows = [NONE_CHOSEN, *choices]
        combo.addItems([row[:80] for row in rows])
        combo.setCurrentIndex(rows.index(value) if value in choices else 0)
        combo.activated.connect(self.changed)

        def read() -> Any:
            chosen = rows[combo.currentIndex()]
            return ... if chosen == NONE_CHOSEN else chosen

        self._readers[field.name] = read
        return combo

    def _lines(self, field: FormField, value: Any, body: QWidget) -> QWidget:
        edit = QPlainTextEdit(body)
        edit.setTabChangesFocus(True)
        edit.setPlaceholderText("One on each line")
        edit.setPlainText("\n".join(value) if isinstance(value, list) else "")
        edit.textChanged.connect(self.changed)
        self._theme.size(edit, height=LINES_PX)

        def read() -> Any:
            lines = [line for line in edit.toPlainText().split("\n") if line]
            return lines if lines or value is not ... or field.is_required else ...

        self._readers[field.name] = read
        return edit

    def _new_body(self) -> QWidget:
        if self._body is not None:
            self._column.removeWidget(self._body)
            self._body.hide()
            self._body.deleteLater()
        self._fields, self._readers = (), {}
        self._body = QWidget(self)
        self._column.insertWidget(0, self._body)
        self._body.show()
        return self._body


def _fits(field: FormField, values: dict[str, Any]) -> bool:
    """Whether a field can show the value that it is given."""
    if field.name not in values:
        return True
    value = values[field.name]
    match field.kind:
        case "text":
            return isinstance(value, str) and "\n" not in value
        case "switch":
            return isinstance(value, bool)
        case "choice":
            return value in field.choices
        case "lines":
            is_list = isinstance(value, list)
            return is_list and all(isinstance(v, str) and v and "\n" not in v for v in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> Any:
    """A number, or the text itself, which the check then refuses in words."""
    try:
        value = float(text.strip().replace("−", "-"))
    except ValueError:
        return text
    return int(value) if value.is_integer() and "." not in text and "e" not in text else value
