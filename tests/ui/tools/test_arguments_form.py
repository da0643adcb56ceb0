"""The form of a call's arguments: what it shows, what is read from it, where it gives up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QComboBox, QLineEdit, QPlainTextEdit

from ui.look.theme import Theme
from ui.section.switch import Switch
from ui.tools.arguments_form import ArgumentsForm

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "units": {"enum": ["C", "F"]},
        "loud": {"type": "boolean", "default": True},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
}


@pytest.fixture
def form(qtbot: Any, theme: Theme) -> ArgumentsForm:
    form = ArgumentsForm(theme)
    qtbot.addWidget(form)
    return form


def show(form: ArgumentsForm, arguments: object, schema: object = SCHEMA) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    form.show_call(json.dumps(schema), text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "Oslo"},
        {"city": "Oslo", "days": 3, "units": "F", "loud": False, "tags": ["a", "b c"]},
        {"city": "", "tags": [], "loud": True},
        {"city": "x", "days": 2.5},
    ],
)
def test_untouched_it_says_what_it_was_given(form, arguments):
    show(form, arguments)
    assert form.json is None
    assert json.loads(form.text()) == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        "not json",
        {"city": 3},
        {"city": "two\nlines"},
        {"city": "x", "more": 1},
        {"city": "x", "units": "K"},
        {"city": None},
    ],
)
def test_what_no_field_can_hold_is_json_to_the_letter(form, arguments):
    show(form, arguments)
    assert form.json is not None
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    assert form.text() == text


def test_fields_are_changed_and_told(form, qtbot):
    show(form, {"city": "Oslo"})
    told: list[None] = []
    form.changed.connect(lambda: told.append(None))
    city, days = form.findChildren(QLineEdit)
    qtbot.keyClicks(city, "!")
    qtbot.keyClicks(days, "7")
    form.findChild(Switch).click()
    units = form.findChild(QComboBox)
    units.setCurrentIndex(2)
    units.activated.emit(2)
    form.findChild(QPlainTextEdit).setPlainText("one\ntwo\n")
    assert json.loads(form.text()) == {
        "city": "Oslo!", "days": 7, "loud": False, "units": "F", "tags": ["one", "two"],
    }  # fmt: skip
    assert len(told) >= 5
    qtbot.keyClicks(days, "x")
    assert json.loads(form.text())["days"] == "7x", "refused in words by whoever checks"
    form.as_json.click()
    assert form.json is not None
    assert json.loads(form.text())["city"] == "Oslo!"


def test_no_arguments_are_an_empty_object(form):
    show(form, {}, {"type": "object"})
    assert form.text() == "{}"
    assert form.as_json.isHidden()


def test_what_a_server_says_of_an_argument_is_no_markup(form: ArgumentsForm) -> None:
    words = 'A city <img src="//example.org/x.png">'
    city = {"type": "string", "description": words, "default": "x" * 30_000}
    show(form, {}, {"properties": {"city": city, "<b>x</b>": {"type": "boolean"}}})
    switch = form.findChild(Switch)
    assert switch is not None
    assert "<b>" not in switch.toolTip()
    line = form.findChild(QLineEdit, "argument_city")
    assert line is not None
    shown = QTextDocument()
    shown.setHtml(line.toolTip())
    assert shown.toPlainText() == words
    assert len(line.placeholderText()) < 200
