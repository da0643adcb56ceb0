"""Versions side by side: where those with cuts part from the one with nothing cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pytestqt.qtbot import QtBot

from app.chat.replies.cut_versions import CUTS, CutVersion, as_recorded
from app.engine.protocol.cut_messages import Cut
from models.records import Message, MessageState, Role
from ui.chat.compare import Comparison
from ui.look.theme import Theme
from ui.markdown.formulas import Formulas

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def version(number: int, role: str, ids: tuple[int, ...] | None, group: str = "g") -> Message:
    parts = [] if role == "whole" else [Cut("head", 3, number)]
    recorded = as_recorded(CutVersion(parts, "mean", role, group=group))  # type: ignore[arg-type]
    return Message(
        id=f"m{number}",
        conversation_id="c0",
        parent_id="q",
        role=Role.ASSISTANT,
        content="text",
        state=MessageState.COMPLETE,
        created_at=NOON,
        token_ids=ids,
        sibling_index=number,
        sibling_count=3,
        settings={CUTS: recorded},
    )


@pytest.fixture
def facts(theme: Theme, qtbot: QtBot):
    def of(*messages: Message) -> list[str]:
        made = Comparison(theme, "Why?", messages, Formulas(theme))
        qtbot.addWidget(made)
        of.comparison = made
        return [column.facts.text() for column in made.columns]

    return of


def test_each_says_what_was_cut_and_where_it_parts(facts) -> None:
    whole, cut, control = facts(
        version(0, "whole", (1, 2, 3)),
        version(1, "cut", (1, 9, 3)),
        version(2, "control", (1, 2, 3)),
    )
    assert whole == "Nothing cut"
    assert cut == "first differs at token 2 · Without head 1 of layer 3 (mean)"
    assert control == "same text · Control: without head 2 of layer 3 (mean)"


def test_one_that_ends_earlier_parts_there(facts) -> None:
    _, cut = facts(version(0, "whole", (1, 2, 3)), version(1, "cut", (1, 2)))
    assert cut.startswith("first differs at token 3")


def test_nothing_is_said_while_one_grows_or_ids_are_unknown(facts) -> None:
    growing = replace(version(1, "cut", (1,)), state=MessageState.STREAMING)
    for other in (growing, version(1, "cut", None), version(1, "cut", (9,), group="another")):
        _, words = facts(version(0, "whole", (1, 2)), other)
        assert "differs" not in words
    # … and said as soon as it has ended
    _, words = facts(version(0, "whole", (1, 2)), growing)
    facts.comparison.change_message(version(1, "cut", (1, 5)))
    assert facts.comparison.columns[1].facts.text().startswith("first differs at token 2")


def test_ordinary_versions_are_held_against_the_first(facts) -> None:
    versions = [
        replace(version(n, "cut", ids), settings={})
        for n, ids in enumerate([(1, 2, 3), (1, 2, 4), (1, 2, 3)])
    ]
    first, second, third = facts(*versions)
    assert "differs" not in first
    assert second.startswith("first differs at token 3")
    assert third.startswith("same text")
