"""A word of a reply, clicked in its Markdown, is the token that all panels look at."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from app.markdown.blocks import plain_text
from ui.transcript.item import CONTENT, REASONING
from ui.widgets.utf16 import utf16_length

LEFT = Qt.MouseButton.LeftButton
TEXT = (
    "The cat **sat** by the `cat door`.\n\n"
    "- first 🙂 smile\n- 这是重点\n\n"
    "| who | what |\n|---|---|\n| cat | unbelievable |\n\n"
    "See [here](https://cat.example/the) and $x^2$ end.\n"
)
PIECES = [
    *("The", " cat", " **", "sat", "**", " by the", " `", "cat", " door", "`.", "\n\n"),
    *("-", " first", " 🙂", " smile", "\n-", " 这", "是重", "点", "\n\n"),
    *(
        "|",
        " who",
        " |",
        " what",
        " |\n|---|---|\n|",
        " cat",
        " |",
        " un",
        "believ",
        "able",
        " |\n\n",
    ),
    *(
        "See",
        " [",
        "here",
        "](https://",
        "cat",
        ".example/the",
        ")",
        " and",
        " $x^2$",
        " end",
        ".\n",
    ),
]
BOTH_WAYS = [
    "שלום",
    " hel",
    "lo",
    " 123",
    " **עולם**",
    " \u200bthere",
    "\n\n",
    "there \u200f",
    "שלום",
]
SCRIPT: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [
        {"match": "on and on", "tokens": [{"text": " **word**", "ms": 5, "repeat": 2000}]},
        {
            "match": "think",
            "tokens": [
                {"text": "why", "part": "reasoning"},
                {"text": " not", "part": "reasoning"},
                {"text": "why"},
                {"text": " so"},
            ],
        },
        {"match": "both ways", "tokens": [{"text": each} for each in BOTH_WAYS]},
        {"tokens": [{"text": piece} for piece in PIECES]},
    ],
}


class Clicker:
    """Somebody who clicks words of the last reply."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.view = person.window.chat.transcript
        self.looking = person.window.section_acts.looking()

    @property
    def index(self) -> int:
        return len(self.view.rows) - 1

    def point(self, word: str, nth: int = 0, section: int = CONTENT) -> QPoint:
        """The middle of a word's first letter, brought into view."""
        item = self.view.rows.item(self.index)
        body, place = item.body(section), item.section_rect(section).topLeft()
        body.ensure(0, 1e6)
        self.view.rows.measure(self.index)
        found = []
        for number, segment in enumerate(body.document.known_segments):
            for at, block in enumerate(body.document.blocks(segment)):
                text = plain_text(block)
                for match in re.finditer(re.escape(word), text):
                    start = utf16_length(text[: match.start()])
                    found.append((number, at, start, start + utf16_length(word[0])))
        segment, block, start, end = found[nth]
        (rect,) = body.rects((segment, block, start), end)
        self.view.scroll_to(self.view.rows.top(self.index) + place.y() + rect.top() - 100)
        return (self.view.item_origin(self.index) + place + rect.center()).toPoint()

    def click(self, word: str, nth: int = 0, section: int = CONTENT) -> None:
        QTest.mouseClick(self.view.viewport(), LEFT, pos=self.point(word, nth, section))

    def wait_at(self, index: int) -> None:
        self.person.wait(lambda: self.looking.index == index)

    def underlined(self) -> str:
        """The text under the lines."""
        item = self.view.rows.item(self.index)
        rects = self.view.words.rects_in(item)
        shown = []
        for found in self.view.words._found if rects else ():
            document = item.body(CONTENT).document
            text = plain_text(document.blocks(document.segments[found.segment])[found.block])
            units = text.encode("utf-16-le")[2 * found.start : 2 * found.end]
            shown.append(units.decode("utf-16-le"))
        return "|".join(shown)


@pytest.fixture
def clicker(open_window: Any) -> Clicker:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.send("Which one?")
    person.wait_ended()
    made = Clicker(person)
    person.window.action_registry.run("panel_inside")
    person.wait(lambda: len(made.looking.traces) == len(PIECES))
    return made


