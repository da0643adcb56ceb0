"""The numbers of a token against the same numbers computed naively in float64."""

from __future__ import annotations

import io
import itertools
import math
import struct
import threading
from collections.abc import Iterable

import msgspec
import numpy as np
import pytest

from app.engine.process.native.arrays import as_array
from app.engine.process.trace.effects import Snapshot, StageFollower
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.outbox import Outbox, TokenRecord
from app.engine.protocol import wire
from app.engine.protocol.frames import ProtocolError
from app.engine.protocol.messages import (
    SURVIVED,
    Done,
    Event,
    Failed,
    Finished,
    Log,
    Note,
    StageEffect,
    TokenArrived,
)
from app.insight.trace.columns import pack, unpack


def candidates(ids: Iterable[int], scores: Iterable[float]) -> bytes:
    """As llama.cpp has them in memory, with nonsense where the stages have none."""
    return b"".join(
        struct.pack("<iff", int(i), float(score), 7.0) for i, score in zip(ids, scores, strict=True)
    )


def naive(scores: np.ndarray, token_id: int) -> tuple[float, int, float, np.ndarray]:
    """logprob, rank, entropy in bits and all log-probabilities, the slow way."""
    exact = scores.astype(np.float64)
    weights = np.exp(exact - exact.max())
    p = weights / weights.sum()
    with np.errstate(divide="ignore"):
        logprobs = np.log(p)
    used = p > 0
    entropy = -(p[used] * np.log2(p[used])).sum()
    return logprobs[token_id], int((exact > exact[token_id]).sum()) + 1, entropy, logprobs


@pytest.mark.parametrize("lies_at", [0, 1])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("n_vocab", [1, 5, 300, 49_152, 65_537, 262_144])
def test_numbers_equal_the_naive_ones(spread: float, n_vocab: int, lies_at: int) -> None:
    """With and without the address of the scores, where they need not be copied."""
    source = np.random.default_rng(n_vocab)
    measurer = Measurer(n_vocab)
    for k in (0, 1, 8, 64):
        scores = source.normal(3.0, spread, n_vocab).astype(np.float32)
        token_id = int(source.integers(n_vocab))
        measured = measurer.measure(scores, token_id, k, address=lies_at and scores.ctypes.data)
        logprob, rank, entropy, logprobs = naive(scores, token_id)
        assert measured.logprob == pytest.approx(logprob, abs=2e-5)
        assert measured.logprob + measured.log_total == pytest.approx(scores[token_id], abs=1e-4)
        assert measured.rank == rank
        assert measured.entropy == pytest.approx(entropy, abs=2e-4)
        expected = np.lexsort((np.arange(n_vocab), -scores))[:k]
        assert measured.alternative_ids.tolist() == expected.tolist()
        assert measured.alternative_logprobs == pytest.approx(logprobs[expected], abs=2e-5)


@pytest.mark.parametrize("largest", [3e9, 3.4e38, -3.4e38])
def test_scores_as_large_as_float32_holds_are_recorded_and_travel(largest: float) -> None:
    """Damaged weights make such, and their reply is not to end the connection."""
    sent: list[Event] = []
    outbox = Outbox(sent.append, on_broken=lambda: None)
    scores = np.array([largest, largest, min(largest, -1.0)], np.float32)
    outbox.put(msgspec.structs.replace(record(0), scores=scores, token_id=0))
    outbox.close()
    (arrived,) = sent
    assert isinstance(arrived, TokenArrived)
    assert arrived.token.logprob + arrived.token.log_total == pytest.approx(scores[0])
    frames = io.BytesIO(wire.encode_frame(arrived))
    payload = wire.FrameReader(frames).read()
    assert payload is not None
    assert wire.decode_event(payload) == arrived
    (kept,) = unpack(pack([arrived.token]))
    assert kept.log_total == pytest.approx(scores[0])


@pytest.mark.parametrize("mean", [-31.0, 31.0, 33.0, 1e6])
def test_far_from_zero_nothing_is_lost(mean: float) -> None:
    scores = np.random.default_rng(4).normal(mean, 2.0, 49_152).astype(np.float32)
    scores[:9] = -np.inf
    measured = Measurer(49_152).measure(scores, 9, 1, address=scores.ctypes.data)
    logprob, _, entropy, _ = naive(scores, 9)
    assert measured.entropy == pytest.approx(entropy, abs=2e-4)
    assert measured.logprob == pytest.approx(logprob, abs=2e-5)
    assert measured.left == 49_152 - 9


