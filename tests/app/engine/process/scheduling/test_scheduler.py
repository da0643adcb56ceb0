"""The scheduler on real weights and on tiny files that say exactly what a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from native_session import BROKEN_OFF, NativeSession, load_quietly
from other_shapes import bound_of, distance, force, traces

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.chain import Chain
from app.engine.process.sampling.registry import KINDS
from app.engine.process.trace.prompt_scores import PromptScorer
from app.engine.process.trace.scores import ScoreRows
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Held,
    Note,
    Progress,
    Queued,
    Stopped,
    TextFlushed,
)
from app.engine.protocol.stages import Penalties, Sampling, Temperature, TopK

pytestmark = pytest.mark.weights


def ids_of(weights: Weights, text: str) -> list[int]:
    return weights.vocabulary.tokenize(text, special=True)


@pytest.fixture
def prompt(starter: Weights) -> list[int]:
    return ids_of(starter, "The capital of France is")


TinySession = Callable[..., NativeSession]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[TinySession]:
    """Makes sessions on files in which each word has its successor; each is loaded once."""
    folder = tmp_path_factory.mktemp("tiny")
    opened: dict[str, Weights] = {}

    def make(pairs: dict[str, str], **options: Any) -> NativeSession:
        key = str((pairs, options))
        if key not in opened:
            vocabulary = bpe_vocabulary(WORDS)
            successors = {
                vocabulary.id_of(first): vocabulary.id_of(second) for first, second in pairs.items()
            }
            path = folder / f"{len(opened)}.gguf"
            tiny_llama(path, vocabulary=vocabulary, successors=successors)
            opened[key] = load_quietly(
                path, native_log, n_ctx=256, n_ubatch=32, n_threads=1, **options
            )
        return NativeSession(opened[key], native_log)

    yield make
    for weights in opened.values():
        weights.close()


WORDS = ["alpha", " beta", " gamma", " delta", "<think>", "</think>"]
LOOP = {"alpha": " beta", " beta": " gamma", " gamma": " delta", " delta": "alpha"}


def word(session: NativeSession, text: str) -> int:
    (token_id,) = session.weights.vocabulary.tokenize(text)
    return token_id


# --- what is said -----------------------------------------------------------------------------


def test_first_token_and_its_numbers(session: NativeSession, prompt: list[int]) -> None:
    summary = session.reply(prompt, max_tokens=8)
    tokens = session.tokens(1)
    assert tokens[0].token.piece == b" Paris"
    assert tokens[0].token.rank == 1
    assert [t.token.index for t in tokens] == list(range(8))
    assert summary.text == session.streamed(1) == b"".join(t.token.piece for t in tokens).decode()
    assert summary.token_ids == [t.token.token_id for t in tokens]
    assert summary.stop_reason == "max_tokens"
    assert (summary.prompt_tokens, summary.evaluated, summary.generated) == (5, 5, 8)
    assert summary.context_used == 5 + 7
    assert [t.context_used for t in tokens] == list(range(5, 13))
    assert 0 < summary.first_token_s <= summary.total_s
    assert summary.tokens_per_s == pytest.approx(7 / summary.decode_s)
    times = sum(t.token.ms for t in tokens[1:]) / 1000
    assert times == pytest.approx(summary.decode_s, rel=0.05)


def test_greedy_is_the_same_three_times(made_session: NativeSession) -> None:
    """B14."""
    session, prompt = made_session, [100, 200, 300]
    replies = [session.reply(prompt, max_tokens=12, reuse_prefix=False) for _ in range(3)]
    assert replies[0].token_ids == replies[1].token_ids == replies[2].token_ids
    numbers = [[t.token.logprob for t in session.tokens(i)] for i in (1, 2, 3)]
    assert numbers[0] == numbers[1] == numbers[2]


def test_same_seed_same_reply_and_fresh_seeds_are_reported(made_session: NativeSession) -> None:
    """B13."""
    session, prompt = made_session, [100, 200, 300]
    hot = [TopK(40), Temperature(1.0)]
    fixed = [
        session.reply(prompt, Sampling(hot, seed=0), max_tokens=10, reuse_prefix=False)
        for _ in range(2)
    ]
    assert fixed[0].token_ids == fixed[1].token_ids
    assert fixed[0].seed == 0
    fresh = [session.reply(prompt, Sampling(hot), max_tokens=1).seed for _ in range(2)]
    assert fresh[0] != fresh[1]
    again = session.reply(prompt, Sampling(hot, seed=fresh[0]), max_tokens=1)
    assert again.seed == fresh[0]


def test_any_end_token_ends(tiny: TinySession) -> None:
    """B09."""
    session = tiny({"alpha": " beta", " beta": "<|im_end|>"})
    summary = session.reply([word(session, "alpha")])
    assert (summary.text, summary.stop_reason) == (" beta", "end_token")
    assert summary.stop_detail == "<|im_end|>"
    assert summary.token_ids == [word(session, " beta")]
    other = tiny({"alpha": " beta", " beta": "<|endoftext|>"})
    assert other.reply([word(other, "alpha")]).stop_detail == "<|endoftext|>"


def test_stop_string_over_tokens_is_not_shown(tiny: TinySession) -> None:
    """B10."""
    session = tiny(LOOP)
    summary = session.reply([word(session, "alpha")], stop=["gamma delta"])
    assert (summary.text, summary.stop_reason) == (" beta ", "stop_string")
    assert summary.stop_detail == "gamma delta"
    assert session.streamed(1) == " beta "


def test_near_miss_of_a_stop_string_is_flushed(tiny: TinySession) -> None:
    """B10."""
    session = tiny({"alpha": " beta", " beta": " gamma"})
    summary = session.reply([word(session, "alpha")], stop=["gamma delta"])
    assert (summary.text, summary.stop_reason) == (" beta gamma", "end_token")
    assert session.streamed(1) == " beta gamma"
    assert any(isinstance(e, TextFlushed) for e in session.of(1))


def test_control_token_as_stop_string(tiny: TinySession) -> None:
    """B11."""
    session = tiny({"alpha": " beta", " beta": "<|im_start|>"})
    summary = session.reply([word(session, "alpha")], stop=["<|im_start|>"])
    assert (summary.text, summary.stop_reason) == (" beta", "stop_string")
    assert summary.stop_detail == "<|im_start|>"


def test_context_full_is_an_ending_and_the_next_reply_works(tiny: TinySession) -> None:
    """C01."""
    session = tiny(LOOP)
    alpha = word(session, "alpha")
    summary = session.reply([alpha] * 100)
    assert summary.stop_reason == "context_full"
    assert summary.context_used == summary.context_size == 256
    assert summary.generated == 256 - 100 + 1
    assert session.reply([alpha] * 100, max_tokens=3).generated == 3


@pytest.mark.parametrize(("length", "generated"), [(254, 3), (255, 2), (256, 1)])
def test_prompts_at_the_limit(tiny: TinySession, length: int, generated: int) -> None:
    """C01."""
    session = tiny(LOOP)
    summary = session.reply([word(session, "alpha")] * length)
    assert (summary.stop_reason, summary.generated) == ("context_full", generated)


def test_prompt_over_the_limit_is_refused_with_both_numbers(tiny: TinySession) -> None:
    """C01."""
    session = tiny(LOOP)
    alpha = word(session, "alpha")
    request_id = session.add([alpha] * 257)
    failed = session.ending(request_id)
    assert isinstance(failed, Failed)
    assert failed.kind == "prompt_too_long"
    assert "257" in failed.sentence
    assert "256" in failed.sentence
    assert session.reply([alpha], max_tokens=2).generated == 2


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"max_tokens": -1}, "bad_setting", "maximum number of tokens"),
        ({"alternatives": 65}, "bad_setting", "between 0 and 64"),
        ({"stop": [""]}, "bad_setting", "1 to 4,096 characters"),
        ({"stop": ["x" * 10_000]}, "bad_setting", "1 to 4,096 characters"),
        ({"stop": ["x"] * 65}, "bad_setting", "At most 64"),
        ({"deadline_s": float("nan")}, "bad_setting", "deadline"),
        ({"deadline_s": 1e300}, "bad_setting", "deadline"),
        ({"sampling": Sampling([Temperature(-1.0)])}, "bad_setting", "Temperature"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(
    tiny: TinySession, fields: dict[str, Any], kind: str, words: str
) -> None:
    """B17."""
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")], **fields)
    failed = session.ending(request_id)
    assert isinstance(failed, Failed)
    assert failed.kind == kind
    assert words in failed.sentence
    assert session.events == [failed]


@pytest.mark.parametrize("ids", [[], [-1], [10**6]])
def test_bad_prompts_are_refused(tiny: TinySession, ids: list[int]) -> None:
    session = tiny(LOOP)
    failed = session.ending(session.add(ids))
    assert isinstance(failed, Failed)
    assert failed.kind == "bad_setting"


def test_no_candidate_ends_as_failed_with_the_partial_reply(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    real = ScoreRows.at

    def broken(rows: ScoreRows, row: int) -> Any:
        scores = real(rows, row)
        return scores - np.inf if len(session.tokens(1)) == 3 else scores

    monkeypatch.setattr(ScoreRows, "at", broken)
    request_id = session.add([word(session, "alpha")])
    session.run()
    failed = session.ending(request_id)
    assert isinstance(failed, Failed)
    assert failed.kind == "no_candidate"
    assert failed.partial is not None
    assert failed.partial.text == " beta gamma delta"


def test_a_fault_of_ours_ends_one_reply_and_not_the_other(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    first = session.add([word(session, "alpha")], max_tokens=5)
    second = session.add([word(session, " beta")], max_tokens=5)
    real = session.scheduler._writer._append

    def broken(slot: Any, reply: Any, token_id: int, drawn: Any) -> None:
        if reply.request.id == first and len(reply.generated) == 2:
            raise ZeroDivisionError("made up")
        real(slot, reply, token_id, drawn)

    monkeypatch.setattr(session.scheduler._writer, "_append", broken)
    session.run()
    failed = session.ending(first)
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "made up" in failed.evidence
    assert isinstance(session.ending(second), Finished)


# --- cells ------------------------------------------------------------------------------------


def test_next_turn_evaluates_only_what_is_new(made_session: NativeSession, made: Weights) -> None:
    session = made_session
    first = ids_of(made, "<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n")
    one = session.reply(first, max_tokens=6, conversation="a")
    assert (one.reused, one.evaluated) == (0, len(first))
    rest = ids_of(made, "<|im_end|>\n<|im_start|>user\nAnother.<|im_end|>\n<|im_start|>assistant\n")
    second = [*first, *one.token_ids, *rest]
    two = session.reply(second, max_tokens=2, conversation="a")
    assert two.reused == len(first) + len(one.token_ids) - 1
    assert two.evaluated == len(rest) + 1
    again = session.reply(second, max_tokens=2, conversation="a")
    assert (again.reused, again.evaluated) == (len(second) - 1, 1)
    fresh = session.reply(second, max_tokens=2, reuse_prefix=False)
    assert (fresh.reused, fresh.evaluated) == (0, len(second))


def test_reused_prefix_gives_the_same_scores_within_the_bound(
    session: NativeSession, starter: Weights
) -> None:
    """B14. Batch shapes differ, so numbers may."""
    first = ids_of(starter, "One, two, three, four, five, six,")
    session.reply(first, max_tokens=4)
    longer = [*first, *ids_of(starter, " seven, eight,")]
    reused = session.add(longer, max_tokens=1, alternatives=2)
    session.run()
    assert session.ending(reused).result.reused >= len(first)
    taken = traces(session, reused)
    fresh = session.add(longer, max_tokens=1, alternatives=2, hold=True, reuse_prefix=False)
    force(session, {fresh: [token.token_id for token in taken]})
    assert distance(taken, traces(session, fresh)) <= bound_of(session.weights)


def test_another_prompt_cuts_back_to_what_is_common(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    session.reply([a, a, a, b, b], max_tokens=3)
    summary = session.reply([a, a, b, b], max_tokens=3)
    assert (summary.reused, summary.evaluated) == (2, 2)
    assert summary.text == " gamma deltaalpha"


def test_architecture_that_cannot_cut_reads_again_with_a_note(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C04."""
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    session.reply([a, a, b], max_tokens=3)
    real = llama.llama_memory_seq_rm
    monkeypatch.setattr(
        llama,
        "llama_memory_seq_rm",
        lambda memory, sequence, start, end: start < 0 and real(memory, sequence, start, end),
    )
    summary = session.reply([a, a, a], max_tokens=1)
    assert summary.reused == 0
    assert any(isinstance(e, Note) and e.kind == "full_pass" for e in session.of(2))
    assert "processed again" in summary.notes[0]
    assert summary.text == " beta"


