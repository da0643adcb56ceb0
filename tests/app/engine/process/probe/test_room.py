"""Questions about the inside end once, whatever becomes of them, and replies go first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from native_session import NativeSession
from probing import PLAIN, some_ids, weights_of
from small_networks import small_network

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe import probe as probe_module
from app.engine.process.probe.room import IDLE_S, QUANTISED, ProbeRoom
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol import wire
from app.engine.protocol.inside_messages import (
    AXES,
    MAX_TARGETS,
    OF_EXPERTS,
    WANTED,
    GraphOffer,
    Inside,
    LookInside,
    ReadGraph,
)
from app.engine.protocol.machine_messages import (
    CompareFlash,
    FlashCompared,
    ProfileStep,
    StepProfiled,
)
from app.engine.protocol.messages import (
    Event,
    Failed,
    Finished,
    Log,
    Progress,
    Stopped,
    Summary,
)

pytestmark = pytest.mark.weights

IDS: Final = some_ids(90)
EVERYTHING: Final = list(WANTED)


class Room:
    """A room, what it has said, and a clock that each slice moves on by a second."""

    def __init__(self, weights: Weights, slots: Any = lambda: ()) -> None:
        self.now = 0.0
        self.said: list[Event] = []
        self.room = ProbeRoom(
            weights, slots, traits_of(weights), self.said.append, lambda: self.now
        )

    def ask(self, request_id: int, ids: list[int] = IDS, want: list[str] = EVERYTHING) -> None:
        self.room.ask(LookInside(request_id, ids, want))

    def run(self) -> None:
        while self.room.has_work(beside_replies=False):
            self.room.step()

    def endings(self) -> list[Any]:
        return [each for each in self.said if isinstance(each, Finished | Stopped | Failed)]

    def answer(self, request_id: int) -> Any:
        """What a question ended with, and it alone."""
        (ending,) = [each for each in self.endings() if each.id == request_id]
        return ending.result if isinstance(ending, Finished) else ending


@pytest.fixture
def weights(tmp_path: Path, native_log: NativeLog) -> Iterator[Weights]:
    small_network(tmp_path / "small.gguf", "window")
    with weights_of(tmp_path / "small.gguf", native_log, **PLAIN) as loaded:
        yield loaded


@pytest.fixture
def room(weights: Weights) -> Iterator[Room]:
    made = Room(weights)
    yield made
    made.room.close()


def logits(answer: Inside) -> np.ndarray[Any, Any]:
    (found,) = [each for each in answer.floats if each.name == "logits"]
    return np.frombuffer(found.values.data, "<f4")


# --- endings ----------------------------------------------------------------------------------


def test_each_question_ends_once_and_in_turn(room: Room) -> None:
    for request_id in (1, 2, 3):
        room.ask(request_id, IDS[: 20 * request_id])
    room.room.ask(ReadGraph(4))
    room.run()
    assert [ending.id for ending in room.endings()] == [1, 2, 3, 4]
    for request_id in (1, 2, 3):
        assert room.answer(request_id).n_tokens == 20 * request_id
    assert isinstance(room.answer(4), GraphOffer)
    told = [(p.done, p.total) for p in room.said if isinstance(p, Progress) and p.id == 3]
    assert told == [(59, 59)], "what had been read for the second is there"


def test_the_machine_is_measured_as_a_question_is_answered(room: Room) -> None:
    room.room.ask(ProfileStep(1, IDS))
    room.room.ask(CompareFlash(2, IDS))
    room.room.ask(CompareFlash(3, IDS))
    room.room.ask(ProfileStep(4, [5, 10**6]))
    room.ask(5, IDS[:20])
    while not room.endings():
        room.room.step()
    room.room.step()
    assert room.room.idle_s is None, "it is at work"
    room.room.stop(2)
    room.run()
    assert isinstance(room.answer(1), StepProfiled)
    assert isinstance(room.answer(2), Stopped)
    assert isinstance(room.answer(3), FlashCompared)
    assert isinstance(room.answer(4), Failed), "no such token"
    assert room.answer(5).n_tokens == 20
    assert {p.total for p in room.said if isinstance(p, Progress) and p.id == 3} == {2 * len(IDS)}


def test_what_is_said_comes_through_the_wire(room: Room) -> None:
    room.ask(1)
    room.room.ask(ReadGraph(2))
    room.room.ask(ProfileStep(3, IDS))
    room.room.ask(CompareFlash(4, IDS))
    room.run()
    for event in room.said:
        found = wire.decode_event(msgspec.msgpack.encode(event))
        assert found == event
    answer = room.answer(1)
    arrays = [*answer.floats, *answer.ints]
    axes = {array.name: tuple(array.axes) for array in arrays}
    assert axes == {name: AXES[name] for name in AXES if name not in OF_EXPERTS}


def test_a_question_may_be_stopped_in_every_state(room: Room) -> None:
    room.ask(1)
    n_slices = 0
    while not room.endings():
        room.room.step()
        n_slices += 1
    room.room.stop(1)  # it has ended
    wanted = logits(room.answer(1))
    for n in range(n_slices):
        room.said.clear()
        room.now += IDLE_S
        room.room.give_back()
        room.ask(2)
        room.ask(3)
        for _ in range(n):
            room.room.step()
        for request_id in (2, 3, 3, 2, 99):
            room.room.stop(request_id)
        assert not room.room.has_work(beside_replies=False)
        assert [type(ending) for ending in room.endings()] == [Stopped, Stopped]
        room.ask(4)
        room.run()
        # What was dropped had read a part of it, in batches of another shape.
        assert np.abs(logits(room.answer(4)) - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("n_slices", [0, 1, 3])
def test_what_is_open_is_stopped_as_the_weights_go(room: Room, n_slices: int) -> None:
    for request_id in (1, 2):
        room.ask(request_id)
    for _ in range(n_slices):
        room.room.step()
    room.room.close()
    assert {ending.id for ending in room.endings()} == {1, 2}
    assert all(isinstance(ending, Stopped) for ending in room.endings())
    assert room.room.idle_s is None


@pytest.mark.parametrize(
    "fields",
    [
        {"want": []},
        {"want": ["residual", "thoughts"]},
        {"token_ids": []},
        {"token_ids": IDS * 3},
        {"token_ids": [*IDS, -1]},
        {"token_ids": [*IDS, 313]},
        {"targets": [313]},
        {"targets": [5] * (MAX_TARGETS + 1)},
        {"layers": [7]},
        {"layers": [-1]},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_words(room: Room, fields: dict[str, Any]) -> None:
    room.room.ask(LookInside(**({"id": 1, "token_ids": IDS, "want": EVERYTHING} | fields)))
    room.ask(2)
    room.run()
    refused = room.answer(1)
    assert isinstance(refused, Failed)
    assert refused.kind == "bad_setting"
    assert refused.sentence.endswith(".")
    assert isinstance(room.answer(2), Inside)


def test_a_fault_ends_its_question_alone(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: Any) -> Any:
        raise KeyError("what nobody foresaw")

    with monkeypatch.context() as patch:
        patch.setattr(probe_module, "read", boom)
        room.ask(1)
        room.run()
    room.ask(2)
    room.run()
    failed = room.answer(1)
    assert isinstance(failed, Failed)
    assert failed.kind == "internal"
    assert "what nobody foresaw" in failed.evidence
    assert any(isinstance(e, Log) and "what nobody foresaw" in e.text for e in room.said)
    assert isinstance(room.answer(2), Inside)


# --- beside replies ---------------------------------------------------------------------------


def test_a_slice_beside_a_reply_is_followed_by_rest(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question takes less than a twentieth of a reply's time."""
    real = probe_module.llama.llama_decode

    def slowly(*arguments: Any) -> Any:
        room.now += 1.0
        return real(*arguments)

    monkeypatch.setattr(probe_module.llama, "llama_decode", slowly)
    room.ask(1)
    took = rested = 0.0
    while room.room.has_work(beside_replies=False):
        began = room.now
        room.room.step()
        took += room.now - began
        assert room.now == began or not room.room.has_work(beside_replies=True)
        began = room.now
        while not room.room.has_work(beside_replies=True) and not room.endings():
            room.now += 0.25
        rested += room.now - began
    assert took >= 4
    assert took < 0.05 * (took + rested)


