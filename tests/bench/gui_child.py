"""One window, measured from inside: run as a program by `gui_rows`, prints one line of JSON.

    python tests/bench/gui_child.py ROW DATA_DIR [SCRIPT]

Every figure is given as wall time and as time on the processor: on a machine that others use
too, the second says what the program itself costs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from collections.abc import Callable
from heapq import nlargest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
BEGAN = "CUTAWAY_BENCH_BEGAN"
PATIENCE_S = 300.0
SIZE = (1440, 900)
TOKEN_MS = 5
WAKE_MS = 10


def empty() -> dict[str, Any]:
    """The yardstick: a window of PySide6 with nothing in it."""
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication, QMainWindow

    application = QApplication(["empty"])
    window = QMainWindow()
    window.resize(1180, 780)
    window.show()
    marks: dict[str, Any] = {}

    def painted() -> None:
        marks.update(cpu_ms=_cpu_ms(), wall_ms=_wall_ms(), **_memory())
        application.quit()

    QTimer.singleShot(0, lambda: QTimer.singleShot(0, painted))
    application.exec()
    return marks


def start(data_dir: str) -> dict[str, Any]:
    """Until frame and composer are painted and take keys; until the last chat is readable."""
    import main
    from ui.shell.life import Imports

    marks: dict[str, Any] = {}
    begin = Imports.begin

    def painted(imports: Imports) -> None:
        if "frame_cpu_ms" not in marks:  # later ones begin once the chat can be read
            marks.update(frame_cpu_ms=_cpu_ms(), frame_wall_ms=_wall_ms())
        begin(imports)

    Imports.begin = painted  # type: ignore[method-assign]
    app = main.build(["--data-dir", data_dir, "--offline"])
    try:
        _wait(app, lambda: "frame_cpu_ms" in marks)
        _wait(app, lambda: hasattr(app.window, "chat"))
        shown = app.window.chat.transcript
        _wait(app, lambda: shown.repaints and len(shown.rows) and not shown.is_update_due)
        marks.update(readable_cpu_ms=_cpu_ms(), readable_wall_ms=_wall_ms())
        _wait(app, lambda: app._made is not None and app.desk.shelf.path)
        marks.update(opened_cpu_ms=_cpu_ms(), opened_wall_ms=_wall_ms())
    finally:
        app.close()
    return marks


def opening(data_dir: str, chat_id: str) -> dict[str, Any]:
    """Opening a chat of 10,000 messages from another one: until its last messages are painted
    and the view was scrolled; then until all of it is there."""
    import main

    app = main.build(["--data-dir", data_dir, "--offline"])
    marks: dict[str, Any] = {}
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.around.store_state.state == "ok")
        _wait(app, lambda: app.desk.shelf.path)
        _settle(app, 0.7)
        view = app.window.chat.transcript
        gaps = _Gaps()
        repaints, cpu, thread = view.repaints, time.process_time(), time.thread_time()
        began = time.monotonic()
        app.desk.shelf.open_stored(chat_id)
        _wait(app, lambda: app.desk.shelf.open.id == chat_id and view.repaints > repaints)
        bar = view.verticalScrollBar()
        bar.setValue(bar.maximum() - 600)
        view.viewport().repaint()
        marks["wall_ms"] = (time.monotonic() - began) * 1000
        marks["cpu_ms"] = (time.process_time() - cpu) * 1000
        marks["gui_cpu_ms"] = (time.thread_time() - thread) * 1000
        marks["n_first"] = len(view.rows)
        _wait(app, lambda: app.desk.shelf.path[0].parent_id is None)
        marks["whole_ms"] = (time.monotonic() - began) * 1000
        _settle(app, 0.5)
        marks["longest_gap_ms"] = gaps.end()
        marks["longest_cpu_ms"] = gaps.longest_cpu_ms()
        marks["n_messages"] = len(view.rows)
    finally:
        app.close()
    return marks


def stream(data_dir: str, script: str, look: str = "markdown") -> dict[str, Any]:
    """The longest gap in the event loop while a long reply streams, and the memory after it.
    `look`: markdown, or tokens for the token view."""
    import main

    argv = ["--data-dir", data_dir, "--offline", "--scripted", script]
    app = main.build(argv)
    marks: dict[str, Any] = {}
    try:
        app.window.resize(*SIZE)
        _wait(app, lambda: app._made is not None and app.desk.loader.state.state == "ready")
        _wait(app, lambda: not app.desk.shelf.path or app.desk.shelf.path[0].parent_id is None)
        app.desk.settings.set("token_view", look == "tokens")
        _settle(app, 0.5)
        assert app.window.windowHandle().isExposed()
        view = app.window.chat.transcript
        assert view.tokens.is_on == (look == "tokens")
        repaints, thread = view.repaints, time.thread_time()
        began = time.monotonic()
        gaps = _Gaps()
        app.desk.replies.send("Explain it.")
        _wait(app, lambda: not app.desk.replies.is_generating)
        seconds = time.monotonic() - began
        marks["longest_gap_ms"] = gaps.end()
        marks["longest_cpu_ms"] = gaps.longest_cpu_ms()
        marks["gaps_ms"] = gaps.longest(5)
        marks["seconds"] = seconds
        marks["gui_cpu_share"] = (time.thread_time() - thread) / seconds
        marks["repaints_per_s"] = (view.repaints - repaints) / seconds
        reply = app.desk.shelf.path[-1]
        marks["bytes"] = len(reply.content.encode())
        marks["tokens_per_s"] = (reply.counts.generated or 0) / seconds
        _settle(app, 0.5)
        marks |= _memory()
    finally:
        app.close()
    return marks


class _Gaps:
    """How long the event loop did not come round: wall time, and what of it this thread ran.
    Kept in arrays: a minute of pairs would take 3 MB of the memory that is measured too."""

    def __init__(self) -> None:
        from PySide6.QtCore import Qt, QTimer

        self._walls, self._cpus = array("d"), array("d")
        self._last = (time.perf_counter(), time.thread_time())
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._timer.start(2)

    def _tick(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        self._walls.append(now[0] - self._last[0])
        self._cpus.append(now[1] - self._last[1])
        self._last = now

    def end(self) -> float:
        self._timer.stop()
        return self.longest(1)[0][0]

    def longest_cpu_ms(self) -> float:
        """The most that this thread itself computed between two rounds of the loop: what the
        longest gap would be on a machine of its own."""
        return max(self._cpus) * 1000

    def longest(self, count: int) -> list[tuple[float, float]]:
        """Of the longest gaps: wall ms and CPU ms."""
        found = nlargest(count, zip(self._walls, self._cpus, strict=True))
        return [(round(wall * 1000, 1), round(cpu * 1000, 1)) for wall, cpu in found]


def _wait(app: Any, is_so: Callable[[], Any], wake_ms: int = WAKE_MS) -> None:
    """Process events until it is so, and sleep between them: with a time limit
    `processEvents` returns at once, and its turns would count as the program's own work."""
    from PySide6.QtCore import QEventLoop, QTimer

    waker = QTimer()
    waker.start(wake_ms)
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > ends_at:
            raise TimeoutError("it never came")
        app.application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def _settle(app: Any, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    _wait(app, lambda: time.monotonic() >= ends_at)


def _cpu_ms() -> float:
    return time.process_time() * 1000


def _wall_ms() -> float:
    """Since the parent started this process."""
    return (time.time() - float(os.environ[BEGAN])) * 1000


def _memory() -> dict[str, Any]:
    import psutil

    return {"rss_bytes": psutil.Process().memory_info().rss}


ROWS: dict[str, Callable[..., dict[str, Any]]] = {
    "empty": empty,
    "start": start,
    "opening": opening,
    "stream": stream,
}

if __name__ == "__main__":
    print(json.dumps(ROWS[sys.argv[1]](*sys.argv[2:])))
