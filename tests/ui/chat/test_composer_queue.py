"""The queue above the composer: order, changing in place, removing, by mouse and keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPlainTextEdit

from app.chat.events import QueuedMessage
from ui.chat.composer import Composer
from ui.chat.composer_queue import QueuedRow
from ui.look.theme import Theme


def queued(number: int, text: str = "") -> QueuedMessage:
    return QueuedMessage(f"q{number}", "c", text or f"message {number}")


@pytest.fixture
def composer(qtbot) -> Composer:
    made = Composer(Theme("light"))
    qtbot.addWidget(made)
    made.resize(600, 500)
    with qtbot.waitExposed(made):
        made.show()
    made.focus()
    return made


def rows_of(composer: Composer) -> list[QueuedRow]:
    return composer.queue.rows()


def test_rows_stand_in_order_above_the_card_and_leave(qtbot, composer: Composer) -> None:
    composer.set_queue([queued(1), queued(2)], is_held=False)
    first, second = rows_of(composer)
    assert first.accessibleName() == "Queued: message 1"
    field = composer.focusWidget()

    def are_in_order() -> bool:
        tops = [w.mapTo(composer, w.rect().topLeft()).y() for w in (first, second, field)]
        return tops == sorted(set(tops))

    qtbot.waitUntil(are_in_order)
    words = composer.findChild(QLabel, "queue_words")
    assert words.text() == "Sent when the reply is finished · 2 queued"
    assert not composer.queue.send_button.isVisible()
    composer.set_queue([], is_held=False)
    assert not composer.queue.isVisible()


def test_what_is_held_says_so_and_offers_to_go_on(qtbot, composer: Composer) -> None:
    composer.set_queue([queued(1)], is_held=True)
    words = composer.findChild(QLabel, "queue_words").text()
    assert words == "On hold: send when you're ready"
    with qtbot.waitSignal(composer.send_next_requested):
        QTest.mouseClick(composer.queue.send_button, Qt.MouseButton.LeftButton)
    composer.queue.send_button.setFocus()
    composer.set_queue((), is_held=False)
    assert composer.focusProxy().hasFocus(), "the button is gone, and writing goes on"


def test_each_key_in_a_queued_message_is_told(composer: Composer) -> None:
    typed: list[tuple[str, str]] = []
    composer.queued_typed.connect(lambda *said: typed.append(said))
    composer.set_queue([queued(1, "one")], is_held=False)
    (row,) = rows_of(composer)
    row.begin_edit()
    edit = row.findChild(QPlainTextEdit, "queued_edit")
    QTest.keyClicks(edit, " b")
    assert typed == [("q1", "one "), ("q1", "one b")]
    QTest.keyClick(edit, Qt.Key.Key_Escape)
    assert len(typed) == 2


def test_it_is_changed_in_place(composer: Composer) -> None:
    begun, changed = [], []
    composer.queued_edit_begun.connect(begun.append)
    composer.queued_changed.connect(lambda *said: changed.append(said))
    composer.set_queue([queued(1, "one\ntwo\u00a0")], is_held=False)
    (row,) = rows_of(composer)
    QTest.mouseClick(row.edit_button, Qt.MouseButton.LeftButton)
    edit = row.findChild(QPlainTextEdit, "queued_edit")
    assert (begun, edit.toPlainText(), edit.hasFocus()) == (["q1"], "one\ntwo ", True)
    composer.set_queue([queued(1, "one\ntwo\u00a0")], is_held=False)
    assert row.is_edited, "news of the queue do not take the text away"
    QTest.keyClicks(edit, "!")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    assert changed == [("q1", "one\ntwo\u00a0!")]
    assert not row.is_edited
    assert row.hasFocus()


def test_escape_leaves_it_as_it_was(composer: Composer) -> None:
    changed: list[tuple[str, str]] = []
    composer.queued_changed.connect(lambda *said: changed.append(said))
    composer.set_queue([queued(1)], is_held=False)
    (row,) = rows_of(composer)
    row.setFocus()
    QTest.keyClick(row, Qt.Key.Key_Return)
    edit = row.findChild(QPlainTextEdit, "queued_edit")
    QTest.keyClicks(edit, " gone")
    QTest.keyClick(edit, Qt.Key.Key_Escape)
    assert changed == [("q1", "message 1")]


def test_it_is_removed_by_mouse_and_by_keyboard(composer: Composer) -> None:
    removed: list[str] = []
    composer.queued_removed.connect(removed.append)
    composer.set_queue([queued(1), queued(2)], is_held=False)
    first, second = rows_of(composer)
    QTest.mouseClick(first.remove_button, Qt.MouseButton.LeftButton)
    second.setFocus()
    QTest.keyClick(second, Qt.Key.Key_Delete)
    assert removed == ["q1", "q2"]
    composer.set_queue([queued(1)], is_held=False)
    assert rows_of(composer)[0].hasFocus()
    composer.set_queue([], is_held=False)
    assert composer.focusWidget().objectName() == "composer"


def test_many_rows_scroll(qtbot, composer: Composer) -> None:
    composer.set_queue([queued(n) for n in range(20)], is_held=False)
    qtbot.waitUntil(lambda: composer.queue.height() < 220)
    assert rows_of(composer)[-1].height() > 20
