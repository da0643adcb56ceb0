"""The engine's threads: what is stopped before it begins, and what a fault on one of them does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from patched_engine import engine_with
from scripted_talk import PATIENCE_S, HandClock, LateClock, ScriptedTalk, ask
from thinking_families import QWEN3

from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineState
from app.engine.process.native.weights import Weights
from app.engine.process.serving import Serving
from app.engine.protocol import wire
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    CountPrompt,
    Done,
    Failed,
    Finished,
    Held,
    Hello,
    PromptCount,
    Resume,
    Stop,
    Stopped,
    Summary,
    Tokenize,
)
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    PromptShown,
    ReadPrompt,
)
from app.engine.protocol.stages import Greedy, Sampling
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer

pytestmark = pytest.mark.weights

GREEDY = Sampling(filters=[], select=Greedy())
SMALL = LoadOptions(n_ctx=256, n_ubatch=64, n_slots=1, n_threads=1)


@pytest.fixture
def talk(forked_engines: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


# --- before a request has begun ---------------------------------------------------------------


class _Quiet:
    """A serving without its threads: as one whose context is in the middle of a long step."""

    def __init__(self) -> None:
        self._frames = io.BytesIO()
        self.serving = Serving(io.BytesIO(), self._frames)

    def said(self) -> list[Any]:
        self.serving._outbox.close()
        reader = wire.FrameReader(io.BytesIO(self._frames.getvalue()))
        return [wire.decode_event(payload) for payload in iter(reader.read, None)]


def test_a_reply_that_has_not_begun_is_stopped_while_others_compute() -> None:
    quiet = _Quiet()
    quiet.serving._take(ask())
    quiet.serving._take(Stop(0))
    (stopped,) = quiet.said()
    assert isinstance(stopped, Stopped)
    assert isinstance(stopped.result, Summary)
    assert stopped.result.stop_reason == "stopped"


@pytest.mark.parametrize(
    "question", [CountPrompt(0, IdsPrompt([1, 2])), Tokenize(0, "Hi")], ids=["count", "tokenize"]
)
def test_a_question_is_stopped_at_once(question: Any) -> None:
    quiet = _Quiet()
    quiet.serving._take(question)
    quiet.serving._take(Stop(0))
    quiet.serving._take(Stop(0))
    assert quiet.said() == [Stopped(0, Done())]
    assert not quiet.serving._open


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patch",
    [
        "Scheduler.has_work = property(fail)",
        "serving.Serving._build = fail",
        "serving._subject = lambda command: fail() if 'Generate' in str(type(command)) else 0",
    ],
    ids=["context", "text", "commands"],
)
def test_a_fault_that_ends_a_thread_ends_what_is_open(
    talk: ScriptedTalk, tmp_path: Path, patch: str
) -> None:
    engine = talk.over(engine_with(patch))
    engine.load(_tiny(tmp_path), SMALL)
    failed = engine.wait_for(engine.generate(ask()), PATIENCE_S)
    assert isinstance(failed, Failed)
    assert "what nobody foresaw" in failed.evidence
    talk.wait_for_state(EngineState.CRASHED)


def test_a_fault_with_one_command_is_its_own(talk: ScriptedTalk, tmp_path: Path) -> None:
    patch = "serving._taken_out = fail\nserving.Serving._prepare = fail"
    engine = talk.over(engine_with(patch))
    engine.wait_for(engine.load(_tiny(tmp_path), SMALL), PATIENCE_S)
    for request in (engine.generate(ask()), engine.generate(ask())):
        failed = engine.wait_for(request, PATIENCE_S)
        assert isinstance(failed, Failed)
        assert failed.kind == "internal"
    answer = engine.wait_for(engine.request(Tokenize(0, "a")), PATIENCE_S)
    assert isinstance(answer, Finished)
    assert len(talk.of(Hello)) == 1


def test_a_long_run_of_letters_ends_no_engine(talk: ScriptedTalk, tmp_path: Path) -> None:
    """llama.cpp matches this file's rule for words by std::regex, which recurses per letter."""
    path = tmp_path / "deep.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary(pre="deepseek-llm"))
    engine = talk.over(child_command("engine"))
    engine.wait_for(engine.load(path, SMALL), PATIENCE_S)
    answer = engine.wait_for(engine.request(Tokenize(0, "a" * 200_000)), PATIENCE_S)
    assert isinstance(answer, Finished)
    refused = engine.wait_for(engine.generate(ask("b" * 200_000)), PATIENCE_S)
    assert isinstance(refused, Failed)
    assert refused.kind == "prompt_too_long"
    assert len(talk.of(Hello)) == 1


def test_what_the_outbox_cannot_send_ends_the_process(talk: ScriptedTalk) -> None:
    patch = "from app.engine.process.trace.outbox import Outbox\nOutbox._event = fail"
    engine = talk.over(engine_with(patch))
    failed = engine.wait_for(engine.load("nothing.gguf"), PATIENCE_S)
    assert isinstance(failed, Failed)
    assert "what nobody foresaw" in failed.evidence


