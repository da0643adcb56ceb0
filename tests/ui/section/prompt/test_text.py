"""The prompt as text: what the pointer and the keys mean, and that it never holds the window up."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.prompt.strips import WordStrip
from ui.section.prompt.text import MOST_KEPT_LINES, Block, Look, PromptText


class Strip:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._pieces)

    def pieces(self, first: int, end: int) -> list[bytes]:
        return self._pieces[first:end]


WORDS = [b"<s>", b"The", b" sky", b"\n", b"is", b" blue", b"\n", b"T", b"\xc3", b"\xbcr"]
RED, GREEN = QColor("#ff0000"), QColor("#00ff00")


@pytest.fixture
def open_text(theme: Theme, qtbot: QtBot) -> Callable[..., PromptText]:
    def build(pieces: list[bytes] = WORDS, look: Look | None = None) -> PromptText:
        text = PromptText(theme)
        qtbot.addWidget(text)
        text.resize(300, 200)
        text.show()
        qtbot.waitExposed(text)
        text.show_tokens(Strip(pieces), look or Look())
        settle(text, qtbot)
        return text

    return build


def settle(text: PromptText, qtbot: QtBot) -> None:
    """Wait until all of it is laid out. What comes in one slice here takes several on a busy
    machine, and the scroll bar, once there is one, takes width from what was laid out before."""
    QApplication.processEvents()
    qtbot.waitUntil(lambda: text.is_whole)


def center(text: PromptText, token: int) -> QPoint:
    """Of a token, in the viewport."""
    rect = text.rects(token)[0]
    margin = text._margin  # what stands around the text
    return (rect.center() + QPointF(margin, margin - text.verticalScrollBar().value())).toPoint()


def picture(text: PromptText) -> QImage:
    return text.viewport().grab().toImage()


def colors_of(image: QImage) -> list[QColor]:
    pixels = image.convertToFormat(QImage.Format.Format_RGB32).constBits()
    return [QColor.fromRgb(pixel) for pixel in set(memoryview(pixels).cast("B").cast("I"))]


def test_the_pointer_is_on_the_token_that_is_painted_there(
    open_text: Callable[..., PromptText], qtbot: QtBot
) -> None:
    text = open_text()
    hovered: list[int] = []
    text.hovered.connect(hovered.append)
    for token in (1, 5, 8, 9):
        qtbot.mouseMove(text.viewport(), center(text, token))
        assert (hovered[-1], text.pointed) == (token, token)
    qtbot.mouseMove(text.viewport(), QPoint(290, 190))
    assert (hovered[-1], text.pointed) == (-1, -1)
    qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=center(text, 2))
    assert text.current == 2
    qtbot.mouseMove(text.viewport(), center(text, 4))
    assert (text.pointed, text.current) == (4, 2)


def test_keys_walk_through_the_tokens(open_text: Callable[..., PromptText], qtbot: QtBot) -> None:
    text = open_text()
    chosen: list[int] = []
    text.chosen.connect(chosen.append)
    key = Qt.Key
    for pressed in (key.Key_Right, key.Key_Right, key.Key_Down, key.Key_Down, key.Key_Up):
        qtbot.keyClick(text, pressed)
    assert chosen == [0, 1, 5, 9, 5]
    for pressed in (key.Key_End, key.Key_Right, key.Key_Left, key.Key_Home, key.Key_Left):
        qtbot.keyClick(text, pressed)
    assert chosen[5:] == [9, 8, 0]
    qtbot.keyClick(text, key.Key_PageDown)
    assert text.current in (7, 8, 9)


def test_tab_puts_the_keyboard_on_a_token(
    open_text: Callable[..., PromptText], qtbot: QtBot
) -> None:
    text = open_text()
    text.activateWindow()
    qtbot.waitUntil(text.isActiveWindow)
    text.clearFocus()
    text.setFocus(Qt.FocusReason.TabFocusReason)
    assert text.current == 0
    text.show_tokens(Strip(WORDS), Look())
    assert text.current == -1


def test_an_empty_strip_takes_every_key(open_text: Callable[..., PromptText], qtbot: QtBot) -> None:
    text = open_text([])
    for pressed in (Qt.Key.Key_Right, Qt.Key.Key_End, Qt.Key.Key_Down, Qt.Key.Key_A):
        qtbot.keyClick(text, pressed)
    assert text.current == -1


def test_each_token_lies_on_its_tone(open_text: Callable[..., PromptText], theme: Theme) -> None:
    look = Look(lambda token: RED if token < 4 else GREEN, is_control=lambda token: token == 0)
    text = open_text(look=look)
    image = picture(text)
    ratio = image.devicePixelRatio()

    def colors_in(token: int) -> set[str]:
        rect = text.rects(token)[0].translated(text._margin, text._margin)
        points = [
            (x, y)
            for x in range(round(rect.left() * ratio) + 1, round(rect.right() * ratio) - 1)
            for y in range(round(rect.top() * ratio) + 1, round(rect.bottom() * ratio) - 1)
        ]
        return {image.pixelColor(x, y).name() for x, y in points}

    for token in range(10):
        tone = (RED if token < 4 else GREEN).name()
        other = (GREEN if token < 4 else RED).name()
        assert tone in colors_in(token)
        assert other not in colors_in(token)
    text.set_look(Look())
    image = picture(text)
    assert RED not in colors_of(image.copy(0, 0, 300, 40))


def test_going_to_a_token_brings_it_on_screen(
    open_text: Callable[..., PromptText], qtbot: QtBot
) -> None:
    text = open_text([f"line {i}\n".encode() for i in range(500)])
    text.choose(400)
    height = text.viewport().height()
    assert 0 <= center(text, 400).y() <= height
    before = text.verticalScrollBar().value()
    text.choose(401)
    assert 0 <= center(text, 401).y() <= height
    assert text.verticalScrollBar().value() - before <= 2 * text._step
    text.scroll_to(100)
    assert 0 <= center(text, 100).y() <= 3 * text._step
    assert text.current == 401
    text.choose(9999)
    assert text.current == -1


def test_the_end_stays_in_view_where_less_room_is_left(
    open_text: Callable[..., PromptText], qtbot: QtBot
) -> None:
    """Words that come above the text take lines from it after it was scrolled."""
    text = open_text([f"line {i}\n".encode() for i in range(500)])
    bar = text.verticalScrollBar()
    text.scroll_to(497)
    assert bar.value() == bar.maximum()
    text.resize(text.width(), text.height() - 3 * text._step)
    settle(text, qtbot)
    assert bar.value() == bar.maximum()
    assert center(text, 499).y() <= text.viewport().height()
    # Who has scrolled since stays where that led.
    text.scroll_to(497)
    bar.triggerAction(bar.SliderAction.SliderToMinimum)
    text.resize(text.width(), text.height() - 2 * text._step)
    settle(text, qtbot)
    assert bar.value() == 0


def test_every_line_of_a_long_text_is_painted(
    open_text: Callable[..., PromptText], theme: Theme
) -> None:
    text = open_text([f"line {i}\n".encode() for i in range(3 * MOST_KEPT_LINES)])
    bar, step = text.verticalScrollBar(), text._step
    ink = QColor(theme.colors.ink).lightnessF()
    for value in range(0, bar.maximum(), 7 * step):
        bar.setValue(value)
        row = picture(text).copy(0, text.height() // 2, 60, step)
        assert min(color.lightnessF() for color in colors_of(row)) < ink + 0.3
        assert len(text._runs) <= MOST_KEPT_LINES + text.height() // step + 1


def test_another_width_keeps_what_is_at_the_top(
    open_text: Callable[..., PromptText], theme: Theme, qtbot: QtBot
) -> None:
    text = open_text([f"line {i} of a longer text\n".encode() for i in range(2000)])
    text.scroll_to(1000)
    for change in (lambda: text.resize(180, 200), lambda: theme.set_zoom(200)):
        change()
        settle(text, qtbot)
        assert -2 * text._step <= center(text, 1000).y() <= 4 * text._step


def test_32_000_tokens_come_in_slices_and_paint_quickly(theme: Theme, qtbot: QtBot) -> None:
    text = PromptText(theme)
    qtbot.addWidget(text)
    text.resize(396, 700)
    text.show()
    qtbot.waitExposed(text)
    pieces = [f" w{i % 3000}".encode() if i % 17 else b"\n" for i in range(32_000)]
    tones = (RED, GREEN)
    began = time.process_time()
    text.show_tokens(Strip(pieces), Look(lambda token: tones[token % 2]))
    gaps = [time.process_time() - began]
    assert not text.is_whole
    text.choose(31_999)  # not laid out yet: nobody waits for it
    while not text.is_whole:
        began = time.process_time()
        QApplication.processEvents()
        gaps.append(time.process_time() - began)
    assert len(gaps) > 2  # how many depends on the machine; none is long
    assert sorted(gaps)[-2] < 0.05
    assert text.current == 31_999
    assert 0 <= center(text, 31_999).y() <= 700
    times = []
    for share in range(10):
        text.verticalScrollBar().setValue(text.verticalScrollBar().maximum() * share // 10)
        began = time.process_time()
        text.viewport().repaint()
        times.append(time.process_time() - began)
    assert min(times) < 0.025


def test_a_text_without_tokens_has_the_lines_that_it_has(theme: Theme, qtbot: QtBot) -> None:
    stored = "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n\nHello\tthere \n<end>\n"
    strip = WordStrip(stored)
    assert b"".join(strip.pieces(0, len(strip))) == stored.encode()
    text = PromptText(theme)
    qtbot.addWidget(text)
    text.resize(900, 400)
    text.show_tokens(strip, Look())
    assert text.is_whole
    pieces = [
        b"".join(
            b"".join(strip.pieces(token, token + 1))
            for box in text.lines.boxes_of_line(line)
            for token in text.lines.tokens_of_box(box)
        )
        for line in range(text.lines.n_lines)
    ]
    assert [piece for piece in pieces if piece] == stored.encode().splitlines(keepends=True)


def test_a_picture_stands_over_the_whole_lines_of_its_cells(
    open_text: Callable[..., PromptText],
) -> None:
    picture, asked = QImage(40, 30, QImage.Format.Format_RGB32), []
    picture.fill(RED)

    def find(media_id: str, _width: float, _height: float) -> QImage:
        asked.append(media_id)
        return picture

    before, cells = [b"Look", b" at"], [b""] * 150
    seen = Block(2, 152, "p", "ant.png · 150 cells")
    heard = Block(153, 303, "", "bell.wav · 150 cells")
    pieces = [*before, *cells, b" this", *cells, b"?"]
    text = open_text(pieces, Look(blocks=(seen, heard), picture=find))
    for block in (seen, heard):
        rect = text.block_rect(block)
        top = int(text._margin - text.verticalScrollBar().value() + rect.top())
        lines = range(int(rect.height()) // text._step)
        assert len(lines) > 3
        for line in lines:
            at = QPointF(text._margin + 4, top + (line + 0.5) * text._step)
            assert block.start <= text.token_at(at) < block.end
    shown = text.grab().toImage()
    ratio = shown.devicePixelRatio()
    place = QPointF(text._margin + 10, text.block_rect(seen).top() + text._margin + 10) * ratio
    assert shown.pixelColor(place.toPoint()) == RED
    assert set(asked) == {"p"}
    few = Block(2, 5, "q", "too small")
    text.show_tokens(Strip([*before, *cells[:3], b"!"]), Look(blocks=(few,), picture=find))
    text.grab()
    assert set(asked) == {"p"}
