"""Questions about the inside through the engine's own process, beside a reply that is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from patched_engine import engine_with
from probing import some_ids
from recurrent_gguf import tiny_jamba, tiny_mamba
from scripted_talk import PATIENCE_S, ScriptedTalk
from small_networks import small_network

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.inside_messages import WANTED, GraphOffer, Inside, LookInside, ReadGraph
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    Choose,
    Failed,
    Finished,
    Generate,
    Held,
    Hello,
    Stopped,
    Summary,
)
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.stages import Greedy, Sampling

pytestmark = pytest.mark.weights

IDS: Final = some_ids(60)
OPTIONS: Final = LoadOptions(n_ctx=512, n_ubatch=64, n_slots=2, n_threads=1)
GREEDY: Final = Sampling(filters=[], select=Greedy())
EVERYTHING: Final = list(WANTED)
MISSING_OF_MAMBA: Final = {
    *("attention", "value_norms", "q_before", "q_after", "k_after", "heads", "attn_out", "ffn_out")
}


@pytest.fixture
def talk(forked_engines: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def loaded(talk: ScriptedTalk, path: Path, command: list[str] | None = None) -> Engine:
    engine = talk.over(command or child_command("engine"))
    ending = engine.wait_for(engine.load(path, OPTIONS), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    return engine


def endings(talk: ScriptedTalk, request_id: int) -> list[Any]:
    return [e for kind in (Finished, Stopped, Failed) for e in talk.of(kind) if e.id == request_id]


def question(ids: list[int], want: list[str] = EVERYTHING) -> LookInside:
    return LookInside(0, ids, want)


def generate(count: int, **fields: Any) -> Generate:
    return Generate(0, IdsPrompt(IDS), GREEDY, count, **fields)


def tokens_of(ending: Any) -> list[int]:
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    return ending.result.token_ids


@pytest.fixture
def small(tmp_path: Path) -> Path:
    small_network(tmp_path / "small.gguf", "window")
    return tmp_path / "small.gguf"


# --- beside a reply ---------------------------------------------------------------------------


def test_a_reply_with_questions_beside_it_is_the_same(talk: ScriptedTalk, small: Path) -> None:
    engine = loaded(talk, small)
    alone = tokens_of(engine.wait_for(engine.generate(generate(200)), PATIENCE_S))
    assert len(alone) > 20
    before = engine.request(question(IDS[:30]))
    reply = engine.generate(generate(200))
    questions = [engine.request(question([*IDS, *alone[:n]])) for n in range(1, 9)]
    questions.append(engine.request(ReadGraph(0)))
    for stopped in questions[2::3]:
        engine.stop(stopped)
    assert tokens_of(engine.wait_for(reply, PATIENCE_S)) == alone
    for request_id in (before, *questions):
        engine.wait_for(request_id, PATIENCE_S)
    later = engine.wait_for(engine.request(question(IDS)), PATIENCE_S)
    assert isinstance(later, Finished)
    for request_id in (before, *questions, reply):
        (ending,) = endings(talk, request_id)
        is_stopped = isinstance(ending, Stopped) and request_id in questions[2::3]
        assert isinstance(ending, Finished) or is_stopped, ending
    assert len(talk.of(Hello)) == 1


def test_questions_between_the_tokens_of_a_held_reply(talk: ScriptedTalk, small: Path) -> None:
    """In step mode: each token is looked at before the next is chosen."""
    engine = loaded(talk, small)
    alone = tokens_of(engine.wait_for(engine.generate(generate(6)), PATIENCE_S))
    reply = engine.generate(generate(6, hold=True))
    said: list[int] = []
    for n, token_id in enumerate(alone):
        talk.wait_until(lambda n=n: len(talk.of(Held)) == n + 1)
        ending = engine.wait_for(engine.request(question([*IDS, *said])), PATIENCE_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, Inside)
        # The loudest score is the token that the reply is about to take.
        (ids,) = [array for array in ending.result.ints if array.name == "lens_ids"]
        last_row = np.frombuffer(ids.values.data, "<i4").reshape(ids.shape)[-1]
        assert last_row[0] == token_id
        said.append(token_id)
        engine.request(Choose(reply, token_id))
    assert tokens_of(engine.wait_for(reply, PATIENCE_S)) == alone


@pytest.mark.parametrize("command", [question(IDS), generate(2, cuts=[Cut("ffn", 0)])])
def test_its_memory_is_given_back_beside_a_long_reply(
    talk: ScriptedTalk, small: Path, tmp_path: Path, command: LookInside | Generate
) -> None:
    mark = tmp_path / "mark"
    patch = f"""
import threading
from app.engine.process.probe import cut_replies, probe, room
room.IDLE_S, room._SHARE, cut_replies.IDLE_S = 0.0, 1.0, 0.0
close, init, made = probe.Probe.close, Scheduler.__init__, []
take, decode, asked = serving.Serving._take, serving.native.llama.llama_decode, threading.Event()

def noting(self, command):
    take(self, command)
    if "LookInside" in str(type(command)) or getattr(command, "cuts", None):
        asked.set()

def waiting(context, batch):
    if batch.n_tokens == 1:  # the reply goes on when it has been asked
        asked.wait()
    return decode(context, batch)

serving.Serving._take, serving.native.llama.llama_decode = noting, waiting

def keep(self, *arguments, **named):
    init(self, *arguments, **named)
    made.append(self)

