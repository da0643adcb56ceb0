"""The supervisor over the scripted engine: every request ends once, whatever the child does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from scripted_talk import PATIENCE_S, HandClock, LateClock, ScriptedTalk, ask, slow, wait_until_gone

from app.engine.client.engine import Engine
from app.engine.client.supervisor import (
    RESTART_BUDGET,
    EngineEvent,
    EngineState,
    StateChanged,
)
from app.engine.protocol.loading_messages import (
    DevicesRead,
    Loaded,
    LoadOptions,
    ReadDevices,
)
from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import (
    Choose,
    CountPrompt,
    Done,
    Failed,
    Finished,
    Generate,
    Held,
    Hello,
    Hold,
    Log,
    Progress,
    PromptCount,
    ReadVocabulary,
    Resume,
    SetThreads,
    Shutdown,
    Stop,
    Stopped,
    Summary,
    TokenArrived,
    Tokenize,
    Tokens,
    VocabularyTable,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt
from app.engine.protocol.stages import Sampling

SHORT: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [{"tokens": [{"text": "Hi"}, {"text": " there", "probability": 0.5}]}],
}


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _endings(talk: ScriptedTalk, request_id: int) -> list[object]:
    return _endings_of(talk.events, request_id)


def _endings_of(events: list[EngineEvent], request_id: int) -> list[object]:
    return [e for e in events if isinstance(e, Finished | Stopped | Failed) and e.id == request_id]


def _refuse(event: EngineEvent) -> None:
    raise OSError(f"no room for {type(event).__name__}")


# --- the ordinary way -------------------------------------------------------------------------


def test_load_ask_and_close(talk: ScriptedTalk) -> None:
    engine = talk.engine(SHORT)
    assert engine.state is EngineState.STOPPED
    load = engine.load("some/weights.gguf", LoadOptions(n_ctx=512))
    ending = engine.wait_for(load, PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Loaded)
    assert engine.loaded is ending.result
    assert (engine.loaded.name, engine.loaded.n_ctx) == ("weights", 512)
    assert engine.hello is not None
    assert engine.hello.engine == "scripted"

    request = engine.generate(ask())
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Finished)
    assert isinstance(reply.result, Summary)
    assert reply.result.text == "Hi there"
    assert "".join(event.text for event in talk.of(TokenArrived)) == "Hi there"
    engine.close()
    assert talk.states() == ["starting", "loading", "ready", "busy", "ready", "stopping", "stopped"]
    assert len(_endings(talk, load)) == len(_endings(talk, request)) == 1


def test_it_says_when_all_that_has_come_is_told(talk: ScriptedTalk) -> None:
    """Whoever gathers what it is told is never left with something kept back."""
    told: list[int] = []
    engine = talk.engine(SHORT, on_quiet=lambda: told.append(len(talk.events)))
    engine.wait_for(engine.load("weights.gguf"), PATIENCE_S)
    engine.wait_for(engine.generate(ask()), PATIENCE_S)
    engine.close()
    assert told[-1] == len(talk.events)
    assert told == sorted(told)


def test_a_listener_that_fails_in_a_pause_does_not_end_the_engine(
    talk: ScriptedTalk, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("a fault of the listener")

    engine = talk.engine(SHORT, on_quiet=fail)
    engine.wait_for(engine.load("weights.gguf"), PATIENCE_S)
    assert isinstance(engine.wait_for(engine.generate(ask()), PATIENCE_S), Finished)
    engine.close()
    assert "failed in a pause" in caplog.text


def test_a_requests_own_listener_is_told_all_of_it_and_nobody_else(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    own: list[EngineEvent] = []
    request = engine.generate(ask(), own.append)
    question = engine.request(Tokenize(0, "Hi"), own.append)
    engine.wait_for(request, PATIENCE_S)
    engine.wait_for(question, PATIENCE_S)
    ids = [getattr(event, "id", None) for event in talk.events]
    assert request not in ids
    assert question not in ids
    mine = [event for event in own if getattr(event, "id", None) == request]
    assert "".join(e.text for e in mine if isinstance(e, TokenArrived)) == "Hi there"
    assert isinstance(mine[-1], Finished)
    assert [type(e) for e in own if getattr(e, "id", None) == question] == [Finished]
    assert len(own) == len(mine) + 1
    assert not engine._listeners


def test_a_listener_hears_what_the_child_could_not_say(talk: ScriptedTalk) -> None:
    """The child dies, then a request is refused, then the engine is closed: each ending goes to
    who asked; one that fails at it harms nobody."""
    script = {"load": {"ms": 5}, "replies": [{"tokens": [{"text": "a"}, {"exit": 3}]}]}
    engine = talk.loaded_engine(script)
    own: list[EngineEvent] = []
    request = engine.generate(ask(), own.append)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Failed)
    assert own[-1] == _endings_of(own, request)[0]
    refused = engine.request(Tokenize(0, "Hi"), _refuse)
    assert isinstance(engine.wait_for(refused, PATIENCE_S), Failed)
    assert not _endings(talk, request) + _endings(talk, refused)
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.generate(ask(), own.append)
    assert not engine._listeners


def test_load_progress_arrives_before_the_weights(talk: ScriptedTalk) -> None:
    talk.loaded_engine({"load": {"ms": 20, "steps": 4}})
    done = [event.done / event.total for event in talk.of(Progress)]
    assert done == [0.25, 0.5, 0.75, 1.0]


def test_a_child_can_be_started_before_it_has_anything_to_load(talk: ScriptedTalk) -> None:
    engine = talk.engine(SHORT)
    engine.start()
    talk.wait_until(lambda: bool(talk.of(Hello)))
    talk.wait_for_state(EngineState.STOPPED)
    engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert len(talk.of(Hello)) == 1


def test_events_are_never_told_on_the_callers_thread(talk: ScriptedTalk, tmp_path: Path) -> None:
    seen = set()
    engine = talk.engine(SHORT)
    engine._on_event = lambda event: seen.add(threading.current_thread().name)
    engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert seen == {"engine-owner"}


def test_a_listener_that_fails_does_not_end_the_engine(
    talk: ScriptedTalk, caplog: pytest.LogCaptureFixture
) -> None:
    engine = talk.engine(SHORT)

    def fail(event: object) -> None:
        raise ValueError("a fault of the listener")

    engine._on_event = fail
    assert isinstance(engine.wait_for(engine.load("w.gguf"), PATIENCE_S), Finished)
    assert "a fault of the listener" in caplog.text


def test_requests_beside_a_running_reply_are_answered_at_once(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(slow())
    reply = engine.generate(ask())
    talk.wait_for_tokens(3)
    prompt = ask().prompt
    expected = {
        engine.request(Tokenize(0, "a b")): Tokens,
        engine.request(CountPrompt(0, prompt)): PromptCount,
        engine.request(ReadVocabulary(0)): VocabularyTable,
        engine.request(ReadDevices(0)): DevicesRead,
    }
    for request, kind in expected.items():
        ending = engine.wait_for(request, PATIENCE_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, kind)
    assert not _endings(talk, reply)
    assert engine.state is EngineState.BUSY


def test_threads_can_be_set(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    ending = engine.wait_for(engine.request(SetThreads(0, 3)), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Done)


def test_a_message_sent_while_weights_load_waits_for_them(talk: ScriptedTalk) -> None:
    engine = talk.engine({**SHORT, "load": {"ms": 100}})
    engine.load("w.gguf")
    reply = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(reply, Finished)


def test_lone_surrogates_do_no_harm(talk: ScriptedTalk) -> None:
    """B18."""
    engine = talk.loaded_engine(SHORT)
    for text in ("a\ud83d b", "c"):
        assert isinstance(engine.wait_for(engine.generate(ask(text)), PATIENCE_S), Finished)


# --- step mode --------------------------------------------------------------------------------


def test_hold_choose_and_resume(talk: ScriptedTalk) -> None:
    script = {
        "load": {"ms": 5},
        "replies": [
            {
                "tokens": [
                    {"text": "red", "alternatives": [["red", 0.6], ["blue", 0.4]]},
                    {"text": " sky", "ms": 1},
                    {"text": ".", "ms": 1},
                ]
            }
        ],
    }
    engine = talk.loaded_engine(script, progress_timeout_s=1.0)
    request = engine.generate(ask(hold=True))
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    vocabulary = engine.wait_for(engine.request(Tokenize(0, "blue")), PATIENCE_S)
    assert isinstance(vocabulary, Finished)
    assert isinstance(vocabulary.result, Tokens)
    engine.request(Choose(request, vocabulary.result.token_ids[0]))
    talk.wait_until(lambda: len(talk.of(Held)) == 2)
    engine.request(Resume(request))
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Finished)
    assert isinstance(reply.result, Summary)
    assert reply.result.text == "blue sky."
    assert talk.of(TokenArrived)[0].token.rank == 2


def test_a_running_reply_can_be_held_and_stopped(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(slow())
    request = engine.generate(ask())
    talk.wait_for_tokens(2)
    engine.request(Hold(request))
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    engine.stop(request)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)


def test_steering_a_request_that_has_ended_does_nothing(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    request = engine.generate(ask())
    engine.wait_for(request, PATIENCE_S)
    for command in (Hold(request), Choose(request, 1), Resume(request), Stop(request), Stop(99)):
        engine.request(command)
    assert isinstance(engine.wait_for(engine.generate(ask()), PATIENCE_S), Finished)


# --- Stop -------------------------------------------------------------------------------------


@pytest.mark.alone
def test_stop_ends_a_reply_within_milliseconds_and_keeps_its_text(talk: ScriptedTalk) -> None:
    """B12."""
    engine = talk.loaded_engine(slow(ms=5))
    request = engine.generate(ask())
    talk.wait_for_tokens(5)
    began = time.monotonic()
    engine.stop(request)
    reply = engine.wait_for(request, PATIENCE_S)
    assert time.monotonic() - began < 1.0
    assert isinstance(reply, Stopped)
    assert isinstance(reply.result, Summary)
    assert reply.result.stop_reason == "stopped"
    assert reply.result.text == "a " * reply.result.generated
    talk.wait_until(lambda: engine.state is EngineState.READY)


def test_stop_during_prefill(talk: ScriptedTalk) -> None:
    script = {
        "load": {"ms": 5},
        "replies": [{"text": "x", "prefill": {"ms": 60_000, "chunks": 600}}],
    }
    engine = talk.loaded_engine(script)
    request = engine.generate(ask())
    talk.wait_until(lambda: any(event.phase == "prefill" for event in talk.of(Progress)))
    engine.stop(request)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)


def test_a_load_can_be_cancelled_and_leaves_no_child(talk: ScriptedTalk) -> None:
    engine = talk.engine({"load": {"ms": 60_000, "steps": 600}})
    load = engine.load("w.gguf")
    talk.wait_until(lambda: bool(talk.of(Progress)))
    child = talk.of(Hello)[0].pid
    engine.stop(load)
    assert isinstance(engine.wait_for(load, PATIENCE_S), Stopped)
    talk.wait_for_state(EngineState.STOPPED)
    wait_until_gone(child, 5)
    assert engine.loaded is None


def test_a_load_is_cancelled_at_once_while_the_child_only_starts(talk: ScriptedTalk) -> None:
    engine = talk.engine({"hello": {"ms": 60_000}})
    load, message = engine.load("w.gguf"), engine.generate(ask())
    talk.wait_for_state(EngineState.STARTING)
    began = time.monotonic()
    engine.stop(load)
    assert isinstance(engine.wait_for(load, PATIENCE_S), Stopped)
    assert time.monotonic() - began < 30, "of the minute that it would take"
    refused = engine.wait_for(message, PATIENCE_S)
    assert isinstance(refused, Failed)
    assert "cancelled" in refused.sentence
    talk.wait_for_state(EngineState.STOPPED)


def test_a_load_that_ignores_stop_is_ended(talk: ScriptedTalk) -> None:
    engine = talk.engine(
        {"load": {"ms": 1, "hang": "hard"}}, stop_grace_s=0.2, terminate_grace_s=0.2
    )
    load = engine.load("w.gguf")
    talk.wait_until(lambda: len(talk.of(Progress)) == 5)
    engine.stop(load)
    assert isinstance(engine.wait_for(load, PATIENCE_S), Stopped)
    talk.wait_for_state(EngineState.STOPPED)
    assert not [e for e in talk.of(StateChanged) if e.state is EngineState.CRASHED]


@pytest.mark.parametrize("hang", [True, "hard"])
def test_a_reply_that_ignores_stop_is_ended_and_keeps_its_text(
    talk: ScriptedTalk, hang: bool | str
) -> None:
    tokens = [{"text": "Hi"}, {"log": "hangs", "hang": hang}]
    script = {"load": {"ms": 5}, "replies": [{"tokens": tokens}]}
    engine = talk.loaded_engine(script, stop_grace_s=0.2, terminate_grace_s=0.2)
    child = talk.of(Hello)[0].pid
    request = engine.generate(ask())
    talk.wait_until(lambda: bool(talk.of(Log)))
    engine.stop(request)
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Stopped)
    assert isinstance(reply.result, Summary)
    assert reply.result.text == "Hi"
    crashed = talk.wait_for_state(EngineState.CRASHED)
    assert "didn't respond to Stop" in crashed.sentence
    wait_until_gone(child, 5)
    assert len(_endings(talk, request)) == 1


def test_a_message_that_waits_for_weights_can_be_stopped(talk: ScriptedTalk) -> None:
    engine = talk.engine({**SHORT, "load": {"ms": 200}})
    load = engine.load("w.gguf")
    request = engine.generate(ask())
    engine.stop(request)
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Stopped)
    assert isinstance(reply.result, Summary)
    assert isinstance(engine.wait_for(load, PATIENCE_S), Finished)
    assert not talk.of(TokenArrived)


def test_stop_takes_nobody_elses_reply_along(talk: ScriptedTalk) -> None:
    """The child is busy with another reply, and sees a Stop only after its step."""
    tokens = [{"text": "a", "ms": 20, "repeat": 25}]
    engine = talk.loaded_engine(
        {"load": {"ms": 5}, "replies": [{"tokens": tokens}]}, stop_grace_s=0.1
    )
    first, second = engine.generate(ask()), engine.generate(ask())
    talk.wait_for_tokens(1)
    engine.stop(second)
    assert isinstance(engine.wait_for(second, PATIENCE_S), Stopped)
    assert not _endings(talk, first)
    reply = engine.wait_for(first, PATIENCE_S)
    assert isinstance(reply, Finished)
    assert isinstance(reply.result, Summary)
    assert reply.result.text == "a" * 25
    assert engine.wait_for(engine.request(Tokenize(0, "a")), PATIENCE_S)
    assert len(_endings(talk, second)) == len(talk.of(Hello)) == 1


def test_a_question_that_does_not_obey_stop_costs_no_weights(talk: ScriptedTalk) -> None:
    """Nobody waits for its answer any more: that is all."""
    tokens = [{"log": "hangs", "hang": True}]
    engine = talk.loaded_engine(
        {"load": {"ms": 5}, "replies": [{"tokens": tokens}]}, stop_grace_s=0.1
    )
    hanging = engine.generate(ask())
    talk.wait_until(lambda: bool(talk.of(Log)))
    question = engine.request(SetThreads(0, 2))
    engine.stop(question)
    assert isinstance(engine.wait_for(question, PATIENCE_S), Stopped)
    assert engine.state is EngineState.BUSY
    assert not _endings(talk, hanging)


# --- what is out of range ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"sampling": Sampling(min_tokens=99999999999999999999)},
        {"sampling": Sampling(seed=10**5000)},
        {"stop_ids": [10**25]},
        {"max_tokens": 2**70},
        {"max_tokens": "many"},
        {"deadline_s": float("nan")},
        {"prompt": IdsPrompt([10**30])},
        {"forced_ids": [-(2**80)]},
        {"conversation": 5},
        {"reply_id": None},
    ],
)
def test_a_value_of_any_size_and_kind_is_a_sentence(
    talk: ScriptedTalk, fields: dict[str, Any]
) -> None:
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"text": "Hi", "ms": 30}]})
    beside = engine.generate(ask())
    refused = engine.wait_for(engine.request(msgspec.structs.replace(ask(), **fields)), PATIENCE_S)
    assert isinstance(refused, Failed)
    assert refused.kind == "bad_setting"
    assert refused.sentence.endswith(".")
    assert isinstance(engine.wait_for(beside, PATIENCE_S), Finished)
    assert len(talk.of(Hello)) == 1


@pytest.mark.parametrize(
    "options",
    [LoadOptions(n_ctx=10**30), LoadOptions(type_k=7)],  # type: ignore[arg-type]
)
def test_a_load_option_of_any_size_is_a_sentence_and_others_load(
    talk: ScriptedTalk, options: LoadOptions
) -> None:
    engine = talk.engine(SHORT)
    load = engine.load("w.gguf", options)
    waiting = engine.generate(ask())
    for request in (load, waiting):
        assert isinstance(engine.wait_for(request, PATIENCE_S), Failed)
    talk.wait_for_state(EngineState.STOPPED)
    assert isinstance(engine.wait_for(engine.load("w.gguf"), PATIENCE_S), Finished)


def test_a_choice_that_is_no_token_leaves_the_reply_held(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    request = engine.generate(ask(hold=True))
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    engine.request(Choose(request, 10**30))
    engine.request(Resume(request))
    assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)


# --- faults of ours ---------------------------------------------------------------------------


class _FaultError(Exception):
    """What nobody foresaw."""


def _fail(*_: object, **__: object) -> None:
    raise _FaultError


@pytest.mark.parametrize("where", ["submit", "_send", "_settle"])
def test_a_fault_with_one_request_ends_it_alone(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    engine = talk.loaded_engine(slow(count=25))
    beside = engine.generate(ask())
    talk.wait_for_tokens(1)
    with monkeypatch.context() as broken:
        broken.setattr(engine._oversight, where, _fail)
        request = engine.generate(ask())
        failed = engine.wait_for(request, PATIENCE_S)
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "_FaultError" in failed.evidence
    assert isinstance(engine.wait_for(beside, PATIENCE_S), Finished)
    assert len(_endings(talk, request)) == len(talk.of(Hello)) == 1


def test_a_fault_with_what_the_child_says_ends_what_is_open(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = talk.loaded_engine(slow())
    requests = [engine.generate(ask()) for _ in range(3)]
    talk.wait_for_tokens(1)
    with monkeypatch.context() as broken:
        broken.setattr(engine._oversight, "_on_event_of_child", _fail)
        for request in requests:
            assert isinstance(engine.wait_for(request, PATIENCE_S), Failed)
    talk.wait_for_state(EngineState.CRASHED)
    engine.stop(engine.generate(ask()))
    talk.wait_until(lambda: len(talk.of(Hello)) == 2)


def test_a_fault_with_a_load_ends_it_and_the_next_one_loads(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = talk.engine(SHORT)
    for where in ("load", "_begin_load", "_ensure_child", "_send"):
        with monkeypatch.context() as broken:
            broken.setattr(engine._oversight, where, _fail)
            load = engine.load("w.gguf")
            assert isinstance(engine.wait_for(load, PATIENCE_S), Failed)
        assert isinstance(engine.wait_for(engine.load("w.gguf"), PATIENCE_S), Finished)
        assert len(_endings(talk, load)) == 1


def test_a_fault_as_a_fault_is_handled_still_ends_the_request(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = talk.loaded_engine(SHORT)
    with monkeypatch.context() as broken:
        broken.setattr(engine._oversight, "submit", _fail)
        broken.setattr(engine._oversight, "on_fault", _fail)
        assert isinstance(engine.wait_for(engine.generate(ask()), PATIENCE_S), Failed)
    assert isinstance(engine.wait_for(engine.generate(ask()), PATIENCE_S), Finished)


def test_a_fault_of_the_thread_that_reads_ends_what_is_open(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its exit a child would never be gone."""
    engine = talk.loaded_engine(slow())
    request = engine.generate(ask())
    talk.wait_for_tokens(1)
    child = engine._oversight._child
    assert child is not None
    monkeypatch.setattr(child, "_decode", _fail)
    failed = engine.wait_for(request, PATIENCE_S)
    assert isinstance(failed, Failed)
    talk.wait_for_state(EngineState.CRASHED)


