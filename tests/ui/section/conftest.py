"""A reply with a made-up trace, and what a panel is built with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from own_look import kept_look
from PySide6.QtWidgets import QApplication
from recording_desk import FakeBridge, FakeDesk, message

from models.records import Message, Role
from ui.look.theme import Theme
from ui.section.looking import Looking
from ui.section.panel import Tools


@pytest.fixture(scope="module", autouse=True)
def dressed(qapp: QApplication) -> Iterator[None]:
    """Once for all tests of a file: it takes longer than most of them."""
    with kept_look(qapp):
        Theme("light").apply_to(qapp)
        yield


RESTS_MS: Final = {
    "ui.section.inside.vectors.map_card.REST_MS": 20,
    "ui.section.inside.vectors.nearest_card.REST_MS": 20,
    "ui.section.inside.view.IDLE_MS": 20,
    "ui.section.looking.GROWN_MS": 50,
    "ui.section.prompt.panel.GROWN_MS": 50,
    "ui.section.tokens.speed_plot.DRAWN_MS": 50,
    "ui.section.tokens.try_text.REST_MS": 20,
    "ui.section.tokens.vocabulary_browser.REST_MS": 20,
}
"""What the panels wait for before they ask or draw: the tests have no reason to wait so long."""


@pytest.fixture(scope="module", autouse=True)
def short_rests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, ms in RESTS_MS.items():
            monkeypatch.setattr(name, ms)
        yield


@pytest.fixture(autouse=True)
def in_the_app(dressed: None, own_look: None, qapp: QApplication, theme: Theme) -> None:
    """What fits is asked in the fonts and with the sheet of the app."""
    theme.apply_to(qapp)


@pytest.fixture
def ask() -> Callable[..., tuple[Message, ...]]:
    """A question and its reply, as the desk would have them."""

    def build(**fields: object) -> tuple[Message, ...]:
        fields.setdefault("weights_hash", "w1")
        return (
            message(1, Role.USER, "Which city?"),
            message(2, Role.ASSISTANT, "Paris", **fields),
        )

    return build


@pytest.fixture
def looking(desk: FakeDesk, bridge: FakeBridge) -> Looking:
    desk.growing.trace_of = lambda _id: None
    desk.words.of = lambda _hash: None
    return Looking(desk, bridge)  # type: ignore[arg-type]


@pytest.fixture
def tools(theme: Theme, looking: Looking, desk: FakeDesk, bridge: FakeBridge) -> Tools:
    return Tools(theme, looking, desk, bridge)  # type: ignore[arg-type]
