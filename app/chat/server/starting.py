"""Starts the real server, which is imported here and then: it brings an ASGI stack along."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from app.refusal import Refusal

if TYPE_CHECKING:
    from app.server.exchange import Exchange
    from app.server.options import ServerOptions
    from app.server.replying import EngineHandle
    from app.server.server import Server

START_S: Final = 30.0
"""Importing the stack takes a second; a disk that sleeps, or a busy machine, much longer."""
TOO_LONG: Final = "The server didn't start in time. Turn it off and on again."


class RealServer:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.url: Final = _for_this_computer(server.address)

    def close(self, timeout_s: float) -> None:
        self._server.stop(timeout_s)


def start_server(
    options: ServerOptions,
    engine: EngineHandle,
    *,
    told: Callable[[Exchange], None],
    wake: Callable[[], Future[str]],
    failed: Callable[[str], None],
) -> RealServer:
    from app.server.server import Server, ServerState

    has_run = False

    def on_state(state: ServerState) -> None:
        if state is ServerState.FAILED and has_run:
            failed(server.sentence)

    server = Server(engine, options, on_state=on_state, on_exchange=told, wake=wake)
    server.start()
    if server.wait(START_S) is not ServerState.RUNNING:
        sentence = server.sentence or TOO_LONG
        server.stop()
        raise Refusal("server", sentence)
    has_run = True
    return RealServer(server)


def _for_this_computer(address: str) -> str:
    """An address that means all of this computer's, as programs here reach it.

    >>> _for_this_computer("http://0.0.0.0:80"), _for_this_computer("http://[::]:80")
    ('http://127.0.0.1:80', 'http://[::1]:80')
    """
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