# --- the child dies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("happening", "kind", "words"),
    [
        ({"signal": "SEGV"}, "native_error", "SIGSEGV"),
        ({"signal": "ABRT"}, "native_error", "SIGABRT"),
        ({"signal": "KILL"}, "out_of_memory", "ran out of memory"),
        ({"exit": 3}, "native_error", "exit code 3"),
        ({"exit": 127}, "unsupported", "library"),
        ({"exit": 0}, "native_error", "stopped unexpectedly"),
    ],
)
def test_a_child_that_dies_in_mid_reply_fails_it_in_words_with_its_text(
    talk: ScriptedTalk, happening: dict[str, Any], kind: str, words: str
) -> None:
    """C07."""
    tokens = [{"text": "Once"}, {"text": " upon"}, {"stderr": "last words"}, happening]
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"tokens": tokens}]})
    request = engine.generate(ask())
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Failed)
    assert (reply.kind, words in reply.sentence) == (kind, True), reply.sentence
    assert reply.partial is not None
    assert (reply.partial.text, reply.partial.generated) == ("Once upon", 2)
    assert "last words" in reply.evidence
    crashed = talk.wait_for_state(EngineState.CRASHED)
    assert crashed.sentence == reply.sentence
    assert len(_endings(talk, request)) == 1
    assert talk.events.index(reply) < talk.events.index(crashed)


