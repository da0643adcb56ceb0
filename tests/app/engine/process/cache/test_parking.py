"""Chats that leave and come back: parked copies, forks, and architectures that cannot be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from native_session import NativeSession, load_quietly
from other_shapes import settled
from recurrent_gguf import tiny_jamba, tiny_mamba

from app.engine.process.cache.cells import CANNOT_CUT, WINDOW_MOVED, Cells, Traits, cells_in_use
from app.engine.process.cache.parking import DEFAULT_MOST_BYTES, Parking, default_cap
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Note, Summary

Make = Callable[..., NativeSession]
WRITERS = {"llama": tiny_llama, "mamba": tiny_mamba, "jamba": tiny_jamba}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Make]:
    """Sessions on tiny random files of an architecture, each of which is loaded once."""
    folder = tmp_path_factory.mktemp("tiny")
    opened: dict[tuple[str, int], Weights] = {}

    def open_session(architecture: str = "llama", n_ctx: int = 512) -> NativeSession:
        if (architecture, n_ctx) not in opened:
            path = folder / f"{architecture}.gguf"
            WRITERS[architecture](path, vocabulary=bpe_vocabulary())
            weights = load_quietly(path, native_log, n_ctx=n_ctx, n_ubatch=32, n_threads=1)
            opened[architecture, n_ctx] = weights
        return NativeSession(opened[architecture, n_ctx], native_log)

    yield open_session
    for weights in opened.values():
        weights.close()


def chat(session: NativeSession, ids: list[int], name: str, length: int = 4) -> Summary:
    return session.reply(ids, max_tokens=length, conversation=name)


def numbers(first: int, count: int) -> list[int]:
    """Token IDs that no other call shares a beginning with."""
    return [first, *(20 + (first * 7 + i) % 200 for i in range(count - 1))]


def kinds(session: NativeSession) -> list[str]:
    return [event.kind for event in session.events if isinstance(event, Note)]


# --- bookkeeping --------------------------------------------------------------------------------


def state(size: int) -> np.ndarray:
    return np.zeros(size, np.uint8)


def test_the_longest_unused_copy_goes_first() -> None:
    parking = Parking(3000, Traits())
    for first in (1, 2, 3):
        assert parking.put([first, 7, 7], state(900), 0)
    assert parking.best([1, 7, 7, 9], 3)[1] == 3
    parking.touch(next(iter(parking)))
    assert parking.put([4, 7, 7], state(900), 0)
    assert [int(parked.ids[0]) for parked in parking] == [3, 1, 4]
    assert parking.size_bytes <= 3000
    assert not parking.put([5], state(3001), 0)
    assert len(parking) == 3


def test_a_longer_copy_replaces_the_one_that_it_can_stand_for() -> None:
    plain, recurrent = Parking(9000, Traits()), Parking(9000, Traits(is_recurrent=True))
    for parking in (plain, recurrent):
        parking.put([1, 2, 3], state(10), 0)
        parking.put([1, 2, 3, 4], state(10), 0)
    assert (len(plain), len(recurrent)) == (1, 2)
    assert plain.holds([1, 2])
    assert not recurrent.holds([1, 2])
    assert recurrent.holds([1, 2, 3])


def test_the_longest_usable_copy_wins() -> None:
    window = Parking(9000, Traits(n_swa=4))
    window.put([1, 2, 3, 4, 5, 6, 7, 8], state(10), 4)
    assert window.best([1, 2, 3, 4, 5, 6, 7, 8, 9], 8)[1] == 8
    assert window.best([1, 2, 3, 4, 5, 6, 7, 9], 7)[1] == 7
    assert window.best([1, 2, 3, 9], 3) == (None, 0)


def test_the_default_cap() -> None:
    assert default_cap(8 << 30) == 1 << 30
    assert default_cap(1 << 40) == DEFAULT_MOST_BYTES


@pytest.mark.parametrize(
    ("traits", "first", "keep", "reason"),
    [
        (Traits(), 0, 3, None),
        (Traits(), 2, 3, WINDOW_MOVED),
        (Traits(is_recurrent=True), 9, 10, None),
        (Traits(is_recurrent=True), 9, 9, CANNOT_CUT),
        (Traits(n_swa=4), 6, 9, None),
        (Traits(n_swa=4), 6, 8, WINDOW_MOVED),
        (Traits(n_swa=4), 0, 2, None),
    ],
)
def test_what_an_architecture_can_go_on_from(
    traits: Traits, first: int, keep: int, reason: str | None
) -> None:
    assert traits.usable(10, first, keep) == reason


# --- chats that take turns ------------------------------------------------------------------------

pytestmark = pytest.mark.weights


def test_two_long_chats_in_turn_evaluate_only_what_is_new(make: Make) -> None:
    """C04. A, B, A, B …: each comes back from parking and is read once."""
    session = make()
    texts = {"a": numbers(1, 60), "b": numbers(2, 70)}
    for turn in range(4):
        for name, ids in texts.items():
            summary = chat(session, ids, name)
            new = 60 + 10 * (name == "b") if turn == 0 else 6
            assert summary.evaluated == new, (turn, name)
            assert summary.reuse_source == ("" if turn == 0 else "parked")
            texts[name] = [*ids, *summary.token_ids, *numbers(turn + 5, 5)]
    assert kinds(session) == []


def test_a_parked_chat_gives_what_a_fresh_run_gives(make: Make) -> None:
    session = make()
    ids = numbers(1, 60)
    first = chat(session, ids, "a")
    longer = [*ids, *first.token_ids, 33, 34]
    session.scheduler._space.vacate_all()
    restored = chat(session, longer, "a", length=10)
    fresh = settled(session, longer, 10, reuse_prefix=False)
    assert restored.reuse_source == "parked"
    assert restored.token_ids == fresh


def test_an_edited_first_turn_and_the_way_back(make: Make) -> None:
    """C04. The chat as it was before the edit is kept when it is long."""
    session = make(n_ctx=1024)
    ids = numbers(1, 400)
    chat(session, ids, "a")
    edited = chat(session, [*ids[:50], *numbers(3, 30)], "a")
    assert (edited.reused, edited.reuse_source) == (50, "fork")
    back = chat(session, [*ids, 41, 42], "a")
    assert (back.reused, back.evaluated) == (400, 2)


def test_regenerating_reads_one_token(make: Make) -> None:
    """C04."""
    session = make()
    ids = numbers(1, 60)
    one, two = chat(session, ids, "a"), chat(session, ids, "a")
    assert (two.reused, two.evaluated, two.reuse_source) == (59, 1, "slot")
    assert one.token_ids == two.token_ids


def test_chats_that_begin_alike_share_cells(make: Make) -> None:
    """The second chat takes over the first one's beginning; the first one goes to host memory,
    so that no cell slows the one that writes, and comes back whole."""
    session = make()
    system = numbers(1, 50)
    chat(session, [*system, *numbers(2, 60)], "a")
    forked = chat(session, [*system, *numbers(3, 20)], "b")
    assert (forked.reused, forked.reuse_source) == (50, "fork")
    cells = [slot.cells for slot in session.scheduler._slots]
    assert cells_in_use(cells) == sum(map(len, cells)) == 70 + forked.generated - 1
    again = chat(session, [*system, *numbers(2, 60), 7], "a")
    assert (again.reused, again.reuse_source) == (110, "parked")


def test_the_same_prompt_four_times_at_once_is_read_once(make: Make) -> None:
    """Best of n: the others wait until the first has read, then share its cells."""
    session = make(n_ctx=256)
    ids = numbers(1, 200)
    requests = [session.add(ids, max_tokens=8) for _ in range(4)]
    session.run()
    endings = [session.ending(request).result for request in requests]
    assert sorted(ending.evaluated for ending in endings) == [1, 1, 1, 200]
    assert {ending.reuse_source for ending in endings} == {"", "fork"}
    alone = settled(session, ids, 8, reuse_prefix=False)
    assert [ending.token_ids for ending in endings] == [alone] * 4
    assert {ending.stop_reason for ending in endings} == {"max_tokens"}


def test_a_copy_that_does_not_fit_any_more_is_dropped_with_a_note(make: Make) -> None:
    session = make()
    ids = numbers(1, 60)
    chat(session, ids, "a")
    session.scheduler._space.vacate_all()
    (parked,) = session.scheduler._space.parking
    parked.data[:64] = 255
    summary = chat(session, ids, "a")
    assert (summary.reused, summary.evaluated) == (0, 60)
    assert kinds(session) == ["full_pass"]
    assert "no longer usable" in summary.notes[0]
    assert list(session.scheduler._space.parking) == []
    assert chat(session, ids, "a").reused == 59


@pytest.mark.parametrize("cap", [0, 30_000])
def test_the_cap_is_kept(make: Make, native_log: NativeLog, cap: int) -> None:
    """A tiny file's 60 tokens take some 15 kB."""
    session = make()
    session.scheduler = Scheduler(
        session.weights, session._take, native_log, options=LoadOptions(parked_bytes=cap)
    )
    for first in range(1, 6):
        chat(session, numbers(first, 60), str(first))
        session.scheduler._space.vacate_all()
        assert session.scheduler._space.parking.size_bytes <= cap
    parking = session.scheduler._space.parking
    assert len(parking) == (1 if cap else 0)


