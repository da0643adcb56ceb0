"""The room of the chain: every control, and that what is asked for is what is shown."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QInputDialog,
    QLabel,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QWidget,
)
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge
from sampling_desk import SamplingDesk, preset

from app.chat.events import ConversationOpened, PresetsListed, TraceRead
from app.chat.settings.sampler_links import OFF, USUAL_ORDER, Link
from app.chat.settings.settings import SELECTING, as_stored
from app.chat.surroundings import Still
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace
from app.engine.protocol.remote_messages import EngineOffer, Lack
from app.engine.protocol.stages import (
    Dist,
    Dry,
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
    TopP,
    Xtc,
)
from models.records import Message
from ui.look.theme import Theme
from ui.section.looking import NO_TOKEN_YET, Looking
from ui.section.panel import Tools
from ui.section.sampling.bias_editor import BiasEditor
from ui.section.sampling.chain_room import CHOOSE, OF_ANOTHER, OTHER, UNKNOWN, ChainRoom
from ui.section.sampling.sampler_chain import SamplerChain
from ui.section.sampling.select_card import SelectCard
from ui.section.sampling.stage_card import ESC, GOES_ON, StageCard
from ui.shell.tab_order import stops_in

Key = Qt.Key
LEFT = Qt.MouseButton.LeftButton
ALT = Qt.KeyboardModifier.AltModifier
USUAL = (Penalties(), TopK(), TopP(), MinP(), Temperature(0.8), Dist())


@pytest.fixture
def desk(bridge: FakeBridge) -> SamplingDesk:
    return SamplingDesk(bridge)


@pytest.fixture
def panel(qtbot: QtBot, theme: Theme, desk: SamplingDesk, bridge: FakeBridge) -> ChainRoom:
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    panel = ChainRoom(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(panel)
    panel.resize(340, 760)
    panel.show()
    panel.activateWindow()
    panel.set_active(True)
    qtbot.waitUntil(panel.isActiveWindow)
    return panel


def card(panel: ChainRoom, kind: type[Stage]) -> StageCard:
    return next(c for c in panel.chain.cards if isinstance(c.link.stage, kind))


def titles(chain: SamplerChain) -> list[str]:
    """As they stand on screen, from above."""
    cards = sorted(chain.cards, key=lambda each: each.geometry().top())
    return [each.title.text() for each in cards]


def type_into(field: QLineEdit, text: str) -> None:
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Key.Key_Return)


# --- values ---------------------------------------------------------------------------------------


def test_the_chain_of_the_chat_is_shown_in_order(panel: ChainRoom) -> None:
    assert titles(panel.chain) == [
        "Penalties", "Top-k", "Top-p", "Min-p", "Temperature", "Draw",
    ]  # fmt: skip
    assert card(panel, Temperature).fields["t"].text() == "0.8"
    assert "Set by the app." in card(panel, TopK).sentence.text()


def test_a_typed_value_counts(panel: ChainRoom, desk: SamplingDesk) -> None:
    type_into(card(panel, TopK).fields["k"], "7")
    assert desk.asked()[1] == TopK(7)
    assert "Set by this chat." in card(panel, TopK).sentence.text()
    type_into(card(panel, Penalties).fields["repeat"], "1.2")
    assert desk.asked()[0] == Penalties(64, 1.2)


def test_a_dragged_value_counts_at_each_step(panel: ChainRoom, desk: SamplingDesk) -> None:
    field = card(panel, Temperature).fields["t"]
    QTest.mousePress(field, LEFT, pos=QPoint(20, 8))
    for x in (24, 38, 50):
        QTest.mouseMove(field, QPoint(x, 8))
    assert not field.hasFocus()
    assert desk.asked()[4] == Temperature(1.05)
    QTest.mouseMove(field, QPoint(-4, 8))
    QTest.mouseRelease(field, LEFT, pos=QPoint(-4, 8))
    assert desk.asked()[4] == Temperature(0.6)
    assert len(desk.called("chain.put")) >= 2


def test_a_click_without_dragging_begins_to_type(panel: ChainRoom, desk: SamplingDesk) -> None:
    field = card(panel, TopK).fields["k"]
    QTest.mouseClick(field, LEFT, pos=QPoint(20, 8))
    assert field.hasFocus()
    assert field.selectedText() == "40"
    assert desk.called("chain.put") == []


def test_a_wrong_value_gets_its_sentence_and_stays(panel: ChainRoom, desk: SamplingDesk) -> None:
    for number, (kind, attribute, text, words) in enumerate(
        (
            (TopP, "p", "1.5", "Top-p must be between 0 and 1, not 1.5."),
            (TopK, "k", "many", "Top-k must be a whole number, not 'many'."),
            (Temperature, "t", "-1", "Temperature must be between 0 and 100, not -1.0."),
            (Penalties, "repeat", "0", "Repetition penalty must be between 0.01 and 100, not 0.0."),
        )
    ):
        before = desk.asked()
        found = card(panel, kind)
        type_into(found.fields[attribute], text)
        assert found.refusal.isVisible()
        assert found.refusal.text() == f"{words} {GOES_ON} {ESC}"
        assert found.fields[attribute].accessibleDescription() == words
        assert found.fields[attribute].property("refused") is True
        # Another change of the chain leaves what is being mended in its field.
        type_into(card(panel, MinP).fields["p"], f"0.{number + 2}")
        assert found.fields[attribute].text() == text
        assert [s for s in desk.asked() if not isinstance(s, MinP)] == [
            s for s in before if not isinstance(s, MinP)
        ]
        type_into(found.fields[attribute], "1")
        assert not found.refusal.isVisible()
        assert found.fields[attribute].property("refused") is False


def test_escape_brings_back_what_counts(panel: ChainRoom, desk: SamplingDesk) -> None:
    found = card(panel, Penalties)
    type_into(found.fields["frequency"], "nan")
    type_into(found.fields["presence"], "1e99")
    QTest.keyClick(found.fields["presence"], Key.Key_Escape)
    assert found.fields["presence"].text() == "0"
    assert found.fields["frequency"].text() == "nan"
    assert "Presence" not in found.refusal.text()
    found.fields["frequency"].setFocus()
    QTest.keyClick(found.fields["frequency"], Key.Key_Escape)
    assert not found.refusal.isVisible()
    seed = panel.findChild(QLineEdit, "seed_field")
    assert isinstance(seed, QLineEdit)
    type_into(seed, "42")
    type_into(seed, "-1")
    QTest.keyClick(seed, Key.Key_Escape)
    assert (seed.text(), last(panel).refusal.isVisible()) == ("42", False)


def test_dragging_ends_at_what_a_value_may_be(panel: ChainRoom, desk: SamplingDesk) -> None:
    field = card(panel, TopP).fields["p"]
    QTest.mousePress(field, LEFT, pos=QPoint(20, 8))
    QTest.mouseMove(field, QPoint(400, 8))
    QTest.mouseRelease(field, LEFT, pos=QPoint(400, 8))
    assert (field.text(), card(panel, TopP).refusal.isVisible()) == ("1", False)
    heat = card(panel, Temperature).fields["t"]
    heat.setFocus()
    for _ in range(30):
        QTest.keyClick(heat, Key.Key_Down)
    QTest.keyClick(heat, Key.Key_Return)
    assert (heat.text(), card(panel, Temperature).refusal.isVisible()) == ("0", False)


def test_the_way_to_select_that_is_there_keeps_its_values(
    panel: ChainRoom, desk: SamplingDesk
) -> None:
    kind = last(panel).kind
    kind.setCurrentText("Mirostat 2")
    kind.activated.emit(kind.currentIndex())
    type_into(last(panel).fields["tau"], "3")
    last(panel).kind.activated.emit(last(panel).kind.currentIndex())
    assert desk.asked()[-1] == MirostatV2(tau=3.0)


# --- order ----------------------------------------------------------------------------------------


def test_keys_move_a_card_and_stay_in_it(panel: ChainRoom, desk: SamplingDesk) -> None:
    field = card(panel, Temperature).fields["t"]
    field.setFocus()
    QTest.keyClick(field, Key.Key_Up, ALT)
    QTest.keyClick(field, Key.Key_Up, ALT)
    assert [type(s) for s in desk.asked()] == [Penalties, TopK, Temperature, TopP, MinP, Dist]
    assert field.hasFocus()
    assert field.text() == "0.8"
    QTest.keyClick(field, Key.Key_Down, ALT)
    assert [type(s) for s in desk.asked()] == [Penalties, TopK, TopP, Temperature, MinP, Dist]
    for _ in range(9):
        QTest.keyClick(field, Key.Key_Down, ALT)
    assert desk.asked()[-1] == Dist()


def test_the_mouse_moves_a_card(panel: ChainRoom, desk: SamplingDesk, qtbot: QtBot) -> None:
    moved, target = card(panel, Temperature), card(panel, TopK)
    handle = moved.handle
    start = handle.rect().center()
    to = handle.mapFromGlobal(target.mapToGlobal(QPoint(5, 2)))
    QTest.mousePress(handle, LEFT, pos=start)
    QTest.mouseMove(handle, start + QPoint(0, -20))
    QTest.mouseMove(handle, to)
    QTest.mouseRelease(handle, LEFT, pos=to)
    assert [type(s) for s in desk.asked()] == [Penalties, Temperature, TopK, TopP, MinP, Dist]
    qtbot.waitUntil(lambda: titles(panel.chain)[1] == "Temperature")


def test_two_of_a_kind_change_places(panel: ChainRoom, desk: SamplingDesk) -> None:
    desk.put({"chain": as_stored((TopK(9), TopK(5), Dist()))})
    second = panel.chain.cards[1]
    second.fields["k"].setFocus()
    QTest.keyClick(second.fields["k"], Key.Key_Up, ALT)
    assert desk.asked() == [TopK(5), TopK(9), Dist()]
    assert [c.fields["k"].text() for c in panel.chain.cards[:2]] == ["5", "9"]
    assert panel.chain.cards[0] is second


def test_the_menu_of_a_card_does_it_too(panel: ChainRoom, desk: SamplingDesk) -> None:
    menu = card(panel, MinP).menu()
    acts = {action.text(): action for action in menu.actions()}
    acts["Move up"].trigger()
    assert [type(s) for s in desk.asked()][2:4] == [MinP, TopP]
    card(panel, MinP).menu().actions()[2].trigger()
    assert MinP not in map(type, desk.asked())
    assert desk.called("chain.put")[-1][1] == "Min-p removed."


# --- on and off -----------------------------------------------------------------------------------


def test_a_switch_takes_a_stage_out_and_back_with_its_value(
    panel: ChainRoom, desk: SamplingDesk
) -> None:
    type_into(card(panel, TopP).fields["p"], "0.7")
    QTest.mouseClick(card(panel, TopP).switch, LEFT)
    assert TopP not in map(type, desk.asked())
    assert "Turned off" in card(panel, TopP).sentence.text()
    assert card(panel, TopP).fields["p"].text() == "0.7"
    card(panel, TopP).switch.setFocus()
    QTest.keyClick(card(panel, TopP).switch, Key.Key_Space)
    assert desk.asked()[2] == TopP(0.7)


def test_neutralise_all_leaves_a_plain_draw_and_every_value(
    panel: ChainRoom, desk: SamplingDesk
) -> None:
    QTest.mouseClick(panel.neutral_button, LEFT)
    assert desk.asked() == [Dist()]
    assert len(desk.own[OFF]) == 5
    assert card(panel, TopK).fields["k"].text() == "40"
    QTest.mouseClick(panel.reset_button, LEFT)
    assert tuple(desk.asked()) == USUAL
    assert not panel.reset_button.isEnabled()


def test_a_missing_stage_is_added_in_its_place(panel: ChainRoom, desk: SamplingDesk) -> None:
    acts = {action.text(): action for action in panel.stages_menu().actions()}
    assert {"Logit bias", "DRY", "XTC", "Typical", "Top-n-sigma"} <= acts.keys()
    assert "Top-k again" in acts
    acts["XTC"].trigger()
    assert [type(s) for s in desk.asked()] == [
        Penalties, TopK, TopP, MinP, Xtc, Temperature, Dist,
    ]  # fmt: skip
    {action.text(): action for action in panel.stages_menu().actions()}["DRY"].trigger()
    breakers = card(panel, Dry).breakers
    assert breakers is not None
    assert breakers.toPlainText().split("\n") == ["\\n", ":", '"', "*"]


def test_a_stage_without_effect_says_why(panel: ChainRoom, desk: SamplingDesk) -> None:
    assert "stage is neutral" in card(panel, Penalties).idle.text()
    assert card(panel, TopK).idle.isHidden()
    desk.put({"chain": as_stored((TopK(5), TopK(9), Temperature(0.7), Greedy()))})
    reasons = [each.idle.text() for each in panel.chain.cards]
    assert "greedy always takes it" in reasons[0]
    assert "already keeps only 5" in reasons[1]
    assert reasons[3] == ""
    desk.put({"chain": as_stored((TopK(1000), Dist()))})
    assert "all 1,000 tokens" in panel.chain.cards[0].idle.text()


# --- the draw -------------------------------------------------------------------------------------


def last(panel: ChainRoom) -> SelectCard:
    found = panel.chain.cards[-1]
    assert isinstance(found, SelectCard)
    return found


def test_each_way_to_select_is_read_whole(panel: ChainRoom, theme: Theme) -> None:
    for zoom in (100, 150, 200):
        theme.set_zoom(zoom)
        panel.resize(theme.px(370), 900)
        QApplication.processEvents()
        kind, option = last(panel).kind, QStyleOptionComboBox()
        kind.initStyleOption(option)
        room = kind.style().subControlRect(
            QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, kind
        )
        widest = max(kind.fontMetrics().horizontalAdvance(kind.itemText(at)) for at in range(4))
        assert widest <= room.width(), zoom


def test_another_way_to_select_can_be_chosen(panel: ChainRoom, desk: SamplingDesk) -> None:
    kinds = [last(panel).kind.itemText(at) for at in range(last(panel).kind.count())]
    assert kinds == ["By probability", "Greedy", "Mirostat 1", "Mirostat 2", "Adaptive-p"]
    last(panel).kind.activated.emit(2)
    assert desk.asked()[-1] == Mirostat()
    type_into(last(panel).fields["tau"], "3.5")
    assert desk.asked()[-1] == Mirostat(3.5)


def test_the_seed_is_set_and_drawn_fresh_again(panel: ChainRoom, desk: SamplingDesk) -> None:
    seed = panel.findChild(QLineEdit, "seed_field")
    assert isinstance(seed, QLineEdit)
    assert seed.text() == ""
    type_into(seed, "42")
    assert desk.levels.resolved().settings.seed == 42
    type_into(seed, "4294967295")
    assert last(panel).refusal.text() == (
        f"Seed must be a whole number from 0 to 4294967294, not 4294967295. {GOES_ON} {ESC}"
    )
    assert desk.levels.resolved().settings.seed == 42
    seed.selectAll()
    QTest.keyClick(seed, Key.Key_Delete)
    QTest.keyClick(seed, Key.Key_Return)
    assert desk.levels.resolved().settings.seed is None
    assert not last(panel).refusal.isVisible()


# --- logit bias -----------------------------------------------------------------------------------


def test_logit_bias_by_text_shows_its_ids(panel: ChainRoom, desk: SamplingDesk) -> None:
    desk.ids = {" Paris": [7042], "Eiffel": [36, 12]}
    {action.text(): action for action in panel.stages_menu().actions()}["Logit bias"].trigger()
    editor = card(panel, LogitBias).bias
    assert editor is not None
    for text in (" Paris", "Eiffel", "#42"):
        QTest.keyClicks(editor.text, text)
        QTest.keyClick(editor.text, Key.Key_Return)
    assert [e.findChild(QLabel, "bias_ids").text() for e in editor._rows] == [  # type: ignore[union-attr]
        "ID 7042", "each of IDs 36, 12", "",
    ]  # fmt: skip
    number = editor._rows[0].findChild(QLineEdit, "bias_number")
    assert isinstance(number, QLineEdit)
    type_into(number, "-2.5")
    ban = editor._rows[1].findChild(QWidget, "bias_ban")
    assert ban is not None
    QTest.mouseClick(ban, LEFT)
    assert desk.asked()[0] == LogitBias(
        [TokenBias(text=" Paris", bias=-2.5), TokenBias(text="Eiffel", ban=True), TokenBias(42)]
    )
    assert not number.isHidden()
    gone = editor._rows[0].findChild(QWidget, "bias_remove_button")
    assert gone is not None
    QTest.mouseClick(gone, LEFT)
    assert len(desk.asked()[0].biases) == 2  # type: ignore[attr-defined]


def test_ids_that_come_for_an_entry_that_was_taken_out_are_nobodys(
    qtbot: QtBot, theme: Theme
) -> None:
    """The engine's text thread may be busy with a long prompt meanwhile."""
    asked: list[Still] = []
    host = QWidget()
    qtbot.addWidget(host)
    editor = BiasEditor(theme, lambda _text, _then, _failed, still: asked.append(still), host)
    editor.show_biases([TokenBias(text=" Paris"), TokenBias(text="Eiffel")])
    assert [still() for still in asked] == [True, True]
    editor.show_biases([])
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert [still() for still in asked] == [False, False]


