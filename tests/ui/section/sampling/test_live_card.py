"""The live card: what is moved, what comes of it, and whose values they are."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

import msgspec
import pytest
from made_candidates import token
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, conversation
from sampling_desk import SamplingDesk

from app.chat.events import ConversationOpened, TraceRead
from app.chat.settings.settings import Settings, as_stored
from app.engine.protocol.stages import (
    Dist,
    MinP,
    MirostatV2,
    Penalties,
    Temperature,
    TopK,
    TopP,
    Xtc,
)
from app.insight.sampling.live import ORDER, Values
from app.insight.sampling.pool import Between
from models.records import Message
from ui.look.theme import Theme
from ui.section.looking import NO_REPLY, Looking
from ui.section.panel import Tools
from ui.section.sampling.live_card import (
    CHOOSE,
    RELATIVE,
    ROWS,
    LiveCard,
    order_of,
    percent,
    values_of,
)

Ask = Callable[..., tuple[Message, ...]]


@pytest.fixture
def desk(bridge: FakeBridge) -> SamplingDesk:
    return SamplingDesk(bridge)


@pytest.fixture
def card(qtbot: QtBot, theme: Theme, desk: SamplingDesk, bridge: FakeBridge, ask: Ask) -> LiveCard:
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    made = LiveCard(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.resize(380, 480)
    made.show()
    made.set_active(True)
    return made


@pytest.fixture
def shown(card: LiveCard, desk: SamplingDesk, bridge: FakeBridge, ask: Ask) -> LiveCard:
    """The card with a token that is looked at."""
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", (token(), token(1, [0.6, 0.4]))))
    card._looking.select(0)
    return card


def move(card: LiveCard, name: str, at: int) -> None:
    card.values.sliders[name].setValue(at)


def test_without_a_token_it_says_what_to_do(
    card: LiveCard, desk: SamplingDesk, bridge: FakeBridge, ask: Ask
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
    assert shown.values.values == Values(0.8, 40, 0.95, 0.05)
    assert shown.values.numbers["temperature"].text() == "0.8"
    assert not shown.use_button.isEnabled()
    assert "top-k, top-p, min-p, temperature" in shown.caption.text()


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
    assert shown.values.values.temperature == 5
    assert shown.values.sliders["temperature"].value() == 40


def test_a_value_that_cannot_be_says_why(shown: LiveCard) -> None:
    field = shown.values.numbers["top_p"]
    field.setText("7")
    field.changed_by_user.emit(7.0)
    assert "between 0 and 1" in shown.refusal.text()
    assert shown.refusal.isVisible()
    assert shown.values.values.top_p == 0.95
    move(shown, "top_p", 50)
    assert not shown.refusal.isVisible()


def test_the_moved_values_become_the_chats(shown: LiveCard, desk: SamplingDesk) -> None:
    move(shown, "temperature", 26)
    assert shown.use_button.isEnabled()
    shown.use_button.click()
    assert desk.called("levels.change") == [("chat", "temperature", 1.3)]
    assert not shown.use_button.isEnabled()


def test_put_back_forgets_what_was_moved(shown: LiveCard) -> None:
    move(shown, "temperature", 26)
    shown.back_button.click()
    assert shown.values.values.temperature == 0.8
    assert not shown.back_button.isEnabled()


def test_the_chats_settings_are_followed_until_something_is_moved(
    shown: LiveCard, desk: SamplingDesk
) -> None:
    desk.levels.change("chat", "top_k", 7)
    assert shown.values.values.top_k == 7
    move(shown, "temperature", 26)
    desk.levels.change("chat", "top_k", 9)
    assert shown.values.values.top_k == 7


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


def test_equal_candidates_at_a_cut_are_said_in_words(shown: LiveCard, bridge: FakeBridge) -> None:
    equal = msgspec.structs.replace(token(0, [0.3, 0.3, 0.3]), token_id=100)
    bridge.emit_event(TraceRead("m2", (equal,)))
    move(shown, "top_k", 2)
    assert "rounding decides" in shown.caption.text()


def test_what_it_leaves_out_of_the_chain_is_said(shown: LiveCard, desk: SamplingDesk) -> None:
    """What it shows is not what the next reply would be drawn with then."""
    assert not shown.without.isVisible()
    chain = (Penalties(), TopP(0.9), TopP(0.5), MinP(), Xtc(), Xtc(0.0), Temperature(1.3), Dist())
    desk.put({"chain": as_stored(chain)})
    assert shown.without.text() == (
        "The chain also has another Top-p and XTC, which aren't included here."
    )
    assert shown.without.isVisible()
    desk.put({"chain": as_stored((TopK(), MirostatV2()))})
    assert shown.without.text() == "The chain also has Mirostat 2, which isn't included here."
    desk.put({})
    assert not shown.without.isVisible()


def test_the_order_is_that_of_the_chain() -> None:
    assert order_of(Settings()) == ORDER
    chain = (Temperature(0.7), MinP(0.1), Dist())
    assert order_of(Settings(chain=chain)) == (Temperature, MinP, TopK, TopP)
    assert values_of(Settings(chain=chain)) == Values(0.7, 0, 1.0, 0.1)


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
    for control in (*shown.values.sliders.values(), *shown.values.numbers.values()):
        assert control.objectName()
        assert control.accessibleName().startswith("Live: ")
    assert "drawn" in shown.bars.accessibleName()


def test_shares_are_written_shortly() -> None:
    assert percent(Between(0.0001, 0.0001)) == "< 0.1%"