def noted(self):
    if self.is_open:
        with open({str(mark)!r}, "a") as file:
            file.write("beside " if made[0].has_work else "after ")
    close(self)

probe.Probe.close, Scheduler.__init__ = noted, keep
"""
    engine = loaded(talk, small, engine_with(patch))
    reply = engine.generate(generate(400))
    talk.wait_for_tokens(1)
    ask = engine.generate if isinstance(command, Generate) else engine.request
    answer = engine.wait_for(ask(command), PATIENCE_S)
    assert isinstance(answer, Finished)
    assert tokens_of(engine.wait_for(reply, PATIENCE_S))
    assert mark.read_text() == "beside "


# --- stopping ---------------------------------------------------------------------------------

_LONG_STEP: Final = """
import os, time
decode = serving.native.llama.llama_decode

def slowly(context, batch):
    while batch.n_tokens >= 32 and not os.path.exists({go!r}):
        sum(range(1000))
    return decode(context, batch)

serving.native.llama.llama_decode = slowly
"""


def test_what_has_not_begun_is_stopped_while_a_reply_is_in_a_long_step(
    talk: ScriptedTalk, small: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    engine = loaded(talk, small, engine_with(_LONG_STEP.format(go=str(go))))
    reply = engine.generate(generate(5))
    questions = [engine.request(question(IDS)) for _ in range(3)]
    for request_id in questions[:2]:
        engine.stop(request_id)
        assert isinstance(engine.wait_for(request_id, PATIENCE_S), Stopped)
    assert not endings(talk, reply)
    go.touch()
    assert isinstance(engine.wait_for(questions[2], PATIENCE_S), Finished)
    assert len(tokens_of(engine.wait_for(reply, PATIENCE_S))) == 5
    for request_id in questions:
        assert len(endings(talk, request_id)) == 1


def test_a_question_is_stopped_in_the_middle(
    talk: ScriptedTalk, small: Path, tmp_path: Path
) -> None:
    """While it decodes: it ends after that slice, and the next one is answered."""
    go = tmp_path / "go"
    engine = loaded(talk, small, engine_with(_LONG_STEP.format(go=str(go))))
    running, waiting, wanted = (engine.request(question(IDS)) for _ in range(3))
    for request_id in (running, waiting):
        engine.stop(request_id)
    go.touch()
    for request_id in (running, waiting):
        assert isinstance(engine.wait_for(request_id, PATIENCE_S), Stopped)
    assert isinstance(engine.wait_for(wanted, PATIENCE_S), Finished)
    engine.stop(wanted)
    assert isinstance(engine.wait_for(engine.request(ReadGraph(0)), PATIENCE_S), Finished)
    for request_id in (running, waiting, wanted):
        assert len(endings(talk, request_id)) == 1


# --- faults -----------------------------------------------------------------------------------


def test_a_fault_harms_no_reply(talk: ScriptedTalk, small: Path) -> None:
    patch = """
from app.engine.process.probe import probe
read, left = probe.read, [30]

def failing(node):
    left[0] -= 1
    if left[0] == 0:
        fail()
    return read(node)

probe.read = failing
"""
    engine = loaded(talk, small, engine_with(patch))
    alone = tokens_of(engine.wait_for(engine.generate(generate(100)), PATIENCE_S))
    reply = engine.generate(generate(100))
    first, second = (engine.request(question(IDS)) for _ in range(2))
    failed = engine.wait_for(first, PATIENCE_S)
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "what nobody foresaw" in failed.evidence
    assert isinstance(engine.wait_for(second, PATIENCE_S), Finished)
    assert tokens_of(engine.wait_for(reply, PATIENCE_S)) == alone
    assert len(talk.of(Hello)) == 1


@pytest.mark.parametrize("make", [tiny_mamba, tiny_jamba])
def test_a_strange_file_gives_reasons_beside_a_reply(
    talk: ScriptedTalk, tmp_path: Path, make: Any
) -> None:
    make(tmp_path / "strange.gguf")
    engine = loaded(talk, tmp_path / "strange.gguf")
    alone = tokens_of(engine.wait_for(engine.generate(generate(40)), PATIENCE_S))
    reply = engine.generate(generate(40))
    offer = engine.wait_for(engine.request(ReadGraph(0)), PATIENCE_S)
    answer = engine.wait_for(engine.request(question(IDS)), PATIENCE_S)
    assert isinstance(offer, Finished)
    assert isinstance(answer, Finished)
    assert isinstance(offer.result, GraphOffer)
    assert isinstance(answer.result, Inside)
    reasons = {each.name: each.sentence for each in offer.result.missing}
    assert MISSING_OF_MAMBA - {"ffn_out"} <= set(reasons)
    assert all(reasons.values())
    in_some = {"attention", "heads", "value_norms", "attn_out"} if make is tiny_jamba else set()
    assert in_some <= set(offer.result.in_some_layers) <= set(reasons)
    assert bool(offer.result.in_some_layers) is bool(in_some)
    assert {each.name: each.sentence for each in answer.result.missing} == reasons
    assert tokens_of(engine.wait_for(reply, PATIENCE_S)) == alone


def test_without_weights_there_is_nothing_to_look_into(talk: ScriptedTalk) -> None:
    engine = talk.over(child_command("engine"))
    engine.start()
    talk.wait_until(lambda: len(talk.of(Hello)) == 1)
    failed = engine.wait_for(engine.request(question(IDS)), PATIENCE_S)
    assert isinstance(failed, Failed)
    assert failed.kind == "not_loaded"
