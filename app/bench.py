"""`main.py bench`: what the app costs on this machine, as ratios against a bare loop.

Both sides are programs of their own, started in turn: `main.py ask --json` with its whole
trace, and `engine/bench_loop.py`, which imports nothing of the app. Same weights, text, seed,
threads, context and number of tokens. The app's tokens are timed where they arrive, at the
end of a pipe. Each figure is a median; each ratio is the median of the pairs' ratios, so that
a machine that gets slower meanwhile does not favour one side.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from app.paths import is_file, typed_path

FAILED: Final = 1
WRONG_ARGUMENTS: Final = 2
INTERRUPTED: Final = 130

QUICK_S: Final = 34.0
"""After this long no further pair is begun; `--quick` ends within 40 s."""
QUICK_PAIRS: Final = 3
FULL_PAIRS: Final = 7
MIN_TOKENS: Final = 32
_PILOT_TOKENS: Final = 16
_RUN_TIMEOUT_S: Final = 600.0

_ROOT: Final = Path(__file__).resolve().parents[1]

TEXT: Final = (
    "It was late in the autumn when the first of the ships came back to the harbour, and "
    "everybody who could walk went down to the water to see who was on board. The captain "
    "stood at the rail with his hat in his hand, and he began to tell them what had happened "
    "on the long way home:"
)

SAMPLING: Final = (
    *("--temperature", "0.8", "--top-k", "40", "--top-p", "0.95"),
    *("--min-p", "0.05", "--repeat-penalty", "1"),
)
"""The chain that `engine/bench_loop.py` has, whatever the app's defaults are."""


class BenchError(Exception):
    """Ends the program with a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run of either side."""

    tokens_per_s: float
    first_token_s: float
    load_s: float
    generated: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What both sides have in common; read from what the app chose by itself."""

    gguf: str
    name: str
    threads: int
    ctx: int
    ubatch: int
    gpu_layers: int


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio, app over bare loop. `budget` None: nothing is promised for it."""

    name: str
    ratio: float
    budget: float | None
    values: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Measure, print, and return the exit code."""
    try:
        options = _parse(argv)
        conditions, rows = measure(_gguf(options), quick=options.quick, tell=_progress)
        if options.json:
            print(json.dumps(_as_json(conditions, rows, quick=options.quick)))
        else:
            _print_table(conditions, rows)
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
    parser.add_argument("--gguf", metavar="FILE", help="weights (default: the included ones)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def _gguf(options: argparse.Namespace) -> str:
    if options.gguf is not None:
        path = typed_path(options.gguf)
        if not is_file(path):
            raise BenchError(f"There is no file {path}. Check the path given with --gguf.")
        return str(path.resolve())
    from app.gguf import starter

    found = starter.find()
    if found is None:
        raise BenchError("No weights are installed. Name a GGUF file with --gguf FILE.")
    return str(found.path)


# --- measuring --------------------------------------------------------------------------------


def measure(gguf: str, *, quick: bool, tell: Callable[[str], None]) -> tuple[Conditions, list[Row]]:
    """Run both sides in turn. Raises BenchError if one of them fails."""
    began = time.monotonic()
    tell("one short run to see how fast this machine is")
    pilot, conditions = run_app(gguf, _PILOT_TOKENS)
    overhead_s = time.monotonic() - began
    tokens = _tokens_per_run(pilot.tokens_per_s, quick=quick)
    pairs: list[tuple[Run, Run]] = []
    wanted = QUICK_PAIRS if quick else FULL_PAIRS
    longest_s = 2 * (overhead_s + tokens / pilot.tokens_per_s)
    for number in range(wanted):
        if pairs and quick and time.monotonic() - began + longest_s > QUICK_S:
            break
        tell(f"pair {number + 1} of {wanted}, {tokens} tokens each")
        pair_began = time.monotonic()
        pairs.append(_run_pair(conditions, tokens, bare_first=number % 2 == 1))
        longest_s = max(time.monotonic() - pair_began, 0.0 if number else longest_s / 2)
        tokens = pairs[0][0].generated
    return conditions, rows_of(pairs)


def _tokens_per_run(tokens_per_s: float, *, quick: bool) -> int:
    """Long enough to mean something, short enough for a slow machine."""
    seconds, most = (2.5, 128) if quick else (8.0, 256)
    return max(MIN_TOKENS, min(most, int(tokens_per_s * seconds)))


def _run_pair(conditions: Conditions, tokens: int, *, bare_first: bool) -> tuple[Run, Run]:
    if bare_first:
        bare = run_bare(conditions, tokens)
        return run_app(conditions.gguf, tokens)[0], bare
    app = run_app(conditions.gguf, tokens)[0]
    # If the weights ended their text early, the bare loop stops there too.
    return app, run_bare(conditions, app.generated)


def run_app(gguf: str, tokens: int) -> tuple[Run, Conditions]:
    """One `ask` with its whole trace, timed where its lines arrive."""
    command = [sys.executable, str(_ROOT / "main.py"), "ask", TEXT, "--raw", "--json"]
    command += ["--gguf", gguf, "--seed", "1", "--max-tokens", str(tokens), *SAMPLING]
    arrivals: list[float] = []
    loaded: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    for line, at in _lines_of(command):
        event = line.split('"', 4)[3]
        if event == "token":
            arrivals.append(at)
        elif event == "loaded":
            loaded = json.loads(line)
        elif event == "summary":
            summary = json.loads(line)
    if len(arrivals) < 2 or not loaded or not summary:
        raise BenchError("The app answered too little to be measured. Try other weights.")
    run = Run(
        tokens_per_s=(len(arrivals) - 1) / (arrivals[-1] - arrivals[0]),
        first_token_s=summary["first_token_s"],
        load_s=loaded["load_s"],
        generated=summary["generated"],
        token_ids=tuple(summary["token_ids"]),
    )
    conditions = Conditions(
        gguf=gguf,
        name=loaded["name"],
        threads=loaded["n_threads"],
        ctx=loaded["n_ctx"],
        ubatch=loaded["n_ubatch"],
        gpu_layers=loaded["n_gpu_layers"],
    )
    return run, conditions


def run_bare(conditions: Conditions, tokens: int) -> Run:
    """One run of the bare loop under the app's conditions."""
    command = [
        sys.executable,
        "-I",
        str(_ROOT / "app" / "engine" / "bench_loop.py"),
        "--text",
        TEXT,
    ]
    for name in ("gguf", "threads", "ctx", "ubatch", "gpu_layers"):
        command += [f"--{name.replace('_', '-')}", str(getattr(conditions, name))]
    command += ["--seed", "1", "--tokens", str(max(2, tokens))]
    last = [line for line, _ in _lines_of(command)][-1:]
    if not last:
        raise BenchError("The bare loop printed nothing, so there is nothing to compare with.")
    figures = json.loads(last[0])
    figures["token_ids"] = tuple(figures["token_ids"])
    return Run(**{name: figures[name] for name in Run.__dataclass_fields__})


