"""Which runs `bench` makes, in which order, and what ratios come of them.

Both sides take turns, so that a machine that gets slower meanwhile favours neither; each figure is
a median and each ratio the median of the pairs' ratios. A ratio is always "more is better": app
over bare for speeds, limit over measured for times. In quick mode a part is begun only if there is
time for it; what was left out is listed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from app.bench.inside_rows import BESIDE_S, LEAST_SPEED, LONG_TOKENS, Clicks, LongChat, beside
from app.bench.sides import (
    BenchError,
    Conditions,
    Run,
    Session,
    Window,
    one_core_taken,
    run_app,
    run_bare,
    text_prompt,
    together,
    turns,
)
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Summary

QUICK_S: Final = 36.0
"""What would last longer than this is not begun; `--quick` ends within 40 s."""
QUICK_MOST_S: Final = 4.0
"""No reply of a pair is measured for longer in quick mode."""
QUICK_PAIRS: Final = 2
FULL_PAIRS: Final = 7
MIN_TOKENS: Final = 32
FOUR, EIGHT = 4, 8
"""Replies at once."""
STOP_LIMIT_S: Final = 0.2
_PILOT_TOKENS: Final = 16
_TRIES: Final = 6
_SLOW_CORE_TOKENS_PER_S: Final = 8.0
_CHAT_READ_S: Final = 4.0
_MORE_CELLS: Final = 192


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio. `budget`: the least that design.md asks for; None: nothing is promised."""

    name: str
    ratio: float
    budget: float | None
    values: dict[str, Any]


@dataclass(slots=True)
class Report:
    """What was measured of one file, and what was not."""

    conditions: Conditions
    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


Tell = Callable[[str], None]


def measure(gguf: str, *, quick: bool, tell: Tell) -> Report:
    """Measure one file. Raises BenchError if not even the first row can be had."""
    return _Measuring(gguf, quick=quick, tell=tell).run()