# --- signs of life ----------------------------------------------------------------------------


def _tiny(folder: Path) -> Path:
    path = folder / "tiny.gguf"
    tiny_llama(path, vocabulary=bpe_vocabulary())
    return path


_QUICK_PULSE = "from app.engine.process import pulse; pulse.PULSE_S = 0.05\n"

_LONG_STEP = """
import os, time
decode = serving.native.llama.llama_decode

def slowly(context, batch):
    while batch.n_tokens >= 32 and not os.path.exists({go!r}):
        {wait}
    return decode(context, batch)

serving.native.llama.llama_decode = slowly
"""


def test_a_long_step_is_no_silence(talk: ScriptedTalk, tmp_path: Path) -> None:
    """A prompt in one large batch on a slow processor."""
    clock, go = HandClock(talk), tmp_path / "go"
    step = _LONG_STEP.format(go=str(go), wait="sum(range(1000))")
    engine = talk.over(engine_with(_QUICK_PULSE + step), clock=clock, progress_timeout_s=2.0)
    engine.wait_for(engine.load(_tiny(tmp_path), SMALL), PATIENCE_S)
    request = engine.generate(ask("x" * 60, sampling=GREEDY, max_tokens=2))
    talk.wait_for_state(EngineState.BUSY)
    clock.watch(engine)
    clock.pass_by(3)
    go.touch()
    assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)
    assert len(talk.of(Hello)) == 1


def test_a_step_that_is_stuck_is_silence(talk: ScriptedTalk, tmp_path: Path) -> None:
    clock = LateClock()
    step = _LONG_STEP.format(go="/nowhere", wait="time.sleep(600)")
    options: dict[str, Any] = {"progress_timeout_s": 0.5, "terminate_grace_s": 0.2}
    engine = talk.over(engine_with(_QUICK_PULSE + step), clock=clock, **options)
    engine.wait_for(engine.load(_tiny(tmp_path), SMALL), PATIENCE_S)
    request = engine.generate(ask("x" * 60, sampling=GREEDY, max_tokens=2))
    talk.wait_for_state(EngineState.BUSY)
    clock.start()
    failed = engine.wait_for(request, PATIENCE_S)
    assert isinstance(failed, Failed)
    assert "didn't respond for" in failed.sentence


def test_who_waits_for_a_held_reply_has_no_deadline(talk: ScriptedTalk, tmp_path: Path) -> None:
    clock = HandClock(talk)
    engine = talk.over(engine_with(_QUICK_PULSE), clock=clock, progress_timeout_s=2.0)
    engine.wait_for(engine.load(_tiny(tmp_path), SMALL), PATIENCE_S)
    held = engine.generate(ask(sampling=GREEDY, max_tokens=2, hold=True))
    behind = engine.generate(ask(sampling=GREEDY, max_tokens=2))
    talk.wait_until(lambda: len(talk.of(Held)) == 1)
    clock.watch(engine)
    clock.pass_by(3)
    engine.request(Resume(held))
    for request in (held, behind):
        assert isinstance(engine.wait_for(request, PATIENCE_S), Finished)
    assert len(talk.of(Hello)) == 1


# --- thinking -----------------------------------------------------------------------------------


def test_what_a_template_offers_is_told_and_what_is_chosen_is_in_the_prompt(made: Weights) -> None:
    quiet = _Quiet()
    serving = quiet.serving

    def n_tokens(**chosen: Any) -> int:
        prompt = ChatPrompt([ChatMessage("user", "Hi")], template=QWEN3, **chosen)
        counted = serving._answer(CountPrompt(1, prompt), made)
        assert isinstance(counted, PromptCount)
        return counted.n_tokens

    try:
        offer = serving._answer(ReadThinking(1, QWEN3), made)
        assert offer == ThinkingOffer(["off", "on"], "on", [], has_reasoning=True)
        assert serving._answer(ReadThinking(1, "{% if %}"), made) == ThinkingOffer()
        assert serving._answer(ReadThinking(1), made) == ThinkingOffer()  # the file has none
        block = "<think>\n\n</think>\n\n"
        longer = len(made.vocabulary.tokenize(block, special=True))
        assert n_tokens(thinking="off") == n_tokens() + longer
        assert n_tokens(variables='{"enable_thinking": false}') == n_tokens() + longer
        assert n_tokens(thinking="on") == n_tokens()
        shown = serving._answer(
            ReadPrompt(1, ChatPrompt([ChatMessage("user", "Hi")], QWEN3, thinking="high")), made
        )
        assert isinstance(shown, PromptShown)
        assert shown.notes == ["This chat template has no thinking mode “high”, only off, on."]
    finally:
        serving._templates.close()
        serving._outbox.close()
