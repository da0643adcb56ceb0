"""The machine's memory: asked for while it is on screen."""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from app.chat.inspection.memory import MemoryNow
from app.engine.protocol.loading_messages import Device
from ui.section.inside.machine.memory_line import MemoryLine
from ui.section.panel import Tools


def test_it_is_measured_while_it_is_shown(tools: Tools, desk: FakeDesk, qtbot: QtBot) -> None:
    asked: list[Callable[[MemoryNow], None]] = []
    desk.memory.read = asked.append
    desk.loader.loaded = object()
    line = MemoryLine(tools, None)  # type: ignore[arg-type]
    qtbot.addWidget(line)
    assert not asked
    line.show()
    asked[0](MemoryNow(412_000_000, [Device("CPU", "", "cpu", 8 * 10**9, 16 * 10**9)]))
    assert line.text.text() == "Engine now: 412 MB · CPU now: 8 GB free of 16 GB"
    line._timer.timeout.emit()
    assert len(asked) == 2
    line.hide()
    assert not line.is_asking
    desk.loader.loaded = None
    line.show()
    assert line.text.text() == ""
    assert len(asked) == 2