def test_a_number_that_no_id_reaches_is_taken_for_a_text(panel: ChainRoom) -> None:
    panel.chain.links_changed.emit(
        (Link(LogitBias([TokenBias(1, bias=2.0)])), *panel._desk.chain.links())
    )
    found = card(panel, LogitBias)
    assert found.bias is not None
    found.bias.text.setText("#" + "9" * 5000)
    QTest.keyClick(found.bias.text, Key.Key_Return)
    assert found.bias._entries == [TokenBias(1, bias=2.0)], "refused: a text has 1,000 characters"


def test_an_absurd_bias_is_refused_in_its_own_row(panel: ChainRoom, desk: SamplingDesk) -> None:
    desk.chain.put([Link(LogitBias([TokenBias(1, bias=2.0), TokenBias(2)])), *desk.chain.links()])
    found = card(panel, LogitBias)
    assert found.bias is not None
    first, second = found.bias._numbers
    type_into(first, "5000")
    assert found.refusal.isVisible()
    type_into(second, "3")
    assert desk.asked()[0] == LogitBias([TokenBias(1, bias=2.0), TokenBias(2, bias=3.0)])
    assert first.text() == "5000", "it stays to be mended"
    assert "not 5000.0" in found.refusal.text(), "and why is still said"
    first.setFocus()
    QTest.keyClick(first, Key.Key_Escape)
    assert (first.text(), found.refusal.isVisible()) == ("2", False)


