"""Changes of the cache by hand and what the next turn finds; one step timed with and without it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conversation import Conversation
from gguf_writer import bpe_vocabulary
from native_cache import ends, native_used
from native_session import GREEDY, NativeSession, load_quietly
from recurrent_gguf import tiny_jamba, tiny_mamba

from app.engine.process.cache import cache as cache_view
from app.engine.process.cache.step_meter import LEFT_OFF, STEPS
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.cache_messages import (
    CacheMap,
    ChangeCache,
    MeasureStep,
    ReadCache,
    StepMeasured,
)
from app.engine.protocol.messages import (
    Done,
    Failed,
    Finished,
    Generate,
    Progress,
    Stop,
    Stopped,
    Summary,
    TokenArrived,
)
from app.engine.protocol.prompt_messages import IdsPrompt

pytestmark = pytest.mark.weights

REAL = [pytest.param(name, marks=pytest.mark.soak) for name in ("starter", "gemma")]
BOTH = pytest.mark.parametrize("file", ["made", "made_window", *REAL])


@pytest.fixture
def session(made: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(made, native_log)


@pytest.fixture
def opened(file: str, request: pytest.FixtureRequest, native_log: NativeLog) -> NativeSession:
    return NativeSession(request.getfixturevalue(file), native_log)


def told(session: NativeSession) -> CacheMap:
    return session.scheduler.cache.read()


def change(session: NativeSession, act: Any, conversation: str = "", **fields: Any) -> Any:
    """Whether it was done, or the sentence why not."""
    ending = session.scheduler.cache.answer(ChangeCache(7, act, conversation, **fields))
    assert ending.id == 7
    if isinstance(ending, Failed):
        return ending.sentence
    assert ending == Finished(7, Done())
    return True


def numbers(first: int, count: int) -> list[int]:
    return [100 + first, *(200 + (first * 7 + i) % 500 for i in range(count - 1))]


def turn(session: NativeSession, ids: list[int], name: str = "a", length: int = 2) -> Summary:
    return session.reply(ids, max_tokens=length, conversation=name)


def used(session: NativeSession) -> int:
    """Cells that are taken, by llama.cpp's own word; the map must say the same."""
    n_held = sum(slot.token_ids.shape[0] for slot in told(session).slots)
    found = native_used(session.weights, n_held)
    assert told(session).n_used == found
    return found


# --- changes ------------------------------------------------------------------------------------


@BOTH
def test_after_clear_everything_is_read_again(opened: NativeSession) -> None:
    ids = numbers(1, 60)
    turn(opened, ids)
    turn(opened, numbers(2, 50), "b")
    assert [copy.conversation for copy in told(opened).parked] == ["a"]
    assert change(opened, "clear") is True
    assert (used(opened), told(opened).parked, told(opened).slots) == (0, [], [])
    again = turn(opened, ids)
    assert (again.reused, again.evaluated, again.reuse_source) == (0, 60, "")


@BOTH
def test_a_parked_chat_leaves_its_cells_and_comes_back_whole(opened: NativeSession) -> None:
    ids = numbers(1, 60)
    first = turn(opened, ids)
    assert used(opened) == 61
    (slot,) = told(opened).slots
    assert change(opened, "park", "a") is True
    assert used(opened) == 0
    (copy,) = told(opened).parked
    assert (copy.conversation, copy.n_tokens) == ("a", 61)
    assert copy.size_bytes == slot.state_bytes + 4 * 61, "the state and the token IDs"
    assert told(opened).parked_bytes == copy.size_bytes <= told(opened).parked_cap_bytes
    next_ids = [*ids, *first.token_ids, 150, 151]
    back = turn(opened, next_ids)
    assert (back.reused, back.evaluated, back.reuse_source) == (61, 3, "parked")
    assert told(opened).parked == []


@BOTH
def test_little_is_parked_too_where_a_person_asks(opened: NativeSession) -> None:
    ids = numbers(1, 5)
    turn(opened, ids, length=1)
    assert change(opened, "park", "a") is True
    assert turn(opened, [*ids, 160]).reuse_source == "parked"


