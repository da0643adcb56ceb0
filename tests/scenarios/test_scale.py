"""No words cut off and nothing without size at the usual scale factors of screens (row G14)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("factor", "zoom", "width", "height"),
    [
        pytest.param("1.0", 100, 1180, 780, marks=pytest.mark.soak),
        pytest.param("1.25", 100, 900, 600, marks=pytest.mark.soak),
        pytest.param("1.5", 125, 1180, 780, marks=pytest.mark.soak),
        pytest.param("2.0", 100, 900, 600, marks=pytest.mark.soak),
        pytest.param("1.0", 200, 900, 600, marks=pytest.mark.soak),
    ],
)
def test_nothing_is_cut_off(
    forked_windows: None, factor: str, zoom: int, width: int, height: int
) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("scaled_window.py")),
         str(zoom), str(width), str(height)],
        cwd=ROOT,
        env={**os.environ, "QT_SCALE_FACTOR": factor, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout.splitlines()[-1])
    assert results.pop("scale") == [f"{float(factor):g}"]
    assert {name: found for name, found in results.items() if found} == {}