def test_a_token_that_is_not_in_the_vocabulary_is_refused(
    panel: ChainRoom, desk: SamplingDesk
) -> None:
    {action.text(): action for action in panel.stages_menu().actions()}["Logit bias"].trigger()
    found = card(panel, LogitBias)
    assert found.bias is not None
    QTest.keyClicks(found.bias.text, "#1000")
    QTest.keyClick(found.bias.text, Key.Key_Return)
    assert "a token's ID, 0 to 999" in found.refusal.text()
    assert found.bias.text.text() == "#1000"
    assert desk.asked()[0] == LogitBias()
    assert ESC not in found.refusal.text()
    QTest.keyClick(found.bias.text, Key.Key_Backspace)
    assert not found.refusal.isVisible()


# --- presets --------------------------------------------------------------------------------------


def test_presets_are_chosen_and_what_differs_is_said(
    panel: ChainRoom, desk: SamplingDesk, bridge: FakeBridge
) -> None:
    assert desk.called("presets.list") == [()]
    chain = as_stored((TopK(20), Temperature(0.2), Dist()))
    desk.presets.all = (preset("Careful", chain=chain), preset("Free"))
    desk.applied = desk.presets.all[0]
    bridge.emit_event(PresetsListed(desk.presets.all))
    picker = panel.presets.picker
    assert [picker.itemText(at) for at in range(picker.count())] == ["No preset", "Careful", "Free"]
    assert picker.currentText() == "Careful"
    assert panel.presets.words.text().startswith("Differs: with penalties; top-k 20 → 40;")
    assert panel.presets.update_button.isEnabled()
    desk.put({"chain": chain})
    assert panel.presets.words.text() == "Same as the preset."
    assert not panel.presets.update_button.isEnabled()
    picker.activated.emit(2)
    assert desk.called("presets.apply") == [("p-Free", "chat")]
    picker.activated.emit(0)
    assert desk.called("presets.leave") == [()]


