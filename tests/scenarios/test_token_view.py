"""The token view by real keys, on the scripted engine: while a reply streams, stored, reopened."""

from __future__ import annotations

import math
from typing import Any

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from ui.transcript.item import CONTENT

CONTROL = Qt.KeyboardModifier.ControlModifier
CITY: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [
        {
            "tokens": [
                {"text": "It", "probability": 0.9, "ms": 5},
                {"text": " is", "probability": 0.99, "ms": 5},
                {"hex": "20c3", "probability": 0.8, "ms": 5},
                {"hex": "bc", "probability": 0.99, "ms": 5},
                {
                    "text": " **Paris**",
                    "probability": 0.25,
                    "rank": 2,
                    "ms": 5,
                    "alternatives": [[" Lyon", 0.5], [" **Paris**", 0.25]],
                },
                {"text": ".\n", "probability": 0.5, "ms": 5},
            ]
        }
    ],
}
LONG: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [{"tokens": [{"text": " word", "probability": 0.5, "ms": 4, "repeat": 200}]}],
}


def toggle(person: Any) -> None:
    """Ctrl+T where the keyboard is."""
    person.qtbot.keyClick(QApplication.focusWidget() or person.window, Qt.Key.Key_T, CONTROL)


def spelled(person: Any, index: int = -1) -> list[str] | None:
    """The groups of a message as they are shown; None where it is not shown as tokens."""
    view = person.window.chat.transcript
    index = index if index >= 0 else len(view.rows) - 1
    body = view.rows.item(index).tokens
    if body is None:
        return None
    body.ensure(0, 1e6)
    return [one.shown for one in body.tokens.groups.spellings]


def is_cut(person: Any, index: int) -> bool:
    message = person.app.desk.shelf.path[index]
    tokens = person.window.chat.transcript.tokens.tokens_of(message.id)
    return tokens is not None and tokens.are_tokens


SHOWN = ["It", "·is", "·ü", "·**Paris**", ".↵"]


def test_tokens_are_seen_while_a_reply_streams_and_text_again(open_window):
    person = open_window(LONG)
    person.wait_ready()
    person.send("Go on")
    person.wait_growing(50)
    toggle(person)
    shown = spelled(person)
    assert shown is not None
    assert set(shown) <= {"·word"}
    person.wait_ended()
    person.wait(lambda: len(spelled(person) or ()) == 200)
    toggle(person)
    assert spelled(person) is None


def test_a_stored_reply_has_its_tokens_after_a_restart(open_window):
    person = open_window(CITY)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    toggle(person)
    person.wait(lambda: spelled(person) == SHOWN)
    person.app.close()

    again = open_window(CITY)
    again.wait(lambda: again.app.desk.shelf.path)
    again.wait(lambda: spelled(again) == SHOWN)  # it was on, and is on again
    again.wait_ready()
    again.wait(lambda: is_cut(again, 0))
    assert "".join(spelled(again, 0)) == "Which·city?"
    tokens = again.window.chat.transcript.tokens.tokens_of(again.app.desk.shelf.path[1].id)
    logprobs = [trace.logprob for trace in tokens.traces]
    assert [round(math.exp(logprob), 2) for logprob in logprobs] == [
        0.9, 0.99, 0.8, 0.99, 0.25, 0.5
    ]  # fmt: skip


def test_arrows_and_enter_choose_for_the_panels(open_window):
    person = open_window(CITY)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    toggle(person)
    person.wait(lambda: spelled(person) == SHOWN)
    view = person.find(QWidget, "transcript")
    view.setFocus(Qt.FocusReason.TabFocusReason)
    person.qtbot.keyClick(view, Qt.Key.Key_End, CONTROL)
    person.qtbot.keyClick(view, Qt.Key.Key_Left)
    person.qtbot.keyClick(view, Qt.Key.Key_Return)
    looking = person.window.section_acts.looking()
    person.wait(lambda: looking.index == 4)
    assert looking.token.piece == b" **Paris**"
    assert person.find(QLabel, "token_card_figures").text().startswith("ID ")
    assert "25.0% · rank 2" in person.find(QLabel, "token_card_figures").text()
    person.qtbot.keyClick(view, Qt.Key.Key_I, CONTROL)  # the panels follow
    person.wait(lambda: "token 5" in person.find(QLabel, "section_token").text())


