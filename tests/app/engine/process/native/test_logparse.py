"""llama.cpp's own lines, recorded from the library of llama-cpp-python 0.3.36."""

from __future__ import annotations

import pytest

from app.engine.process.native.logparse import (
    last_error,
    names_lack_of_memory,
    names_unknown_architecture,
    names_unknown_tokeniser,
    read_load,
)
from app.engine.protocol.loading_messages import MemoryPart

MIB = 1024 * 1024

# ruff: noqa: E501 - recorded lines are as long as they are

# Recorded: SmolLM2-135M (Q4_1), 2,048 cells, processor only.
PROCESSOR = """\
load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
llama_context: n_ctx                 = 2048
llama_context: flash_attn            = auto
llama_context:        CPU  output buffer size =     0.75 MiB
llama_kv_cache:        CPU KV buffer size =    45.00 MiB
llama_kv_cache: size =   45.00 MiB (  2048 cells,  30 layers,  4/1 seqs), K (f16):   22.50 MiB, V (f16):   22.50 MiB
sched_reserve: reserving ...
resolve_fused_ops: Flash Attention enabled
sched_reserve:        CPU compute buffer size =   102.51 MiB
sched_reserve: graph: nodes = 936, splits = 1, input objects = 4, input tensors = 6
"""

# Put together from the format strings in llama-model.cpp, llama-kv-cache.cpp,
# llama-kv-cache-iswa.cpp and llama-context.cpp: two devices, a sliding-window file.
DEVICES = """\
load_tensors: offloading output layer to GPU
load_tensors: offloading 18 repeating layers to GPU
load_tensors: offloaded 19/19 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   170.00 MiB
load_tensors:        CUDA0 model buffer size =   120.50 MiB
load_tensors:        CUDA1 model buffer size =   110.25 MiB
llama_context: flash_attn            = enabled
llama_context:  CUDA_Host  output buffer size =     1.00 MiB
llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells
llama_kv_cache:      CUDA0 KV buffer size =    12.00 MiB
llama_kv_cache: size =   12.00 MiB (  4096 cells,   3 layers,  1/1 seqs), K (q8_0):    6.00 MiB, V (q8_0):    6.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells
llama_kv_cache:      CUDA0 KV buffer size =    15.00 MiB
llama_kv_cache:      CUDA1 KV buffer size =     7.50 MiB
llama_kv_cache: size =   22.50 MiB (   768 cells,  15 layers,  1/1 seqs), K (q8_0):   11.25 MiB, V (q8_0):   11.25 MiB
sched_reserve:      CUDA0 compute buffer size =   500.00 MiB
sched_reserve:      CUDA0 compute buffer size =   514.00 MiB
sched_reserve:  CUDA_Host compute buffer size =    20.00 MiB
"""


def test_processor_only() -> None:
    report = read_load(PROCESSOR.splitlines())
    assert report.memory == [
        MemoryPart("CPU_Mapped", "weights", round(92.10 * MIB)),
        MemoryPart("CPU", "output", round(0.75 * MIB)),
        MemoryPart("CPU", "kv", 45 * MIB),
        MemoryPart("CPU", "compute", round(102.51 * MIB)),
    ]
    assert report.offloaded == 0
    assert report.flash_attention
    assert (report.kv_cells, report.kv_bytes) == (2048, 45 * MIB)


def test_devices_and_two_caches() -> None:
    report = read_load(DEVICES.splitlines())
    parts = {(part.device, part.what): part.size_bytes for part in report.memory}
    assert parts["CUDA0", "kv"] == 27 * MIB
    assert parts["CUDA1", "kv"] == round(7.5 * MIB)
    assert parts["CUDA0", "compute"] == 514 * MIB
    assert parts["CUDA1", "weights"] == round(110.25 * MIB)
    assert report.offloaded == 19
    assert report.flash_attention
    assert report.kv_cells == 4096


@pytest.mark.parametrize(
    ("lines", "on"),
    [
        (["llama_context: flash_attn            = disabled"], False),
        (["llama_context: flash_attn            = enabled"], True),
        (
            [
                "llama_context: flash_attn            = auto",
                "resolve_fused_ops: Flash Attention not supported, set to disabled",
            ],
            False,
        ),
        ([], False),
    ],
)
def test_flash_attention(lines: list[str], on: bool) -> None:
    assert read_load(lines).flash_attention is on


def test_unknown_lines_are_passed_over() -> None:
    assert read_load(["", "buffer size = many MiB", "x: KV buffer size = MiB"]).memory == []


def test_evidence_is_what_names_an_error() -> None:
    lines = ["loading", "llama_model_load: error loading model: bad", "done", " "]
    assert last_error(lines) == "llama_model_load: error loading model: bad"
    assert last_error(["only", "this"]) == "only\nthis"
    assert len(last_error([f"error {n}" for n in range(100)]).splitlines()) == 6


def test_causes_are_recognised() -> None:
    assert names_lack_of_memory("ggml_aligned_malloc: failed to allocate CPU buffer of size 9")
    assert names_lack_of_memory("cudaMalloc failed: out of memory")
    assert not names_lack_of_memory("error loading model: unknown model architecture: 'x'")
    assert names_unknown_architecture("error: unknown model architecture: 'foo'") == "foo"
    assert names_unknown_architecture("fine") is None
    assert names_unknown_tokeniser("unknown pre-tokenizer type: 'bar'") == "bar"
    assert names_unknown_tokeniser("unknown tokenizer: 'baz'") == "baz"
    assert names_unknown_tokeniser("fine") is None
