"""Labels, buttons and timers of one call each."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from ui.widgets.kit import plain_label, push_button, rest_timer, show_tip


def test_a_label_shows_markup_as_it_is(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    label = plain_label("<b>a</b>", window, "small", name="words", spoken="Words", wraps=True)
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert label.wordWrap()
    assert (label.objectName(), label.accessibleName()) == ("words", "Words")
    assert label.property("kind") == "small"
    assert label.parent() is window
    assert plain_label("a", window).property("kind") is None


@pytest.mark.parametrize(
    "words", ["“<s>” & “</s>”:  50%\nof the rest", "“<b>”", "“The” 1 < 2\n“<s>”", "“<bos>”"]
)
def test_a_tip_shows_tokens_that_look_like_markup(words: str, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    show_tip(QPoint(0, 0), words, window)
    tips = [each for each in QApplication.topLevelWidgets() if each.inherits("QTipLabel")]
    shown = tips[-1]
    assert isinstance(shown, QLabel)
    document = QTextDocument()
    document.setHtml(shown.text())
    assert document.toPlainText() == words
    show_tip(QPoint(0, 0), "R & D\nof all", window)
    assert QToolTip.text() == "R & D\nof all"
    QToolTip.hideText()


def test_a_button_does_its_act(qtbot: QtBot) -> None:
    done: list[str] = []
    button = push_button(
        "Go",
        None,
        "go_button",
        kind="primary",
        spoken="Go on",
        hint="Now",
        act=lambda: done.append(""),
    )
    qtbot.addWidget(button)
    button.click()
    assert done == [""]
    assert (button.objectName(), button.accessibleName()) == ("go_button", "Go on")
    assert (button.toolTip(), button.property("kind")) == ("Now", "primary")


def test_what_comes_in_a_row_is_done_once(qtbot: QtBot, qapp: QApplication) -> None:
    done: list[str] = []
    parent = QObject()
    timer = rest_timer(parent, lambda: done.append(""), 1)
    for _ in range(3):
        timer.start()
    qtbot.waitUntil(lambda: not timer.isActive())
    assert done == [""]
