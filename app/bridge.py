"""Where the use cases meet Qt: events reach the widgets, answers come to the GUI thread.

The only file under `app/` that imports PySide6, and only QtCore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from PySide6.QtCore import QObject, Qt, Signal

from app.chat import events

E = TypeVar("E")


class _Kind(QObject):
    """One class of event: whoever is told of it."""

    told = Signal(object)


class Bridge(QObject):
    """Tells each event to those who asked for its class.

    `post` may be called on any thread: the function runs on the thread that the bridge
    lives on (the GUI's), in the order of the calls. After `close` nothing runs any more.
    """

    _posted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._posted.connect(self._run, Qt.ConnectionType.QueuedConnection)
        self._kinds = {kind: _Kind(self) for kind in get_args(events.Event)}
        self._tell = {kind: each.told.emit for kind, each in self._kinds.items()}

    def on(
        self,
        kinds: type[E] | tuple[type[E], ...],
        slot: Callable[[E], object] | Callable[[], object],
    ) -> None:
        """Call `slot` with each event of this class, or of one of these. A method of a widget is
        forgotten with the widget; a function never is."""
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            self._kinds[kind].told.connect(slot)

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the bridge's thread, soon. Callable from any thread."""
        if not self._is_closed:
            self._posted.emit(action)

    def emit_event(self, event: events.Event) -> None:
        """Tell it, at once (call it on the bridge's thread)."""
        if not self._is_closed:
            self._tell[type(event)](event)

    def close(self) -> None:
        """What is still posted is dropped: its receivers are going away."""
        self._is_closed = True

    def _run(self, action: Callable[[], None]) -> None:
        if not self._is_closed:
            action()
