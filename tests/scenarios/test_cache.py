"""The cache in the whole window: cells as a reply grows, changes by hand, one step, and the cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QTabBar, QWidget

from ui.section.cache import panel as panel_module
from ui.section.cache.panel import EMPTY, CachePanel
from ui.section.section import Section

SHAPE = {
    "@": "CacheShape",
    "layers": [
        {
            "@": "CacheLayers",
            "n_layers": 30,
            "k_width": 192,
            "v_width": 192,
            "k_bytes": 384,
            "v_bytes": 384,
            "n_head_kv": 3,
        }
    ],
}
LOADED = {"kv_bytes_per_token": 23_040, "cache": SHAPE, "n_ctx": 4096}
SLOW = {"match": "slow", "tokens": [{"text": " word", "ms": 10, "repeat": 300}]}
SCRIPT = {
    "load": {"ms": 5, "loaded": LOADED},
    "replies": [SLOW, {"text": "Paris is the capital of France."}],
    "measured": {"step_ms": [12.5], "replay_ms": [640], "ms": 5},
}
Open = Callable[..., Any]


def open_cache(person: Any) -> CachePanel:
    if not person.window.columns.is_section_shown:
        person.window.action_registry.run("toggle_section")
    section = person.wait(lambda: person.window.findChild(Section, "section"))
    person.wait(section.isVisible)
    tabs = person.find(QTabBar, "section_tabs")
    at = next(i for i in range(tabs.count()) if tabs.tabText(i) == "Cache")
    tabs.setCurrentIndex(at)
    return person.wait(lambda: isinstance(section.panel(), CachePanel) and section.panel())


def text(person: Any, name: str) -> str:
    return str(person.find(QLabel, name).text())


def n_cells(panel: CachePanel) -> int:
    return panel._told.n_used if panel._told is not None else -1


def test_the_cells_follow_a_conversation_and_hands(open_window: Open) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_cache(person)
    person.wait(lambda: text(person, "cache_empty") == EMPTY)
    person.send("What is the capital of France?")
    reply = person.wait_ended()
    used = reply.counts.prompt_tokens + reply.counts.generated
    person.wait(lambda: n_cells(panel) == used)
    assert text(person, "cache_cells") == f"KV cache: {used} of 4,096 cells"
    legend = [swatch.text() for swatch in panel._swatches]
    assert f"reply {reply.counts.generated}" in legend
    assert text(person, "cache_written") == str(reply.counts.generated)

    # A click on the reply's third token looks at it everywhere.
    cells = panel._cells
    cell = cells.cell_of(reply.id, 2)
    pitch, columns = panel.map.grid.pitch, panel.map.grid.columns
    at = panel.map.rect().topLeft()
    at.setX(cell % columns * pitch + 2)
    at.setY(cell // columns * pitch + 2)
    QTest.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=at)
    looking = panel._looking
    person.wait(lambda: looking.index == 2)
    assert looking.message.id == reply.id
    assert looking.token.token_id == cells.token_id(cell)

    person.click("cache_keep_button")
    person.wait(lambda: n_cells(panel) == reply.counts.prompt_tokens + 3)
    person.send("And of Italy?")
    assert person.wait_ended().counts.reused == reply.counts.prompt_tokens + 3

    person.wait(person.find(QAbstractButton, "measure_button").isEnabled)
    person.click("measure_button")
    person.wait(lambda: text(person, "cache_step_with") == "12.5 ms")
    assert text(person, "cache_step_without") == "640 ms"

    person.wait(person.find(QAbstractButton, "cache_park_button").isEnabled)
    person.click("cache_park_button")
    person.wait(lambda: n_cells(panel) == 0 and panel._told.parked)
    person.wait(lambda: person.window.findChild(QAbstractButton, "drop_parked_button"))
    person.click("drop_parked_button")
    person.wait(lambda: panel._told is not None and not panel._told.parked)


def test_while_a_reply_streams_the_map_grows_and_nothing_can_be_changed(
    open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_module, "STREAM_MS", 100)
    person = open_window(SCRIPT)
    person.wait_ready()
    panel = open_cache(person)
    person.send("A slow one")
    person.wait_growing()
    first = person.wait(lambda: n_cells(panel) > 0 and n_cells(panel))
    person.wait(lambda: n_cells(panel) > first + 5)
    assert not person.find(QAbstractButton, "cache_clear_button").isEnabled()
    person.click("stop_button")
    person.wait_ended()
    person.wait(lambda: person.find(QAbstractButton, "cache_clear_button").isEnabled())
    person.click("cache_clear_button")
    person.wait(lambda: text(person, "cache_empty") == EMPTY)


def test_a_chat_that_is_too_long_has_a_line_where_it_is_cut(open_window: Open) -> None:
    script = {
        "load": {"ms": 5, "loaded": {"n_ctx": 128}},
        "replies": [{"text": "Ten words or so."}],
    }
    person = open_window(script)
    person.wait_ready()
    panel = open_cache(person)
    for number in range(5):
        person.send(f"A question of a few words, number {number}, is it not?")
        person.wait_ended()
        if not number:  # all of it fits, however long one waits
            assert person.window.findChild(QWidget, "cut_line") is None
    person.type("And one more?")
    line = person.wait(lambda: person.window.findChild(QWidget, "cut_line"))
    transcript = person.window.chat.transcript
    cut = transcript.rows.index_of(line._message_id)
    n_cut = cut + 1
    person.wait(lambda: f"drops {n_cut} older messages" in text(person, "cache_policy_caption"))
    transcript.verticalScrollBar().setValue(0)
    transcript.scroll_to(transcript.rows.top(cut))
    person.wait(line.isVisible)
    foot = transcript.item_origin(cut).y() + transcript.rows.height(cut)
    assert foot - 30 <= line.y() <= foot
    # Where nothing is left out, there is no line.
    choice = panel.policy_card.choice
    choice.activated.emit(choice.findData("stop"))
    person.wait(lambda: not line.isVisible())
    assert person.app.desk.settings.now.context_policy == "stop"


@pytest.mark.weights
def test_with_the_included_weights_it_tells_a_true_story(open_window: Open) -> None:
    """The sentence of the tour, as a text: five tokens read, the rest written."""
    person = open_window()
    desk = person.app.desk
    for name, value in {"n_threads": 1, "max_tokens": 12, "temperature": 0.0}.items():
        desk.settings.set(name, value)
    person.qtbot.waitUntil(lambda: desk.loader.state.state == "ready", timeout=90_000)
    desk.shelf.open_new_text()
    sentence = "The capital of France is"
    desk.text.save(sentence, len(sentence))
    assert desk.text.go_on(sentence, len(sentence))
    person.qtbot.waitUntil(
        lambda: not desk.replies.is_generating and person.reply() is not None, timeout=90_000
    )
    panel, counts = open_cache(person), person.reply().counts
    # The last token that was written is in no cell: nothing has been read after it.
    used = counts.prompt_tokens + counts.generated - 1
    person.wait(lambda: n_cells(panel) == used == 5 + 12 - 1)
    legend = [swatch.text() for swatch in panel._swatches]
    assert legend[:2] == ["text 5", "reply 11"]
    rows = ("reused", "evaluated", "written")
    assert [text(person, f"cache_{row}") for row in rows] == ["0", "5", "12"]
    assert text(person, "cache_formula_0") == "23 kB"
    (slot,) = panel._told.slots
    header = 8 + 16 + 12 * used + 24 * 30
    assert slot.state_bytes == used * 30 * (192 + 192) * 2 + header
    assert f"{header:,} of header" in text(person, "cache_copy_caption")
    person.click("measure_button")
    person.qtbot.waitUntil(lambda: not panel.step_card.is_measuring, timeout=90_000)
    assert text(person, "cache_step_with").endswith(" ms")
    assert text(person, "cache_step_caption").startswith("For the token after 16")
    person.wait(lambda: n_cells(panel) == used)
