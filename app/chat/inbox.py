"""Carries events of a worker thread to the owner's thread, many at a time.

A fast engine sends a thousand events a second. Posting each alone would put as many
events into the owner's event loop, and handling a backlog in one go would freeze it. So
one post serves all that wait, and it hands the thread back after a few milliseconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
MAX_HELD_S: Final = 0.008


class Inbox(Generic[Item]):
    """`put` from any thread; `handle` and then `after` run on the owner's thread."""

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None],
        handle: Callable[[Item], None],
        after: Callable[[], None],
        max_held_s: float = MAX_HELD_S,
    ) -> None:
        self._post = post
        self._handle = handle
        self._after = after
        self._max_held_s = max_held_s
        self._items: deque[Item] = deque()
        self._is_posted = False
        self._lock = threading.Lock()

    def put(self, item: Item) -> None:
        """Queue an item; the first one that waits posts the emptying of the queue."""
        with self._lock:
            self._items.append(item)
            if self._is_posted:
                return
            self._is_posted = True
        self._post(self._empty)

    def _empty(self) -> None:
        ends_at = time.monotonic() + self._max_held_s
        try:
            while self._items and time.monotonic() < ends_at:
                self._handle(self._items.popleft())
        finally:
            with self._lock:
                self._is_posted = bool(self._items)
            if self._is_posted:
                self._post(self._empty)
            self._after()