@pytest.mark.parametrize("cap", [0, 20_000])
def test_what_finds_no_place_in_host_memory_stays_in_the_cells(
    make: Make, native_log: NativeLog, cap: int
) -> None:
    """Three chats in turn, with slots and cells for all: none is read again, whatever the cap."""
    session = make()
    session.scheduler = Scheduler(
        session.weights, session._take, native_log, options=LoadOptions(parked_bytes=cap)
    )
    texts = {name: numbers(first, 60) for first, name in enumerate("abc", 1)}
    for turn in range(3):
        for name, ids in texts.items():
            summary = chat(session, ids, name)
            assert summary.evaluated == (60 if turn == 0 else 3), (turn, name)
            texts[name] = [*ids, *summary.token_ids, 40 + turn, 41]
            assert session.scheduler._space.parking.size_bytes <= cap


# --- architectures that cannot be cut -------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["mamba", "jamba"])
def test_a_state_goes_on_and_is_never_cut(make: Make, architecture: str) -> None:
    """C04. Three turns, regenerate, edit the first turn, switch chats: recurrent and hybrid."""
    session = make(architecture)
    assert session.scheduler._slots[0].cells.traits.is_recurrent
    ids = numbers(1, 50)
    first = chat(session, ids, "a")
    second_ids = [*ids, *first.token_ids, 50, 51]
    second = chat(session, second_ids, "a")
    assert (second.reused, second.evaluated, second.reuse_source) == (53, 3, "slot")
    assert kinds(session) == []
    regenerated = chat(session, second_ids, "a")
    assert (regenerated.reused, regenerated.notes) == (0, [CANNOT_CUT])
    assert regenerated.token_ids == second.token_ids
    edited = chat(session, [99, *ids[1:]], "a")
    assert edited.reused == 0
    other = chat(session, numbers(3, 40), "b")
    assert (other.reused, other.notes) == (0, [])
    session.scheduler._space.vacate_all()
    third_ids = [*second_ids, *regenerated.token_ids, 52]
    third = chat(session, third_ids, "a", length=8)
    assert third.evaluated == len(third_ids) - third.reused
    assert third.token_ids == settled(session, third_ids, 8, reuse_prefix=False)


