"""The one gate that every connection passes. Closed, the program opens no socket.

`Gate` says whether; `transport.py` has the one place in the program that connects, and it asks
the gate before each connection and at each byte. What must hold:

* Nothing outside `app/hub/` imports anything that could connect (`tests/test_gate.py`).
* A gate is closed until somebody opens it, and closing it cuts what is under way.
* This machine's own addresses are a switch of their own (`let_here`): closed with it on, the gate
  lets connections to loopback through, looks no name up for them, and nothing else.
* A token leaves only in a request to `token_origin`, a server's key only in one to the origin that
  it belongs to (`KEY_ORIGIN`), whatever a redirect says.

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
KEY_ORIGIN: Final = "cutaway_key_origin"
"""Of a request's extensions: the origin that its Authorization header is for."""
NOT_KNOWN_YET: Final = "Settings are still loading. Try again in a moment."


class GateClosed(Exception):  # noqa: N818
    """No connection may be opened now; `sentence` says why, and what to do."""

    def __init__(self, sentence: str = OFFLINE) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class CalledOff(Exception):  # noqa: N818
    """Whoever asked does not want the answer any more."""


class Cuttable(Protocol):
    """A connection that another thread can end. `is_here`: its other end is on this machine."""

    @property
    def is_here(self) -> bool: ...
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
        self._lets_here = False
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
        self._cut_barred()

    def let_here(self, *, lets: bool) -> None:
        """Whether connections to this machine are let through while it is closed."""
        self._lets_here = lets
        self._cut_barred()

    def _cut_barred(self) -> None:
        with self._lock:
            barred = [each for each in self._connections if not self.lets(each.is_here)]
        for each in barred:
            each.cut()

    def lets(self, is_here: bool) -> bool:
        """Whether a connection may be used; `is_here`: its other end is on this machine."""
        return not self._why_closed or (is_here and self._lets_here)

    def check(self, is_here: bool = False) -> None:
        """Raise GateClosed if no such connection may be used."""
        if not self.lets(is_here):
            raise GateClosed(self._why_closed or OFFLINE)

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
        self._lets_here = False
        self.close_it(why)
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # --- for the transport ----------------------------------------------------------------------

    def enter(self, connection: Cuttable) -> None:
        """A connection has been made. Raises GateClosed if the gate was closed meanwhile."""
        with self._lock:
            self.check(connection.is_here)
            self._connections.add(connection)

    def leave(self, connection: Cuttable) -> None:
        with self._lock:
            self._connections.discard(connection)

    @property
    def n_connections(self) -> int:
        """How many are open, idle ones included."""
        return len(self._connections)