def test_pointing_shows_the_alternatives_and_one_of_them_branches(open_window):
    person = open_window(CITY)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    toggle(person)
    person.wait(lambda: spelled(person) == SHOWN)
    view = person.window.chat.transcript
    asked: list[tuple[str, int, int]] = []
    view.tokens.branch_requested.connect(lambda *args: asked.append(args))
    card = view.tokens.card()
    person.wait(lambda: person.app.desk.words.of(person.reply().weights_hash))
    move(view, middle_of(view, 1, 4))
    person.wait(card.isVisible)
    (link,) = card.links()
    assert link.accessibleName() == "Branch here with ·Lyon"
    person.qtbot.mouseClick(link, Qt.MouseButton.LeftButton)
    ((message_id, place, token_id),) = asked
    assert (message_id, place) == (person.app.desk.shelf.path[1].id, 4)
    words = person.app.desk.words.of("scripted")
    assert words.piece(token_id) == b" Lyon"
    person.wait(lambda: person.reply().id != message_id)
    person.wait_ended()
    assert person.reply().sibling_count == 2
    person.wait(lambda: (spelled(person) or [])[:4] == ["It", "·is", "·ü", "·Lyon"])
    assert person.app.window.chat.transcript.tokens.is_on


def middle_of(view: Any, index: int, number: int) -> QPointF:
    item = view.rows.item(index)
    corner = item.section_rect(CONTENT).topLeft() + view.item_origin(index)
    return item.tokens.token_rect(number).center() + corner


def move(view: Any, point: QPointF) -> None:
    """The pointer goes there, from somewhere else."""
    for at in (QPointF(1, 1), point):
        event = QMouseEvent(
            QMouseEvent.Type.MouseMove,
            at,
            QPointF(view.viewport().mapToGlobal(at.toPoint())),
            Qt.MouseButton.NoButton,
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(view.viewport(), event)


def test_a_document_is_seen_as_tokens_and_written_on_its_page(open_window):
    person = open_window(CITY)
    person.wait_ready()
    person.qtbot.keyClick(person.window, Qt.Key.Key_T, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    page = person.wait(lambda: person.window.findChild(QWidget, "text_document"))
    person.wait(page.hasFocus)
    person.qtbot.keyClicks(page, "The capital of France is")
    person.qtbot.keyClick(page, Qt.Key.Key_Return, CONTROL)
    person.wait_ended()
    toggle(person)
    view = person.window.chat.transcript
    person.wait(view.isVisible)
    person.wait(lambda: spelled(person) == SHOWN)
    person.wait(lambda: is_cut(person, 0))
    assert "".join(spelled(person, 0)) == "The·capital·of·France·is"
    assert view.hasFocus()
    assert [offer.name for offer in view.offers_of(0)] == ["copy_message"]
    person.qtbot.keyClicks(view, "xyz")  # there is nowhere to write here
    person.qtbot.keyClick(view, Qt.Key.Key_Right)
    toggle(person)
    assert page.isVisible()
    assert not view.isVisible()
    assert page.hasFocus()
    assert person.written() == ""


def test_messages_are_edited_found_and_copied_as_ever(open_window):
    person = open_window(CITY)
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()
    toggle(person)
    person.wait(lambda: spelled(person) == SHOWN)
    view = person.window.chat.transcript
    view.select_all()
    person.wait(lambda: is_cut(person, 0))
    assert view.selected_text() == "Which city?\n\nIt is ü **Paris**.\n"
    person.qtbot.keyClick(view, Qt.Key.Key_F, CONTROL)
    field = person.find(QWidget, "find_field")
    person.qtbot.keyClicks(field, "**paris")
    label = person.find(QLabel, "find_count")
    person.wait(lambda: label.text() == "1 of 1")
    person.qtbot.keyClick(field, Qt.Key.Key_Escape)
    view.setFocus(Qt.FocusReason.TabFocusReason)
    person.qtbot.keyClick(view, Qt.Key.Key_Home, CONTROL)
    person.qtbot.keyClick(view, Qt.Key.Key_E)
    person.wait(lambda: view.rows.item(0).room > 0)
