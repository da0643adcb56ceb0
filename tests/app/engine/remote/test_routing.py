"""Both engines as one: a request goes to where the loaded weights are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import scripted_servers as servers
from remote_talk import CHAT, WAIT_S
from scripted_servers import DONE, HOLD, ScriptedServer, Stream, delta, finish, sse

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineState, StateChanged
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Failed, Finished, Generate, Hold, Stop, Stopped
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.remote_messages import EngineAddress, remote_path
from app.engine.remote.engine import Reach
from app.engine.remote.routing import FIRST_ID, Engines
from app.hub.gate import Gate

HI = ChatPrompt([ChatMessage("user", "Hi")])
SCRIPT = '{"replies": [{"tokens": [{"text": "Here."}]}]}'


class Both:
    def __init__(self, script: str, url: str) -> None:
        self.gate = Gate()
        self.gate.let_here(lets=True)
        self.events = []
        address = EngineAddress("e1", "Mine", url)
        reach = Reach(self.gate, lambda path: address if "e1" in path else None, lambda _: None)
        self.script = script
        self.engines = Engines(
            lambda on_event: Engine(child_command("scripted", script), on_event),
            self.events.append,
            reach,
        )

    def load(self, path: str) -> Loaded:
        ending = self.end(self.engines.load(path))
        assert isinstance(ending, Finished), ending
        assert isinstance(ending.result, Loaded)
        return ending.result

    def end(self, request_id: int):
        return self.engines.wait_for(request_id, WAIT_S)

    @property
    def states(self) -> list[EngineState]:
        return [each.state for each in self.events if isinstance(each, StateChanged)]


@pytest.fixture
def both(tmp_path, forked_children) -> Iterator[Both]:
    script = tmp_path / "script.json"
    script.write_text(SCRIPT)
    with ScriptedServer(servers.vllm()) as server:
        server.answers[CHAT] = Stream(sse(delta("There."), finish("stop"), DONE))
        made = Both(str(script), server.url)
        made.server = server
        yield made
        made.engines.close()
        made.gate.shut_down()


def text(both: Both) -> str:
    ending = both.end(both.engines.generate(Generate(0, HI)))
    assert isinstance(ending, Finished), ending
    return ending.result.text


def test_a_conversation_goes_from_here_to_a_server_and_back(both):
    engines = both.engines
    assert both.load(both.script).remote is None
    pid = engines.pid
    here = engines.generate(Generate(0, HI))
    assert both.end(here).result.text == "Here."
    loaded = both.load(remote_path("e1", "m"))
    assert loaded.remote.kind == "vllm"
    assert engines.is_remote
    assert engines.loaded is loaded
    assert engines.state is EngineState.READY
    assert text(both) == "There."
    both.end(here + 1)  # the child's own ending, which nobody waits for
    assert engines.pid is None  # its memory is back
    back = both.load(both.script)
    assert engines.loaded == back
    assert engines.pid not in (None, pid)
    assert text(both) == "Here."
    engines.close()
    # Never the state of the one that is not in use.
    loads = [each for each in both.states if each is EngineState.LOADING]
    assert len(loads) == 3
    after = both.states[both.states.index(EngineState.BUSY) :]
    assert EngineState.STOPPED not in after[: after.index(EngineState.LOADING)]


def test_each_stop_finds_its_request(both):
    engines = both.engines
    both.load(remote_path("e1", "m"))
    both.server.answers[CHAT] = Stream([*sse(delta("Hel")), HOLD])
    request = engines.generate(Generate(0, HI))
    assert request >= FIRST_ID
    assert engines.is_owing
    assert engines.request(Hold(request)) == request
    engines.request(Stop(request))
    assert isinstance(both.end(request), Stopped)
    both.server.answers[CHAT] = Stream([HOLD])
    request = engines.generate(Generate(0, HI))
    both.load(both.script)  # another model: what the server was writing is stopped
    assert isinstance(both.end(request), Stopped)


def test_a_server_that_is_not_listed_and_unloading(both):
    engines = both.engines
    failed = both.end(engines.load(remote_path("e2", "m")))
    assert isinstance(failed, Failed)
    assert "isn't in Settings → Engines any more" in failed.sentence
    both.load(remote_path("e1", "m"))
    both.end(engines.unload())
    assert (engines.loaded, engines.state) == (None, EngineState.STOPPED)
    assert both.end(engines.generate(Generate(0, HI))).kind == "not_loaded"
    assert engines.log_tail()