class _Measuring:
    """The parts in the order of their weight; each adds its rows to the report."""

    def __init__(self, gguf: str, *, quick: bool, tell: Tell) -> None:
        self._gguf = gguf
        self._quick = quick
        self._tell = tell
        self._began = time.monotonic()

    def run(self) -> Report:
        self._tell("one short run to see how fast this machine is")
        pilot, self._conditions = run_app(self._gguf, _PILOT_TOKENS)
        self._pilot_s = time.monotonic() - self._began
        self._speed = pilot.tokens_per_s
        self._report = Report(self._conditions)
        self._pairs()
        reply_s = self._tokens() / self._speed
        self._part("several_replies", 3 * self._pilot_s + 7 * reply_s, self._in_a_session)
        self._part("one_core_taken", self._busy_s(), self._busy)
        self._part("inside", self._pilot_s + _CHAT_READ_S, self._inside)
        if not self._quick:
            self._part("inside_beside_reply", 0.0, self._inside_beside)
            self._part("inside_long_chat", 0.0, self._inside_long)
        return self._report

    def _part(self, name: str, needs_s: float, act: Callable[[], None]) -> None:
        if self._quick and time.monotonic() - self._began + needs_s > QUICK_S:
            self._report.left_out.append(f"{name}: no time for it in quick mode")
            return
        try:
            act()
        except BenchError as error:
            self._report.left_out.append(f"{name}: {error}")

    def _tokens(self) -> int:
        """Long enough to mean something, short enough for a slow machine."""
        seconds, most = (2.0, 96) if self._quick else (8.0, 256)
        return max(MIN_TOKENS, min(most, int(self._speed * seconds)))

    # --- one reply -----------------------------------------------------------------------------

    def _pairs(self) -> None:
        tokens = self._tokens()
        pairs: list[tuple[Run, Run]] = []
        wanted = QUICK_PAIRS if self._quick else FULL_PAIRS
        longest_s = 2 * (self._pilot_s + tokens / self._speed)
        for number in range(wanted):
            if pairs and self._quick and self._elapsed() + longest_s > QUICK_S:
                break
            self._tell(f"pair {number + 1} of {wanted}, {tokens} tokens each")
            began = time.monotonic()
            pairs.append(self._pair(tokens, bare_first=number % 2 == 1))
            longest_s = max(time.monotonic() - began, 0.0 if number else longest_s / 2)
            tokens = pairs[0][0].generated
        self._report.rows += rows_of(pairs)
        self._bare_peak = max(run.peak_bytes for _, run in pairs)

    def _pair(self, tokens: int, *, bare_first: bool) -> tuple[Run, Run]:
        # A busy machine may be fifty times slower than the pilot found it.
        window = Window(tokens, most_s=QUICK_MOST_S) if self._quick else None
        if bare_first:
            bare = run_bare(self._conditions, tokens, window=window)
            return run_app(self._gguf, tokens, window)[0], bare
        app = run_app(self._gguf, tokens, window)[0]
        # If the weights ended their text early, the bare loop stops there too.
        return app, run_bare(self._conditions, app.generated, window=window)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    # --- several replies of one engine ----------------------------------------------------------

    def _in_a_session(self) -> None:
        self._tell("two turns, several replies at once, stopping, the trace switched off")
        options = LoadOptions(
            n_ctx=self._conditions.ctx, n_threads=self._conditions.threads, n_slots=EIGHT
        )
        session = Session(self._gguf, options)
        try:
            self._report.rows.append(next_turn_row(*_two_turns(session)))
            self._report.rows.append(self._trace_row(session))
            self._report.rows.append(self._at_once_row(session, "four_at_once", FOUR))
            if not self._quick:
                self._report.rows.append(self._at_once_row(session, "eight_at_once", EIGHT))
            self._report.rows.append(_stop_row(session, 2 if self._quick else 5))
            peak = session.peak_bytes()
        finally:
            session.close()
        if peak and self._bare_peak:
            values = {"app": peak / 1e6, "bare": self._bare_peak / 1e6, "unit": "MB"}
            self._report.rows.append(Row("peak_memory", self._bare_peak / peak, None, values))

    def _trace_row(self, session: Session) -> Row:
        on: list[float] = []
        off: list[float] = []
        for number in range(1 if self._quick else FULL_PAIRS):
            for is_on in (True, False) if number % 2 == 0 else (False, True):
                reply = session.ask(text_prompt(), self._tokens(), trace=is_on)
                rate = Window(self._tokens()).rate(session.answer(reply).arrivals)
                (on if is_on else off).append(rate)
        return pair_row("trace_on_off", on, off, 0.97, unit="tokens/s")

    def _at_once_row(self, session: Session, name: str, sequences: int) -> Row:
        tokens = self._tokens() // (2 if self._quick else 1)
        rounds = 1 if self._quick else 5
        return at_once_row(session, self._conditions, name, sequences, tokens, rounds)

    # --- looking inside --------------------------------------------------------------------------

    def _session(self, n_ctx: int = 0) -> Session:
        n_ctx = n_ctx or self._conditions.ctx
        options = LoadOptions(n_ctx=n_ctx, n_threads=self._conditions.threads)
        return Session(self._gguf, options)

    def _inside(self) -> None:
        self._tell("clicks on tokens of a chat, and what the network made of them")
        clicks = Clicks()
        for _ in range(1 if self._quick else 3):
            session = self._session()
            try:
                clicks.measure(session)
            finally:
                session.close()
        self._report.rows += click_rows(clicks)

    def _inside_beside(self) -> None:
        self._tell("a reply, and the same one while tokens are looked at")
        session = self._session()
        try:
            tokens = max(self._tokens(), int(BESIDE_S * self._speed))
            probed, alone, n_looks = beside(session, tokens, 5)
        finally:
            session.close()
        row = pair_row("inside_beside_reply", probed, alone, LEAST_SPEED, unit="tokens/s")
        row.values["looks"] = n_looks
        self._report.rows.append(row)

    def _inside_long(self) -> None:
        session = self._session(LONG_TOKENS + _MORE_CELLS)
        try:
            self._report.rows += long_rows(LongChat(session, self._tell))
        finally:
            session.close()

    # --- with one core taken -------------------------------------------------------------------

    def _busy_window(self) -> Window:
        return Window(40, 0.5, 2.0) if self._quick else Window(300, 2.0, 45.0)

    def _busy_s(self) -> float:
        window = self._busy_window()
        runs = 1 + len(thread_choices(self._conditions.threads))
        counted_s = min(window.most_s, window.tokens / _SLOW_CORE_TOKENS_PER_S)
        return runs * (self._pilot_s + window.after_s + counted_s)

    def _busy(self) -> None:
        window = self._busy_window()
        choices = thread_choices(self._conditions.threads)
        app: list[float] = []
        bare: dict[int, list[float]] = {threads: [] for threads in choices}
        for number in range(1 if self._quick else 3):
            self._tell(f"with one core taken by another program, round {number + 1}")
            with one_core_taken():
                for threads in choices:
                    conditions = replace(self._conditions, threads=threads)
                    run = run_bare(conditions, window.tokens, window=window)
                    bare[threads].append(run.tokens_per_s)
                best = max(figures[-1] for figures in bare.values())
                # What the best fixed number needs for it, and some more.
                tokens = int(window.tokens + 1.5 * window.after_s * best + MIN_TOKENS)
                app.append(run_app(self._gguf, tokens, window)[0].tokens_per_s)
        self._report.rows += busy_rows(app, bare, self._conditions.threads)


# --- rows -----------------------------------------------------------------------------------------

_FIGURES: Final[tuple[tuple[str, str, float | None, bool], ...]] = (
    ("ask_tokens_per_s", "tokens_per_s", 0.97, False),
    ("ask_first_token_s", "first_token_s", None, True),
    ("load_s", "load_s", None, True),
)
"""(row, field of Run, least ratio that design.md asks for, whether less of it is better)."""


