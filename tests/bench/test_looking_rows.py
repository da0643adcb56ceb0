"""The rows of the speed budget (design §8) that are about looking into a reply.

As in `test_gui_rows.py`, what is compared are times on the processor.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.looking_rows import PANELS, inside, opening, streaming

from app.bench import bench


@pytest.mark.usefixtures("forked_windows")
@pytest.mark.soak
def test_the_trace_of_an_old_reply_of_4000_tokens_is_there_at_once(tmp_path: Path) -> None:
    found = opening(tmp_path / "first")
    if found["cpu_ms"] >= 200 or found["longest_cpu_ms"] >= 50:
        found = opening(tmp_path / "again")
    print(found)
    assert found["n_tokens"] == 4_000
    assert found["cpu_ms"] < 200
    assert found["longest_cpu_ms"] < 50


@pytest.mark.usefixtures("forked_windows")
@pytest.mark.soak
@pytest.mark.parametrize("panel", PANELS)
def test_panels_follow_the_stream_without_a_stop(panel: str, tmp_path: Path) -> None:
    found = streaming(tmp_path, 800, panel, token_ms=1)
    print(found)
    assert found["generated"] == 800
    assert found["longest_cpu_ms"] < 50


@pytest.mark.soak
@pytest.mark.parametrize("panel", PANELS)
def test_panels_follow_the_stream_often_enough(panel: str, tmp_path: Path) -> None:
    """How often is a matter of the whole machine: beside another program it is less."""
    found = streaming(tmp_path, 800, panel)
    print(found)
    assert found["repaints_per_s"] >= 10


@pytest.mark.soak
@pytest.mark.parametrize("panel", PANELS)
def test_32000_tokens_in_view_stream_without_a_stop(panel: str, tmp_path: Path) -> None:
    found = streaming(tmp_path, 32_000, panel, token_ms=1)
    print(found)
    assert found["generated"] == 32_000
    assert found["repaints_per_s"] >= 10
    assert found["longest_cpu_ms"] < 50


@pytest.mark.soak
@pytest.mark.weights
@pytest.mark.parametrize("is_all_open", [False, True])
def test_what_is_inside_a_token_is_painted_soon(
    is_all_open: bool, starter_gguf: Path, tmp_path: Path
) -> None:
    """Only an idle machine can hold it, so a busy one fails at once."""
    assert bench.machine_share() < bench.IDLE_SHARE, "measure on an idle machine"
    found = inside(tmp_path, str(starter_gguf), is_all_open=is_all_open)
    print(found)
    assert 450 <= found["n_text"] <= 550
    assert found["n_read"] == 0
    assert found["first_ms"] < 500
    assert found["whole_ms"] < 1500
    assert found["longest_cpu_ms"] < 50
    assert found["longest_gap_ms"] < 50
