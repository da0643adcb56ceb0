"""Many requests at once, as they come: nobody starves, each ends once, nothing is left behind."""

from __future__ import annotations

import codecs
import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psutil
import pytest
from examples import examples
from gguf_writer import bpe_vocabulary, tiny_llama
from hypothesis import given, settings, strategies as st
from native_session import BROKEN_OFF, GREEDY, NativeSession, load_quietly
from other_shapes import settled
from recurrent_gguf import tiny_jamba, tiny_mamba

from app.engine.process.cache.cells import Cells, cells_in_use
from app.engine.process.cache.slot import SlotReply
from app.engine.process.cache.space import CellSpace
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.batching import shares
from app.engine.process.scheduling.pace import Pace
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Held,
    Note,
    Progress,
    Queued,
    Stopped,
    Summary,
    TextTakenBack,
    TokenArrived,
)
from app.engine.protocol.stages import Sampling, Temperature

pytestmark = pytest.mark.weights

WRITERS: dict[str, Callable[..., object]] = {
    "llama": tiny_llama,
    "mamba": tiny_mamba,
    "jamba": tiny_jamba,
}
HOT = Sampling([Temperature(1.5)])


@pytest.fixture(scope="module")
def tiny_weights(
    tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog
) -> Iterator[dict[str, Weights]]:
    folder = tmp_path_factory.mktemp("tiny")
    loaded = {}
    for name, write in WRITERS.items():
        write(folder / f"{name}.gguf", vocabulary=bpe_vocabulary())
        options = {"n_ctx": 256, "n_ubatch": 16, "n_threads": 1, "n_slots": 4}
        loaded[name] = load_quietly(folder / f"{name}.gguf", native_log, **options)
    yield loaded
    for weights in loaded.values():
        weights.close()


# --- random schedules -----------------------------------------------------------------------------