def test_what_counts_is_saved_as_a_preset(
    panel: ChainRoom, desk: SamplingDesk, bridge: FakeBridge
) -> None:
    desk.presets.all = (preset("Careful", chain=as_stored((TopK(20), Dist()))),)
    desk.applied = desk.presets.all[0]
    bridge.emit_event(PresetsListed(desk.presets.all))
    QTest.mouseClick(panel.presets.update_button, LEFT)
    ((preset_id, values),) = desk.called("presets.change")
    assert preset_id == "p-Careful"
    assert values["chain"] == as_stored(USUAL)
    QTest.mouseClick(panel.presets.save_button, LEFT)
    dialog = panel.findChild(QInputDialog, "preset_name_dialog")
    assert isinstance(dialog, QInputDialog)
    dialog.setTextValue("Mine")
    dialog.accept()
    assert desk.called("presets.create") == [("Mine",)]


# --- what happened --------------------------------------------------------------------------------

PIECES = {1: b" Paris", 2: b" the", 3: b" a", 4: b" in", 5: b" Lyon"}
SHARES = {1: 0.5, 2: 0.25, 3: 0.125, 4: 0.0625, 5: 0.03125}


class Words:
    def __len__(self) -> int:
        return 1000

    def piece(self, token_id: int) -> bytes:
        return PIECES[token_id]


