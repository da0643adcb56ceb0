"""The text of a message as it was written, and the time that its reasoning took."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from app.markdown.blocks import LiteralBlock
from models.records import Message, MessageCounts, MessageState, Role
from ui.look.theme import Theme
from ui.transcript.view import TranscriptView

SOURCE = "# Title\r\n\n**bold** `x` \\(y\\) <b>\n\n```py\nx = 1\n```\n\ttab  \n"
REPLY = Message("r", "c", None, Role.ASSISTANT, SOURCE, datetime.now(UTC), reasoning="*Hm* $x$")


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(700, 500)
    with qtbot.waitExposed(made):
        made.show()
    made.set_conversation([REPLY])
    QTest.keyClick(made, Qt.Key.Key_End)
    return made


def shown(view: TranscriptView) -> str:
    """All literal text of the message."""
    document = view.rows.item(0).content.document
    blocks = [block for segment in document.segments for block in document.blocks(segment)]
    assert all(isinstance(block, LiteralBlock) and block.is_mono for block in blocks)
    return "\n".join(block.text for block in blocks)


def test_u_shows_the_text_as_it_was_written_and_back(view: TranscriptView) -> None:
    QTest.keyClick(view, Qt.Key.Key_U)
    assert view.rows.item(0).is_raw
    assert shown(view) == SOURCE.replace("\r\n", "\n")
    QTest.keyClick(view, Qt.Key.Key_U)
    assert not view.rows.item(0).is_raw
    kinds = [segment.kind for segment in view.rows.item(0).content.document.segments]
    assert "code" in kinds


def test_menu_names_what_will_be_shown(view: TranscriptView) -> None:
    def label() -> str:
        return next(each.label for each in view.offers_of(0) if each.name == "toggle_raw")

    assert label() == "Show plain text"
    QTest.keyClick(view, Qt.Key.Key_U)
    assert label() == "Show as Markdown"


def test_copying_the_raw_text_gives_it_exactly(view: TranscriptView) -> None:
    QTest.keyClick(view, Qt.Key.Key_U)
    view.select_all()
    view.copy()
    assert QGuiApplication.clipboard().text() == SOURCE


def test_reasoning_is_raw_too(view: TranscriptView) -> None:
    item = view.rows.item(0)
    item.toggle_reasoning()
    item.toggle_raw()
    assert item.reasoning is not None
    (segment,) = item.reasoning.document.segments
    assert item.reasoning.document.blocks(segment) == (LiteralBlock("*Hm* $x$", is_mono=True),)


def test_raw_text_grows_and_stays_raw(qtbot, view: TranscriptView) -> None:
    streaming = replace(REPLY, id="s", content="**a", state=MessageState.STREAMING)
    view.set_conversation([streaming])
    view.rows.item(0).toggle_raw()
    view.append_text("s", "**\n- b")
    qtbot.waitUntil(lambda: not view.is_update_due)
    assert shown(view) == "**a**\n- b"
    view.change_message(replace(streaming, content="**a**\n- b.", state=MessageState.COMPLETE))
    assert shown(view) == "**a**\n- b."


def test_an_item_that_is_raw_stays_so_when_it_was_out_of_view(view: TranscriptView) -> None:
    many = [replace(REPLY, id=f"r{i}", content=f"**{i}**\n\n" * 8) for i in range(300)]
    view.set_conversation(many)
    view.rows.item(0).toggle_raw()
    for index in range(300):
        view.scroll_to(view.rows.top(index))
    assert view.rows.items_made < 200
    assert view.rows.item(0).is_raw


@pytest.mark.parametrize(
    ("seconds", "state", "content", "label"),
    [
        (None, MessageState.COMPLETE, "x", "Reasoning"),
        (12.3, MessageState.COMPLETE, "x", "Reasoning · 12 s"),
        (0.5, MessageState.STREAMING, "x", "Reasoning · 0.50 s"),
        (None, MessageState.STREAMING, "", "Thinking…"),
    ],
)
def test_the_fold_says_how_long_the_reasoning_took(
    view: TranscriptView, seconds: float | None, state: MessageState, content: str, label: str
) -> None:
    counts = MessageCounts(reasoning_s=seconds)
    view.set_conversation([replace(REPLY, id="t", content=content, state=state, counts=counts)])
    assert view.rows.item(0).reasoning_label() == label
