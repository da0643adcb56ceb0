"""`bench`: that it compares like with like, keeps its time, and prints what design.md asks for."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import bench

ROOT = Path(__file__).resolve().parents[2]
CONDITIONS = bench.Conditions("w.gguf", "W", threads=2, ctx=512, ubatch=64, gpu_layers=0)


def _run(tokens_per_s: float, generated: int = 32) -> bench.Run:
    ids = tuple(range(generated))
    return bench.Run(tokens_per_s, 0.5, load_s=0.25, generated=generated, token_ids=ids)


class FakeMachine:
    """A clock, and runs that take the time which their speed implies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens_per_s: float) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, int]] = []
        self._speed = tokens_per_s
        monkeypatch.setattr(bench.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(bench, "run_app", self._app)
        monkeypatch.setattr(bench, "run_bare", self._bare)

    def _app(self, gguf: str, tokens: int) -> tuple[bench.Run, bench.Conditions]:
        self.calls.append(("app", tokens))
        self.now += 1.5 + tokens / self._speed
        return _run(self._speed, tokens), CONDITIONS

    def _bare(self, conditions: bench.Conditions, tokens: int) -> bench.Run:
        self.calls.append(("bare", tokens))
        self.now += 1.0 + tokens / self._speed
        return _run(self._speed, tokens)


def _quiet(text: str) -> None:
    """Progress that nobody reads."""


# --- the plan of the runs ---------------------------------------------------------------------


@pytest.mark.parametrize("tokens_per_s", [4, 7, 20, 60, 1000])
def test_quick_ends_within_forty_seconds(
    monkeypatch: pytest.MonkeyPatch, tokens_per_s: float
) -> None:
    machine = FakeMachine(monkeypatch, tokens_per_s)
    _, rows = bench.measure("w.gguf", quick=True, tell=_quiet)
    assert machine.now < 40
    assert rows[0].ratio == 1.0


def test_both_sides_take_turns_and_do_the_same_number_of_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = FakeMachine(monkeypatch, 60)
    bench.measure("w.gguf", quick=False, tell=_quiet)
    pilot, *calls = machine.calls
    assert pilot[0] == "app"
    assert [side for side, _ in calls[:4]] == ["app", "bare", "bare", "app"]
    assert len(calls) == 2 * bench.FULL_PAIRS
    assert len({tokens for _, tokens in calls}) == 1


def test_a_text_that_ends_early_ends_early_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(bench, "run_app", lambda gguf, tokens: (_run(50, 20), CONDITIONS))

    def bare(conditions: bench.Conditions, tokens: int) -> bench.Run:
        asked.append(tokens)
        return _run(50, tokens)

    monkeypatch.setattr(bench, "run_bare", bare)
    bench.measure("w.gguf", quick=True, tell=_quiet)
    assert set(asked) == {20}


# --- figures ----------------------------------------------------------------------------------


def test_ratios_are_medians_of_pairs() -> None:
    pairs = [(_run(50), _run(100)), (_run(90), _run(100)), (_run(40), _run(50))]
    rows = {row.name: row for row in bench.rows_of(pairs)}
    speed = rows["ask_tokens_per_s"]
    assert speed.ratio == pytest.approx(0.8)
    assert speed.budget == 0.97
    assert (speed.values["app"], speed.values["bare"]) == (50, 100)
    assert rows["load_s"].budget is None


def _fake_measure(*_: object, **__: object) -> tuple[bench.Conditions, list[bench.Row]]:
    return CONDITIONS, bench.rows_of([(_run(97), _run(100))])


def test_json_is_one_object_with_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--json", "--quick", "--gguf", __file__]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["quick"] is True
    assert [set(row) for row in report["rows"]] == [{"name", "ratio", "budget", "values"}] * 3
    assert report["rows"][0]["ratio"] == pytest.approx(0.97)


def test_the_table_prints_both_absolutes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--gguf", __file__]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert {"97.00", "100.00", "0.970"} <= set(line.split())


# --- errors are one sentence ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code"), [(["--nonsense"], 2), (["--gguf", "/does/not/exist.gguf"], 1)]
)
def test_wrong_arguments(argv: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(argv) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.rstrip().endswith(".")


def test_without_weights_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.gguf import starter

    monkeypatch.setattr(starter, "find", lambda: None)
    assert bench.main([]) == 1
    assert "--gguf" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('The weights are bad.')", "The weights are bad."),
        ("raise SystemExit(9)", "code 9"),
    ],
)
def test_a_run_that_fails_is_a_sentence(program: str, words: str) -> None:
    with pytest.raises(bench.BenchError, match=words):
        bench._lines_of([sys.executable, "-c", program])


def test_ctrl_c_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupt)
    assert bench.main(["--gguf", __file__]) == 130
    assert capsys.readouterr().err == ""


def _fake_lines(*lines: dict[str, Any]) -> Callable[[list[str]], list[tuple[str, float]]]:
    return lambda command: [(json.dumps(line), float(at)) for at, line in enumerate(lines)]


def test_an_app_that_says_too_little_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_lines_of", _fake_lines({"event": "token"}, {"event": "summary"}))
    with pytest.raises(bench.BenchError, match="too little"):
        bench.run_app("w.gguf", 4)


def test_the_apps_tokens_are_timed_where_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = {"event": "loaded", "name": "W", "load_s": 0.1, "n_threads": 2, "n_ctx": 512}
    loaded |= {"n_ubatch": 64, "n_gpu_layers": 0}
    tokens = [{"event": "token"}] * 4
    summary = {"event": "summary", "first_token_s": 0.2, "generated": 4, "token_ids": [1, 2]}
    monkeypatch.setattr(bench, "_lines_of", _fake_lines(loaded, *tokens, summary))
    run, conditions = bench.run_app("w.gguf", 4)
    assert run == bench.Run(1.0, first_token_s=0.2, load_s=0.1, generated=4, token_ids=(1, 2))
    assert conditions == CONDITIONS


# --- the bare loop ----------------------------------------------------------------------------


def test_the_bare_loop_imports_nothing_of_the_app() -> None:
    tree = ast.parse((ROOT / "app" / "engine" / "bench_loop.py").read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imported = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {name.split(".")[0] for name in imported}
    assert "llama_cpp" in names
    assert not names & {"app", "models", "ui"}


@pytest.mark.weights
def test_both_sides_say_the_same_tokens(starter_gguf: Path) -> None:
    """Same weights, text, seed and chain: the comparison is of like with like."""
    run, conditions = bench.run_app(str(starter_gguf), 6)
    bare = bench.run_bare(conditions, 6)
    assert run.token_ids == bare.token_ids
    assert run.generated == bare.generated == len(run.token_ids) == 6
    assert min(run.tokens_per_s, bare.tokens_per_s, bare.first_token_s, bare.load_s) > 0


@pytest.mark.weights
def test_the_bare_loop_refuses_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("These are my notes.")
    bad = bench.Conditions(str(path), "", threads=1, ctx=256, ubatch=64, gpu_layers=0)
    with pytest.raises(bench.BenchError, match="do not load"):
        bench.run_bare(bad, 2)
