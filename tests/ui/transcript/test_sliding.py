"""Moving wide code in the transcript with the wheel, the bar and the arrow keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest

from models.records import Message, Role
from ui.look.theme import Theme
from ui.markdown.layouts import sideways_of
from ui.transcript.view import TranscriptView

SOURCE = f"Before.\n\n```py\nx = '{'word ' * 60}'\n```\n\n" + "After.\n\n" * 60
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(700, 400)
    with qtbot.waitExposed(made):
        made.show()
    made.set_conversation([Message("r", "c", None, Role.ASSISTANT, SOURCE, datetime.now(UTC))])
    made.verticalScrollBar().setValue(0)
    return made


def shift(view: TranscriptView) -> float:
    layout = view.rows.item(0).content._boxes[1].layout
    found = sideways_of(layout.placed[0].layout)
    assert found is not None
    return found.shift


def card(view: TranscriptView):
    """The code's rectangle in the viewport."""
    body = view.rows.item(0).content
    rect = body._boxes[1].layout.placed[0].rect.translated(0, body.top_of(1))
    return rect.translated(view.item_origin(0))


def turn(view: TranscriptView, at: QPointF, x: int, y: int, *, shifted: bool = False) -> None:
    modifiers = Qt.KeyboardModifier.ShiftModifier if shifted else Qt.KeyboardModifier.NoModifier
    event = QWheelEvent(
        at,
        view.viewport().mapToGlobal(at),
        QPoint(),
        QPoint(x, y),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    view.wheelEvent(event)


def test_wheel_with_shift_and_sideways_wheel_move_the_code(view: TranscriptView) -> None:
    middle = card(view).center()
    turn(view, middle, 0, -120, shifted=True)
    assert shift(view) == 60
    turn(view, middle, -240, 10)
    assert shift(view) == 180
    turn(view, middle, 10_000, 0)
    assert shift(view) == 0
    assert view.verticalScrollBar().value() == 0


def test_plain_wheel_over_code_scrolls_the_text(view: TranscriptView) -> None:
    turn(view, card(view).center(), 0, -120)
    assert shift(view) == 0
    assert view.verticalScrollBar().value() > 0


def test_sideways_wheel_beside_code_moves_nothing(view: TranscriptView) -> None:
    turn(view, QPointF(card(view).left() + 5, card(view).top() - 20), -240, 0)
    assert shift(view) == 0


def test_bar_is_dragged_and_selects_nothing(view: TranscriptView) -> None:
    rect = card(view)
    start = QPoint(round(rect.left()) + 20, round(rect.bottom()) - 6)
    QTest.mousePress(view.viewport(), LEFT, pos=start)
    QTest.mouseMove(view.viewport(), start + QPoint(80, 30))
    assert shift(view) > 80
    QTest.mouseRelease(view.viewport(), LEFT, pos=start + QPoint(80, 30))
    kept = shift(view)
    QTest.mouseMove(view.viewport(), start + QPoint(120, 0))
    assert shift(view) == kept
    assert view.selection is None


def test_arrow_keys_move_code_that_the_keyboard_is_on(view: TranscriptView) -> None:
    QTest.keyClick(view, Qt.Key.Key_Home)
    for _ in range(8):
        action = view.keyboard.action()
        if action is not None and action.name == "scroll_sideways":
            break
        QTest.keyClick(view, Qt.Key.Key_Tab)
    assert "sideways" in view.accessibleDescription()
    QTest.keyClick(view, Qt.Key.Key_Right)
    QTest.keyClick(view, Qt.Key.Key_Right)
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert shift(view) == 48


def found(qtbot, view: TranscriptView, text: str) -> None:
    view.finder.search(text)
    qtbot.waitUntil(lambda: not view.finder.is_busy and view.finder.count > 0)


def test_what_is_found_in_wide_code_is_moved_into_view(qtbot, view: TranscriptView) -> None:
    source = f"```py\nstart = '{'word ' * 60}needle'\n```"
    view.set_conversation([Message("n", "c", None, Role.ASSISTANT, source, datetime.now(UTC))])
    found(qtbot, view, "needle")
    body = view.rows.item(0).content
    (rect,) = body.rects((0, 0, source.index("needle") - 6), source.index("needle"))
    assert body.move_sideways((0, 0), -1)
    assert rect.width() > 20
    assert 0 < rect.left() < rect.right() < body.width
    found(qtbot, view, "start")
    layout = body._boxes[0].layout.placed[0].layout
    assert sideways_of(layout).shift == 0
    assert body.rects((0, 0, source.index("needle") - 6), source.index("needle")) == []


def test_what_is_found_in_the_raw_text_is_where_it_is_written(qtbot, view: TranscriptView) -> None:
    source = "# A\n\n**bold** and\n\n- *here*"
    view.set_conversation([Message("n", "c", None, Role.ASSISTANT, source, datetime.now(UTC))])
    found(qtbot, view, "here")
    view.ask_for(0, next(each for each in view.offers_of(0) if each.name == "toggle_raw"))
    qtbot.waitUntil(lambda: not view.finder.is_busy)
    ((_section, segment, block, start, end),) = view.finder._hits[0]
    assert (segment, block, source[start:end]) == (0, 0, "here")
