"""What the probe finds in small files, against a transformer written in numpy: float32 all the way,
so that nothing but the order of sums differs. Flash attention alone rounds, to float16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from gguf_writer import bpe_vocabulary
from probing import PLAIN, distance, look, probe_of, some_ids, walk, weights_of
from reference_checks import (
    EXACT,
    FLASH,
    FLASH_OR_NOT,
    HALF,
    PIECES,
    Case,
    all_distances,
    check_lens,
    check_rotation,
    check_rows,
    piecewise,
)
from reference_network import Network
from small_networks import NETWORKS, SCORE_CAP, WINDOW, small_network

from app.engine.process.native.native import NativeLog
from app.engine.process.probe.probe import N_LENS
from app.engine.protocol.inside_messages import AXES, WANTED

pytestmark = pytest.mark.weights

IDS: Final = some_ids(21)
EACH: Final = pytest.mark.parametrize("kind", NETWORKS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, native_log: NativeLog) -> Iterator[Any]:
    """A small network, with flash attention or without: each is looked into once."""
    folder = tmp_path_factory.mktemp("small")
    cases: dict[tuple[str, str], Case] = {}

    def case(kind: str, flash: str) -> Case:
        if (kind, flash) not in cases:
            path = folder / f"{kind}.gguf"
            small_network(path, kind)
            options = PLAIN | {"flash_attention": flash}
            with weights_of(path, native_log, **options) as weights, probe_of(weights) as probe:
                found = walk(probe, IDS, set(WANTED) - {"lens"})
                found[-1] = look(probe, IDS, targets=[IDS[0], 7]).arrays
                cases[kind, flash] = Case(path, IDS, found)
        return cases[kind, flash]

    yield case
    cases.clear()


@EACH
def test_the_whole_way_is_exact_in_float32(small: Any, kind: str) -> None:
    case = small(kind, "off")
    network = Network(case.path)
    reading = network.read(IDS)
    for at, arrays in enumerate(case.found):
        for array, wanted in reading.at(at).items():
            assert distance(arrays[array], wanted).max() < EXACT, (at, array)
    streams = np.stack([layer[-1] for layer in reading.residual])
    assert distance(case.last["result_norm"], network.result_norm(streams[-1])) < EXACT
    assert distance(case.last["logits"], network.scores(streams)[-1]) < EXACT


def test_a_token_passes_the_experts_that_the_router_chooses(small: Any) -> None:
    case = small("experts", "off")
    reading = Network(case.path).read(IDS)
    for at, arrays in enumerate(case.found):
        chosen = np.stack([layer[at] for layer in reading.experts])
        shares = np.stack([layer[at] for layer in reading.expert_weights])
        assert arrays["experts"].dtype == np.int32
        assert arrays["experts"].tolist() == chosen.tolist()
        assert distance(arrays["expert_weights"], shares).max() < EXACT
    assert len({tuple(arrays["experts"][0]) for arrays in case.found}) > 3, "they differ"


@EACH
def test_with_flash_attention_only_attention_rounds(small: Any, kind: str) -> None:
    case = small(kind, "on")
    network = Network(case.path, half_cache=True)
    reading = piecewise(network, case.found)
    for array, apart in all_distances(reading, case.found).items():
        assert apart.max() < (EXACT if array in PIECES else HALF), array
    stream = case.last["residual"][-1:]
    assert distance(case.last["logits"], network.scores(stream)[0]) < EXACT


def test_the_small_networks_have_what_they_are_for(small: Any) -> None:
    """Or they would prove nothing."""
    grouped = small("grouped", "off").last
    assert grouped["q_after"].shape[1] == 2 * grouped["k_after"].shape[1]
    window = small("window", "off")
    assert len(IDS) > 2 * WINDOW
    hidden = (window.last["attention"] == 0).sum(axis=(1, 2)) // window.last["attention"].shape[1]
    assert hidden.tolist() == [len(IDS) - WINDOW] * 5 + [0] + [len(IDS) - WINDOW]
    capped = small("capped", "off")
    assert 0.5 * SCORE_CAP < np.abs(capped.last["logits"]).max() < SCORE_CAP
    for cap in ("_attention_cap", "_score_cap"):
        network = Network(capped.path)
        setattr(network, cap, 0.0)
        reading = network.read(IDS)
        logits = network.scores(reading.residual[-1][-1:])[0]
        assert distance(capped.last["logits"], logits) > 0.02, "it plays a part"


@EACH
@FLASH_OR_NOT
def test_rows_sum_to_one_over_what_a_window_shows(small: Any, kind: str, flash: str) -> None:
    check_rows(small(kind, flash))


@EACH
def test_flash_attention_on_and_off_agree_in_float32(small: Any, kind: str) -> None:
    on, off = (small(kind, flash).last for flash in FLASH)
    for array in (*PIECES, "attention", "heads", "logits", "result_norm"):
        assert distance(on[array], off[array]).max() < 2 * HALF, array


@EACH
@FLASH_OR_NOT
def test_what_a_head_would_bring_has_the_size_of_its_value_mixed(
    small: Any, kind: str, flash: str
) -> None:
    """Values are stored in the cache, in half precision where flash attention reads them so."""
    case = small(kind, flash)
    network = Network(case.path)
    reading = piecewise(network, case.found)
    for layer in range(network.n_layer):
        found = case.last["value_norms"][layer]
        wanted = network.value_norms(layer, reading)
        is_seen = reading.visible[layer][-1]
        assert found[:, is_seen] == pytest.approx(wanted[:, is_seen], rel=HALF)
        assert (found[:, ~is_seen] == 0).all()


@EACH
@FLASH_OR_NOT
def test_each_row_of_the_lens_is_what_the_file_says(small: Any, kind: str, flash: str) -> None:
    case = small(kind, flash)
    check_lens(case)
    said = case.exact.scores(case.last["residual"])
    best = -np.sort(-said, axis=1)[:, :N_LENS]
    assert distance(case.last["lens_logits"], best).max() < EXACT
    powers = np.exp(said.astype(np.float64))
    assert case.last["lens_total"] == pytest.approx(np.log(powers.sum(axis=1)), rel=1e-4)


@EACH
def test_turning_small_queries_by_hand_gives_the_graph_s(small: Any, kind: str) -> None:
    check_rotation(small(kind, "off"))


@EACH
def test_every_array_comes_with_its_axes(small: Any, kind: str) -> None:
    arrays = small(kind, "off").last
    network = Network(small(kind, "off").path)
    sizes = {
        "n_layer": network.n_layer,
        "n_embd": network.n_embd,
        "n_head": network.n_head,
        "n_kv_head": network.n_kv_head,
        "d_head": network.d_head,
        "n_head * d_head": network.n_head * network.d_head,
        "n_tok": len(IDS),
        "n_vocab": len(bpe_vocabulary()),
        "n_lens": N_LENS,
        "n_targets": 2,
        "n_used": 2,
    }
    has_experts = kind == "experts"
    assert set(arrays) == {name for name in AXES if has_experts or "expert" not in name}
    for name in arrays:
        axes = AXES[name]
        assert arrays[name].shape == tuple(sizes[axis] for axis in axes), name
        assert np.isfinite(arrays[name]).all(), name