def test_scores_of_minus_infinity_count_as_nothing() -> None:
    scores = np.array([1.0, -np.inf, 2.0, -np.inf], np.float32)
    measured = Measurer(4).measure(scores, 2, 4)
    logprob, rank, entropy, _ = naive(scores, 2)
    assert (measured.rank, rank) == (1, 1)
    assert measured.logprob == pytest.approx(logprob)
    assert measured.entropy == pytest.approx(entropy)
    assert measured.alternative_ids.tolist()[:2] == [2, 0]


def test_parts_without_any_candidate_count_as_nothing() -> None:
    """Of a large vocabulary that is measured in parts a whole part may be ruled out."""
    scores = np.full(200_000, -np.inf, np.float32)
    scores[[3, 70_000, 199_999]] = 1.0, 3.0, 2.0
    measured = Measurer(200_000).measure(scores, 199_999, 4)
    logprob, rank, entropy, _ = naive(scores, 199_999)
    assert (measured.rank, measured.left, rank) == (2, 3, 2)
    assert measured.logprob == pytest.approx(logprob)
    assert measured.entropy == pytest.approx(entropy)
    assert measured.alternative_ids.tolist()[:3] == [70_000, 199_999, 3]


def test_uniform_scores_have_an_entropy_of_log2_n() -> None:
    measured = Measurer(1024).measure(np.zeros(1024, np.float32), 7, 3)
    assert measured.entropy == pytest.approx(10.0, abs=1e-5)
    assert measured.alternative_ids.tolist() == [0, 1, 2]


def test_measuring_does_not_depend_on_what_was_measured_before() -> None:
    source = np.random.default_rng(1)
    measurer = Measurer(5000)
    for spread in (50.0, 0.001, 50.0, 1.0, 0.001):
        scores = source.normal(0, spread, 5000).astype(np.float32)
        again = Measurer(5000).measure(scores, 3, 16)
        first = measurer.measure(scores, 3, 16)
        assert first.alternative_ids.tolist() == again.alternative_ids.tolist()
        assert first.entropy == again.entropy


def test_replay_counts_finite_candidates_and_shares() -> None:
    snapshot = Snapshot("temperature", left=candidates([9, 4, 7], [2.0, 1.0, -np.inf]))
    start = np.zeros(12, np.float32)

    def effect(token_id: int) -> StageEffect:
        return StageFollower(start, token_id, np.empty(0, np.int32)).follow(snapshot)

    assert (effect(9).stage, effect(9).left) == ("temperature", 2)
    assert effect(9).probability == pytest.approx(np.e / (np.e + 1), abs=1e-6)
    assert effect(7).probability == 0.0
    assert effect(1).probability == 0.0


@pytest.mark.parametrize("n_left", [3, 40, 200])
def test_cutting_sorted_candidates_is_keeping_them(n_left: int) -> None:
    """`first` against the same candidates given whole, for few and for many."""
    source = np.random.default_rng(4)
    scores = source.normal(0, 3, 1000).astype(np.float32)
    order = np.argsort(-scores).astype(np.int32)
    top, left = order[:300], order[:n_left]
    for token_id in (int(order[1]), int(order[250])):
        cut = StageFollower(scores, token_id, order[:64])
        whole = StageFollower(scores, token_id, order[:64])
        for follower, last in (
            (cut, Snapshot("top-p", first=n_left)),
            (whole, Snapshot("top-p", left=candidates(left, scores[left]))),
        ):
            follower.follow(Snapshot("top-k", left=candidates(top, scores[top])))
            effect = follower.follow(last)
            share = np.exp(scores[left].astype(np.float64))
            wanted = math.exp(scores[token_id]) / share.sum() if token_id in left else 0.0
            assert (effect.stage, effect.left) == ("top-p", n_left)
            assert effect.probability == pytest.approx(wanted, rel=1e-5)
        assert cut.removed_by.tolist() == whole.removed_by.tolist()
        assert cut.removed_by.tolist() == [255] * min(n_left, 64) + [1] * max(64 - n_left, 0)


