"""Facts of the loaded file, of its header, and of this computer."""

from __future__ import annotations

import pytest
from recording_desk import loaded

from app.engine.process.scripted.embedding import rotations
from app.engine.protocol.cache_messages import CacheLayers, CacheShape
from app.engine.protocol.embedding_messages import Rotations
from app.engine.protocol.loading_messages import MemoryPart
from app.insight.inside.machine import Block, Machine, Part
from app.insight.inside.position import ALIBI, Position
from app.insight.tour.facts import Fact
from app.insight.tour.file import (
    cell_facts,
    computer_facts,
    loaded_facts,
    machine_facts,
    position_facts,
    window_facts,
)


def test_what_was_loaded_is_said_in_its_units() -> None:
    found = loaded_facts(
        loaded(
            n_params=134_515_008,
            size_bytes=98_300_000,
            kv_bytes_per_token=23_040,
            n_slots=4,
            flash_attention=False,
            fast_hash="3fa9c210" + "0" * 24,
            memory=[
                MemoryPart("CPU", "kv", 100_000_000),
                MemoryPart("CUDA0", "kv", 89_000_000),
                MemoryPart("CPU", "weights", 5),
            ],
        )
    )
    assert {name: fact.text for name, fact in found.items()} == {
        "n_vocab": "49,152",
        "n_embd": "576",
        "n_layer": "30",
        "flash": "off",
        "file_size": "98.3 MB",
        "n_slots": "4 replies",
        "kv_per_token": "23 kB",
        "kv_full": "189 MB",
        "n_params": "135M",
        "size_at_16": "269 MB at 16 bits",
        "size_at_8": "135 MB at 8 bits",
        "size_at_4": "67.3 MB at 4 bits",
        "hash_loaded": "3fa9c210",
    }
    assert found["size_at_4"].value == 134_515_008 // 2
    assert found["kv_full"].value == 189_000_000
    assert found["hash_loaded"].value == "3fa9c210" + "0" * 24


def test_what_the_engine_does_not_tell_is_not_there() -> None:
    found = loaded_facts(loaded(n_params=0, kv_bytes_per_token=0, n_slots=1, memory=[]))
    assert set(found) == {"n_vocab", "n_embd", "n_layer", "flash", "file_size"}


def test_cells_take_their_bytes() -> None:
    assert cell_facts(loaded(kv_bytes_per_token=23_040), 51)["kv_used"] == Fact(
        1_175_040, "1.18 MB"
    )
    assert cell_facts(loaded(kv_bytes_per_token=0), 51) == {}


def test_a_window_is_told_once_the_text_is_longer() -> None:
    shape = CacheShape([CacheLayers(18, 256, 256, 512, 512)], n_window_layers=15, window=512)
    of_window = loaded(cache=shape)
    assert window_facts(of_window, 511) == {}
    assert {name: fact.text for name, fact in window_facts(of_window, 512).items()} == {
        "n_window_layers": "15",
        "window": "512",
    }
    assert window_facts(loaded(cache=CacheShape([])), 5000) == {}
    assert window_facts(loaded(cache=None), 5000) == {}


def block(kind: str, *sizes: tuple[int, int]) -> Block:
    """`sizes`: parameters and bytes of each tensor."""
    parts = tuple(Part(f"t{at}", (n,), "Q8_0", size) for at, (n, size) in enumerate(sizes))
    return Block(kind, parts)  # type: ignore[arg-type]


def machine(missing: tuple[str, ...] = (), ffn: str = "ffn") -> Machine:
    layer = (block("attention", (100, 80)), block(ffn, (300, 210), (100, 70)))
    return Machine(
        embedding=block("embedding", (200, 100)),
        layers=(layer, layer),
        output_norm=block("output_norm", (10, 40)),
        output=block("output"),
        other=block("other", (0, 0)),
        n_embd=10,
        n_vocab=20,
        missing=missing,
    )


def test_shares_and_bits_are_of_all_tensors() -> None:
    found = machine_facts(machine())
    n_params = 200 + 2 * (100 + 300 + 100) + 10
    n_bytes = 100 + 2 * (80 + 210 + 70) + 40
    assert found["ffn_share"].value == pytest.approx(800 / n_params)
    assert found["ffn_share"].text == "66%"
    assert found["bits_per_weight"].value == pytest.approx(8 * n_bytes / n_params)
    assert found["bits_per_weight"].text == "5.69 bits"


def test_of_a_file_with_parts_missing_nothing_is_claimed() -> None:
    assert machine_facts(machine(missing=("two.gguf",))) == {}
    assert set(machine_facts(machine(ffn="state"))) == {"bits_per_weight"}


def test_pairs_are_those_of_the_first_layer_that_rotates() -> None:
    told = rotations(4, 64, 10_000.0)
    assert position_facts(told, None)["n_pairs"] == Fact(32, "32")


def test_a_file_without_rotations_says_what_it_does_instead() -> None:
    told = Rotations([], 4, "Nothing is rotated here.")
    assert position_facts(told, None)["position_otherwise"].text == "Nothing is rotated here."
    assert position_facts(told, Position("rope"))["position_otherwise"].text == told.sentence
    assert position_facts(told, Position("alibi"))["position_otherwise"].text == ALIBI
    assert position_facts(Rotations([], 4), None) == {}


def test_the_memory_of_this_computer() -> None:
    assert computer_facts(16_800_000_000)["memory_total"].text == "16.8 GB"
    assert computer_facts(0) == {}
