"""A reply of 32,000 tokens in the token view: opened, scrolled, tinted, and while it grows.

What counts is the time that the window's own thread computes between two rounds of its event
loop: what others take from a shared machine is no cost of ours. Full garbage collections are kept
away as the window keeps them away (`ui.shell.life.QuietCollector`).
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from made_traces import trace_of
from PySide6.QtCore import Qt, QTimer

from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.shell.life import QuietCollector
from ui.transcript.tokens.mode import FRAME_MS
from ui.transcript.view import TranscriptView

N_TOKENS = 32_000
N_GROWN = 600
GAP_MS = 50
REPLY = Message("r", "c", None, Role.ASSISTANT, "", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def quiet() -> Iterator[None]:
    former = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as users have it
    collector = QuietCollector(lambda: True)
    gc.collect()
    collector.hold()
    collector.begin()
    yield
    collector.end()
    gc.set_threshold(*former)
    gc.freeze()  # as it was: else each collection would look at all modules and tests


@pytest.fixture(scope="module")
def table() -> TraceTable:
    """Words as replies have them: 2,500 different ones, a line of a hundred now and then."""
    rng = random.Random(7)
    letters = "etaoinshrdlucmfwyp"
    words = [
        (" " + "".join(rng.choices(letters, k=rng.randint(1, 8)))).encode() for _ in range(2_500)
    ]
    pieces = [b".\n" if rng.random() < 0.01 else rng.choice(words) for _ in range(N_TOKENS)]
    return TraceTable(trace_of(pieces, [rng.uniform(0.01, 0.99) for _ in pieces]))


@pytest.fixture
def shown(qtbot, quiet: None) -> TranscriptView:
    view = TranscriptView(Theme("light"))
    qtbot.addWidget(view)
    view.resize(1440, 900)
    with qtbot.waitExposed(view):
        view.show()
    return view


def cost_ms(act) -> float:
    began = time.thread_time()
    act()
    return (time.thread_time() - began) * 1000


def test_it_is_opened_scrolled_and_tinted_without_a_long_stop(
    shown: TranscriptView, table: TraceTable, qtbot
) -> None:
    view, tokens = shown, MessageTokens(traces=table)
    message = replace(REPLY, content=b"".join(tokens.pieces(0, N_TOKENS)).decode())
    view.set_conversation([message])
    view.tokens.set_on(True)
    view.tokens.set_on(False)  # what is imported is there
    bar, paint = view.verticalScrollBar(), view.viewport().repaint
    costs = {
        "on": cost_ms(lambda: view.tokens.set_on(True)),
        "known": cost_ms(lambda: view.tokens.show(message, tokens)),
        "painted": cost_ms(paint),
    }
    qtbot.waitUntil(lambda: not view.rows.item(0).tokens.document.unread_chars)
    costs["end"] = cost_ms(lambda: (view.scroll_to_end(), paint()))
    costs["middle"] = cost_ms(lambda: (bar.setValue(bar.maximum() // 2), paint()))
    costs["line"] = cost_ms(lambda: (bar.setValue(bar.value() + 28), paint()))
    costs["tint"] = cost_ms(lambda: (view.tokens.set_tint("entropy"), paint()))
    costs["uncertain"] = cost_ms(lambda: view.tokens.show_place("r", 12_345))
    print({name: round(ms, 1) for name, ms in costs.items()})
    assert view.rows.item(0).tokens.laid_out < 30  # of more than a hundred segments
    assert len(view.rows.item(0).tokens.document.known_segments) > 100
    assert max(costs.values()) < 2 * GAP_MS, costs
    assert costs["line"] < GAP_MS / 2, costs


@pytest.mark.soak
def test_it_grows_with_the_loop_never_held_up(
    shown: TranscriptView, table: TraceTable, qtbot
) -> None:
    view, traces = shown, TraceTable(table[: N_TOKENS - N_GROWN])
    rest = table[N_TOKENS - N_GROWN :]
    growing = replace(REPLY, state=MessageState.STREAMING)
    view.set_conversation([growing])
    view.tokens.set_on(True)
    view.tokens.show(growing, MessageTokens(traces=traces))
    qtbot.waitUntil(lambda: not view.rows.item(0).tokens.document.unread_chars)
    qtbot.waitUntil(lambda: not view.is_update_due)
    view.viewport().repaint()
    gaps, last, repaints, began = [], [time.thread_time()], view.repaints, time.perf_counter()

    def tick() -> None:
        now = time.thread_time()
        gaps.append((now - last[0]) * 1000)
        last[0] = now

    def arrive() -> None:
        for token in rest[len(traces) + N_GROWN - N_TOKENS :][:1]:
            traces.append(token)
            view.append_text("r", token.piece.decode())

    timers = [QTimer(view), QTimer(view)]
    for timer, act, ms in zip(timers, (tick, arrive), (2, 5), strict=True):
        timer.setTimerType(Qt.TimerType.PreciseTimer)
        timer.timeout.connect(act)
        timer.start(ms)
    qtbot.waitUntil(lambda: len(traces) == N_TOKENS, timeout=60_000)
    qtbot.waitUntil(lambda: not view.is_update_due)
    for timer in timers:
        timer.stop()
    seconds = time.perf_counter() - began
    rate = (view.repaints - repaints) / seconds
    longest = [round(gap, 1) for gap in sorted(gaps)[-3:]]
    print(f"longest {longest} ms, {rate:.1f} repaints/s, {sum(gaps) / seconds / 10:.1f}% of a core")
    assert view.is_at_end
    assert view.rows.item(0).tokens.document.groups.n_tokens == N_TOKENS
    assert max(gaps) < GAP_MS
    assert 5 < rate < 1000 / FRAME_MS + 2
