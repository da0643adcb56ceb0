"""What people wait for, beside llama.cpp's own server (budget: `bench/peer.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.peer import measure

pytestmark = [pytest.mark.soak, pytest.mark.weights]


def test_nobody_waits_longer_than_for_llama_server(starter_gguf: Path) -> None:
    found = measure(str(starter_gguf))
    print(found)
    assert found.pop("cold") <= 1.15
    assert set(found) == {"prefill", "next", "decode", "schema"}
    assert min(found.values()) >= 0.98, found
