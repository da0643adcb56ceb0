"""`bench`: that it compares like with like, keeps its time, and prints what design.md asks for."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.bench import bench, rows as bench_rows
from app.bench.inside_rows import LongChat
from app.bench.rows import Report, Row
from app.bench.sides import Answer, BenchError, Conditions, Run, Window
from app.engine.protocol.frames import Array
from app.engine.protocol.inside_messages import LookInside
from app.engine.protocol.messages import Summary
from app.engine.protocol.prompt_messages import IdsPrompt, ReadPrompt

CONDITIONS = Conditions("w.gguf", "W", threads=2, ctx=512, ubatch=64, gpu_layers=0)


def _run(tokens_per_s: float, generated: int = 32) -> Run:
    ids = tuple(range(generated))
    return Run(tokens_per_s, 0.5, load_s=0.25, generated=generated, token_ids=ids, peak_bytes=100)


def _summary(stop_reason: str = "max_tokens", **fields: Any) -> Summary:
    return Summary(stop_reason, "Hi", **fields)


class FakeMachine:
    """A clock, and runs that take the time which their speed implies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens_per_s: float) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, int]] = []
        self.speed = tokens_per_s
        monkeypatch.setattr(bench_rows.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(bench_rows, "run_app", self._app)
        monkeypatch.setattr(bench_rows, "run_bare", self._bare)
        monkeypatch.setattr(bench_rows, "Session", lambda gguf, options: FakeSession(self))
        monkeypatch.setattr(bench_rows, "one_core_taken", self._taken)

    @contextmanager
    def _taken(self) -> Iterator[int]:
        self.calls.append(("busy", 0))
        yield 1

    def takes(self, tokens: int, window: Window | None = None, overhead_s: float = 1.5) -> None:
        seconds = tokens / self.speed
        if window is not None:
            seconds = window.after_s + min(window.most_s, window.tokens / self.speed)
        self.now += overhead_s + seconds

    def _app(self, gguf: str, tokens: int, window: Window | None = None) -> tuple[Run, Conditions]:
        self.calls.append(("app", tokens))
        self.takes(tokens, window)
        return _run(self.speed, tokens), CONDITIONS

    def _bare(
        self,
        conditions: Conditions,
        tokens: int,
        *,
        sequences: int = 1,
        window: Window | None = None,
    ) -> Run:
        self.calls.append((f"bare {conditions.threads}", tokens))
        self.takes(tokens, window, 1.0)
        return _run(self.speed / (3 - conditions.threads), tokens)


class FakeSession:
    """An engine that needs no weights: replies take their time on the machine's clock."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine
        self._read: list[list[int]] = [[]]
        self.loaded = SimpleNamespace(n_ctx=8192)
        machine.now += 1.5

    def ask(self, prompt: object, tokens: int, *, trace: bool = True, seed: int = 1) -> int:
        if isinstance(prompt, IdsPrompt):
            self._read.append(prompt.token_ids)
        self._machine.takes(tokens, overhead_s=0.1)
        return tokens

    def told(self, command: ReadPrompt | LookInside, _kind: type) -> tuple[Any, float]:
        self._machine.now += 0.25
        if isinstance(command, ReadPrompt):
            return SimpleNamespace(token_ids=Array("i4", [3], array("i", [7, 8, 9]).tobytes())), 0.0
        before = command.token_ids[:-1]
        there = max(_common(before, read) for read in self._read)
        return SimpleNamespace(n_read=len(before) - there, n_copied=there), 0.25

    def has_ended(self, request_id: int) -> bool:
        self._looks = getattr(self, "_looks", 0) + 1
        return self._looks % 4 == 0

    def answer(self, request_id: int) -> Answer:
        arrivals = tuple(n / self._machine.speed for n in range(request_id))
        summary = _summary(prompt_tokens=10 + request_id, generated=request_id, evaluated=5)
        return Answer(arrivals, summary, 1.0)

    def stop_after(self, request_id: int, tokens: int) -> float:
        self._machine.takes(tokens, overhead_s=0.1)
        return 0.05

    def peak_bytes(self) -> int:
        return 125

    def close(self) -> None:
        """Nothing to end."""


def _common(one: list[int], other: list[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _quiet(text: str) -> None:
    """Progress that nobody reads."""


# --- the plan of the runs ---------------------------------------------------------------------


@pytest.mark.parametrize("tokens_per_s", [4, 7, 20, 60, 110, 1000])
def test_quick_ends_within_forty_seconds(
    monkeypatch: pytest.MonkeyPatch, tokens_per_s: float
) -> None:
    machine = FakeMachine(monkeypatch, tokens_per_s)
    report = bench_rows.measure("w.gguf", quick=True, tell=_quiet)
    assert machine.now < 40
    assert report.rows[0].ratio == 1.0
    assert bool(report.left_out) is (len(report.rows) < len(bench._TITLES) - 4)


def test_quick_leaves_nothing_out_on_an_ordinary_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMachine(monkeypatch, 110)
    report = bench_rows.measure("w.gguf", quick=True, tell=_quiet)
    assert report.left_out == []
    only_whole = {
        "eight_at_once",
        "inside_beside_reply",
        "inside_long_cached",
        "inside_long_unread",
    }
    assert {row.name for row in report.rows} == set(bench._TITLES) - only_whole


def test_a_whole_bench_has_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMachine(monkeypatch, 110)
    report = bench_rows.measure("w.gguf", quick=False, tell=_quiet)
    assert report.left_out == []
    rows = {row.name: row for row in report.rows}
    assert set(rows) == set(bench._TITLES)
    first, whole = rows["inside_first_s"], rows["inside_whole_s"]
    assert (first.values["app"], first.ratio) == (0.25, 2.0)
    assert (whole.values["app"], whole.ratio) == (0.5, 3.0)
    assert rows["inside_beside_reply"].values["looks"] == 3 * 5
    cached, unread = rows["inside_long_cached"], rows["inside_long_unread"]
    assert (cached.values["app"], cached.values["copied"], cached.ratio) == (1, 7999, 1.0)
    assert (unread.values["app"], unread.values["copied"], unread.ratio) == (8000, 0, 1.0)


def test_a_short_context_has_no_long_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(FakeMachine(monkeypatch, 110))
    session.loaded.n_ctx = 2048
    with pytest.raises(BenchError, match="2,048 tokens"):
        LongChat(session, _quiet)  # type: ignore[arg-type]


def test_both_sides_take_turns_and_do_the_same_number_of_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = FakeMachine(monkeypatch, 60)
    bench_rows.measure("w.gguf", quick=False, tell=_quiet)
    pilot, *calls = machine.calls
    assert pilot[0] == "app"
    pairs = calls[: 2 * bench_rows.FULL_PAIRS]
    assert [side for side, _ in pairs[:4]] == ["app", "bare 2", "bare 2", "app"]
    assert len({tokens for _, tokens in pairs}) == 1
    busy = calls.index(("busy", 0))
    assert [side for side, _ in calls[busy : busy + 4]] == ["busy", "bare 1", "bare 2", "app"]


def test_a_text_that_ends_early_ends_early_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeMachine(monkeypatch, 50)
    asked: list[int] = []
    monkeypatch.setattr(bench_rows, "run_app", lambda *_: (_run(50, 20), CONDITIONS))

    def bare(conditions: Conditions, tokens: int, **_: object) -> Run:
        machine.takes(tokens)
        asked.append(tokens)
        return _run(50, tokens)

    monkeypatch.setattr(bench_rows, "run_bare", bare)
    bench_rows.measure("w.gguf", quick=False, tell=_quiet)
    assert set(asked[: bench_rows.FULL_PAIRS]) == {20}


def test_a_part_that_fails_is_listed_and_the_others_count(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMachine(monkeypatch, 110)

    def fail(*_: object) -> None:
        raise BenchError("It did not load.")

    monkeypatch.setattr(bench_rows, "Session", fail)
    report = bench_rows.measure("w.gguf", quick=False, tell=_quiet)
    parts = ("several_replies", "inside", "inside_beside_reply", "inside_long_chat")
    assert report.left_out == [f"{part}: It did not load." for part in parts]
    assert {"ask_tokens_per_s", "busy_core_vs_best"} <= {row.name for row in report.rows}


# --- figures ----------------------------------------------------------------------------------


def test_ratios_are_medians_of_pairs() -> None:
    pairs = [(_run(50), _run(100)), (_run(90), _run(100)), (_run(40), _run(50))]
    rows = {row.name: row for row in bench_rows.rows_of(pairs)}
    speed = rows["ask_tokens_per_s"]
    assert speed.ratio == pytest.approx(0.8)
    assert speed.budget == 0.97
    assert (speed.values["app"], speed.values["bare"]) == (50, 100)
    assert rows["load_s"].budget is None


def test_times_are_better_when_they_are_short() -> None:
    slow = Run(50, 0.8, load_s=0.5, generated=32, token_ids=())
    rows = {row.name: row.ratio for row in bench_rows.rows_of([(slow, _run(50))])}
    assert rows["ask_first_token_s"] == pytest.approx(0.5 / 0.8)
    assert rows["load_s"] == pytest.approx(0.5)


def test_busy_rows_compare_with_all_cores_and_with_the_best_number() -> None:
    rows = bench_rows.busy_rows([20.0, 24.0], {1: [25.0, 20.0], 2: [4.0, 6.0]}, 2)
    assert [row.name for row in rows] == ["busy_core_vs_physical", "busy_core_vs_best"]
    assert rows[0].ratio == pytest.approx((20 / 4 + 24 / 6) / 2)
    assert rows[1].ratio == pytest.approx((20 / 25 + 24 / 20) / 2)
    assert [row.budget for row in rows] == [2.0, 0.9]
    assert rows[0].values["bare_by_threads"] == {"1": [25.0, 20.0], "2": [4.0, 6.0]}


@pytest.mark.parametrize(
    ("reason", "evaluated", "ratio"),
    [("max_tokens", 21, 1.0), ("end_token", 20, 1.0), ("max_tokens", 42, 0.5)],
)
def test_only_new_tokens_are_evaluated_on_the_next_turn(
    reason: str, evaluated: int, ratio: float
) -> None:
    """A last token that nothing followed has not been read by any pass, so it is new, too."""
    first = _summary(prompt_tokens=30, generated=10, stop_reason=reason)
    second = _summary(prompt_tokens=60, evaluated=evaluated)
    assert bench_rows.next_turn_row(first, second).ratio == pytest.approx(ratio)


# --- what is printed --------------------------------------------------------------------------


def _fake_measure(*_: object, **__: object) -> Report:
    return Report(CONDITIONS, bench_rows.rows_of([(_run(90), _run(100))]), ["busy: no time."])


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "machine_share", lambda: 0.02)


def test_json_is_one_object_with_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--json", "--quick", "--gguf", __file__]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["quick"] is True
    assert report["is_idle"] is True
    assert [set(row) for row in report["rows"]] == [{"name", "ratio", "budget", "values"}] * 3
    assert report["rows"][0]["ratio"] == pytest.approx(0.9)
    assert report["left_out"] == ["busy: no time."]


def test_two_files_are_two_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--json", "--gguf", __file__, "--gguf", __file__]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [len(other["rows"]) for other in report["more"]] == [3]


def test_the_table_prints_both_absolutes_and_what_is_not_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--gguf", __file__]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"90.00", "100.00", "0.900"} <= set(lines[2].split())
    assert lines[2].endswith("not met")
    assert lines[-1] == "left out: busy: no time."


def test_every_row_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"app": 1.0, "bare": 2.0, "unit": "s"}
    for name in bench._TITLES:
        assert len(bench._line(Row(name, 0.5, 1.0, values))) < 100


def test_a_busy_machine_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "machine_share", lambda: 0.4)
    monkeypatch.setattr(bench, "measure", _fake_measure)
    assert bench.main(["--json", "--gguf", __file__]) == 0
    out, err = capsys.readouterr()
    assert "use 40% of this machine" in err
    assert json.loads(out)["is_idle"] is False


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


def test_ctrl_c_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupt)
    assert bench.main(["--gguf", __file__]) == 130
    assert capsys.readouterr().err == ""


# --- the budget itself ------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.weights
@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_the_engine_rows_of_the_budget(file: str, request: pytest.FixtureRequest) -> None:
    """The whole bench; only an idle machine can hold it, so a busy one fails at once."""
    import psutil

    from app.bench.sides import busy_share

    assert busy_share(psutil.cpu_percent) < bench.IDLE_SHARE, "measure on an idle machine"
    path: Path = request.getfixturevalue(file)
    report = bench_rows.measure(str(path), quick=False, tell=print)
    bench._print_table(report)
    assert report.left_out == []
    assert {row.name: row.ratio for row in report.rows if row.ratio < (row.budget or 0)} == {}
