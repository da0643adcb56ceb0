"""The machine of a file: what its header and its tensors say, block by block."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from gguf_writer import Shape, Tensor, Typed, tiny_llama, write_gguf
from recurrent_gguf import tiny_jamba

from app.gguf.header import read_header
from app.insight.inside.machine import Block, Heads, Hidden, Machine, machine_of
from app.library.header_shown import read_shown


def machine_at(path: Path) -> Machine:
    shown = read_shown(path)
    return machine_of(shown.header, shown.tensors, missing=shown.missing)


def kinds(blocks: tuple[Block, ...]) -> list[str]:
    return [block.kind for block in blocks]


def blank(*shape: int) -> Tensor:
    return Tensor(shape, [0.0] * math.prod(shape))


def test_the_starter_is_thirty_equal_layers(starter_gguf: Path) -> None:
    machine = machine_at(starter_gguf)
    (fold,) = machine.folds
    assert (fold.first, fold.last, len(fold)) == (0, 29, 30)
    assert kinds(machine.layers[0]) == ["attention", "ffn"]
    attention, ffn = machine.layers[0]
    assert attention.heads == Heads(n_head=9, n_kv=3, d_key=64, d_value=64)
    assert ffn.hidden == Hidden(size=1536, is_gated=True)
    assert (machine.n_embd, machine.n_vocab) == (576, 49152)
    # 576 · (576 + 2 · 192 + 576) of matrices and a norm; 4.5 + 0.5 bits of Q4_1
    assert attention.n_params == 576 * 1536 + 576
    assert attention.bits_per_weight == pytest.approx(5.0, abs=0.02)
    assert attention.norms == ("attn_norm.weight",)
    assert len(fold.column(1)) == 30
    assert fold.column(1)[29] == machine.layers[29][1]


def test_which_layers_of_gemma_have_the_window_is_the_engines_to_say(gemma_gguf: Path) -> None:
    header = read_header(gemma_gguf)
    unknown = machine_of(header)
    assert unknown.window == 512
    assert {layer[0].heads.window for layer in unknown.layers if layer[0].heads} == {None}
    assert [(f.first, f.last) for f in unknown.folds] == [(0, 17)]
    local = [n for n in range(18) if n % 6 != 5]
    known = machine_of(header, window_layers=local)
    assert [(f.first, f.last) for f in known.folds] == [
        (0, 4),
        (5, 5),
        (6, 10),
        (11, 11),
        (12, 16),
        (17, 17),
    ]
    first = known.layers[0][0]
    assert first.heads == Heads(4, 1, 256, 256, window=512, has_qk_norm=True)
    assert known.layers[5][0].heads == Heads(4, 1, 256, 256, window=0, has_qk_norm=True)
    assert first.norms == (
        "attn_k_norm.weight",
        "attn_norm.weight",
        "attn_q_norm.weight",
        "post_attention_norm.weight",
    )


def test_a_header_that_says_which_layers_have_the_window_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "window.gguf"
    tiny_llama(
        path,
        metadata={
            "llama.attention.sliding_window": 64,
            "llama.attention.sliding_window_pattern": Typed("array:bool", [True, False]),
        },
    )
    heads = [layer[0].heads for layer in machine_at(path).layers]
    assert [each.window for each in heads if each] == [64, 0]


def test_experts_are_counted_and_their_router_is_theirs(tmp_path: Path) -> None:
    path = tmp_path / "experts.gguf"
    tiny_llama(
        path,
        shape=Shape(n_layer=1, n_expert=5),
        extra_tensors={
            f"blk.0.ffn_{name}_shexp.weight": blank(*shape)
            for name, shape in (("up", (64, 64)), ("gate", (64, 64)), ("down", (64, 64)))
        },
    )
    ((_, ffn),) = machine_at(path).layers
    assert ffn.hidden == Hidden(size=64, is_gated=True, n_expert=5, n_used=2, n_shared=1)
    assert ffn.n_params == 3 * 64 * 64 * (5 + 1) + 64 * 5 + 64


def test_a_gate_in_one_matrix_with_what_it_gates(tmp_path: Path) -> None:
    path = tmp_path / "fused.gguf"
    tiny_llama(path, shape=Shape(n_layer=1, n_ff=32))
    header = read_header(path)
    tensors = {
        t.name: t.shape for t in header.tensors if t.name not in ("blk.0.ffn_gate.weight",)
    } | {"blk.0.ffn_up.weight": (64, 64), "blk.0.attn_q.bias": (64,), "blk.0.attn_sinks": (4,)}
    write_gguf(
        path,
        metadata={k: v for k, v in header.metadata.items() if k.startswith("llama.")},
        tensors={name: blank(*shape) for name, shape in tensors.items()},
    )
    ((attention, ffn),) = machine_at(path).layers
    assert ffn.hidden == Hidden(size=32, is_gated=True)
    assert attention.heads == Heads(4, 2, 16, 16, has_bias=True, has_sinks=True)


def test_a_layer_with_a_state_is_no_attention(tmp_path: Path) -> None:
    path = tmp_path / "jamba.gguf"
    tiny_jamba(path)
    machine = machine_at(path)
    assert [kinds(layer) for layer in machine.layers] == [
        ["state", "ffn"],
        ["attention", "ffn"],
        ["state", "ffn"],
    ]
    assert machine.layers[0][0].norms[0] == "attn_norm.weight"
    assert machine.layers[0][0].heads is None
    assert [len(fold) for fold in machine.folds] == [1, 1, 1]


def test_a_tensor_that_belongs_nowhere_is_still_counted(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    tiny_llama(
        path,
        extra_tensors={
            "rope_freqs.weight": blank(8),
            "blk.1.something.weight": blank(8),
            "blk.99.attn_q.weight": blank(8),
        },
    )
    machine = machine_at(path)
    assert [part.name for part in machine.other.parts] == [
        "rope_freqs.weight",
        "blk.99.attn_q.weight",
    ]
    assert kinds(machine.layers[1]) == ["attention", "ffn", "other"]
    assert [len(fold) for fold in machine.folds] == [1, 1]
    tensors = read_header(path).tensors
    assert sum(len(block.parts) for block in machine.blocks) == len(tensors)
