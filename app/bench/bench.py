"""`main.py bench`: what the app costs on this machine, as ratios against a bare loop.

Both sides are programs of their own, started in turn, with the same weights, text, seed,
threads, context and number of tokens. `sides.py` has the two sides, `rows.py` which
runs are made and what ratios come of them; here are the arguments and what is printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from app.bench.rows import Report, Row, measure
from app.bench.sides import BenchError, busy_share
from app.paths import is_file, typed_path

FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
INTERRUPTED: Final = 130

IDLE_SHARE: Final = 0.1
"""Up to this share of all cores may be in use by others before ratios mean little."""


def main(argv: Sequence[str]) -> int:
    """Measure, print, and return the exit code."""
    try:
        options = _parse(argv)
        paths = _gguf_paths(options)
        share = machine_share()
        if share > IDLE_SHARE:
            _tell(
                f"other programs use {share:.0%} of this machine, so the ratios mean little; "
                "close them and measure again"
            )
        reports = [measure(path, quick=options.quick, tell=_tell) for path in paths]
        if options.json:
            print(json.dumps(_as_json(reports, share, quick=options.quick)))
        else:
            for report in reports:
                _print_table(report)
    except BenchError as error:
        print(error, file=sys.stderr)
        return WRONG_ARGUMENTS if str(error).endswith("bench --help.") else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:].rstrip(".")
        raise BenchError(f"{sentence}. See main.py bench --help.")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="main.py bench", description="Measure the app against a bare loop.")
    parser.add_argument(
        "--gguf",
        metavar="FILE",
        action="append",
        help="model (default: the included one); may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--offline", action="store_true", help="open no connection (bench never does)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="accepted for uniformity; not used")
    return parser.parse_args(argv)


def _gguf_paths(options: argparse.Namespace) -> list[str]:
    if options.gguf is not None:
        return [_existing(name) for name in options.gguf]
    from app.gguf import starter

    found = starter.find()
    if found is None:
        raise BenchError("No model is installed. Pass a GGUF file with --gguf FILE.")
    return [str(found.path)]


def _existing(name: str) -> str:
    path = typed_path(name)
    if not is_file(path):
        raise BenchError(f"File not found: {path}. Check the path given with --gguf.")
    return str(path.resolve())


def machine_share() -> float:
    """How much of the machine others use while we only look, 0 ... 1."""
    import psutil

    return busy_share(psutil.cpu_percent)


# --- what is printed ----------------------------------------------------------------------------


def _as_json(reports: Sequence[Report], share: float, *, quick: bool) -> dict[str, Any]:
    first = _of_file(reports[0])
    others = [_of_file(report) for report in reports[1:]]
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "quick": quick,
        "used_by_others": share,
        "is_idle": share <= IDLE_SHARE,
        **first,
        **({"more": others} if others else {}),
    }


def _of_file(report: Report) -> dict[str, Any]:
    return {
        "weights": report.conditions.name,
        "threads": report.conditions.threads,
        "gpu_layers": report.conditions.gpu_layers,
        "rows": [
            {"name": row.name, "ratio": row.ratio, "budget": row.budget, "values": row.values}
            for row in report.rows
        ],
        "left_out": report.left_out,
    }


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


_TITLES: Final = {
    "ask_tokens_per_s": "tokens/s of ask with the trace on",
    "ask_first_token_s": "time to the first token",
    "load_s": "loading the model",
    "next_turn_evaluated": "tokens read on the next turn (bare: new)",
    "trace_on_off": "tokens/s, trace on (bare: trace off)",
    "four_at_once": "four replies at once, all tokens/s",
    "eight_at_once": "eight replies at once, all tokens/s",
    "stop_latency": "from Stop to the end (bare: limit)",
    "peak_memory": "most memory, engine's process",
    "busy_core_vs_physical": "one core taken (bare: all cores)",
    "busy_core_vs_best": "one core taken (bare: best threads)",
    "inside_first_s": "click to what is inside (bare: limit)",
    "inside_whole_s": "click to the lens, too (bare: limit)",
    "inside_beside_reply": "tokens/s while looking (bare: without)",
    "inside_long_cached": "tokens computed of 8,000 (bare: least)",
    "inside_long_unread": "the same of a text that is new",
}


def _print_table(report: Report) -> None:
    conditions = report.conditions
    layers = f", {conditions.gpu_layers} layers on the GPU" if conditions.gpu_layers else ""
    print(f"{conditions.name}, {conditions.threads} threads{layers}")
    print(f"{'what':<42}{'app':>10}{'bare':>10}  {'unit':<9}{'ratio':>7}  budget")
    for row in report.rows:
        print(_line(row))
    for sentence in report.left_out:
        print(f"left out: {sentence}")


def _line(row: Row) -> str:
    budget = "" if row.budget is None else f"≥ {row.budget:.2f}"
    if row.budget is not None and row.ratio < row.budget:
        budget += "  not met"
    app, bare, unit = row.values["app"], row.values["bare"], row.values["unit"]
    title = _TITLES[row.name]
    return f"{title:<42}{app:>10.2f}{bare:>10.2f}  {unit:<9}{row.ratio:>7.3f}  {budget}"
