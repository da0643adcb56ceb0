"""What the engine gives for one prompt, however it was served: alone, in a full batch, forked,
parked, after an aborted run, repeatably.

Two ways to prove it. Where the sequence of steps and the layout of the cache are the same, the
numbers are the same to the last bit, and 0.0 is demanded. Where they are not, the sums inside are
added up in another order: then the tokens of one run are forced into the other, and all
log-probabilities must agree within a bound (`other_shapes`). It was measured and leaves a margin
for other processors; greedy choices may differ only where the two best candidates are closer
together than the bound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from native_session import BROKEN_OFF, NativeSession
from other_shapes import BOUND, bound_of, distance, force, traces

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.protocol.messages import Finished, Stopped, Summary, TokenTrace
from app.engine.protocol.stages import Sampling, Temperature, TopK

pytestmark = pytest.mark.weights

TALES = (
    "It was late in the autumn when the first of the ships came back to the harbour, and",
    "The recipe asks for three eggs, two cups of flour and a pinch of salt. First you",
    "In the year 1492 a sailor from Genoa set out with three ships across the ocean to",
    "The square of five is twenty-five, the square of six is thirty-six, the square of",
)
LENGTH = 6


@dataclass
class Files:
    """Each with 1,024 tokens and chunks of 64."""

    weights: dict[str, Weights]
    log: NativeLog

    def session(self, name: str) -> NativeSession:
        return NativeSession(self.weights[name], self.log)


@pytest.fixture
def files(name: str, request: pytest.FixtureRequest, native_log: NativeLog) -> Files:
    return Files({name: request.getfixturevalue(name)}, native_log)


MADE = ["made", "made_window"]
STARTER_TOO, GEMMA_TOO = (
    pytest.param(name, marks=pytest.mark.soak) for name in ("starter", "gemma")
)
everywhere = pytest.mark.parametrize("name", [*MADE, STARTER_TOO, GEMMA_TOO])


def ids_of(session: NativeSession, text: str) -> list[int]:
    vocabulary = session.weights.vocabulary
    return vocabulary.tokenize(text, special=True, add_bos=vocabulary.add_bos)


def alone(session: NativeSession, ids: list[int], length: int = LENGTH) -> list[TokenTrace]:
    request_id = session.add(ids, max_tokens=length, reuse_prefix=False, alternatives=2)
    session.run()
    return traces(session, request_id)


def two_turns(
    session: NativeSession,
    prompt: list[int],
    between: Callable[[], None],
    forced: list[int] | None = None,
) -> list[TokenTrace]:
    """The second turn of a chat that something else happens to in between."""
    first = session.reply(prompt, max_tokens=8, conversation="chat")
    between()
    ids = [*prompt, *first.token_ids, *ids_of(session, TALES[2])[-9:]]
    request_id = session.add(
        ids, conversation="chat", max_tokens=LENGTH, alternatives=2, hold=forced is not None
    )
    if forced is not None:
        force(session, {request_id: forced})
    session.run()
    return traces(session, request_id)


def last_summary(session: NativeSession) -> Summary:
    return next(e.result for e in reversed(session.events) if isinstance(e, Finished))


# --- other shapes: bounded ----------------------------------------------------------------------


@everywhere
def test_a_full_batch_against_each_reply_alone(files: Files, name: str) -> None:
    session = files.session(name)
    prompts = [ids_of(session, tale) for tale in TALES]
    single = [alone(session, ids) for ids in prompts]
    together = {
        session.add(ids, hold=True, max_tokens=LENGTH, reuse_prefix=False, alternatives=2): [
            t.token_id for t in expected
        ]
        for ids, expected in zip(prompts, single, strict=True)
    }
    force(session, together)
    distances = [
        distance(expected, traces(session, request_id), bound_of(session.weights))
        for expected, request_id in zip(single, together, strict=True)
    ]
    print(f"{name}: batch of four against alone: {max(distances):.3f}")
    assert 0.0 < max(distances) <= bound_of(session.weights)


@everywhere
def test_a_fork_against_a_fresh_run(files: Files, name: str) -> None:
    """The second request shares the first one's cells while that one still writes."""
    session = files.session(name)
    shared = ids_of(session, TALES[0] + " everybody went down to the water to look at them.")
    prompt = [*shared, *ids_of(session, " The captain said: ")[-5:]]
    fresh = alone(session, prompt)
    session = files.session(name)
    writer = session.add(shared, conversation="one")
    while len(session.tokens(writer)) < 3:
        session.scheduler.step()
    forked = session.add(prompt, hold=True, max_tokens=LENGTH, conversation="two", alternatives=2)
    session.scheduler.step()
    session.scheduler.hold(writer)
    force(session, {forked: [t.token_id for t in fresh]})
    summary = session.ending(forked).result
    assert (summary.reused, summary.reuse_source) == (len(shared), "fork")
    assert summary.evaluated == len(prompt) - len(shared)
    far = distance(fresh, traces(session, forked), bound_of(session.weights))
    print(f"{name}: fork against fresh: {far:.3f}")
    assert far <= bound_of(session.weights)
    session.scheduler.stop(writer)
    session.run()


