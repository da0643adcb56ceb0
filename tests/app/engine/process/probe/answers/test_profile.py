"""The time of one step by blocks: where it is cut, and that the parts are the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama
from probing import look, probe_of, some_ids, weights_of
from recurrent_gguf import tiny_jamba, tiny_mamba
from small_networks import small_network

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe import probe as probe_module
from app.engine.process.probe.answers.profile import RUNS, WARM_UP, borders_of, profile_step
from app.engine.process.probe.probe import Probe
from app.engine.protocol.machine_messages import StepProfiled
from app.refusal import Refusal

pytestmark = pytest.mark.weights

IDS = some_ids(40)


class Steps:
    """A clock that moves on by a second each time that it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def profile(probe: Probe, ids: list[int] = IDS, **options: Any) -> tuple[int, StepProfiled]:
    """The number of slices before the answer, and the answer."""
    *before, found = profile_step(probe, ids, 1, **options)
    assert before == [None] * len(before)
    assert found is not None
    return len(before), found


def test_each_block_lies_between_two_cuts(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=3))
    with weights_of(path, native_log) as weights, probe_of(weights) as probe:
        _, found = profile(probe, clock=Steps())
    # One second from one reading of the clock to the next: each block begins where one ended.
    assert (found.prepare, found.embedding, found.output) == (1000, 1000, 1000)
    assert found.attention == found.ffn == [1000, 1000, 1000]
    assert found.others == [0, 0, 0]
    assert found.total == 1000 * (1 + 1 + 2 * 3 + 1 + 1), "and what comes after the scores"
    assert found.plain == 1000
    assert (found.n_tokens, found.n_runs, found.n_threads) == (len(IDS), RUNS, 1)


@pytest.mark.parametrize("kind", ["grouped", "experts", "window", "capped"])
def test_the_parts_are_the_whole(kind: str, tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "small.gguf"
    small_network(path, kind)
    with weights_of(path, native_log) as weights, probe_of(weights) as probe:
        seconds = iter(range(10**6))
        _, found = profile(probe, clock=lambda: next(seconds) ** 1.01)
        n_layer = weights.n_layer
    assert len(found.attention) == len(found.ffn) == n_layer
    parts = [found.prepare, found.embedding, *found.attention, *found.ffn, found.output]
    assert all(each > 0 for each in parts)
    assert sum(parts) < found.total < sum(parts) + 2 * found.output


def test_blocks_with_a_state_have_times_of_their_own(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "jamba.gguf"
    tiny_jamba(path)
    with weights_of(path, native_log) as weights, probe_of(weights) as probe:
        _, found = profile(probe)
    assert [ms > 0 for ms in found.attention] == [False, True, False]
    assert [ms > 0 for ms in found.others] == [True, False, True]
    assert all(ms > 0 for ms in found.ffn)


def test_without_attention_there_is_no_time_of_it(tmp_path: Path, native_log: NativeLog) -> None:
    path = tmp_path / "mamba.gguf"
    tiny_mamba(path)
    with weights_of(path, native_log) as weights, probe_of(weights) as probe:
        _, found = profile(probe)
    assert found.attention == found.ffn == [0, 0]
    assert all(ms > 0 for ms in found.others)


@pytest.fixture
def weights(tmp_path: Path, native_log: NativeLog) -> Any:
    small_network(tmp_path / "small.gguf", "window")
    with weights_of(tmp_path / "small.gguf", native_log) as loaded:
        yield loaded


def test_it_goes_in_slices_and_leaves_nothing_behind(weights: Weights) -> None:
    with probe_of(weights) as probe:
        before = look(probe, IDS, ["logits", "residual"]).arrays
        told: list[tuple[int, int]] = []
        n_slices, _ = profile(probe, progress=lambda done, total: told.append((done, total)))
        assert n_slices >= 2 * (WARM_UP + RUNS)
        again = look(probe, IDS, ["logits", "residual"])
    assert again.n_read <= 1, "the text is there still"
    for name, values in before.items():
        assert again.arrays[name].tolist() == values.tolist(), "to the last bit"


def test_whoever_stops_between_two_runs_finds_the_text_again(weights: Weights) -> None:
    with probe_of(weights) as probe:
        asked = profile_step(probe, IDS, 1)
        for _ in range(8):
            next(asked)
        del asked
        assert probe.is_open
        assert look(probe, IDS, ["logits"]).n_read <= 1


def test_what_fails_in_the_middle_closes_the_context(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    with probe_of(weights) as probe:
        asked = profile_step(probe, IDS, 1)
        for _ in range(8):
            next(asked)
        monkeypatch.setattr(probe_module.llama, "llama_decode", lambda *_: -1)
        with pytest.raises(Refusal):
            list(asked)
        del asked
        assert not probe.is_open


def test_too_long_a_text_is_refused_in_words(weights: Weights) -> None:
    with probe_of(weights) as probe, pytest.raises(Refusal, match="context window"):
        list(profile_step(probe, [5] * 300, 1))


def test_a_graph_whose_blocks_cannot_be_told_apart_is_refused(weights: Weights) -> None:
    with probe_of(weights) as probe:
        look(probe, IDS, ["logits"])
        graph = probe.graph
        assert graph is not None
        borders = [border.ordinal for border in borders_of(graph)]
        assert borders == sorted(borders)
        assert len(borders) == len(set(borders)) == 2 * weights.n_layer + 2
        graph.missing["residual"] = "Its layers are no chain."
        with pytest.raises(Refusal, match="no chain"):
            list(profile_step(probe, IDS, 1))
