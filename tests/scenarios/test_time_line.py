"""The time line in the whole window: while a reply grows, when it has ended, and another day."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTabBar, QWidget
from shown_numbers import number_in

from ui.section.section import Section
from ui.section.time.panel import GROWING, NOT_RECORDED, RECORDED, TimePanel

REPLY = {
    "match": "colour",
    "prefill": {"tokens": 300, "ms": 120, "chunks": 3},
    "tokens": [{"text": f" word{n % 7}", "ms": 8} for n in range(30)],
}
SCRIPT = {"load": {"ms": 5}, "replies": [REPLY]}
Open = Callable[..., Any]


def open_time(person: Any) -> TimePanel:
    """The section, where it is not open, and its tab."""
    if not person.window.columns.is_section_shown:
        person.window.action_registry.run("toggle_section")
    section = person.wait(lambda: person.window.findChild(Section, "section"))
    person.wait(section.isVisible)
    tabs = person.find(QTabBar, "section_tabs")
    at = next(i for i in range(tabs.count()) if tabs.tabText(i) == "Time")
    tabs.setCurrentIndex(at)
    return person.wait(lambda: isinstance(section.panel(), TimePanel) and section.panel())


def total_of(panel: TimePanel) -> str:
    return panel.parts._rows[-1][1].text()


def test_it_follows_a_reply_to_its_end_and_is_there_another_day(open_window: Open) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_time(person)
    assert "Send a message" in panel.caption.text()
    person.send("Which colour?")
    person.wait(lambda: panel.caption.text() == GROWING)
    person.wait(lambda: panel.prefill.isVisible() and "300 tokens" in panel.prefill.text())
    person.wait(lambda: len(panel.line.bars) > 0)
    reply = person.wait_ended()
    person.wait(lambda: panel.caption.text().startswith(RECORDED))
    assert len(panel.line.bars) == 30
    shown = number_in(total_of(panel))
    assert shown == pytest.approx(1000 * reply.counts.total_s, abs=0.1)
    chunks = [one.tokens for one in panel.line.stretches if one.kind == "prefill"]
    assert chunks == [100, 100, 100]
    assert panel.ending.text() == "Ended: finished."

    QTest.mouseClick(
        panel.line, Qt.MouseButton.LeftButton, pos=panel.line.rect_of_token(20).center().toPoint()
    )
    token = person.app.window.section_acts.looking().index
    assert token is not None
    assert "word" in panel.readout.text()
    name = person.find(QWidget, "section_token").text()
    assert f"token {token + 1}" in name
    total = total_of(panel)
    person.app.close()

    again = open_window(SCRIPT)
    again.wait_ready()
    panel = open_time(again)
    again.wait(lambda: len(panel.line.bars) == 30)
    assert total_of(panel) == total


def test_a_stopped_reply_and_one_without_a_record(open_window: Open) -> None:
    """One reply is stopped in prefill; of the other the record is taken away, as of an old one."""
    slow = {"match": "long", "prefill": {"tokens": 300, "ms": 60_000, "chunks": 3}, "text": "No."}
    person = open_window({"load": {"ms": 5}, "replies": [slow, REPLY]})
    person.wait_ready()
    panel = open_time(person)
    person.send("A long one")
    person.wait(lambda: panel.caption.text() == GROWING)
    person.wait(lambda: person.app.desk.loader.state.state == "busy")
    person.app.desk.replies.stop()
    person.wait_ended()
    person.wait(lambda: panel.ending.text() == "Ended: stopped by you.")
    assert [one.kind for one in panel.line.stretches] == ["ending"]
    assert len(panel.line.bars) == 0

    person.send("Which colour?")
    reply = person.wait_ended()
    person.wait(lambda: panel.caption.text().startswith(RECORDED))
    del reply.settings["timeline"]
    panel._refresh_trace()
    assert panel.caption.text() == NOT_RECORDED
    assert len(panel.line.bars) == 30


@pytest.mark.weights
def test_the_capital_of_france_in_text_mode(open_window: Open, made_gguf: Path) -> None:
    """The real engine: what the panel says adds up to its clock, and a token's milliseconds are
    those of its trace."""
    person = open_window(None, "--gguf", str(made_gguf))
    person.wait_ready()
    desk = person.app.desk
    desk.settings.set("max_tokens", 12)
    desk.shelf.open_new_text()
    text = "The capital of France is"
    assert desk.text.go_on(text, len(text))
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=90_000
    )
    panel = open_time(person)
    reply = person.reply()
    assert 0 < reply.counts.generated <= 12  # it may end by itself
    person.wait(lambda: len(panel.line.bars) == reply.counts.generated)
    assert number_in(total_of(panel)) == pytest.approx(1000 * reply.counts.total_s, abs=1.0)
    traces = person.app.window.section_acts.looking().traces
    assert panel.line.bars.ms.tolist() == pytest.approx([token.ms for token in traces])
    kinds = {one.kind for one in panel.line.stretches}
    assert {"rendering", "queued", "settling", "prefill", "first", "decode"} <= kinds