def test_a_reply_is_the_same_beside_questions(tmp_path: Path, native_log: NativeLog) -> None:
    """Slice by slice between its steps, and copying from its cells."""
    small_network(tmp_path / "grouped.gguf", "grouped")
    with weights_of(tmp_path / "grouped.gguf", native_log, **PLAIN) as weights:
        _talk_beside_questions(weights, native_log)


def _talk_beside_questions(weights: Weights, native_log: NativeLog) -> None:
    alone = NativeSession(weights, native_log).reply(IDS[:50], max_tokens=60)
    session = NativeSession(weights, native_log)
    room = Room(weights, session.scheduler.sequences)
    reply = session.add(IDS[:50], max_tokens=60)
    n_asked = 0
    while session.scheduler.has_work:
        session.scheduler.step()
        if not room.room.has_work(beside_replies=False):
            n_asked += 1
            room.ask(n_asked, [*IDS[:50], *some_ids(n_asked, seed=1)])
        room.room.step()
        if n_asked % 3 == 0:
            room.room.stop(n_asked)
    room.room.close()
    assert n_asked > 4
    again = session.ending(reply).result
    assert isinstance(again, Summary)
    assert again.token_ids == alone.token_ids
    assert len(again.token_ids) > 20
    assert sorted(ending.id for ending in room.endings()) == list(range(1, n_asked + 1))
    copied = [e.result.n_copied for e in room.endings() if isinstance(e, Finished)]
    assert max(copied) >= 32