@BOTH
def test_a_dropped_chat_is_gone_and_the_others_are_not(opened: NativeSession) -> None:
    one, other = numbers(1, 60), numbers(2, 50)
    turn(opened, one)
    turn(opened, other, "b")
    assert change(opened, "drop", "a") is True
    assert told(opened).parked == []
    assert used(opened) == 51
    assert change(opened, "drop", "b") is True
    assert used(opened) == 0
    assert turn(opened, other, "b").evaluated == 50
    assert turn(opened, one).evaluated == 60


@BOTH
def test_one_parked_copy_is_dropped(opened: NativeSession) -> None:
    for first, name in ((1, "a"), (2, "b"), (3, "c")):
        turn(opened, numbers(first, 50), name)
    copies = {copy.conversation: copy.number for copy in told(opened).parked}
    assert copies.keys() == {"a", "b"}
    assert change(opened, "drop", copy=copies["a"]) is True
    assert [copy.conversation for copy in told(opened).parked] == ["b"]
    assert change(opened, "drop", copy=copies["a"]) == cache_view.GONE
    assert turn(opened, numbers(1, 50), "a").evaluated == 50
    assert turn(opened, numbers(2, 50), "b").reuse_source == "parked"


@BOTH
def test_a_kept_prefix_is_what_the_next_turn_reuses(opened: NativeSession) -> None:
    ids = numbers(1, 60)
    turn(opened, ids)
    before = ends(opened.weights, told(opened).slots[0].sequence)
    assert before == (0, 60)
    assert change(opened, "keep_prefix", "a", keep=25) is True
    (slot,) = told(opened).slots
    assert ends(opened.weights, slot.sequence) == (0, 24)
    assert used(opened) == 25
    again = turn(opened, ids)
    assert (again.reused, again.evaluated, again.reuse_source) == (25, 35, "slot")
    assert again.token_ids == turn(opened, ids, "fresh").token_ids


@BOTH
def test_keeping_a_prefix_lets_copies_go_that_hold_more(opened: NativeSession) -> None:
    """Or the next turn would go on from them, and nobody would see the prefix."""
    ids = numbers(1, 400)
    turn(opened, ids)
    turn(opened, ids[:60])
    assert [copy.n_tokens for copy in told(opened).parked] == [401]
    assert change(opened, "keep_prefix", "a", keep=20) is True
    assert told(opened).parked == []
    assert turn(opened, ids[:80]).reused == 20


@BOTH
def test_keeping_a_prefix_takes_nothing_from_other_chats(opened: NativeSession) -> None:
    ids = numbers(1, 60)
    turn(opened, [*ids, *numbers(2, 50)], "b")
    turn(opened, [*ids, *numbers(3, 50)], "a")
    assert [copy.conversation for copy in told(opened).parked] == ["b"]
    assert change(opened, "keep_prefix", "a", keep=20) is True
    assert [copy.conversation for copy in told(opened).parked] == ["b"]
    again = turn(opened, [*ids, *numbers(3, 50)], "a")
    assert (again.reused, again.reuse_source) == (60, "parked"), "b's copy begins in the same way"


@BOTH
def test_what_others_share_stays_where_one_is_cut(opened: NativeSession) -> None:
    ids = numbers(1, 64)
    for name in ("a", "b"):
        opened.add(ids, max_tokens=3, conversation=name)
    opened.run()
    assert used(opened) == 63 + 2 * 3
    assert change(opened, "keep_prefix", "a", keep=10) is True
    assert used(opened) == 63 + 3
    assert change(opened, "drop", "b") is True
    assert used(opened) == 10


def test_where_a_reply_is_written_nothing_is_changed(session: NativeSession) -> None:
    ids = numbers(1, 60)
    turn(session, numbers(2, 50), "b")
    session.add(ids, max_tokens=40, conversation="a")
    for _ in range(4):
        session.scheduler.step()
    before = told(session)
    for act in ("park", "drop", "keep_prefix"):
        assert change(session, act, "a", keep=5) == cache_view.BUSY
    assert change(session, "clear") == cache_view.BUSY_ANYWHERE
    ending = session.scheduler.cache.answer(MeasureStep(8, "b"))
    assert ending == Failed(8, "busy", cache_view.BUSY_ANYWHERE)
    assert told(session) == before
    assert change(session, "drop", "b") is True, "another chat's copy is in nobody's way"
    session.run()
    assert used(session) == 60 + 39


