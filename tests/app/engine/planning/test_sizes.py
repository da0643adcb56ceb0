"""The arithmetic on headers, against ggml's own and against what llama.cpp reports.

The estimate must be within 5 % of what is measured for weights and cache, for twelve settings, on
small weights and on both test files; the reserve for the compute buffer must be above what is used.
Loading the test files takes long, so most of their settings are tried in soak alone: of weights and
cache `test_fit_measured.py` tries twelve in a program without the app.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama
from native_session import load_quietly

from app.engine.planning.sizes import CACHE_TYPES, cache_row_bytes, head_widths, outline_of
from app.engine.process.native import native
from app.engine.process.native.native import GGML_TYPES, NativeLog
from app.engine.protocol.loading_messages import MemoryPart
from app.gguf.header import read_header

pytestmark = pytest.mark.weights

SETTINGS: list[dict[str, Any]] = [
    {"n_ctx": 512},
    {"n_ctx": 4096, "n_ubatch": 512},
    {"n_ctx": 300, "use_mmap": False},
    {"n_ctx": 512, "n_slots": 1},
    {"n_ctx": 2048, "n_slots": 8},
    {"n_ctx": 512, "flash_attention": "off"},
    {"n_ctx": 512, "type_k": "f32", "type_v": "f32", "flash_attention": "off"},
    {"n_ctx": 1024, "type_k": "bf16", "type_v": "f16"},
    {"n_ctx": 2048, "type_k": "q8_0", "type_v": "q8_0"},
    {"n_ctx": 2048, "type_k": "q8_0", "type_v": "q4_0", "flash_attention": "on"},
    {"n_ctx": 1024, "type_k": "q5_1", "type_v": "iq4_nl"},
    {"n_ctx": 512, "type_k": "q4_1", "flash_attention": "off", "use_mmap": False},
]


def sums(parts: list[MemoryPart]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for part in parts:
        totals[part.what] = totals.get(part.what, 0) + part.size_bytes
    return totals


QUICK = {
    "wide_gguf": SETTINGS,
    "starter_gguf": [SETTINGS[1], SETTINGS[2], SETTINGS[9]],
    "gemma_gguf": [SETTINGS[9]],
}
"""Of the test files: no mapping, and a quantised cache."""


@pytest.fixture(scope="module")
def wide_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of 32 numbers: a whole block of each type of cache."""
    path = tmp_path_factory.mktemp("made") / "wide.gguf"
    tiny_llama(path, shape=Shape(n_embd=128))
    return path


def cases() -> Iterator[Any]:
    for file, quick in QUICK.items():
        for settings in SETTINGS:
            marks = [] if settings in quick else [pytest.mark.soak]
            yield pytest.param(file, settings, id=f"{file}-{settings}", marks=marks)


@pytest.mark.parametrize(("file", "settings"), list(cases()))
def test_estimate_is_within_five_percent_of_what_is_measured(
    file: str, settings: dict[str, Any], native_log: NativeLog, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(file)
    opened = load_quietly(path, native_log, n_threads=1, **settings)
    measured, estimated = sums(opened.loaded.memory), sums(opened.loaded.estimate)
    opened.close()
    for what in ("weights", "kv"):
        assert estimated[what] == pytest.approx(measured[what], rel=0.05), what
    assert estimated["compute"] > measured["compute"] + measured["output"]


def test_rows_are_as_long_as_ggml_makes_them() -> None:
    row_size = native._ggml["base"].ggml_row_size
    row_size.restype, row_size.argtypes = ctypes.c_size_t, [ctypes.c_int, ctypes.c_int64]
    assert CACHE_TYPES.keys() == GGML_TYPES.keys()
    for name, number in GGML_TYPES.items():
        for width in (32, 64, 192, 4096):
            assert cache_row_bytes(name, width) == row_size(number, width), name


def test_experts_are_told_from_the_rest_of_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "experts.gguf"
    tiny_llama(path, shape=Shape(n_expert=4))
    sizes = outline_of(read_header(path)).sizes("f16", "f16")
    assert sizes.expert_bytes == (3 * 64 * 64 * 4 * 2,) * 2
    assert sizes.has_experts
    tiny_llama(path)
    assert not outline_of(read_header(path)).sizes("f16", "f16").has_experts


def test_repacked_matrices_count_twice(gemma_gguf: Path) -> None:
    header = read_header(gemma_gguf)
    plain = outline_of(header).sizes("f16", "f16")
    again = outline_of(header).sizes("f16", "f16", frozenset({"Q4_K"}))
    assert sum(plain.repacked_bytes) == 0
    extra = sum(t.size_bytes for t in header.tensors if t.type_name == "Q4_K")
    assert sum(again.repacked_bytes) == extra > 0


def test_heads_of_both_files(starter_gguf: Path, gemma_gguf: Path) -> None:
    assert head_widths(read_header(starter_gguf)) == (64, 64)
    assert head_widths(read_header(gemma_gguf)) == (256, 256)


@pytest.mark.parametrize("key", ["attention.shared_kv_layers", "nextn_predict_layers"])
def test_last_layers_that_keep_nothing(tmp_path: Path, key: str) -> None:
    path = tmp_path / "borrowing.gguf"
    tiny_llama(path, shape=Shape(n_layer=5), metadata={f"llama.{key}": 2})
    sizes = outline_of(read_header(path)).sizes("f16", "f16")
    one = sizes.kv_bytes_per_token[0]
    assert one > 0
    assert sizes.kv_bytes_per_token == (one, one, one, 0, 0)
