"""What else was on the table, and how another token takes the place of the one that is there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import ConversationOpened
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces
from models.records import Message
from ui.section.looking import Looking
from ui.section.panel import Tools
from ui.section.tokens.alternatives import BRANCH_HERE, Alternatives

TRACE = trace_of([b"A", b" b", b"c"])
BEST, SECOND = 101, 7


def words() -> Pieces:
    """ID 7 is " red", all others are empty."""
    offsets = [0] * 8 + [4] * 200
    return Pieces(
        VocabularyTable(
            Array.of("i8", offsets),
            b" red",
            Array("i4", [0], b""),
        )
    )


@pytest.fixture
def shown(
    tools: Tools,
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
    ask: Callable[..., tuple[Message, ...]],
    qtbot: QtBot,
) -> Alternatives:
    """The second token of a reply is looked at."""
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(desk.shelf.open, desk.shelf.path))
    looking.traces = TRACE
    looking.select(1)
    built = Alternatives(tools)
    qtbot.addWidget(built)
    built.resize(380, 300)
    built.candidates.show(TRACE[1], words())
    built.show()
    qtbot.waitExposed(built)
    return built


def cells(shown: Alternatives, row: int) -> list[str]:
    model = shown.candidates
    return [str(model.data(model.index(row, column)) or "") for column in (0, 1, 3)]


def test_each_candidate_has_its_probability_and_where_it_ended(shown: Alternatives) -> None:
    assert cells(shown, 0) == ["·b", "50.0", "drawn"]
    assert cells(shown, 1) == ["·red", "25.0", "top-k"]
    assert shown.table.currentIndex().row() == 0
    shown.candidates.show(TRACE[1], None)
    assert cells(shown, 0)[0] == "·b"  # the token's own piece was recorded
    assert cells(shown, 1)[0] == "ID 7"


def test_a_token_that_was_chosen_is_not_called_drawn(shown: Alternatives, looking: Looking) -> None:
    chosen = msgspec.structs.replace(TRACE[1], chosen=True, uniform=None)
    looking.traces = [TRACE[0], chosen, TRACE[2]]
    shown.candidates.show(chosen, words())
    assert cells(shown, 0)[2] == "chosen by you"
    assert shown.hint.text() == "You chose this token; it wasn't drawn."


def test_enter_branches_with_the_candidate_under_the_keyboard(
    shown: Alternatives, desk: FakeDesk, qtbot: QtBot
) -> None:
    shown.table.setFocus()
    qtbot.keyClick(shown.table, Qt.Key.Key_Down)
    assert desk.called("branches.at") == []
    qtbot.keyClick(shown.table, Qt.Key.Key_Return)
    assert desk.called("branches.at") == [("m2", 1, SECOND)]


def test_a_double_click_branches_and_a_click_does_not(
    shown: Alternatives, desk: FakeDesk, qtbot: QtBot
) -> None:
    table = shown.table
    place = table.visualRect(shown.candidates.index(1, 0)).center()
    left = Qt.MouseButton.LeftButton
    qtbot.mouseClick(table.viewport(), left, pos=place)
    assert desk.called("branches.at") == []
    qtbot.mouseDClick(table.viewport(), left, pos=place)
    assert desk.called("branches.at") == [("m2", 1, SECOND)]


@pytest.mark.parametrize("reason", ["mouse", "keyboard"])
def test_the_menu_branches_with_the_row_that_it_is_about(
    shown: Alternatives, desk: FakeDesk, qtbot: QtBot, reason: str
) -> None:
    table = shown.table
    place = table.visualRect(shown.candidates.index(1, 0)).center()
    why = QContextMenuEvent.Reason.Mouse
    if reason == "keyboard":
        table.selectRow(1)
        place, why = QPoint(1, 1), QContextMenuEvent.Reason.Keyboard
    QApplication.sendEvent(
        table.viewport(), QContextMenuEvent(why, place, table.viewport().mapToGlobal(place))
    )
    menu = table.findChild(QMenu, "alternatives_menu")
    assert menu is not None
    assert [action.text() for action in menu.actions()] == [BRANCH_HERE]
    with qtbot.waitSignal(menu.destroyed):
        menu.actions()[0].trigger()
        menu.close()
    assert desk.called("branches.at") == [("m2", 1, SECOND)]


def test_below_the_last_row_there_is_no_menu(shown: Alternatives) -> None:
    view = shown.table.viewport()
    place = QPoint(5, view.height() - 2)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, view.mapToGlobal(place))
    QApplication.sendEvent(view, event)
    assert shown.table.findChild(QMenu, "alternatives_menu") is None


def test_a_text_is_given_as_it_was_typed(shown: Alternatives, desk: FakeDesk, qtbot: QtBot) -> None:
    assert shown.button.objectName() == "branch_text_button"
    assert not shown.button.isEnabled()
    qtbot.keyClicks(shown.text, " two words ")
    assert shown.button.isEnabled()
    qtbot.mouseClick(shown.button, Qt.MouseButton.LeftButton)
    assert desk.called("branches.at_text") == [("m2", 1, " two words ")]
    assert shown.text.text() == ""
    qtbot.keyClicks(shown.text, "x")
    qtbot.keyClick(shown.text, Qt.Key.Key_Return)
    assert desk.called("branches.at_text")[1:] == [("m2", 1, "x")]


def test_without_a_token_the_empty_table_says_what_to_do(
    shown: Alternatives, looking: Looking
) -> None:
    looking.select(None)
    shown.candidates.show(None, None)
    with_words = shown.table.viewport().grab().toImage()
    shown.table.empty_words = ""
    assert shown.table.viewport().grab().toImage() != with_words
    assert "Choose a token" in shown.table.accessibleDescription()


def test_without_a_token_nothing_can_be_done(
    shown: Alternatives, looking: Looking, desk: FakeDesk, qtbot: QtBot
) -> None:
    looking.select(None)
    shown.candidates.show(None, None)
    assert not shown.text.isEnabled()
    assert "Choose a token" in shown.table.empty_words
    qtbot.keyClick(shown.table, Qt.Key.Key_Return)
    assert desk.calls == [] or not desk.called("branches.at")
