"""The made-up network obeys the laws that a real one does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk, ask

from app.engine.client.engine import Engine
from app.engine.protocol.inside_messages import (
    AXES,
    OF_EXPERTS,
    WANTED,
    GraphOffer,
    Inside,
    LookInside,
    ReadGraph,
)
from app.engine.protocol.machine_messages import (
    CompareFlash,
    FlashCompared,
    ProfileStep,
    StepProfiled,
)
from app.engine.protocol.messages import Failed, Finished, Progress, Stopped, Tokenize, Tokens
from app.engine.protocol.prompt_messages import ReadPrompt

SCRIPT: dict[str, Any] = {
    "load": {"ms": 1},
    "replies": [{"text": "The capital of France is Paris."}],
}


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _arrays(told: Inside) -> dict[str, np.ndarray]:
    return {
        array.name: np.frombuffer(array.values.data, array.values.dtype).reshape(array.shape)
        for array in (*told.floats, *told.ints)
    }


def _look(engine: Engine, ids: list[int], *want: str, **fields: Any) -> Inside:
    ending = engine.wait_for(engine.request(LookInside(0, ids, [*want], **fields)), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Inside)
    return ending.result


def _ids(engine: Engine, text: str) -> list[int]:
    ending = engine.wait_for(engine.request(Tokenize(0, text)), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Tokens)
    return ending.result.token_ids


def test_its_arrays_obey_the_laws(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SCRIPT)
    ids = _ids(engine, "The capital of France is Paris.")
    told = _look(engine, ids, *WANTED, targets=[7, 9])
    found = _arrays(told)
    assert set(found) == set(AXES) - set(OF_EXPERTS)
    n_tok = len(ids)
    assert found["attention"].shape == (4, 4, n_tok)
    np.testing.assert_allclose(found["attention"].sum(axis=2), 1, rtol=1e-5)
    assert (found["attention"] >= 0).all()
    before = np.concatenate([found["embedding"][None], found["residual"][:-1]])
    np.testing.assert_allclose(
        found["attn_out"] + found["ffn_out"], found["residual"] - before, atol=1e-4
    )
    logits = found["logits"]
    best = np.argsort(-logits, kind="stable")[:10]
    np.testing.assert_array_equal(found["lens_ids"][-1], best)
    np.testing.assert_allclose(found["lens_logits"][-1], logits[best], rtol=1e-5)
    np.testing.assert_allclose(found["lens_target_logits"][-1], logits[[7, 9]], rtol=1e-4)
    assert found["lens_target_ranks"][-1].tolist() == [(logits > logits[i]).sum() for i in (7, 9)]
    norms = [np.linalg.norm(found[name], axis=2) for name in ("q_before", "q_after")]
    np.testing.assert_allclose(*norms, rtol=1e-4)
    again = _arrays(_look(engine, ids, "logits"))
    np.testing.assert_array_equal(again["logits"], logits)
    assert set(again) == {"logits"}


def test_it_votes_for_what_the_script_says(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SCRIPT)
    reply = engine.wait_for(engine.generate(ask("Which city?")), PATIENCE_S)
    assert isinstance(reply, Finished)
    prompt = engine.wait_for(engine.request(ReadPrompt(0, ask("Which city?").prompt)), PATIENCE_S)
    assert isinstance(prompt, Finished)
    shown = prompt.result.token_ids.numbers()  # type: ignore[union-attr]
    written = reply.result.token_ids  # type: ignore[union-attr]
    for at, token_id in enumerate([*written, 0]):
        logits = _arrays(_look(engine, [*shown, *written[:at]], "logits"))["logits"]
        assert int(logits.argmax()) == token_id


def test_what_it_is_said_not_to_have_is_missing_with_the_reason(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"missing": {"attention": "None here."}}})
    told = _look(engine, [5, 6], "attention", "logits")
    assert [(each.name, each.sentence) for each in told.missing] == [("attention", "None here.")]
    assert set(_arrays(told)) == {"logits"}
    ending = engine.wait_for(engine.request(ReadGraph(0)), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, GraphOffer)
    assert (ending.result.n_layer, len(ending.result.missing)) == (4, 1 + len(OF_EXPERTS))


def test_it_says_how_far_it_is_and_can_be_stopped_and_fails_in_words(talk: ScriptedTalk) -> None:
    inside = {"ms": 4, "chunks": 4}
    engine = talk.loaded_engine({**SCRIPT, "inside": inside})
    request = engine.request(LookInside(0, [5] * 9, ["logits"]))
    assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)
    steps = [e for e in talk.events if isinstance(e, Progress) and e.id == request]
    assert [(step.phase, step.done, step.total) for step in steps] == [
        ("inside", done, 8) for done in (2, 4, 6, 8)
    ]


def test_it_measures_its_machine(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"ms": 4, "chunks": 2}})
    profiled = engine.wait_for(engine.request(ProfileStep(0, [5] * 9)), PATIENCE_S)
    assert isinstance(profiled, Finished)
    assert isinstance(profiled.result, StepProfiled)
    told = profiled.result
    assert (told.n_tokens, len(told.attention)) == (9, 4)
    parts = told.prepare + told.embedding + sum(told.attention) + sum(told.ffn) + told.output
    assert parts == told.total > told.plain
    compared = engine.wait_for(engine.request(CompareFlash(0, [5] * 9)), PATIENCE_S)
    assert isinstance(compared, Finished)
    assert isinstance(compared.result, FlashCompared)
    assert (compared.result.n_tokens, compared.result.n_chunk) == (9, 8)


def test_it_can_be_stopped(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**SCRIPT, "inside": {"ms": 60_000}})
    request = engine.request(LookInside(0, [5, 6], ["logits"]))
    engine.stop(request)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)


def test_it_fails_in_words(talk: ScriptedTalk) -> None:
    fail = {"kind": "out_of_memory", "sentence": "No room."}
    engine = talk.loaded_engine({**SCRIPT, "inside": {"fail": fail}})
    ending = engine.wait_for(engine.request(LookInside(0, [5, 6], ["logits"])), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert ending.sentence == "No room."
