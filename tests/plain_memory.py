"""What llama.cpp itself says that weights and KV caches take: a program apart, without the app.

    python tests/plain_memory.py FILE.gguf < settings.json

Reads a list of settings (`n_ctx`, `n_ubatch`, `n_slots`, `type_k`, `type_v`, `flash_attention`,
`use_mmap`, `swa_full`), loads the file by the bare bindings, opens a context for each, and prints a
list of {"weights", "kv"} in bytes, summed from the log's own lines.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Iterable
from typing import Any

import llama_cpp

BUFFER = re.compile(r"(model|KV|RS) buffer size = +([0-9.]+) MiB")
NAMES = {"model": "weights", "KV": "kv", "RS": "kv"}
TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
"""Numbers of `enum ggml_type` in ggml.h."""
FLASH = {"auto": -1, "off": 0, "on": 1}

lines: list[str] = []


@llama_cpp.llama_log_callback
def keep(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    lines.append(text.decode("utf-8", "replace"))


def sums() -> dict[str, int]:
    """Of what was said since the last call."""
    found = dict.fromkeys(NAMES.values(), 0)
    for kind, mib in BUFFER.findall("".join(lines)):
        found[NAMES[kind]] += round(float(mib) * 1024 * 1024)
    lines.clear()
    return found


def load(path: str, *, use_mmap: bool) -> tuple[Any, int]:
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    is_mapped, is_read = llama_cpp.LLAMA_LOAD_MODE_MMAP, llama_cpp.LLAMA_LOAD_MODE_NONE
    params.load_mode = is_mapped if use_mmap else is_read
    lines.clear()
    model = llama_cpp.llama_model_load_from_file(path.encode(), params)
    return model, sums()["weights"]


def open_context(model: Any, settings: dict[str, Any]) -> dict[str, int]:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = settings["n_ctx"]
    params.n_batch = params.n_ubatch = settings.get("n_ubatch", 128)
    params.n_seq_max = settings.get("n_slots", 4)
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = 1
    params.type_k = TYPES[settings.get("type_k", "f16")]
    params.type_v = TYPES[settings.get("type_v", "f16")]
    params.flash_attn_type = FLASH[settings.get("flash_attention", "auto")]
    if "swa_full" in settings:
        params.swa_full = settings["swa_full"]
    lines.clear()
    context = llama_cpp.llama_init_from_model(model, params)
    found = sums()
    llama_cpp.llama_free(context)
    return found


def measure(path: str, asked: Iterable[dict[str, Any]]) -> list[dict[str, int]]:
    models: dict[bool, tuple[Any, int]] = {}
    found = []
    for settings in asked:
        use_mmap = settings.get("use_mmap", True)
        if use_mmap not in models:
            models[use_mmap] = load(path, use_mmap=use_mmap)
        model, weights = models[use_mmap]
        found.append({**open_context(model, settings), "weights": weights})
    return found


if __name__ == "__main__":
    llama_cpp.llama_log_set(keep, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    sys.stdout.write(json.dumps(measure(sys.argv[1], json.load(sys.stdin))) + "\n")
