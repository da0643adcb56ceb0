"""A reply that fails at its chat template, and the way out of it, by keys and by the mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from models.records import MessageState

BROKEN = "{{ messages.nothing.of_it }}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Weights that say “Six” after a line break, with a template that fails."""
    vocabulary = bpe_vocabulary(["Six"])
    successors = {vocabulary.id_of("\n"): vocabulary.id_of("Six")}
    path = tmp_path / "broken.gguf"
    tiny_llama(path, vocabulary=vocabulary, successors=successors, template=BROKEN)
    return path


def by_mouse(transcript: Any) -> None:
    actions = transcript.rows.item(1).actions(0, 10_000)
    button = next(each for each in actions if each.name == "choose_format")
    place = (button.rect.center() + transcript.item_origin(1)).toPoint()
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=place)


def by_keys(transcript: Any) -> None:
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(transcript, Qt.Key.Key_End)
    QTest.keyClick(transcript, Qt.Key.Key_Tab)
    QTest.keyClick(transcript, Qt.Key.Key_Return)


@pytest.mark.weights
def test_another_format_is_chosen_and_the_message_is_answered(open_window: Any, file: Path):
    person = open_window(None, "--gguf", str(file))
    person.wait_ready()
    person.send("How many legs have ants?")
    failed = person.wait_ended()
    assert (failed.state, failed.stop_reason) == (MessageState.FAILED, "bad_template")

    transcript = person.window.chat.transcript
    person.wait(lambda: not transcript.is_update_due)  # where its button stands is known then
    for open_menu in (by_keys, by_mouse):
        open_menu(transcript)
        menu = person.window.chat.banners.findChild(QMenu, "format_menu")
        assert menu is not None
        assert menu.isVisible()
        if open_menu is by_keys:
            QTest.keyClick(menu, Qt.Key.Key_Escape)
            person.wait(lambda: not person.window.chat.banners.findChildren(QMenu, "format_menu"))
    QTest.keyClick(menu, Qt.Key.Key_Down)
    chosen = menu.activeAction().objectName()
    QTest.keyClick(menu, Qt.Key.Key_Return)

    person.wait(lambda: person.reply() and person.reply().content == "Six")
    answered = person.wait_ended()
    assert answered.settings["chat_format"] == chosen == "chatml"
    assert answered.settings["levels"]["chat_format"] == "weights"
    assert answered.sibling_count == 2
