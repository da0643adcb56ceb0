"""The bars of one stage: the best, and always the token that was drawn."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.insight.sampling.stage_evidence import Kept, StageEvidence
from ui.look.theme import Theme
from ui.section.sampling.evidence_view import EvidenceView


@pytest.mark.parametrize(
    ("drawn", "shown"),
    [(1, [1, 2, 3, 4]), (4, [1, 2, 3, 4]), (5, [1, 2, 3, 4, 5]), (9, [1, 2, 3, 4, 9])],
)
def test_the_drawn_token_has_a_bar(qtbot: QtBot, drawn: int, shown: list[int]) -> None:
    kept = tuple(Kept(number, 1 / number / 4, number == drawn) for number in range(1, 12))
    row = StageEvidence("top-k", 0, 11, 989, kept, (), None, "")
    view = EvidenceView(Theme("light"))
    qtbot.addWidget(view)
    view.show_stage(row, "Top-k", None)
    assert [bar.name for bar in view.bars.bars] == [f"ID {number}" for number in shown]
    assert [bar.is_drawn for bar in view.bars.bars].count(True) == 1