def test_every_open_request_of_a_dead_child_ends_once(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(
        {"load": {"ms": 5}, "replies": [{"tokens": [{"text": "x"}, {"signal": "SEGV", "ms": 200}]}]}
    )
    requests = [engine.generate(ask()) for _ in range(4)]
    for request in requests:
        assert isinstance(engine.wait_for(request, PATIENCE_S), Failed)
        assert len(_endings(talk, request)) == 1


def test_the_next_message_loads_the_same_weights_again(talk: ScriptedTalk) -> None:
    script = {
        "load": {"ms": 5},
        "replies": [{"match": "die", "tokens": [{"signal": "SEGV"}]}, {"text": "Alive"}],
    }
    engine = talk.engine(script)
    engine.wait_for(engine.load("my.gguf", LoadOptions(n_ctx=777)), PATIENCE_S)
    assert isinstance(engine.wait_for(engine.generate(ask("die")), PATIENCE_S), Failed)
    reply = engine.wait_for(engine.generate(ask("again")), PATIENCE_S)
    assert isinstance(reply, Finished)
    assert engine.loaded is not None
    assert (engine.loaded.path, engine.loaded.n_ctx) == ("my.gguf", 777)
    assert talk.states()[-5:] == ["starting", "loading", "ready", "busy", "ready"]


def test_restarts_have_a_budget_and_an_explicit_load_renews_it(talk: ScriptedTalk) -> None:
    now = [1000.0]
    script = {"load": {"ms": 1}, "replies": [{"tokens": [{"signal": "SEGV"}]}]}
    engine = talk.loaded_engine(script, clock=lambda: now[0])
    sentences = []
    for _ in range(RESTART_BUDGET + 2):
        ending = engine.wait_for(engine.generate(ask()), PATIENCE_S)
        assert isinstance(ending, Failed)
        sentences.append(ending.sentence)
    assert len(talk.of(Hello)) == 1 + RESTART_BUDGET
    assert "Reload the model" in sentences[-1]
    now[0] += 700  # the window of ten minutes has passed
    engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert len(talk.of(Hello)) == 2 + RESTART_BUDGET
    assert isinstance(engine.wait_for(engine.load("w.gguf"), PATIENCE_S), Finished)


# --- loads that fail --------------------------------------------------------------------------


def test_a_failed_load_says_why_ends_the_child_and_is_not_repeated(talk: ScriptedTalk) -> None:
    """C08."""
    failure = {"kind": "not_a_gguf", "sentence": "This is no GGUF file.", "evidence": "magic"}
    engine = talk.engine({"load": {"ms": 1, "fail": failure}})
    load = engine.load("w.gguf")
    waiting = engine.generate(ask())
    ending = engine.wait_for(load, PATIENCE_S)
    assert isinstance(ending, Failed)
    assert (ending.kind, ending.sentence) == ("not_a_gguf", "This is no GGUF file.")
    refused = engine.wait_for(waiting, PATIENCE_S)
    assert isinstance(refused, Failed)
    assert "This is no GGUF file." in refused.sentence
    stopped = talk.wait_for_state(EngineState.STOPPED)
    assert stopped.sentence == "This is no GGUF file."
    wait_until_gone(talk.of(Hello)[0].pid, 5)
    again = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(again, Failed)
    assert again.kind == "not_loaded"
    assert len(talk.of(Hello)) == 1


def test_a_draft_model_that_crashes_the_engine_is_named(talk: ScriptedTalk) -> None:
    engine = talk.engine({"load": {"ms": 1, "at_draft": True, "signal": "ABRT"}})
    options = LoadOptions(draft="/models/small.gguf")
    ending = engine.wait_for(engine.load("w.gguf", options), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "while loading the draft model “small.gguf”" in ending.sentence
    assert "Choose another draft model or none" in ending.sentence


def test_weights_whose_projector_crashes_the_engine_are_loaded_without_it(
    talk: ScriptedTalk,
) -> None:
    engine = talk.engine({"load": {"ms": 1, "at_projector": True, "signal": "ABRT"}})
    ending = engine.wait_for(engine.load("w.gguf", projector="/models/eyes.gguf"), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Loaded)
    offer = ending.result.projector
    assert offer is not None
    assert offer.path == "/models/eyes.gguf"
    assert "while loading the projector “eyes.gguf”" in offer.why
    assert "Choose another projector or none" in offer.why
    assert engine.loaded == ending.result
    assert len(talk.of(Hello)) == 2


def test_an_engine_that_dies_of_a_picture_says_so(talk: ScriptedTalk) -> None:
    script = {"replies": [{"text": "Seen."}], "projector": {"ms": 1e9}}
    engine = talk.engine(script)
    assert engine.wait_for(engine.load("w.gguf", projector="/models/eyes.gguf"), PATIENCE_S)
    media = [Media("p", "image", b"ant")]
    prompt = ChatPrompt([ChatMessage("user", "What is it?", media=media)])
    request_id = engine.generate(Generate(0, prompt))
    talk.wait_until(lambda: any(each.phase == "seeing" for each in talk.of(Progress)))
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGABRT)
    ending = engine.wait_for(request_id, PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "while processing a picture or sound" in ending.sentence
    assert "Remove it or choose another projector" in ending.sentence


@pytest.mark.parametrize("how", [{"signal": "KILL"}, {"signal": "ABRT"}, {"exit": 1}])
def test_weights_that_crash_the_engine_are_not_loaded_again_unasked(
    talk: ScriptedTalk, how: dict[str, Any]
) -> None:
    """C08."""
    engine = talk.engine({"load": {"ms": 1, **how}})
    ending = engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "while loading “w.gguf”" in ending.sentence
    refused = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(refused, Failed)
    assert refused.kind == "not_loaded"
    assert len(talk.of(Hello)) == 1
    engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert len(talk.of(Hello)) == 2


def test_other_weights_replace_the_loaded_ones_in_a_fresh_child(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(slow())
    reply = engine.generate(ask())
    talk.wait_for_tokens(2)
    ending = engine.wait_for(engine.load("other.gguf"), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert engine.loaded is not None
    assert engine.loaded.name == "other"
    assert isinstance(engine.wait_for(reply, 1), Stopped)
    first, second = (hello.pid for hello in talk.of(Hello))
    assert first != second
    wait_until_gone(first, 5)


def test_only_the_last_of_several_loads_counts(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    loads = [engine.load(f"{name}.gguf") for name in "abc"]
    endings = [engine.wait_for(load, PATIENCE_S) for load in loads]
    assert [type(ending) for ending in endings] == [Stopped, Stopped, Finished]
    assert engine.loaded is not None
    assert engine.loaded.name == "c"


def test_unload_ends_the_child_and_a_message_then_asks_for_weights(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(SHORT)
    assert isinstance(engine.wait_for(engine.unload(), PATIENCE_S), Finished)
    assert engine.state is EngineState.STOPPED
    assert engine.loaded is None
    wait_until_gone(talk.of(Hello)[0].pid, 5)
    refused = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(refused, Failed)
    assert refused.kind == "not_loaded"
    assert isinstance(engine.wait_for(engine.unload(), PATIENCE_S), Finished)


def test_a_command_that_cannot_be_started_is_a_sentence(talk: ScriptedTalk) -> None:
    engine = talk.over(["/does/not/exist"])
    ending = engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "couldn't be started" in ending.sentence
    assert talk.wait_for_state(EngineState.CRASHED)


def test_a_child_that_dies_at_once_is_a_sentence(talk: ScriptedTalk) -> None:
    engine = talk.over([sys.executable, "-c", "raise SystemExit('bad start')"])
    ending = engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "exit code 1" in ending.sentence
    assert "bad start" in ending.evidence
    assert engine.log_tail()[-1] == "bad start"


def test_a_missing_package_is_named(talk: ScriptedTalk) -> None:
    engine = talk.over([sys.executable, "-c", "import no_such_package"])
    ending = engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert ending.kind == "unsupported"
    assert "no_such_package" in ending.sentence


# --- children that do not make sense ----------------------------------------------------------


def test_garbage_on_the_wire_ends_the_child_and_not_us(talk: ScriptedTalk) -> None:
    tokens = [{"text": "Hi"}, {"garbage": "ffffffff00"}, {"hang": True}]
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"tokens": tokens}]})
    reply = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(reply, Failed)
    assert reply.kind == "internal"
    assert reply.partial is not None
    assert reply.partial.text == "Hi"
    wait_until_gone(talk.of(Hello)[0].pid, 5)


def test_another_version_of_the_protocol_is_refused(talk: ScriptedTalk) -> None:
    engine = talk.engine({"hello": {"protocol": 999}})
    ending = engine.wait_for(engine.load("w.gguf"), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert "versions" in ending.sentence


def test_a_child_that_is_silent_too_long_is_ended(talk: ScriptedTalk) -> None:
    tokens, clock = [{"text": "Hi"}, {"hang": True}], LateClock()
    engine = talk.loaded_engine(
        {"load": {"ms": 5}, "replies": [{"tokens": tokens}]}, clock=clock, progress_timeout_s=0.3
    )
    request = engine.generate(ask())
    talk.wait_for_tokens(1)
    clock.start()
    reply = engine.wait_for(request, PATIENCE_S)
    assert isinstance(reply, Failed)
    assert "didn't respond for" in reply.sentence
    assert reply.partial is not None


def test_who_waits_for_a_held_reply_has_no_deadline(talk: ScriptedTalk) -> None:
    """What is owed to it, a person owes."""
    clock = HandClock(talk)
    engine = talk.loaded_engine(SHORT, clock=clock, progress_timeout_s=2.0)
    held, behind = engine.generate(ask(hold=True)), engine.generate(ask())
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    clock.watch(engine)
    clock.pass_by(4)
    assert not _endings(talk, held)
    assert not _endings(talk, behind)
    engine.request(Resume(held))
    for request in (held, behind):
        assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)
    assert len(talk.of(Hello)) == 1


def test_a_step_may_take_longer_than_the_deadline(talk: ScriptedTalk) -> None:
    """A large prefill batch on a slow processor: minutes in which no token is ready."""
    clock = HandClock(talk)
    script = {"load": {"ms": 5}, "replies": [{"text": "x", "prefill": {"ms": 1500, "chunks": 1}}]}
    engine = talk.loaded_engine(script, clock=clock, progress_timeout_s=2.0)
    request = engine.generate(ask())
    talk.wait_for_state(EngineState.BUSY)
    clock.watch(engine)
    clock.pass_by(4)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)


def test_a_machine_that_slept_ends_nobody(talk: ScriptedTalk) -> None:
    """The child could not say anything either."""
    clock = HandClock(talk)
    tokens = [{"log": "hangs", "hang": True}]
    engine = talk.loaded_engine(
        {"load": {"ms": 5}, "replies": [{"tokens": tokens}]}, clock=clock, progress_timeout_s=60.0
    )
    engine.generate(ask())
    talk.wait_until(lambda: bool(talk.of(Log)))
    clock.now += 3600.0
    engine.request(Hold(99))  # wakes the owner
    clock.now += 3600.0
    assert isinstance(engine.wait_for(engine.request(Tokenize(0, "a")), PATIENCE_S), Finished)
    assert engine.state is EngineState.BUSY


def test_what_has_come_is_taken_in_before_a_deadline_is_judged(talk: ScriptedTalk) -> None:
    """The owner is held up after a Stop, and its answer comes meanwhile."""
    clock, has_ended = HandClock(talk), threading.Event()
    engine = talk.loaded_engine(slow(ms=5, count=100), clock=clock, stop_grace_s=0.5)
    request = engine.generate(ask())
    talk.wait_for_tokens(1)
    child = engine._oversight._child
    assert child is not None
    report = child._report

    def watch(child: Any, said: Any) -> None:
        report(child, said)
        if any(isinstance(message, Stopped) for message in getattr(said, "messages", ())):
            has_ended.set()

    def hold_up() -> None:
        assert has_ended.wait(PATIENCE_S)
        clock.now += 1.0

    child._report = watch
    engine.stop(request)
    engine._inbox.put(hold_up)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Stopped)
    assert isinstance(engine.wait_for(engine.generate(ask("again")), PATIENCE_S), Finished)
    assert len(talk.of(Hello)) == 1