@pytest.mark.parametrize("n_vocab", [500, 120])
def test_replay_follows_every_kind_of_snapshot(n_vocab: int) -> None:
    """The same six stages by small differences and by full copies."""
    source = np.random.default_rng(3)
    scores = source.normal(0, 3, n_vocab).astype(np.float32)
    watched = np.argsort(-scores)[:64].astype(np.int32)
    token_id = int(watched[5])
    some = np.array([token_id, 3, int(watched[0])], np.int32)
    punished = scores.copy()
    punished[some] = [0.5, -np.inf, 1.0]
    cool = punished / np.float32(0.7)
    masked = np.where(cool > 1.0, cool, np.float32(-np.inf))
    kept = np.flatnonzero(masked > 2.0).astype(np.int32)
    kept = np.union1d(kept, np.array([token_id], np.int32)).astype(np.int32)
    left = np.where(np.isin(np.arange(n_vocab), kept), cool, np.float32(-np.inf))
    small = [
        Snapshot("penalties", some, punished[some], is_partial=True),
        Snapshot("top-p"),
        Snapshot("temperature", scale=0.7),
        Snapshot("top-n-sigma", scores=masked),
        Snapshot("top-k", left=candidates(kept[::-1], cool[kept[::-1]])),
        Snapshot("dist"),
    ]
    full = [punished, punished, cool, masked, left, left]
    follower = StageFollower(scores, token_id, watched)
    gone: dict[int, int] = {}
    for stage, (snapshot, after) in enumerate(zip(small, full, strict=True)):
        effect = follower.follow(snapshot)
        weights = np.exp(after.astype(np.float64) - after.max())
        assert effect.left == int((after > -np.inf).sum())
        assert effect.probability == pytest.approx(weights[token_id] / weights.sum(), abs=1e-6)
        for place, watched_id in enumerate(watched):
            if after[watched_id] == -np.inf:
                gone.setdefault(place, stage)
    assert follower.removed_by.tolist() == [gone.get(place, SURVIVED) for place in range(64)]
    assert 0 < len(gone) < 64


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64, np.uint8])
def test_arrays_travel_unchanged(dtype: type) -> None:
    values = np.arange(6, dtype=dtype).reshape(2, 3)
    array = as_array(values[:, ::-1]).check()
    back = np.frombuffer(array.data, array.dtype).reshape(array.shape)
    assert (back == values[:, ::-1]).all()


def record(index: int) -> TokenRecord:
    scores = np.array([0.0, 1.0, 2.0], np.float32)
    return TokenRecord(1, index, 2, b"x", scores, (), 2, 1.5, text="x", context_used=7)


def test_outbox_keeps_the_order_and_makes_the_events() -> None:
    sent: list[Event] = []
    outbox = Outbox(sent.append, on_broken=lambda: None)
    for index in range(100):
        outbox.put(record(index))
        outbox.put(Log("info", str(index)))
    outbox.close()
    assert [e.text for e in sent if isinstance(e, Log)] == [str(i) for i in range(100)]
    tokens = [e for e in sent if isinstance(e, TokenArrived)]
    assert [e.token.index for e in tokens] == list(range(100))
    assert all(
        isinstance(a, TokenArrived) != isinstance(b, TokenArrived)
        for a, b in itertools.pairwise(sent)
    )
    assert tokens[0].token.rank == 1
    assert tokens[0].context_used == 7


def test_tokens_are_gathered_and_everything_else_is_sent_at_once() -> None:
    """Later tokens wait for each other a little, in order, and go out with one write."""
    alone: list[Event] = []
    groups: list[list[Event]] = []
    came = threading.Event()

    def send(event: Event) -> None:
        alone.append(event)
        came.set()

    outbox = Outbox(send, on_broken=lambda: None, send_all=lambda events: groups.append([*events]))
    outbox.GATHER_S = 30.0  # type: ignore[misc]  # so that only urgency ends the wait
    outbox.put(record(0))
    assert came.wait(10)
    for index in range(2, 7):
        outbox.put(record(index))
    outbox.put(Log("info", "urgent"))
    outbox.close(10)
    assert [e.token.index for e in alone if isinstance(e, TokenArrived)] == [0]
    together = [e for group in groups for e in group]
    assert [e.token.index for e in together if isinstance(e, TokenArrived)] == [2, 3, 4, 5, 6]
    assert together[-1] == Log("info", "urgent")


