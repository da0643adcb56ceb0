"""The composer's control for thinking, on a recording desk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QInputDialog, QLineEdit, QMenu, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.events import ThinkingChanged
from app.engine.protocol.thinking_messages import ThinkingOffer

QWEN = ThinkingOffer(["off", "on"], "on", [], has_reasoning=True)
KIMI = ThinkingOffer(["off", "on", "low", "high"], "on", [], has_reasoning=True)


@pytest.fixture
def show(open_window: Callable[..., Any], desk: Any, bridge: Any) -> Callable[..., Any]:
    """The window, with what is offered and chosen."""
    opened: list[Any] = []

    def put(offer: ThinkingOffer = KIMI, **values: Any) -> Any:
        if not opened:
            opened.append(open_window())
        desk.thinking.offer = offer
        for name, value in values.items():
            setattr(desk.thinking, name, value)
        bridge.emit_event(ThinkingChanged())
        return opened[0]

    return put


def button(window: Any) -> QPushButton:
    found = window.findChild(QPushButton, "thinking_button")
    assert found is not None
    return found


def entries(menu: QMenu) -> dict[str, Any]:
    menu.aboutToShow.emit()
    found = {entry.text(): entry for entry in menu.actions() if entry.text()}
    limits = next(entry.menu() for entry in menu.actions() if entry.text() == "Limit reasoning")
    return found | {entry.text(): entry for entry in limits.actions()}


def checked(menu: QMenu) -> list[str]:
    return [name for name, entry in entries(menu).items() if entry.isChecked()]


def test_it_is_there_where_the_template_knows_something(show: Any) -> None:
    window = show(ThinkingOffer())
    assert not button(window).isVisible()
    show(QWEN)
    assert button(window).isVisible()
    show(ThinkingOffer(has_reasoning=True))  # nothing to choose, but reasoning to limit and begin
    assert button(window).isVisible()
    names = entries(button(window).menu())
    assert "Auto" not in names
    assert "Start the reasoning yourself…" in names


def test_it_says_what_counts(show: Any) -> None:
    window = show(QWEN)
    it = button(window)
    assert (it.text().strip(), it.accessibleName()) == ("Auto", "Thinking: Auto (on)")
    show(QWEN, chosen="off", chosen_at="chat", limit=256)
    assert (it.text().strip(), it.accessibleName()) == ("Off", "Thinking: Off, this chat")
    assert "256 tokens" in it.accessibleDescription()
    show(QWEN, chosen="high", chosen_at="weights", limit=0)  # another model's effort
    assert it.text().strip() == "Auto"
    show(KIMI, chosen="high", chosen_at="message", thoughts="First,\nlist it")
    assert it.text().strip() == "High · started"
    assert "“First, list it”" in it.toolTip()


def test_whatever_a_template_calls_an_effort_is_shown_as_it_is(show: Any, desk: Any) -> None:
    offer = ThinkingOffer(["a&b", "z" * 60], "", [], has_reasoning=True)
    window = show(offer, chosen="a&b", chosen_at="chat", thoughts="<b>So</b>")
    it = button(window)
    assert it.text().strip() == "A&&b · started"
    assert "&lt;b&gt;So" in it.toolTip()  # Qt would show it in bold
    entries(it.menu())["Zzzzzzzzzzzzzzzz…"].trigger()
    assert desk.called("thinking.choose") == [("z" * 60,)]


def test_the_menu_chooses(show: Any, desk: Any) -> None:
    window = show(KIMI, chosen="low", limit=500)
    menu = button(window).menu()
    assert list(entries(menu))[:6] == ["Thinking", "Auto (on)", "On", "Off", "Low", "High"]
    assert checked(menu) == ["Low", "This chat", "500 tokens"]
    entries(menu)["High"].trigger()
    entries(menu)["Auto (on)"].trigger()
    assert desk.called("thinking.choose") == [("high",), ("",)]
    entries(menu)["1,024 tokens"].trigger()
    entries(menu)["No limit"].trigger()
    assert desk.called("thinking.limit_to") == [(1024,), (0,)]
    entries(menu)["Next reply only"].trigger()
    assert desk.thinking.scope == "message"


def test_any_number_is_a_limit(show: Any, desk: Any, qtbot: QtBot) -> None:
    window = show(QWEN, limit=500)
    entries(button(window).menu())["Other…"].trigger()
    dialog = window.findChild(QInputDialog, "reasoning_limit_dialog")
    number = dialog.findChild(QLineEdit)
    assert number.selectedText() == "500"
    for wrong in ("0", "x"):
        number.clear()
        qtbot.keyClicks(number, wrong)
        qtbot.keyClick(number, Qt.Key.Key_Return)
        assert dialog.isVisible()
    number.clear()
    qtbot.keyClicks(number, "1500")
    qtbot.keyClick(number, Qt.Key.Key_Return)
    assert desk.called("thinking.limit_to") == [(1500,)]
    qtbot.waitUntil(lambda: window.findChild(QInputDialog, "reasoning_limit_dialog") is None)
    show(QWEN, limit=0)
    window.action_registry.run("limit_reasoning")
    assert window.findChild(QInputDialog, "reasoning_limit_dialog").textValue() == "1024"


def test_what_was_begun_is_seen_where_the_model_has_no_reasoning(show: Any) -> None:
    window = show(ThinkingOffer(), thoughts="So")
    assert button(window).isVisible()
    assert "Let the model start" in entries(button(window).menu())
    show(ThinkingOffer(), thoughts="")
    assert not button(window).isVisible()


def test_reasoning_is_begun_in_a_small_window(show: Any, desk: Any, qtbot: QtBot) -> None:
    window = show(QWEN)
    window.action_registry.run("begin_reasoning")
    field = window.findChild(QPlainTextEdit, "reasoning_start")
    field.setPlainText("First, the facts.")
    window.findChild(QPushButton, "reasoning_start_save").click()
    assert desk.called("thinking.begin_with") == [("First, the facts.",)]
    qtbot.waitUntil(lambda: window.findChild(QPlainTextEdit, "reasoning_start") is None)
    show(QWEN, thoughts="First")
    entries(button(window).menu())["Edit the start of the reasoning…"].trigger()
    assert window.findChild(QPlainTextEdit, "reasoning_start").toPlainText() == "First"
    window.findChild(QPushButton, "reasoning_start_remove").click()
    assert desk.called("thinking.begin_with")[-1] == ("",)
    qtbot.waitUntil(lambda: window.findChild(QPlainTextEdit, "reasoning_start") is None)


def test_the_palette_knows_it(show: Any, desk: Any) -> None:
    window = show(ThinkingOffer())
    names = ("thinking", "thinking_auto", "thinking_on", "thinking_off", "begin_reasoning")
    assert not any(window.action_registry[name].is_enabled() for name in names)
    show(QWEN)
    assert all(window.action_registry[name].is_enabled() for name in names)
    window.action_registry.run("thinking_off")
    assert desk.called("thinking.choose") == [("off",)]
