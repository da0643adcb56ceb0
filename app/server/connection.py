"""One TCP connection, as uvicorn has it, with the limits that uvicorn leaves out.

uvicorn waits for ever for the head of a first request and takes any number of connections; here
each has a time for it, and those above the limit are closed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from app.server.options import Limits


def limited(limits: Limits, is_ending: Callable[[], bool]) -> type[asyncio.Protocol]:
    """The protocol for these limits. `is_ending`: the server takes nothing more."""

    class LimitedProtocol(H11Protocol):
        def __init__(self, *args: Any, **fields: Any) -> None:
            super().__init__(*args, **fields)
            self._head_timer: asyncio.TimerHandle | None = None
            self._is_refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= limits.connections or is_ending():
                self._is_refused = True
                transport.abort()
                return
            super().connection_made(transport)
            self.app_state = {**self.app_state, "abort": transport.abort}
            self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            if not self._is_refused:
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._is_refused:
                return
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
            elif self._head_timer is None:  # a next head, or what is left of a refused body
                self._wait_for_head()

        def _wait_for_head(self) -> None:
            self._head_timer = self.loop.call_later(limits.header_s, self.transport.abort)

        def _stop_waiting(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return LimitedProtocol
