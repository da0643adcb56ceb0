"""Cuts while a token is replayed, against numpy that computes the same network without the part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Shape, tiny_llama
from native_session import load_in_float32, load_quietly
from one_token import D_HEAD, N_HEAD, N_KV, N_LAYER, Network, write_network
from recurrent_gguf import tiny_mamba

from app.engine.planning.estimate import MEAN_OVER
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.probe.probe import Asked, Looked, Probe
from app.engine.process.probe.room import ProbeRoom
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol.cut_messages import Cut, CutMode
from app.engine.protocol.inside_messages import Inside, LookInside
from app.engine.protocol.messages import Event, Failed, Finished
from app.refusal import Refusal

pytestmark = pytest.mark.weights

TOKEN = 40
TEXT = [40, 41, 42, 43, 44, 45, 46, 47, 48]
EVERYTHING = ["attention", "heads", "attn_out", "ffn_out", "residual", "lens", "logits"]
Values = np.ndarray[Any, Any]


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt2"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    return write_network(tmp_path_factory.mktemp("cuts") / "network.gguf", request.param)


@pytest.fixture(scope="module", params=["off", "on"])
def weights(
    request: pytest.FixtureRequest, network: Network, native_log: NativeLog
) -> Iterator[Weights]:
    weights = load_in_float32(network.path, native_log, request.param)
    yield weights
    weights.close()


@pytest.fixture
def probe(weights: Weights) -> Iterator[Probe]:
    made = Probe(weights, traits=traits_of(weights))
    yield made
    made.close()


def look(
    probe: Probe,
    ids: Sequence[int],
    cuts: Sequence[Cut] = (),
    mode: CutMode = "zero",
    mean_tokens: int | None = None,
    want: Sequence[str] = EVERYTHING,
) -> Looked:
    asked = Asked(ids, want, cuts=cuts, cut_mode=mode, mean_tokens=mean_tokens)
    *_, found = probe.look(asked)
    assert found is not None
    return found


def tolerance(network: Network) -> float:
    """Of float32, or of the half precision of GELU's table and flash attention, of scores and
    writes up to about 8."""
    return 8 * N_LAYER * 2.0**-12


# --- zero -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", range(N_LAYER))
def test_without_a_head_as_numpy_computes_it(network: Network, probe: Probe, layer: int) -> None:
    def without(at: int, heads: Values) -> Values:
        if at == layer:
            heads[2 * D_HEAD : 3 * D_HEAD] = 0
        return heads

    expected = network.run(TOKEN, change_heads=without)
    found = look(probe, [TOKEN], [Cut("head", layer, 2)])
    size = tolerance(network)
    np.testing.assert_allclose(found.arrays["attn_out"], np.stack(expected.attn), atol=size)
    np.testing.assert_allclose(found.arrays["logits"], expected.logits, atol=size)
    whole = look(probe, [TOKEN])
    assert np.abs(found.arrays["logits"] - whole.arrays["logits"]).max() > 4 * size
    assert not found.arrays["heads"][layer, 2 * D_HEAD : 3 * D_HEAD].any()


def test_a_kv_head_is_all_queries_of_its_group(network: Network, probe: Probe) -> None:
    n_kv = N_HEAD if network.architecture == "gpt2" else N_KV
    size = N_HEAD // n_kv
    group = look(probe, TEXT, [Cut("kv_head", 1, 1)])
    heads = [Cut("head", 1, head) for head in range(size, 2 * size)]
    np.testing.assert_array_equal(group.arrays["logits"], look(probe, TEXT, heads).arrays["logits"])
    zeros = (group.arrays["heads"][1].reshape(N_HEAD, -1) == 0).all(axis=1)
    assert zeros.tolist() == [size <= head < 2 * size for head in range(N_HEAD)]


def test_without_all_heads_attention_writes_nothing_but_its_bias(
    network: Network, probe: Probe
) -> None:
    found = look(probe, TEXT, [Cut("head", 1, head) for head in range(N_HEAD)])
    bias = network.tensors.get("blk.1.attn_output.bias", np.zeros(1))
    np.testing.assert_allclose(
        found.arrays["attn_out"][1],
        np.broadcast_to(bias, found.arrays["attn_out"][1].shape),
        atol=1e-6,
    )
    assert found.arrays["attn_out"][0].any()


@pytest.mark.parametrize("kind", ["attention", "ffn", "layer"])
@pytest.mark.parametrize("layer", [0, N_LAYER - 1])
def test_without_a_block_as_numpy_computes_it(
    network: Network, probe: Probe, kind: Any, layer: int
) -> None:
    blocks = {"attention": ["attn"], "ffn": ["ffn"], "layer": ["attn", "ffn"]}[kind]

    def without(at: int, block: str, write: Values) -> Values:
        return np.zeros_like(write) if at == layer and block in blocks else write

    expected = network.run(TOKEN, change_write=without)
    found = look(probe, [TOKEN], [Cut(kind, layer)])
    np.testing.assert_allclose(found.arrays["logits"], expected.logits, atol=tolerance(network))
    for block in blocks:
        assert not found.arrays[f"{block}_out"][layer].any()


# --- mean -----------------------------------------------------------------------------------------


def heads_along(probe: Probe, ids: Sequence[int]) -> Values:
    """[n_tok, n_layer, n_head · d_head], each position replayed by itself."""
    return np.stack(
        [look(probe, ids[:n], want=["heads"]).arrays["heads"] for n in range(1, len(ids) + 1)]
    )


def test_a_mean_is_that_of_the_positions(network: Network, probe: Probe) -> None:
    expected = heads_along(probe, TEXT).mean(axis=0)
    cuts = [Cut("head", 0, 1)]
    found = look(probe, TEXT, cuts, "mean")
    own = slice(D_HEAD, 2 * D_HEAD)
    size = tolerance(network)
    np.testing.assert_allclose(found.arrays["heads"][0, own], expected[0, own], atol=size)
    assert found.mean_over == len(TEXT)
    # Of the first tokens alone, when those are the prompt
    expected = heads_along(probe, TEXT[:4]).mean(axis=0)
    found = look(probe, TEXT, cuts, "mean", mean_tokens=4)
    np.testing.assert_allclose(found.arrays["heads"][0, own], expected[0, own], atol=size)
    assert found.mean_over == 4


@pytest.mark.parametrize("kind", ["attention", "ffn"])
def test_a_block_is_replaced_by_its_own_mean(network: Network, probe: Probe, kind: Any) -> None:
    name = {"attention": "attn_out", "ffn": "ffn_out"}[kind]
    for layer in (0, N_LAYER - 1):  # the last one has only rows whose scores are wanted
        writes = [
            look(probe, TEXT[:n], want=[name]).arrays[name][layer] for n in range(1, len(TEXT) + 1)
        ]
        found = look(probe, TEXT, [Cut(kind, layer)], "mean")
        np.testing.assert_allclose(
            found.arrays[name][layer], np.mean(writes, axis=0), atol=tolerance(network)
        )


def test_of_a_long_text_the_mean_is_over_its_last_positions(
    tmp_path: Path, native_log: NativeLog
) -> None:
    """With what comes before in the cells, and without (a window that has moved on)."""
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, kind="f32")
    weights = load_in_float32(path, native_log, n_ctx=512)
    ids = np.random.default_rng(3).integers(20, 200, MEAN_OVER + 37).tolist()
    probe = Probe(weights)
    try:
        expected = heads_along(probe, ids)[-MEAN_OVER:, 1].mean(axis=0)
        cuts = [Cut("kv_head", 1, 0)]
        shared = look(probe, ids, cuts, "mean")
        assert shared.mean_over == MEAN_OVER
        half = len(expected) // 2
        np.testing.assert_allclose(shared.arrays["heads"][1, :half], expected[:half], atol=1e-4)
        probe.close()
        probe._means = None
        probe._traits = type(probe._traits)(is_recurrent=True)  # nothing can be gone on from
        anew = look(probe, ids, cuts, "mean")
        np.testing.assert_allclose(anew.arrays["heads"][1], shared.arrays["heads"][1], atol=1e-4)
    finally:
        probe.close()
        weights.close()


def test_a_mean_is_read_once_per_text(
    network: Network, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(probe, TEXT, [Cut("head", 0, 1)], "mean", mean_tokens=6)
    n_decoded: list[int] = []
    decode = probe._decode

    def counting(tokens: Sequence[int], *args: Any, **fields: Any) -> None:
        n_decoded.append(len(tokens))
        decode(tokens, *args, **fields)

    monkeypatch.setattr(probe, "_decode", counting)
    look(probe, TEXT, [Cut("ffn", 1)], "mean", mean_tokens=6, want=["logits"])
    assert n_decoded == [1]  # the token itself
    n_decoded.clear()
    look(probe, TEXT[:5], [Cut("ffn", 1)], "mean", want=["logits"])
    assert sum(n_decoded) > 1


# --- nothing is harmed ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def test_cutting_nothing_changes_nothing(name: str, request: pytest.FixtureRequest) -> None:
    """To the last bit, whatever was cut, averaged and looked at in between."""
    weights: Weights = request.getfixturevalue(name)
    ids = weights.vocabulary.tokenize("The capital of France is", False, True)
    probe = Probe(weights, traits=traits_of(weights))
    try:
        before = look(probe, ids)
        empty = look(probe, ids, [], "mean")
        cut = look(probe, ids, [Cut("layer", 3), Cut("head", 8, 1)], "mean")
        after = look(probe, ids)
    finally:
        probe.close()
    assert np.abs(cut.arrays["logits"] - before.arrays["logits"]).max() > 0.1
    for found in (empty, after):
        for array in before.arrays:
            np.testing.assert_array_equal(found.arrays[array], before.arrays[array])


def test_attention_is_read_right_after_a_mean(network: Network, probe: Probe) -> None:
    """The mean's cells lie beside the text's and are given back: nobody may be taken for them."""
    fresh = [look(probe, TEXT[:n], want=["attention"]).arrays["attention"] for n in (7, 8, 9)]
    for n in (9, 7, 8, 9):
        look(probe, TEXT[:n], [Cut("head", 0, 1)], "mean", want=["logits"])
        found = look(probe, TEXT[:n], want=["attention"]).arrays["attention"]
        np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-3)
        np.testing.assert_allclose(found, fresh[n - 7], atol=1e-3)


def test_a_question_that_is_stopped_on_the_way_leaves_nothing_behind(
    tmp_path: Path, native_log: NativeLog
) -> None:
    """Wherever it is: the cells of a mean lie in a sequence of their own, which is dropped."""
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, kind="f32")
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    ids = list(range(30, 30 + 70))
    command = LookInside(1, ids, ["logits"], cuts=[Cut("head", 0, 1)])
    events: list[Event] = []
    try:
        whole = answer(weights, command)
        room = ProbeRoom(weights, lambda: (), traits_of(weights), events.append)
        n_steps = 0
        while not any(isinstance(event, Finished) for event in events):
            room.ask(command)
            for _ in range(n_steps := n_steps + 1):
                if room.has_work(beside_replies=False):
                    room.step()
            room.stop(1)
            memory = llama.llama_get_memory(room._probe._context)
            assert llama.llama_memory_seq_pos_max(memory, 1) == -1
        room.close()
    finally:
        weights.close()
    assert n_steps > 5
    assert isinstance(whole, Finished)
    found, last = whole.result, events[-1].result  # type: ignore[union-attr]
    assert isinstance(found, Inside)
    assert isinstance(last, Inside)
    assert last.floats == found.floats


# --- what cannot be cut ---------------------------------------------------------------------------


def refusal(probe: Probe, cuts: Sequence[Cut]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        look(probe, TEXT, cuts)
    return caught.value


def test_without_heads_there_is_a_reason(tmp_path: Path, native_log: NativeLog) -> None:
    tiny_mamba(tmp_path / "mamba.gguf")
    weights = load_quietly(tmp_path / "mamba.gguf", native_log, n_ctx=256, n_threads=1)
    probe = Probe(weights, traits=traits_of(weights))
    try:
        assert refusal(probe, [Cut("head", 0, 0)]).kind == "unsupported"
        assert refusal(probe, [Cut("attention", 0)]).kind == "unsupported"
        whole, cut = look(probe, TEXT), look(probe, TEXT, [Cut("layer", 1)], "mean")
        assert not np.array_equal(whole.arrays["logits"], cut.arrays["logits"])
    finally:
        probe.close()
        weights.close()


def answer(weights: Weights, command: LookInside) -> Event:
    events: list[Event] = []
    room = ProbeRoom(weights, lambda: (), traits_of(weights), events.append)
    room.ask(command)
    while room.has_work(beside_replies=False):
        room.step()
    room.close()
    return events[-1]


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (Cut("head", 2, 0), "layers 0 to 1"),
        (Cut("head", 0, 4), "heads 0 to 3"),
        (Cut("kv_head", 0, 2), "KV heads 0 to 1"),
        (Cut("ffn", 0, 1), "as a whole"),
    ],
)
def test_what_there_is_not_is_refused_in_words(
    cut: Cut, words: str, tmp_path: Path, native_log: NativeLog
) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_llama(path, shape=Shape(n_layer=2, n_head=4, n_head_kv=2))
    weights = load_quietly(path, native_log, n_ctx=256, n_threads=1)
    try:
        event = answer(weights, LookInside(1, TEXT, ["logits"], cuts=[cut]))
        good = answer(weights, LookInside(1, TEXT, ["logits"], cuts=[Cut("head", 0, 3)]))
        bad = answer(weights, LookInside(1, TEXT, ["logits"], mean_tokens=len(TEXT) + 1))
    finally:
        weights.close()
    assert isinstance(event, Failed)
    assert words in event.sentence
    assert isinstance(good, Finished)
    assert isinstance(good.result, Inside)
    assert good.result.mean_over == len(TEXT)
    assert isinstance(bad, Failed)
