"""Replies with different adapters beside each other: each as if it were alone, in turns, and never
from cells that were computed with others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from made_adapters import write_lora, write_vector
from native_session import NativeSession, load_quietly
from small_networks import small_network

from app.engine.process.cache.cells import Traits
from app.engine.process.cache.parking import Parking
from app.engine.process.native.adapters import TOO_STRONG
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.admission import TAKE_TURNS
from app.engine.process.scheduling.turns import TURN_S, Turns
from app.engine.protocol.adapter_messages import Adapters, ControlVector, Lora
from app.engine.protocol.messages import Failed, Note, TokenArrived

pytestmark = pytest.mark.weights

IDS: Final = list(range(5, 53))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apart")
    small_network(folder / "base.gguf", "grouped")
    write_lora(folder / "lora.gguf", folder / "base.gguf", ["blk.1.ffn_down.weight"], alpha=20.0)
    write_vector(folder / "vector.gguf", 3, 64, spread=1.0)
    return folder


@pytest.fixture(scope="module")
def weights(folder: Path, native_log: NativeLog) -> Iterator[Weights]:
    weights = load_quietly(folder / "base.gguf", native_log, n_ctx=512, n_ubatch=64, n_threads=1)
    yield weights
    weights.close()


@pytest.fixture
def session(weights: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(weights, native_log)


@pytest.fixture
def sets(folder: Path) -> list[Adapters]:
    lora, vector = str(folder / "lora.gguf"), str(folder / "vector.gguf")
    return [
        Adapters(),
        Adapters([Lora(lora, 1.0)]),
        Adapters(vectors=[ControlVector(vector, 1.0)]),
    ]


def test_side_by_side_each_is_what_it_is_alone(
    session: NativeSession, sets: list[Adapters], weights: Weights, native_log: NativeLog
) -> None:
    alone = [
        NativeSession(weights, native_log).reply(IDS, max_tokens=24, adapters=each) for each in sets
    ]
    assert len({tuple(reply.token_ids) for reply in alone}) == 3
    asked = [session.add(IDS, max_tokens=24, adapters=each) for each in sets]
    session.run()
    for request_id, wanted in zip(asked, alone, strict=True):
        ending = session.ending(request_id).result  # type: ignore[union-attr]
        assert ending.token_ids == wanted.token_ids  # type: ignore[union-attr]
        assert ending.adapters == wanted.adapters  # type: ignore[union-attr]
    notes = [session.ending(each).result.notes for each in asked]  # type: ignore[union-attr]
    assert [TAKE_TURNS in each for each in notes] == [False, True, True], "the first began alone"
    assert not any(isinstance(event, Note) for event in session.events)
    assert [len(reply.adapters) for reply in alone] == [0, 1, 1]


def test_turns_are_shared_by_what_has_work(
    session: NativeSession, sets: list[Adapters], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reply waits for another one's end."""
    monkeypatch.setattr("app.engine.process.scheduling.turns.TURN_S", 0.0)
    asked = [session.add(IDS, max_tokens=12, adapters=each) for each in sets]
    session.run()
    firsts = {
        request_id: next(
            at
            for at, event in enumerate(session.events)
            if isinstance(event, TokenArrived) and event.id == request_id
        )
        for request_id in asked
    }
    for request_id in asked:
        end = session.events.index(session.ending(request_id))
        assert max(firsts.values()) < end


def test_cells_of_other_adapters_are_never_gone_on_from(
    session: NativeSession, sets: list[Adapters]
) -> None:
    plain, lora, vector = sets
    first = session.reply(IDS, max_tokens=2, adapters=plain, conversation="a")
    other = session.reply(IDS, max_tokens=2, adapters=lora, conversation="a")
    third = session.reply(IDS, max_tokens=2, adapters=vector, conversation="b")
    assert [first.reused, other.reused, third.reused] == [0, 0, 0]
    again = session.reply(IDS, max_tokens=2, adapters=plain, conversation="a")
    assert (again.reused, again.token_ids) == (len(IDS) - 1, first.token_ids)
    back = session.reply(IDS, max_tokens=2, adapters=lora, conversation="a")
    assert (back.reused, back.token_ids) == (len(IDS) - 1, other.token_ids)
    none = Adapters([Lora(lora.loras[0].path, 0.0)])
    assert session.reply(IDS, max_tokens=2, adapters=none).reused == len(IDS) - 1
    louder = Adapters([Lora(lora.loras[0].path, 1.5)])
    assert session.reply(IDS, max_tokens=2, adapters=louder, conversation="a").reused == 0


