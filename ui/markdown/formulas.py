"""Pictures of formulas, made by a child process while the text is shown without them.

What must hold: asking costs nothing and never waits; what is not there (yet) is None, and the
text shows its source; a formula that takes too long, or ends the child, is given up and the
others go on; no child outlives this object, or stays when there is nothing to do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QProcess, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPixmap, QPixmapCache
from shiboken6 import isValid

from app.markdown.formula_child import INK, SIZE
from ui.markdown.recent import Recent

MAX_CHARS = 2000
MAX_KEPT = 600
START_MS, DEADLINE_MS = 25_000, 8000
"""How long the first answer of a child may take, and each other one."""
IDLE_MS = 30_000
GATHER_MS = 40

Key = tuple[str, bool]
"""TeX, and whether it stands on a line of its own."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A formula. Lengths are in em: `ascent` above the baseline, `descent` below."""

    svg: str
    width: float
    ascent: float
    descent: float

    def paint(
        self, painter: QPainter, x: float, baseline: float, em_px: float, color: QColor
    ) -> None:
        """Draw with the left end of the baseline at a point, in the colour of the text."""
        pixmap = self._pixmap(em_px, color, painter.device().devicePixelRatioF())
        painter.drawPixmap(round(x), round(baseline - self.ascent * em_px), pixmap)

    def _pixmap(self, em_px: float, color: QColor, ratio: float) -> QPixmap:
        key = f"formula:{self._hash}:{em_px}:{color.name()}:{ratio}"
        pixmap = QPixmap()
        if QPixmapCache.find(key, pixmap):
            return pixmap
        from PySide6.QtSvg import QSvgRenderer

        width, height = self.width * em_px, (self.ascent + self.descent) * em_px
        pixmap = QPixmap(max(1, round(width * ratio)), max(1, round(height * ratio)))
        pixmap.fill(QColor(0, 0, 0, 0))
        svg = self.svg.replace(INK, color.name())
        inner = QPainter(pixmap)
        renderer = QSvgRenderer(QByteArray(svg.encode()))
        renderer.render(inner, QRectF(0, 0, width * ratio, height * ratio))
        inner.end()
        pixmap.setDevicePixelRatio(ratio)
        QPixmapCache.insert(key, pixmap)
        return pixmap

    @cached_property
    def _hash(self) -> int:
        return hash(self.svg)


