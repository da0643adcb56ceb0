"""A chat while other programs stream: what it loses, and that they go on."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from serving import PATIENCE_S, Served, serving

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineEvent
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Finished, Generate, TokenArrived
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Greedy, Sampling
from app.server.options import ServerOptions

pytestmark = [pytest.mark.soak, pytest.mark.weights, pytest.mark.alone]

GUESTS = 4
WRITTEN = 96
ROUNDS = 3


class _Chat:
    """A person's reply, with the moments at which its tokens came."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._moments: list[float] = []

    def reply(self, text: str) -> tuple[float, float]:
        """Seconds to the first token, and from there to the last one."""
        self._moments = []
        prompt = ChatPrompt([ChatMessage("user", text)])
        sampling = Sampling([], Greedy(), ban_end_token=True)
        asked = time.perf_counter()
        request = Generate(0, prompt, sampling, max_tokens=WRITTEN, conversation=text)
        ending = self._engine.wait_for(self._engine.generate(request, self._take), PATIENCE_S * 4)
        assert isinstance(ending, Finished), ending
        return self._moments[0] - asked, self._moments[-1] - self._moments[0]

    def _take(self, event: EngineEvent) -> None:
        if isinstance(event, TokenArrived):
            self._moments.append(time.perf_counter())


def _stream(served: Served, number: int, are_writing: threading.Barrier) -> None:
    """A client of the server; it says when its answer has begun, and reads on."""
    messages = [{"role": "user", "content": f"Guest {number}"}]
    body = {"messages": messages, "max_tokens": 900, "ignore_eos": True, "stream": True}
    connection = served.connect()
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    response = connection.getresponse()
    for _ in range(20):
        response.readline()
    are_writing.wait(PATIENCE_S)
    response.read()
    connection.close()


def test_a_chat_hardly_notices_and_nobody_starves(starter_gguf: Path) -> None:
    engine = Engine(child_command("engine"), lambda _: None)
    try:
        loaded = engine.load(starter_gguf, LoadOptions(n_ctx=4096, n_slots=GUESTS))
        assert isinstance(engine.wait_for(loaded, PATIENCE_S), Finished)
        chat = _Chat(engine)
        with serving(engine, ServerOptions(port=0, is_guest=True)) as served:
            chat.reply("Warm up.")
            alone = [chat.reply(f"Alone, {number}.") for number in range(ROUNDS)]
            are_writing = threading.Barrier(GUESTS + 1)
            clients = [
                threading.Thread(target=_stream, args=[served, at, are_writing])
                for at in range(GUESTS)
            ]
            for client in clients:
                client.start()
            are_writing.wait(PATIENCE_S)
            replies = [reply for each in served.exchanges for reply in each.replies]
            before = sum(len(reply.events) for reply in replies)
            beside = [chat.reply(f"Beside, {number}.") for number in range(ROUNDS)]
            during = sum(len(reply.events) for reply in replies) - before
            served.server.stop(PATIENCE_S)
            for client in clients:
                client.join()
    finally:
        engine.close()
    # The best of each side: other programs only make it slower.
    first = [min(each[0] for each in side) for side in (alone, beside)]
    rest = [min(each[1] for each in side) for side in (alone, beside)]
    print(f"first token {first}, rest {rest}, tokens of guests meanwhile {during}")
    assert rest[0] / rest[1] >= 0.8
    assert first[1] - first[0] <= 0.25
    assert during > 0