def test_a_slow_reply_that_makes_progress_is_left_alone(talk: ScriptedTalk) -> None:
    script = {"load": {"ms": 5}, "replies": [{"tokens": [{"text": "a", "ms": 20, "repeat": 40}]}]}
    clock = HandClock(talk)
    engine = talk.loaded_engine(script, clock=clock, progress_timeout_s=2.0)
    clock.watch(engine)
    request = engine.generate(ask())
    clock.pass_by(4)
    assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)


def test_an_idle_child_has_no_deadline(talk: ScriptedTalk) -> None:
    clock = HandClock(talk)
    engine = talk.loaded_engine(SHORT, clock=clock, progress_timeout_s=0.5)
    for _ in range(3):
        clock.now += 1.0
        engine.request(Hold(99))  # wakes the owner
    assert isinstance(engine.wait_for(engine.request(Tokenize(0, "a")), PATIENCE_S), Finished)
    assert engine.state is EngineState.READY
    assert len(talk.of(Hello)) == 1


def test_stderr_goes_to_the_log_and_not_to_our_terminal(
    talk: ScriptedTalk, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = [{"stderr": "printed natively"}, {"log": "llama line"}, {"text": "x"}]
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"tokens": tokens}]})
    engine.wait_for(engine.generate(ask()), PATIENCE_S)
    talk.wait_until(lambda: len(talk.of(Log)) == 2)
    assert {"printed natively", "llama line"} <= set(engine.log_tail())
    assert "printed natively" not in "".join(capfd.readouterr())


