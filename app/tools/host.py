"""The host of all tool servers: a thread with an event loop, which any other thread may ask.

`start`, `stop`, `call` and their neighbours return at once; what comes of them is told on the
host's thread by the callbacks that they were given. What must hold:

* The thread and everything imported for it begin with the first server that is started.
* Each question ends in one `Outcome`, also where the server, or the host, has ended.
* `close` ends every server for certain and returns within bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from app.hub.gate import Gate
from app.tools.records import Outcome, ServerState
from app.tools.servers import ToolServer

if TYPE_CHECKING:
    from app.tools.running import Run

CLOSE_S: Final = 8.0
OnDone = Callable[[Outcome], None]
OnProgress = Callable[[str], None]

NOT_RUNNING: Final = "The server isn't running."
CLOSED: Final = "Cutaway is closing."

_log = logging.getLogger(__name__)


class CallHandle:
    """A question under way. `cancel` may be called on any thread, and more than once."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """The server is told, and the outcome is "cancelled"."""
        self._is_cancelled = True
        self._host.post(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def bind(self, task: asyncio.Task[None]) -> None:
        self._task = task
        if self._is_cancelled:
            task.cancel()


class ToolHost:
    """`on_state` hears of every change of a server, on the host's thread."""

    def __init__(self, gate: Gate, on_state: Callable[[ServerState], None]) -> None:
        self._gate = gate
        self._on_state = on_state
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._runs: dict[str, Run] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """All lives and questions, also those that are being cancelled."""
        self._logs: dict[str, Any] = {}

    # --- for any thread -------------------------------------------------------------------------

    def start(self, server: ToolServer, values: Mapping[str, str]) -> None:
        """Start a server, or start it anew. `values`: those of its secrets."""
        self._on_state(ServerState(server.id, "starting"))
        self.post(lambda: self._begin(server, dict(values)), starts=True)

    def stop(self, server_id: str) -> None:
        """End a server; told as "off" when it has ended."""
        self.post(lambda: self._end(server_id))

    def call(
        self,
        server_id: str,
        tool: str,
        arguments: dict[str, Any],
        on_done: OnDone,
        on_progress: OnProgress = lambda _words: None,
    ) -> CallHandle:
        """Call a tool; `on_done` gets the outcome."""
        return self._ask(server_id, lambda run: run.call(tool, arguments, on_progress), on_done)

    def read_resource(self, server_id: str, uri: str, on_done: OnDone) -> CallHandle:
        """What a resource of a server holds."""
        return self._ask(server_id, lambda run: run.read(uri), on_done)

    def get_prompt(
        self, server_id: str, name: str, arguments: dict[str, str], on_done: OnDone
    ) -> CallHandle:
        """A prompt of a server, with these arguments."""
        return self._ask(server_id, lambda run: run.prompt(name, arguments), on_done)

    def log_of(self, server_id: str) -> tuple[str, ...]:
        """The last lines that a server by command wrote beside the protocol."""
        found = self._logs.get(server_id)
        while found is not None:
            try:
                return tuple(found)
            except RuntimeError:  # a line came as it was copied
                continue
        return ()

    def close(self) -> None:
        """End all servers, then the thread. Nothing is told any more."""
        with self._lock:
            self._is_closed = True
            thread, loop = self._thread, self._loop
        if thread is not None and loop is not None:
            loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._finish()))
            thread.join(CLOSE_S)
            if thread.is_alive():
                _log.warning("tool servers did not end within %.0f s", CLOSE_S)

    def post(self, act: Callable[[], None], *, starts: bool = False) -> bool:
        """Run it on the host's thread, which begins where it `starts`. False: there is none."""
        with self._lock:
            if self._is_closed:
                return False
            if self._thread is None:
                if not starts:
                    return False
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._work, name="tools", daemon=True)
                self._thread.start()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(act)
            return True

    def _ask(
        self, server_id: str, ask: Callable[[Run], Coroutine[Any, Any, Outcome]], on_done: OnDone
    ) -> CallHandle:
        handle = CallHandle(self)

        async def settle() -> None:
            run = self._runs.get(server_id)
            if run is None or not run.is_ready:
                outcome = Outcome("failed", NOT_RUNNING)
            else:
                outcome = await ask(run)
            on_done(outcome)

        def begin() -> None:
            task = asyncio.ensure_future(settle())
            self._tasks.add(task)
            task.add_done_callback(lambda ended: self._on_asked(ended, on_done))
            handle.bind(task)

        if not self.post(begin):
            on_done(Outcome("failed", CLOSED if self._is_closed else NOT_RUNNING))
        return handle

    def _on_asked(self, task: asyncio.Task[None], on_done: OnDone) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # before it had begun
            on_done(Outcome("cancelled", "Stopped by you."))
        elif task.exception() is not None:
            _log.warning("a tool's answer was not taken", exc_info=task.exception())

    # --- on the host's thread -------------------------------------------------------------------

    def _work(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            from app.tools import running  # noqa: F401 - heavy, and here is where nobody waits

            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _begin(self, server: ToolServer, values: Mapping[str, str]) -> None:
        before = self._lives.pop(server.id, None)
        if before is not None:
            before.cancel()

        async def live() -> None:
            from app.tools.running import Run

            if before is not None:
                await asyncio.wait((before,))
            run = Run(server, values, self._gate, tell)
            if self._lives.get(server.id) is not task:
                return
            self._runs[server.id] = run
            self._logs[server.id] = run.log
            try:
                await run.live()
            finally:
                if self._runs.get(server.id) is run:
                    del self._runs[server.id]

        def tell(state: ServerState) -> None:
            # Of one that is started anew, or of which nobody wants to know any more.
            if self._lives.get(server.id) in (None, task) and not self._is_closed:
                self._on_state(state)

        task = asyncio.ensure_future(live())
        self._lives[server.id] = task
        self._tasks.add(task)
        task.add_done_callback(self._on_lived)

    def _end(self, server_id: str) -> None:
        task = self._lives.get(server_id)
        if task is None or task.done():
            self._lives.pop(server_id, None)
            self._on_state(ServerState(server_id, "off"))
        else:
            task.cancel()

    async def _finish(self) -> None:
        if tasks := tuple(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        asyncio.get_running_loop().stop()

    def _on_lived(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("a tool server's life failed", exc_info=task.exception())
