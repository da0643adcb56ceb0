"""The scripted engine searches beams over made-up scores, and says so as the real one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew, SearchBeams
from app.engine.protocol.messages import Failed, Finished, Stopped

SCRIPT: dict[str, Any] = {
    "load": {"ms": 1},
    "replies": [{"text": "Paris is the capital of France, and a large city."}],
}


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def test_a_search_is_told_step_by_step_and_is_the_same_each_time(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SCRIPT)
    trees = []
    for _ in range(2):
        request_id = engine.request(SearchBeams(0, [300, 301], 2, 3, 5))
        ending = engine.wait_for(request_id, PATIENCE_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, BeamsFound)
        grew = [e for e in talk.events if isinstance(e, BeamsGrew) and e.id == request_id]
        assert [event.step for event in grew] == [*range(1, len(grew) + 1)]
        nodes = {node.number: node for event in grew for node in event.nodes}
        assert set(ending.result.leaves) <= set(nodes)
        assert nodes[ending.result.greedy].is_greedy
        trees.append([event.nodes for event in grew])
    assert trees[0] == trees[1]


def test_it_is_stopped_and_refuses_what_the_real_one_refuses(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"ms": 60_000, "chunks": 4}})
    request_id = engine.request(SearchBeams(0, [300], 1, 3, 5))
    engine.stop(request_id)
    assert isinstance(engine.wait_for(request_id, PATIENCE_S), Stopped)
    ending = engine.wait_for(engine.request(SearchBeams(0, [300], 1, 99, 5)), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "between 1 and 8" in ending.sentence
