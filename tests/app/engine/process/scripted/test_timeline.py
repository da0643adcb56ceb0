"""The scripted engine's time line is that of its own playing; a real child's comes with the
stretches that only its threads know."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conversation import OPTIONS, Conversation
from scripted_talk import PATIENCE_S, ScriptedTalk, ask

from app.engine.protocol.loading_messages import Loaded, LoadWeights
from app.engine.protocol.messages import (
    Choose,
    Failed,
    Finished,
    Generate,
    Held,
    Resume,
    Stopped,
    Summary,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.timeline_messages import Span

REPLY: dict[str, Any] = {
    "prefill": {"tokens": 90, "ms": 60, "chunks": 3},
    "tokens": [{"text": word, "ms": 15} for word in ("The", " cat", " sat", " down")],
}


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def script(**fields: Any) -> dict[str, Any]:
    return {"load": {"ms": 1}, "replies": [{**REPLY, **fields}]}


def add_up(summary: Summary) -> float:
    total = sum(span.ms for span in summary.timeline)
    held = sum(span.ms for span in summary.timeline if span.kind == "held")
    assert total - held == pytest.approx(summary.total_s * 1000, abs=0.01)
    return total


def kinds(spans: Sequence[Span]) -> list[tuple[str, int]]:
    return [(span.kind, span.tokens) for span in spans if span.kind not in ("between", "settling")]


def test_it_is_that_of_the_playing(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(script())
    began = time.perf_counter()
    ending = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    whole = (time.perf_counter() - began) * 1000
    assert isinstance(ending, Finished)
    summary = ending.result
    assert isinstance(summary, Summary)
    assert kinds(summary.timeline) == [
        ("prefill", 30),
        ("prefill", 30),
        ("prefill", 30),
        ("first", 1),
        ("decode", 3),
        ("ending", 0),
    ]
    prefill = sum(span.ms for span in summary.timeline if span.kind == "prefill")
    written = sum(span.ms for span in summary.timeline if span.kind in ("first", "decode"))
    assert prefill >= 60
    assert written >= 4 * 15
    assert written == pytest.approx(sum(e.token.ms for e in talk.of(TokenArrived)), abs=0.01)
    assert 120 <= add_up(summary) <= whole


def test_in_step_mode_what_was_held_is_apart(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(script())
    request_id = engine.generate(ask(hold=True))
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    engine.request(Choose(request_id, 7))
    talk.wait_until(lambda: len(talk.of(Held)) == 2)
    engine.request(Resume(request_id))
    ending = engine.wait_for(request_id, PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    line = ending.result.timeline
    assert [kind for kind, _ in kinds(line)][3:] == [
        "first",
        "held",
        "first",
        "decode",
        "held",
        "decode",
        "ending",
    ]
    assert sum(span.tokens for span in line if span.kind in ("first", "decode")) == 4
    add_up(ending.result)


def test_tokens_that_are_taken_back(talk: ScriptedTalk) -> None:
    tokens = [*REPLY["tokens"], {"take_back": 2}, {"text": " slept", "ms": 15}]
    engine = talk.loaded_engine(script(tokens=tokens))
    ending = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    assert kinds(ending.result.timeline)[3:] == [
        ("first", 1),
        ("decode", 1),
        ("taken_back", 2),
        ("decode", 1),
        ("ending", 0),
    ]
    add_up(ending.result)


def test_stopped_in_prefill(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(script(prefill={"tokens": 90, "ms": 60_000, "chunks": 3}))
    request_id = engine.generate(ask())
    engine.stop(request_id)
    ending = engine.wait_for(request_id, PATIENCE_S)
    assert isinstance(ending, Stopped)
    assert isinstance(ending.result, Summary)
    assert kinds(ending.result.timeline) == [("ending", 0)]
    add_up(ending.result)


def test_a_child_that_died_has_left_no_line(talk: ScriptedTalk) -> None:
    """Nobody measured it."""
    engine = talk.loaded_engine(script(tokens=[{"text": "The"}, {"exit": 3}]))
    ending = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert ending.partial is not None
    assert ending.partial.timeline == []


@pytest.mark.weights
def test_a_real_child_knows_when_the_prompt_was_prepared(
    forked_engines: None, starter_gguf: Path
) -> None:
    conversation = Conversation()
    try:
        conversation.say(LoadWeights(1, str(starter_gguf), OPTIONS))
        assert isinstance(conversation.ending(1).result, Loaded)
        prompt = ChatPrompt([ChatMessage("user", "What is the capital of France?")])
        began = time.perf_counter()
        conversation.say(Generate(2, prompt, max_tokens=4))
        summary = conversation.ending(2).result
        whole = (time.perf_counter() - began) * 1000
    finally:
        conversation.leave()
    assert isinstance(summary, Summary)
    assert [span.kind for span in summary.timeline] == [
        "arriving",
        "rendering",
        "queued",
        "settling",
        "between",
        "prefill",
        "first",
        "decode",
        "ending",
    ]
    assert summary.timeline[1].ms > 0
    assert add_up(summary) <= whole
