"""Step mode in the window: the button, the bar above the composer, its keys and its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, message

from app.chat.events import ConversationOpened, HeldEnded, StepModeChanged, TokenHeld
from models.records import MessageState, Role
from ui.tokens.step_bar import StepBar

if TYPE_CHECKING:
    from ui.shell.window import MainWindow

TRACE = trace_of([b"Paris", b" is"])
DRAWN, OTHER = 100, 7
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    """The reply to a question has said “The city is ” and waits at its first token."""
    desk.shelf.path = (
        message(1, Role.USER, "Which city?"),
        message(2, Role.ASSISTANT, "The city is ", state=MessageState.STREAMING),
    )
    return open_window()


def hold(desk: FakeDesk, bridge: FakeBridge, token: Any = TRACE[0]) -> None:
    desk.step.held_token = TokenHeld("c1", "m2", token)
    bridge.emit_event(desk.step.held_token)


def bar_of(window: MainWindow) -> StepBar:
    bar = window.findChild(StepBar, "step_bar")
    assert bar is not None
    return bar


def test_the_button_asks_for_the_mode_and_shows_it(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    button = window.chat.header.step_button
    assert (button.objectName(), button.accessibleName()) == ("step_button", "Step")
    qtbot.mouseClick(button, LEFT)
    assert desk.called("step.begin") == [()]
    assert not button.isChecked()
    desk.step.is_on = True
    bridge.emit_event(StepModeChanged(True))
    assert button.isChecked()
    window.action_registry.run("step_mode")
    assert desk.called("step.run_on") == [()]
    assert window.action_registry.collisions == []


def test_the_bar_is_built_when_a_reply_waits_and_says_what_it_waits_at(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    assert window.findChild(StepBar, "step_bar") is None
    hold(desk, bridge)
    bar = bar_of(window)
    assert bar.isVisible()
    assert bar.text.text() == "The·city·is·"
    assert bar.figure.text() == "token 1 · entropy 1.00 bits"
    assert bar.take_button.text() == "Take “Paris”"
    assert bar.caption.text().startswith("Drawn: “Paris”, 50.0%, rank 1 · ")
    assert "before samplers, at temperature 1" in bar.caption.text()
    assert bar.table.currentIndex().row() == 0
    rows = [bar.table.candidates.ended(bar.table.candidates.candidate(row)) for row in (0, 1)]
    assert rows == ["drawn", "top-k"]
    column = window.chat.layout()
    assert column is not None
    assert column.indexOf(bar) == column.indexOf(window.chat.composer) - 1


@pytest.mark.parametrize(
    ("key", "down", "call"),
    [
        (Qt.Key.Key_Return, 0, ("step.take",)),
        (Qt.Key.Key_Space, 0, ("step.take",)),
        (Qt.Key.Key_Return, 1, ("step.choose", OTHER)),
        (Qt.Key.Key_Space, 1, ("step.take",)),
    ],
)
def test_keys_take_and_choose(
    window: MainWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    key: Qt.Key,
    down: int,
    call: tuple[Any, ...],
) -> None:
    hold(desk, bridge)
    focused = QApplication.focusWidget()
    assert focused is bar_of(window).table
    for _ in range(down):
        qtbot.keyClick(focused, Qt.Key.Key_Down)
    qtbot.keyClick(focused, key)
    assert [each for each in desk.calls if each[0].startswith("step.")] == [call]


def test_clicks_choose_and_buttons_do_the_rest(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    hold(desk, bridge)
    bar = bar_of(window)
    for row in (1, 0):
        place = bar.table.visualRect(bar.table.candidates.index(row, 0)).center()
        qtbot.mouseClick(bar.table.viewport(), LEFT, pos=place)
    for name in ("step_take_button", "step_run_on_button", "step_stop_button"):
        button = bar.findChild(QPushButton, name)
        assert button is not None
        assert button.toolTip()
        qtbot.mouseClick(button, LEFT)
    calls = [each for each in desk.calls if each[0].startswith("step.")]
    assert calls == [
        ("step.choose", OTHER), ("step.take",), ("step.take",), ("step.run_on",), ("step.stop",),
    ]  # fmt: skip


def test_a_double_click_chooses_once(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    """With quick weights the next token waits before the second click comes."""
    hold(desk, bridge)
    bar = bar_of(window)
    view = bar.table.viewport()
    place = bar.table.visualRect(bar.table.candidates.index(1, 0)).center()
    qtbot.mouseClick(view, LEFT, pos=place)
    hold(desk, bridge, TRACE[1])
    at = QPointF(place)
    for kind, held in (
        (QEvent.Type.MouseButtonDblClick, LEFT),
        (QEvent.Type.MouseButtonRelease, Qt.MouseButton.NoButton),
    ):
        around = view.mapToGlobal(at)
        event = QMouseEvent(kind, at, around, LEFT, held, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(view, event)
    assert [each for each in desk.calls if each[0].startswith("step.")] == [("step.choose", OTHER)]
    qtbot.mouseClick(view, LEFT, pos=place)
    assert len(desk.called("step.choose")) == 2, "a click by itself counts again"


def test_who_is_writing_keeps_the_keyboard(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    window.focus_composer()
    before = QApplication.focusWidget()
    window.chat.composer.set_text("half a sen")
    hold(desk, bridge)
    assert bar_of(window).isVisible()
    assert QApplication.focusWidget() is before


def test_the_keyboard_stays_from_token_to_token_and_goes_back_at_the_end(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    hold(desk, bridge)
    hold(desk, bridge, TRACE[1])
    bar = bar_of(window)
    assert bar.take_button.text() == "Take “·is”"
    assert QApplication.focusWidget() is bar.table
    desk.step.held_token = None
    bridge.emit_event(HeldEnded("c1", "m2"))
    assert not bar.isVisible()
    assert window.chat.composer.isAncestorOf(QApplication.focusWidget()) or (
        QApplication.focusWidget() is window.chat.composer
    )


def test_another_chat_hides_it_and_the_held_one_shows_it_again(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    hold(desk, bridge)
    held, desk.step.held_token = desk.step.held_token, None
    bridge.emit_event(ConversationOpened(desk.shelf.open, ()))
    assert not bar_of(window).isVisible()
    desk.step.held_token = held
    bridge.emit_event(ConversationOpened(desk.shelf.open, desk.shelf.path))
    assert bar_of(window).isVisible()


def test_a_drawn_token_that_is_not_among_the_best_is_named(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    far = msgspec.structs.replace(TRACE[0], token_id=9, piece=b"\xff", rank=1234)
    hold(desk, bridge, far)
    bar = bar_of(window)
    assert bar.take_button.text() == "Take “⟨FF⟩”"
    assert "rank 1,234, not shown here" in bar.caption.text()
    qtbot.keyClick(bar.table, Qt.Key.Key_Return)
    assert desk.called("step.take") == [()]
    assert desk.called("step.choose") == []


@pytest.mark.parametrize(("width", "height", "zoom"), [(1180, 780, 100), (900, 600, 200)])
def test_the_transcript_keeps_room_beside_it(
    window: MainWindow,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    width: int,
    height: int,
    zoom: int,
) -> None:
    window.resize(width, height)
    window._theme.set_zoom(zoom)
    hold(desk, bridge)
    bar = bar_of(window)
    qtbot.waitUntil(lambda: bar.height() > 50)
    assert window.chat.body.height() >= 50
    whole_rows = bar.table.viewport().height() / bar.table.rowHeight(0)
    assert whole_rows == int(whole_rows) >= 2
    for each in (bar.table, bar.take_button, bar.stop_button):
        assert bar.card.rect().contains(each.geometry())
    assert bar.table.geometry().bottom() < bar.take_button.geometry().top()


def test_the_keys_of_the_window_do_the_same_while_a_reply_waits(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    actions = window.action_registry
    actions.run("step_take")
    assert desk.called("step.take") == []
    hold(desk, bridge)
    actions.run("step_take")
    actions.run("step_run_on")
    assert (desk.called("step.take"), desk.called("step.run_on")) == ([()], [()])


def test_where_the_header_has_no_room_the_button_is_in_the_menu(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.resize(900, 600)
    button = window.chat.header.step_button
    assert button.isVisible()
    window._theme.set_zoom(300)
    qtbot.waitUntil(lambda: not button.isVisible())
    assert window.width() == 900
    menu = window.chat.header.menu_button.menu()
    menu.aboutToShow.emit()
    assert any("Step mode" in action.text() for action in menu.actions())
    window._theme.set_zoom(100)
    qtbot.waitUntil(button.isVisible)
