"""The GUI rows of the speed budget (design §8), with the scripted engine.

What is compared are times on the processor, the least of several runs: another program on the
machine stretches wall time without limit. The bounds are the product's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.gui_rows import LONG, opening, start_ratios, streaming


@pytest.mark.soak
def test_frame_and_last_chat_are_there_soon_after_an_empty_window_would_be(tmp_path: Path) -> None:
    found = start_ratios(tmp_path / "data", runs=5)
    print(found)
    assert found["frame"] <= 1.5
    assert found["readable"] <= 4


@pytest.mark.usefixtures("forked_windows")
@pytest.mark.soak
def test_ten_thousand_messages_are_readable_at_once(tmp_path: Path) -> None:
    found = opening(
        tmp_path / "data", is_enough=lambda f: f["cpu_ms"] < 150 and f["longest_cpu_ms"] < 50
    )
    print(found)
    assert found["n_messages"] == LONG
    assert found["n_first"] < LONG / 10
    assert found["cpu_ms"] < 150
    assert found["longest_cpu_ms"] < 50


@pytest.mark.soak
def test_long_technical_reply_streams_without_a_stop(tmp_path: Path) -> None:
    found = streaming(tmp_path / "data", 60_000, token_ms=5)
    print(found)
    assert found["bytes"] == 60_000
    assert found["repaints_per_s"] >= 10
    assert found["longest_cpu_ms"] < 50
    assert found["above_empty_mb"] < 120


@pytest.mark.soak
def test_technical_reply_streams_without_a_stop(tmp_path: Path) -> None:
    found = streaming(tmp_path / "data", 6_000, token_ms=5)
    print(found)
    assert found["bytes"] == 6_000
    assert found["longest_cpu_ms"] < 50


@pytest.mark.usefixtures("forked_windows")
@pytest.mark.soak
@pytest.mark.parametrize("length", [1_000, LONG])
def test_reply_streams_as_tokens_without_a_stop(tmp_path: Path, length: int) -> None:
    found = streaming(
        tmp_path / "data", 6_000, token_ms=1, look="tokens", beside_empty=False, length=length
    )
    print(found)
    assert found["bytes"] == 6_000
    assert found["longest_cpu_ms"] < 50


@pytest.mark.soak
def test_memory_with_a_long_chat_and_a_streamed_reply(tmp_path: Path) -> None:
    found = streaming(tmp_path / "data", 6_000, token_ms=1)
    print(found)
    assert found["above_empty_mb"] < 120