def token(*, uniform: float | None = 0.3, drawn: int = 1) -> TokenTrace:
    """Penalties (neutral), top-k 4, top-p that leaves 2, min-p, temperature 1, draw."""
    ids, shares = list(PIECES), list(SHARES.values())
    whole = SHARES[1] + SHARES[2]
    effects = [
        StageEffect("penalties", 1000, SHARES[drawn]),
        StageEffect("top-k", 4, SHARES[drawn] / 0.9375),
        *[StageEffect(name, 2, SHARES[drawn] / whole) for name in ("top-p", "min-p")],
        StageEffect("temperature", 2, SHARES[drawn] / whole),
        StageEffect("dist", 2, SHARES[drawn] / whole),
    ]
    return TokenTrace(
        index=0,
        token_id=drawn,
        piece=PIECES[drawn],
        logprob=math.log(SHARES[drawn]),
        rank=drawn,
        entropy=1.0,
        alternative_ids=Array("i4", [5], struct.pack("<5i", *ids)),
        alternative_logprobs=Array("f4", [5], struct.pack("<5f", *map(math.log, shares))),
        stages=effects,
        ms=20.0,
        removed_by=Array("u1", [5], bytes([SURVIVED, SURVIVED, 2, 2, 1])),
        uniform=uniform,
    )


def sampling_of(*stages: Stage) -> dict[str, Any]:
    return {"sampling": as_stored(Sampling(list(stages[:-1]), stages[-1]))}  # type: ignore[arg-type]


Reply = Callable[..., Message]
MADE_WITH = (Penalties(), TopK(4), TopP(0.7), MinP(), Temperature(1.0), Dist())


@pytest.fixture
def show_reply(
    ask: Callable[..., tuple[Message, ...]], desk: SamplingDesk, bridge: FakeBridge
) -> Reply:
    def show(panel: ChainRoom, *tokens: TokenTrace, **fields: Any) -> Message:
        fields.setdefault("settings", sampling_of(*MADE_WITH))
        fields.setdefault("seed", 7)
        desk.shelf.path = ask(**fields)
        desk.words.of = lambda _hash: Words()
        bridge.emit_event(ConversationOpened(desk.shelf.open, desk.shelf.path))
        bridge.emit_event(TraceRead("m2", tokens))
        panel._looking.select(0 if tokens else None)
        return desk.shelf.path[-1]

    return show