class Formulas(QObject):
    """Keeps pictures and asks for those that are missing. `arrived`: some are there now."""

    arrived = Signal()

    def __init__(self, parent: QObject | None = None, *, command: list[str] | None = None) -> None:
        super().__init__(parent)
        self._command = command
        self._found: dict[Key, Picture | None] = Recent(MAX_KEPT)
        self._waiting: dict[int, Key] = {}
        self._last_id = 0
        self._child: list[QProcess] = []  # one at most
        self._unread = b""
        self._viewers: set[int] = set()
        self._deadline_ms = DEADLINE_MS
        self._deadline = self._timer(DEADLINE_MS, self._on_too_late)
        self._idle = self._timer(IDLE_MS, self._end)
        self._unseen = self._timer(0, self._on_unseen)
        self._gather = self._timer(GATHER_MS, self.arrived.emit)
        if parent is not None:
            # Not a method of ours: where the collector takes both, it is no slot any more by then.
            parent.destroyed.connect(partial(_end_all, self._child))

    def find(self, tex: str, *, is_display: bool) -> Picture | None:
        """The picture of a formula if it is there; else it is asked for, once."""
        key = (tex, is_display)
        if key in self._found:
            return self._found[key]
        if len(tex) > MAX_CHARS:
            return None
        if key not in self._waiting.values():
            self._last_id += 1
            self._waiting[self._last_id] = key
            self._ask(self._last_id, key)
        return None

    def is_known(self, tex: str, *, is_display: bool) -> bool:
        """Whether nothing more will come: a picture is there, or there will be none."""
        return (tex, is_display) in self._found or len(tex) > MAX_CHARS

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def _process(self) -> QProcess | None:
        return self._child[0] if self._child else None

    @property
    def is_running(self) -> bool:
        """Whether the child is there."""
        return self._process is not None

    def look(self, viewer: QObject) -> None:
        """A view that shows formulas came on screen. Several may share one child."""
        self._viewers.add(id(viewer))

    def look_away(self, viewer: QObject) -> None:
        """It left the screen; with the last one the child rests. Not at once: where one view
        takes another one's place, that one goes first."""
        self._viewers.discard(id(viewer))
        self._unseen.start()

    def _on_unseen(self) -> None:
        if not self._viewers:
            self.rest()

    def rest(self) -> None:
        """Nobody looks: the child ends, and what it was asked is forgotten."""
        self._waiting.clear()
        for timer in (self._deadline, self._idle, self._gather):
            timer.stop()
        self._end()

    # The child

    def _ask(self, number: int, key: Key) -> None:
        request = {"id": number, "tex": key[0], "is_display": key[1]}
        self._idle.stop()
        is_new = self._process is None
        process = self._running()
        if not self._deadline.isActive():
            self._deadline.start(START_MS if is_new else self._deadline_ms)
        if process.state() is QProcess.ProcessState.NotRunning:
            return
        process.write(json.dumps(request).encode() + b"\n")

    def _running(self) -> QProcess:
        if self._process is None:
            process = QProcess(self)
            command = self._command or _child_command()
            process.setProgram(command[0])
            process.setArguments(command[1:])
            process.setStandardErrorFile(QProcess.nullDevice())
            process.readyReadStandardOutput.connect(self._on_output)
            process.finished.connect(self._on_ended)
            process.errorOccurred.connect(self._on_error)
            self._unread = b""
            self._child.append(process)
            process.start()
        return self._child[0]

    def _on_output(self) -> None:
        if self._process is None:
            return
        self._unread += bytes(self._process.readAllStandardOutput().data())
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(line)
        if self._waiting:
            self._deadline.start(self._deadline_ms)
        else:
            self._deadline.stop()
            self._idle.start()

    def _take(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
            key = self._waiting.pop(answer["id"], None)
            picture = _picture(answer)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if key is not None:
            self._found[key] = picture
            if not self._gather.isActive():
                self._gather.start()

    def _on_too_late(self) -> None:
        self._give_up_first()

    def _on_ended(self) -> None:
        if self._process is not None and self._process is self.sender():
            self._give_up_first()

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            for key in self._waiting.values():
                self._found[key] = None
            self._waiting.clear()
            self._end()

    def _give_up_first(self) -> None:
        """The formula that the child is at has no picture; a new child does the others."""
        self._deadline.stop()
        self._end()
        if not self._waiting:
            return
        first = next(iter(self._waiting))
        self._found[self._waiting.pop(first)] = None
        self._gather.start()
        for number, key in self._waiting.items():
            self._ask(number, key)

    def _end(self) -> None:
        if not self._child:
            return
        process = self._child.pop()
        process.readyReadStandardOutput.disconnect(self._on_output)
        process.finished.disconnect(self._on_ended)
        process.errorOccurred.disconnect(self._on_error)
        _end_all([process])
        process.deleteLater()

    def _timer(self, interval_ms: int, act: Any) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(interval_ms)
        timer.timeout.connect(act)
        return timer


def _end_all(processes: list[QProcess], _gone: QObject | None = None) -> None:
    """Whoever looked at formulas is gone, or nobody looks any more."""
    for process in processes:
        if isValid(process) and process.state() is not QProcess.ProcessState.NotRunning:
            process.blockSignals(True)  # who heard them may be gone
            process.kill()
            process.waitForFinished(2000)


def _child_command() -> list[str]:
    from app.engine.client.process import child_command

    return child_command("formulas")


def _picture(answer: dict[str, Any]) -> Picture | None:
    if "svg" not in answer:
        return None
    top, width, height = (float(answer[name]) / SIZE for name in ("top", "width", "height"))
    return Picture(str(answer["svg"]), width, -top, height + top)
