"""The what-if card: with what, what comes of it, and where one goes from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from made_candidates import token
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, conversation
from sampling_desk import SamplingDesk

from app.chat.events import ConversationOpened, TraceRead
from app.chat.inspection.what_if import Question
from app.chat.settings.settings import as_stored
from app.engine.protocol.stages import Dist, MinP, Penalties, Sampling, Temperature, TopK, TopP
from app.insight.sampling.what_if import Change, Unsure, WhatIf
from models.records import Message
from ui.look.theme import Theme
from ui.section.looking import Looking
from ui.section.panel import Tools
from ui.section.sampling.what_if_card import (
    ASK_ENGINE,
    BY_ENGINE,
    SAME,
    STOP,
    TYPED,
    UNKNOWN,
    WhatIfCard,
    named,
)

Ask = Callable[..., tuple[Message, ...]]
OWN = Sampling([Penalties(), TopK(), TopP(), MinP(), Temperature(0.8)], Dist())


class WhatIfDesk(SamplingDesk):
    """Answers when a test says so."""

    def __init__(self, bridge: FakeBridge) -> None:
        super().__init__(bridge)
        self.asked_for: list[Question] = []
        self.then: Callable[[WhatIf], None] = lambda _found: None
        self.failed: Callable[[str], None] = lambda _sentence: None
        self.what_ifs.ask = self._ask
        self.what_ifs.ask_engine = self._ask_engine

    def _ask(self, question: Question, then: Callable[[WhatIf], None]) -> None:
        self.asked_for.append(question)
        self.then = then

    def _ask_engine(self, question: Question, found: WhatIf, then: Any, failed: Any) -> None:
        self.record("what_ifs.ask_engine", question, found)
        self.then, self.failed = then, failed


@pytest.fixture
def desk(bridge: FakeBridge) -> WhatIfDesk:
    return WhatIfDesk(bridge)


@pytest.fixture
def card(qtbot: QtBot, theme: Theme, desk: WhatIfDesk, bridge: FakeBridge, ask: Ask) -> WhatIfCard:
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    made = WhatIfCard(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(380, 480)
    made.show()
    made.set_active(True)
    desk.shelf.path = ask(settings={"sampling": as_stored(OWN)})
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", tuple(token(at) for at in range(5))))
    return made


UNSURE = (Unsure(0, "Too close."), Unsure(1, "Too close."), Unsure(2, "Beyond."))


def test_the_settings_of_the_reply_are_known_as_its_own(card: WhatIfCard) -> None:
    assert card.difference.text() == SAME
    assert card.ask_button.isEnabled()
    assert not card.values.isVisible()


def test_what_differs_is_said(card: WhatIfCard, desk: WhatIfDesk) -> None:
    desk.levels.change("chat", "temperature", 1.4)
    assert card.difference.text() == "Changed: temperature 0.8 → 1.4."


def test_the_chats_settings_are_asked_about(card: WhatIfCard, desk: WhatIfDesk) -> None:
    desk.levels.change("chat", "top_k", 7)
    card.ask_button.click()
    (question,) = desk.asked_for
    assert (question.message.id, len(question.traces), question.n_vocab) == ("m2", 5, 1000)
    assert question.stages[1] == TopK(7)
    assert not card.ask_button.isEnabled()


def test_typed_values_are_asked_about(card: WhatIfCard, desk: WhatIfDesk) -> None:
    card.which.changed_by_user.emit(TYPED)
    card.which.show_value(TYPED)
    card._on_which(TYPED)
    assert card.values.isVisible()
    card.values.sliders["temperature"].setValue(30)
    card.ask_button.click()
    assert desk.asked_for[0].stages == (
        *OWN.filters[:-1],
        Temperature(1.5),
        Dist(),
    )
    assert desk.called("levels.change") == []


def test_the_answer_leads_to_the_token_and_to_a_branch(card: WhatIfCard, desk: WhatIfDesk) -> None:
    card.ask_button.click()
    desk.then(WhatIf(Change(3, 104), (), 4))
    assert card.answer.text() == "Token 4 would have been “ID 104” instead of “ID 101”."
    assert not card.engine_button.isVisible()
    assert card.ask_button.isEnabled()
    card.answer.click()
    assert card._looking.index == 3
    card.branch_button.click()
    assert desk.called("branches.at") == [("m2", 3, 104)]


def test_nothing_changes_is_an_answer(card: WhatIfCard, desk: WhatIfDesk) -> None:
    card.ask_button.click()
    desk.then(WhatIf(None, (), 5))
    assert card.sentence.text() == "Nothing would change: all 5 tokens would be the same."
    assert not card.answer.isVisible()
    assert not card.branch_button.isVisible()


def test_what_is_unsure_is_named_and_the_engine_can_be_asked(
    card: WhatIfCard, desk: WhatIfDesk
) -> None:
    card.ask_button.click()
    found = WhatIf(Change(3, 104), UNSURE, 4)
    desk.then(found)
    assert card.unsure.text() == (
        "Before that, 3 tokens can't be determined from the record. Tokens 1, 2: Too close. "
        "Token 3: Beyond."
    )
    card.engine_button.click()
    assert desk.called("what_ifs.ask_engine") == [(desk.asked_for[0], found)]
    assert card.engine_button.text() == STOP
    desk.then(WhatIf(Change(1, 7, is_replayed=True), (), 4, 3))
    assert card.answer.text().startswith("Token 2 would have been “ID 7”")
    assert BY_ENGINE.format(count="3") in card.caption.text()
    assert not card.engine_button.isVisible()
    assert card.engine_button.text() == ASK_ENGINE


def test_asking_the_engine_can_be_stopped(card: WhatIfCard, desk: WhatIfDesk) -> None:
    card.ask_button.click()
    desk.then(WhatIf(None, UNSURE, 5))
    card.engine_button.click()
    card.engine_button.click()
    assert len(desk.called("what_ifs.stop")) == 1
    assert card.engine_button.text() == ASK_ENGINE
    assert card.engine_button.isVisible()


def test_the_engines_refusal_is_shown(card: WhatIfCard, desk: WhatIfDesk) -> None:
    card.ask_button.click()
    desk.then(WhatIf(None, UNSURE, 5))
    card.engine_button.click()
    desk.failed("A reply is being written.")
    assert card.unsure.text() == "A reply is being written."
    assert card.ask_button.isEnabled()


def test_an_answer_goes_with_what_it_was_about(
    card: WhatIfCard, desk: WhatIfDesk, bridge: FakeBridge, ask: Ask
) -> None:
    card.ask_button.click()
    desk.then(WhatIf(None, (), 5))
    card.values.changed.emit(card.values.links)
    assert not card.sentence.isVisible()
    card.ask_button.click()
    bridge.emit_event(ConversationOpened(conversation(2, "Other"), ()))
    assert len(desk.called("what_ifs.stop")) == 1
    assert not card.ask_button.isEnabled()


def test_a_reply_whose_settings_are_not_known_is_not_compared(
    card: WhatIfCard, desk: WhatIfDesk, bridge: FakeBridge, ask: Ask
) -> None:
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(2, "Old"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", (token(),)))
    assert card.difference.text() == UNKNOWN
    assert not card.ask_button.isEnabled()


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_it_fits_the_narrowest_section(
    zoom: int, card: WhatIfCard, desk: WhatIfDesk, theme: Theme
) -> None:
    card.ask_button.click()
    desk.then(WhatIf(Change(3, 104), UNSURE, 4))
    theme.set_zoom(zoom)
    assert card.minimumSizeHint().width() <= theme.px(300)


def test_many_positions_are_named_in_short() -> None:
    many = [Unsure(at, "Beyond.") for at in range(40)]
    assert named(many, before=False) == (
        "40 tokens can't be determined from the record. "
        "Tokens 1, 2, 3, 4, 5, 6 and 34 more: Beyond."
    )
    assert named([], before=True) == ""