def rows_of(pairs: Sequence[tuple[Run, Run]]) -> list[Row]:
    """Medians and ratios of (app, bare) pairs."""
    rows = []
    for name, figure, budget, is_time in _FIGURES:
        app = [getattr(run, figure) for run, _ in pairs]
        bare = [getattr(run, figure) for _, run in pairs]
        row = pair_row(name, app, bare, budget, unit="s" if is_time else "tokens/s")
        row.values["generated"] = [run.generated for run, _ in pairs]
        row.values["same_tokens"] = all(_agree(a.token_ids, b.token_ids) for a, b in pairs)
        rows.append(row)
    return rows


def _agree(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether both sides said the same, as far as both of them came."""
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def pair_row(
    name: str, app: Sequence[float], bare: Sequence[float], budget: float | None, *, unit: str
) -> Row:
    """The row of figures that were measured in pairs; of times the bare one over the app's."""
    over = [(b, a) if unit == "s" else (a, b) for a, b in zip(app, bare, strict=True)]
    values = {
        "app": statistics.median(app),
        "bare": statistics.median(bare),
        "app_runs": list(app),
        "bare_runs": list(bare),
        "unit": unit,
    }
    return Row(name, statistics.median(above / below for above, below in over), budget, values)


def thread_choices(physical: int) -> list[int]:
    """Fixed numbers of threads worth trying: all of a few, the telling ones of many.

    >>> thread_choices(2), thread_choices(16)
    ([1, 2], [1, 8, 15, 16])
    """
    if physical <= 4:
        return list(range(1, physical + 1))
    return sorted({1, physical // 2, physical - 1, physical})


def busy_rows(app: Sequence[float], bare: dict[int, list[float]], physical: int) -> list[Row]:
    """App over the bare loop at physical cores, and over its best fixed number of threads."""
    best = [max(figures) for figures in zip(*bare.values(), strict=True)]
    rows = [
        pair_row("busy_core_vs_physical", app, bare[physical], 2.0, unit="tokens/s"),
        pair_row("busy_core_vs_best", app, best, 0.9, unit="tokens/s"),
    ]
    for row in rows:
        row.values["bare_by_threads"] = {str(n): figures for n, figures in bare.items()}
    return rows


def at_once_row(
    session: Session, conditions: Conditions, name: str, sequences: int, tokens: int, rounds: int
) -> Row:
    """Replies with a seed each to one prompt, over a bare batch of as many, in turns."""
    app: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        seeds = range(1, sequences + 1)
        ids = [session.ask(text_prompt(), tokens, seed=seed) for seed in seeds]
        app.append(together([session.answer(request_id) for request_id in ids]))
        bare.append(run_bare(conditions, tokens, sequences=sequences).tokens_per_s)
    return pair_row(name, app, bare, 0.95, unit="tokens/s")


def _two_turns(session: Session) -> tuple[Summary, Summary]:
    """A reply and the turn after it. Many templates trim replies, and one that was trimmed is
    other text: so one is taken that has nothing to trim, if there is one."""
    for seed in range(1, _TRIES + 1):
        first = session.answer(session.ask(turns(), 24 + seed, seed=seed)).summary
        if first.text and first.text == first.text.strip():
            break
    return first, session.answer(session.ask(turns(first), 8, seed=seed)).summary


def next_turn_row(first: Summary, second: Summary) -> Row:
    """New tokens of the second turn over those that were evaluated for it.

    Known before are the first prompt and the reply, but for a last token that nothing followed:
    no pass has had it as input yet, so it is new, too.
    """
    known = first.prompt_tokens + first.generated - (first.stop_reason != "end_token")
    new = second.prompt_tokens - known
    values = {
        "app": second.evaluated,
        "bare": new,
        "prompt_tokens": second.prompt_tokens,
        "reused": second.reused,
        "unit": "tokens",
    }
    return Row("next_turn_evaluated", new / max(second.evaluated, 1), 1.0, values)


def click_rows(clicks: Clicks) -> list[Row]:
    """The limit over what a click takes, to the first arrays and to all of them."""
    return [_inside_row(f"inside_{what}_s", clicks.values(what)) for what in ("first", "whole")]


def long_rows(found: LongChat) -> list[Row]:
    """The tokens that have to be computed over those that were."""
    return [_inside_row(f"inside_long_{what}", found.values(what)) for what in ("cached", "unread")]


def _inside_row(name: str, values: dict[str, Any]) -> Row:
    return Row(name, values["bare"] / values["app"], 1.0, values)


def _stop_row(session: Session, times: int) -> Row:
    taken = [session.stop_after(session.ask(text_prompt(), 0), 8) for _ in range(times)]
    values = {"app": max(taken), "bare": STOP_LIMIT_S, "app_runs": taken, "unit": "s"}
    return Row("stop_latency", STOP_LIMIT_S / max(taken), 1.0, values)