@everywhere
def test_a_chat_that_was_parked_among_others(files: Files, name: str) -> None:
    """Restored beside a reply that is held, it lies elsewhere in the cache."""
    session = files.session(name)
    first = ids_of(session, TALES[0] * 3)
    never = two_turns(session, first, between=lambda: None)
    session = files.session(name)
    others = [ids_of(session, tale * 2)[:30] for tale in TALES[1:3]]
    beside: list[int] = []

    def leave() -> None:
        for ids in others:
            session.reply(ids, max_tokens=2, conversation=str(ids))
        beside.append(session.add(others[0], hold=True, conversation="beside"))
        session.run()

    parked = two_turns(session, first, between=leave, forced=[t.token_id for t in never])
    assert last_summary(session).reuse_source == "parked"
    far = distance(never, parked, bound_of(session.weights))
    print(f"{name}: parked among others against never parked: {far:.3f}")
    assert far <= bound_of(session.weights)
    session.scheduler.stop(*beside)
    session.run()


@everywhere
def test_a_run_after_an_aborted_prefill(files: Files, name: str) -> None:
    """What the aborted run had finished is reused, what it had begun is gone."""
    session = files.session(name)
    prompt = ids_of(session, " ".join(TALES * 4))[:100]
    fresh = alone(session, prompt, length=8)
    session = files.session(name)
    stop_in_prefill(session, prompt)
    request_id = session.add(prompt, hold=True, max_tokens=8, alternatives=2)
    force(session, {request_id: [t.token_id for t in fresh]})
    far = distance(fresh, traces(session, request_id), bound_of(session.weights))
    print(f"{name}: after an aborted prefill against fresh: {far:.3f}")
    assert far <= bound_of(session.weights)


def stop_in_prefill(session: NativeSession, prompt: list[int]) -> None:
    """Stop a request from inside the decode of its second chunk."""
    request_id = session.add(prompt)
    session.scheduler.step()
    with stopping_decode(session, request_id):
        session.run()
    assert isinstance(session.ending(request_id), Stopped)


@contextmanager
def stopping_decode(session: NativeSession, request_id: int) -> Iterator[None]:
    """Real weights in the middle of the decode; small ones, too quick for that, as it begins."""
    if bound_of(session.weights) == BOUND:
        timer = threading.Timer(0.02, session.scheduler.stop, [request_id])
        timer.start()
        yield
        timer.join()
        return
    real, codes = llama.llama_decode, []

    def decode(context: Any, batch: Any) -> int:
        session.scheduler.stop(request_id)
        codes.append(int(real(context, batch)))
        return codes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama, "llama_decode", decode)
        yield
    assert codes == [BROKEN_OFF]


# --- same shapes: to the last bit -----------------------------------------------------------------


def bits(tokens: list[TokenTrace]) -> list[tuple[int, float, float, bytes]]:
    return [(t.token_id, t.logprob, t.entropy, t.alternative_logprobs.data) for t in tokens]


@everywhere
def test_a_chat_that_was_parked_alone_goes_on_as_if_it_had_not_been(
    files: Files, name: str
) -> None:
    session = files.session(name)
    first = ids_of(session, TALES[0] * 3)
    never = two_turns(session, first, between=lambda: None)
    assert last_summary(session).reuse_source == "slot"
    session = files.session(name)
    parked = two_turns(session, first, between=session.scheduler._space.vacate_all)
    assert last_summary(session).reuse_source == "parked"
    assert bits(parked) == bits(never)


@everywhere
def test_a_repeatable_run_is_the_same_to_the_last_bit(files: Files, name: str) -> None:
    """B14. Whatever happened before, and however often."""
    session = files.session(name)
    prompt = ids_of(session, " ".join(TALES * 4))[:90]
    hot = Sampling([TopK(40), Temperature(1.0)], seed=11)

    def run() -> list[TokenTrace]:
        request_id = session.add(
            prompt, hot, max_tokens=6, repeatable=True, conversation="chat", alternatives=8
        )
        session.run()
        summary = session.ending(request_id).result
        assert (summary.reused, summary.evaluated) == (0, len(prompt))
        return traces(session, request_id)

    first = run()
    session.reply(ids_of(session, TALES[1]), max_tokens=3, conversation="other")
    session.reply(prompt[:40], max_tokens=3, conversation="chat")
    stop_in_prefill(session, prompt[20:])
    stop_in_prefill(session, prompt)
    second = run()
    assert bits(second) == bits(first)
    assert [(t.token_id, t.logprob) for t in first] == [(t.token_id, t.logprob) for t in second]
