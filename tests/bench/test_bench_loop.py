"""The two sides of the bench: that they do the same work and are timed alike."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.bench import sides as sides
from app.bench.sides import BenchError, Conditions, Run, Window

ROOT = Path(__file__).resolve().parents[2]


def conditions(gguf: Path, **fields: Any) -> Conditions:
    values: dict[str, Any] = {"threads": 1, "ctx": 256, "ubatch": 64, "gpu_layers": 0}
    return Conditions(str(gguf), "", **(values | fields))


def test_the_bare_loop_imports_nothing_of_the_app() -> None:
    tree = ast.parse((ROOT / "app" / "bench" / "loop.py").read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {name.split(".")[0] for name in imported}
    assert "importlib" in names
    assert not names & {"app", "models", "ui", "numpy"}


@pytest.mark.weights
@pytest.mark.parametrize(
    "file",
    [
        "made_gguf",
        *(pytest.param(file, marks=pytest.mark.soak) for file in ("starter_gguf", "gemma_gguf")),
    ],
)
def test_both_sides_say_the_same_tokens(file: str, request: pytest.FixtureRequest) -> None:
    """Same weights, text, seed and chain: the comparison is of like with like."""
    gguf: Path = request.getfixturevalue(file)
    run, shared = sides.run_app(str(gguf), 6)
    bare = sides.run_bare(shared, 6)
    assert run.token_ids == bare.token_ids
    assert run.generated == bare.generated == len(run.token_ids) == 6
    assert min(run.tokens_per_s, bare.tokens_per_s, bare.first_token_s, bare.load_s) > 0


@pytest.mark.weights
def test_first_of_several_sequences_is_the_one_alone(made_gguf: Path) -> None:
    """The batch of four begins as the single sequence does: same prompt, same first draw."""
    fields = conditions(made_gguf, ctx=2048)
    alone = sides.run_bare(fields, 3)
    four = sides.run_bare(fields, 3, sequences=4)
    assert four.token_ids[0] == alone.token_ids[0]
    assert four.generated == alone.generated == 3


@pytest.mark.weights
def test_tokens_are_counted_from_a_point_in_time(made_gguf: Path) -> None:
    """With a late start more is generated than is counted; nothing is counted for long."""
    fields = conditions(made_gguf, ctx=4096)
    run = sides.run_bare(fields, 4, window=Window(4, after_s=0.05))
    assert run.generated > 4
    assert run.tokens_per_s > 0
    short = sides.run_bare(fields, 2000, window=Window(2000, most_s=0.01))
    assert short.generated < 2000


@pytest.mark.weights
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only /proc tells peaks")
def test_peak_memory_is_this_programs_own(made_gguf: Path) -> None:
    """Not that of whoever started it, as getrusage would have it."""
    ballast = bytearray(os.urandom(1 << 20)) * 300
    run = sides.run_bare(conditions(made_gguf, ctx=1024), 2)
    assert 20 * 2**20 < run.peak_bytes < 200 * 2**20 < len(ballast)
    assert sides.peak_bytes(os.getpid()) > len(ballast)
    assert sides.peak_bytes(2**30) == 0


@pytest.mark.weights
def test_the_bare_loop_refuses_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("These are my notes.")
    with pytest.raises(BenchError, match="couldn't be loaded"):
        sides.run_bare(conditions(path), 2)


@pytest.mark.weights
@pytest.mark.usefixtures("forked_engines")
def test_a_session_measures_replies_alone_and_together(starter_gguf: Path) -> None:
    from app.engine.protocol.loading_messages import LoadOptions

    session = sides.Session(str(starter_gguf), LoadOptions(n_ctx=512, n_threads=1))
    try:
        answer = session.answer(session.ask(sides.text_prompt(), 5))
        assert len(answer.arrivals) == answer.summary.generated == 5
        assert list(answer.arrivals) == sorted(answer.arrivals)
        assert Window(5).rate(answer.arrivals) > 0
        ids = [session.ask(sides.text_prompt(), 6, seed=seed) for seed in (1, 2)]
        assert sides.together([session.answer(request_id) for request_id in ids]) > 0
        assert 0 < session.stop_after(session.ask(sides.text_prompt(), 0), 2) < 30
        if Path("/proc").is_dir():
            assert session.peak_bytes() > 50 * 2**20
    finally:
        session.close()


def test_a_session_without_weights_is_a_sentence(tmp_path: Path) -> None:
    from app.engine.protocol.loading_messages import LoadOptions

    with pytest.raises(BenchError, match="couldn't be loaded"):
        sides.Session(str(tmp_path / "gone.gguf"), LoadOptions())


# --- windows and rates --------------------------------------------------------------------------


def test_rates_are_counted_as_llama_bench_counts() -> None:
    arrivals = [0.0, 0.1, 0.2, 0.3, 0.4]
    assert Window(5).rate(arrivals) == pytest.approx(10)
    assert Window(3).rate(arrivals) == pytest.approx(10)
    slow_later = [0.0, 0.1, 0.2, 1.2, 2.2, 3.2]
    assert Window(10, after_s=0.2).rate(slow_later) == pytest.approx(1)
    assert Window(10, after_s=0.2, most_s=1.5).rate(slow_later) == pytest.approx(1)
    with pytest.raises(BenchError):
        Window(10, after_s=9).rate(slow_later)


def test_replies_together_count_while_all_are_written() -> None:
    def answer(*arrivals: float) -> sides.Answer:
        return sides.Answer(arrivals, None, arrivals[-1])  # type: ignore[arg-type]

    late = answer(1.0, 2.0, 3.0)
    early = answer(0.0, 0.5, 1.5, 2.5, 3.5)
    assert sides.together([late, early]) == pytest.approx(2.0)  # 2, 3 and 1.5, 2.5 in two seconds
    with pytest.raises(BenchError):
        sides.together([answer(0.0, 1.0), answer(2.0, 3.0)])


# --- programs -----------------------------------------------------------------------------------


def test_the_busy_program_computes_and_is_ended() -> None:
    with sides.one_core_taken() as pid:
        process = psutil.Process(pid)
        deadline = time.monotonic() + 30
        while process.cpu_times().user < 0.2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.cpu_times().user >= 0.2
    assert not psutil.pid_exists(pid)


def test_busy_share_is_the_median_look() -> None:
    looks = iter([90.0, 4.0, 6.0])
    assert sides.busy_share(lambda _: next(looks)) == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('The weights are bad.')", "The weights are bad."),
        ("raise SystemExit(9)", "code 9"),
    ],
)
def test_a_run_that_fails_is_a_sentence(program: str, words: str) -> None:
    with pytest.raises(BenchError, match=words):
        sides.lines_of([sys.executable, "-c", program])


def test_a_program_that_takes_too_long_is_interrupted_and_ends_in_order() -> None:
    program = (
        # A shell's background jobs begin with the interrupt ignored.
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    while True:\n"
        '        print(\'{"event":"token"}\', flush=True); time.sleep(0.01)\n'
        "except KeyboardInterrupt:\n"
        '    print(\'{"event":"summary"}\', flush=True); sys.exit(130)\n'
    )
    limit = sides._Limit(Window(1000, after_s=0.1, most_s=0.2))
    lines = [line for line, _ in sides.lines_of([sys.executable, "-c", program], limit)]
    assert len(lines) > 2
    assert "summary" in lines[-1]


def _fake_lines(*lines: dict[str, Any]) -> Callable[..., list[tuple[str, float]]]:
    return lambda *_: [(json.dumps(line), float(at)) for at, line in enumerate(lines)]


def test_an_app_that_says_too_little_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "lines_of", _fake_lines({"event": "token"}, {"event": "summary"}))
    with pytest.raises(BenchError, match="too short"):
        sides.run_app("w.gguf", 4)


def test_the_apps_tokens_are_timed_where_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = {"event": "loaded", "name": "W", "load_s": 0.1, "n_threads": 2, "n_ctx": 512}
    loaded |= {"n_ubatch": 64, "n_gpu_layers": 0}
    tokens = [{"event": "token"}] * 4
    summary = {"event": "summary", "first_token_s": 0.2, "generated": 4, "token_ids": [1, 2]}
    monkeypatch.setattr(sides, "lines_of", _fake_lines(loaded, *tokens, summary))
    run, shared = sides.run_app("w.gguf", 4)
    assert run == Run(1.0, first_token_s=0.2, load_s=0.1, generated=4, token_ids=(1, 2))
    assert shared == Conditions("w.gguf", "W", threads=2, ctx=512, ubatch=64, gpu_layers=0)