def _lines_of(command: list[str]) -> list[tuple[str, float]]:
    """The lines that a program prints, and when each arrived. Raises BenchError if it fails."""
    lines: list[tuple[str, float]] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # Its stderr is a sentence at most, so it cannot fill its pipe meanwhile.
            lines.extend((line, time.perf_counter()) for line in process.stdout)
            said = process.stderr.read().strip()
            code = process.wait(_RUN_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    if code != 0:
        what = said.splitlines()[-1] if said else f"It ended with code {code}."
        raise BenchError(f"A measured run failed. {what}")
    return lines


# --- figures ----------------------------------------------------------------------------------

_FIGURES: Final[tuple[tuple[str, str, float | None], ...]] = (
    ("ask_tokens_per_s", "tokens_per_s", 0.97),
    ("ask_first_token_s", "first_token_s", None),
    ("load_s", "load_s", None),
)
"""(row, field of Run, least ratio that design.md asks for)."""


def rows_of(pairs: Sequence[tuple[Run, Run]]) -> list[Row]:
    """Medians and ratios of (app, bare) pairs."""
    rows = []
    for name, figure, budget in _FIGURES:
        app = [getattr(run, figure) for run, _ in pairs]
        bare = [getattr(run, figure) for _, run in pairs]
        ratios = [a / b for a, b in zip(app, bare, strict=True)]
        values = {
            "app": statistics.median(app),
            "bare": statistics.median(bare),
            "app_runs": app,
            "bare_runs": bare,
            "generated": [run.generated for run, _ in pairs],
            "same_tokens": all(a.token_ids == b.token_ids for a, b in pairs),
        }
        rows.append(Row(name, statistics.median(ratios), budget, values))
    return rows


def _as_json(conditions: Conditions, rows: Sequence[Row], *, quick: bool) -> dict[str, Any]:
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "weights": conditions.name,
        "threads": conditions.threads,
        "gpu_layers": conditions.gpu_layers,
        "quick": quick,
        "rows": [
            {"name": row.name, "ratio": row.ratio, "budget": row.budget, "values": row.values}
            for row in rows
        ],
    }


def _progress(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


_TITLES: Final = {
    "ask_tokens_per_s": ("tokens/s of ask with the trace on", "tokens/s"),
    "ask_first_token_s": ("time to the first token", "s"),
    "load_s": ("loading the weights", "s"),
}


def _print_table(conditions: Conditions, rows: Sequence[Row]) -> None:
    layers = f", {conditions.gpu_layers} layers on a device" if conditions.gpu_layers else ""
    print(f"{conditions.name}, {conditions.threads} threads{layers}")
    print(f"{'what':<36}{'app':>10}{'bare loop':>12}  {'unit':<9}{'ratio':>7}  budget")
    for row in rows:
        title, unit = _TITLES[row.name]
        budget = "" if row.budget is None else f"≥ {row.budget:.2f}"
        app, bare = row.values["app"], row.values["bare"]
        print(f"{title:<36}{app:>10.2f}{bare:>12.2f}  {unit:<9}{row.ratio:>7.3f}  {budget}")
