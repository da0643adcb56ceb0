"""Both engines as one: the local child and servers elsewhere. Each request goes to where the loaded
weights are.

Only one of them has weights at a time: loading from a server unloads the child, so that its memory
returns, and loading a file lets the server go. The state that is told is that of the one in use.
Request ids never meet: those of servers begin at `FIRST_ID`.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import Final

from app.engine.client.engine import Engine, Listener
from app.engine.client.supervisor import Ending, EngineEvent, EngineState, StateChanged
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import Choose, Command, Generate, Hello, Hold, Resume, Stop
from app.engine.protocol.remote_messages import is_remote
from app.engine.protocol.saved_messages import SavedFolder
from app.engine.remote.engine import Reach, RemoteEngine

FIRST_ID: Final = 2**40
"""The child never comes so far."""


class Engines:
    """What `Engine` offers, over both. `make_local` makes the child's handle."""

    def __init__(
        self, make_local: Callable[[Listener], Engine], on_event: Listener, reach: Reach
    ) -> None:
        self._on_event = on_event
        self._is_remote = False
        self._local = make_local(self._take_local)
        self._remote = RemoteEngine(reach, self._take_remote, first_id=FIRST_ID)

    def _take_local(self, event: EngineEvent) -> None:
        if not (self._is_remote and isinstance(event, StateChanged)):
            self._on_event(event)

    def _take_remote(self, event: EngineEvent) -> None:
        if self._is_remote or not isinstance(event, StateChanged):
            self._on_event(event)

    @property
    def _in_use(self) -> Engine | RemoteEngine:
        return self._remote if self._is_remote else self._local

    def _engine_of(self, request_id: int) -> Engine | RemoteEngine:
        return self._remote if request_id >= FIRST_ID else self._local

    # --- what there is --------------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        """Whether a server's weights are in use, or are to be."""
        return self._is_remote

    @property
    def state(self) -> EngineState:
        return self._in_use.state

    @property
    def hello(self) -> Hello | None:
        """The child's: it tells what this machine has."""
        return self._local.hello

    @property
    def loaded(self) -> Loaded | None:
        return self._in_use.loaded

    @property
    def is_owing(self) -> bool:
        return self._local.is_owing or self._remote.is_owing

    @property
    def pid(self) -> int | None:
        """The child's."""
        return self._local.pid

    def log_tail(self) -> list[str]:
        return self._in_use.log_tail()

    # --- what it is asked -----------------------------------------------------------------------

    def start(self) -> None:
        self._local.start()

    def load(
        self,
        path: str | PathLike[str],
        options: LoadOptions | None = None,
        saved: SavedFolder | None = None,
        projector: str = "",
    ) -> int:
        """A file, or a model of a server (`remote_path`), in place of what is loaded now."""
        if is_remote(fspath(path)):
            was_remote, self._is_remote = self._is_remote, True
            if not was_remote:
                self._local.unload()
            return self._remote.load(fspath(path))
        if self._is_remote:
            self._remote.unload()
            self._is_remote = False
        return self._local.load(path, options, saved, projector)

    def unload(self) -> int:
        return self._in_use.unload()

    def generate(self, request: Generate, listener: Listener | None = None) -> int:
        return self.request(request, listener)

    def request(self, command: Command, listener: Listener | None = None) -> int:
        if isinstance(command, Stop | Hold | Choose | Resume):
            return self._engine_of(command.target).request(command)
        return self._in_use.request(command, listener)

    def stop(self, request_id: int) -> None:
        self._engine_of(request_id).stop(request_id)

    def wait_for(self, request_id: int, timeout: float) -> Ending:
        return self._engine_of(request_id).wait_for(request_id, timeout)

    def close(self, timeout_s: float | None = None) -> None:
        self._remote.close(timeout_s)
        self._local.close(timeout_s)
