"""Delayed calls on the owner's thread: debounced saves, the periodic save of a reply.

One small thread sleeps until the next alarm is due and hands its action to `post`; it
never runs an action itself. No Qt here, so that the use cases run in plain tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

DelayedCall = Callable[[], None]


class Alarms:
    """Alarms by key: setting a key again replaces it, which makes a debounce."""

    def __init__(self, post: Callable[[DelayedCall], None]) -> None:
        self._post = post
        self._due: dict[str, tuple[float, DelayedCall]] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)
        self._thread.start()

    def set(self, key: str, delay_s: float, action: DelayedCall) -> None:
        """Post `action` in `delay_s` seconds, unless `key` is set or cancelled before."""
        with self._changed:
            self._due[key] = (time.monotonic() + delay_s, action)
            self._changed.notify()

    def set_once(self, key: str, delay_s: float, action: DelayedCall) -> None:
        """Like `set`, but an alarm that already waits under `key` stays as it is."""
        with self._changed:
            if key not in self._due:
                self._due[key] = (time.monotonic() + delay_s, action)
                self._changed.notify()

    def cancel(self, key: str) -> None:
        with self._changed:
            self._due.pop(key, None)

    def close(self) -> None:
        """Drop every alarm and join the thread."""
        with self._changed:
            self._is_closed = True
            self._due.clear()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_closed:
                    return
                now = time.monotonic()
                ready = [key for key, (due, _) in self._due.items() if due <= now]
                actions = [self._due.pop(key)[1] for key in ready]
                if not actions:
                    next_due = min((due for due, _ in self._due.values()), default=None)
                    self._changed.wait(None if next_due is None else next_due - now)
            for action in actions:
                self._post(action)
