"""A few threads that wait for a hub, so that the window never does.

A job belongs to a `Call` and can be called off at once, also in mid-answer. What must hold: `close`
takes at most a moment. A thread that the system holds (in a name look-up) is left to end by itself;
nobody hears of its job.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from app.hub.gate import Call, CalledOff

N_THREADS: Final = 6
"""More than are asked at once: one that still connects for a question that was called off cannot be
cut, and holds its thread until it has connected or given up."""
CLOSE_TIMEOUT_S: Final = 2.0
Job = Callable[[], None]


class HubPool:
    """Threads are made as they are needed. `put` and `close` belong to one thread."""

    def __init__(self, n_threads: int = N_THREADS) -> None:
        self._n_threads = n_threads
        self._jobs: queue.SimpleQueue[tuple[Call, Job] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running: set[Call] = set()
        self._lock = threading.Lock()
        self._n_idle = 0
        self._is_closed = False

    def put(self, call: Call, job: Job) -> None:
        """Run it on some thread, as soon as one is free. It handles its own failures."""
        if self._is_closed:
            return
        with self._lock:
            self._running.add(call)
            needs_thread = self._n_idle < len(self._running)
        self._jobs.put((call, job))
        if needs_thread and len(self._threads) < self._n_threads:
            number = len(self._threads) + 1
            thread = threading.Thread(target=self._work, name=f"hub-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Call everything off and end the threads."""
        self._is_closed = True
        with self._lock:
            calls = list(self._running)
        for call in calls:
            call.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        ends_at = time.monotonic() + CLOSE_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(ends_at - time.monotonic(), 0.0))

    def _work(self) -> None:
        while True:
            with self._lock:
                self._n_idle += 1
            taken = self._jobs.get()
            with self._lock:
                self._n_idle -= 1
            if taken is None:
                return
            call, job = taken
            try:
                with call.running():
                    job()
            except CalledOff:
                continue
            finally:
                with self._lock:
                    self._running.discard(call)
