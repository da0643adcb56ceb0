"""The made-up network's embedding and rotation obey the laws that real ones do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.client.engine import Engine
from app.engine.protocol.embedding_messages import (
    DescribeEmbedding,
    EmbeddingFacts,
    EmbeddingRows,
    FindNearest,
    NearestTokens,
    ReadEmbedding,
    ReadRotations,
    Rotations,
    Term,
)
from app.engine.protocol.inside_messages import Inside, LookInside
from app.engine.protocol.messages import Command, Failed, Finished, Progress, Stopped
from app.insight.inside.arrays import arrays_of
from app.insight.inside.position import rope_of, rotated

SCRIPT: dict[str, Any] = {"load": {"ms": 1}, "replies": [{"text": "The capital of France."}]}


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def told(engine: Engine, command: Command) -> Any:
    ending = engine.wait_for(engine.request(command), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    return ending.result


def test_its_answers_fit_each_other(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SCRIPT)
    facts = told(engine, DescribeEmbedding(0))
    assert isinstance(facts, EmbeddingFacts)
    read = told(engine, ReadEmbedding(0, list(range(facts.n_vocab))))
    assert isinstance(read, EmbeddingRows)
    rows = np.array(read.rows.numbers()).reshape(facts.n_vocab, facts.n_embd)
    mean = np.array(facts.mean.numbers())
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=1e-6)
    near = told(engine, FindNearest(0, [Term(3), Term(8, -1.0)], 4))
    assert isinstance(near, NearestTokens)
    wanted = rows[3] - rows[8]
    centred = rows - mean
    cosines = centred @ wanted / np.linalg.norm(centred, axis=1) / np.linalg.norm(wanted)
    order = np.argsort(-cosines, kind="stable")
    assert near.token_ids.numbers().tolist() == order[:4].tolist()
    np.testing.assert_allclose(near.cosines.numbers(), cosines[order[:4]], atol=1e-6)
    assert [order[at] for at in near.input_ranks.numbers()] == [3, 8]


def test_its_rows_and_its_rotation_are_those_of_what_it_computes(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SCRIPT)
    inside = told(engine, LookInside(0, [5, 6, 7], ["embedding", "q_before", "q_after"]))
    assert isinstance(inside, Inside)
    arrays = arrays_of(inside)
    row = told(engine, ReadEmbedding(0, [7])).rows.numbers()
    np.testing.assert_array_equal(arrays["embedding"], np.float32(row))
    turns = told(engine, ReadRotations(0))
    assert isinstance(turns, Rotations)
    (turn,) = turns.rotations
    assert turn.layers == [0, 1, 2, 3]
    turned = rotated(rope_of(turn), arrays["q_before"], 2)
    np.testing.assert_allclose(turned, arrays["q_after"], atol=1e-5)


def test_it_tells_how_far_it_is_and_is_stopped_and_refuses(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"ms": 2, "chunks": 2}})
    request = engine.request(DescribeEmbedding(0))
    ending = engine.wait_for(request, PATIENCE_S)
    assert isinstance(ending, Finished)
    steps = [e for e in talk.events if isinstance(e, Progress) and e.id == request]
    assert [step.phase for step in steps] == ["embedding"] * 2
    assert steps[-1].done == steps[-1].total == ending.result.n_vocab  # type: ignore[union-attr]
    refused = engine.wait_for(engine.request(ReadEmbedding(0, [-1])), PATIENCE_S)
    assert isinstance(refused, Failed)
    assert refused.sentence.startswith("Choose tokens")


def test_it_is_stopped_in_the_middle(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"ms": 60_000}})
    request = engine.request(FindNearest(0, [Term(1)]))
    engine.stop(request)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)