class Crowd:
    """Requests of persons, guests and the background that come, are held, stopped and resumed at
    random, with texts that they must not say and texts that end them; checks after every step and
    of every reply."""

    def __init__(self, session: NativeSession, seed: int) -> None:
        self.session = session
        self.source = random.Random(seed)
        self.ids: list[int] = []
        self.prompts = [[self.source.randrange(20, 200) for _ in range(90)] for _ in range(3)]
        vocabulary = session.weights.vocabulary
        pieces = [vocabulary.shown_piece(i) for i in range(vocabulary.n_vocab)]
        self.words = [p.decode() for p in pieces if p.isascii() and p.decode().isprintable() and p]
        self.banned: dict[int, list[str]] = {}

    def run(self, requests: int) -> None:
        while len(self.ids) < requests or self.session.scheduler.open_ids:
            if len(self.ids) < requests and self.source.random() < 0.3:
                self.arrive()
            self.interfere()
            if self.session.scheduler.has_work:
                self.session.scheduler.step()
                self.check_mirror()
            elif self.session.scheduler.open_ids:
                assert any(map(self.is_held, self.session.scheduler.open_ids))
        for request_id in self.ids:
            self.check_reply(request_id)

    def arrive(self) -> None:
        base = self.source.choice(self.prompts)
        ids = [*base[: self.source.randint(1, 90)], self.source.randrange(20, 200)]
        repeatable = self.source.random() < 0.1
        banned = self.texts(self.source.choice([0, 0, 1, 20]))
        sampling = msgspec.structs.replace(
            self.source.choice([GREEDY, HOT]), banned_strings=banned, seed=7
        )
        who = self.source.choice(["person", "person", "guest", "background"])
        self.ids.append(
            self.session.add(
                ids,
                sampling,
                stop=self.texts(self.source.choice([0, 0, 2])),
                max_tokens=self.source.choice([0, 1, 3, 12]),
                conversation=self.source.choice(["a", "b", "c", ""]),
                hold=self.source.random() < 0.15,
                reuse_prefix=self.source.random() < 0.9,
                repeatable=repeatable,
                score_prompt=self.source.random() < 0.1,
                drafts=self.source.choice([None, Drafts(always=True), Drafts(most=3)]),
                is_background=who == "background",
                is_guest=who == "guest",
            )
        )
        self.banned[self.ids[-1]] = banned

    def texts(self, count: int) -> list[str]:
        pick = self.source.choices
        return ["".join(pick(self.words, k=self.source.randint(1, 3))) for _ in range(count)]

    def interfere(self) -> None:
        scheduler = self.session.scheduler
        for request_id in scheduler.open_ids:
            dice = self.source.random()
            if dice < 0.02:
                scheduler.stop(request_id)
            elif dice < 0.03:
                scheduler.hold(request_id)
            elif dice < 0.04:
                scheduler.expire(request_id)
            elif isinstance(
                self.session.of(request_id)[-1:][0] if self.session.of(request_id) else None, Held
            ):
                if dice < 0.4:
                    scheduler.resume(request_id)
                else:
                    scheduler.choose(request_id, self.source.randrange(20, 200))

    def is_held(self, request_id: int) -> bool:
        return isinstance(self.session.of(request_id)[-1], Held)

    def check_reply(self, request_id: int) -> None:
        """It ended once, was streamed as the summary says it, and says nothing that was banned."""
        ending = self.session.ending(request_id)
        assert isinstance(ending, Finished | Stopped)
        summary, said = ending.result, []
        assert isinstance(summary, Summary)
        for event in self.session.of(request_id):
            if isinstance(event, TokenArrived):
                assert event.token.index == len(said)
                said.append(event.token.token_id)
            elif isinstance(event, TextTakenBack):
                del said[len(said) - event.n_tokens :]
        assert said == summary.token_ids
        assert self.session.streamed(request_id) == summary.text
        shown = map(self.session.weights.vocabulary.shown_piece, said)
        whole = b"".join(shown)
        assert not [text for text in self.banned[request_id] if text.encode() in whole]
        if summary.stop_reason == "stop_string":
            assert summary.stop_detail not in summary.text
        else:
            # A character that is cut off at the end is no text.
            cut = codecs.getincrementaldecoder("utf-8")("replace").decode(whole)
            assert summary.text == cut

    def check_mirror(self) -> None:
        """Each sequence holds exactly the positions that its list says."""
        weights, slots = self.session.weights, self.session.scheduler._slots
        for slot in slots:
            cells = slot.cells
            last = llama.llama_memory_seq_pos_max(weights.memory, cells.sequence)
            assert last == len(cells) - 1
            if not cells.traits.is_recurrent:
                first = llama.llama_memory_seq_pos_min(weights.memory, cells.sequence)
                assert first == (0 if len(cells) else -1)
        assert cells_in_use(slot.cells for slot in slots) <= weights.n_ctx


