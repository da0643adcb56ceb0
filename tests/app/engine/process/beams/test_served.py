"""Searches through the engine's own process, beside replies and each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from probing import some_ids
from scripted_talk import PATIENCE_S, ScriptedTalk
from small_networks import small_network

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.beam_messages import BeamsFound, BeamsGrew, SearchBeams
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, Finished, Generate, Stopped, Summary
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

IDS: Final = some_ids(40)
GREEDY: Final = Sampling(filters=[], select=Greedy(), ban_end_token=True)


@pytest.fixture
def talk(forked_engines: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


@pytest.fixture
def engine(talk: ScriptedTalk, tmp_path: Path) -> Engine:
    small_network(tmp_path / "small.gguf", "window")
    engine = talk.over(child_command("engine"))
    options = LoadOptions(n_ctx=512, n_ubatch=64, n_slots=2, n_threads=1)
    loading = engine.load(tmp_path / "small.gguf", options)
    assert isinstance(engine.wait_for(loading, PATIENCE_S), Finished)
    return engine


def leaves_of(talk: ScriptedTalk, request_id: int) -> list[tuple[int, float]]:
    """(token, sum) of each leaf, best first."""
    (found,) = [e.result for e in talk.of(Finished) if e.id == request_id]
    assert isinstance(found, BeamsFound)
    grew = [event for event in talk.of(BeamsGrew) if event.id == request_id]
    nodes = {node.number: node for event in grew for node in event.nodes}
    return [(nodes[leaf].token_id, nodes[leaf].total) for leaf in found.leaves]


def test_a_reply_and_two_searches_beside_each_other_are_as_alone(
    talk: ScriptedTalk, engine: Engine
) -> None:
    def reply() -> int:
        return engine.generate(Generate(0, IdsPrompt(IDS), GREEDY, 120))

    def tokens_of(ending: Any) -> list[int]:
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, Summary)
        return ending.result.token_ids

    search = SearchBeams(0, IDS[:30], 30, 4, 20)
    alone = engine.request(search)
    engine.wait_for(alone, PATIENCE_S)
    text = tokens_of(engine.wait_for(reply(), PATIENCE_S))

    running = reply()
    beside = [engine.request(search) for _ in range(2)]
    assert tokens_of(engine.wait_for(running, PATIENCE_S)) == text
    for request_id in beside:
        assert isinstance(engine.wait_for(request_id, PATIENCE_S), Finished)
        for (token, total), (wanted, sum_alone) in zip(
            leaves_of(talk, request_id), leaves_of(talk, alone), strict=True
        ):
            assert token == wanted
            assert total == pytest.approx(sum_alone, abs=0.05)
    # A step of the search came while the reply was written, and not all of them before it.
    order = [e.id for e in talk.events if getattr(e, "id", None) in (running, beside[0])]
    assert order.index(beside[0]) < len(order) - 1 - order[::-1].index(running)


def test_a_search_is_stopped_and_the_next_one_runs(talk: ScriptedTalk, engine: Engine) -> None:
    running, waiting, wanted = (engine.request(SearchBeams(0, IDS, 40, 8, 60)) for _ in range(3))
    talk.wait_until(lambda: any(event.id == running for event in talk.of(BeamsGrew)))
    engine.stop(waiting)
    engine.stop(running)
    for request_id in (running, waiting):
        assert isinstance(engine.wait_for(request_id, PATIENCE_S), Stopped | Finished)
    engine.stop(wanted)
    assert isinstance(engine.wait_for(wanted, PATIENCE_S), Stopped)
    last = engine.request(SearchBeams(0, IDS, 40, 2, 2))
    assert isinstance(engine.wait_for(last, PATIENCE_S), Finished)


def test_without_a_model_there_is_nothing_to_search(talk: ScriptedTalk) -> None:
    engine = talk.over(child_command("engine"))
    ending = engine.wait_for(engine.request(SearchBeams(0, IDS)), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert ending.kind == "not_loaded"
