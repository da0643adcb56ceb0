"""The GUI rows of the speed budget, each measured in processes of its own.

    python tests/bench/gui_rows.py

prints them with the machine's load. On a machine that others use too, wall times mean little:
what is compared are times on the processor, and of several runs the least.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from bench import fresh_process  # noqa: E402
from bench.gui_chats import make_chat, technical_reply  # noqa: E402
from bench.gui_child import BEGAN  # noqa: E402

LONG = 10_000
PATIENCE_S = 400
RUNS = 3


def measure(row: str, *arguments: str | Path) -> dict[str, Any]:
    """One run of one row in a fresh process, which is told when it began."""
    began = {BEGAN: str(time.time())}
    return fresh_process.run("gui_child.py", row, *arguments, patience_s=PATIENCE_S, **began)


def least(runs: list[dict[str, Any]], name: str) -> float:
    return min(float(run[name]) for run in runs)


def start_ratios(folder: Path, runs: int = RUNS) -> dict[str, float]:
    """Frame painted and last chat readable, each against an empty window, by processor time and
    by the clock. The two are measured in turns, so that both meet the same machine."""
    make_chat(folder, 200)
    measure("start", folder)  # compiles what is not compiled yet
    empties, starts = [], []
    for _ in range(runs):
        empties.append(measure("empty"))
        starts.append(measure("start", folder))
    found: dict[str, float] = {}
    for clock, suffix in (("cpu_ms", ""), ("wall_ms", "_wall")):
        empty = least(empties, clock)
        found[f"empty_{clock}"] = empty
        for what in ("frame", "readable", "opened"):
            found[what + suffix] = least(starts, f"{what}_{clock}") / empty
    return found


def opening(
    folder: Path, runs: int = RUNS, is_enough: Callable[[dict[str, Any]], bool] = lambda _: False
) -> dict[str, float]:
    """Opening a chat of 10,000 messages out of a short one; no more runs once one is enough."""
    long_id = make_chat(folder, LONG, "long")
    make_chat(folder, 20, "short")  # the last one is opened at the start
    found: list[dict[str, Any]] = []
    while len(found) < runs and not any(map(is_enough, found)):
        found.append(measure("opening", folder, long_id))
    names = ("wall_ms", "cpu_ms", "gui_cpu_ms", "longest_gap_ms", "longest_cpu_ms")
    return {name: least(found, name) for name in (*names, "n_first", "n_messages", "whole_ms")}


def streaming(
    folder: Path,
    n_bytes: int,
    token_ms: float,
    runs: int = 1,
    look: str = "markdown",
    beside_empty: bool = True,
    length: int = LONG,
) -> dict[str, Any]:
    """A long reply with code, tables and mathematics in a chat of `length` messages. `look`:
    markdown, or tokens for the token view."""
    make_chat(folder, length, n_ctx=262_144)
    script = folder / "stream.json"
    reply = {"text": technical_reply(n_bytes), "ms": token_ms}
    script.write_text(json.dumps({"load": {"ms": 5}, "loop": True, "replies": [reply]}))
    found = min(
        (measure("stream", folder, script, look) for _ in range(runs)),
        key=lambda r: r["longest_gap_ms"],
    )
    if beside_empty:
        found["above_empty_mb"] = (found["rss_bytes"] - measure("empty")["rss_bytes"]) / 2**20
    return found


def main() -> None:
    print("load:", os.getloadavg(), "cores:", os.cpu_count())
    with tempfile.TemporaryDirectory() as folder:
        print("start:", start_ratios(Path(folder) / "start", runs=5))
        print("opening:", opening(Path(folder) / "opening"))
        for look in ("markdown", "tokens"):
            found = streaming(Path(folder) / look, 60_000, token_ms=5, look=look)
            print(f"streaming as {look}:", found)
    print("load:", os.getloadavg())


if __name__ == "__main__":
    main()
