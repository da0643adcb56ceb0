"""Talking to a `ToolHost` from a test: start a server, wait for what is told, call."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.hub.gate import Gate
from app.tools.host import CallHandle, ToolHost
from app.tools.records import Outcome, ServerState
from app.tools.servers import ToolServer, new_id

SERVER = Path(__file__).with_name("tool_server.py")
PATIENCE_S = 60
"""A busy machine is slow, not wrong."""


def scripted(kind: str = "", **fields: Any) -> ToolServer:
    """The scripted server, of a kind; `fields` are others of the record."""
    arguments = ("-I", "-S", str(SERVER), kind)
    plain = {"command": sys.executable, "arguments": arguments, "folder": str(SERVER.parent)}
    return ToolServer(new_id(), kind or "scripted", **{**plain, **fields})


class ToolTalk:
    def __init__(self) -> None:
        self.told: queue.SimpleQueue[ServerState] = queue.SimpleQueue()
        self.progress: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gate = Gate(is_open=True)
        self.host = ToolHost(self.gate, self.told.put)

    def start(self, server: ToolServer, **values: str) -> ServerState:
        """Start it; how that ended."""
        self.host.start(server, values)
        return self.until(lambda state: state.state != "starting")

    def until(self, is_it: Callable[[ServerState], bool]) -> ServerState:
        while not is_it(state := self.told.get(timeout=PATIENCE_S)):
            pass
        return state

    def call(self, server: ToolServer, tool: str = "do", **arguments: Any) -> Outcome:
        return self.ended(self.begin(server, tool, **arguments))

    def begin(
        self, server: ToolServer, tool: str = "do", **arguments: Any
    ) -> tuple[CallHandle, queue.SimpleQueue[Outcome]]:
        found: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        handle = self.host.call(server.id, tool, arguments, found.put, self.progress.put)
        return handle, found

    @staticmethod
    def ended(begun: tuple[CallHandle, queue.SimpleQueue[Outcome]]) -> Outcome:
        return begun[1].get(timeout=PATIENCE_S)