def test_the_log_keeps_the_last_lines_only(talk: ScriptedTalk) -> None:
    tokens = [{"log": f"line {n}"} for n in range(30)]
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"tokens": tokens}]}, log_lines=10)
    engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert engine.log_tail() == [f"line {n}" for n in range(20, 30)]


def test_a_line_of_the_log_is_cut(talk: ScriptedTalk) -> None:
    """400 lines are kept; a child must not make them 64 MB each."""
    tokens = [{"log": "x" * 100_000}, {"text": "x"}]
    engine = talk.loaded_engine({"load": {"ms": 5}, "replies": [{"tokens": tokens}]})
    engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert len(talk.of(Log)[0].text) < 5000
    assert len(engine.log_tail()[0]) < 5000


# --- closing ----------------------------------------------------------------------------------


def test_close_in_mid_reply_leaves_nothing(talk: ScriptedTalk) -> None:
    process = psutil.Process()
    fds = process.num_fds() if sys.platform != "win32" else 0
    engine = talk.loaded_engine(slow())
    child = talk.of(Hello)[0].pid
    request = engine.generate(ask())
    talk.wait_for_tokens(2)
    engine.close()
    assert isinstance(engine.wait_for(request, 1), Stopped)
    wait_until_gone(child, 0.5)
    assert not [t for t in threading.enumerate() if t.name.startswith("engine-")]
    if sys.platform != "win32":
        assert process.num_fds() == fds