def test_a_token_that_nobody_follows_is_not_kept_back() -> None:
    sent: list[Event] = []
    came = threading.Event()

    def send(event: Event) -> None:
        sent.append(event)
        if len(sent) == 2:
            came.set()

    outbox = Outbox(send, on_broken=lambda: None)
    outbox.put(record(0))
    outbox.put(record(9))
    assert came.wait(10)  # nothing urgent came after it
    outbox.close()


def test_one_that_cannot_be_sent_together_does_not_silence_the_others() -> None:
    sent: list[Event] = []

    def refuse(_: object) -> None:
        raise ProtocolError("too large")

    outbox = Outbox(sent.append, on_broken=lambda: None, send_all=refuse)
    for index in range(40):
        outbox.put(record(index))
    outbox.close()
    assert [e.token.index for e in sent if isinstance(e, TokenArrived)] == list(range(40))


class Rest(threading.Event):
    """Says when somebody begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.has_begun.set()
        return super().wait(timeout)


def test_nobody_waits_for_tokens_that_are_being_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many replies at once write more tokens than the box holds, within the time of gathering."""
    monkeypatch.setattr(Outbox, "GATHER_S", 60.0)
    outbox = Outbox(lambda _: None, on_broken=lambda: None)
    outbox._urgent = rest = Rest()

    def fill() -> None:
        for index in range(300):
            outbox.put(record(10 + index))

    outbox.put(record(9))
    assert rest.has_begun.wait(10)
    filler = threading.Thread(target=fill)
    filler.start()
    filler.join(10)
    was_waiting = filler.is_alive()
    outbox.put(Log("info", "go on"))
    filler.join(20)
    outbox.close()
    assert not was_waiting


def test_a_token_that_cannot_be_measured_does_not_silence_the_others() -> None:
    """Even where the fault is a ValueError, as a closed pipe is one too."""
    sent: list[Event] = []
    broken = threading.Event()
    outbox = Outbox(sent.append, on_broken=broken.set)
    outbox.put(msgspec.structs.replace(record(0), token_id=99))
    changed = Snapshot("top-k", left=candidates([2, 1], [2.0, 1.0]))
    biased = Snapshot("bias", np.array([1], np.int32), np.array([0], np.float32), is_partial=True)
    outbox.put(msgspec.structs.replace(record(1), snapshots=(changed, biased)))
    outbox.put(record(2))
    outbox.close()
    assert not broken.is_set()
    assert [type(event) for event in sent] == [Log, Log, TokenArrived]


def test_outbox_without_a_reader_lets_go() -> None:
    broken = threading.Event()

    def refuse(_: Event) -> None:
        raise BrokenPipeError

    outbox = Outbox(refuse, on_broken=broken.set)
    for index in range(500):  # more than it can hold
        outbox.put(record(index))
    assert broken.wait(5)
    outbox.close()


def test_what_cannot_be_sent_ends_its_request_and_nothing_else() -> None:
    sent: list[Event] = []

    def send(event: Event) -> None:
        if isinstance(event, Finished) or (isinstance(event, Note) and event.id == 3):
            raise ProtocolError("too large")
        sent.append(event)

    outbox = Outbox(send, on_broken=lambda: None)
    for event in (Finished(2, Done()), Note(3, "kind", "Sentence."), Note(4, "kind", "Sentence.")):
        outbox.put(event)
    outbox.close()
    assert isinstance(sent[0], Failed)
    assert (sent[0].id, sent[0].kind) == (2, "internal")
    assert isinstance(sent[1], Log)
    assert sent[2] == Note(4, "kind", "Sentence.")


def test_outbox_is_bounded() -> None:
    gate, put = threading.Event(), []
    outbox = Outbox(lambda _: gate.wait(10) and None, on_broken=lambda: None)

    def fill() -> None:
        for index in range(200):
            outbox.put(record(index))
            put.append(index)

    filler = threading.Thread(target=fill)
    filler.start()
    filler.join(0.1)
    assert filler.is_alive()
    assert len(put) < 100
    gate.set()
    filler.join(10)
    outbox.close()
    assert len(put) == 200
