"""A transcript on screen, for the rooms that need no other one."""

from __future__ import annotations

import pytest

from ui.look.theme import Theme
from ui.transcript.view import TranscriptView


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(800, 500)
    with qtbot.waitExposed(made):
        made.show()
    return made
