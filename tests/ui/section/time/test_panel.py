"""The Time panel: what it shows of which reply, and that the line can be read, zoomed and used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from time import thread_time

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QScrollBar, QToolTip
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation

from app.chat.events import (
    ConversationOpened,
    MessageAdded,
    MessageChanged,
    PrefillProgressed,
    TokenRecorded,
    TraceRead,
)
from app.engine.protocol.draft_messages import DraftPosition, DraftReport
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.table import TraceTable
from models.records import Message, MessageCounts, MessageState
from ui.look.theme import Theme
from ui.section.panel import PanelKind, Tools
from ui.section.section import Section
from ui.section.time.line import Hit
from ui.section.time.panel import (
    BEFORE_BRANCH,
    GATHERED,
    GROWING,
    NOT_RECORDED,
    NOTHING_RECORDED,
    POINT,
    RECORDED,
    TimePanel,
)

Ask = Callable[..., tuple[Message, ...]]
PIECES = (b"The", b" capital", b" is", b" Paris", b".")
LINE = [
    ["arriving", 1.0],
    ["rendering", 3.0],
    ["queued", 6.0],
    ["settling", 2.0, 8],
    ["prefill", 60.0, 64, 1, 64],
    ["between", 1.0],
    ["prefill", 27.0, 20, 2, 22],
    ["first", 1.0, 1, 2, 22],
    ["decode", 40.0, 2, 1, 1],
    ["decode", 50.0, 2, 3, 3],
    ["ending", 9.0],
]
WHOLE_MS = 200.0


def traces() -> tuple[TokenTrace, ...]:
    times = (1.0, 18.0, 22.0, 24.0, 26.0)
    return tuple(
        msgspec.structs.replace(token, ms=ms)
        for token, ms in zip(trace_of(PIECES), times, strict=True)
    )


@pytest.fixture
def section(tools: Tools, qtbot: QtBot, theme: Theme) -> Section:
    built = Section(tools, (PanelKind("Time", lambda: TimePanel),))
    qtbot.addWidget(built)
    built.resize(420, 860)
    return built


@pytest.fixture
def show(
    section: Section, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> Callable[..., TimePanel]:
    """The panel on screen, with a reply that was stored with these settings."""

    def build(tokens: tuple[TokenTrace, ...] | None = None, **settings: object) -> TimePanel:
        desk.shelf.path = ask(
            settings=settings, stop_reason="end_token", counts=MessageCounts(total_s=0.2)
        )
        bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
        section.show()
        qtbot.waitExposed(section)
        bridge.emit_event(TraceRead("m2", traces() if tokens is None else tokens))
        panel = section.panel()
        assert isinstance(panel, TimePanel)
        return panel

    return build


def cells(panel: TimePanel) -> list[tuple[str, ...]]:
    return [tuple(label.text() for label in row) for row in panel.parts._rows]


def middle(panel: TimePanel, token: int) -> QPointF:
    return panel.line.rect_of_token(token).center()


# --- a reply that was recorded ------------------------------------------------------------------


def test_the_parts_of_the_time_add_up(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    assert cells(panel) == [
        ("On its way", "1.0", "0.5", "", ""),
        ("Prompt prepared", "3.0", "1.5", "", ""),
        ("Queue", "6.0", "3.0", "", ""),
        ("Slot prepared", "2.0", "1.0", "8", ""),
        ("Between passes", "1.0", "0.5", "", ""),
        ("Prefill", "87.0", "43.5", "84", "966"),
        ("First token", "1.0", "0.5", "1", ""),
        ("Decode", "90.0", "45.0", "4", "44.4"),
        ("End", "9.0", "4.5", "", ""),
        ("Total", "200.0", "100.0", "5", ""),
    ]
    assert panel.total.text() == "200 ms in total"
    assert panel.caption.text().startswith(RECORDED)
    assert "add up to 200.0 ms; the clock says 200.0 ms" in panel.caption.text()
    assert panel.ending.text() == "Ended: finished."
    shown = {label.text() for label in panel.parts.findChildren(QLabel)}
    assert any("bound by arithmetic" in words for words in shown)
    assert any("bound by memory" in words for words in shown)


def test_what_was_held_is_no_part_of_the_engines_clock(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=[*LINE, ["held", 5000.0]])
    assert panel.total.text() == "5.20 s in total"
    words = "The parts, without holds, add up to 200.0 ms; the clock says 200.0 ms."
    assert panel.caption.text().endswith(words)


def test_the_lanes_say_how_much_lies_in_them(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    assert panel.line.figures == {
        "waited": "13.0 ms · 6%",
        "prefill": "84 tokens · 87.0 ms · 44%",
        "decode": "5 tokens · 100 ms · 50%",
    }


def test_tokens_lie_where_they_were_written(show: Callable[..., TimePanel]) -> None:
    """The trace against the line, pixel by pixel of a line that is 10 px per ms."""
    panel = show(timeline=LINE)
    panel.line.scale.set_width(2000.0)
    lefts = [panel.line.rect_of_token(at).left() for at in range(5)]
    assert lefts == pytest.approx([1000, 1010, 1190, 1410, 1650])
    assert panel.line.rect_of_token(4).right() == pytest.approx(1910)
    assert panel.line.bars.slots.tolist() == [2, 1, 1, 3, 3]
    assert panel.shared.isVisible()
    assert panel.shared.text() == "Line above the bars: up to 3 replies per pass."


def test_the_heading_has_its_font_from_the_start(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    assert panel.heading.font().bold()
    assert panel.heading.font().pixelSize() == panel.total.font().pixelSize() == 12


def test_a_click_looks_at_a_token_and_the_token_is_marked(
    show: Callable[..., TimePanel], qtbot: QtBot
) -> None:
    panel = show(timeline=LINE)
    assert panel.readout.text() == POINT
    QTest.mouseClick(panel.line, Qt.MouseButton.LeftButton, pos=middle(panel, 3).toPoint())
    assert panel._looking.index == 3
    assert panel.line.selected == 3
    assert panel.readout.text() == (
        "·Paris · token 4 of the reply · 24.0 ms · 3 replies in the pass · from 141 ms · 125 "
        "tokens/s for all 3 together"
    )
    assert panel.line.accessibleDescription() == panel.readout.text()
    panel._looking.select(0)
    assert panel.line.selected == 0


def test_it_says_what_a_full_bar_stands_for(show: Callable[..., TimePanel]) -> None:
    assert show(timeline=LINE).line.height_words() == "full bar 26.0 ms"
    assert show(tokens=()).line.height_words() == ""


def test_the_hover_card_has_the_figures(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    assert panel._words_of(Hit(token=1)) == [
        "·capital · token 2 of the reply",
        "18.0 ms · alone in its pass · from 101 ms",
        "Click to show this token",
    ]
    assert panel._words_of(Hit(stretch=6)) == [
        "Prefill · 27.0 ms",
        "20 tokens · 741 tokens/s · 2 replies in the pass, 22 tokens · from 73.0 ms",
        "The prompt is processed in parallel, chunk by chunk; bound by arithmetic.",
    ]
    assert panel._words_of(Hit(stretch=3))[1] == "8 tokens kept · from 10.0 ms"
    room = panel.line.room_of("prefill")
    at = QPoint(round(panel.line.scale.x_of(40.0)), round(room.center().y()))
    assert panel.line.hit(QPointF(at)) == Hit(stretch=4)
    event = QHelpEvent(QEvent.Type.ToolTip, at, panel.line.mapToGlobal(at))
    QApplication.sendEvent(panel.line, event)
    assert QToolTip.text().startswith("Prefill · 60.0 ms")
    QToolTip.hideText()


def test_hovering_lights_what_lies_under_the_pointer(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    QTest.mouseMove(panel.line, middle(panel, 2).toPoint())
    assert panel.line.hovered == Hit(token=2)
    QApplication.sendEvent(panel.line, QEvent(QEvent.Type.Leave))
    assert panel.line.hovered == Hit()


def wheel(panel: TimePanel, turned: QPoint, keys: Qt.KeyboardModifier) -> bool:
    at = QPointF(100, 20)
    event = QWheelEvent(
        at,
        QPointF(panel.line.mapToGlobal(at.toPoint())),
        QPoint(),
        turned,
        Qt.MouseButton.NoButton,
        keys,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(panel.line, event)
    return event.isAccepted()


def test_the_wheel_zooms_around_the_pointer_moves_and_leaves_the_rest_to_the_panel(
    show: Callable[..., TimePanel],
) -> None:
    panel = show(timeline=LINE)
    scale, keys = panel.line.scale, Qt.KeyboardModifier
    moment = scale.ms_at(100)
    assert wheel(panel, QPoint(0, 120), keys.ControlModifier)
    assert scale.shown_ms == pytest.approx(WHOLE_MS / 1.5)
    assert scale.ms_at(100) == pytest.approx(moment)
    left = scale.left_ms
    assert wheel(panel, QPoint(0, -120), keys.ShiftModifier)
    assert scale.left_ms > left
    assert wheel(panel, QPoint(120, 0), keys.NoModifier)
    assert scale.left_ms == pytest.approx(left)
    before = (scale.left_ms, scale.shown_ms)
    wheel(panel, QPoint(0, -120), keys.NoModifier)
    assert (scale.left_ms, scale.shown_ms) == before


def test_by_keys_alone(show: Callable[..., TimePanel]) -> None:
    panel = show(timeline=LINE)
    line, scale = panel.line, panel.line.scale
    line.setFocus()
    QTest.keyClick(line, Qt.Key.Key_Plus)
    assert scale.shown_ms == pytest.approx(WHOLE_MS / 1.5)
    QTest.keyClick(line, Qt.Key.Key_Up)
    assert scale.shown_ms == pytest.approx(WHOLE_MS / 2.25)
    left = scale.left_ms
    QTest.keyClick(line, Qt.Key.Key_Right)
    assert scale.left_ms > left
    QTest.keyClick(line, Qt.Key.Key_Left)
    assert scale.left_ms == pytest.approx(left)
    QTest.keyClick(line, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert panel._looking.index == 0
    assert scale.left_ms <= line.bars.starts[0] < scale.right_ms
    QTest.keyClick(line, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClick(line, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert panel._looking.index == 0
    QTest.keyClick(line, Qt.Key.Key_Minus)
    QTest.keyClick(line, Qt.Key.Key_Down)
    QTest.keyClick(line, Qt.Key.Key_Home)
    assert scale.is_whole


def test_by_the_mouse_alone(show: Callable[..., TimePanel], qtbot: QtBot) -> None:
    """The buttons, the bar, and dragging."""
    panel = show(timeline=LINE)
    line, scale = panel.line, panel.line.scale
    bar = panel.findChild(QScrollBar, "time_scroll")
    assert not bar.isVisible()
    assert not panel.fit_button.isEnabled()
    assert not panel.out_button.isEnabled()
    qtbot.mouseClick(panel.in_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(panel.in_button, Qt.MouseButton.LeftButton)
    assert bar.isVisible()
    assert bar.pageStep() / (bar.maximum() + bar.pageStep()) == pytest.approx(1 / 2.25, abs=1e-3)
    bar.setValue(0)
    assert scale.left_ms == 0.0
    bar.setValue(bar.maximum())
    assert scale.right_ms == pytest.approx(WHOLE_MS, abs=0.1)
    left = scale.left_ms
    QTest.mousePress(line, Qt.MouseButton.LeftButton, pos=QPoint(100, 60))
    QTest.mouseMove(line, QPoint(150, 60))
    QTest.mouseMove(line, QPoint(200, 60))
    QTest.mouseRelease(line, Qt.MouseButton.LeftButton, pos=QPoint(200, 60))
    assert scale.left_ms == pytest.approx(left - 100 * scale.shown_ms / scale.width_px)
    assert panel._looking.index is None, "a drag is no click"
    qtbot.mouseClick(panel.out_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(panel.fit_button, Qt.MouseButton.LeftButton)
    assert scale.is_whole


def test_the_parts_are_copied_as_csv(show: Callable[..., TimePanel], qtbot: QtBot) -> None:
    panel = show(timeline=LINE)
    qtbot.mouseClick(panel.copy_button, Qt.MouseButton.LeftButton)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "part,ms,share,tokens,tokens_per_s"
    assert "Prefill,87.000,0.435000,84,965.517" in lines
    assert "Queue,6.000,0.030000,0," in lines
    assert len(lines) == 10


def test_so_many_stretches_that_they_were_put_together_are_said(
    show: Callable[..., TimePanel],
) -> None:
    panel = show(timeline=[["prefill", 10.0, 5, 1, 5, 7], ["first", 1.0, 1, 1, 1]])
    assert GATHERED in panel.caption.text()
    assert "merged from 7" in panel._words_of(Hit(stretch=0))[1]


# --- what was not recorded ----------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"timeline": [["nonsense", 1]]}])
def test_a_reply_without_a_record_has_decode_from_its_trace(
    show: Callable[..., TimePanel], settings: dict[str, object]
) -> None:
    panel = show(**settings)
    assert [row[:2] for row in cells(panel)] == [
        ("First token", "1.0"),
        ("Decode", "90.0"),
        ("Total", "91.0"),
    ]
    assert panel.caption.text() == NOT_RECORDED


def test_a_reply_without_anything_says_so(show: Callable[..., TimePanel]) -> None:
    panel = show(tokens=())
    assert panel.caption.text() == NOTHING_RECORDED
    assert not panel.parts.isVisible()
    assert not panel.line.isVisible()


def test_a_record_without_a_trace_has_no_bars(show: Callable[..., TimePanel]) -> None:
    panel = show(tokens=(), timeline=LINE)
    assert panel.total.text() == "200 ms in total"
    assert len(panel.line.bars) == 0
    room = panel.line.room_of("decode")
    assert panel.line.hit(QPointF(panel.line.scale.x_of(120.0), room.center().y())) == Hit(
        stretch=8
    )


def test_before_there_is_a_reply_it_says_what_to_do(section: Section, qtbot: QtBot) -> None:
    section.show()
    qtbot.waitExposed(section)
    panel = section.panel()
    assert isinstance(panel, TimePanel)
    assert "Send a message" in panel.caption.text()


# --- while it grows -----------------------------------------------------------------------------


def test_a_reply_that_grows(
    section: Section, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> None:
    """Prefill as it is announced, decode from the trace; the record when it has ended."""
    table = TraceTable()
    messages = ask(state=MessageState.STREAMING)
    desk.shelf.path = messages[:1]
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    section.show()
    qtbot.waitExposed(section)
    panel = section.panel()
    assert isinstance(panel, TimePanel)
    desk.shelf.path = messages
    desk.growing.trace_of = lambda message_id: table if message_id == "m2" else None
    bridge.emit_event(MessageAdded(messages[1]))
    assert panel.caption.text() == GROWING
    bridge.emit_event(PrefillProgressed("c1", "another", 7, 9))
    assert not panel.prefill.isVisible()
    bridge.emit_event(PrefillProgressed("c1", "m2", 0, 1, is_media=True))
    assert panel.prefill.text() == "Media: 0 of 1 part processed."
    bridge.emit_event(PrefillProgressed("c1", "m2", 512, 1024))
    assert panel.prefill.isVisible()
    assert panel.prefill.text() == "Prefill: 512 of 1,024 tokens of the prompt processed."
    for token in traces():
        table.append(token)
        bridge.emit_event(TokenRecorded("c1", "m2", token, 10))
    qtbot.waitUntil(lambda: len(panel.line.bars) == 5)
    assert [row[:2] for row in cells(panel)][-1] == ("Total", "91.0")
    ended = dataclasses.replace(
        messages[1], state=MessageState.COMPLETE, settings={"timeline": LINE}
    )
    bridge.emit_event(MessageChanged(ended))
    assert panel.caption.text().startswith(RECORDED)
    assert not panel.prefill.isVisible()
    assert [row[:2] for row in cells(panel)][-1] == ("Total", "200.0")


def test_refreshes_of_a_long_reply_are_short(
    show: Callable[..., TimePanel], section: Section
) -> None:
    """16,384 tokens, as many as a trace holds: refresh and paint."""
    panel = show()
    table = TraceTable(trace_of([b"x"] * 16_384))
    panel._looking.is_growing = True
    panel._looking.traces = table
    panel._refresh_trace()
    panel.line.grab()
    times = []
    for _ in range(7):
        began = thread_time()
        panel._refresh_trace()
        times.append(thread_time() - began)
        panel.line.grab()
    assert min(times) < 0.005
    began = thread_time()
    panel.line.grab()
    assert thread_time() - began < 0.05


def test_nothing_is_wider_than_the_section(
    show: Callable[..., TimePanel], section: Section, theme: Theme, qtbot: QtBot
) -> None:
    panel = show(timeline=LINE)
    content = panel.area.widget()
    for zoom in (100, 200, 300):
        theme.set_zoom(zoom)
        section.resize(theme.px(300), theme.px(700))
        qtbot.waitUntil(lambda: panel.area.viewport().width() <= theme.px(300))
        assert content.minimumSizeHint().width() <= panel.area.viewport().width(), zoom
        qtbot.waitUntil(lambda: content.width() <= panel.area.viewport().width())


# --- a branch -----------------------------------------------------------------------------------


def test_a_branch_has_on_its_line_what_was_drawn_in_it(
    show: Callable[..., TimePanel], tools: Tools
) -> None:
    """The first two tokens of the trace are those of another version, with its times."""
    line = [["rendering", 3.0], ["prefill", 20.0, 1, 1, 1], ["first", 1.0, 1, 1, 1]]
    given = {"tokens": 2, "traced": 2, "chosen": [102]}
    tokens = (*traces()[:2], *(msgspec.structs.replace(t, ms=m) for t, m in NEW))
    panel = show(tokens, timeline=[*line, ["decode", 70.0, 2, 1, 1]], given=given)
    found = panel.line.bars
    assert found.ms.tolist() == [1.0, 30.0, 40.0]
    assert found.ends.tolist() == pytest.approx([24.0, 54.0, 94.0])
    QTest.mouseClick(panel.line, Qt.MouseButton.LeftButton, pos=middle(panel, 1).toPoint())
    assert tools.looking.index == 3
    assert panel.line.selected == 1
    assert "token 4 of the reply · 30.0 ms" in panel.readout.text()
    tools.looking.select(1)
    assert panel.line.selected is None
    assert panel.readout.text() == BEFORE_BRANCH.format(number=2)
    assert panel._words_of(Hit(token=0))[0].endswith("token 3 of the reply")


NEW = list(zip(traces()[2:], (1.0, 30.0, 40.0), strict=True))


def test_what_drafts_did_stands_below_the_parts(show: Callable[..., TimePanel]) -> None:
    places = [DraftPosition(2, 2), DraftPosition(2, 1)]
    report = DraftReport("model", "small.gguf", 2, 4, 3, places, 1.0, 10, 1.0, 8)
    panel = show(draft_report=msgspec.to_builtins(report))
    assert panel.drafts.isVisible()
    assert panel.drafts.figure.text() == "1.25× · small.gguf"
    assert panel.drafts.accepted.value.text() == "3 of 4 (75%)"


def test_a_reply_without_drafts_has_no_card_of_them(show: Callable[..., TimePanel]) -> None:
    assert show().drafts.isHidden()
