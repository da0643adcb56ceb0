"""Many requests, stopped and cut at any moment: each ends once, and nothing is left behind."""

from __future__ import annotations

import random
import threading

import pytest
import scripted_servers as servers
from remote_talk import CHAT, WAIT_S
from scripted_servers import DONE, Reply, Stream, delta, finish, sse

from app.engine.protocol.messages import Failed, Finished, Generate, Stopped
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import Sampling

HI = ChatPrompt([ChatMessage("user", "Hi")])


@pytest.mark.soak
def test_a_thousand_requests_leave_nothing_behind(talk):
    one = talk(servers.plain())
    whole = Stream(sse(*[delta("word ") for _ in range(40)], finish("stop"), DONE))
    one.server.answers[CHAT] = whole
    rng = random.Random(7)
    before = threading.active_count()
    sent = []
    for number in range(1_000):
        kind = rng.random()
        cut = Stream(whole.parts[: rng.randrange(40)], is_cut=rng.random() < 0.5)
        one.server.answers[CHAT] = Reply(500) if kind < 0.1 else cut if kind < 0.3 else whole
        request = one.engine.generate(Generate(0, HI, Sampling([])))
        sent.append(request)
        if rng.random() < 0.3:
            one.engine.stop(request)
        if number % 8 == 7:
            for each in sent[-8:]:
                one.end(each)
    ends = [e for e in one.events if isinstance(e, Finished | Stopped | Failed) and e.id in sent]
    assert sorted(each.id for each in ends) == sorted(sent)
    kinds = {type(each) for each in ends}
    assert kinds == {Finished, Stopped, Failed}
    assert all(each.sentence for each in ends if isinstance(each, Failed))
    assert not any(isinstance(e, Failed) and e.kind == "internal" for e in ends)
    assert not one.engine.is_owing
    assert one.gate.n_connections <= 4
    one.engine.close()
    with one.arrived:
        assert one.arrived.wait_for(lambda: threading.active_count() <= before + 8, WAIT_S)