def test_sampling_sees_the_prompt(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    from app.engine.protocol.stages import Greedy

    plain = session.reply([b, a], Sampling([Penalties()], Greedy()), max_tokens=1)
    assert plain.text == " beta"
    punished = session.reply(
        [b, a], Sampling([Penalties(repeat=1.0, presence=90.0)], Greedy()), max_tokens=1
    )
    assert punished.text != " beta"


# --- prefill ----------------------------------------------------------------------------------


def test_prefill_goes_in_chunks_with_progress(tiny: TinySession) -> None:
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")] * 100, max_tokens=1)
    session.run()
    steps = [(e.done, e.total) for e in session.of(request_id) if isinstance(e, Progress)]
    assert steps == [(0, 100), (32, 100), (64, 100), (96, 100), (100, 100)]


def test_stop_before_the_first_step(tiny: TinySession) -> None:
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")])
    assert session.scheduler.stop(request_id)
    session.run()
    assert isinstance(session.ending(request_id), Stopped)
    assert not session.scheduler.stop(request_id)


def test_stop_between_tokens_keeps_the_text(tiny: TinySession) -> None:
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")])
    while len(session.tokens(request_id)) < 3:
        session.scheduler.step()
    session.scheduler.stop(request_id)
    session.run()
    stopped = session.ending(request_id)
    assert isinstance(stopped, Stopped)
    assert stopped.result.text == " beta gamma delta"
    assert stopped.result.stop_reason == "stopped"


def test_stop_inside_a_long_prefill_is_seen_at_once(
    made_session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = made_session
    ids = [100 + i % 500 for i in range(1000)]
    request_id = session.add(ids)
    answers: list[int] = []
    real = llama.llama_decode

    def decode(context: Any, batch: Any) -> int:
        if len(answers) == 2:
            session.scheduler.stop(request_id)
        answers.append(int(real(context, batch)))
        return answers[-1]

    monkeypatch.setattr(llama, "llama_decode", decode)
    session.run()
    monkeypatch.undo()
    assert answers == [0, 0, BROKEN_OFF]
    stopped = session.ending(request_id)
    assert isinstance(stopped, Stopped)
    assert stopped.result.evaluated == 2 * session.weights.n_ubatch
    # The cells are clean: the same prompt, begun anew, gives what a fresh one gives.
    short = ids[:40]
    after = session.add(short, max_tokens=4, alternatives=2)
    session.run()
    assert session.ending(after).result.reused == len(short) - 1
    taken = traces(session, after)
    fresh = session.add(short, max_tokens=4, alternatives=2, hold=True, reuse_prefix=False)
    force(session, {fresh: [token.token_id for token in taken]})
    assert distance(taken, traces(session, fresh)) <= bound_of(session.weights)


def test_deadline_ends_with_what_there_is(tiny: TinySession) -> None:
    """B12."""
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")], deadline_s=0.05)
    while session.scheduler.has_work:
        session.scheduler.step()
        time.sleep(0.005)
    finished = session.ending(request_id)
    assert isinstance(finished, Finished)
    assert (finished.result.stop_reason, finished.result.stop_detail) == ("deadline", "0.05 s")


def test_a_deadline_that_has_come_before_the_request_does(tiny: TinySession) -> None:
    """A slow template may take longer than the whole reply may."""
    session = tiny(LOOP)
    for _ in range(20):
        request_id = session.add([word(session, "alpha")], deadline_s=1e-9)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        session.run()
        summary = session.ending(request_id).result
        assert (summary.stop_reason, summary.stop_detail) == ("deadline", "1e-09 s")


# --- failing decodes --------------------------------------------------------------------------


def failing_decode(monkeypatch: pytest.MonkeyPatch, codes: list[int]) -> None:
    """Let llama_decode return these codes first, and do its work afterwards."""
    real = llama.llama_decode

    def decode(context: Any, batch: Any) -> int:
        return codes.pop(0) if codes and batch.n_tokens == 1 else int(real(context, batch))

    monkeypatch.setattr(llama, "llama_decode", decode)


def test_one_failed_decode_is_survived_by_reading_again(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C04."""
    session = tiny(LOOP)
    a = word(session, "alpha")
    failing_decode(monkeypatch, [-3])
    summary = session.reply([a, a], max_tokens=4)
    assert summary.text == " beta gamma deltaalpha"
    assert any(isinstance(e, Note) and e.kind == "read_again" for e in session.of(1))
    assert summary.prompt_tokens == 2


def test_second_failed_decode_ends_with_evidence(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    failing_decode(monkeypatch, [-3, -3])
    request_id = session.add([a, a], max_tokens=4)
    session.run()
    failed = session.ending(request_id)
    assert isinstance(failed, Failed)
    assert failed.kind == "native_error"
    assert "-3" in failed.evidence
    assert failed.partial is not None
    assert failed.partial.text.startswith(" beta")
    assert session.reply([a, a], max_tokens=4).text == " beta gamma deltaalpha"


# --- step mode --------------------------------------------------------------------------------


def held(session: NativeSession, request_id: int) -> Held:
    event = session.of(request_id)[-1]
    assert isinstance(event, Held)
    assert not session.scheduler.has_work
    return event


def test_step_mode_takes_the_drawn_token_or_another(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a, b, d = (word(session, text) for text in ("alpha", " beta", " delta"))
    request_id = session.add([a], hold=True, max_tokens=4, alternatives=4)
    session.run()
    first = held(session, request_id)
    assert (first.token.token_id, first.token.index) == (b, 0)
    assert len(first.token.alternative_ids.data) == 16
    session.scheduler.choose(request_id, d)
    session.run()
    assert session.tokens(request_id)[0].token.token_id == d
    assert session.tokens(request_id)[0].token.rank > 1
    assert held(session, request_id).token.token_id == a
    session.scheduler.choose(request_id, 10**6)
    session.run()
    assert any(isinstance(e, Note) and e.kind == "bad_choice" for e in session.of(request_id))
    session.scheduler.resume(request_id)
    session.run()
    finished = session.ending(request_id)
    assert isinstance(finished, Finished)
    assert finished.result.text == " deltaalpha beta gamma"


def test_hold_in_mid_reply_and_stop_while_held(tiny: TinySession) -> None:
    session = tiny(LOOP)
    request_id = session.add([word(session, "alpha")])
    while len(session.tokens(request_id)) < 2:
        session.scheduler.step()
    session.scheduler.hold(request_id)
    session.run()
    assert held(session, request_id).token.index == 2
    session.scheduler.stop(request_id)
    assert session.scheduler.has_work
    session.run()
    assert isinstance(session.ending(request_id), Stopped)


# --- several at once --------------------------------------------------------------------------


def test_two_at_once_say_what_each_says_alone(made_session: NativeSession) -> None:
    session, prompts = made_session, [[100, 200, 300], [150 + n for n in range(17)]]
    alone = []
    for ids in prompts:
        request_id = session.add(ids, max_tokens=6, reuse_prefix=False, alternatives=2)
        session.run()
        alone.append(traces(session, request_id))
    together = [
        session.add(ids, max_tokens=6, reuse_prefix=False, alternatives=2, hold=True)
        for ids in prompts
    ]
    wanted = [[token.token_id for token in tokens] for tokens in alone]
    force(session, dict(zip(together, wanted, strict=True)))
    for tokens, request_id in zip(alone, together, strict=True):
        assert distance(tokens, traces(session, request_id)) <= bound_of(session.weights)
    indices = [e.id for e in session.events if e in session.tokens(3) + session.tokens(4)]
    assert indices != sorted(indices)


def test_a_prompt_that_joins_does_not_hold_up_a_writer(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    writer = session.add([a])
    while len(session.tokens(writer)) < 2:
        session.scheduler.step()
    before = len(session.tokens(writer))
    reader = session.add([a] * 60, max_tokens=1)
    steps = 0
    while not session.tokens(reader):
        session.scheduler.step()
        steps += 1
    assert len(session.tokens(writer)) - before == steps
    assert steps > 1


def test_more_requests_than_slots_wait_in_order(tiny: TinySession) -> None:
    """C06."""
    session = tiny(LOOP, n_slots=4)
    a = word(session, "alpha")
    requests = [session.add([a], max_tokens=4) for _ in range(6)]
    session.scheduler.step()
    queued = [(e.id, e.position) for e in session.events if isinstance(e, Queued)]
    assert queued == [(requests[4], 1), (requests[5], 2)]
    session.scheduler.stop(requests[5])
    session.run()
    assert isinstance(session.ending(requests[5]), Stopped)
    texts = {session.ending(r).result.text for r in requests[:5]}
    assert texts == {" beta gamma deltaalpha"}


def test_prompts_that_do_not_fit_beside_each_other_take_turns(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    first, second = session.add([a] * 200, max_tokens=3), session.add([a] * 200, max_tokens=3)
    session.run()
    assert [type(session.ending(r)) for r in (first, second)] == [Finished, Finished]
    assert any(isinstance(e, Queued) and e.id == second for e in session.events)


def test_idle_cells_make_way_for_a_prompt_that_needs_them(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    session.reply([a] * 150, max_tokens=2, conversation="one")
    summary = session.reply([b] * 250, max_tokens=2, conversation="two")
    assert (summary.text, summary.reused) == (" gamma delta", 0)
    again = session.reply([a] * 150, max_tokens=2, conversation="one")
    assert (again.reused, again.reuse_source) == (149, "parked")


def test_idle_cells_that_are_in_nobodys_way_are_kept(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    session.reply([a] * 60, max_tokens=2, conversation="one")
    session.reply([b] * 60, max_tokens=2, conversation="two")
    assert session.reply([a] * 60, max_tokens=2, conversation="one").reused == 59
    assert session.reply([b] * 60, max_tokens=2, conversation="two").reused == 59


def test_who_pauses_for_want_of_cells_says_what_it_would_have_said_alone(tiny: TinySession) -> None:
    """Two long answers in a half-filled window, and several to one prompt: none is cut short."""
    session = tiny(LOOP)
    a, b = word(session, "alpha"), word(session, " beta")
    prompts = [[a] * 100, [b] * 100, [a] * 100]
    alone = [session.reply(ids, conversation=str(n)).text for n, ids in enumerate(prompts)]
    session.events.clear()
    requests = [session.add(ids, conversation=str(n)) for n, ids in enumerate(prompts)]
    session.run()
    endings = [session.ending(request).result for request in requests]
    assert [ending.text for ending in endings] == alone
    assert [session.streamed(request) for request in requests] == alone
    assert {(e.stop_reason, e.context_used) for e in endings} == {("context_full", 256)}
    paused = [
        r for r in requests if any(getattr(e, "kind", "") == "gave_way" for e in session.of(r))
    ]
    assert paused
    assert requests[0] not in paused


def test_four_answers_to_a_long_prompt_reach_their_limit(tiny: TinySession) -> None:
    session = tiny(LOOP, n_slots=4)
    a = word(session, "alpha")
    requests = [session.add([a] * 150, max_tokens=90) for _ in range(4)]
    session.run()
    endings = [session.ending(request).result for request in requests]
    assert {(e.stop_reason, e.generated) for e in endings} == {("max_tokens", 90)}


class _FaultError(Exception):
    """What nobody foresaw."""


def _fail(*_: object) -> None:
    raise _FaultError


def test_a_reply_that_cannot_begin_fails_alone_and_leaves_no_sampler(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    freed: list[object] = []
    free = llama.llama_sampler_free

    def count(sampler: object) -> None:
        freed.append(sampler)
        free(sampler)

    running = session.add([a], max_tokens=6)
    session.scheduler.step()
    monkeypatch.setattr(llama, "llama_sampler_free", count)
    with monkeypatch.context() as broken:
        broken.setattr(Chain, "see_prompt", _fail)
        unseen = session.add([a], Sampling([TopK(5), Temperature(1.0)]), max_tokens=6)
        session.scheduler.step()
    assert len(freed) == 3
    with monkeypatch.context() as broken:
        broken.setitem(KINDS, Temperature, replace(KINDS[Temperature], build=_fail))
        unbuilt = session.add([a], Sampling([TopK(5), Temperature(1.0)]), max_tokens=6)
        session.scheduler.step()
    assert len(freed) == 4
    session.run()
    for request in (unseen, unbuilt):
        failed = session.ending(request)
        assert isinstance(failed, Failed)
        assert failed.kind == "internal"
        assert "_FaultError" in failed.evidence
    ending = session.ending(running)
    assert isinstance(ending, Finished)
    assert ending.result.generated == 6


def test_scores_of_a_prompt_that_cannot_be_made_end_one_reply(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    running = session.add([a], max_tokens=6)
    session.scheduler.step()
    monkeypatch.setattr(PromptScorer, "chunk", _fail)
    scored = session.add([a] * 8, max_tokens=1, score_prompt=True)
    session.run()
    failed, ending = session.ending(scored), session.ending(running)
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert isinstance(ending, Finished)
    assert session.reply([a], max_tokens=2).generated == 2


@pytest.mark.parametrize("broken", ["flush", "feed"])
def test_a_text_that_cannot_be_made_ends_one_reply(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Also where the fault comes again as the reply is ended."""
    session = tiny(LOOP)
    a = word(session, "alpha")
    running, other = session.add([a], max_tokens=9), session.add([a], max_tokens=9)
    session.scheduler.step()
    session.scheduler.step()
    slot = next(s for s in session.scheduler._slots if s.reply and s.reply.request.id == other)
    assert slot.reply is not None
    monkeypatch.setattr(slot.reply.text, broken, _fail)
    session.scheduler.stop(other)
    if broken == "feed":
        slot.reply.request.stop = False
    session.run()
    assert isinstance(session.ending(other), Failed)
    assert isinstance(session.ending(running), Finished)


def test_a_reply_whose_memory_cannot_be_kept_has_one_ending(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    monkeypatch.setattr(session.scheduler.cache, "remember", _fail)
    requests = [session.add([a], max_tokens=n) for n in (2, 6)]
    session.run()
    assert [session.ending(r).result.generated for r in requests] == [2, 6]


def test_a_request_whose_alarm_cannot_be_set_is_no_ghost(
    tiny: TinySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of threads: whoever asked is told, and nothing of it runs."""

    def no_thread(_: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    session = tiny(LOOP)
    monkeypatch.setattr(threading.Timer, "start", no_thread)
    with pytest.raises(RuntimeError):
        session.add([word(session, "alpha")], max_tokens=2, deadline_s=5)
    assert not session.scheduler.has_work


def test_unloading_ends_whatever_is_open(tiny: TinySession) -> None:
    session = tiny(LOOP)
    a = word(session, "alpha")
    requests = [session.add([a]) for _ in range(6)]
    for _ in range(3):
        session.scheduler.step()
    session.scheduler.end_all("not_loaded", "Gone.")
    assert {session.ending(r).kind for r in requests} == {"not_loaded"}
    assert not session.scheduler.has_work
