"""The live card: what is moved, what comes of it, and whose values they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import thread_time
from typing import Any

import msgspec
import pytest
from made_candidates import token
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, conversation
from sampling_desk import SamplingDesk

from app.chat.events import ConversationOpened, EngineStateChanged, TraceRead
from app.chat.inspection.what_if import Question
from app.chat.settings.sampler_links import switched
from app.chat.settings.settings import as_stored
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    Stage,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.insight.sampling.live import Live, Row
from app.insight.sampling.pool import Between
from models.records import Message
from ui.look.theme import Theme
from ui.section.looking import NO_REPLY, Looking
from ui.section.panel import Tools
from ui.section.sampling.live_card import (
    CHOOSE,
    GROWING,
    NO_MODEL,
    RELATIVE,
    REPLAYED,
    REPLAYING,
    ROWS,
    LiveCard,
    percent,
)
from ui.widgets.slider import Slider

Ask = Callable[..., tuple[Message, ...]]


class LiveDesk(SamplingDesk):
    """The engine, which answers when a test says so."""

    def __init__(self, bridge: FakeBridge) -> None:
        super().__init__(bridge)
        self.asked_for: list[tuple[str, Question, int]] = []
        self.live_draws.walk = partial(self._ask, "walk")
        self.live_draws.replay = partial(self._ask, "replay")

    def _ask(
        self,
        what: str,
        question: Question,
        index: int,
        then: Callable[[Live], None],
        failed: Callable[[str], None],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.asked_for.append((what, question, index))
        self.then, self.failed, self.progress = then, failed, progress


@pytest.fixture
def desk(bridge: FakeBridge) -> LiveDesk:
    return LiveDesk(bridge)


@pytest.fixture
def card(qtbot: QtBot, theme: Theme, desk: LiveDesk, bridge: FakeBridge, ask: Ask) -> LiveCard:
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    made = LiveCard(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(380, 480)
    made.show()
    made.set_active(True)
    return made


@pytest.fixture
def shown(card: LiveCard, desk: LiveDesk, bridge: FakeBridge, ask: Ask) -> LiveCard:
    """The card with a token that is looked at."""
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", (token(), token(1, [0.6, 0.4]))))
    card._looking.select(0)
    return card


def move(card: LiveCard, name: str, at: int) -> None:
    card.values.sliders[name].setValue(at)


def test_without_a_token_it_says_what_to_do(
    card: LiveCard, desk: LiveDesk, bridge: FakeBridge, ask: Ask
) -> None:
    assert card.caption.text() == NO_REPLY
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", (token(),)))
    assert card.caption.text() == CHOOSE
    assert not card.bars.isVisible()
    assert not card.use_button.isVisible()
    QTest.mouseClick(card.uncertain_button, Qt.MouseButton.LeftButton)
    assert card._looking.index == 0
    assert card.bars.isVisible()
    assert not card.uncertain_button.isVisible()


def test_it_begins_with_the_values_of_the_chat(shown: LiveCard) -> None:
    names = ("repeat_penalty", "top_k", "top_p", "min_p", "temperature")
    assert [shown.values.value(name) for name in names] == [1.0, 40, 0.95, 0.05, 0.8]
    assert shown.values.numbers["temperature"].text() == "0.8"
    assert not shown.use_button.isEnabled()
    assert "After: top-k, top-p, min-p, temperature." in shown.caption.text()


def test_the_rows_tell_logits_and_both_shares(shown: LiveCard) -> None:
    rows = shown.bars.rows
    assert [row.name for row in rows[:2]] == ["ID 100", "ID 101"]
    assert [row.logit for row in rows[:2]] == ["0.0", "−0.7"]
    assert [row.before for row in rows[:2]] == ["40.0%", "20.0%"]
    assert rows[1].is_drawn
    assert rows[ROWS].name == f"{64 - ROWS} more"
    assert rows[-1].name == "not recorded"
    assert sum(row.after_share for row in rows) == pytest.approx(1, abs=1e-6)
    assert sum(row.before_share for row in rows) == pytest.approx(1, abs=1e-4)
    assert RELATIVE in shown.caption.text()


def test_logits_are_the_networks_own_where_they_were_recorded(
    shown: LiveCard, bridge: FakeBridge
) -> None:
    """0.4 of everything: ln 0.4 + 18.2 = 17.3."""
    recorded = msgspec.structs.replace(token(), log_total=18.2)
    bridge.emit_event(TraceRead("m2", (recorded,)))
    assert [row.logit for row in shown.bars.rows[:2]] == ["17.3", "16.6"]
    assert RELATIVE not in shown.caption.text()


def test_a_hotter_temperature_gives_the_others_more(shown: LiveCard) -> None:
    cold = shown.bars.rows[0].after_share
    move(shown, "temperature", 40)
    assert shown.values.numbers["temperature"].text() == "2"
    assert shown.bars.rows[0].after_share < cold
    assert "entropy 2.50 →" in shown.summary.text()


def test_each_cut_is_named(shown: LiveCard) -> None:
    move(shown, "top_k", 5)
    move(shown, "top_p", 75)
    cuts = [row.after for row in shown.bars.rows[2:6]]
    assert cuts == ["cut: top-p", "cut: top-p", "cut: top-p", "cut: top-k"]
    assert shown.summary.text().startswith("2 left · entropy 2.50 → ")


def test_where_the_number_falls_now_is_marked(shown: LiveCard) -> None:
    move(shown, "top_k", 3)
    (hit,) = [row for row in shown.bars.rows if row.is_hit]
    assert hit.name == "ID 100"
    assert "▸ marks where the recorded number 0.5000 falls now" in shown.caption.text()
    for name, at in (("top_p", 100), ("min_p", 0), ("temperature", 25), ("top_k", 4)):
        move(shown, name, at)
    (hit,) = [row for row in shown.bars.rows if row.is_hit]
    assert (hit.name, hit.is_drawn) == ("ID 101", True)
    assert "the recorded number 0.5000 draws the same token" in shown.caption.text()
    assert "▸" not in shown.caption.text()


def test_what_cannot_be_one_number_is_two(shown: LiveCard) -> None:
    for name, at in (("temperature", 30), ("top_k", 0), ("top_p", 100), ("min_p", 0)):
        move(shown, name, at)
    assert "more than 64 left" in shown.summary.text()
    assert "–" in shown.bars.rows[-1].after
    assert not any(row.is_hit for row in shown.bars.rows)


def test_a_typed_value_may_be_beyond_the_slider(shown: LiveCard) -> None:
    field = shown.values.numbers["temperature"]
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, "5")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert shown.values.value("temperature") == 5
    assert shown.values.sliders["temperature"].value() == 40


def test_a_value_that_cannot_be_says_why(shown: LiveCard) -> None:
    field = shown.values.numbers["top_p"]
    field.setText("7")
    field.changed_by_user.emit(7.0)
    assert "between 0 and 1" in shown.refusal.text()
    assert shown.refusal.isVisible()
    assert shown.values.value("top_p") == 0.95
    move(shown, "top_p", 50)
    assert not shown.refusal.isVisible()


def test_the_moved_values_become_the_chats(shown: LiveCard, desk: LiveDesk) -> None:
    move(shown, "temperature", 26)
    assert shown.use_button.isEnabled()
    shown.use_button.click()
    assert desk.own == {"temperature": 1.3}
    assert not shown.use_button.isEnabled()


def test_put_back_forgets_what_was_moved(shown: LiveCard) -> None:
    move(shown, "temperature", 26)
    shown.back_button.click()
    assert shown.values.value("temperature") == 0.8
    assert not shown.back_button.isEnabled()


def test_the_chats_settings_are_followed_until_something_is_moved(
    shown: LiveCard, desk: LiveDesk
) -> None:
    desk.levels.change("chat", "top_k", 7)
    assert shown.values.value("top_k") == 7
    move(shown, "temperature", 26)
    desk.levels.change("chat", "top_k", 9)
    assert shown.values.value("top_k") == 7


def test_another_token_has_other_rows(shown: LiveCard) -> None:
    shown._looking.select(1)
    assert len(shown.bars.rows) == 3
    assert shown.figure.text() == "token 2"


def test_while_it_is_away_it_does_nothing(shown: LiveCard) -> None:
    shown.set_active(False)
    before = shown.bars.rows
    shown._looking.select(1)
    assert shown.bars.rows == before
    shown.set_active(True)
    assert shown.bars.rows != before


def test_equal_candidates_at_a_cut_are_said_in_words(
    shown: LiveCard, desk: LiveDesk, bridge: FakeBridge
) -> None:
    equal = msgspec.structs.replace(token(0, [0.3, 0.3, 0.3]), token_id=100)
    bridge.emit_event(TraceRead("m2", (equal,)))
    move(shown, "top_k", 2)
    shown._rest.timeout.emit()
    desk.failed("No.")
    assert shown.replay.text().endswith("rounding decides. No.")


# --- every stage ----------------------------------------------------------------------------------

EVERY = (
    LogitBias([TokenBias(100, bias=2.0), TokenBias(101, ban=True), TokenBias(text="x", bias=1.0)]),
    Penalties(64, 1.1, 0.1, 0.2),
    Dry(0.8, 1.75, 2),
    TopNSigma(1.0),
    TopK(40),
    Typical(0.9, 3),
    TopP(0.9),
    TopP(0.5),
    MinP(),
    Xtc(0.5, 0.1),
    Temperature(1.3),
    DynamicTemperature(1.0, 0.3, 1.0),
)


@pytest.mark.parametrize(
    "select",
    [Dist(), Greedy(), Mirostat(), MirostatV2(), AdaptiveP()],
    ids=lambda s: type(s).__name__,
)
def test_every_number_of_the_chain_has_a_slider(
    select: Stage, shown: LiveCard, desk: LiveDesk
) -> None:
    """And the chain that is asked about has what was moved."""
    desk.put({"chain": as_stored((*EVERY, select))})
    assert shown.values.stages == (*EVERY, select)
    for name, slider in shown.values.sliders.items():
        before = shown.values.stages
        slider.setValue(
            slider.value() - 1 if slider.value() == slider.maximum() else slider.value() + 1
        )
        changed = [a for a, b in zip(before, shown.values.stages, strict=True) if a != b]
        assert len(changed) == 1, name
    rows = set(shown.values.sliders)
    assert {"bias_0", "bias_2", "top_p", "top_p_2", "typical_min_keep", "xtc_probability"} <= rows
    assert "bias_1" not in rows
    assert {"dry_multiplier", "dynamic_temperature_spread", "top_n_sigma_n"} <= rows


def test_another_way_to_draw_is_tried(shown: LiveCard, desk: LiveDesk) -> None:
    kind = shown.values.kind
    kind.setCurrentText("Greedy")
    kind.activated.emit(kind.currentIndex())
    (hit,) = [row for row in shown.bars.rows if row.is_hit]
    assert (hit.name, hit.after) == ("ID 100", "100%")
    assert shown.bars.rows[1].after == "cut: greedy"
    shown.use_button.click()
    assert isinstance(desk.resolved().settings.stages()[-1], Greedy)


def test_rows_that_went_are_gone(
    shown: LiveCard, desk: LiveDesk, theme: Theme, qtbot: QtBot
) -> None:
    """Nobody dresses them any more."""
    desk.put({"chain": as_stored((Dry(), Xtc(), Dist()))})
    sliders = shown.values.sliders
    qtbot.waitUntil(lambda: len(shown.values.findChildren(Slider)) == len(sliders))
    theme.set_zoom(200)
    theme.set_zoom(100)
    assert {"dry_base", "xtc_threshold", "top_k"} <= sliders.keys()


def test_tab_goes_from_row_to_row_also_after_another_chain(shown: LiveCard, desk: LiveDesk) -> None:
    desk.put({"chain": as_stored((Dry(), TopK(40), MirostatV2()))})
    names, at = [], shown.values.sliders["dry_multiplier"]
    while at.objectName() != "live_use_button":
        if at.focusPolicy() & Qt.FocusPolicy.TabFocus and at.objectName():
            names.append(at.objectName())
        at = at.nextInFocusChain()
        assert len(names) < 60
    rows = ["dry_multiplier", "dry_base", "dry_allowed_length", "dry_last_n", "top_k", "top_p",
            "min_p", "temperature"]  # fmt: skip
    wanted = [f"live_{what}_{row}" for row in rows for what in ("slider", "value")]
    wanted.append("live_select_kind")
    wanted += [
        f"live_{what}_mirostat_v2_{row}" for row in ("tau", "eta") for what in ("slider", "value")
    ]
    assert names[: len(wanted)] == wanted


def test_a_stage_that_the_chain_lacks_is_added_where_it_is_moved(
    shown: LiveCard, desk: LiveDesk
) -> None:
    desk.put({"chain": as_stored((Temperature(0.7), MinP(0.1), Dist()))})
    assert not shown.use_button.isEnabled()
    move(shown, "top_k", 3)
    shown.use_button.click()
    assert desk.resolved().settings.stages() == (TopK(3), Temperature(0.7), MinP(0.1), Dist())


def test_a_switched_off_stage_stays_off(shown: LiveCard, desk: LiveDesk) -> None:
    links = desk.chain.links()
    desk.chain.put(switched(links, 2, is_on=False))
    assert [type(link.stage) for link in desk.chain.links() if not link.is_on] == [TopP]
    assert shown.values.value("top_p") == 1.0
    move(shown, "temperature", 26)
    shown.use_button.click()
    assert [type(link.stage) for link in desk.chain.links() if not link.is_on] == [TopP]


# --- by the engine --------------------------------------------------------------------------------


def of_engine(**more: Any) -> Live:
    rows = (
        Row(100, 0.0, 0.4, Between(0.0, 0.0), 1, is_drawn=False, is_hit=False),
        Row(101, -0.7, 0.2, Between(0.75, 0.75), None, is_drawn=True, is_hit=True),
    )
    fields: dict[str, Any] = {
        "n_recorded": 2, "covered": 0.6, "rest_before": 0.4, "rest_after": Between(0.25, 0.25),
        "left": 300, "is_at_least": False, "is_close": False, "entropy_before": 2.5,
        "entropy_after": Between(1.0, 1.0), "uniform": 0.5, "hit": 101, "is_replayed": True,
        "best": 17.0,
    } | more  # fmt: skip
    return Live(rows, **fields)


def unknown_to_the_record(card: LiveCard, desk: LiveDesk) -> None:
    desk.put({"chain": as_stored((Typical(0.5), Dist()))})
    card._rest.timeout.emit()


def test_what_the_record_does_not_tell_is_replayed(shown: LiveCard, desk: LiveDesk) -> None:
    unknown_to_the_record(shown, desk)
    ((what, question, index),) = desk.asked_for
    assert (what, index, question.stages[1]) == ("replay", 0, Typical(0.5))
    assert shown.replay.text() == REPLAYING
    desk.progress(3, 14)
    assert shown.replay.text() == "Replaying: 3 of 14 tokens…"
    desk.then(of_engine())
    assert shown.caption.text().startswith(REPLAYED)
    assert RELATIVE not in shown.caption.text()
    assert [row.after for row in shown.bars.rows] == ["cut: typical", "75.0%", "25.0%"]
    assert [row.logit for row in shown.bars.rows[:2]] == ["17.0", "16.3"]
    assert shown.bars.rows[-1].name == "all others"
    assert not shown.replay.isVisible()


def test_what_was_replayed_stays_until_the_next_answer(shown: LiveCard, desk: LiveDesk) -> None:
    unknown_to_the_record(shown, desk)
    desk.then(of_engine())
    move(shown, "typical_p", 40)
    assert shown.bars.isVisible()
    assert shown.replay.text() == REPLAYING
    shown._looking.select(1)
    assert not shown.bars.isVisible()


def test_why_it_is_not_replayed_is_said(shown: LiveCard, desk: LiveDesk) -> None:
    unknown_to_the_record(shown, desk)
    desk.failed("A reply is being generated. Stop it or wait, then try again.")
    assert shown.replay.text().endswith(
        "A reply is being generated. Stop it or wait, then try again."
    )
    desk.loader.state = EngineStateChanged("empty")
    move(shown, "typical_p", 30)
    assert shown.replay.text().endswith(NO_MODEL)
    assert "Typical needs the logits of all tokens" in shown.replay.text()
    shown._looking.is_growing = True
    move(shown, "typical_p", 31)
    assert shown.replay.text().endswith(GROWING)


def test_what_was_chosen_by_hand_has_no_number_and_nobody_is_asked(
    shown: LiveCard, desk: LiveDesk, bridge: FakeBridge
) -> None:
    chosen = msgspec.structs.replace(token(), chosen=True, uniform=None)
    bridge.emit_event(TraceRead("m2", (chosen,)))
    assert shown.replay.text() == "No number was drawn for this token."
    assert not shown._rest.isActive()


def test_mirostat_is_walked_along_the_reply(shown: LiveCard, desk: LiveDesk) -> None:
    desk.put({"chain": as_stored((TopK(), MirostatV2()))})
    assert [what for what, *_ in desk.asked_for] == ["walk"]
    desk.then(of_engine(is_replayed=False, memory=8.3, best=None))
    assert "mirostat keeps tokens of up to 8.30 bits" in shown.caption.text()
    desk.failed("This depends on an earlier draw that the record doesn't determine.")
    assert shown.replay.text() == REPLAYING
    shown._rest.timeout.emit()
    assert [what for what, *_ in desk.asked_for] == ["walk", "replay"]
    shown.set_active(False)
    assert not shown._rest.isActive()


def test_a_number_of_the_seed_is_called_so(shown: LiveCard, desk: LiveDesk) -> None:
    unknown_to_the_record(shown, desk)
    desk.then(of_engine(is_of_seed=True, is_second=True))
    assert "the seed's number 0.5000 draws the same token" in shown.caption.text()
    assert "The grammar rejected the first token drawn" in shown.caption.text()


def test_a_reply_with_a_grammar_can_be_tried_without(
    shown: LiveCard, desk: LiveDesk, bridge: FakeBridge, ask: Ask
) -> None:
    assert not shown.grammar.isVisible()
    sampling = as_stored(Sampling([TopK()], Dist(), grammar="root ::= [a-z]+"))
    desk.shelf.path = ask(settings={"sampling": sampling})
    bridge.emit_event(ConversationOpened(conversation(2, "Other"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", (token(),)))
    shown._looking.select(0)
    move(shown, "top_k", 3)
    assert shown.grammar.isVisible()
    assert shown.replay.text() == REPLAYING
    shown.grammar.click()
    assert not shown.replay.isVisible()


def test_a_refresh_takes_less_than_five_milliseconds(shown: LiveCard) -> None:
    took = []
    for at in range(20):
        began = thread_time()
        move(shown, "temperature", 10 + at)
        took.append(thread_time() - began)
    assert sorted(took)[10] < 0.005


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_it_fits_the_narrowest_section(zoom: int, shown: LiveCard, theme: Theme) -> None:
    theme.set_zoom(zoom)
    assert shown.minimumSizeHint().width() <= theme.px(300)


def test_every_control_has_a_name(shown: LiveCard) -> None:
    for control in (
        shown.values.kind,
        shown.grammar,
        *shown.values.sliders.values(),
        *shown.values.numbers.values(),
    ):
        assert control.objectName()
        assert control.accessibleName().startswith("Live: ")
    assert "drawn" in shown.bars.accessibleName()


def test_shares_are_written_shortly() -> None:
    assert percent(Between(0.0001, 0.0001)) == "< 0.1%"
