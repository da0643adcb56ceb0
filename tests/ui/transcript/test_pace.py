"""How much of the view is painted while a reply grows: on screen is what a whole paint shows."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from made_traces import trace_of
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.insight.message_tokens import MessageTokens
from app.insight.trace_table import TraceTable
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
    view.set_conversation([REPLY])
    view.tokens.set_on(True)
    view.tokens.set_tint(tint)
    source = random.Random(3)
    rest = trace_of(source.choices(words, k=10 * max(at_once) + 30))
    traces = TraceTable([])
    view.tokens.show(REPLY, MessageTokens(traces=traces))
    heights = []
    painted = view.viewport().repaint

    def repaint(*region: QRect) -> None:
        heights.extend(part.height() for part in region)
        painted(*region)

    view.viewport().repaint = repaint
    while rest:
        few = source.choice(at_once)
        some, rest = rest[:few], rest[few:]
        for token in some:
            traces.append(token)
        view.append_text("r", "more")
        qtbot.waitUntil(lambda: not view.is_update_due)
        shown = on_screen(view)
        painted()
        assert shown == on_screen(view), f"after {len(traces)} tokens"
    whole = view.viewport().height()
    assert sum(height < whole for height in heights) > len(heights) / 4, "many are partial"
