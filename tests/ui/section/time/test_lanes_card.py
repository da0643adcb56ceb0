"""The lanes of the slots: what they say of whom, by mouse and by keys, live and after."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import AnswersBegan, TokenRecorded
from app.engine.protocol.lane_messages import LaneVisit, LaneWaiting
from app.insight.time.lanes import LaneRecord, LaneSpan, Share
from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.section.panel import Tools
from ui.section.time.lanes_card import LanesCard

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def reply(number: int) -> Message:
    return Message(
        id=f"m{number}",
        conversation_id="c0",
        parent_id="q",
        role=Role.ASSISTANT,
        content="",
        state=MessageState.STREAMING,
        created_at=NOON,
        sibling_index=number,
        sibling_count=3,
    )


def filled(record: LaneRecord) -> None:
    """Two replies in four slots, a third that waits; a burst before them."""
    record.n_slots, record.now_ms = 4, 9000.0
    record.visits = {
        0: LaneVisit(0, 0, "old", "gone", 0.0, 0.0, 100.0, 900.0, 1000.0, 0, 9, 9, "end_token"),
        1: LaneVisit(1, 0, "m0", "c0", 2.0, 5000.0, 6000.0, 8000.0, 0.0, 0, 64, 41),
        2: LaneVisit(
            2, 1, "m1", "c0", 1002.0, 6000.0, 6100.0, 8100.0, 8200.0, 63, 1, 21, "stopped"
        ),
    }
    record.spans.extend(
        [
            LaneSpan(0, 0.0, 900.0, 9, (Share(0, 1, False),)),
            LaneSpan(1, 5000.0, 6000.0, 1, (Share(1, 64, True),)),
            LaneSpan(2, 6000.0, 6100.0, 1, (Share(1, 1, False), Share(2, 1, True))),
            LaneSpan(3, 6100.0, 8100.0, 20, (Share(1, 1, False), Share(2, 1, False))),
        ]
    )
    record.waiting = (LaneWaiting("m2", "c0", "room"),)


@pytest.fixture
def card(tools: Tools, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot) -> LanesCard:
    desk.cache.title = lambda conversation: f"chat {conversation}"
    made = LanesCard(tools)
    qtbot.addWidget(made)
    made.resize(420, 400)
    bridge.emit_event(AnswersBegan("c0", "q", tuple(map(reply, range(3)))))
    filled(desk.lanes.record)
    desk.lanes.read = lambda then: bool(then()) or True
    made.show()
    made.set_active(True)
    return made


def test_what_the_server_was_asked_is_named_by_its_client(card: LanesCard, desk: FakeDesk) -> None:
    desk.server.log.client_of = lambda name: "OpenAI/Python" if name == "m1" else ""
    card._show()
    assert [lane.name for lane in card.view.lanes] == [
        "Slot 1 · Version 1",
        "Slot 2 · OpenAI/Python",
    ]


def test_it_says_who_was_where_and_how_fast(card: LanesCard) -> None:
    assert [lane.name for lane in card.view.lanes] == ["Slot 1 · Version 1", "Slot 2 · Version 2"]
    assert [lane.figure for lane in card.view.lanes] == ["41 tokens · 20.0/s", "21 tokens · 10.0/s"]
    assert card.figure.text().endswith("tokens/s")
    assert card.view.rows_figure == "2 token rows"
    assert (
        card.waiting.text()
        == "1 of 4 slots in use. Version 3: waited for free cells in the KV cache."
    )
    assert "Slot 2 · Version 2: 21 tokens" in card.view.accessibleDescription()


def test_the_replies_before_are_one_click_away(card: LanesCard) -> None:
    assert card.earlier.isEnabled()
    assert not card.later.isEnabled()
    card.earlier.click()
    assert [lane.name for lane in card.view.lanes] == ["Slot 1 · chat gone"]
    assert card.view.rows_figure == "up to 1 token row"
    assert not card.earlier.isEnabled()
    card.later.click()
    assert len(card.view.lanes) == 2


def test_passes_are_read_by_keys(card: LanesCard) -> None:
    view = card.view
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert card.readout.text() == "At 0.00 ms: 1 pass of 1.00 s · 1 reply, 64 prompt rows"
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert "2 replies, 1 prompt + 1 token row" in card.readout.text()
    QTest.keyClick(view, Qt.Key.Key_Left)
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert "64 prompt rows" in card.readout.text()
    QTest.keyClick(view, Qt.Key.Key_Plus)
    assert not view.scale.is_whole
    assert card.out.isEnabled()
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.scale.is_whole


def test_a_click_marks_the_pass_and_the_tip_tells_the_slot(card: LanesCard) -> None:
    view, room = card.view, card.view.room_of(1)
    x = round(view._x_of(7000.0))
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(x, 5))
    assert "20 passes of 100 ms" in card.readout.text()
    lines = view.words_of(view.span_at(x), view.lane_at(room.center().y()))
    assert "Joined at 1.00 s after waiting 1.00 s" in lines
    assert "Prompt: 63 cached, 1 processed" in lines
    assert "Left at 3.20 s: stopped" in lines


def test_the_passes_are_copied(card: LanesCard) -> None:
    card.copy.click()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[2] == "5000.000,6000.000,1,1,1,64,prompt"
    assert len(lines) == 1 + 1 + 1 + 2 + 2


def test_it_is_asked_while_a_reply_streams_and_not_when_hidden(
    card: LanesCard, bridge: FakeBridge, desk: FakeDesk
) -> None:
    asked: list[int] = []
    desk.lanes.read = lambda then: asked.append(1) or True
    desk.lanes.record.forget()
    card._timer.stop()
    card.set_active(False)
    bridge.emit_event(TokenRecorded("c0", "m0", None, 1))  # type: ignore[arg-type]
    assert not card._timer.isActive()
    card.set_active(True)
    assert asked == [1]
    bridge.emit_event(TokenRecorded("c0", "m0", None, 1))  # type: ignore[arg-type]
    assert card._timer.isActive()


def test_without_anything_recorded_there_is_no_card(card: LanesCard, desk: FakeDesk) -> None:
    desk.lanes.record.forget()
    card._show()
    assert card.isHidden()


@pytest.mark.parametrize("zoom", [100, 200])
@pytest.mark.parametrize("name", ["light", "dark"])
def test_each_kind_of_row_is_seen(card: LanesCard, theme: Theme, zoom: int, name: str) -> None:
    theme.set_zoom(zoom)
    theme.set_mode(name)
    view = card.view
    view.resize(view.sizeHint())
    image = view.grab().toImage()
    ratio = image.width() / view.width()

    def color(moment: float, place: int) -> str:
        at = view.room_of(place).center()
        return image.pixelColor(round(view._x_of(moment) * ratio), round(at.y() * ratio)).name()

    reads, writes, away = color(5500.0, 0), color(7000.0, 0), color(5500.0, 1)
    assert len({reads, writes, away}) == 3
    assert color(7000.0, 1) == writes


def test_names_do_not_pile_up(card: LanesCard, bridge: FakeBridge) -> None:
    many = tuple(dataclasses.replace(reply(1), id=f"x{n}") for n in range(3000))
    bridge.emit_event(AnswersBegan("c0", "q", many))
    assert len(card._names) <= 1024
