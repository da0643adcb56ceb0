"""The window's life as the composition root sees it: first paint, signals, an end on time."""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final

from PySide6.QtCore import QEvent, QObject, QSocketNotifier, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

LATEST_START_MS: Final = 3000
WARM_UP_AFTER_MS: Final = 1500
"""The last chat shall be readable first."""
TIDY_EVERY_MS: Final = 1_000
MANY: Final = 50_000
"""So many new objects would be looked at for more than ten milliseconds."""
COLLECT_EVERY_MS: Final = 10_000
COLLECTIONS_DUE, COLLECTIONS_OVERDUE = 4, 100
"""How many collections of the middle generation make a full one due."""
ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""What asks a program to end: a key, the system, a terminal or session that goes away."""


class FirstPaint(QObject):
    """Calls `action` once, after the window was painted and what waited was handled.

    A window that is never painted (minimised at once) does not keep it waiting for ever.
    """

    def __init__(self, window: QWidget, action: Callable[[], None]) -> None:
        super().__init__(window)
        self._action: Callable[[], None] | None = action
        self._latest = QTimer(self)
        self._latest.setSingleShot(True)
        self._latest.timeout.connect(self._act)
        self._latest.start(LATEST_START_MS)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Paint and self._action is not None:
            watched.removeEventFilter(self)
            # The paint itself comes after this filter; the timer after the paint.
            QTimer.singleShot(0, self, self._act)
        return False

    def cancel(self) -> None:
        """The window closes: whatever has not begun never does."""
        self._action = None
        self._latest.stop()

    def _act(self) -> None:
        self._latest.stop()
        action, self._action = self._action, None
        if action is not None:
            action()


class Imports(QObject):
    """Imports modules beside the window once `begin` is called, then calls `action` there.

    The classes of Qt's objects are made on the window's thread alone, one module per turn of its
    loop: PySide looks at its classes, to deliver an event, without Python's lock, and a window
    ended (SIGSEGV in `MetaObjectBuilder::update`) where another thread was just making one. So
    `names` has what such a module needs besides before it, and the thread reads that first.
    """

    _done = Signal()

    def __init__(self, window: QWidget, names: Sequence[str], action: Callable[[], None]) -> None:
        super().__init__(window)
        self._names = names
        self._here = [name for name in names if has_qt_classes(name)]
        self._action: Callable[[], None] | None = action
        self._thread = threading.Thread(target=self._import, name="imports", daemon=True)
        self._done.connect(self._next, Qt.ConnectionType.QueuedConnection)

    def begin(self) -> None:
        from app.memory import share_one_heap

        share_one_heap()  # while there is one thread
        self._thread.start()

    def cancel(self) -> None:
        """The window closes: `action` is not called any more, and the thread has ended."""
        self._action = None
        if self._thread.ident is not None:
            self._thread.join()

    def _import(self) -> None:
        for name in self._names:
            if not has_qt_classes(name):
                _import(name)
        self._done.emit()

    def _next(self) -> None:
        if self._action is None:
            return
        if self._here:
            _import(self._here.pop(0))
            QTimer.singleShot(0, self, self._next)
            return
        action, self._action = self._action, None
        action()


def has_qt_classes(module: str) -> bool:
    return module.startswith("ui.") or module == "app.bridge"


def _import(name: str) -> None:
    # What cannot be imported says so again where it is used.
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


class SignalWatcher:
    """Inside `with`, the signals of `ENDING` call `action` on the GUI thread.

    Python runs a signal's handler only between its own instructions, and an idle event loop
    runs none. So the C handler writes a byte into a pipe whose other end wakes the loop.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> SignalWatcher:
        self._ends = _SocketEnds() if sys.platform == "win32" else _PipeEnds()
        self._former_fd = signal.set_wakeup_fd(self._ends.write_fd, warn_on_full_buffer=False)
        self._notifier = QSocketNotifier(self._ends.read_fd, QSocketNotifier.Type.Read)
        self._notifier.activated.connect(self._drain)
        for number in ENDING:
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._former_fd)
        self._notifier.setEnabled(False)
        self._notifier.deleteLater()
        self._ends.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        QTimer.singleShot(0, self._close)

    def _close(self) -> None:
        self._action()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._ends.read()


