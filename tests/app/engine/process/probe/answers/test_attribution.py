"""Contributions to a score, against a forward pass and a formula of numpy's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import tiny_llama, tiny_lora
from native_session import load_in_float32, load_quietly
from one_token import D_HEAD, N_HEAD, N_LAYER, Network, Pass, write_network
from recurrent_gguf import tiny_jamba, tiny_mamba

from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe.answers.attribution import BENT, LORA, NORM_BEHIND_HEADS, attribute
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.probe import Asked, Probe
from app.engine.process.probe.room import ProbeRoom
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol import wire
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.inside_messages import AttributeToken, TokenAttributed
from app.engine.protocol.messages import Event, Failed, Finished
from app.insight.inside.attribution import Attribution
from app.refusal import Refusal

pytestmark = pytest.mark.weights

TOKEN, TARGET, OTHER = 40, 50, 60
Values = np.ndarray[Any, Any]


def found_by(
    weights: Weights, ids: list[int], target: int | None = None, other: int | None = None
) -> Attribution:
    probe = Probe(weights, traits=traits_of(weights))
    tensors = FileTensors(Path(weights.loaded.path))
    try:
        *_, last = attribute(probe, weights, lambda: tensors, ids, target, other)
    finally:
        probe.close()
    assert last is not None
    return last.found


@pytest.fixture(params=["llama", "gemma2", "gpt2"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Network:
    return write_network(tmp_path / "network.gguf", request.param)


@pytest.fixture(params=["off", "on"])
def weights(
    request: pytest.FixtureRequest, network: Network, native_log: NativeLog
) -> Iterator[Weights]:
    loaded = load_in_float32(network.path, native_log, request.param)
    yield loaded
    loaded.close()


def tolerance(network: Network, weights: Weights) -> float:
    """Of one contribution, in logits: float32's own, 1e-4, where all of it is computed in float32.
    llama.cpp takes GELU from a table of half precision, and its flash attention makes keys and
    values half precision: 11 bits, in each of three layers, of numbers up to about 4."""
    is_float32 = network.architecture == "llama" and not weights.loaded.flash_attention
    return 1e-4 if is_float32 else N_LAYER * 4 * 2.0**-12


def expected_direction(network: Network, run: Pass) -> Values:
    """Of the formula, from the file: (W_U[t] − W_U[o]) ⊙ g ÷ rms."""
    w = network.tensors
    output = w.get("output.weight", w["token_embd.weight"])
    x = run.stream - run.stream.mean() if network.architecture == "gpt2" else run.stream
    along = (output[TARGET] - output[OTHER]) * w["output_norm.weight"]
    along = along / np.sqrt(np.mean(x * x) + 1e-5)
    return along - along.mean() if network.architecture == "gpt2" else along


def test_contributions_are_those_of_numpy(network: Network, weights: Weights) -> None:
    run = network.run(TOKEN)
    found = found_by(weights, [TOKEN], TARGET, OTHER)
    real = run.scores[TARGET] - run.scores[OTHER]
    size = tolerance(network, weights)
    assert found.difference == pytest.approx(real, abs=size)
    assert found.shown_difference == pytest.approx(run.logits[TARGET] - run.logits[OTHER], abs=size)
    direction = expected_direction(network, run)
    assert found.embedding == pytest.approx(run.embedding @ direction, abs=size)
    np.testing.assert_allclose(found.attn, np.stack(run.attn) @ direction, atol=size)
    np.testing.assert_allclose(found.ffn, np.stack(run.ffn) @ direction, atol=size)
    assert not found.others.any()
    assert not found.missing


def test_sum_and_unexplained_make_up_the_difference(network: Network, weights: Weights) -> None:
    found = found_by(weights, [TOKEN], TARGET, OTHER)
    entries = [found.embedding, *found.attn, *found.ffn, found.norm_bias, found.output_bias]
    assert sum(entries) + found.unexplained == pytest.approx(found.difference, rel=1e-12)
    assert abs(found.unexplained) < 1e-3 * abs(found.difference)
    assert (found.norm_bias != 0) == (network.architecture == "gpt2")


def test_heads_are_slices_of_the_mixing_matrix(network: Network, weights: Weights) -> None:
    """Each head by itself, through what stands behind it, taken as the scale that it was."""
    run = network.run(TOKEN)
    found = found_by(weights, [TOKEN], TARGET, OTHER)
    direction, size = expected_direction(network, run), tolerance(network, weights)
    for layer in range(N_LAYER):
        at = f"blk.{layer}."
        mixing, behind = network.tensors[at + "attn_output.weight"], np.ones(1)
        if network.architecture == "gemma2":
            rms = np.sqrt(np.mean(run.mixed[layer] ** 2) + 1e-5)
            behind = network.tensors[at + "post_attention_norm.weight"] / rms
        for head in range(N_HEAD):
            own = slice(head * D_HEAD, (head + 1) * D_HEAD)
            share = mixing[:, own] @ run.heads[layer][own] * behind @ direction
            assert found.heads[layer, head] == pytest.approx(share, abs=size)
        bias = network.tensors.get(at + "attn_output.bias", np.zeros(1))
        assert found.attn_bias[layer] == pytest.approx(float(np.sum(bias * direction)), abs=size)
    assert np.abs(found.between_heads).max() < 1e-4
    if network.architecture == "gpt2":
        assert np.abs(found.attn_bias).min() > 1e-3


def test_later_positions_are_summed_up_as_well(network: Network, weights: Weights) -> None:
    """Of a longer text, where attention mixes, everything still adds up."""
    ids = [TOKEN, 41, 42, 43, 44, 45, 46]
    found = found_by(weights, ids, TARGET, OTHER)
    assert abs(found.unexplained) < 1e-3 * max(abs(found.difference), 1.0)
    assert np.abs(found.between_heads).max() < 1e-3


def test_by_default_the_best_token_against_the_second(network: Network, weights: Weights) -> None:
    best, second = np.argsort(-network.run(TOKEN).logits)[:2]
    found = found_by(weights, [TOKEN])
    assert (found.target, found.other) == (best, second)
    assert found.difference > 0
    found = found_by(weights, [TOKEN], other=int(best))
    assert (found.target, found.other) == (second, best)


# --- real files -----------------------------------------------------------------------------------


def rounding(weights: Weights, ids: list[int], found: Attribution) -> float:
    """By how much the scores of a quantised product may be off. ggml rounds the vector that goes
    in to 8 bits, in blocks of up to 256: each number by at most 1/254 of its block's largest."""
    probe = Probe(weights, traits=traits_of(weights))
    *_, looked = probe.look(Asked(ids, ["output_in"]))
    graph = probe.graph
    assert looked is not None
    assert graph is not None
    assert graph.output is not None
    probe.close()
    tensors = FileTensors(Path(weights.loaded.path))
    n = looked.arrays["output_in"].astype(np.float64)
    total = 0.0
    for token in (found.target, found.other):
        row = np.abs(tensors.rows(graph.output.weight, token, 1)[0])
        for start in range(0, len(n), 256):
            block = slice(start, start + 256)
            total += np.abs(n[block]).max() / 254 * row[block].sum()
    return total