@given(seed=st.integers(0, 2**32), architecture=st.sampled_from(sorted(WRITERS)))
@settings(max_examples=examples(12))
def test_random_schedules(
    tiny_weights: dict[str, Weights], native_log: NativeLog, seed: int, architecture: str
) -> None:
    session = NativeSession(tiny_weights[architecture], native_log)
    Crowd(session, seed).run(requests=12)
    assert not session.scheduler.has_work


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
@given(seed=st.integers(0, 2**32), architecture=st.sampled_from(sorted(WRITERS)))
@settings(max_examples=examples(25))
def test_many_random_schedules(
    tiny_weights: dict[str, Weights],
    native_log: NativeLog,
    part: int,
    seed: int,
    architecture: str,
) -> None:
    """In parts, since a test that takes two minutes counts as hanging."""
    session = NativeSession(tiny_weights[architecture], native_log)
    Crowd(session, seed).run(requests=40)


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.soak)])
def test_many_requests_leave_nothing_behind(
    count: int, tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    session = NativeSession(tiny_weights["llama"], native_log)
    session.scheduler._space.parking.cap_bytes = 1_000_000
    source = random.Random(3)
    memory = psutil.Process()

    def serve(n_requests: int) -> int:
        for _ in range(n_requests):
            ids = [source.randrange(20, 200) for _ in range(source.randint(40, 120))]
            session.reply(ids, HOT, max_tokens=6, conversation=str(source.randrange(9)))
            session.events.clear()
        gc.collect()
        return int(memory.memory_info().rss)

    before = serve(60)
    after = serve(count)
    assert after - before < 6_000_000
    assert session.scheduler._space.parking.size_bytes <= 1_000_000
    assert not [thing for thing in gc.get_objects() if isinstance(thing, SlotReply)]


# --- fairness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 7, 64, 1000])
def test_room_is_dealt_evenly(room: int) -> None:
    wants = [100, 1, 30, 0, 100]
    dealt = shares(wants, room)
    assert sum(dealt) == min(room, sum(wants))
    assert all(given <= want for given, want in zip(dealt, wants, strict=True))
    hungry = [given for given, want in zip(dealt, wants, strict=True) if given < want]
    assert max(hungry, default=0) - min(hungry, default=0) <= 1


def prompts_apart(count: int, length: int) -> list[list[int]]:
    return [[21 + first, *range(40, 39 + length)] for first in range(count)]


def test_a_short_prompt_does_not_wait_for_a_long_one(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    session = NativeSession(tiny_weights["llama"], native_log)
    long_ids, short_ids = prompts_apart(2, 150)
    slow = session.add(long_ids, max_tokens=1)
    session.scheduler.step()
    quick = session.add(short_ids[:10], max_tokens=1)
    while not session.tokens(quick):
        session.scheduler.step()
    assert not session.tokens(slow)
    session.run()


def test_twenty_requests_start_in_the_order_in_which_they_came(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    """C06. And each is told its place until it is served."""
    session = NativeSession(tiny_weights["llama"], native_log)
    requests = [session.add(ids, max_tokens=5) for ids in prompts_apart(20, 20)]
    session.run()
    firsts = [
        next(n for n, e in enumerate(session.events) if isinstance(e, Progress) and e.id == request)
        for request in requests
    ]
    assert firsts == sorted(firsts)
    for request in requests[4:]:
        places = [event.position for event in session.of(request) if isinstance(event, Queued)]
        assert places == sorted(places, reverse=True)
        assert places[-1] <= 4


def test_a_repeatable_reply_shares_no_step(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    """It waits for those who write, and those who come later wait for it."""
    session = NativeSession(tiny_weights["llama"], native_log)
    first, second, third = prompts_apart(3, 20)
    writer = session.add(first, max_tokens=6)
    session.scheduler.step()
    alone = session.add(second, max_tokens=6, repeatable=True)
    later = session.add(third, max_tokens=6)
    session.run()
    order = [
        event.id
        for event in session.events
        if event in session.tokens(writer) + session.tokens(alone) + session.tokens(later)
    ]
    assert order == sorted(order)
    assert [session.ending(i).result.generated for i in (writer, alone, later)] == [6, 6, 6]


# --- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["made", pytest.param("starter", marks=pytest.mark.soak)])
@pytest.mark.parametrize("phase", ["reading", "writing", "both", "held"])
def test_stop_is_quick_in_every_phase_with_four_slots_busy(
    file: str,
    phase: str,
    request: pytest.FixtureRequest,
    native_log: NativeLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step may take a second; nobody who is stopped waits for its end, or for another one."""
    session = NativeSession(request.getfixturevalue(file), native_log)
    vocabulary = session.weights.vocabulary
    first = min(1000, vocabulary.n_vocab - 100)
    text = vocabulary.tokenize("All work and no play makes a dull day. " * 30)
    lengths = {"reading": [90] * 4, "both": [8, 8, 200, 200]}.get(phase, [8] * 4)
    requests = [
        session.add([first + n, *text[: length - 1]], hold=phase == "held", reuse_prefix=False)
        for n, length in enumerate(lengths)
    ]
    for _ in range(2 if phase == "reading" else 6):
        session.scheduler.step()
    target, waited_for = requests[-1], []
    real = llama.llama_decode

    def decode(context: Any, batch: Any) -> int:
        if not waited_for and phase != "held":
            session.scheduler.stop(target)
        code = int(real(context, batch))
        if not isinstance(session.of(target)[-1], Stopped):
            waited_for.append(code)
        return code

    monkeypatch.setattr(llama, "llama_decode", decode)
    if phase == "held":
        session.scheduler.stop(target)
    while not isinstance(session.of(target)[-1], Stopped):
        session.scheduler.step()
    assert waited_for == ([] if phase == "held" else [BROKEN_OFF])
    # The others go on as if nothing had happened.
    survivors = requests[:-1]
    before = [len(session.tokens(request)) for request in survivors]
    for request in survivors:
        session.scheduler.resume(request)
    while min(len(session.tokens(r)) - n for r, n in zip(survivors, before, strict=True)) < 2:
        session.scheduler.step()
    for request in survivors:
        session.scheduler.stop(request)
    session.run()
    assert not any(isinstance(e, Failed | Note) for e in session.events)


def test_a_request_that_waits_is_ended_in_the_middle_of_a_step(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = NativeSession(tiny_weights["llama"], native_log)
    requests = [session.add(ids, max_tokens=3) for ids in prompts_apart(6, 20)]
    real, seen = llama.llama_decode, []

    def decode(context: object, batch: object) -> int:
        if not seen:
            session.scheduler.stop(requests[4])
            session.scheduler.expire(requests[5])
            seen.extend(session.ending(request) for request in requests[4:])
        return int(real(context, batch))

    monkeypatch.setattr(llama, "llama_decode", decode)
    session.run()
    assert [type(ending) for ending in seen] == [Stopped, Finished]
    assert [ending.result.stop_reason for ending in seen] == ["stopped", "deadline"]
    assert [ending.result.prompt_tokens for ending in seen] == [20, 20]
    assert all(isinstance(session.ending(request), Finished) for request in requests[:4])


def test_others_say_the_same_when_one_is_stopped_inside_a_step(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is broken off and done again without the one that was stopped."""
    session = NativeSession(tiny_weights["llama"], native_log)
    prompts = prompts_apart(3, 20)
    alone = [settled(session, ids, 8, reuse_prefix=False) for ids in prompts]
    requests = [session.add(ids, max_tokens=8, reuse_prefix=False) for ids in prompts]
    real, aborted = llama.llama_decode, []

    def decode(context: object, batch: object) -> int:
        if not aborted and len(session.tokens(requests[1])) == 3:
            aborted.append(session.scheduler.stop(requests[1]))
        return int(real(context, batch))

    monkeypatch.setattr(llama, "llama_decode", decode)
    session.run()
    assert aborted == [True]
    assert isinstance(session.ending(requests[1]), Stopped)
    for number in (0, 2):
        ending = session.ending(requests[number])
        assert isinstance(ending, Finished)
        assert ending.result.token_ids == alone[number]


def test_who_waits_behind_held_replies_keeps_nobody_busy(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    """All slots wait for a choice: nothing can be done until one is made, for none of them."""
    session = NativeSession(tiny_weights["llama"], native_log)
    prompts = prompts_apart(6, 20)
    holders = [session.add(ids, max_tokens=3, hold=True) for ids in prompts[:4]]
    waiting = [session.add(ids, max_tokens=3) for ids in prompts[4:]]
    run_to_the_end(session)
    assert session.scheduler.open_ids == {*holders, *waiting}
    session.scheduler.resume(holders[2])
    run_to_the_end(session)
    ended = {holders[2], *waiting}
    assert all(isinstance(session.ending(request), Finished) for request in ended)
    session.scheduler.expire(holders[0])
    assert session.scheduler.has_work
    session.scheduler.stop(holders[1])
    run_to_the_end(session)
    assert session.scheduler.open_ids == {holders[3]}


# --- a step that failed ---------------------------------------------------------------------------


def fail_once(monkeypatch: pytest.MonkeyPatch, is_time: Callable[[int], bool]) -> list[int]:
    """Let llama_decode fail once, in the first step of so many tokens; the list is filled then."""
    real, failed = llama.llama_decode, []

    def decode(context: object, batch: Any) -> int:
        if not failed and is_time(batch.n_tokens):
            failed.append(batch.n_tokens)
            return -3
        return int(real(context, batch))

    monkeypatch.setattr(llama, "llama_decode", decode)
    return failed


def run_to_the_end(session: NativeSession, most_steps: int = 400) -> None:
    for _ in range(most_steps):
        if not session.scheduler.has_work:
            return
        session.scheduler.step()
    pytest.fail("the scheduler goes round without getting anywhere")


def test_forks_that_lost_their_cells_share_again(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C04. Three prompts of 150 tokens fit into 256 cells only where they share them."""
    session = NativeSession(tiny_weights["llama"], native_log)
    (shared,) = prompts_apart(1, 150)
    prompts = [[*shared, token_id] for token_id in (40, 41, 42)]
    alone = [settled(session, ids, 20) for ids in prompts]
    session.events.clear()
    requests = [session.add(ids, max_tokens=20) for ids in prompts]
    failed = fail_once(
        monkeypatch, lambda n: n == 3 and all(len(session.tokens(r)) > 4 for r in requests)
    )
    run_to_the_end(session)
    assert failed == [3]
    for request, expected in zip(requests, alone, strict=True):
        ending = session.ending(request)
        assert isinstance(ending, Finished)
        assert ending.result.token_ids == expected
        notes = [e.kind for e in session.of(request) if isinstance(e, Note)]
        assert notes == ["read_again"]
        progress = [e for e in session.of(request) if isinstance(e, Progress)]
        assert all(0 <= e.done <= e.total for e in progress)


def test_who_cannot_share_again_reads_when_there_is_room(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C04. One reads, the other one waits for its end; neither is lost."""
    session = NativeSession(tiny_weights["llama"], native_log)
    (shared,) = prompts_apart(1, 150)
    prompts = [[*shared, token_id] for token_id in (40, 41)]
    alone = [settled(session, ids, 20) for ids in prompts]
    requests = [session.add(ids, max_tokens=20) for ids in prompts]
    failed = fail_once(monkeypatch, lambda n: n == 2 and len(session.tokens(requests[1])) > 4)
    while not failed:
        session.scheduler.step()
    monkeypatch.setattr(Cells, "usable", lambda self, keep: "cannot")
    run_to_the_end(session)
    endings = [session.ending(request) for request in requests]
    assert [ending.result.token_ids for ending in endings] == alone  # type: ignore[union-attr]
    first_end = session.events.index(endings[0])
    assert all(session.events.index(e) < first_end for e in session.tokens(requests[0]))
    assert session.events.index(session.tokens(requests[1])[-1]) > first_end


@pytest.mark.parametrize("name", ["mamba", "jamba"])
def test_states_that_were_lost_are_read_again(
    tiny_weights: dict[str, Weights],
    native_log: NativeLog,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """C04. What is shared whole or not at all."""
    session = NativeSession(tiny_weights[name], native_log)
    (prompt,) = prompts_apart(1, 150)
    prompts = [prompt, [*prompt, 40]]
    alone = [settled(session, ids, 20, reuse_prefix=False) for ids in prompts]
    session.scheduler._space.vacate_all()
    first = session.add(prompt, max_tokens=20, hold=True)
    session.run()
    assert isinstance(session.of(first)[-1], Held)
    second = session.add([*prompt, 40], max_tokens=20)
    while not session.tokens(second):
        session.scheduler.step()
    session.scheduler.resume(first)
    failed = fail_once(monkeypatch, lambda n: n == 2)
    run_to_the_end(session)
    assert failed == [2]
    for request, expected in zip((first, second), alone, strict=True):
        ending = session.ending(request)
        assert isinstance(ending, Finished)
        assert ending.result.token_ids == expected


# --- the edge of the window -----------------------------------------------------------------------


def test_writers_that_fill_the_window_take_turns_and_each_has_the_whole_of_it(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    """C01. Only a reply that fills the window itself ends as such; the newest ones give way."""
    session = NativeSession(tiny_weights["llama"], native_log)
    endless = Sampling([Temperature(1.5)], seed=3, ban_end_token=True)
    requests = []
    for ids in prompts_apart(3, 30):
        requests.append(session.add(ids, endless))
        session.scheduler.step()
    run_to_the_end(session, most_steps=2000)
    endings = [session.ending(request) for request in requests]
    assert all(isinstance(ending, Finished) for ending in endings)
    assert [ending.result.stop_reason for ending in endings] == ["context_full"] * 3
    assert [ending.result.context_used for ending in endings] == [256] * 3
    assert [ending.result.generated for ending in endings] == [256 - 30 + 1] * 3
    assert sorted(endings, key=session.events.index) == endings
    gave_way = [[e.kind for e in session.of(r) if isinstance(e, Note)] for r in requests]
    assert gave_way[0] == []
    assert set(gave_way[1]) == set(gave_way[2]) == {"gave_way"}


def test_a_long_prompt_makes_way_for_who_began_before_it(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01. Read a token at a time beside a reply that is written, it is overtaken."""
    monkeypatch.setattr(
        Pace, "chunk", lambda self, *, somebody_writes: 1 if somebody_writes else 64
    )
    session = NativeSession(tiny_weights["llama"], native_log)
    endless = Sampling([Temperature(1.5)], seed=3, ban_end_token=True)
    writer_prompt, long_prompt = prompts_apart(2, 150)
    writer = session.add(writer_prompt[:20], endless)
    session.scheduler.step()
    long_one = session.add(long_prompt, max_tokens=5)
    run_to_the_end(session, most_steps=2000)
    filled, answered = session.ending(writer).result, session.ending(long_one).result
    assert (filled.stop_reason, filled.context_used) == ("context_full", 256)
    assert (answered.stop_reason, answered.generated) == ("max_tokens", 5)


def test_two_prompts_that_wait_for_each_others_cells_are_both_answered(
    tiny_weights: dict[str, Weights], native_log: NativeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01. Nobody writes, and neither can be read on."""
    monkeypatch.setattr(CellSpace, "fits", lambda self, request, *, reuse: True)
    session = NativeSession(tiny_weights["llama"], native_log)
    requests = [session.add(ids, max_tokens=3) for ids in prompts_apart(2, 200)]
    run_to_the_end(session)
    assert [session.ending(r).result.generated for r in requests] == [3, 3]


def test_who_gave_way_waits_for_a_held_reply(
    tiny_weights: dict[str, Weights], native_log: NativeLog
) -> None:
    """C01. A held reply keeps its cells; the other one goes on when they are free."""
    session = NativeSession(tiny_weights["llama"], native_log)
    endless = Sampling([Temperature(1.5)], seed=3, ban_end_token=True)
    held_prompt, other_prompt = prompts_apart(2, 100)
    held = session.add(held_prompt, hold=True)
    session.run()
    other = session.add(other_prompt, endless)
    run_to_the_end(session)
    assert session.scheduler.open_ids == {held, other}
    assert session.scheduler.is_held
    session.scheduler.stop(held)
    run_to_the_end(session, most_steps=2000)
    ending = session.ending(other).result
    assert (ending.stop_reason, ending.context_used) == ("context_full", 256)


@pytest.mark.parametrize("length", range(254, 259))
def test_around_the_window(
    tiny_weights: dict[str, Weights], native_log: NativeLog, length: int
) -> None:
    """C01. A context of 256: prompts of 254 to 258 tokens, and the next request works."""
    session = NativeSession(tiny_weights["llama"], native_log)
    request = session.add([30] * length, GREEDY)
    session.run()
    ending = session.ending(request)
    if length <= 256:
        assert isinstance(ending, Finished)
        assert ending.result.stop_reason in ("context_full", "end_token")
        assert ending.result.generated <= 257 - length
    else:
        assert isinstance(ending, Failed)
        assert (ending.kind, ending.evidence) == ("prompt_too_long", f"{length}/256")
    after = session.reply([31] * 20, max_tokens=3)
    assert after.generated == 3
