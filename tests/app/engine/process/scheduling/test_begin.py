"""Replies that begin with given tokens, go on with chosen ones, and then with drawn ones.

The first proof is against another way through the engine: the same tokens, forced one by one in
step mode into a run that was never branched. Its steps have the same shapes, so the numbers must be
the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from native_session import GREEDY, NativeSession, ReadyPrompt, load_quietly
from other_shapes import bound_of

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Generate,
    Held,
    Note,
    Summary,
    TextFlushed,
    TokenTrace,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt
from app.engine.protocol.stages import Sampling, Temperature, TopK

pytestmark = pytest.mark.weights

TALE = "It was late in the autumn when the first of the ships came back to the harbour, and"
LENGTH = 12
PLACE = 5
HOT = Sampling([TopK(40), Temperature(0.9)], seed=11)
CHAT = ChatPrompt([ChatMessage("user", "Go on.")])


def ids_of(weights: Weights, text: str, *, special: bool = True) -> list[int]:
    vocabulary = weights.vocabulary
    return vocabulary.tokenize(text, special=special, add_bos=special and vocabulary.add_bos)


def traces(session: NativeSession, request_id: int) -> list[TokenTrace]:
    return [event.token for event in session.tokens(request_id)]


def summary(session: NativeSession, request_id: int) -> Summary:
    ending = session.ending(request_id)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    return ending.result


def table(token: TokenTrace) -> list[int]:
    return np.frombuffer(token.alternative_ids.data, "<i4").tolist()


def forced(session: NativeSession, prompt: list[int], wanted: list[int]) -> list[TokenTrace]:
    """A run that is held at each token and told which one to take."""
    request_id = session.add(prompt, HOT, hold=True, max_tokens=len(wanted), alternatives=64)
    for token_id in wanted:
        session.run()
        assert isinstance(session.of(request_id)[-1], Held)
        session.scheduler.choose(request_id, token_id)
    session.run()
    return traces(session, request_id)


def numbers(token: TokenTrace) -> tuple[Any, ...]:
    return (
        *(token.token_id, token.logprob, token.rank, token.entropy),
        *(token.alternative_ids.data, token.alternative_logprobs.data),
    )


REAL = [pytest.param(name, marks=pytest.mark.soak) for name in ("starter", "gemma")]


@pytest.fixture(params=["made", "made_window", *REAL])
def weights(request: pytest.FixtureRequest) -> Weights:
    found: Weights = request.getfixturevalue(request.param)
    return found


# --- against a run that was never branched --------------------------------------------------------


@pytest.mark.parametrize("weights", ["made_window", "starter", REAL[1]], indirect=True)
def test_a_branch_is_to_the_last_bit_the_run_that_was_told_its_tokens(
    weights: Weights, native_log: NativeLog
) -> None:
    session = NativeSession(weights, native_log)
    prompt = ids_of(weights, TALE)
    first = session.add(prompt, HOT, max_tokens=LENGTH, conversation="chat", alternatives=64)
    session.run()
    old = traces(session, first)
    before = [token.token_id for token in old[:PLACE]]
    chosen = next(i for i in table(old[PLACE])[1:] if i != old[PLACE].token_id)
    branch = session.add(
        [*prompt, *before],
        HOT,
        max_tokens=LENGTH - PLACE,
        conversation="chat",
        alternatives=64,
        n_begun=PLACE,
        forced_ids=[chosen],
    )
    session.run()
    new, end = traces(session, branch), summary(session, branch)
    assert (end.reused, end.evaluated, end.reuse_source) == (len(prompt) + PLACE - 1, 1, "slot")
    assert [token.chosen for token in new] == [True] + [False] * (LENGTH - PLACE - 1)
    assert new[0].token_id == chosen
    assert new[0].uniform is None
    assert all(token.uniform is not None for token in new[1:])
    # The table at that place is the one that was chosen from.
    assert numbers(new[0])[3:] == numbers(old[PLACE])[3:]
    assert new[0].logprob == pytest.approx(
        np.frombuffer(old[PLACE].alternative_logprobs.data, "<f4")[new[0].rank - 1], abs=1e-6
    )
    fresh = forced(
        NativeSession(weights, native_log), prompt, [*before, *(token.token_id for token in new)]
    )
    assert list(map(numbers, fresh[PLACE:])) == list(map(numbers, new))


def test_a_branch_against_a_run_that_reads_its_beginning_at_once(
    weights: Weights, native_log: NativeLog
) -> None:
    """Another shape of the same: bounded, not equal. Measured: starter 0.000, Gemma 0.170 nat."""
    session = NativeSession(weights, native_log)
    prompt = ids_of(weights, TALE)
    old = session.reply(prompt, HOT, max_tokens=LENGTH, conversation="chat")
    before, chosen = old.token_ids[:PLACE], ids_of(weights, " dogs", special=False)
    ids = [*prompt, *before]
    branch = session.add(
        ids, HOT, max_tokens=6, conversation="chat", n_begun=PLACE, forced_ids=chosen
    )
    session.run()
    new = traces(session, branch)
    fresh = forced(NativeSession(weights, native_log), ids, [token.token_id for token in new])
    far = max(abs(a.logprob - b.logprob) for a, b in zip(new, fresh, strict=True))
    print(f"branch against a fresh prefill: {far:.3f}")
    assert far <= bound_of(weights)


# --- what it begins with may end anywhere ---------------------------------------------------------


def test_a_branch_in_the_middle_of_a_character(weights: Weights, native_log: NativeLog) -> None:
    """The beginning ends inside 🦤 (f0 9f a6 a4); with another last byte it is 🦥 (… a5)."""
    vocabulary = weights.vocabulary
    bytes_of = {vocabulary.piece(i): i for i in range(vocabulary.n_vocab)}
    dodo, sloth = "🦤".encode(), "🦥".encode()
    before = [*ids_of(weights, " a", special=False), *(bytes_of[dodo[i : i + 1]] for i in range(3))]
    session = NativeSession(weights, native_log)
    prompt = ids_of(weights, TALE)
    request = session.add(
        [*prompt, *before], n_begun=len(before), forced_ids=[bytes_of[sloth[3:]]], max_tokens=3
    )
    session.run()
    end = summary(session, request)
    assert end.text.startswith(" a🦥")
    assert "\ufffd" not in end.text[:3]
    assert session.streamed(request) == end.text
    flushed = [event.text for event in session.of(request) if isinstance(event, TextFlushed)]
    assert flushed[0] == " a"
    assert session.tokens(request)[0].text == "🦥"
    assert end.token_ids[0] == bytes_of[sloth[3:]]


def test_a_branch_inside_reasoning_and_at_its_end(made: Weights, native_log: NativeLog) -> None:
    session = NativeSession(made, native_log)
    prompt = ids_of(made, TALE)
    before = ids_of(made, "<think>\nTwo and two", special=False)
    request = session.add(
        [*prompt, *before],
        prompt=CHAT,
        n_begun=len(before),
        forced_ids=ids_of(made, " is four</think>\n\nFour", special=False),
        max_tokens=40,
    )
    session.run()
    end = summary(session, request)
    assert end.reasoning == "Two and two is four"
    assert end.text.startswith("Four")
    assert session.streamed(request, "reasoning") == end.reasoning
    assert session.streamed(request) == end.text
    inside = session.add(
        [*prompt, *before], prompt=CHAT, n_begun=len(before), forced_ids=before[-4:], max_tokens=4
    )
    session.run()
    end = summary(session, inside)
    assert (end.text, end.reasoning) == ("", "Two and two two")
    assert any(isinstance(e, Note) and e.kind == "reasoning_unclosed" for e in session.of(inside))


def test_a_stop_string_may_begin_before_the_branch_and_not_end_there(
    made: Weights, native_log: NativeLog
) -> None:
    session = NativeSession(made, native_log)
    prompt = ids_of(made, TALE)
    before = ids_of(made, " red rose, red ro", special=False)

    def branch(text: str) -> Summary:
        request = session.add(
            [*prompt, *before],
            n_begun=len(before),
            forced_ids=ids_of(made, text, special=False),
            max_tokens=3,
            stop=["red rose"],
        )
        session.run()
        assert session.streamed(request) == summary(session, request).text
        return summary(session, request)

    ended = branch("ses")
    assert (ended.text, ended.stop_reason) == (" red rose, ", "stop_string")
    assert branch("ads").text.startswith(" red rose, red roads")


# --- on a file that says what a test wants --------------------------------------------------------

Tiny = Callable[..., NativeSession]
LOOP = {"alpha": " beta", " beta": " gamma", " gamma": " delta", " delta": "alpha"}


@pytest.fixture(scope="module")
def tiny_weights(
    tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog
) -> Iterator[Weights]:
    words = bpe_vocabulary(["alpha", " beta", " gamma", " delta"])
    successors = {words.id_of(one): words.id_of(next_one) for one, next_one in LOOP.items()}
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    tiny_llama(path, vocabulary=words, successors=successors)
    weights = load_quietly(path, native_log, n_ctx=64, n_ubatch=32, n_threads=1)
    yield weights
    weights.close()


@pytest.fixture
def tiny(tiny_weights: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(tiny_weights, native_log)


def word(session: NativeSession, text: str) -> int:
    (token_id,) = session.weights.vocabulary.tokenize(text)
    return token_id


def test_an_end_token_that_is_chosen_ends_the_reply_there(tiny: NativeSession) -> None:
    a, b = word(tiny, "alpha"), word(tiny, " beta")
    (end_id, *_) = tiny.weights.vocabulary.eog_ids
    request = tiny.add([a, b], n_begun=1, forced_ids=[end_id])
    tiny.run()
    end = summary(tiny, request)
    assert (end.text, end.token_ids, end.stop_reason) == (" beta", [], "end_token")


def test_chosen_tokens_outside_the_vocabulary_are_refused(tiny: NativeSession) -> None:
    request = tiny.add([word(tiny, "alpha")], forced_ids=[10**6])
    tiny.run()
    ending = tiny.ending(request)
    assert isinstance(ending, Failed)
    assert ending.kind == "bad_setting"
    assert "chosen" in ending.sentence


def test_a_grammar_sees_what_the_reply_begins_with(tiny: NativeSession) -> None:
    a, b, c, d = (word(tiny, text) for text in ("alpha", " beta", " gamma", " delta"))
    rule = Sampling([], seed=1, grammar='root ::= " beta" (" gamma" | " delta") "alpha"')

    def branch(begin: list[int], chosen: list[int]) -> Any:
        request = tiny.add([a, *begin], rule, n_begun=len(begin), forced_ids=chosen, max_tokens=9)
        tiny.run()
        return tiny.ending(request)

    fits = branch([b], [d])
    assert isinstance(fits, Finished)
    assert fits.result.text == " beta deltaalpha"
    wrong_choice = branch([b], [a])
    assert isinstance(wrong_choice, Failed)
    assert "grammar doesn't allow" in wrong_choice.sentence
    assert wrong_choice.partial.text == " beta"
    wrong_beginning = branch([c], [d])
    assert isinstance(wrong_beginning, Failed)
    assert "the start of this reply" in wrong_beginning.sentence
    assert tiny.reply([a], max_tokens=2).text == " beta gamma"


def test_a_chosen_token_that_is_banned_is_taken_back_and_said(tiny: NativeSession) -> None:
    a, b, d = (word(tiny, text) for text in ("alpha", " beta", " delta"))
    banning = Sampling([], seed=1, banned_strings=[" delta"])
    request = tiny.add([a, b], banning, n_begun=1, forced_ids=[d, d], max_tokens=2)
    tiny.run()
    assert " delta" not in summary(tiny, request).text
    notes = [e for e in tiny.of(request) if isinstance(e, Note)]
    assert [note.kind for note in notes] == ["bad_choice"]


def test_what_is_chosen_in_step_mode_is_marked_and_what_is_taken_is_not(
    tiny: NativeSession,
) -> None:
    a, b, d = (word(tiny, text) for text in ("alpha", " beta", " delta"))
    request = tiny.add([a], Sampling([], seed=4), hold=True, max_tokens=3)
    for token_id in (b, b):
        tiny.run()
        tiny.scheduler.choose(request, token_id)
    tiny.run()
    tiny.scheduler.resume(request)
    tiny.run()
    told = [(t.token_id, t.chosen, t.uniform is None) for t in traces(tiny, request)]
    assert told[0] == (b, False, False)
    assert told[1] == (b, True, True)
    assert told[2][1:] == (False, False)
    assert d not in [token_id for token_id, *_ in told]


def test_the_time_in_which_it_waited_for_somebody_is_not_the_engines(
    tiny: NativeSession, native_log: NativeLog
) -> None:
    """By a clock that jumps an hour at each choice."""
    moment = [0.0]

    def clock() -> float:
        moment[0] += 0.001
        return moment[0]

    tiny.scheduler = Scheduler(tiny.weights, tiny._take, native_log, clock)
    request, ids = 1, [word(tiny, "alpha")]
    generate = Generate(request, IdsPrompt(ids), GREEDY, max_tokens=4, hold=True)
    tiny.scheduler.add(generate, ReadyPrompt(ids), clock())
    for _ in range(3):
        tiny.run()
        moment[0] += 3600
        held = tiny.of(request)[-1]
        assert isinstance(held, Held)
        tiny.scheduler.choose(request, held.token.token_id)
    tiny.run()
    moment[0] += 3600
    tiny.scheduler.resume(request)
    tiny.run()
    end = summary(tiny, request)
    assert end.generated == 4
    for seconds in (end.first_token_s, end.decode_s, end.total_s, end.prefill_s):
        assert 0 <= seconds < 1
    assert end.tokens_per_s == pytest.approx(3 / end.decode_s)
    assert all(token.ms < 1000 for token in traces(tiny, request))
