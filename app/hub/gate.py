"""The one gate that every connection passes. Closed, the program opens no socket.

`Gate` says whether; `transport.py` has the one place in the program that connects, and it asks
the gate before each connection and at each byte. What must hold:

* Nothing outside `app/hub/` imports anything that could connect (`tests/test_gate.py`).
* A gate is closed until somebody opens it, and closing it cuts what is under way.
* A token leaves only in a request to `token_origin`, whatever a redirect says.

A `Call` is something that one thread asks and another may call off, at once, in mid-answer.

Light: httpx2 is imported at the first request.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import httpx2

OFFLINE: Final = (
    "Cutaway is offline. Turn off Offline in Settings → Data to use the hub. Models on this "
    "computer still work."
)
OFFLINE_BY_ARGUMENT: Final = (
    "Cutaway was started with --offline. Restart it without --offline to use the hub. Models on "
    "this computer still work."
)
NOT_KNOWN_YET: Final = "Settings are still loading. Try again in a moment."


class GateClosed(Exception):  # noqa: N818
    """No connection may be opened now; `sentence` says why, and what to do."""

    def __init__(self, sentence: str = OFFLINE) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class CalledOff(Exception):  # noqa: N818
    """Whoever asked does not want the answer any more."""


class Cuttable(Protocol):
    """A connection that another thread can end."""

    def cut(self) -> None: ...


class Call:
    """Asked on one thread inside `running`, called off on any with `cancel`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_use: Cuttable | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """What waits for an answer raises CalledOff, at once; so does what comes later."""
        with self._lock:
            self._is_cancelled = True
            in_use = self._in_use
            if in_use is not None:
                in_use.cut()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Everything that this thread asks of a gate in here belongs to this call."""
        outer = current_call()
        _of_thread.call = self
        try:
            self.check()
            yield
        finally:
            _of_thread.call = outer

    def check(self) -> None:
        if self._is_cancelled:
            raise CalledOff

    @contextlib.contextmanager
    def using(self, connection: Cuttable) -> Iterator[None]:
        """Around everything that may wait: `cancel` cuts this connection."""
        with self._lock:
            self.check()
            self._in_use = connection
        try:
            yield
        finally:
            with self._lock:
                self._in_use = None
            self.check()


_of_thread = threading.local()


def current_call() -> Call | None:
    """The call that this thread works on."""
    call: Call | None = getattr(_of_thread, "call", None)
    return call


class Gate:
    """Closed at first. All methods may be called on any thread."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.token_origin = ""
        """The only origin ("https://host:port") that a token is sent to. "": none."""
        self._lock = threading.Lock()
        self._why_closed = "" if is_open else NOT_KNOWN_YET
        self._connections: set[Cuttable] = set()
        self._client: httpx2.Client | None = None

    @property
    def is_open(self) -> bool:
        return not self._why_closed

    @property
    def why_closed(self) -> str:
        """A sentence; empty while it is open."""
        return self._why_closed

    def open_it(self) -> None:
        with self._lock:
            self._why_closed = ""

    def close_it(self, why: str = OFFLINE) -> None:
        """From now on nothing is opened, sent or read; what is under way is cut."""
        with self._lock:
            self._why_closed = why
            connections = list(self._connections)
        for each in connections:
            each.cut()

    def check(self) -> None:
        """Raise GateClosed if no connection may be used."""
        if self._why_closed:
            raise GateClosed(self._why_closed)

    def client(self, make: Callable[[Gate], httpx2.Client]) -> httpx2.Client:
        """The client whose every connection passes here; `transport.plain_client` makes it, once.
        It follows no redirect by itself, keeps no cookies, and reads no credentials from
        anywhere."""
        with self._lock:
            if self._client is None:
                self._client = make(self)
            return self._client

    def shut_down(self, why: str = OFFLINE) -> None:
        """Close it for good: cut everything and let the client go."""
        self.close_it(why)
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # --- for the transport ----------------------------------------------------------------------

    def enter(self, connection: Cuttable) -> None:
        """A connection has been made. Raises GateClosed if the gate was closed meanwhile."""
        with self._lock:
            self.check()
            self._connections.add(connection)

    def leave(self, connection: Cuttable) -> None:
        with self._lock:
            self._connections.discard(connection)

    @property
    def n_connections(self) -> int:
        """How many are open, idle ones included."""
        return len(self._connections)