def as_made(desk: SamplingDesk) -> None:
    desk.put({"chain": as_stored(MADE_WITH)})


def test_each_card_shows_what_its_stage_did(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    show_reply(panel, token())
    cut = card(panel, TopP).evidence
    assert (cut.left.text(), cut.removed_button.text()) == ("2 left", "−2 removed")
    assert [bar.name for bar in cut.bars.bars] == ["·Paris", "·the"]
    assert [bar.share for bar in cut.bars.bars] == pytest.approx([2 / 3, 1 / 3], rel=1e-5)
    assert card(panel, MinP).evidence.removed_button.text() == "removes none"
    assert not card(panel, MinP).evidence.removed_button.isEnabled()
    assert card(panel, TopK).evidence.removed_button.text() == "−996 removed"
    assert card(panel, TopK).evidence.isVisible()


def test_a_token_of_the_version_before_the_branch_keeps_to_its_own_chain(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    """Its recorded shares fit that version's temperature, and not the one of now."""
    as_made(desk)
    hot = (*MADE_WITH[:4], Temperature(2.0), Dist())
    tokens = (token(), msgspec.structs.replace(token(), index=1))
    for old, is_told in ((MADE_WITH, True), (hot, False)):
        chain = sampling_of(*old)["sampling"]
        given = {"tokens": 1, "traced": 1, "chosen": [3], "drawn_with": [[1, chain]]}
        show_reply(panel, *tokens, settings=sampling_of(*MADE_WITH) | {"given": given})
        assert card(panel, TopK).evidence.isVisibleTo(panel) == is_told
        assert (panel.note.text() == OF_ANOTHER) != is_told
        panel._looking.select(1)
        assert card(panel, TopK).evidence.isVisibleTo(panel)


def test_of_a_reply_by_other_weights_nobody_knows_how_many_there_were(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    stages = (TopK(4), TopP(0.7), MinP(), Temperature(1.0), Dist())
    desk.put({"chain": as_stored(stages)})
    plain = token()
    moved = Array("u1", [5], bytes([SURVIVED, SURVIVED, 1, 1, 0]))
    trace = msgspec.structs.replace(plain, stages=plain.stages[1:], removed_by=moved)
    show_reply(panel, trace, settings=sampling_of(*stages), weights_hash="others")
    desk.words.of = lambda _hash: None
    panel._show_evidence()
    first = card(panel, TopK).evidence
    assert (first.left.text(), first.removed_button.text()) == ("4 left", "−1 of the recorded")
    assert first.removed_button.isEnabled()
    first.removed_button.click()
    assert first.table is not None
    assert first.table.model().rowCount() == 1
    assert card(panel, TopP).evidence.removed_button.text() == "−2 removed"
    assert panel._looking.n_vocab is None


def test_every_removed_candidate_names_its_stage(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    show_reply(panel, token())
    found = {}
    for kind in (TopK, TopP):
        view = card(panel, kind).evidence
        view.removed_button.setFocus()
        QTest.keyClick(view.removed_button, Key.Key_Space)
        assert view.table is not None
        assert view.table.isVisible()
        rows = view.table.model()
        found[kind] = [
            [rows.data(rows.index(row, column)) for column in range(3)]
            for row in range(rows.rowCount())
        ]
    assert found[TopK] == [
        ["·Lyon", "3.12%", "Top-k"],
        ["995 less probable tokens", "not recorded", "Top-k"],
    ]
    assert found[TopP] == [["·a", "12.5%", "Top-p"], ["·in", "6.25%", "Top-p"]]


def test_the_draw_is_a_mark_on_what_was_left(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    show_reply(panel, token(uniform=0.7, drawn=2))
    draw = last(panel).evidence
    assert draw.mark.isVisible()
    assert draw.mark.uniform == 0.7
    assert [(s.name, s.is_drawn) for s in draw.mark.segments] == [("·Paris", False), ("·the", True)]
    assert draw.mark.segments[1].start == pytest.approx(2 / 3, rel=1e-5)
    assert draw.note.text() == "Seed 7 drew 0.7000 between 0 and 1, which falls on “·the”."


def test_a_mark_that_does_not_fit_is_not_shown(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    show_reply(panel, token(uniform=0.9, drawn=1))
    assert last(panel).evidence.mark.isHidden()
    assert "order of the candidates wasn't recorded" in last(panel).evidence.note.text()


def test_shares_that_cannot_be_told_say_so(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    made = (Penalties(64, 1.3), *MADE_WITH[1:])
    desk.put({"chain": as_stored(made)})
    show_reply(panel, token(), settings=sampling_of(*made))
    view = card(panel, TopK).evidence
    assert [bar.share for bar in view.bars.bars] == [
        pytest.approx(0.5 / 0.9375), None, None, None,
    ]  # fmt: skip
    assert view.note.text() == "The other shares after penalties are unknown."
    first = card(panel, Penalties).evidence.note.text()
    assert first.startswith("The shares after penalties are unknown: it changes scores")


def test_evidence_never_stands_beside_other_stages(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    show_reply(panel, token())
    assert panel.note.text() == OTHER
    assert panel.which.isVisible()
    assert not any(each.evidence.isVisible() for each in panel.chain.cards)
    button = panel.which.findChild(QWidget, "choice_reply")
    assert button is not None
    QTest.mouseClick(button, LEFT)
    assert panel.reply_chain.isVisible()
    assert panel.chain.isHidden()
    shown = [each.link.stage for each in panel.reply_chain.cards]
    assert tuple(shown) == MADE_WITH
    assert panel.reply_chain.cards[1].evidence.left.text() == "4 left"
    assert not panel.reply_chain.cards[1].fields["k"].isEnabled()


def test_the_reply_s_chain_and_seed_can_be_used_again(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    show_reply(panel, token())
    assert last(panel).again_button.text() == "Reuse seed 7"
    QTest.mouseClick(last(panel).again_button, LEFT)
    assert desk.levels.resolved().settings.seed == 7
    assert last(panel).again_button.isHidden()
    button = panel.which.findChild(QWidget, "choice_reply")
    assert button is not None
    QTest.mouseClick(button, LEFT)
    QTest.mouseClick(panel.use_button, LEFT)
    assert tuple(desk.asked()) == MADE_WITH
    assert panel.chain.isVisible()
    assert panel.which.isHidden()
    assert card(panel, TopK).evidence.isVisible()


def test_what_forbade_tokens_first_has_cards_of_its_own(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    as_made(desk)
    plain = token()
    forbidden = [StageEffect("end-token-ban", 999, 0.5), StageEffect("grammar", 40, 0.5)]
    moved_on = bytes([SURVIVED, SURVIVED, 4, 4, 1])
    removed_by = Array("u1", [5], moved_on)
    show_reply(
        panel,
        msgspec.structs.replace(plain, stages=[*forbidden, *plain.stages], removed_by=removed_by),
    )
    assert panel.before.isVisible()
    views = panel.before.cards
    assert views["end-token-ban"].removed_button.text() == "−1 removed"
    assert views["grammar"].left.text() == "40 left"
    views["grammar"].removed_button.click()
    table = views["grammar"].table
    assert table is not None
    rows = table.model()
    assert [rows.data(rows.index(0, at)) for at in (0, 2)] == ["·Lyon", "Grammar"]
    assert card(panel, TopP).evidence.removed_button.text() == "−2 removed"
    show_reply(panel, plain)
    assert panel.before.isHidden()


def test_xtc_says_whether_it_acted(panel: ChainRoom, desk: SamplingDesk, show_reply: Reply) -> None:
    made = (TopK(4), Xtc(), Dist())
    desk.put({"chain": as_stored(made)})
    for uniform, left, words in (
        (0.9, 4, "Drew 0.9000, above its probability of 0.5: skipped this time."),
        (0.2, 3, "Drew 0.2000, within its probability of 0.5: applied."),
        (0.2, 4, "Drew 0.2000, within its probability of 0.5, but fewer than two tokens reach"),
    ):
        effects = [
            StageEffect("top-k", 4, 0.5),
            StageEffect("xtc", left, 0.5, uniform),
            StageEffect("dist", left, 0.5),
        ]
        trace = msgspec.structs.replace(token(), stages=effects, removed_by=Array("u1", [0], b""))
        show_reply(panel, trace, settings=sampling_of(*made))
        assert card(panel, Xtc).evidence.note.text().startswith(words)


def test_a_stage_that_is_off_gets_no_evidence(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    made = (Penalties(), TopK(4), TopP(0.7), MinP(), Temperature(1.0), Dist())
    desk.put({"chain": as_stored(made), OFF: [[1, {"stage": "xtc"}]]})
    show_reply(panel, token())
    assert card(panel, Xtc).evidence.isHidden()
    assert card(panel, TopK).evidence.left.text() == "4 left"


def test_empty_states_say_what_to_do(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    assert "No reply yet" in panel.note.text()
    as_made(desk)
    show_reply(panel, token())
    panel._looking.select(None)
    assert panel.note.text() == CHOOSE
    QTest.mouseClick(panel.uncertain_button, LEFT)
    assert panel._looking.index == 0
    assert panel.uncertain_button.isHidden()
    show_reply(panel, token(), settings={})
    assert panel.note.text() == UNKNOWN


def test_the_note_goes_on_when_the_first_token_is_there(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    """No token is chosen before and after it: only the sentence is another one."""
    as_made(desk)
    show_reply(panel, token())
    looking = panel._looking
    looking.select(None)
    known, looking.traces, looking.sentence = looking.traces, (), NO_TOKEN_YET
    looking.trace_changed.emit()
    assert panel.note.text() == NO_TOKEN_YET
    looking.traces, looking.sentence = known, ""
    looking.trace_changed.emit()
    assert panel.note.text() == CHOOSE


def test_other_effects_than_the_stages_are_not_shown(
    panel: ChainRoom, desk: SamplingDesk, show_reply: Reply
) -> None:
    made = (TopK(4), Dist())
    desk.put({"chain": as_stored(made)})
    show_reply(panel, token(), settings=sampling_of(*made))
    assert "doesn't match the stages" in panel.note.text()
    assert card(panel, TopK).evidence.isHidden()


def test_a_panel_that_is_not_shown_follows_nothing(panel: ChainRoom, desk: SamplingDesk) -> None:
    panel.set_active(False)
    desk.put({"top_k": 3})
    assert card(panel, TopK).fields["k"].text() == "40"
    panel.set_active(True)
    assert card(panel, TopK).fields["k"].text() == "3"


def test_tab_goes_as_the_eye_does(panel: ChainRoom) -> None:
    panel.presets.picker.setFocus()
    passed = []
    for _ in range(40):
        QTest.keyClick(panel.window(), Key.Key_Tab)
        now = panel.focusWidget()
        assert now is not None
        if passed and not panel.chain.isAncestorOf(now) and passed[-1][0] == 5:
            break
        at = next((n for n, c in enumerate(panel.chain.cards) if c.isAncestorOf(now)), -1)
        passed.append((at, now.mapTo(panel, QPoint(0, 0)).y() // 20, now.objectName()))
    assert [at for at, _, _ in passed] == sorted(at for at, _, _ in passed)
    assert [name for at, _, name in passed if at == 0] == [
        "move_handle", "value_repeat", "stage_switch", "value_last_n", "value_frequency",
        "value_presence",
    ]  # fmt: skip
    assert {at for at, _, _ in passed} == {-1, 0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("zoom", [pytest.param(100, marks=pytest.mark.soak), 300])
def test_nothing_is_wider_than_a_narrow_section(
    panel: ChainRoom, desk: SamplingDesk, theme: Theme, zoom: int, qapp: QApplication
) -> None:
    """A section of 300 px has 276 for its panel, at any zoom as many times as much."""
    stages = [kind() for kind in USUAL_ORDER]
    stages[0] = LogitBias([TokenBias(text=" a rather long text that is cut", bias=1.0)])
    desk.ids = {" a rather long text that is cut": list(range(40_000, 40_020))}
    theme.apply_to(qapp)
    theme.set_zoom(zoom)
    panel.resize(theme.px(276), 900)
    for select in SELECTING:
        desk.put({"chain": as_stored((*stages, select())), "seed": 4_000_000_000})
        assert panel.body.minimumSizeHint().width() <= panel.area.viewport().width()
        assert panel.minimumSizeHint().width() <= panel.width()


def test_every_control_has_its_names(panel: ChainRoom, desk: SamplingDesk) -> None:
    stages = [LogitBias([TokenBias(text="a", bias=1.0)]), *(kind() for kind in USUAL_ORDER[1:])]
    desk.put({"chain": as_stored((*stages, Mirostat()))})
    for stop in stops_in(panel):
        if stop.isVisibleTo(panel) and stop.window() is panel.window():
            assert stop.objectName(), stop
            assert stop.accessibleName() or stop.property("text"), stop.objectName()


# --- a server's model -----------------------------------------------------------------------------


def test_what_a_server_does_not_take_is_grey_with_the_reason_and_stays_set(
    panel: ChainRoom, desk: SamplingDesk, bridge: FakeBridge
) -> None:
    offer = EngineOffer(
        "e1",
        "Box",
        "vllm",
        missing=[Lack("order", "Box has its own order."), Lack("seed", "Box takes no seed.")],
        stages=[Lack("top-k", "Box has no top-k."), Lack("penalties.last_n", "Box has no window.")],
    )
    before = desk.asked()
    desk.loader.remote = offer
    bridge.emit_event(desk.loader.state)
    top_k, penalties = card(panel, TopK), card(panel, Penalties)
    assert (top_k.away.text(), top_k.fields["k"].isEnabled()) == ("Box has no top-k.", False)
    assert top_k.accessibleDescription() == "Box has no top-k."
    assert penalties.away.text() == "Box has no window."
    assert not penalties.fields["last_n"].isEnabled()
    assert penalties.fields["repeat"].isEnabled()
    assert card(panel, TopP).away.isHidden()
    assert panel.server.text() == "Box has its own order. Box takes no seed."
    assert desk.asked() == before
    desk.loader.remote = None
    bridge.emit_event(desk.loader.state)
    assert top_k.away.isHidden()
    assert top_k.fields["k"].isEnabled()
    assert panel.server.isHidden()
