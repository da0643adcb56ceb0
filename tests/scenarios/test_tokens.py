"""Tokens in the whole window: those of a reply, of a text that one tries, and the vocabulary."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QTabBar, QTableView, QWidget
from shown_numbers import number_in

from app.insight.tokenizer.merges import NO_FILE
from ui.section.chips import ChipView
from ui.section.section import Section
from ui.section.tokens.merge_steps import MergeSteps
from ui.section.tokens.panel import TokensPanel
from ui.section.tokens.reply_tokens import ReplyTokens
from ui.shell.section_acts import OTHER_KEYS, PLACES

SCRIPT: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [{"text": "Paris, of course. It has been the capital for long."}],
}


def open_panel(person: Any) -> TokensPanel:
    """As a user does: the panels; this one is the first."""
    person.window.action_registry.run("toggle_section")
    panel: TokensPanel = person.wait(lambda: person.window.findChild(TokensPanel))
    return panel


def column(table: QTableView, at: int) -> list[str]:
    model = table.model()
    return [str(model.index(row, at).data()) for row in range(model.rowCount())]


def test_the_tokens_of_a_reply_from_the_first_click(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    open_panel(person)
    room = person.wait(lambda: person.window.findChild(ReplyTokens))
    person.send("Which city?")
    reply = person.wait_ended()
    table = person.find(QTableView, "token_table")
    person.wait(lambda: table.model().rowCount() == reply.counts.generated)
    shown = "".join(column(table, 1)).replace("·", " ")
    assert shown.startswith(reply.content)
    person.wait(lambda: set(column(table, 7)) >= {"normal"})
    person.wait(lambda: room.plot.points)

    person.click("most_uncertain_button")
    entropies = [number_in(text) for text in column(table, 5)]
    assert entropies[table.currentIndex().row()] == max(entropies)

    table.setFocus()
    person.qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert b"".join(bytes.fromhex(row["Bytes"]) for row in rows).decode().startswith(reply.content)


def test_without_a_file_merges_are_not_there_and_it_says_so(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_panel(person)
    panel.rooms.setCurrentIndex(1)
    person.wait(lambda: person.find(QLabel, "merge_sentence").text() == NO_FILE)
    assert person.find(ChipView, "tokenise_chips").chips.rowCount() > 0
    panel.rooms.setCurrentIndex(2)
    person.wait(lambda: person.find(QTableView, "vocabulary_table").model().rowCount() > 0)
    person.wait(lambda: person.find(QLabel, "vocabulary_caption").text() == NO_FILE)


@pytest.mark.weights
def test_a_text_its_merges_and_its_ids_with_the_included_weights(open_window: Any) -> None:
    person = open_window()
    person.qtbot.waitUntil(lambda: person.app.desk.loader.state.state == "ready", timeout=60_000)
    panel = open_panel(person)
    panel.rooms.setCurrentIndex(1)
    field = person.find(QPlainTextEdit, "tokenise_text")
    text = "Donaudampfschiff 🦊 €3.50 isn't<|im_end|>"
    field.selectAll()
    field.insertPlainText(text)
    figure = person.find(QWidget, "tokenise_figure")
    n_bytes = len(text.encode())
    person.wait(lambda: figure.text().endswith(f"{len(text)} characters · {n_bytes} bytes"))
    steps = person.find(MergeSteps, "merge_steps")
    chips = person.find(ChipView, "tokenise_chips").chips

    def replayed_ids() -> list[int | None]:
        return [] if steps._replay is None else steps._replay.ids

    def shown_ids() -> list[int]:
        return [int(chips.chip(row).below.split()[0]) for row in range(chips.rowCount())]

    person.wait(lambda: replayed_ids() and replayed_ids() == shown_ids())
    n_as_text = len(shown_ids())

    person.click("tokenise_special")
    person.wait(lambda: replayed_ids() == shown_ids() and len(shown_ids()) < n_as_text)
    assert chips.chip(chips.rowCount() - 1).text == "<|im_end|>"
    person.wait(lambda: chips.chip(chips.rowCount() - 1).below.endswith("control"))

    person.click("merge_first_button")
    assert steps.step == 0
    person.click("merge_next_button")
    assert "(rank " in person.find(QLabel, "merge_sentence").text()

    person.click("copy_ids_button")
    panel.rooms.setCurrentIndex(2)
    table = person.find(QTableView, "vocabulary_table")
    person.wait(lambda: table.model().rowCount() == 49_152)
    person.find(QLineEdit, "ids_field").setText(QGuiApplication.clipboard().text())
    assert person.find(QPlainTextEdit, "ids_text").toPlainText() == text

    person.find(QLineEdit, "vocabulary_search").setText("<|im_end|>")
    person.wait(lambda: column(table, 1) == ["<|im_end|>"])
    assert column(table, 3) == ["control"]


def test_each_panel_has_a_key(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.find(QWidget, "composer").setFocus()
    for number, (name, _, panel, room) in enumerate(PLACES, 1):
        key = QKeySequence(OTHER_KEYS.get(name, f"Ctrl+{number}"))[0]
        person.press(key.key(), key.keyboardModifiers())
        tabs = person.find(QTabBar, "section_tabs")
        person.wait(lambda tabs=tabs, panel=panel: tabs.tabText(tabs.currentIndex()) == panel)
        section = person.find(Section, "section")
        person.wait(lambda section=section, panel=panel: section.isVisible() and section.panel())
        rooms = [each for each in section.panel().findChildren(QTabBar) if each.isVisible()]
        if room and panel != "Time":  # there it is a card, which comes with the first reply
            assert room in [each.tabText(each.currentIndex()) for each in rooms]
