"""What the window says before a load, against what llama.cpp reports in a program without the app.

Twelve settings on both test files: weights and cache within 5 %.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recurrent_gguf import tiny_jamba, tiny_mamba

from app.engine.planning.fit import Fit, fit
from app.engine.process.native import native
from app.engine.protocol.loading_messages import LoadOptions
from app.gguf.header import Header, read_header

pytestmark = pytest.mark.weights

PLAIN = Path(__file__).resolve().parents[3] / "plain_memory.py"

SETTINGS: list[dict[str, Any]] = [
    {"n_ctx": 512},
    {"n_ctx": 8192, "n_ubatch": 512},
    {"n_ctx": 4096, "n_slots": 1},
    {"n_ctx": 2048, "n_slots": 16},
    {"n_ctx": 1024, "flash_attention": "off"},
    {"n_ctx": 1024, "type_k": "f32", "type_v": "f32", "flash_attention": "off"},
    {"n_ctx": 2048, "type_k": "bf16", "type_v": "f16"},
    {"n_ctx": 4096, "type_k": "q8_0", "type_v": "q8_0"},
    {"n_ctx": 2048, "type_k": "q8_0", "type_v": "q4_0", "flash_attention": "on"},
    {"n_ctx": 1024, "type_k": "q5_1", "type_v": "iq4_nl"},
    {"n_ctx": 300, "use_mmap": False},
    {"n_ctx": 3000, "n_ubatch": 64, "type_k": "q4_1", "flash_attention": "off"},
]
"""`swa_full` is llama.cpp's own and the engine's only choice: see the last test."""


@cache
def reported(path: Path) -> list[dict[str, int]]:
    """By llama.cpp, for each of the settings; the last two are with a full window and without."""
    window = [{"n_ctx": 4096, "swa_full": is_full} for is_full in (True, False)]
    return _told(path, [*SETTINGS, *window])


def _told(path: Path, settings: list[dict[str, Any]]) -> list[dict[str, int]]:
    told = subprocess.run(
        [sys.executable, str(PLAIN), str(path)],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: list[dict[str, int]] = json.loads(told.stdout)
    return found


def estimated(path: Path, settings: dict[str, Any]) -> Fit:
    options = LoadOptions(**settings, devices=[])
    return fit(_header(path, path.stat().st_mtime_ns), options, native.machine())


@cache
def _header(path: Path, _written_ns: int) -> Header:
    return read_header(path)


def sum_of(found: Fit, what: str) -> int:
    return sum(part.size_bytes for part in found.parts if part.what == what)


@pytest.mark.parametrize("number", range(len(SETTINGS)), ids=lambda n: str(SETTINGS[n]))
@pytest.mark.parametrize(
    "file", ["starter_gguf", pytest.param("gemma_gguf", marks=pytest.mark.soak)]
)
def test_weights_and_cache_are_within_five_percent(
    file: str, number: int, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(file)
    measured, found = reported(path)[number], estimated(path, SETTINGS[number])
    for what in ("weights", "kv"):
        assert measured[what] > 2**20
        assert sum_of(found, what) == pytest.approx(measured[what], rel=0.05), what


@pytest.mark.parametrize("write", [tiny_mamba, tiny_jamba])
def test_layers_that_keep_a_state(write: Any, tmp_path: Path) -> None:
    """So small a file that llama.cpp's two digits must be allowed for."""
    path = tmp_path / "state.gguf"
    write(path)
    settings = [{"n_ctx": 512, "n_slots": n_slots} for n_slots in (1, 16, 64)]
    one, *several = _told(path, settings)
    alone = sum_of(estimated(path, settings[0]), "kv")
    for each, many in zip(settings[1:], several, strict=True):
        found = sum_of(estimated(path, each), "kv")
        assert found == pytest.approx(many["kv"], abs=0.02 * 2**20)
        assert found - alone > 0.8 * (many["kv"] - one["kv"]) > 0


@pytest.mark.soak
def test_a_full_window_is_what_is_estimated(gemma_gguf: Path) -> None:
    """Layers that look through a window keep all tokens, so that a chat can be cut anywhere. A
    window that is not full would take less; the engine has none."""
    full, short = reported(gemma_gguf)[-2:]
    found = estimated(gemma_gguf, {"n_ctx": 4096})
    assert sum_of(found, "kv") == pytest.approx(full["kv"], rel=0.05)
    assert short["kv"] < 0.8 * full["kv"]