def test_what_is_not_there_cannot_be_changed(session: NativeSession) -> None:
    assert change(session, "drop", "a") == cache_view.NOTHING_HERE
    assert change(session, "park", "a") == cache_view.NO_CELLS
    assert change(session, "keep_prefix", "a", keep=3) == cache_view.NO_CELLS
    turn(session, numbers(1, 40))
    assert change(session, "keep_prefix", "a") == cache_view.KEEP_ONE
    assert change(session, "park", "a") is True
    assert change(session, "keep_prefix", "a", keep=3) == cache_view.NO_CELLS
    session.scheduler._space.parking.cap_bytes = 10
    turn(session, numbers(3, 40), "c")
    assert change(session, "park", "c") == cache_view.NO_ROOM
    assert used(session) == 41


@pytest.mark.parametrize("write", [tiny_mamba, tiny_jamba])
def test_a_state_is_never_cut(
    write: Callable[..., None], tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, vocabulary=bpe_vocabulary())
    weights = load_quietly(path, native_log, n_ctx=256, n_ubatch=32, n_threads=1)
    session = NativeSession(weights, native_log)
    assert weights.loaded.cache is not None
    assert weights.loaded.cache.is_state
    ids = [20 + i % 200 for i in range(50)]
    first = turn(session, ids)
    assert change(session, "keep_prefix", "a", keep=10) == cache_view.ONE_STATE
    assert told(session).slots[0].token_ids.shape == [51]
    measured = session.scheduler.cache.answer(MeasureStep(8, "a"))
    assert isinstance(measured, Finished), measured
    assert change(session, "park", "a") is True
    back = turn(session, [*ids, *first.token_ids, 30])
    assert (back.reused, back.reuse_source) == (51, "parked")
    assert change(session, "drop", "a") is True
    assert told(session).slots == []
    weights.close()


@pytest.mark.parametrize("file", ["made_window", *REAL[1:]])
def test_a_window_that_has_moved_on_keeps_no_shorter_prefix(opened: NativeSession) -> None:
    """What comes back from host memory holds only the window of 512."""
    session = opened
    ids = numbers(1, 600)
    first = turn(session, ids)
    assert change(session, "keep_prefix", "a", keep=595) is True, "cells are whole before they go"
    turn(session, ids)
    assert change(session, "park", "a") is True
    turn(session, [*ids, *first.token_ids, 110], length=1)
    (slot,) = told(session).slots
    assert slot.first_position == 601 - 512
    assert change(session, "keep_prefix", "a", keep=500) == cache_view.WINDOW_PAST
    assert change(session, "keep_prefix", "a", keep=600) is True
    assert turn(session, [*ids, 111]).reused == 600


# --- one step -----------------------------------------------------------------------------------

LONG = 900
"""Tokens that even small weights read much longer than one."""


@BOTH
def test_one_step_with_the_cache_and_without(opened: NativeSession) -> None:
    """Measured on the weights: what is told is within what passed, and the cache stays as it is."""
    ids = numbers(1, LONG)
    first = turn(opened, ids)
    before, sizes = told(opened), used(opened)
    began = time.perf_counter()
    ending = opened.scheduler.cache.answer(MeasureStep(8, "a"))
    took_ms = (time.perf_counter() - began) * 1000
    assert isinstance(ending, Finished)
    measured = ending.result
    assert isinstance(measured, StepMeasured)
    assert measured.n_tokens == LONG + 1
    assert len(measured.step_ms) == STEPS
    assert measured.replay_ms
    assert sum(measured.step_ms) + sum(measured.replay_ms) <= took_ms
    assert 0 < 3 * measured.step < measured.replay
    assert measured.n_threads == opened.weights.n_threads == 1
    assert told(opened) == before
    assert used(opened) == sizes
    progress = [e for e in opened.of(8) if isinstance(e, Progress)]
    assert {each.phase for each in progress} == {"measure"}
    assert {each.total for each in progress} == {LONG + 1}
    goes_on = turn(opened, [*ids, *first.token_ids, 112])
    assert (goes_on.reused, goes_on.evaluated) == (LONG + 1, 2)


