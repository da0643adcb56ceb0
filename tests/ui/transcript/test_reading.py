"""Huge texts: opened at once, read on in slices, whole in the end; nothing ever freezes."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QTimer

from app.markdown.document import Document
from models.records import Message, Role
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.transcript.body import Body
from ui.transcript.view import TranscriptView

MB = 1_000_000
HUGE = {
    "letters": "a\n" * MB,
    "numbers": "12\n" * (MB // 2),
    "items": "- a\n" * (MB // 40),
    "paragraphs": "a\n\n" * (MB // 40),
    "code": "```py\n" + "x = 1\n" * (MB // 8) + "```\n",
    "quotes": "> a\n" * (MB // 20),
    "no spaces": "x" * MB,
    "wide letters": "漢" * MB,
    "code without spaces": "```\n" + "x" * MB + "\n```\n",
}
USUAL_KINDS = ("paragraphs", "code", "no spaces")
# How long the GUI's thread may work without a look at its events. Time of its own: the machine
# that tests run on is shared.
USUAL_S, LONGEST_S = 0.05, 0.1


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(900, 700)
    with qtbot.waitExposed(made):
        made.show()
    return made


def reply(text: str) -> Message:
    return Message("r", "c", None, Role.ASSISTANT, text, datetime.now(UTC))


@pytest.mark.parametrize(
    "kind",
    [kind if kind in USUAL_KINDS else pytest.param(kind, marks=pytest.mark.soak) for kind in HUGE],
)
def test_a_huge_message_opens_at_once_and_is_whole_soon(qtbot, view, kind: str) -> None:
    gaps, last = [], [time.thread_time()]

    def beat() -> None:
        now = time.thread_time()
        gaps.append(now - last[0])
        last[0] = now

    timer = QTimer(view)
    timer.timeout.connect(beat)
    timer.start(0)
    view.set_conversation([reply(HUGE[kind])])
    body = view.rows.item(0).content
    qtbot.waitUntil(
        lambda: body.is_whole and not view._reading.is_busy and len(gaps) > 5, timeout=60_000
    )
    timer.stop()
    assert view.is_at_end
    assert sorted(gaps)[int(len(gaps) * 0.9)] < USUAL_S
    # One full garbage collection may fall into this, and one first layout of the end.
    assert sorted(gaps)[-3] < LONGEST_S


def test_two_megabytes_of_short_lines_are_opened_in_a_sixth_of_a_second(view) -> None:
    costs = []
    for i in range(3):
        started = time.thread_time()
        view.set_conversation([reply(f"{i}\n" + HUGE["letters"])])
        view.grab()
        costs.append(time.thread_time() - started)
    assert min(costs) < 0.15


def test_what_was_read_in_slices_is_what_is_read_at_once(view) -> None:
    text = (
        "Some *words* [a]\n" * 40 + "\n- item\n" * 40 + "```\ncode\n```\n| a |\n|---|\n| 1 |\n"
    ) * 20
    text += "\n[a]: https://e.test\r\n\r\nend"
    whole, sliced = Document(text), Document(text)
    calls = 0
    while calls == 0 or sliced.unread_chars:
        before = list(sliced.known_segments)
        changed = sliced.take_changes(1e-9 if calls else 0.001)
        assert all(a is b for a, b in zip(before[:changed], sliced.known_segments, strict=False))
        calls += 1
        if calls > 3:
            sliced.take_changes(0.0005)
    assert calls > 3

    def said(document: Document) -> list[tuple[object, ...]]:
        return [(s.kind, s.text, *document.blocks(s)) for s in document.segments]

    assert said(sliced) == said(whole)


def test_the_unread_rest_has_a_height_and_is_said(qapp) -> None:
    body = Body(Document("- a\n" * 25_000), Styles(Theme("light")), 600)
    body.ensure(0, 500)
    assert not body.is_whole
    guessed = body.height
    assert guessed > body._heights.total  # however much a slice has read on this machine
    while not body.is_whole:
        body.read()
    assert len(body._heights) == 25_000
    assert guessed == pytest.approx(body.height, rel=0.5)


def test_a_reply_that_grows_while_it_is_read_is_whole(qapp) -> None:
    items = "- a\n" * 40_000
    body = Body(Document(items, is_open=True), Styles(Theme("light")), 600)
    body.ensure(0, 500)
    for _ in range(10):
        body.document.append("more ")
        body.read()
    while not body.is_whole:
        body.read()
    last = body.document.segments[-1]
    assert "more more" in last.text
    assert body.document.source == items + "more " * 10
