"""Eight clients at once, beside llama.cpp's own server with as many slots (`bench/served.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.served import measure

pytestmark = [pytest.mark.soak, pytest.mark.weights, pytest.mark.alone]


def test_eight_clients_are_served_as_fast_as_by_llama_server(starter_gguf: Path) -> None:
    ours, theirs = measure(str(starter_gguf), rounds=4)
    print(f"{ours:.1f} ÷ {theirs:.1f} = {ours / theirs:.3f}")
    assert ours / theirs >= 0.9