def test_a_parked_chat_can_be_measured(session: NativeSession) -> None:
    turn(session, numbers(1, 40))
    assert change(session, "park", "a") is True
    ending = session.scheduler.cache.answer(MeasureStep(8, "a"))
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, StepMeasured)
    assert ending.result.n_tokens == 41


def test_too_little_to_measure_is_said(session: NativeSession) -> None:
    ending = session.scheduler.cache.answer(MeasureStep(8, "a"))
    assert ending == Failed(8, "bad_setting", cache_view.TOO_SHORT)


def test_without_room_for_another_context_it_is_said(
    session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(session, numbers(1, 40))
    monkeypatch.setattr("app.engine.process.cache.step_meter.free_bytes", lambda _weights: 2**10)
    ending = session.scheduler.cache.answer(MeasureStep(8, "a"))
    assert isinstance(ending, Failed)
    assert ending.kind == "out_of_memory"
    assert "kB of memory, which isn't free" in ending.sentence


@BOTH
def test_a_stop_ends_a_measurement_in_the_middle_of_a_pass(opened: NativeSession) -> None:
    session = opened
    ids = numbers(1, 300)
    turn(session, ids, length=1)
    stopped = threading.Event()
    first: list[float] = []

    def take(_event: object) -> None:
        if not first:
            first.append(time.perf_counter())
            stopped.set()
            session.scheduler.cache.interrupt()

    session.scheduler.cache._emit = take
    ending = session.scheduler.cache.answer(MeasureStep(8, "a"), is_stopped=stopped.is_set)
    assert ending == Stopped(8, Done())
    assert not session.weights.abort.is_set
    assert turn(session, ids).reused == 299


# --- through the process ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def talk(
    forked_conversation: Callable[[], Conversation], starter_gguf: Path
) -> Iterator[Conversation]:
    """One for all, so each test has request IDs of its own. Small weights would be too quick for
    what must come between."""
    conversation = forked_conversation()
    conversation.load(starter_gguf)
    yield conversation
    conversation.leave()


SHORT = 50
"""So few tokens that they are measured in several passes, and the first one ends soon."""


def ask(request_id: int, ids: list[int], length: int = 2) -> Generate:
    return Generate(request_id, IdsPrompt(ids), GREEDY, max_tokens=length, conversation="a")


def test_a_map_comes_between_two_tokens_of_a_reply(talk: Conversation) -> None:
    talk.say(ask(2, numbers(5, 40), 30))
    talk.hear(TokenArrived, 2)
    talk.say(ReadCache(3))
    answer = talk.ending(3)
    assert isinstance(answer.result, CacheMap)
    (slot,) = answer.result.slots
    assert slot.is_busy
    assert slot.conversation == "a"
    assert 40 <= answer.result.n_used < 70
    assert isinstance(talk.ending(2), Finished)
    assert talk.ask(ReadCache(4)).result.n_used == 69


def test_a_message_comes_before_a_measurement(talk: Conversation) -> None:
    ids = numbers(1, SHORT)
    assert isinstance(talk.ask(ask(12, ids)), Finished)
    talk.say(MeasureStep(13, "a"))
    talk.hear(Progress, 13)
    talk.say(ask(14, [*ids, 113]))
    assert talk.ending(13) == Failed(13, "busy", LEFT_OFF)
    reply = talk.ending(14)
    assert reply.result.evaluated == 1


@pytest.mark.alone
def test_a_stopped_measurement_ends_as_stopped(talk: Conversation) -> None:
    assert isinstance(talk.ask(ask(22, numbers(1, SHORT))), Finished)
    talk.say(MeasureStep(23, "a"))
    talk.hear(Progress, 23)
    began = time.perf_counter()
    talk.say(Stop(23))
    assert talk.ending(23) == Stopped(23, Done())
    assert time.perf_counter() - began < 1.0
    assert isinstance(talk.ask(MeasureStep(24, "nobody")), Failed)


def test_without_weights_it_is_said(forked_engines: None) -> None:
    conversation = Conversation()
    try:
        failed = conversation.ask(ReadCache(2))
        assert isinstance(failed, Failed)
        assert failed.kind == "not_loaded"
    finally:
        conversation.leave()