class _PipeEnds:
    """Two ends that never block."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.write_fd, False)

    def read(self) -> None:
        os.read(self.read_fd, 4096)

    def close(self) -> None:
        os.close(self.read_fd)
        os.close(self.write_fd)


class _SocketEnds:
    """The same for Windows, where a signal may only write into a socket. Its module is not
    imported elsewhere: that takes a twentieth of the way to the first paint."""

    def __init__(self) -> None:
        import socket

        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        self.read_fd, self.write_fd = (end.fileno() for end in self._ends)

    def read(self) -> None:
        self._ends[0].recv(4096)

    def close(self) -> None:
        for end in self._ends:
            end.close()


class QuietCollector:
    """Python's garbage collector, kept from freezing the window, and from ending it.

    By itself it comes on whatever thread has just made an object, and lets go there of what the
    window's thread has dropped in a circle; but Qt's objects must end on their own thread. And a
    full collection looks at every object: 150 ms with a conversation of 10,000 messages open, and
    one comes just when such a conversation is read. So from `hold` until `end` nothing is collected
    by itself, and from `begin` on, on the window's thread: new objects once a second, if there are
    many enough; all of them only where `is_busy` says no. What the start made is not looked at
    again, and neither is what comes in large numbers: messages that are read have no circles.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._thresholds = gc.get_threshold()
        self._was_on = False
        self._timers = [self._timer(self._tidy), self._timer(self._look)]

    @staticmethod
    def _timer(act: Callable[[], None]) -> QTimer:
        timer = QTimer()
        timer.timeout.connect(act)
        return timer

    def hold(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def begin(self) -> None:
        gc.freeze()
        for timer, every_ms in zip(self._timers, (TIDY_EVERY_MS, COLLECT_EVERY_MS), strict=True):
            timer.start(every_ms)

    def end(self) -> None:
        for timer in self._timers:
            timer.stop()
        if self._was_on:
            gc.enable()
        gc.unfreeze()

    def _tidy(self) -> None:
        """The objects that are new since the last time, as the collector by itself would."""
        new, small, _ = gc.get_count()
        if new > MANY:
            gc.freeze()
        elif new > self._thresholds[0]:
            gc.collect(1 if small > self._thresholds[1] else 0)

    def _look(self) -> None:
        """Collect if enough was made since the last time, whatever goes on if it was a lot."""
        due = gc.get_count()[2]
        if due >= COLLECTIONS_DUE and (not self._is_busy() or due >= COLLECTIONS_OVERDUE):
            gc.collect()
        if not self._is_busy():
            from app.memory import give_back

            give_back()


def drop_import_hook() -> None:
    """Take PySide's hook out of `import`, and with it a tenth of every later import.

    The hook reads the source of each module that is imported after PySide, to see whether
    it wants snake_case names (`from __future__`-like "features", which nothing here uses):
    100 to 300 ms at our start, and 8 MB of source that stays in `linecache`.
    """
    original = getattr(builtins, "__orig_import__", None)
    if original is not None:
        builtins.__import__ = original


def warm_up() -> threading.Thread:
    """Import what the first shown reply needs, beside the window instead of in its way."""

    from app.markdown import highlight, parser

    def imports() -> None:
        parser.read_definitions(["[a]: https://example.org"])
        highlight.warm_up()

    thread = threading.Thread(target=imports, name="warm-up", daemon=True)
    thread.start()
    return thread


def call_after(window: QWidget, seconds: float, action: Callable[[], None]) -> None:
    """Call `action` after some seconds, if the window is still there (`--quit-after`)."""
    QTimer.singleShot(round(seconds * 1000), window, action)
