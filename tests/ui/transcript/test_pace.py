"""How much of the view is painted while a reply grows: on screen is what a whole paint shows."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from made_traces import trace_of
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from models.records import Message, MessageState, Role
from ui.transcript.view import TranscriptView

REPLY = Message(
    "r",
    "c",
    None,
    Role.ASSISTANT,
    "",
    datetime(2026, 1, 1, tzinfo=UTC),
    state=MessageState.STREAMING,
)


def on_screen(view: TranscriptView) -> QImage:
    """What was really painted, and not painted again for the picture."""
    window = view.window()
    picture = window.screen().grabWindow(window.winId())
    corner = view.viewport().mapTo(window, QPoint())
    return picture.copy(QRect(corner, view.viewport().size())).toImage()


@pytest.fixture(autouse=True)
def quick_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.transcript.pace.FRAME_MS", 1)
    monkeypatch.setattr("ui.transcript.pace.TOKENS_MS", 1)


WORDS = [b" a", b" word", b" longer words", b"\n", b"\xf0\x9f", b"\x99\x82", b"."]


@pytest.mark.parametrize(
    ("tint", "words", "at_once"),
    [("probability", WORDS, (1, 2, 7)), ("time", WORDS, (7,)), ("probability", [b" word"], (1,))],
)
def test_the_screen_is_what_a_whole_paint_would_make_of_it(
    view: TranscriptView,
    qtbot: QtBot,
    tint: str,
    words: list[bytes],
    at_once: tuple[int, ...],
) -> None:
    source = random.Random(3)
    rest = source.choices(words, k=10 * max(at_once) + 30)
    steps = []
    while rest:
        few = source.choice(at_once)
        steps.append(rest[:few])
        rest = rest[few:]
    heights = grow(view, qtbot, tint, steps)
    whole = view.viewport().height()
    assert sum(height < whole for height in heights) > len(heights) / 4, "many are partial"


def test_what_stands_already_may_change_when_more_comes(view: TranscriptView, qtbot: QtBot) -> None:
    """Half a character is another piece than the whole one."""
    halves = [[b" a"], [b"\xf0\x9f"], [b"\x99\x82"], [b" b", b"\xf0"], [b"\x9f\x99\x82"]]
    grow(view, qtbot, "probability", halves * 4)


def grow(view: TranscriptView, qtbot: QtBot, tint: str, steps: list[list[bytes]]) -> list[int]:
    """A reply of these pieces; after each step all that is on screen is as if it had been painted
    at once. Returns how high the parts were that were painted."""
    view.set_conversation([REPLY])
    view.tokens.set_on(True)
    view.tokens.set_tint(tint)
    rest = iter(trace_of([piece for step in steps for piece in step]))
    traces = TraceTable([])
    view.tokens.show(REPLY, MessageTokens(traces=traces))
    heights: list[int] = []
    painted = view.viewport().repaint

    def repaint(*region: QRect) -> None:
        heights.extend(part.height() for part in region)
        painted(*region)

    view.viewport().repaint = repaint
    for step in steps:
        for _ in step:
            traces.append(next(rest))
        view.append_text("r", "more")
        qtbot.waitUntil(lambda: not view.is_update_due)
        shown = on_screen(view)
        # Pictures of lines are added to as these grow; here each line is painted at once.
        pictures = view.rows.item(0).tokens.document.pictures
        kept = dict(pictures)
        pictures.clear()
        painted()
        assert shown == on_screen(view), f"after {len(traces)} tokens"
        pictures.clear()
        pictures.update(kept)
    return heights
