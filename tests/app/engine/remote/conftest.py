"""A scripted server, and the engine that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from remote_talk import Talk
from scripted_servers import ScriptedServer

from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.remote_messages import EngineAddress
from app.engine.remote.engine import Reach, RemoteEngine
from app.hub.gate import Gate


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    """Makes one with a server that answers so; its model is loaded."""
    made: list[Talk] = []

    def make(answers: dict[str, Any], *, is_loaded: bool = True, silence_s: float = 10.0) -> Talk:
        server = ScriptedServer(answers)
        server.__enter__()
        gate = Gate()
        gate.let_here(lets=True)
        address = EngineAddress("e1", "Mine", server.url, "e1")
        one: Talk

        def take(event: EngineEvent) -> None:
            one.take(event)

        reach = Reach(gate, lambda path: address, lambda _: one.key)
        one = Talk(server, gate, RemoteEngine(reach, take, silence_s=silence_s))
        made.append(one)
        if is_loaded:
            one.load()
        return one

    yield make
    for each in made:
        each.engine.close()
        each.gate.shut_down()
        each.server.__exit__()
