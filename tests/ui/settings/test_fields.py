"""The settings' controls: what was typed, when it is told, what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.settings.chain_field import lines_of, stage_of
from ui.settings.fields import ChoiceField, Field, LinesField, NumberField, TextField

Key = Qt.Key
Shown = Callable[[Field], list[Any]]


@pytest.fixture
def shown(qtbot: QtBot) -> Iterator[Callable[[Field], list[Any]]]:
    """Shows a field, with another one to go to; returns the list of what it tells."""
    windows = []

    def show(field: Field) -> list[Any]:
        told: list[Any] = []
        field.changed_by_user.connect(told.append)
        window = QWidget()
        windows.append(window)
        column = QVBoxLayout(window)
        column.addWidget(field)
        column.addWidget(QLineEdit())
        qtbot.addWidget(window)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        field.setFocus()
        return told

    yield show
    windows.clear()


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("12", 12),
        ("4,096", 4096),
        ("4 096", 4096),
        ("−1", -1),
        ("-1", -1),
        ("", 0),
        ("1.5", "1.5"),
        ("abc", "abc"),
        ("1e3", "1e3"),
    ],
)
def test_whole_numbers_are_read_as_people_write_them(
    shown: Shown, typed: str, value: object
) -> None:
    field = NumberField(is_whole=True, automatic=0)
    told = shown(field)
    field.show_value(7)
    # Inserted, not typed: QTest has no key for a real minus sign.
    field.selectAll()
    field.insert(typed)
    QTest.keyClick(field, Key.Key_Return)
    assert told == [value]


@pytest.mark.parametrize(("typed", "value"), [("0.8", 0.8), ("0,8", 0.8), ("2", 2.0), ("x", "x")])
def test_real_numbers_take_point_and_comma(shown: Shown, typed: str, value: object) -> None:
    field = NumberField(is_whole=False)
    told = shown(field)
    QTest.keyClicks(field, typed)
    QTest.keyClick(field, Key.Key_Return)
    assert told == [value]


def test_typing_is_told_after_a_rest_without_return(shown: Shown, qtbot: QtBot) -> None:
    field = NumberField(is_whole=True)
    told = shown(field)
    with qtbot.waitSignal(field.changed_by_user, timeout=5000):
        QTest.keyClicks(field, "64")
    assert told == [64]


def test_a_value_is_told_once(shown: Shown) -> None:
    field = NumberField(is_whole=True)
    told = shown(field)
    QTest.keyClicks(field, "64")
    QTest.keyClick(field, Key.Key_Return)
    QTest.keyClick(field, Key.Key_Return)
    field.clearFocus()
    assert told == [64]


def test_arrow_keys_step(shown: Shown) -> None:
    field = NumberField(is_whole=False, step=0.1)
    shown(field)
    field.show_value(0.7)
    for _ in range(3):
        QTest.keyClick(field, Key.Key_Up)
    assert field.text() == "1"
    QTest.keyClick(field, Key.Key_Down)
    assert field.value() == pytest.approx(0.9)


def test_an_automatic_value_is_an_empty_field(shown: Shown) -> None:
    field = NumberField(is_whole=True, automatic=None, placeholder="New each time")
    shown(field)
    field.show_value(None)
    assert field.text() == ""
    assert field.value() is None


def test_a_field_in_use_is_not_overwritten_by_its_own_value(shown: Shown) -> None:
    field = NumberField(is_whole=False)
    shown(field)
    QTest.keyClicks(field, "1.")
    field.show_value(0.8)
    assert field.text() == "1."


def test_a_choice_is_made_by_mouse_and_by_arrow_keys(shown: Shown, theme: Theme) -> None:
    field = ChoiceField(theme, [("system", "System"), ("light", "Light"), ("dark", "Dark")])
    told = shown(field)
    field.name_choices("Theme")
    field.show_value("system")
    assert told == []
    dark = field.findChild(QPushButton, "choice_dark")
    light = field.findChild(QPushButton, "choice_light")
    assert dark is not None
    assert light is not None
    assert dark.accessibleName() == "Theme: Dark"
    dark.click()
    assert told == ["dark"]
    assert field.value() == "dark"
    dark.setFocus()
    QTest.keyClick(dark, Key.Key_Left)
    assert field.value() == "light"
    assert told == ["dark", "light"]


def test_a_text_is_told_when_it_rests_and_when_it_is_left(shown: Shown) -> None:
    field = TextField()
    told = shown(field)
    field.setFocus()
    QTest.keyClicks(field, "Be brief.")
    field.clearFocus()
    assert told == ["Be brief."]


def test_tab_leaves_a_text(shown: Shown) -> None:
    field = TextField()
    shown(field)
    QTest.keyClicks(field, "a")
    QTest.keyClick(field, Key.Key_Tab)
    assert field.toPlainText() == "a"
    assert not field.hasFocus()


def test_showing_a_text_tells_nothing(shown: Shown, qtbot: QtBot) -> None:
    field = TextField()
    told = shown(field)
    field.clearFocus()
    field.show_value("from the desk")
    qtbot.wait(1)
    assert told == []
    assert field.toPlainText() == "from the desk"


@pytest.mark.parametrize("text", ["no\u00a0break", "one\r\ntwo", "a\u2028b", "a\u2029b"])
def test_a_text_that_a_field_holds_otherwise_is_not_told_unasked(
    shown: Shown, qtbot: QtBot, text: str
) -> None:
    field = TextField()
    told = shown(field)
    field.clearFocus()
    field.show_value(text)
    field.tell_now()
    assert told == []
    with qtbot.assertNotEmitted(field.textChanged):
        field.show_value(text)
    field.setFocus()
    QTest.keyClicks(field, "!")
    field.clearFocus()
    assert told == ["!" + "\n".join(text.splitlines())]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\\n")))
)
def test_every_list_of_texts_survives_the_field(texts: list[str]) -> None:
    field = LinesField()
    wanted = [text for text in texts if text]
    assert field.from_text(field.as_text(wanted)) == wanted


def test_escapes_stand_for_the_characters(shown: Shown, qtbot: QtBot) -> None:
    field = LinesField()
    told = shown(field)
    field.setPlainText("\\n\\n\n\nUser:\\tx\n\\q\\")
    field.clearFocus()
    qtbot.waitUntil(lambda: told == [["\n\n", "User:\tx", "\\q\\"]])


@pytest.mark.parametrize("mark", ["\n", "\x0b", "\x85", "\u2028", "\u2029"])
def test_a_breaker_with_a_line_break_stays_in_its_stage(mark: str) -> None:
    stage = {"stage": "dry", "multiplier": 0.5, "breakers": [f"é{mark}"]}
    (line,) = lines_of([stage])
    assert line.splitlines() == [line]
    assert "é" in lines_of([stage | {"breakers": ["é"]}])[0]
    assert stage_of(line) == stage