def test_words_of_a_reply(clicker: Clicker) -> None:
    """One after another: to open the window and to answer takes longest."""
    dragging_and_letting_go_of_a_selection_choose_nothing(clicker)
    words_everywhere_choose_the_token_that_they_begin_with(clicker)
    what_is_chosen_is_underlined_however_it_was_chosen(clicker)
    the_line_is_painted_under_the_word(clicker)
    a_formula_a_link_and_the_room_beside_words_choose_nothing(clicker)


def words_everywhere_choose_the_token_that_they_begin_with(clicker: Clicker) -> None:
    assert "".join(PIECES) == TEXT
    starts = list(accumulate(map(len, PIECES), initial=0))

    def token_of(place: int) -> int:
        return next(at for at, end in enumerate(starts[1:]) if place < end)

    for word, nth, place in (
        ("The", 0, 0),
        ("cat", 0, TEXT.index("cat")),
        ("sat", 0, TEXT.index("sat")),  # bold
        ("cat", 1, TEXT.index("cat door")),  # code
        ("door", 0, TEXT.index("door")),
        ("first", 0, TEXT.index("first")),  # a list
        ("🙂", 0, TEXT.index("🙂")),
        ("smile", 0, TEXT.index("smile")),  # behind it, which is two units long
        ("这", 0, TEXT.index("这")),
        ("重", 0, TEXT.index("重")),  # within a token
        ("点", 0, TEXT.index("点")),
        ("what", 0, TEXT.index("what")),  # a table
        ("cat", 2, TEXT.index("cat | un")),
        ("unbelievable", 0, TEXT.index("unbeliev")),  # of three tokens
        ("end", 0, TEXT.index("end")),  # behind a formula
    ):
        clicker.looking.select(None)
        clicker.click(word, nth)
        clicker.wait_at(token_of(place))


def test_words_of_a_text_that_runs_both_ways_are_clicked_and_underlined_where_they_are_seen(
    clicker: Clicker,
) -> None:
    person = clicker.person
    person.send("both ways")
    person.wait_ended()
    person.wait(lambda: len(clicker.looking.traces) == len(BOTH_WAYS))
    for word, nth, index, shown in (
        ("שלום", 0, 0, "שלום"),
        ("hello", 0, 1, "hel"),
        ("123", 0, 3, "123"),
        ("עולם", 0, 4, "עולם"),
        ("there", 0, 5, "there"),
        ("there", 1, 7, "there"),
        ("שלום", 1, 8, "שלום"),
    ):
        clicker.looking.select(None)
        clicker.click(word, nth)
        clicker.wait_at(index)
        assert clicker.underlined() == shown
        item = clicker.view.rows.item(clicker.index)
        point = clicker.point(word, nth) - clicker.view.item_origin(clicker.index).toPoint()
        (line,) = clicker.view.words.rects_in(item)
        assert line.adjusted(-1, -1, 1, 1).contains(point.toPointF())


def what_is_chosen_is_underlined_however_it_was_chosen(clicker: Clicker) -> None:
    for index, shown in (
        (1, "cat"),
        (3, "sat"),
        (5, "by the"),
        (7, "cat"),
        (17, "是重"),
        (28, "believ"),
    ):
        clicker.looking.select(index)
        assert clicker.underlined() == shown
    clicker.looking.select(2)  # the asterisks, which are not to be seen
    assert clicker.underlined() == ""
    clicker.looking.select(None)
    assert clicker.underlined() == ""


def the_line_is_painted_under_the_word(clicker: Clicker) -> None:
    clicker.looking.select(1)
    view, item = clicker.view, clicker.view.rows.item(clicker.index)
    (rect,) = view.words.rects_in(item)
    clicker.point("cat")
    clicker.person.wait(lambda: not view.is_update_due)
    image = view.viewport().grab().toImage()
    at = (view.item_origin(clicker.index) + rect.bottomLeft()).toPoint()
    scale = image.devicePixelRatio()
    color = image.pixelColor(round((at.x() + 2) * scale), round((at.y() - 1) * scale))
    assert color.name() == view.styles.colors.accent


