"""Find in chat: by keyboard alone, over the whole conversation, with marks on the text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from models.records import Message, MessageState, Role
from ui.chat.find_bar import FindBar
from ui.look.theme import Theme
from ui.transcript.finding import rects_of
from ui.transcript.view import TranscriptView
from ui.widgets.icon_button import IconButton

NOW = datetime.now(UTC)
SHIFT = Qt.KeyboardModifier.ShiftModifier
MULTILINE = "The **needle** lies\nin the hay.\n\n```python\nneedle = 1\n```\n"


def message(number: int, text: str, **fields: object) -> Message:
    role = Role.ASSISTANT if number % 2 else Role.USER
    return replace(Message(f"m{number}", "c", None, role, text, NOW), **fields)


def chat(count: int, at: dict[int, str]) -> list[Message]:
    return [message(i, at.get(i, f"{i}: some words about nothing much")) for i in range(count)]


class Room:
    """A view with its bar, and a field beside them that has the focus."""

    def __init__(self, qtbot: QtBot, theme: Theme) -> None:
        self.qtbot = qtbot
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.other = QLineEdit()
        self.view = TranscriptView(theme)
        column = QVBoxLayout(self.window)
        column.addWidget(self.view)
        column.addWidget(self.other)
        self.window.resize(800, 560)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)
        self.other.setFocus()
        self.bar = FindBar(theme, self.view)

    def find(self, text: str) -> None:
        self.bar.open_bar()
        self.bar.field.insert(text)
        self.key(Qt.Key.Key_Return)
        self.wait()

    def wait(self) -> None:
        self.qtbot.waitUntil(lambda: not self.view.finder.is_busy, timeout=20_000)

    def key(self, key: Qt.Key, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
        QTest.keyClick(self.bar.field, key, modifiers)

    def marked(self, color: str) -> int:
        """How many pixels of the view have this colour."""
        image = self.view.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        wanted = QColor(color).rgb()
        return sum(
            image.pixel(x, y) == wanted for y in range(image.height()) for x in range(image.width())
        )

    @property
    def shown(self) -> list[str]:
        """The messages in view."""
        view = self.view
        first, last = view.index_at(0), view.index_at(view.viewport().height() - 1)
        assert first is not None
        assert last is not None
        return [view.rows.message(i).id for i in range(first, last + 1)]


@pytest.fixture
def room(qtbot: QtBot, theme: Theme) -> Room:
    return Room(qtbot, theme)


def test_what_is_shown_of_an_entity_is_what_is_found(qtbot: QtBot, theme: Theme) -> None:
    """Though it is not what stands in the source."""
    room = Room(qtbot, theme)
    room.view.set_conversation(chat(2, {1: "K&auml;se, and **Tom**&amp;Jerry, `&lt;`"}))
    for words, count in (("Käse", 1), ("tom&jerry", 1), ("&auml;", 0), ("&lt;", 1), ("auml", 0)):
        room.bar.field.clear()
        room.find(words)
        assert room.view.finder.count == count, words


def test_the_keyboard_stays_on_a_button_while_it_looks_anew(room: Room) -> None:
    room.view.set_conversation(chat(200, {3: "needle", 150: "needles"}))
    room.find("needle")
    button = room.bar.findChildren(IconButton)[0]
    button.setFocus()
    assert button.hasFocus()
    room.bar.field.insert("s")
    room.bar._search()
    assert button.hasFocus()
    room.wait()
    assert button.hasFocus()
    room.bar.field.insert("xyz")
    room.bar._search()
    room.wait()
    assert room.bar.field.hasFocus()  # there is nothing to step through


def test_places_are_counted_in_what_is_shown(room: Room) -> None:
    room.view.set_conversation(chat(40, {3: MULTILINE, 20: "Needle? needle needles"}))
    room.find("needle")
    assert room.bar.words() == "1 of 5" or room.bar.words().endswith(" of 5")
    assert room.view.finder.count == 5


def test_the_nearest_place_above_the_end_is_shown_first(room: Room) -> None:
    room.view.set_conversation(chat(60, {3: "needle", 30: "needle and needle"}))
    room.find("needle")
    assert "m30" in room.shown
    assert room.bar.words() == "3 of 3"
    assert not room.view.is_at_end


def test_steps_go_round_both_ways(room: Room) -> None:
    room.view.set_conversation(chat(60, {3: "needle", 30: "needle and needle"}))
    room.find("needle")
    seen = []
    for _ in range(3):
        room.key(Qt.Key.Key_Return)
        seen.append((room.bar.words(), "m3" in room.shown, "m30" in room.shown))
    assert seen == [
        ("1 of 3", True, False),
        ("2 of 3", False, True),
        ("3 of 3", False, True),
    ]
    room.key(Qt.Key.Key_Return, SHIFT)
    room.key(Qt.Key.Key_Return, SHIFT)
    assert (room.bar.words(), "m3" in room.shown) == ("1 of 3", True)
    room.key(Qt.Key.Key_Return, SHIFT)
    assert room.bar.words() == "3 of 3"


@pytest.mark.parametrize(
    ("text", "needle", "count"),
    [
        ("The **bo**ld word", "bold word", 1),
        ("first line\nsecond line", "line second", 1),
        ("grün GRÜN 😀 grün", "grün", 3),
        ("[name](https://needle.example)", "needle", 0),
        ("| a | b |\n|---|---|\n| needle | x |", "needle", 1),
        ("a.b a+b", "a.b", 1),
        ("(x) [y]", "(x) [y]", 1),
        ("- one\n- two needle\n\n> quoted needle", "needle", 2),
    ],
)
def test_what_is_read_is_found_and_not_its_markup(
    room: Room, text: str, needle: str, count: int
) -> None:
    room.view.set_conversation([message(0, "hi"), message(1, text)])
    room.find(needle)
    assert room.view.finder.count == count
    assert room.bar.words() == ("No matches" if not count else f"1 of {count}")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_places_are_marked_on_the_text(qtbot: QtBot, qapp: object, mode: str) -> None:
    theme = Theme(mode)
    room = Room(qtbot, theme)
    colors = theme.colors
    room.view.set_conversation([message(0, "hi"), message(1, "a needle and a needle.")])
    image = room.view.viewport().grab().toImage()
    room.find("needle")
    assert room.view.viewport().grab().toImage() != image
    both = [r for hit in room.view.finder._hits[1] or () for r in room_rects(room, hit)]
    assert len(both) == 2
    assert all(r.width() > 20 and r.height() > 10 for r in both)
    assert both[0].right() < both[1].left()
    assert colors.found != colors.found_now
    room.bar.close_bar()
    assert room.view.viewport().grab().toImage() == image


def room_rects(room: Room, hit: tuple[int, int, int, int, int]) -> list:
    from ui.transcript.finding import rects_of

    return rects_of(room.view.rows.item(1), hit)


def test_mark_in_light_mode_has_the_marker_colour(room: Room) -> None:
    room.view.set_conversation([message(0, "hi"), message(1, "needle")])
    assert room.marked("#fcd45a") == 0
    room.find("needle")
    image = room.view.viewport().grab().toImage()
    rect = room_rects(room, (room.view.finder._hits[1] or ())[0])[0]
    at = (rect.translated(room.view.item_origin(1))).topLeft().toPoint()
    color = image.pixelColor(at.x() + 1, at.y() + 1)
    assert color.red() > 230
    assert color.blue() < 120


def test_words_under_the_marks_stay_readable(theme: Theme) -> None:
    from ui.look.colors import DARK, LIGHT

    for colors in (LIGHT, DARK):
        for plane in (colors.chat, colors.bubble, colors.code):
            for mark in (colors.found, colors.found_now):
                lit = [
                    _blend(a, b, is_dark=colors.is_dark)
                    for a, b in zip(_rgb(plane), _rgb(mark), strict=True)
                ]
                ink = [
                    _blend(a, b, is_dark=colors.is_dark)
                    for a, b in zip(_rgb(colors.ink), _rgb(mark), strict=True)
                ]
                assert _contrast(lit, ink) >= 4.5


def _rgb(color: str) -> list[float]:
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _blend(below: float, above: float, *, is_dark: bool) -> float:
    return 1 - (1 - below) * (1 - above) if is_dark else below * above


def _contrast(first: list[float], second: list[float]) -> float:
    def light(rgb: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(first), light(second)))
    return (high + 0.05) / (low + 0.05)


def test_escape_closes_and_gives_the_focus_back(room: Room) -> None:
    room.view.set_conversation(chat(10, {4: "needle"}))
    room.find("needle")
    assert room.bar.field.hasFocus()
    room.key(Qt.Key.Key_Escape)
    assert room.bar.isHidden()
    assert room.other.hasFocus()
    assert room.view.finder.count == 0


def test_escape_in_the_transcript_closes_too(room: Room) -> None:
    room.view.set_conversation(chat(10, {4: "needle"}))
    room.find("needle")
    room.view.setFocus()
    QTest.keyClick(room.view, Qt.Key.Key_Escape)
    assert room.bar.isHidden()


def test_reasoning_is_found_and_unfolded(room: Room) -> None:
    room.view.set_conversation([message(0, "hi"), message(1, "Yes.", reasoning="Hm, a needle.")])
    room.find("needle")
    assert room.bar.words() == "1 of 1"
    assert room.view.rows.item(1).is_reasoning_open


def test_messages_that_come_above_are_looked_through_too(room: Room) -> None:
    messages = chat(400, {5: "needle", 350: "needle"})
    room.view.set_conversation(messages[200:])
    room.find("needle")
    assert room.bar.words() == "1 of 1"
    room.view.add_earlier(messages[:200])
    room.wait()
    assert room.bar.words() == "2 of 2"
    room.key(Qt.Key.Key_Return)
    assert "m5" in room.shown


def test_growing_reply_is_looked_through_again(room: Room) -> None:
    growing = message(1, "a needle", state=MessageState.STREAMING)
    room.view.set_conversation([message(0, "hi"), growing])
    room.find("needle")
    assert room.view.finder.count == 1
    room.view.append_text("m1", " and a needle\n")
    room.qtbot.waitUntil(lambda: room.view.finder.count == 2)
    room.view.add_message(message(2, "needle here"))
    room.qtbot.waitUntil(lambda: room.view.finder.count == 3)
    assert room.bar.words() == "1 of 3"


def test_huge_chat_is_searched_without_a_long_stop(room: Room) -> None:
    import time

    messages = chat(10_000, {17: "needle"})
    room.view.set_conversation(messages)
    room.bar.open_bar()
    QTest.keyClicks(room.bar.field, "needle")
    longest, finder = 0.0, room.view.finder
    finder.search("needle")
    while finder.is_busy:
        began = time.thread_time()
        finder._on_due()
        longest = max(longest, time.thread_time() - began)
    assert room.bar.words() == "1 of 1"
    assert longest < 0.05


def test_selected_words_are_what_is_looked_for(room: Room) -> None:
    from ui.transcript.selection import Selection

    room.view.set_conversation([message(0, "hi"), message(1, "one needle two needle")])
    room.view.selection = Selection((1, 1, 0, 0, 4), (1, 1, 0, 0, 10))
    room.bar.open_bar()
    room.wait()
    assert room.bar.field.text() == "needle"
    assert room.view.finder.count == 2


def test_nothing_is_looked_for_without_letters(room: Room) -> None:
    room.view.set_conversation(chat(10, {}))
    room.find("   ")
    assert room.bar.words() == ""
    assert room.view.finder.count == 0


@pytest.mark.parametrize("words", [1, 400])
def test_the_bar_covers_no_place(room: Room, words: int) -> None:
    """Neither the first one of all, where nothing can be scrolled, nor one that was scrolled to;
    and what is in view stays where it is as something comes and goes above it."""
    line = "needle " * words
    room.view.set_conversation(
        chat(40, {0: line, 1: f"needle {line}", 20: f"in the middle {line}"})
    )
    room.view.scroll_to(300)
    before = room.view.scroll_top
    room.view.cover_top(80)
    assert room.view.scroll_top == before
    room.view.cover_top(0)
    assert room.view.scroll_top == before
    room.view.scroll_to(0)
    room.find("needle")
    bar = room.bar.geometry()
    for _ in range(min(room.view.finder.count, 12)):
        index, place = room.view.finder._current
        hit = room.view.finder._hits[index][place]
        item = room.view.rows.item(index)
        for rect in rects_of(item, hit):
            there = rect.translated(room.view.item_origin(index)).toRect()
            assert not there.intersects(bar), (index, place)
            assert room.view.viewport().rect().intersects(there)
        room.key(Qt.Key.Key_Return)
        room.wait()
