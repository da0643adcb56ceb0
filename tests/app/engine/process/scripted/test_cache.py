"""The scripted engine's cache behaves as the real one's: held, parked, reused, changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk, ask, slow

from app.engine.client.engine import Engine
from app.engine.protocol.cache_messages import (
    CacheMap,
    CellPart,
    ChangeCache,
    MeasureStep,
    ReadCache,
    StepMeasured,
)
from app.engine.protocol.lane_messages import Lanes, ReadLanes
from app.engine.protocol.messages import Failed, Finished, Generate, Stopped, Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _script(*replies: dict[str, Any], **load: Any) -> dict[str, Any]:
    return {"load": {"ms": 1, **load}, "replies": list(replies)}


def _summary(engine: Engine, request: Generate) -> Summary:
    ending = engine.wait_for(engine.generate(request), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    return ending.result


def _cache(engine: Engine) -> CacheMap:
    ending = engine.wait_for(engine.request(ReadCache(0)), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, CacheMap)
    return ending.result


def _change(engine: Engine, act: Any, conversation: str = "", **fields: Any) -> Any:
    return engine.wait_for(engine.request(ChangeCache(0, act, conversation, **fields)), PATIENCE_S)


def test_the_cache_holds_who_wrote_last_and_the_others_are_parked(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "one two"}, loaded={"kv_bytes_per_token": 100}))
    assert _cache(engine).slots == []
    prompt = ChatPrompt([ChatMessage("user", "Hello", message_id="m1")])
    first = _summary(engine, Generate(0, prompt, conversation="a", reply_id="m2"))
    now = _cache(engine)
    (slot,) = now.slots
    total = first.prompt_tokens + first.generated
    assert (now.n_used, slot.conversation, slot.is_busy) == (total, "a", False)
    assert slot.state_bytes == 100 * total
    assert {part.message_id for part in slot.parts} == {None, "m1", "m2"}
    assert slot.parts[-1] == CellPart(first.prompt_tokens, total, "reply", "m2")
    _summary(engine, ask("Hello", conversation="b"))
    now = _cache(engine)
    assert [slot.conversation for slot in now.slots] == ["b"]
    assert [(copy.conversation, copy.n_tokens) for copy in now.parked] == [("a", total)]
    again = _summary(engine, Generate(0, prompt, conversation="a"))
    assert (again.reused, again.reuse_source) == (first.prompt_tokens - 1, "parked")
    turns = {turn.conversation: turn for turn in _cache(engine).turns}
    assert turns["a"].reused == again.reused
    assert turns["a"].source == "parked"


def test_what_is_changed_by_hand_is_not_reused(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "one two"}))
    first = _summary(engine, ask("Hello", conversation="a"))
    assert isinstance(_change(engine, "keep_prefix", "a", keep=3), Finished)
    assert _cache(engine).n_used == 3
    assert _summary(engine, ask("Hello", conversation="a")).reused == 3
    assert isinstance(_change(engine, "park", "a"), Finished)
    assert isinstance(_change(engine, "park", "a"), Failed)
    (copy,) = _cache(engine).parked
    assert copy.n_tokens == first.prompt_tokens + first.generated
    assert isinstance(_change(engine, "drop", copy=copy.number), Finished)
    assert _summary(engine, ask("Hello", conversation="a")).reused == 0
    assert isinstance(_change(engine, "drop", "a"), Finished)
    assert isinstance(_change(engine, "drop", "a"), Failed)
    _summary(engine, ask("Hello", conversation="a"))
    assert isinstance(_change(engine, "clear"), Finished)
    assert _cache(engine).n_used == 0


def test_while_it_writes_the_cache_grows_and_is_not_changed(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(slow())
    reply = engine.generate(ask("Hello", conversation="a"))
    talk.wait_for_tokens(3)
    before = _cache(engine)
    talk.wait_for_tokens(9)
    now = _cache(engine)
    assert now.n_used > before.n_used
    assert now.slots[0].is_busy
    for act in ("clear", "drop", "park"):
        ending = _change(engine, act, "a")
        assert isinstance(ending, Failed)
        assert ending.kind == "busy"
    measured = engine.wait_for(engine.request(MeasureStep(0, "a")), PATIENCE_S)
    assert isinstance(measured, Failed)
    engine.stop(reply)
    engine.wait_for(reply, PATIENCE_S)
    assert not _cache(engine).slots[0].is_busy


def test_a_step_is_timed_as_the_script_says(talk: ScriptedTalk) -> None:
    script = _script({"text": "one"})
    script["measured"] = {"step_ms": [3, 1, 2], "replay_ms": [90], "ms": 5}
    engine = talk.loaded_engine(script)
    first = _summary(engine, ask("Hello", conversation="a"))
    ending = engine.wait_for(engine.request(MeasureStep(0, "a")), PATIENCE_S)
    assert isinstance(ending, Finished)
    measured = ending.result
    assert isinstance(measured, StepMeasured)
    assert (measured.step, measured.replay) == (2, 90)
    assert measured.n_tokens == first.prompt_tokens + 1
    script["measured"]["ms"] = 60_000
    engine = talk.loaded_engine(script)
    request = engine.request(MeasureStep(0, "a"))
    engine.stop(request)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)


def test_what_it_plays_goes_down_a_lane(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "one two"}))
    request = Generate(0, ChatPrompt([ChatMessage("user", "Hello")]), reply_id="m2")
    summary = _summary(engine, request)
    ending = engine.wait_for(engine.request(ReadLanes(0)), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Lanes)
    (visit,) = ending.result.visits
    assert (visit.reply_id, visit.ending) == ("m2", summary.stop_reason)
    assert (visit.read, visit.written) == (summary.evaluated, summary.generated)