def test_close_ends_a_child_that_refuses(talk: ScriptedTalk) -> None:
    script = {"load": {"ms": 5}, "replies": [{"tokens": [{"log": "hangs", "hang": "hard"}]}]}
    engine = talk.loaded_engine(script, stop_grace_s=0.1, terminate_grace_s=0.1)
    engine.generate(ask())
    talk.wait_until(lambda: bool(talk.of(Log)))
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 5
    wait_until_gone(talk.of(Hello)[0].pid, 0.5)


def test_close_during_a_load_twice_and_from_a_listener(talk: ScriptedTalk) -> None:
    engine = talk.engine({"load": {"ms": 60_000, "steps": 600}})
    load = engine.load("w.gguf")
    talk.wait_until(lambda: bool(talk.of(Progress)))
    engine.close()
    engine.close()
    assert isinstance(engine.wait_for(load, 1), Stopped)
    with pytest.raises(RuntimeError, match="closed"):
        engine.load("w.gguf")


def test_a_fault_as_it_closes_does_not_keep_it_open(
    talk: ScriptedTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = talk.loaded_engine(slow())
    child = talk.of(Hello)[0].pid
    request = engine.generate(ask())
    talk.wait_for_tokens(1)
    monkeypatch.setattr(engine._oversight, "_end_open_requests_as_stopped", _fail)
    engine.close(PATIENCE_S)
    assert len(_endings(talk, request)) == 1
    assert engine._owner is not None
    assert not engine._owner.is_alive()
    wait_until_gone(child, 5)


def test_an_engine_that_was_never_used_closes() -> None:
    engine = Engine(["nothing"], print)
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.start()


def test_shutdown_is_not_a_request(talk: ScriptedTalk) -> None:
    with pytest.raises(TypeError, match="close"):
        talk.engine(SHORT).request(Shutdown())


def test_waiting_for_a_request_that_does_not_end_times_out(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(slow())
    with pytest.raises(TimeoutError, match="did not end"):
        engine.wait_for(engine.generate(ask()), 0.1)


_PARENT = """
import sys, time
from app.engine.client.process import child_command
from app.engine.protocol.messages import Generate, Hello, TokenArrived
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.client.engine import Engine

def tell(event):
    if isinstance(event, Hello):
        print("child", event.pid, flush=True)
    elif isinstance(event, TokenArrived):
        print("token", flush=True)

engine = Engine(child_command("scripted", sys.argv[1]), tell)
engine.load("w.gguf")
engine.generate(Generate(0, ChatPrompt([ChatMessage("user", "Hi")])))
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
@pytest.mark.parametrize("busy_with", [{"text": "a", "ms": 10, "repeat": 9999}, {"hang": "hard"}])
def test_the_child_ends_when_its_parent_is_killed(
    tmp_path: Path, busy_with: dict[str, Any]
) -> None:
    """C10."""
    script = tmp_path / "script.json"
    tokens = [{"text": "Hi"}, busy_with]
    script.write_text(json.dumps({"load": {"ms": 1}, "replies": [{"tokens": tokens}]}))
    command = [sys.executable, "-c", _PARENT, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().split()[1])
        assert parent.stdout.readline() == "token\n"
        parent.send_signal(signal.SIGKILL)
        wait_until_gone(child, 5)
