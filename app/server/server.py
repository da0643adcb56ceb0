"""The server as the window and `main.py serve` have it: started, stopped, and what it tells.

    server = Server(engine, ServerOptions(port=8642), on_state=…, on_exchange=…)
    server.start()                # returns at once; RUNNING or FAILED is told
    server.address                # "http://127.0.0.1:8642", "" while it does not run
    server.stop()                 # ends all requests, frees the port; waits, within bounds

`on_state` is called with the new state, `on_exchange` with an `Exchange` whenever one has begun to
be answered, a reply of it has ended, or it has ended itself. Both are called on threads of ours
(the server's, the engine's): a window posts them to its own. `wake` is asked, on the server's, to
have a model loaded where a request finds none. The engine is the caller's, is used
with listeners of our own, and must outlive the server: stop the server first.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from app.refusal import Refusal
from app.server.exchange import Exchange
from app.server.options import ServerOptions

if TYPE_CHECKING:
    import uvicorn

    from app.server.replying import EngineHandle, Replies
    from app.server.service import Wake

STOP_S: Final = 3.0
_GRACE_S: Final = 0.5
"""So long a stream has to say how it ended."""

_log = logging.getLogger(__name__)


class ServerState(StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


class Server:
    """One server. It can be started again after it has stopped, with other options."""

    def __init__(
        self,
        engine: EngineHandle,
        options: ServerOptions | None = None,
        *,
        on_state: Callable[[ServerState], None] = lambda _: None,
        on_exchange: Callable[[Exchange], None] = lambda _: None,
        wake: Wake | None = None,
    ) -> None:
        self.options = options or ServerOptions()
        self._engine = engine
        self._on_state = on_state
        self._on_exchange = on_exchange
        self._wake = wake
        self._state = ServerState.STOPPED
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._address = ""
        self._sentence = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._replies: Replies | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._is_ending = False

    # --- any thread -----------------------------------------------------------------------------

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def address(self) -> str:
        """Where it listens; empty while it does not."""
        return self._address

    @property
    def sentence(self) -> str:
        """Why it could not start, in FAILED."""
        return self._sentence

    @property
    def open_count(self) -> int:
        """Requests that the engine has not ended yet."""
        return self._replies.open_count if self._replies is not None else 0

    def start(self, options: ServerOptions | None = None) -> None:
        """Begin to listen, on a thread of its own. Nothing where it runs already."""
        with self._changed:
            if self._state in (ServerState.STARTING, ServerState.RUNNING, ServerState.STOPPING):
                return
            if options is not None:
                self.options = options
            self._is_ending = False
            self._sentence = ""
            self._thread = threading.Thread(target=self._run, name="server", daemon=True)
            self._state = ServerState.STARTING
        self._on_state(ServerState.STARTING)
        self._thread.start()

    def wait(self, timeout_s: float) -> ServerState:
        """Until it runs, or does not. Returns the state then."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._state in (ServerState.RUNNING, ServerState.FAILED), timeout_s
            )
            return self._state

    def stop(self, timeout_s: float = STOP_S) -> None:
        """End all requests, and give the port back. Waits at most this long."""
        with self._changed:
            self._is_ending = True
            thread, loop = self._thread, self._loop
        if thread is None:
            return
        if loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._end)
        if thread is not threading.current_thread():
            thread.join(timeout_s)

    # --- its thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        listening: socket.socket | None = None
        try:
            self.options.check()
            listening = _listen(self.options.host, self.options.port)
            asyncio.run(self._serve(listening))
            self._settle(ServerState.STOPPED)
        except Refusal as refused:
            self._settle(ServerState.FAILED, refused.sentence)
        except OSError as error:
            self._settle(ServerState.FAILED, _why_not(self.options, error))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the window
            _log.exception("the server's thread failed")
            self._settle(ServerState.FAILED, f"The server stopped: {type(error).__name__}.")
        finally:
            if listening is not None:
                listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        import uvicorn

        from app.server.connection import limited
        from app.server.replying import Replies
        from app.server.service import Service

        loop = asyncio.get_running_loop()
        limits = self.options.limits
        replies = Replies(self._engine, loop, self._on_exchange, limits.waiting, limits.behind)
        config = uvicorn.Config(
            Service(replies, self.options, self._on_exchange, self._wake).app(),
            http=limited(limits, lambda: self._is_ending),
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=limits.header_bytes,
            timeout_keep_alive=max(int(limits.header_s), 1),
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        with self._changed:
            self._loop, self._replies, self._uvicorn = loop, replies, server
            is_ending = self._is_ending
        if is_ending:
            return
        self._address = _address(listening)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started and not self._is_ending:
            self._settle(ServerState.RUNNING)
        await serving

    def _end(self) -> None:
        """On the loop: stop the replies, let streams say so, then end what is left."""
        server, replies = self._uvicorn, self._replies
        if server is None or replies is None or server.should_exit:
            return
        self._tell(ServerState.STOPPING)
        replies.stop_all()
        server.should_exit = True
        loop = asyncio.get_running_loop()
        loop.call_later(_GRACE_S, self._end_by_force)

    def _end_by_force(self) -> None:
        server = self._uvicorn
        if server is None:
            return
        server.force_exit = True
        for connection in list(server.server_state.connections):
            connection.transport.abort()

    def _settle(self, state: ServerState, sentence: str = "") -> None:
        if state is not ServerState.RUNNING:
            self._address = ""
            with self._changed:
                self._loop = self._uvicorn = None
        self._sentence = sentence
        self._tell(state)

    def _tell(self, state: ServerState) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
        self._on_state(state)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: nobody else may take the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[0][4])
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _why_not(options: ServerOptions, error: OSError) -> str:
    import errno

    if error.errno == errno.EADDRINUSE:
        return f"Port {options.port} is in use by another program. Choose another port."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Port {options.port} may not be used. Choose one above 1023."
    return f"The server can't listen on {options.host}:{options.port} ({error.strerror})."
