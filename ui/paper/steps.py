"""Short steps on the GUI thread, one after the other, led by another thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, TimeoutError as NotYet
from typing import Any, Final, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

T = TypeVar("T")

LOOK_EVERY_S: Final = 0.05
PATIENCE_S: Final = 0.5
"""For the last step of a run that is given up: while the window closes nobody takes it."""


class Steps(QObject):
    """Lives on the GUI thread."""

    _asked = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asked.connect(self._on_asked, Qt.ConnectionType.QueuedConnection)

    def run(self, act: Callable[[], T], check: Callable[[], None]) -> T:
        """Called on the other thread; waits. `check` raises where nobody wants it any more."""
        future: Future[T] = Future()
        self._asked.emit(act, future)
        while True:
            try:
                return future.result(LOOK_EVERY_S)
            except NotYet:
                try:
                    check()
                except BaseException:
                    future.cancel()
                    raise

    def run_last(self, act: Callable[[], object]) -> None:
        """Likewise, after something was raised: not for long."""
        future: Future[object] = Future()
        self._asked.emit(act, future)
        with contextlib.suppress(NotYet, CancelledError):
            future.result(PATIENCE_S)

    def _on_asked(self, act: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)
