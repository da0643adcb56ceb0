"""One run of one row in a fresh process, which prints a line of JSON at its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run(
    child: str, row: str, *arguments: str | Path, patience_s: float, **more: str
) -> dict[str, Any]:
    """What `child`, a file beside this one, found. `more` goes into its environment. Raises
    RuntimeError with the end of what it complained of."""
    done = subprocess.run(
        [sys.executable, str(HERE / child), row, *map(str, arguments)],
        cwd=ROOT,
        env={
            "QT_QPA_PLATFORM": "offscreen",
            "PYTHONFAULTHANDLER": "1",  # a crash says where
            **os.environ,
            **more,
        },
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{row} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
