"""The machine in rows: what stands where, and that nothing is said that the file doesn't say."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_writer import Shape, tiny_llama
from recurrent_gguf import tiny_jamba

from app.engine.protocol.machine_messages import StepProfiled
from app.gguf.header import read_header
from app.insight.inside.machine import Heads, Machine, machine_of
from ui.section.inside.machine.rows import (
    BlockRow,
    FoldRow,
    HeadRow,
    MachineRow,
    PartRow,
    heads_words,
    rows_of,
    words_of,
)

NOTHING: frozenset[str] = frozenset()


def titles(rows: list[MachineRow]) -> list[str]:
    return [row.words for row in rows if isinstance(row, FoldRow | BlockRow)]


def block(rows: list[MachineRow], key: str) -> BlockRow:
    (found,) = [row for row in rows if isinstance(row, BlockRow) and row.key == key]
    return found


@pytest.fixture(scope="module")
def gemma(gemma_gguf: Path) -> Machine:
    windows = [layer for layer in range(18) if layer % 6 != 5]
    return machine_of(read_header(gemma_gguf), window_layers=windows)


def test_equal_layers_stand_once_in_the_order_of_the_way(gemma: Machine) -> None:
    rows = rows_of(gemma, NOTHING)
    assert titles(rows) == [
        *("Embedding", "Layers 0–4 · window 512", "Attention", "Feed-forward"),
        *("Layer 5 · sees the whole text", "Attention", "Feed-forward"),
        *("Layers 6–10 · as layers 0–4", "Layer 11 · as layer 5"),
        *("Layers 12–16 · as layers 0–4", "Layer 17 · as layer 5"),
        *("Output norm", "Output"),
    ]
    assert block(rows, "output").detail == "the embedding once more"
    assert block(rows, "layers 0 0").detail == "4 heads, 1 KV, 256 wide · q/k norm · norm after"
    assert block(rows, "layers 5 1").detail == "2,048 wide, gated"


def test_shares_are_those_of_all_layers_of_a_row(gemma: Machine) -> None:
    drawn = [row for row in rows_of(gemma, NOTHING) if isinstance(row, BlockRow)]
    again = frozenset(f"layers {first}" for first in (6, 11, 12, 17))
    all_drawn = [row for row in rows_of(gemma, again) if isinstance(row, BlockRow)]
    assert sum(row.share for row in all_drawn) == pytest.approx(1)
    assert sum(row.n_params for row in all_drawn) == gemma.n_params
    assert len(all_drawn) == len(drawn) + 8
    five, one = block(all_drawn, "layers 0 0"), block(all_drawn, "layers 5 0")
    assert five.n_params == 5 * one.n_params


def test_a_block_that_is_opened_shows_its_tensors(gemma: Machine) -> None:
    rows = rows_of(gemma, frozenset({"layers 0 0"}))
    parts = [row for row in rows if isinstance(row, PartRow)]
    (value,) = [row for row in parts if row.name == "attn_v"]
    tensors = [part for layer in gemma.layers[:5] for part in layer[0].parts]
    values = [part for part in tensors if part.name == "attn_v.weight"]
    assert value.size_bytes == sum(part.size_bytes for part in values)
    assert value.shape == "640×256"
    assert value.types == ", ".join(dict.fromkeys(part.type_name for part in values))
    assert 5.5 < value.bits < 8.5, "a mixture"
    assert sum(row.size_bytes for row in parts) == block(rows, "layers 0 0").size_bytes
    assert [row.note for row in rows if isinstance(row, HeadRow)] == ["5 layers"]
    tied = rows_of(gemma, frozenset({"output"}))
    assert isinstance(tied[-1], HeadRow)
    assert tied[-1].note == "Uses token_embd.weight, counted with the embedding"


def test_where_nobody_says_which_layers_have_the_window_it_is_not_said(gemma_gguf: Path) -> None:
    rows = rows_of(machine_of(read_header(gemma_gguf)), NOTHING)
    assert titles(rows)[1] == "Layers 0–17 · window 512 in some"


def test_times_stand_beside_what_takes_them(gemma: Machine) -> None:
    n = len(gemma.layers)
    profiled = StepProfiled(
        *(9, 7, 2, 0.5, 0.25),
        attention=[float(layer) for layer in range(n)],
        others=[0.0] * n,
        ffn=[2.0] * n,
        output=4.0,
        total=300.0,
        plain=290.0,
    )
    rows = rows_of(gemma, NOTHING, profiled)
    assert block(rows, "embedding").ms == 0.25
    assert block(rows, "layers 0 0").ms == 0 + 1 + 2 + 3 + 4
    assert block(rows, "layers 0 0").times == (0, 1, 2, 3, 4), "a stretch of the bar each"
    assert "<0.01 ms to 4 ms a layer" in words_of(block(rows, "layers 0 0"))
    assert block(rows, "layers 0 1").ms == 5 * 2
    assert block(rows, "layers 5 0").ms == 5
    assert block(rows, "output").ms == 4
    assert block(rows, "output_norm").ms is None, "the output's has it"
    folded = {row.words: row.figure for row in rows if isinstance(row, FoldRow) and row.key}
    assert folded["Layer 11 · as layer 5"].endswith(" · 13 ms")
    assert all(row.ms is None for row in rows_of(gemma, NOTHING) if isinstance(row, BlockRow))


def test_experts_and_states_are_said_as_they_are(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "experts.gguf", shape=Shape(n_embd=16, n_expert=5))
    rows = rows_of(machine_of(read_header(tmp_path / "experts.gguf")), NOTHING)
    assert block(rows, "layers 0 1").detail == "2 of 5 experts, 64 wide, gated"
    assert block(rows, "output").detail.startswith("16 → ")
    tiny_jamba(tmp_path / "jamba.gguf")
    rows = rows_of(machine_of(read_header(tmp_path / "jamba.gguf")), NOTHING)
    assert titles(rows)[:8] == [
        *("Embedding", "Layer 0", "State", "Feed-forward"),
        *("Layer 1", "Attention", "Feed-forward", "Layer 2 · as layer 0"),
    ]


def test_hover_says_the_figures(gemma: Machine) -> None:
    rows = rows_of(gemma, frozenset({"layers 0 1"}))
    words = words_of(block(rows, "layers 0 1")).splitlines()
    assert words[0] == "Feed-forward: 2,048 wide, gated"
    # 5 layers of 3 matrices and two norms
    assert 5 * (3 * 640 * 2048 + 2 * 640) == 19_667_200
    assert words[1].startswith("19,667,200 parameters, 7.3% of all")
    assert "bits per weight" in words[2]
    for row in rows:
        assert words_of(row)


def test_heads_are_told_with_what_is_special_about_them() -> None:
    assert heads_words(Heads(1, 1, 64, 64)) == "1 head, 64 wide"
    special = Heads(8, 8, 64, 64, has_bias=True, has_sinks=True, is_latent=True)
    assert heads_words(special) == "8 heads, 64 wide · latent KV · bias · sinks"
