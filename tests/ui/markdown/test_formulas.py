"""Pictures of formulas: made by a child, shown when they are there, given up when they are not."""

from __future__ import annotations

import gc
import sys
import time
import weakref

import psutil
import pytest
from PySide6.QtCore import QObject, QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from app.markdown.document import Document
from ui.look.theme import Theme
from ui.markdown.formulas import Formulas
from ui.markdown.math_layout import MathLayout
from ui.markdown.styles import Styles
from ui.transcript.body import Body
from ui.widgets.utf16 import utf16_length

WIDTH = 420.0
TEX = r"\frac{a}{b}"

# A child that answers each line at once with a box, breaks off at "die", hangs at "hang".
SCRIPT = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["tex"] == "die":
        os._exit(3)
    if request["tex"] == "hang":
        time.sleep(600)
    wide = 960 if request["tex"] == "wide^2" else 48
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -24 {wide} 36">' \\
        f'<rect x="0" y="-24" width="{wide}" height="36" fill="#010203"/></svg>'
    box = {"svg": svg, "top": -24, "width": wide, "height": 36}
    print(json.dumps({"id": request["id"], **(box if request["tex"] != "bad" else {})}), flush=True)
"""


@pytest.fixture
def formulas(qapp: QApplication):
    made = Formulas(command=[sys.executable, "-c", SCRIPT])
    yield made
    made.rest()


@pytest.fixture
def styles(formulas: Formulas) -> Styles:
    return Styles(Theme("light"), formulas)


def made(qtbot, formulas: Formulas, *texs: str, is_display: bool = False) -> None:
    """Have pictures made and wait for them."""
    with qtbot.waitSignal(formulas.arrived, timeout=20_000):
        for tex in texs:
            formulas.find(tex, is_display=is_display)
    qtbot.waitUntil(lambda: not formulas.is_waiting, timeout=20_000)


def body_of(source: str, styles: Styles, width: float = WIDTH) -> Body:
    body = Body(Document(source), styles, width)
    body.ensure(0, 10_000)
    return body


def picture(body: Body, styles: Styles) -> QImage:
    image = QImage(int(WIDTH), round(body.height), QImage.Format.Format_RGB32)
    image.fill(QColor(styles.colors.chat))
    painter = QPainter(image)
    body.paint(painter, QPointF(0, 0), QRectF(image.rect()))
    painter.end()
    return image


def box_of(image: QImage, color: str) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of all pixels of exactly one colour."""
    wanted = QColor(color).rgb()
    found = [
        (x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixel(x, y) == wanted
    ]
    xs, ys = [x for x, _ in found], [y for _, y in found]
    return min(xs), min(ys), max(xs) + 1, max(ys) + 1


def test_a_picture_is_asked_for_once_and_kept(qtbot, formulas: Formulas) -> None:
    assert formulas.find("x", is_display=False) is None
    assert not formulas.is_known("x", is_display=False)
    made(qtbot, formulas, "x", "x", "y")
    found = formulas.find("x", is_display=False)
    assert found is not None
    assert (found.width, found.ascent, found.descent) == (2.0, 1.0, 0.5)
    assert formulas.find("x", is_display=False) is found
    assert formulas.find("x", is_display=True) is None


@pytest.mark.alone
def test_asking_never_waits(formulas: Formulas) -> None:
    formulas.find("first", is_display=False)
    started = time.perf_counter()
    for i in range(200):
        formulas.find(f"x_{i}", is_display=False)
    assert time.perf_counter() - started < 0.2


@pytest.mark.parametrize("bad", ["die", "bad"])
def test_a_formula_that_has_no_picture_does_not_stop_the_others(
    qtbot, formulas: Formulas, bad: str
) -> None:
    made(qtbot, formulas, "x", bad, "y")
    assert formulas.find(bad, is_display=False) is None
    assert formulas.is_known(bad, is_display=False)
    assert formulas.find("x", is_display=False) is not None
    assert formulas.find("y", is_display=False) is not None


def test_a_formula_that_takes_too_long_is_given_up(qtbot, formulas: Formulas) -> None:
    made(qtbot, formulas, "x")
    formulas._deadline_ms = 300
    made(qtbot, formulas, "hang", "y")
    assert formulas.is_known("hang", is_display=False)
    assert formulas.find("hang", is_display=False) is None
    assert formulas.find("y", is_display=False) is not None


def test_a_child_that_cannot_start_leaves_the_sources(qtbot, qapp: QApplication) -> None:
    formulas = Formulas(command=["/nonexistent/python"])
    formulas.find("x", is_display=False)
    qtbot.waitUntil(lambda: not formulas.is_waiting)
    assert formulas.find("x", is_display=False) is None
    assert formulas.is_known("x", is_display=False)


def test_the_child_ends_when_there_is_nothing_to_do(qtbot, formulas: Formulas) -> None:
    formulas._idle.setInterval(50)
    made(qtbot, formulas, "x")
    qtbot.waitUntil(lambda: not formulas.is_running)
    made(qtbot, formulas, "y")
    assert formulas.find("y", is_display=False) is not None


def child_of(qtbot, formulas: Formulas) -> psutil.Process:
    process = formulas._process
    assert process is not None
    qtbot.waitUntil(lambda: process.processId() > 0)
    return psutil.Process(process.processId())


def test_a_view_that_the_collector_takes_takes_its_child_along(qtbot, qapp: QApplication) -> None:
    """Both go at once then, and no method of theirs can be called any more."""
    view = QObject()
    formulas = Formulas(view)
    view.formulas, formulas.view = formulas, view  # as widgets know each other
    formulas.find("x", is_display=False)
    child, gone = child_of(qtbot, formulas), weakref.ref(view)
    del view, formulas
    gc.collect()
    assert gone() is None
    qtbot.waitUntil(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_what_is_too_long_is_never_asked(formulas: Formulas) -> None:
    assert formulas.find("x" * 5000, is_display=True) is None
    assert formulas.is_known("x" * 5000, is_display=True)
    assert not formulas.is_running


def test_the_real_child_sets_a_real_formula(qtbot, qapp: QApplication) -> None:
    formulas = Formulas()
    made(qtbot, formulas, TEX, is_display=True)
    found = formulas.find(TEX, is_display=True)
    formulas.rest()
    assert found is not None
    image = QImage(200, 200, QImage.Format.Format_RGB32)
    image.fill(QColor("#ffffff"))
    painter = QPainter(image)
    found.paint(painter, 20, 100, 60, QColor("#0000ff"))
    painter.end()
    left, top, right, bottom = box_of(image, "#0000ff")
    assert 20 <= left < right <= 21 + found.width * 60
    assert 99 - found.ascent * 60 <= top < 100 < bottom <= 101 + found.descent * 60


def test_source_is_shown_until_the_picture_is_there(qtbot, formulas, styles: Styles) -> None:
    body = body_of("a $x^2$ b", styles)
    before = picture(body, styles)
    made(qtbot, formulas, "x^2")
    body.refresh_formulas()
    after = picture(body, styles)
    assert before.size() == after.size() or before != after
    left, _top, right, _bottom = box_of(after, styles.colors.ink)
    assert right - left > 2 * styles.reply.pixelSize()
    assert not body._boxes[0].layout.waits


def test_a_line_makes_room_for_a_tall_formula(qtbot, formulas: Formulas, styles: Styles) -> None:
    made(qtbot, formulas, "x^2")
    lines = body_of("one\ntwo\nthree", styles).height
    with_formula = body_of("one\ntwo $x^2$\nthree", styles).height
    assert with_formula > lines


def test_positions_are_those_of_the_source(qtbot, formulas: Formulas, styles: Styles) -> None:
    made(qtbot, formulas, "x^2")
    body = body_of("é🙂 $x^2$ end", styles)
    layout = body._boxes[0].layout.placed[0].layout
    assert utf16_length(layout.text) == utf16_length("é🙂 $x^2$ end")
    hits = {layout.position_at(QPointF(x, 10)) for x in range(int(layout.natural_width) + 20)}
    inside = range(5, 4 + len("$x^2$"))
    assert {4, 9, 10, 13} <= hits
    assert not hits & set(inside)


def test_no_formula_is_wider_than_its_line(qtbot, formulas: Formulas, styles: Styles) -> None:
    made(qtbot, formulas, "wide^2")
    image = picture(body_of("$wide^2$", styles, width=200), styles)
    assert 190 < box_of(image, styles.colors.ink)[2] <= 200


def test_a_display_stands_in_the_middle_and_is_moved_where_it_is_too_wide(
    qtbot, formulas: Formulas, styles: Styles
) -> None:
    made(qtbot, formulas, "x^2", "wide^2", is_display=True)
    body = body_of("$$\nx^2\n$$", styles)
    left, _top, right, _bottom = box_of(picture(body, styles), styles.colors.ink)
    assert abs((left + right) / 2 - WIDTH / 2) <= 1
    wide = body_of("$$\nwide^2\n$$", styles)
    assert isinstance(wide._boxes[0].layout.placed[0].layout, MathLayout)
    assert wide.move_sideways((0, 0), 100)
    assert box_of(picture(wide, styles), styles.colors.ink)[::2] == (0, WIDTH)


def test_colour_and_size_follow_the_theme(qtbot, formulas: Formulas) -> None:
    made(qtbot, formulas, "x^2", is_display=True)
    sizes = {}
    for mode, zoom in (("light", 100), ("dark", 100), ("dark", 200)):
        styles = Styles(Theme(mode, zoom), formulas)
        image = picture(body_of("$$\nx^2\n$$", styles), styles)
        left, top, right, bottom = box_of(image, styles.colors.ink)
        sizes[mode, zoom] = (right - left, bottom - top)
    assert sizes["light", 100] == sizes["dark", 100]
    assert sizes["dark", 200][0] == pytest.approx(2 * sizes["dark", 100][0], abs=3)


def test_a_formula_in_a_cell_arrives_too(qtbot, formulas: Formulas, styles: Styles) -> None:
    body = body_of("| a | b |\n|---|---|\n| $x^2$ | words |", styles)
    assert body._boxes[0].layout.waits
    made(qtbot, formulas, "x^2")
    body.refresh_formulas()
    assert not body._boxes[0].layout.waits
    left, _top, right, _bottom = box_of(picture(body, styles), styles.colors.ink)
    assert left < 20
    assert right > left + 2 * styles.reply.pixelSize()
