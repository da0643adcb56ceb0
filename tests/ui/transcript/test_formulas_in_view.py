"""Formulas in the transcript: they come in beside the stream, and what is read stays in place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from shiboken6 import isValid

from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.transcript.view import TranscriptView

NOW = datetime.now(UTC)
REPLY = Message("r", "c", None, Role.ASSISTANT, "", NOW)
TALL = "$$\n\\begin{pmatrix} a \\\\ b \\\\ c \\\\ d \\\\ e \\\\ f \\end{pmatrix}\n$$\n\n"


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(700, 400)
    with qtbot.waitExposed(made):
        made.show()
    return made


def wait_for_formulas(qtbot, view: TranscriptView) -> None:
    formulas = view.formulas
    if formulas.is_waiting:
        with qtbot.waitSignal(formulas.arrived, timeout=30_000):
            pass
    qtbot.waitUntil(lambda: not formulas.is_waiting and not formulas._gather.isActive())


def test_formulas_stand_where_their_source_stood(qtbot, view: TranscriptView) -> None:
    view.set_conversation([replace(REPLY, content=TALL)])
    before = view.rows.height(0)
    wait_for_formulas(qtbot, view)
    assert view.rows.height(0) > before + 10


def test_the_end_stays_in_view_when_formulas_arrive(qtbot, view: TranscriptView) -> None:
    view.set_conversation([replace(REPLY, content="words\n\n" * 40 + TALL * 2 + "the end")])
    wait_for_formulas(qtbot, view)
    assert view.is_at_end
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()


def test_a_streaming_reply_asks_only_for_formulas_that_are_whole(
    qtbot, view: TranscriptView
) -> None:
    view.set_conversation([replace(REPLY, state=MessageState.STREAMING)])
    for char in "The roots $x^2 + 1$ and \\(y\\) cost $5":
        view.append_text("r", char)
        view._flush()
    wait_for_formulas(qtbot, view)
    assert set(view.formulas._found) == {("x^2 + 1", False), ("y", False)}


def test_while_nobody_looks_no_child_runs(qtbot, view: TranscriptView) -> None:
    view.set_conversation([replace(REPLY, content=TALL)])
    assert view.formulas.is_running
    view.hide()
    qtbot.waitUntil(lambda: not view.formulas.is_running)
    before = view.rows.height(0)
    view.show()
    wait_for_formulas(qtbot, view)
    assert view.rows.height(0) > before + 10


def test_no_child_outlives_the_view(qtbot) -> None:
    """The guard around every test finds a child that is left."""
    view = TranscriptView(Theme("light"))
    view.set_conversation([replace(REPLY, content="$x^2$")])
    view.resize(500, 300)
    view.show()
    qtbot.waitUntil(lambda: view.formulas.is_running)
    view.close()
    view.deleteLater()
    qtbot.waitUntil(lambda: not isValid(view))


def test_views_share_one_child_until_the_last_one_is_hidden(qtbot, view: TranscriptView) -> None:
    other = TranscriptView(Theme("light"), formulas=view.formulas)
    qtbot.addWidget(other)
    other.set_conversation([replace(REPLY, content=TALL)])
    view.set_conversation([replace(REPLY, content=TALL)])
    wait_for_formulas(qtbot, view)
    with qtbot.waitExposed(other):
        other.show()
    view.hide()
    qtbot.wait(0)
    assert view.formulas.is_running
    other.hide()
    qtbot.waitUntil(lambda: not view.formulas.is_running)
