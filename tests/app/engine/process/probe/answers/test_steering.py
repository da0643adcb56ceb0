"""Control vectors that are made here, against numpy: its own streams, its own singular vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from made_adapters import write_vector
from native_session import load_in_float32
from reference_network import Network
from small_networks import small_network

from app.engine.process.cache.cells import Traits
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe.answers.steering import SAME, direction
from app.engine.process.probe.probe import Asked, Probe
from app.engine.process.probe.room import Examples, ProbeRoom
from app.engine.protocol import wire
from app.engine.protocol.adapter_messages import Adapters, ControlVector, VectorMade
from app.engine.protocol.messages import Event, Failed, Finished, Progress, Stopped

pytestmark = pytest.mark.weights

POSITIVE: Final = [[3, 9, 27, 81], [3, 9, 27, 12, 40], [5, 6, 7]]
NEGATIVE: Final = [[3, 9, 28, 80], [3, 9, 28, 13, 41], [8, 6, 9, 44]]
BOUND: Final = 1e-4
"""Of a direction's length; measured: 4e-6."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steering") / "base.gguf"
    small_network(path, "grouped")
    return path


@pytest.fixture(scope="module")
def weights(base: Path, native_log: NativeLog) -> Iterator[Weights]:
    weights = load_in_float32(base, native_log)
    yield weights
    weights.close()


class Room:
    def __init__(self, weights: Weights) -> None:
        self.events: list[Event] = []
        self.room = ProbeRoom(weights, lambda: (), Traits(), self.events.append)

    def make(self, positive: Any, negative: Any, method: Any = "mean") -> Event:
        self.room.ask(Examples(1, positive, negative, method))
        while self.room.has_work(beside_replies=False):
            self.room.step()
        return self.events[-1]


@pytest.fixture
def room(weights: Weights) -> Iterator[Room]:
    room = Room(weights)
    yield room
    room.room.close()


def _streams(base: Path, texts: list[list[int]]) -> np.ndarray[Any, Any]:
    """[n_layer - 1, n, n_embd], without the first layer's."""
    network = Network(base)
    read = [network.read(ids).residual for ids in texts]
    return np.stack([[r[layer][-1] for r in read] for layer in range(1, network.n_layer)])


def test_means_and_main_directions_equal_numpys(room: Room, base: Path) -> None:
    plus, minus = _streams(base, POSITIVE), _streams(base, NEGATIVE)
    apart = (plus.mean(axis=1) - minus.mean(axis=1)).astype(np.float64)
    made = {}
    for method in ("mean", "pca"):
        ending = room.make(POSITIVE, NEGATIVE, method)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, VectorMade)
        assert wire.decode_event(wire.encode_frame(ending)[4:]) == ending
        made[method] = np.asarray(ending.result.directions.numbers(), np.float32).reshape(2, 64)
        assert (ending.result.n_layer, ending.result.n_positive) == (3, 3)
    for row, wanted in zip(made["mean"], apart, strict=True):
        assert np.linalg.norm(row - wanted) < BOUND * np.linalg.norm(wanted)
    for row, pairs, mean in zip(made["pca"], plus - minus, apart, strict=True):
        main = np.linalg.svd(pairs.astype(np.float64))[2][0]
        wanted = main * (main @ mean)
        assert np.linalg.norm(row - wanted) < BOUND * np.linalg.norm(wanted)
        assert row @ mean > 0
    steps = [e.done for e in room.events if isinstance(e, Progress) and e.phase == "examples"]
    assert steps == [*range(1, 7)] * 2


def test_groups_that_lie_apart_are_told_apart() -> None:
    source = np.random.default_rng(0)
    noise = source.standard_normal((2, 40, 16)).astype(np.float32)
    axis = np.eye(16, dtype=np.float32)[3]
    apart = direction(noise[0] + 8 * axis, noise[1] - 8 * axis, "mean")
    assert apart.separation == 1.0
    assert 0.75 < apart.spread <= 1.0
    assert abs(apart.values @ axis - 16) < 1
    main = direction(noise[0] + 8 * axis, noise[1] - 8 * axis, "pca").values
    assert main @ axis / np.linalg.norm(main) > 0.98
    same = direction(noise[0], noise[1], "mean")
    assert 0.5 <= same.separation < 1
    assert same.spread < 0.5


@pytest.mark.parametrize(
    ("positive", "negative", "method", "words"),
    [
        ([[1]], [], "mean", "at least one example"),
        ([[1], [2]], [[3]], "pca", "here 2 and 1"),
        ([[1]], [[3]], "pca", "at least two pairs"),
        ([[1, 2]], [[1, 2]], "mean", SAME),
        ([[1, 10**6]], [[1, 2]], "mean", "token IDs"),
        ([[1]] * 257, [[1]], "mean", "at most 256"),
    ],
    ids=str,
)
def test_what_tells_nothing_apart_is_refused(
    room: Room, positive: Any, negative: Any, method: str, words: str
) -> None:
    ending = room.make(positive, negative, method)
    assert isinstance(ending, Failed)
    assert words in ending.sentence


def test_it_is_stopped_between_two_slices(room: Room) -> None:
    room.room.ask(Examples(1, POSITIVE, NEGATIVE, "mean"))
    for _ in range(4):
        room.room.step()
    room.room.stop(1)
    assert isinstance(room.events[-1], Stopped)
    assert not room.room.has_work(beside_replies=False)


# --- in force -------------------------------------------------------------------------------------


def _moved(weights: Weights, folder: Path, layer: int) -> float:
    """How far from the wanted place the stream lies behind the first layer that is steered; in the
    layers before it nothing may have moved at all."""
    path = folder / "vector.gguf"
    rows = write_vector(path, weights.n_layer, weights.n_embd, spread=0.5)
    steered = Adapters(vectors=[ControlVector(str(path), 1.5, layer, layer)])
    off = Adapters(vectors=[ControlVector(str(path), 0.0)])
    found = []
    for adapters in (Adapters(), off, steered):
        probe = Probe(weights)
        probe.use(weights.adapter_set(adapters))
        looked = [each for each in probe.look(Asked([3, 9, 27, 12], ("residual",))) if each]
        found.append(looked[-1].arrays["residual"])
        probe.close()
    plain, zero, moved = found
    assert np.array_equal(plain, zero)
    assert np.array_equal(plain[:layer], moved[:layer])
    wanted = np.float32(1.5) * rows[layer]
    return float(np.abs(moved[layer] - plain[layer] - wanted).max() / np.abs(wanted).max())


def test_a_direction_is_added_behind_its_layer_and_nowhere_before(
    weights: Weights, tmp_path: Path
) -> None:
    assert _moved(weights, tmp_path, 1) < BOUND


@pytest.mark.soak
@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_in_real_files_too(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    weights: Weights = request.getfixturevalue(name)
    for layer in (1, weights.n_layer // 2, weights.n_layer - 1):
        assert _moved(weights, tmp_path, layer) < BOUND