@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_only_rounding_is_unexplained(name: str, request: pytest.FixtureRequest) -> None:
    weights: Weights = request.getfixturevalue(name)
    ids = weights.vocabulary.tokenize("The capital of France is", False, True)
    found = found_by(weights, ids)
    print(f"{name}: {found.unexplained:.4f} of {found.difference:.4f} unexplained")
    assert abs(found.unexplained) < rounding(weights, ids, found)
    assert not np.isnan(found.heads).any()


# --- what cannot be had ---------------------------------------------------------------------------


def test_with_an_adapter_heads_are_missing_for_a_reason(
    tmp_path: Path, native_log: NativeLog
) -> None:
    path, adapter = tmp_path / "tiny.gguf", tmp_path / "lora.gguf"
    tiny_llama(path, kind="f32")
    tiny_lora(adapter)
    weights = load_quietly(
        path, native_log, n_ctx=256, n_threads=1, loras=[Lora(str(adapter), 1.0)]
    )
    try:
        found = found_by(weights, [TOKEN, 41], TARGET, OTHER)
    finally:
        weights.close()
    assert found.missing == {"heads": LORA}
    assert np.isnan(found.heads).all()
    assert abs(found.unexplained) < 1e-3 * max(abs(found.difference), 1.0)


@pytest.mark.parametrize("write", [tiny_mamba, tiny_jamba])
def test_blocks_that_are_neither_have_their_own_place(
    write: Any, tmp_path: Path, native_log: NativeLog
) -> None:
    write(tmp_path / "tiny.gguf")
    weights = load_quietly(tmp_path / "tiny.gguf", native_log, n_ctx=256, n_threads=1)
    try:
        found = found_by(weights, [TOKEN, 41], TARGET, OTHER)
    finally:
        weights.close()
    assert found.others.any()
    assert abs(found.unexplained) < 1e-3 * max(abs(found.difference), 1.0)