def test_a_missing_file_ends_the_request_in_words(session: NativeSession, folder: Path) -> None:
    request_id = session.add(IDS, adapters=Adapters([Lora(str(folder / "gone.gguf"))]))
    ending = session.ending(request_id)
    assert isinstance(ending, Failed)
    assert "gone.gguf” no longer exists" in ending.sentence


def test_scales_that_are_too_large_are_named(session: NativeSession, folder: Path) -> None:
    """Not the file of the model; and the next reply without them is as ever."""
    plain = session.reply(IDS, max_tokens=2, adapters=Adapters()).token_ids
    path = folder / "loud.gguf"
    write_lora(path, folder / "base.gguf", ["blk.1.ffn_down.weight"], alpha=1e38)
    request_id = session.add(IDS, adapters=Adapters([Lora(str(path), 100.0)]))
    session.run()
    ending = session.ending(request_id)
    assert isinstance(ending, Failed)
    assert ending.sentence == TOO_STRONG
    assert session.reply(IDS, max_tokens=2, adapters=Adapters()).token_ids == plain


def test_a_repeatable_reply_with_adapters_repeats(
    session: NativeSession, sets: list[Adapters]
) -> None:
    runs = [
        session.reply(IDS, max_tokens=16, repeatable=True, adapters=each).token_ids
        for each in (sets[1], sets[0], sets[1], sets[2], sets[1])
    ]
    assert runs[0] == runs[2] == runs[4]
    assert runs[1] != runs[0]


def test_full_window_and_two_sets_come_to_an_end(folder: Path, native_log: NativeLog) -> None:
    """Both fill the window together: one gives way and goes on, whatever it computes with."""
    weights = load_quietly(folder / "base.gguf", native_log, n_ctx=256, n_ubatch=64, n_threads=1)
    session = NativeSession(weights, native_log)
    lora = Adapters([Lora(str(folder / "lora.gguf"))])
    from app.engine.protocol.stages import Greedy, Sampling

    sampling = Sampling(filters=[], select=Greedy(), ban_end_token=True)
    asked = [
        session.add(IDS, sampling, max_tokens=150, adapters=each)
        for each in (lora, Adapters(), lora)
    ]
    session.run()
    lengths = [session.ending(each).result.generated for each in asked]  # type: ignore[union-attr]
    assert lengths == [150, 150, 150]
    weights.close()


def test_turns_are_as_long_as_there_are_replies() -> None:
    turns, keys = Turns(), ["a", "b", "a", "c"]
    had = [turns.order(keys, step * TURN_S / 4)[0] for step in range(80)]
    wanted = {"a": 40, "b": 20, "c": 20}
    assert all(abs(had.count(key) - n) <= 1 for key, n in wanted.items())
    assert turns.order(["b"], 99.0) == ["b"]
    assert turns.order([], 99.0) == []


def test_parked_copies_serve_only_their_own_set() -> None:
    parking = Parking(10_000, Traits())
    state = np.zeros(100, np.uint8)
    assert parking.put([1, 2, 3], state, 0, adapters="a")
    assert parking.put([1, 2, 3], state, 0, adapters="b")
    assert len(parking) == 2, "neither replaces the other"
    assert parking.best([1, 2, 3, 4], 3)[1] == 0
    assert parking.best([1, 2, 3, 4], 3, "a")[1] == 3
    assert not parking.holds([1, 2], "")
    assert parking.holds([1, 2], "b")
