"""The status line: measured figures only, the least important ones leave first."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QHelpEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QLabel, QProgressBar, QToolTip
from pytestqt.qtbot import QtBot
from recording_desk import loaded

from app.chat.events import EngineStateChanged, StatusFigures
from app.chat.inspection.memory import MemoryNow
from app.engine.protocol.loading_messages import Device
from ui.look.theme import Theme
from ui.shell.status import LEAVE_FIRST, StatusLine

FIGURES = StatusFigures(40, 52.44, 0.314, 70, 4096, 2)
READY = EngineStateChanged("ready", "SmolLM2", loaded())


@pytest.fixture
def status(qtbot: QtBot, theme: Theme) -> StatusLine:
    made = StatusLine(theme)
    qtbot.addWidget(made)
    made.resize(900, 24)
    made.show()
    return made


def shown(status: StatusLine) -> list[str]:
    return [
        label.text()
        for label in status.findChildren(QLabel)
        if label.isVisible() and label.objectName().startswith("status_")
    ]


def meter(status: StatusLine) -> QProgressBar:
    found = status.findChild(QProgressBar, "context_meter")
    assert found is not None
    return found


def test_without_weights_nothing_is_claimed(status: StatusLine) -> None:
    assert shown(status) == []
    assert not meter(status).isVisible()


def test_a_reply_and_its_weights_in_figures(status: StatusLine) -> None:
    status.set_engine_state(READY)
    status.set_figures(FIGURES)
    assert shown(status) == [
        "70 / 4,096",
        "40 tokens",
        "52.4 tokens/s",
        "first token 0.31 s",
        "2 threads",
        "CPU",
        "392 MB",
    ]
    assert meter(status).value() == 70
    assert meter(status).maximum() == 4096
    assert "52.4 tokens/s" in status.accessibleDescription()


def test_its_memory_by_part_and_what_looking_inside_may_take(status: StatusLine) -> None:
    status.set_engine_state(READY)
    label = status.findChild(QLabel, "status_memory")
    assert label is not None
    assert label.toolTip().splitlines() == [
        "When loaded:",
        "weights on CPU: 102 MB",
        "kv on CPU: 189 MB",
        "compute on CPU: 102 MB",
        "Looking inside: up to 304 MB more while it is used",
        "A reply with parts cut: about as much again",
    ]


def test_what_is_not_measured_is_left_out(status: StatusLine) -> None:
    status.set_figures(StatusFigures(0, None, None, 12, 4096, 0))
    assert shown(status) == ["12 / 4,096"]


def test_a_first_token_at_once_is_a_measurement_too(status: StatusLine) -> None:
    status.set_figures(StatusFigures(1, None, 0.0, 12, 4096, 1))
    assert "first token 0.00 s" in shown(status)
    assert "1 token" in shown(status)
    assert "1 thread" in shown(status)


def test_a_waiting_message_is_said(status: StatusLine) -> None:
    status.set_waiting(True)
    assert shown(status) == ["Sends as soon as the model is loaded"]
    status.set_waiting(False)
    assert shown(status) == []


def test_unloading_takes_the_figures_away(status: StatusLine) -> None:
    status.set_engine_state(READY)
    status.set_figures(FIGURES)
    status.set_engine_state(EngineStateChanged("stopped"))
    assert shown(status) == []


def test_another_chat_keeps_the_engines_figures_only(status: StatusLine) -> None:
    status.set_engine_state(READY)
    status.set_figures(FIGURES)
    status.set_reply()
    assert shown(status) == ["70 / 4,096", "2 threads", "CPU", "392 MB"]


def test_downloads_are_shown_while_there_are_some(status: StatusLine) -> None:
    """Whatever becomes of the engine meanwhile."""
    status.set_downloads("↓ 42% · 3.2 MB/s", "tiny.gguf: 42%")
    status.set_engine_state(READY)
    status.set_reply()
    assert shown(status)[-1] == "↓ 42% · 3.2 MB/s"
    assert "↓ 42%" in status.accessibleDescription()
    status.set_downloads("", "")
    assert "↓ 42% · 3.2 MB/s" not in shown(status)


def test_the_least_important_leave_first(status: StatusLine, qtbot: QtBot) -> None:
    status.set_engine_state(READY)
    status.set_figures(FIGURES)
    status.set_downloads("↓ 42% · 3.2 MB/s", "Downloads")
    status.set_server("server :8642", "Serving at http://127.0.0.1:8642/v1")
    left: list[str] = []
    for width in range(900, 100, -10):
        status.resize(width, 24)
        for name in LEAVE_FIRST:
            label = status.findChild(QLabel, f"status_{name}")
            assert label is not None
            if not label.isVisible() and name not in left:
                left.append(name)
        visible = [each for each in status.findChildren(QLabel) if each.isVisible()]
        assert all(each.geometry().right() <= width for each in visible), width
    assert left == list(LEAVE_FIRST)


def test_the_line_is_as_high_without_figures(status: StatusLine) -> None:
    height = status.sizeHint().height()
    status.set_engine_state(READY)
    status.set_figures(FIGURES)
    assert status.sizeHint().height() == height


def test_more_than_the_window_holds_fills_the_meter(status: StatusLine) -> None:
    bar, colors = status.meter, status._theme.colors
    status.set_context(5000, 4096)
    assert bar.value() == 4096
    assert shown(status) == ["904 tokens over the limit"]
    assert bar.grab().toImage().pixelColor(bar.rect().center()).name() == colors.error
    status.set_context(4096, 4096)
    assert shown(status) == ["4,096 / 4,096"]
    assert bar.grab().toImage().pixelColor(bar.rect().center()).name() == colors.accent


def test_a_little_is_seen_as_a_little(status: StatusLine) -> None:
    bar = status.meter
    status.set_context(1, 131_072)
    assert bar.value() == 1
    assert bar.filled_px() == bar.height()
    status.set_context(65_536, 131_072)
    assert bar.filled_px() == bar.width() / 2
    status.set_context(0, 4096)
    assert bar.filled_px() == 0


def test_the_bar_is_painted_anew_with_every_value(status: StatusLine, qtbot: QtBot) -> None:
    """From a full window to a short chat: the bar on screen must not stay full."""
    qtbot.waitExposed(status)
    painted: list[int] = []
    bar = status.meter
    paint = bar.paintEvent

    def paint_and_note(event: QPaintEvent) -> None:
        painted.append(bar.value())
        paint(event)

    bar.paintEvent = paint_and_note  # type: ignore[method-assign]
    for used in (8000, 26, 27, 4000):
        status.set_context(used, 8192)
        qtbot.waitUntil(lambda used=used: painted[-1:] == [used], timeout=2000)


def test_the_meter_says_what_would_be_left_out(status: StatusLine) -> None:
    status.set_context(2000, 4096, 1)
    assert meter(status).toolTip().endswith("used; 1 older message dropped")
    assert shown(status) == ["2,000 / 4,096"]
    status.set_context(2000, 4096, 1, is_text=True)
    assert shown(status) == ["2,000 / 4,096 · beginning dropped"]
    status.set_context(2000, 4096)
    assert meter(status).toolTip().endswith("tokens of the context window used")


def test_memory_is_asked_for_while_somebody_looks(status: StatusLine, qtbot: QtBot) -> None:
    """A tooltip is about to be shown: it says what is known, and then what it is now."""
    status.set_engine_state(READY)
    label = status.findChild(QLabel, "status_memory")
    assert label is not None
    with qtbot.waitSignal(status.memory_looked_at):
        place = label.rect().center()
        QApplication.sendEvent(
            label, QHelpEvent(QEvent.Type.ToolTip, place, label.mapToGlobal(place))
        )
    status.show_memory(MemoryNow(412_000_000, [Device("CPU", "", "cpu", 8 * 10**9, 16 * 10**9)]))
    lines = label.toolTip().splitlines()
    assert lines[:3] == ["Engine now: 412 MB", "CPU now: 8 GB free of 16 GB", "When loaded:"]
    QToolTip.hideText()
    label.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)  # wherever another test left it
    status._look_again()
    assert not status._looks.isActive()


def test_why_it_was_unloaded_is_said(status: StatusLine) -> None:
    note = "Unloaded after 10 min idle. The next message loads it again."
    status.set_engine_state(EngineStateChanged("stopped", note=note))
    assert shown(status) == [note]
    status.set_waiting(True)
    assert shown(status) == ["Sends as soon as the model is loaded"]
    status.set_waiting(False)
    status.set_engine_state(READY)
    assert note not in shown(status)