# --- memory -------------------------------------------------------------------------------------


def test_the_context_is_given_back_when_nobody_asks(room: Room) -> None:
    assert room.room.idle_s is None
    room.ask(1)
    assert room.room.idle_s is None
    room.run()
    room.now += IDLE_S / 2
    assert room.room.idle_s == pytest.approx(IDLE_S / 2)
    room.room.give_back()
    assert room.room.idle_s is not None, "too early"
    room.ask(2)
    room.room.step()
    room.now += 2 * IDLE_S
    room.room.give_back()
    room.run()
    assert isinstance(room.answer(2), Inside), "nothing is taken from a question"
    room.now += IDLE_S
    room.room.give_back()
    assert room.room.idle_s is None
    room.ask(3)
    room.run()
    assert np.array_equal(logits(room.answer(3)), logits(room.answer(2)))
    assert room.answer(3).n_read == len(IDS) - 1


# --- what is told -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "windows"),
    [("window", [0, 1, 2, 3, 4, 6]), ("capped", [0, 2]), ("grouped", []), ("experts", [])],
)
def test_the_offer_names_the_layers_with_a_window(
    tmp_path: Path, native_log: NativeLog, kind: str, windows: list[int]
) -> None:
    """Of one file as many layers have a window as have none."""
    small_network(tmp_path / "file.gguf", kind)
    with weights_of(tmp_path / "file.gguf", native_log) as weights:
        room = Room(weights)
        room.room.ask(ReadGraph(1))
        room.run()
        room.room.close()
        offer = room.answer(1)
    assert offer.window_layers == windows
    assert offer.n_layer == weights.n_layer
    assert [each.name for each in offer.missing] == [*OF_EXPERTS] * (kind != "experts")
    assert offer.bytes_per_token > 0
    assert offer.fixed_bytes > 0


def test_a_quantised_cache_is_told(starter_gguf: Path, native_log: NativeLog) -> None:
    """Its keys are turned once more before they are rounded; that shows nowhere."""
    found: dict[str, Inside] = {}
    for kind in ("f16", "q8_0"):
        options: dict[str, Any] = {"type_k": kind, "type_v": kind, "flash_attention": "on"}
        with weights_of(starter_gguf, native_log, **options) as weights:
            ids = weights.vocabulary.tokenize("The capital of France is", False, True)
            room = Room(weights)
            room.ask(1, ids, ["q_after", "k_after", "attention"])
            room.run()
            room.room.close()
            found[kind] = room.answer(1)
    assert found["f16"].notes == []
    assert found["q8_0"].notes == [QUANTISED]
    for name in ("q_after", "k_after", "attention"):
        plain, rounded = (
            np.frombuffer(array.values.data, "<f4").reshape(array.shape)
            for kind in ("f16", "q8_0")
            for array in found[kind].floats
            if array.name == name
        )
        first = np.linalg.norm(rounded[0] - plain[0]) / np.linalg.norm(plain[0])
        # Of the first layer, whose input is the same: 8 bits of a block's largest number.
        assert first < 0.02, name


def test_room_asks_for_nothing_before_a_question(weights: Weights) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("no context is needed")

    open_beside: Callable[..., Any] = weights.open_beside
    try:
        weights.open_beside = refuse  # type: ignore[method-assign]
        room = Room(weights)
        room.room.give_back()
        room.room.close()
    finally:
        weights.open_beside = open_beside  # type: ignore[method-assign]
    assert room.said == []
