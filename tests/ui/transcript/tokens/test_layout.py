"""Where pieces stand: in order, within the column, and found again where they are."""

from __future__ import annotations

import random

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from app.insight.trace.token_groups import Spelling
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.markdown.styles import Styles
from ui.transcript.tokens.body import TokenBody
from ui.transcript.tokens.document import TokenDocument
from ui.transcript.tokens.layout import sizes_of

SPLIT = "日本🙂".encode()
WORDS = [b"The", b" capital", b" of", b"'s", b" Lou", b"vre", b",", b".\n", b"\n\n", b"-" * 90]


def made(seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    found: list[bytes] = []
    while len(found) < count:
        found.append(rng.choice(WORDS))
        if rng.random() < 0.05:
            found += [SPLIT[:1], SPLIT[1:2], SPLIT[2:7], SPLIT[7:]]
    return found


def body_of(given: list[bytes], width: float = 400, zoom: int = 100) -> TokenBody:
    document = TokenDocument(MessageTokens(traces=trace_of(given)))
    body = TokenBody(document, Styles(Theme("light", zoom)), width)
    body.ensure(0, 1e9)
    return body


@pytest.mark.parametrize("width", [90, 240, 640])
@pytest.mark.parametrize("seed", range(4))
def test_every_token_is_found_where_it_stands(qapp, width: float, seed: int) -> None:
    given = made(seed, 500)
    body = body_of(given, width)
    before = QRectF(0, -1, 0, 0)
    for number in range(len(given)):
        rect = body.token_rect(number)
        assert rect.isValid(), number
        assert rect.left() >= -0.01
        assert rect.right() <= width + 0.01, number
        assert (rect.top(), rect.left()) > (before.top(), before.left()), number
        assert body.token_at(rect.center()) == number
        before = rect
    assert body.height >= before.bottom()


def drafted_body(given: list[bytes], width: float, *, grows: bool = False) -> TokenBody:
    """Every third token came in place of a proposed one, the one before it was proposed."""
    traces = [
        msgspec.structs.replace(
            token,
            drafted=at % 3 == 1,
            rejected=Rejected([9], [b" ghost"], -1.0) if at % 3 == 2 else None,
        )
        for at, token in enumerate(trace_of(given))
    ]
    table = TraceTable(traces[:40] if grows else traces)
    body = TokenBody(TokenDocument(MessageTokens(traces=table)), Styles(Theme("light", 100)), width)
    body.ensure(0, 1e9)
    for token in traces[40:] if grows else []:
        table.append(token)
        body.read()
    body.ensure(0, 1e9)
    return body


@pytest.mark.parametrize(
    "width", [90, *(pytest.param(width, marks=pytest.mark.soak) for width in (240, 640))]
)
def test_ghosts_have_room_of_their_own(qapp, width: float) -> None:
    given = made(3, 300)
    body = drafted_body(given, width)
    plain = body_of(given, width)
    before = QRectF(0, -1, 0, 0)
    for number in range(len(given)):
        rect = body.token_rect(number)
        assert rect.right() <= width + 0.01
        assert (rect.top(), rect.left()) > (before.top(), before.left()), number
        assert body.token_at(rect.center()) == number
        assert rect.width() == pytest.approx(plain.token_rect(number).width(), abs=0.01)
        before = rect
    assert body.height > plain.height


def test_one_that_grows_stands_as_one_that_is_whole(qapp) -> None:
    given = made(4, 200)
    grown, whole = drafted_body(given, 240, grows=True), drafted_body(given, 240)
    assert [grown.token_rect(n) for n in range(200)] == [whole.token_rect(n) for n in range(200)]


def test_a_ghost_is_painted_before_its_token_and_a_line_above_a_drafted_one(qapp) -> None:
    body = drafted_body([b"one", b" two", b" three"], 400)
    image = QImage(400, round(body.height), QImage.Format.Format_RGB32)
    image.fill(QColor("#ffffff"))
    painter = QPainter(image)
    body.paint(painter, QPointF(0, 0), QRectF(0, 0, 400, body.height))
    painter.end()
    styles = body.styles
    two, three = body.token_rect(1), body.token_rect(2)
    between = range(round(two.right()) + 2, round(three.left()) - 2)
    assert len(between) > sizes_of(styles).width("·ghost")
    ys = range(round(three.top()), round(three.bottom()))
    assert any(image.pixelColor(x, y).lightness() < 200 for x in between for y in ys)
    accent = QColor(styles.colors.accent)
    above = round(two.top()) - 1
    for rect, is_drafted in ((two, True), (three, False)):
        seen = image.pixelColor(round(rect.center().x()), above)
        near = abs(seen.hue() - accent.hue()) < 20 and seen.saturation() > 60
        assert near is is_drafted


def test_a_line_ends_where_the_text_has_a_line_feed(qapp) -> None:
    body = body_of([b"a", b" b\n", b"c", b"\n\n", b"d"])
    tops = [body.token_rect(number).top() for number in range(5)]
    step = tops[2] - tops[0]
    assert tops == [tops[0], tops[0], tops[0] + step, tops[0] + step, tops[0] + 2 * step]


def test_a_word_of_two_pieces_goes_to_the_next_line_together(qapp) -> None:
    for width in range(150, 330, 7):
        given = [b" word"] * 5 + [b" Lou", b"vre"] + [b" word"] * 5
        body = body_of(given, width)
        assert body.token_rect(5).top() == body.token_rect(6).top(), width


def test_up_and_down_lead_to_what_stands_there_and_back(qapp) -> None:
    body = body_of([b" word"] * 600, 300)
    number, seen = 4, [4]
    while (below := body.token_beside(number, 1)) is not None:
        assert body.token_rect(below).top() > body.token_rect(number).top()
        number = below
        seen.append(number)
    assert number > 590
    for former in reversed(seen[:-1]):
        above = body.token_beside(number, -1)
        assert above == former
        number = above
    assert body.token_beside(number, -1) is None


def test_the_text_between_two_places_is_what_the_tokens_spell(qapp) -> None:
    given = made(3, 700)
    body = body_of(given, 500)
    whole = b"".join(given).decode("utf-8", "replace")
    assert body.text_between((0, 0, 0), (1 << 30, 0, 0)) == whole
    low = body.spot_at(body.token_rect(10).topLeft() + QPointF(0.5, 2))
    high = body.spot_at(body.token_rect(20).topRight() + QPointF(-0.5, 2))
    assert body.text_between(low, high) == b"".join(given[10:21]).decode()


def test_a_part_of_the_text_is_marked_where_it_stands(qapp) -> None:
    body = body_of([b"The", b" capital", b" city"])
    (rect,) = body.rects((0, 0, 5), 8)  # "api"
    token = body.token_rect(1)
    assert token.contains(rect.center())
    assert token.left() + 5 < rect.left() < rect.right() < token.right() - 5
    assert [round(r.width()) for r in body.rects((0, 0, 0), 16)] == [
        round(body.token_rect(number).width()) for number in range(3)
    ]


def paint(body: TokenBody, scale: float = 1.0) -> QImage:
    size = QRectF(0, 0, body.width + 8, body.height + 8)
    image = QImage((size.size() * scale).toSize(), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(QColor("white"))
    painter = QPainter(image)
    body.paint(painter, QPointF(0, 0), size)
    painter.end()
    return image


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_ground_of_a_piece_is_its_tint(qapp, scale: float) -> None:
    traces = trace_of([b"sure", b" unsure"], [0.999, 0.01])
    styles = Styles(Theme("light"))
    body = TokenBody(TokenDocument(MessageTokens(before=[b"given"], traces=traces)), styles, 400)
    body.ensure(0, 100)
    image, tints = paint(body, scale), tint_colors(styles.colors)
    wanted = [QColor(styles.colors.line), tints[0], tints[-1]]
    for number, color in enumerate(wanted):
        corner = body.token_rect(number).center()
        corner.setY(body.token_rect(number).top() + 2)
        assert image.pixelColor((corner * scale).toPoint()) == color, number
    body.tokens.set_tint("entropy")
    image = paint(body, scale)
    corner = body.token_rect(2).center()
    corner.setY(body.token_rect(2).top() + 2)
    assert image.pixelColor((corner * scale).toPoint()) == tints[int(2.0 / 10 * 16)]


def test_a_line_that_is_kept_is_what_would_be_painted_anew(qapp) -> None:
    given = made(5, 120)
    body = body_of(given, 300)
    first = paint(body)
    assert len(body.tokens.pictures) > 5
    assert paint(body) == first
    body.tokens.chosen = 30
    framed = paint(body)
    assert framed != first
    body.tokens.chosen = None
    body.tokens.pictures.clear()
    assert paint(body) == first


def test_a_line_is_painted_anew_when_its_last_character_is_whole(qapp) -> None:
    from app.insight.trace.table import TraceTable

    traces = trace_of([b"a", b" \xc3", b"\xbc"], [0.9, 0.9, 0.9])
    table = TraceTable(traces[:2])
    body = TokenBody(TokenDocument(MessageTokens(traces=table)), Styles(Theme("light")), 300)
    body.ensure(0, 100)
    before = paint(body)
    table.append(traces[2])
    body.read()
    body.ensure(0, 100)
    after = paint(body)
    body.tokens.pictures.clear()
    assert before != after == paint(body)


def test_at_another_zoom_everything_is_as_much_larger(qapp) -> None:
    small, large = body_of([b" word"] * 50, 300), body_of([b" word"] * 50, 600, zoom=200)
    assert large.height == pytest.approx(2 * small.height, rel=0.03)


def test_two_pieces_of_broken_bytes_are_not_taken_for_each_other(qapp) -> None:
    """Both are two U+FFFD as text; a middle dot looks like the mark of a space."""
    sizes = sizes_of(Styles(Theme("light")))
    for data in (b"\xe9\x80", b"\xe4\xbd", "a\u00b7b".encode(), b"a b", b"a\tb"):
        spelling = Spelling(data)
        runs = sizes.runs(spelling, 0, len(spelling.shown))
        assert "".join(text for _x, text, _is_mark in runs) == spelling.shown
        marked = [text for _x, text, is_mark in runs if is_mark]
        assert marked == [spelling.shown[start:end] for start, end in spelling.marks]


def test_between_two_lines_the_nearer_one_is_meant(qapp) -> None:
    body = body_of([b" word"] * 40, 300)
    first = body.token_rect(0)
    for y in (first.top() - 1, first.bottom() + 1):
        assert body.token_at(QPointF(first.center().x(), y)) == 0


@pytest.mark.parametrize("width", [60, 90, 240, 640])
@pytest.mark.parametrize("seed", range(4))
def test_what_grows_stands_as_if_it_had_come_at_once(qapp, width: float, seed: int) -> None:
    rng, given = random.Random(seed), made(seed, 200)
    table: list[TokenTrace] = []
    styles = Styles(Theme("light", 100))
    growing = TokenBody(TokenDocument(MessageTokens(traces=table)), styles, width)
    whole_trace = trace_of(given)
    while len(table) < len(given):
        before = len(growing._boxes)
        table += whole_trace[len(table) : len(table) + rng.randint(1, 9)]
        growing.read()
        assert not before or growing._boxes[before - 1].layout is not None  # it goes on
        growing.ensure(0, 1e9)
        if rng.random() < 0.15:
            whole = TokenBody(TokenDocument(MessageTokens(traces=tuple(table))), styles, width)
            whole.ensure(0, 1e9)
            assert (growing.height, growing.natural_width) == (whole.height, whole.natural_width)
            for number in range(len(table)):
                assert growing.token_rect(number) == whole.token_rect(number), number
