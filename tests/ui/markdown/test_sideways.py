"""What is wider than its column is moved sideways: code and tables, all their parts together."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from app.markdown.document import Document
from ui.look.theme import Theme
from ui.markdown.code_layout import CodeLayout
from ui.markdown.layouts import SegmentLayout, sideways_of
from ui.markdown.sideways import Sideways
from ui.markdown.styles import Styles
from ui.transcript.body import Body

WIDTH = 300.0
LONG_CODE = "```py\n" + "x = 1\n" * 100 + f"y = '{'word ' * 40}'\n" + "z = 2\n" * 100 + "```\n"
WIDE_TABLE = "| " + " | ".join(f"column {i} of many" for i in range(9)) + " |\n" + "|--" * 9 + "|\n"
WIDE_ROW = "| " + " | ".join(f"value {i}" for i in range(9)) + " |\n"


@pytest.fixture
def styles(qapp: QApplication) -> Styles:
    return Styles(Theme("light"))


def body_of(source: str, styles: Styles) -> Body:
    body = Body(Document(source), styles, WIDTH)
    body.ensure(0, 100_000)
    return body


def shifts(body: Body) -> list[float]:
    """How far each part is moved."""
    views = [
        sideways_of(placed.layout)
        for box in body._boxes
        if box.layout is not None
        for placed in box.layout.placed
    ]
    return [view.shift for view in views if view is not None]


def picture(body: Body, styles: Styles) -> QImage:
    image = QImage(int(WIDTH) + 100, round(body.height), QImage.Format.Format_RGB32)
    image.fill(QColor(styles.colors.chat))
    painter = QPainter(image)
    body.paint(painter, QPointF(0, 0), QRectF(image.rect()))
    painter.end()
    return image


@given(
    st.floats(1, 1e5),
    st.floats(1, 1e4),
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), max_size=9),
)
def test_a_shift_stays_within_its_limit(content: float, room: float, steps: list[float]) -> None:
    view = Sideways(content, room)
    track = QRectF(5, 0, room, 4)
    for step in steps:
        before = view.shift
        assert view.move(step) == (view.shift != before)
        assert 0 <= view.shift <= view.limit <= max(0, content - room)
        thumb = view.thumb(track)
        assert thumb.left() >= track.left() - 1e-6
        assert thumb.right() <= track.right() + 1e-6 * room


def test_dragging_the_handle_through_its_track_moves_from_end_to_end() -> None:
    view = Sideways(1000, 200)
    track = QRectF(0, 0, 200, 4)
    free = track.width() - view.thumb(track).width()
    view.move(view.step_of_drag(free, track))
    assert view.shift == pytest.approx(view.limit)
    assert view.thumb(track).right() == pytest.approx(track.right())


def test_a_line_of_code_is_one_line_however_narrow_the_column(styles: Styles) -> None:
    body = body_of(LONG_CODE, styles)
    lines = 201
    assert lines * styles.code_step <= body.height < (lines + 4) * styles.code_step


def test_all_parts_of_long_code_move_together_and_what_comes_later_too(styles: Styles) -> None:
    body = body_of(LONG_CODE, styles)
    assert len(shifts(body)) > 3
    assert body.move_sideways((1, 0), 120)
    assert set(shifts(body)) == {120.0}
    body.release_all()
    body.ensure(0, 100_000)
    assert set(shifts(body)) == {120.0}
    assert body.move_sideways((0, 0), -1000)
    assert set(shifts(body)) == {0.0}
    assert not body.move_sideways((2, 0), -1)


def test_all_parts_of_a_long_table_move_together_with_one_bar(styles: Styles) -> None:
    body = body_of(WIDE_TABLE + WIDE_ROW * 50, styles)
    assert len(shifts(body)) > 2
    assert body.move_sideways((2, 0), 50)
    assert set(shifts(body)) == {50.0}
    bars = [box.layout.bars() for box in body._boxes if box.layout is not None]
    assert [len(found) for found in bars] == [0] * (len(bars) - 1) + [1]


def test_a_growing_code_block_keeps_its_place(styles: Styles) -> None:
    body = Body(Document(is_open=True), styles, WIDTH)
    body.document.append(f"```py\nx = '{'word ' * 40}'\n")
    body.ensure(0, 1000)
    assert body.move_sideways((0, 0), 77)
    body.document.append("y = 2\n")
    body.read()
    body.ensure(0, 1000)
    assert shifts(body) == [77.0]


@pytest.mark.parametrize("source", [LONG_CODE, WIDE_TABLE + WIDE_ROW])
def test_nothing_is_painted_outside_of_the_column(styles: Styles, source: str) -> None:
    body = body_of(source, styles)
    plane = QColor(styles.colors.chat).rgb()
    for step in (0, 90, 10_000):
        body.move_sideways((0, 0), step)
        image = picture(body, styles)
        outside = range(int(WIDTH), image.width())
        assert all(image.pixel(x, y) == plane for x in outside for y in range(image.height()))


def test_moving_shows_what_was_out_of_view(styles: Styles) -> None:
    body = body_of(f"```\n{' ' * 100}the end\n```", styles)
    card = QColor(styles.colors.code).rgb()

    def inked() -> int:
        image = picture(body, styles)
        rows = range(round(styles.px(34)), round(styles.px(34) + styles.code_step) - 4)
        return sum(image.pixel(x, y) != card for x in range(14, int(WIDTH) - 14) for y in rows)

    assert inked() == 0
    body.move_sideways((0, 0), 10_000)
    assert inked() > 20


def test_positions_follow_what_was_moved(styles: Styles) -> None:
    body = body_of("```\n" + "0123456789" * 20 + "\n```", styles)
    layout = body._boxes[0].layout.placed[0].layout
    assert isinstance(layout, CodeLayout)
    letter = styles.code_width("0")
    at = QPointF(styles.px(12) + 2.1 * letter, styles.px(32) + 5)
    assert layout.position_at(at) == 2
    body.move_sideways((0, 0), 50 * letter)
    assert layout.position_at(at) == 52


def test_a_link_in_a_moved_table_is_where_it_is_seen(styles: Styles) -> None:
    body = body_of(WIDE_TABLE + "| a " * 8 + "| [end](https://e.test) |\n", styles)
    row = body.height - styles.px(12) - styles.line_step / 2 - 5

    def hits() -> list[int]:
        return [x for x in range(int(WIDTH)) if body.link_at(QPointF(x, row))]

    assert not hits()
    body.move_sideways((0, 0), 10_000)
    assert len(hits()) > 10


def test_text_in_cells_wraps_before_the_table_is_wider_than_its_column(styles: Styles) -> None:
    prose = "some words that go on for a while " * 4
    body = body_of(f"| a | b |\n|---|---|\n| {prose} | {prose} |\n", styles)
    assert body._boxes[0].layout.placed[0].layout.sideways.limit == 0


def test_code_with_an_endless_line_wraps_and_is_not_moved(styles: Styles) -> None:
    body = body_of("```\n" + "x" * 20_000 + "\n```", styles)
    assert body.sideways_at(QPointF(50, 60)) is None
    assert body.height > 200 * styles.code_step


def test_keyboard_stops_once_at_each_wide_block(styles: Styles) -> None:
    document = Document(LONG_CODE + "\nwords\n\n" + WIDE_TABLE + WIDE_ROW * 40 + "\n```\nx\n```\n")
    found = [
        action.label
        for i, segment in enumerate(document.segments)
        for action in SegmentLayout(document, segment, styles, WIDTH, is_first=i == 0).actions()
        if action.name == "scroll_sideways"
    ]
    assert ["code" in label for label in found] == [True, False]