@pytest.mark.parametrize("architecture", ["mamba", "jamba"])
def test_a_parked_state_comes_back(make: Make, architecture: str) -> None:
    session = make(architecture)
    ids = numbers(1, 50)
    first = chat(session, ids, "a")
    session.scheduler._space.vacate_all()
    longer = [*ids, *first.token_ids, 50, 51]
    restored = chat(session, longer, "a", length=10)
    assert (restored.reuse_source, restored.reused) == ("parked", 53)
    fresh = settled(session, longer, 10, reuse_prefix=False)
    assert restored.token_ids == fresh


@pytest.mark.parametrize("file", ["made_window", pytest.param("gemma", marks=pytest.mark.soak)])
def test_a_window_that_has_moved_on_means_a_full_pass(
    file: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    """A copy of a sliding-window file holds only the window: what is behind it is read again."""
    session = NativeSession(request.getfixturevalue(file), native_log)
    ids = numbers(1, 560)
    first = chat(session, ids, "a", length=2)
    shorter = chat(session, ids[:540], "a", length=1)
    assert (shorter.reused, shorter.reuse_source) == (539, "slot")
    chat(session, [*ids, *first.token_ids], "a", length=1)
    session.scheduler._space.vacate_all()
    on = chat(session, [*ids, *first.token_ids, 40], "a", length=1)
    assert (on.reuse_source, on.evaluated) == ("parked", 1)
    back = chat(session, ids[:520], "a", length=1)
    assert (back.reused, back.notes) == (0, [WINDOW_MOVED])


# --- runs of cells --------------------------------------------------------------------------------


def test_shared_cells_are_counted_once(make: Make) -> None:
    session = make()
    first, second, third = (
        Cells(session.weights.context, sequence, Traits()) for sequence in range(3)
    )
    batch = session.scheduler._batch

    def read(cells: Cells, count: int) -> None:
        batch.clear()
        ids = list(range(100, 100 + count))
        batch.add(ids, len(cells), cells.sequence, want_scores=False)
        assert llama.llama_decode(session.weights.context, batch.native) == 0
        cells.extend(ids)

    read(first, 5)
    second.fork_from(first, 3)
    read(first, 2)
    read(second, 2)
    assert cells_in_use([first, second]) == 7 + 2
    third.fork_from(second, 4)
    assert cells_in_use([first, second, third]) == 9
    first.cut(4)
    read(first, 1)
    assert cells_in_use([first, second, third]) == 4 + 1 + 2
    first.clear()
    assert cells_in_use([first, second, third]) == 5
    second.cut(3)
    assert cells_in_use([second, third]) == 4
    assert third.ids == [100, 101, 102, 100]