def test_a_file_that_is_gone_is_refused(tmp_path: Path, native_log: NativeLog) -> None:
    path = write_network(tmp_path / "network.gguf", "llama").path
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    try:
        path.rename(tmp_path / "elsewhere.gguf")
        with pytest.raises(Refusal) as caught:
            found_by(weights, [TOKEN], TARGET, OTHER)
    finally:
        weights.close()
    assert caught.value.kind == "missing_file"


# --- over the wire --------------------------------------------------------------------------------


def answered(weights: Weights, command: AttributeToken) -> Event:
    events: list[Event] = []
    room = ProbeRoom(weights, lambda: (), traits_of(weights), events.append)
    room.ask(command)
    while room.has_work(beside_replies=False):
        room.step()
    room.close()
    return events[-1]


def test_the_answer_travels_whole(network: Network, weights: Weights) -> None:
    event = answered(weights, AttributeToken(7, [TOKEN, 41]))
    again = wire.decode_event(wire.encode_frame(event)[4:])
    assert isinstance(again, Finished)
    told = again.result
    assert isinstance(told, TokenAttributed)
    arrays = {a.name: np.frombuffer(a.values.data, "<f4").reshape(a.shape) for a in told.floats}
    assert arrays["heads"].shape == (N_LAYER, N_HEAD)
    blocks = sum(float(arrays[name].sum()) for name in ("attn", "ffn", "others"))
    entries = told.embedding + blocks + told.norm_bias + told.output_bias + told.unexplained
    assert entries == pytest.approx(told.difference, abs=1e-4)
    within = np.nansum(arrays["heads"], axis=1) + arrays["attn_bias"] + arrays["between_heads"]
    np.testing.assert_allclose(within, arrays["attn"], atol=1e-4)
    is_gemma = network.architecture == "gemma2"
    assert (NORM_BEHIND_HEADS in told.notes) == is_gemma
    bent = BENT.format(before=told.difference, after=told.shown_difference)
    assert (bent in told.notes) == is_gemma


def test_one_token_against_itself_is_refused(weights: Weights) -> None:
    event = answered(weights, AttributeToken(7, [TOKEN], TARGET, TARGET))
    assert isinstance(event, Failed)
    assert event.kind == "bad_setting"


def test_only_some_rows_are_in_memory_at_once(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrices are read in chunks; the answer does not depend on their size."""
    whole = found_by(weights, [TOKEN], TARGET, OTHER)
    monkeypatch.setattr("app.engine.process.probe.file_tensors.CHUNK_BYTES", 4 * 64 * 7)
    sizes: list[int] = []
    read = FileTensors.rows

    def rows(self: FileTensors, name: str, first: int, count: int) -> Values:
        sizes.append(count)
        return read(self, name, first, count)

    monkeypatch.setattr(FileTensors, "rows", rows)
    chunked = found_by(weights, [TOKEN], TARGET, OTHER)
    assert max(sizes) == 7
    np.testing.assert_allclose(chunked.heads, whole.heads, atol=1e-5)