def a_formula_a_link_and_the_room_beside_words_choose_nothing(clicker: Clicker) -> None:
    opened: list[str] = []
    clicker.view.link_activated.disconnect()
    clicker.view.link_activated.connect(opened.append)
    clicker.looking.select(0)
    clicker.click("x^2")
    clicker.click("here")
    assert opened == ["https://cat.example/the"]
    viewport, last = clicker.view.viewport(), clicker.point("door")
    QTest.mouseClick(viewport, LEFT, pos=QPoint(clicker.point("The").x() - 30, last.y()))
    QTest.mouseClick(viewport, LEFT, pos=last + QPoint(300, 0))
    assert clicker.looking.index == 0


def dragging_and_letting_go_of_a_selection_choose_nothing(clicker: Clicker) -> None:
    viewport = clicker.view.viewport()
    start, end = clicker.point("The"), clicker.point("by")
    QTest.mousePress(viewport, LEFT, pos=start)
    QTest.mouseMove(viewport, end)
    QTest.mouseRelease(viewport, LEFT, pos=end)
    assert clicker.view.selected_text()
    assert clicker.looking.index is None
    clicker.click("cat")
    assert clicker.view.selection is None
    assert clicker.looking.index is None
    clicker.click("cat")
    clicker.wait_at(1)


def test_without_such_a_panel_a_click_is_for_reading_alone(clicker: Clicker) -> None:
    clicker.looking.select(1)
    assert clicker.underlined() == "cat"
    acts = clicker.person.window.action_registry
    acts.run("panel_prompt")
    assert clicker.underlined() == ""
    clicker.click("sat")
    acts.run("toggle_section")
    clicker.click("sat")
    assert clicker.looking.index == 1
    acts.run("panel_tokens")
    assert clicker.underlined() == "cat"
    clicker.click("sat")
    clicker.wait_at(3)


def an_older_reply_is_looked_at_by_a_click(clicker: Clicker) -> None:
    view, old = clicker.view, clicker.view.rows.message(1).id
    item = view.rows.item(1)
    body, place = item.content, item.section_rect(CONTENT).topLeft()
    (rect,) = body.rects((0, 0, 4), 5)
    view.scroll_to(view.rows.top(1))
    point = (view.item_origin(1) + place + rect.center()).toPoint()
    QTest.mouseClick(view.viewport(), LEFT, pos=point)
    clicker.person.wait(lambda: clicker.looking.message.id == old and clicker.looking.index == 1)


def test_reasoning_and_answer_have_their_own_words(clicker: Clicker) -> None:
    person = clicker.person
    person.send("think")
    person.wait_ended()
    person.wait(lambda: len(clicker.looking.traces) == 4)
    clicker.view.rows.item(clicker.index).toggle_reasoning()
    clicker.view.remeasure(clicker.index)
    clicker.click("not", section=REASONING)
    clicker.wait_at(1)
    clicker.click("why")
    clicker.wait_at(2)
    clicker.click("why", section=REASONING)
    clicker.wait_at(0)
    an_older_reply_is_looked_at_by_a_click(clicker)


def test_a_reply_that_is_being_written_can_be_clicked(clicker: Clicker) -> None:
    person = clicker.person
    person.send("on and on")
    person.wait_growing(60)
    person.wait(lambda: clicker.looking.is_growing and len(clicker.looking.traces) > 60)
    clicker.click("word", 20)
    clicker.wait_at(20)
    assert clicker.looking.is_growing
    assert clicker.underlined() == "word"
    seen = clicker.view.words._found
    n_before = len(clicker.looking.traces)
    person.wait(lambda: len(clicker.looking.traces) > n_before + 40)
    assert clicker.underlined() == "word"
    assert clicker.view.words._found == seen
    person.app.desk.replies.stop()
    person.wait_ended()
    clicker.click("word", 5)
    clicker.wait_at(5)
