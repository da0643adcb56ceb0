"""The line above which nothing goes along: where it stands, and that it moves nothing."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot
from recording_desk import message

from app.chat.events import ContextCounted
from models.records import Role
from ui.transcript.cut_line import ABOVE, BELOW, BETWEEN, CutLine, CutLines
from ui.transcript.view import TranscriptView

ROLES = (Role.USER, Role.ASSISTANT)


@pytest.fixture
def line(view: TranscriptView, qtbot: QtBot) -> CutLine:
    view.set_conversation([message(n, ROLES[n % 2], f"Message {n}. " * 20) for n in range(1, 21)])
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 0)
    return CutLine(view, "cut_line")


def gap_below(view: TranscriptView, index: int) -> tuple[float, float]:
    """From the foot of a message to the head of the next one, in the viewport."""
    foot = view.item_origin(index).y() + view.rows.item(index).height
    return foot - 24 * view.theme.scale, foot


def test_it_stands_between_what_is_left_out_and_what_goes_along(
    view: TranscriptView, line: CutLine
) -> None:
    total, top = view.rows.total, view.verticalScrollBar().value()
    line.set_below("m18", ABOVE)
    assert line.isVisible()
    assert (view.rows.total, view.verticalScrollBar().value()) == (total, top), "nothing moves"
    above, below = gap_below(view, 17)
    assert above - 1 <= line.y()
    assert line.y() + line.height() <= below + 1
    assert line.width() == round(view.rows.width)
    assert line.accessibleName() == ABOVE
    # It scrolls with the messages.
    before = line.y()
    view.verticalScrollBar().setValue(top - 40)
    assert line.y() == before + 40


def test_it_is_hidden_where_it_is_out_of_view_or_of_no_message(
    view: TranscriptView, line: CutLine
) -> None:
    line.set_below("m2", ABOVE)
    assert not line.isVisible()
    view.verticalScrollBar().setValue(0)
    assert line.isVisible()
    line.set_below("gone", ABOVE)
    assert not line.isVisible()
    line.set_below("m1", ABOVE)
    assert line.isVisible()
    line.set_below("", ABOVE)
    assert not line.isVisible()


def test_a_gap_in_the_middle_has_a_line_at_each_end(view: TranscriptView, qtbot: QtBot) -> None:
    view.set_conversation([message(n, ROLES[n % 2], "Hi.") for n in range(1, 5)])
    qtbot.waitUntil(lambda: len(view.rows) == 4)
    lines = CutLines(view)
    lines.show(ContextCounted(9, 9, 2, "m3", "m2"))
    begin, end = (view.findChild(CutLine, name) for name in ("cut_line_begin", "cut_line"))
    assert (begin.accessibleName(), end.accessibleName()) == (BELOW, BETWEEN)
    assert begin.isVisible()
    assert begin.y() < end.y()
    lines.show(ContextCounted(9, 9, 2, "m3", "m1"))
    assert not begin.isVisible()
    assert end.accessibleName() == ABOVE


def test_below_the_last_message_it_is_there_too(view: TranscriptView, line: CutLine) -> None:
    """Everything but what is being written is left out."""
    line.set_below("m20", ABOVE)
    assert line.isVisible()
    assert line.y() + line.height() <= view.viewport().height()


def test_it_keeps_its_place_when_earlier_messages_come_and_the_zoom_changes(
    view: TranscriptView, line: CutLine
) -> None:
    line.set_below("m18", ABOVE)
    view.add_earlier([message(n, ROLES[n % 2], "Before.") for n in range(101, 121)])
    above, below = gap_below(view, 37)
    assert above - 1 <= line.y() <= below
    view.theme.set_zoom(200)
    view.scroll_to(view.rows.top(38) - 200)
    assert line.isVisible()
    assert line.height() == 2 * 24
    above, below = gap_below(view, 37)
    assert above - 1 <= line.y() <= below


def test_it_is_painted_and_lets_clicks_through(view: TranscriptView, line: CutLine) -> None:
    view.set_conversation([message(1, Role.USER, "One"), message(2, Role.ASSISTANT, "Two")])
    bare = view.viewport().grab().toImage()
    line.set_below("m1", ABOVE)
    assert view.viewport().grab().toImage() != bare
    assert view.viewport().childAt(line.geometry().center()) is not line
