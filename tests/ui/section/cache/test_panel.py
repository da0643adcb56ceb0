"""*Cache*: what is asked when, what stands where, and what each button asks for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from made_cache import slot, told
from made_traces import trace_of
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import (
    ContextCounted,
    ConversationOpened,
    EngineStateChanged,
    LevelsChanged,
    MessageAdded,
    MessageChanged,
    TokenRecorded,
    TraceRead,
)
from app.chat.settings.resolved import Resolved
from app.chat.settings.settings import Settings
from app.engine.protocol.cache_messages import (
    CacheLayers,
    CacheMap,
    CacheShape,
    CellPart,
    ChangeCache,
    LastTurn,
    ParkedCopy,
    StepMeasured,
)
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.saved_messages import DropSaved, SavedCopy
from models.records import Message, MessageCounts, Role
from ui.look.theme import Theme
from ui.section.cache import panel as panel_module
from ui.section.cache.cards import MEASURE, NOT_YET, STOPPED
from ui.section.cache.panel import (
    ASKING,
    BY_HAND,
    COUNTED,
    DELETED,
    DONE,
    EMPTY,
    NO_TURN,
    PARKED,
    POINT,
    RECORDED,
    STREAM_MS,
    CachePanel,
)
from ui.section.looking import Looking
from ui.section.panel import Tools

SMOL = CacheShape([CacheLayers(30, 192, 192, 384, 384, 3)])
PARTS = [
    CellPart(0, 6, "scaffold"),
    CellPart(6, 14, "system"),
    CellPart(14, 30, "user", "m1"),
    CellPart(30, 70, "reply", "m2"),
]
TURN = LastTurn("c1", 14, 16, 40, "slot")
COPIES = [
    ParkedCopy(3, "c2", 500, 11_600_000, 0),
    ParkedCopy(8, "c3", 70, 1_600_000, 0),
]


def one_chat(**fields: Any) -> CacheMap:
    fields.setdefault("n_used", 70)
    fields.setdefault("turns", [TURN])
    state = {"state_bytes": 70 * 23_040 + 24 + 12 * 70 + 24 * 30}
    busy = fields.pop("is_busy", False)
    return told(slot(0, [(1, 0, 70)], PARTS, "c1", is_busy=busy, **state), **fields)


class Stage:
    """The panel on screen, and the desk that it asks."""

    def __init__(self, panel: CachePanel, desk: FakeDesk, bridge: FakeBridge) -> None:
        self.panel, self.desk, self.bridge = panel, desk, bridge

    @property
    def n_asked(self) -> int:
        return len(self.desk.called("cache.read"))

    def answer(self, answer: CacheMap | str) -> None:
        """Answer what was asked last; a sentence is a failure."""
        then, failed, _still = self.desk.called("cache.read")[-1]
        failed(answer) if isinstance(answer, str) else then(answer)

    def find(self, kind: type[Any], name: str) -> Any:
        found = self.panel.findChild(kind, name)
        assert found is not None, name
        return found

    def text(self, name: str) -> str:
        return str(self.find(QLabel, name).text())

    def row(self, name: str) -> str:
        label = self.find(QLabel, name)
        return str(label.text()) if label.isVisible() else ""

    def click(self, name: str) -> None:
        button = self.find(QAbstractButton, name)
        assert button.isEnabled(), name
        button.click()

    def legend(self) -> list[str]:
        return [swatch.text() for swatch in self.panel._swatches]

    def changes(self) -> list[ChangeCache | DropSaved]:
        return [call[0] for call in self.desk.called("cache.change")]


@pytest.fixture
def stage(
    tools: Tools, desk: FakeDesk, bridge: FakeBridge, looking: Looking, qtbot: QtBot
) -> Iterator[Stage]:
    weights = loaded(cache=SMOL, kv_bytes_per_token=23_040, fast_hash="w1")
    desk.loader.state = EngineStateChanged("ready", "SmolLM2", weights)
    desk.shelf.open = conversation(1, "Capital of France")
    titles = {"c1": "Capital of France", "c2": "Poem about rain", "c3": "SQL"}
    desk.cache.title = lambda chat: titles.get(chat, "another chat")
    desk.levels.resolved = lambda: Resolved(desk.settings.now, {})
    panel = CachePanel(tools)
    qtbot.addWidget(panel)
    panel.resize(400, 900)
    with qtbot.waitExposed(panel):
        panel.show()
    desk.shelf.path = (message(1, Role.USER, "Which city?"), _reply())
    bridge.emit_event(ConversationOpened(desk.shelf.open, desk.shelf.path))
    panel.set_active(True)
    yield Stage(panel, desk, bridge)
    panel.set_active(False)


def _reply() -> Message:
    return message(2, Role.ASSISTANT, "Paris", weights_hash="w1")


# --- what is shown --------------------------------------------------------------------------------


def test_cells_bytes_and_where_they_come_from(stage: Stage) -> None:
    assert stage.n_asked == 1
    stage.answer(one_chat())
    assert stage.text("cache_cells") == "KV cache: 70 of 4,096 cells"
    assert stage.text("cache_bytes") == "1.61 of 94.4 MB"
    assert stage.legend() == ["template 6", "system 8", "you 16", "reply 40", "free 4,026"]
    assert stage.text("cache_where") == POINT
    caption = stage.text("cache_grid_caption")
    assert caption.startswith("One square = 1 cell; 256 of 4,096 shown")
    assert "In order of writing" in caption


def test_the_last_turn_and_sizes_by_formula_and_by_llama_cpp(stage: Stage) -> None:
    stage.answer(one_chat())
    assert [stage.row(f"cache_{name}") for name in ("reused", "evaluated", "written")] == [
        "14",
        "16",
        "40",
    ]
    assert stage.panel.reused.label.text() == "cached, from its own cells"
    card = stage.panel.size_card
    assert card.formulas[0].label.text() == "30 layers × (K 192 + V 192) × 2 bytes"
    assert stage.row("cache_formula_0") == "23 kB"
    assert stage.row("cache_formula_1") == ""
    assert (stage.row("cache_types"), stage.row("cache_heads")) == ("f16 · f16", "3")
    assert (stage.row("cache_flash"), stage.row("cache_window")) == ("on", "")
    assert stage.row("cache_full") == "94.4 MB"
    assert stage.row("cache_allocated") == "189 MB"
    assert stage.text("cache_copy_caption") == (
        "This chat’s 70 tokens, copied: 1,614,384 bytes by llama.cpp = 1,612,800 of K and V + "
        "1,584 of header."
    )


def test_window_layers_and_states_are_named(stage: Stage, bridge: FakeBridge) -> None:
    shape = CacheShape([CacheLayers(18, 256, 256, 512, 512, 1)], 15, 512)
    stage.desk.loader.state = EngineStateChanged("ready", "G", loaded(cache=shape))
    stage.answer(one_chat())
    assert stage.row("cache_window") == "512 positions"
    assert stage.panel.size_card.windows.label.text() == "15 of 18 layers look back"
    state = CacheShape([CacheLayers(2, 0, 0, 0, 0)], is_state=True)
    stage.desk.loader.state = EngineStateChanged("ready", "M", loaded(cache=state))
    stage.panel._ask()
    stage.answer(one_chat())
    assert stage.text("cache_copy_caption").startswith("This model keeps a single state")


def test_coloured_by_slot_a_shared_beginning_stands_once(stage: Stage) -> None:
    parts = [CellPart(0, 50, "user", "m1")]
    stage.answer(
        told(
            slot(0, [(1, 0, 50)], parts, "c1"),
            slot(1, [(1, 0, 30), (2, 30, 45)], parts, "c1"),
            slot(2, [(3, 0, 10)], [], "c2"),
            n_used=75,
        )
    )
    stage.click("cache_by_slot")
    assert stage.legend() == [
        "shared 30",
        "sequence 0, “Capital of France” 20",
        "sequence 1, “Capital of France” 15",
        "“Poem about rain” 10",
        "free 4,021",
    ]
    stage.click("cache_by_turn")
    assert stage.legend() == ["not in a turn 75", "free 4,021"]
    stage.click("cache_by_message")
    assert stage.legend() == ["you 65", "not distinguished 10", "free 4,021"]


def test_the_legend_names_each_origin_once(stage: Stage) -> None:
    parts = [CellPart(0, 5, "text"), CellPart(5, 44, "assistant", "m2")]
    stage.answer(told(slot(0, [(1, 0, 44)], parts, "c1"), n_used=44))
    assert stage.legend() == ["text 5", "reply 39", "free 4,052"]


def test_the_cell_of_the_chosen_token_is_said(
    stage: Stage, looking: Looking, bridge: FakeBridge
) -> None:
    parts = [CellPart(0, 5, "text"), CellPart(5, 44, "assistant", "m2")]
    stage.answer(told(slot(0, [(1, 0, 44)], parts, "c1"), n_used=44))
    looking.set_awake(True)
    bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 3)))
    assert stage.text("cache_where") == POINT
    looking.select(1)
    assert stage.text("cache_where") == "cell 6 · position 6 · ID 1006"
    assert stage.text("cache_whose") == "reply: “Paris”"
    stage.panel.map.pointed.emit(0)
    assert stage.text("cache_where").startswith("cell 0 ")
    stage.panel.map.pointed.emit(-1)
    assert stage.text("cache_where").startswith("cell 6 ")
    looking.select(None)
    assert stage.text("cache_where") == POINT


def test_coloured_by_the_last_turn(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.click("cache_by_turn")
    assert stage.legend() == ["reused 14", "evaluated 16", "written 40", "free 4,026"]


def test_what_a_cell_holds_is_said(stage: Stage, looking: Looking) -> None:
    table = [f"<{number}>".encode() for number in range(1100)]
    offsets = [0]
    for piece in table:
        offsets.append(offsets[-1] + len(piece))
    array = Array("i8", [len(offsets)], b"".join(n.to_bytes(8, "little") for n in offsets))
    kinds = Array("i4", [len(table)], bytes(4 * len(table)))
    words = Pieces(VocabularyTable(array, b"".join(table), kinds))
    stage.desk.words.of = lambda _hash: words if _hash == "w1" else None
    stage.answer(one_chat())
    stage.panel.map.pointed.emit(20)
    assert stage.text("cache_where") == "cell 20 · position 20 · <1020> · ID 1020"
    assert stage.text("cache_whose") == "you: “Which city?” · evaluated in the last turn"
    assert stage.panel.map.accessibleDescription().startswith("cell 20 · position 20")
    stage.panel.map.pointed.emit(200)
    assert stage.text("cache_where") == "cell 200 · free"
    stage.panel.map.pointed.emit(-1)
    assert stage.text("cache_where") == POINT


def test_who_shares_a_cell_is_said(stage: Stage) -> None:
    parts = [CellPart(0, 50, "user", "m1")]
    stage.answer(
        told(
            slot(0, [(1, 0, 50)], parts, "c1"),
            slot(1, [(1, 0, 30)], parts, "c2"),
            slot(2, [(3, 0, 10)], parts, "c3"),
            n_used=60,
        )
    )
    stage.panel.map.pointed.emit(3)
    assert stage.text("cache_whose") == (
        "you: “Which city?” · chat “Poem about rain” · shared by 2 sequences"
    )
    stage.panel.map.pointed.emit(40)
    assert stage.text("cache_whose") == "you: “Which city?”"
    stage.panel.map.pointed.emit(55)
    assert stage.text("cache_whose").endswith("· chat “SQL”")


def test_until_the_engine_has_answered_it_is_not_called_empty(stage: Stage) -> None:
    assert stage.text("cache_empty") == ASKING
    stage.answer(one_chat())
    assert stage.text("cache_empty") == ""


def test_an_empty_cache_and_no_weights_say_what_to_do(stage: Stage) -> None:
    stage.answer(told())
    assert stage.text("cache_empty") == EMPTY
    assert not stage.find(QAbstractButton, "cache_clear_button").isEnabled()
    assert not stage.find(QAbstractButton, "measure_button").isEnabled()
    stage.desk.loader.state = EngineStateChanged("stopped")
    stage.panel._ask()
    stage.answer("Load some weights.")
    assert stage.text("cache_empty") == "Load some weights."
    assert stage.text("cache_cells") == "KV cache"
    assert not stage.panel.step_card.isVisible()


def test_a_cache_whose_chats_are_parked_says_so(stage: Stage) -> None:
    stage.answer(told(parked=COPIES))
    assert stage.text("cache_empty") == PARKED
    assert stage.panel.parked_card.isVisible()


def test_parked_chats_have_their_bytes_and_a_button_each(stage: Stage) -> None:
    stage.answer(one_chat(parked=COPIES))
    assert stage.text("cache_parked_bytes") == "13.2 MB of 1.07 GB"
    rows = stage.find(QWidget, "parked_list").findChildren(QLabel, "parked_title")
    sizes = stage.find(QWidget, "parked_list").findChildren(QLabel, "parked_size")
    assert {row.text() for row in rows} == {"Poem about rain", "SQL"}
    assert {size.text() for size in sizes} == {"500 tokens · 11.6 MB", "70 tokens · 1.6 MB"}
    buttons = stage.panel.parked.findChildren(QAbstractButton, "drop_parked_button")
    (button,) = [b for b in buttons if "Poem" in b.accessibleName()]
    button.click()
    assert stage.changes() == [ChangeCache(0, "drop", copy=3)]
    stage.desk.called("cache.change")[-1][1]()
    stage.answer(one_chat(parked=COPIES[1:]))
    assert [row.title.text() for row in stage.panel.parked._rows.values()] == ["SQL"]
    stage.panel._ask()
    stage.answer(one_chat())
    assert not stage.panel.parked_card.isVisible()


def test_what_lies_on_disk_is_listed_with_its_age_and_can_be_deleted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_900_000_000
    monkeypatch.setattr(panel_module.time, "time", lambda: now)
    saved = [
        SavedCopy(1, "c3", 70, 1_600_000, now - 200_000, False),
        SavedCopy(2, "c2", 500, 11_600_000, now - 150, True),
    ]
    stage.answer(told(saved=saved))
    assert stage.text("cache_saved_bytes") == "13.2 MB of 4 GB"
    rows = stage.panel.saved.findChildren(QLabel, "saved_size")
    assert [row.text() for row in rows] == [
        "500 tokens · 11.6 MB · 2 min",
        "70 tokens · 1.6 MB · 2 days · other model",
    ]
    buttons = stage.panel.saved.findChildren(QAbstractButton, "drop_saved_button")
    (button,) = [b for b in buttons if "Poem" in b.accessibleName()]
    button.click()
    assert stage.changes() == [DropSaved(0, 2)]
    stage.desk.called("cache.change")[-1][1]()
    assert stage.text("cache_done") == DELETED
    stage.answer(told(saved=saved[:1]))
    stage.click("delete_saved_button")
    assert stage.changes()[-1] == DropSaved(0)
    stage.desk.called("cache.change")[-1][1]()
    stage.answer(told())
    assert not stage.panel.saved_card.isVisible()


def test_of_many_saved_chats_the_newest_are_listed(stage: Stage) -> None:
    stage.answer(told(saved=[SavedCopy(n, "c2", 500, 1000, n, True) for n in range(1, 41)]))
    numbers = [row.number for row in stage.panel.saved._rows.values()]
    assert sorted(numbers) == list(range(29, 41))
    assert stage.text("saved_rest") == "and 28 older"


# --- when it asks ---------------------------------------------------------------------------------


def test_it_asks_now_and_then_while_a_reply_is_written(
    stage: Stage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert STREAM_MS >= 500
    monkeypatch.setattr("ui.section.cache.panel.STREAM_MS", 100)
    stage.answer(one_chat())
    (token,) = trace_of([b"x"])
    for _ in range(200):
        stage.bridge.emit_event(TokenRecorded("c1", "m2", token, 70))
    assert stage.n_asked == 1
    qtbot.waitUntil(lambda: stage.n_asked == 2, timeout=4000)
    assert stage.panel._timer.interval() == 100
    # Nothing more is asked before that is answered, and then once for all that came.
    for _ in range(200):
        stage.bridge.emit_event(TokenRecorded("c1", "m2", token, 70))
    qtbot.waitUntil(lambda: not stage.panel._timer.isActive(), timeout=4000)
    assert stage.n_asked == 2
    stage.answer(one_chat(is_busy=True))
    qtbot.waitUntil(lambda: stage.n_asked == 3, timeout=4000)


def test_after_a_turn_it_asks_at_once(stage: Stage, qtbot: QtBot) -> None:
    stage.answer(one_chat())
    (token,) = trace_of([b"x"])
    stage.bridge.emit_event(TokenRecorded("c1", "m2", token, 70))
    stage.bridge.emit_event(MessageChanged(_reply()))
    assert stage.panel._timer.interval() == 60
    qtbot.waitUntil(lambda: stage.n_asked == 2)


def test_off_screen_it_asks_nothing(stage: Stage, qtbot: QtBot) -> None:
    stage.answer(one_chat())
    stage.panel.set_active(False)
    stage.bridge.emit_event(MessageChanged(_reply()))
    qtbot.wait(120)
    assert stage.n_asked == 1
    stage.panel.set_active(True)
    assert stage.n_asked == 2


# --- what is looked at ----------------------------------------------------------------------------


def test_a_cell_leads_to_its_token_and_back(stage: Stage, looking: Looking) -> None:
    looking.set_awake(True)
    stage.bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 40)))
    stage.answer(one_chat())
    stage.panel.map.chosen.emit(35)
    assert looking.message is not None
    assert (looking.message.id, looking.index) == ("m2", 5)
    assert stage.panel.map._marked == (35, 35)
    looking.select(None)
    assert stage.panel.map._marked == (30, 69)
    stage.panel.map.chosen.emit(20)
    assert looking.message.id == "m1"
    assert stage.panel.map._marked == (14, 29)
    stage.panel.map.chosen.emit(2)
    assert looking.message.id == "m1", "the template is nobody's message"


def test_a_prefix_is_kept_up_to_what_is_looked_at(stage: Stage, looking: Looking) -> None:
    looking.set_awake(True)
    stage.bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 40)))
    stage.answer(one_chat())
    keep = stage.find(QAbstractButton, "cache_keep_button")
    assert (keep.text(), keep.isEnabled()) == ("Keep a prefix", False)
    assert keep.toolTip().startswith("That is the whole chat")
    looking.look_at("m1")
    assert keep.text() == "Keep 30 tokens"
    looking.look_at("m2", 5)
    stage.bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 40)))
    assert keep.text() == "Keep 36 tokens"
    stage.click("cache_keep_button")
    assert stage.changes() == [ChangeCache(0, "keep_prefix", "c1", keep=36)]
    stage.desk.called("cache.change")[-1][1]()
    assert stage.text("cache_done") == DONE["keep_prefix"]
    assert stage.n_asked == 2


def test_where_nothing_of_this_chat_is_looked_at_no_prefix_can_be_kept(stage: Stage) -> None:
    stage.answer(told(slot(0, [(1, 0, 70)], PARTS, "c2"), n_used=70))
    keep = stage.find(QAbstractButton, "cache_keep_button")
    assert (keep.text(), keep.isEnabled()) == ("Keep a prefix", False)
    assert "Choose a message or token" in keep.toolTip()
    assert not stage.find(QAbstractButton, "cache_park_button").isEnabled()
    assert stage.find(QAbstractButton, "cache_clear_button").isEnabled()


# --- by hand --------------------------------------------------------------------------------------


def test_each_button_asks_for_its_change_and_says_how_it_went(stage: Stage) -> None:
    stage.answer(one_chat(parked=COPIES))
    for name, act, chat in (
        ("clear", "clear", "c1"),
        ("park", "park", "c1"),
        ("drop", "drop", "c1"),
    ):
        stage.click(f"cache_{name}_button")
        change, then, failed, _still = stage.desk.called("cache.change")[-1]
        assert change == ChangeCache(0, act, chat)
        then()
        assert stage.text("cache_done") == DONE[act]
        stage.answer(one_chat(parked=COPIES))
        failed("It cannot be done now.")
        assert stage.text("cache_done") == "It cannot be done now."
        stage.answer(one_chat(parked=COPIES))


def test_while_a_reply_is_written_there_nothing_can_be_changed(stage: Stage) -> None:
    stage.answer(one_chat(is_busy=True, parked=COPIES))
    for name in ("cache_clear", "cache_park", "cache_drop", "cache_keep", "measure"):
        assert not stage.find(QAbstractButton, f"{name}_button").isEnabled(), name
    assert stage.find(QAbstractButton, "drop_parked_button").isEnabled()


# --- one step -------------------------------------------------------------------------------------


def test_one_step_is_measured_when_asked(stage: Stage) -> None:
    stage.answer(one_chat())
    assert stage.row("cache_step_with") == ""
    stage.click("measure_button")
    chat, then, _failed, _still = stage.desk.called("cache.measure")[-1]
    assert chat == "c1"
    assert stage.find(QAbstractButton, "measure_button").text() == "Stop measuring"
    stage.bridge.emit_event(MessageChanged(_reply()))
    stage.panel._ask()
    assert stage.n_asked == 1, "the engine is measuring"
    told: list[object] = []
    stage.panel.measured.connect(told.append)
    then(StepMeasured(70, [18.0, 19.0, 17.0], [690.0], 2))
    assert told == [StepMeasured(70, [18.0, 19.0, 17.0], [690.0], 2)]
    assert stage.row("cache_step_with") == "18.0 ms"
    assert stage.row("cache_step_without") == "690 ms"
    caption = stage.text("cache_step_caption")
    assert caption.startswith("For the token after 70: median of 3 cached runs")
    assert "1 uncached run, 2 threads" in caption
    assert stage.find(QAbstractButton, "measure_button").text() == "Measure now"


def test_a_measurement_can_be_stopped_and_may_fail(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.click("measure_button")
    stage.click("measure_button")
    assert stage.desk.called("cache.stop_measuring") == [()]
    assert stage.text("cache_step_caption") == STOPPED
    stage.click("measure_button")
    stage.desk.called("cache.measure")[-1][2]("There is no room for that.")
    assert stage.text("cache_step_caption") == "There is no room for that."
    assert stage.row("cache_step_with") == ""


# --- the policy -----------------------------------------------------------------------------------


def test_the_policy_is_chosen_where_it_counts(stage: Stage) -> None:
    stage.answer(one_chat())
    policy = stage.panel.policy_card.choice
    assert policy.currentText() == "Drop oldest messages"
    policy.activated.emit(policy.findData("stop"))
    assert stage.desk.called("levels.change_where_it_counts") == [("context_policy", "stop")]
    chat = Resolved(
        dataclasses.replace(Settings(), context_policy="stop"), {"context_policy": "chat"}
    )
    stage.desk.levels.resolved = lambda: chat
    stage.bridge.emit_event(LevelsChanged("chat"))
    assert stage.text("cache_policy_caption").startswith("Set for this chat. ")
    assert policy.currentText() == "Stop with a message"
    policy.activated.emit(0)
    assert stage.desk.called("levels.change_where_it_counts")[1:] == [
        ("context_policy", "drop_oldest")
    ]


def test_how_much_would_be_left_out_now(stage: Stage) -> None:
    stage.answer(one_chat())
    assert stage.text("cache_policy_caption").startswith("Everything fits now.")
    stage.bridge.emit_event(ContextCounted(3000, 4096, 3, "m1"))
    assert stage.text("cache_policy_caption").startswith("The next prompt drops 3 older messages")
    stage.bridge.emit_event(ContextCounted(3000, 4096))
    assert stage.text("cache_policy_caption").startswith("The next prompt drops 3"), (
        "nobody has looked again"
    )
    stage.bridge.emit_event(ContextCounted(30, 4096, 0, ""))
    assert stage.text("cache_policy_caption").startswith("Everything fits now.")


# --- everywhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [276, pytest.param(400, marks=pytest.mark.soak)])
def test_nothing_needs_to_be_moved_sideways(
    stage: Stage, theme: Theme, width: int, qtbot: QtBot
) -> None:
    stage.answer(one_chat(parked=COPIES))
    area = stage.panel.area
    inside = area.widget()
    for zoom in (300, 100, 200):
        theme.set_zoom(zoom)
        stage.panel.resize(theme.px(width), 900)
        stage.panel._ask()
        stage.answer(one_chat(parked=COPIES))
        qtbot.waitUntil(lambda: inside.width() <= area.viewport().width())
        assert inside.minimumSizeHint().width() <= area.viewport().width(), zoom


def test_everything_has_a_name_and_takes_the_keyboard(stage: Stage) -> None:
    stage.answer(one_chat(parked=COPIES))
    takers: Callable[[QWidget], bool] = lambda w: (  # noqa: E731
        w.isVisible() and bool(w.focusPolicy() & Qt.FocusPolicy.TabFocus)
    )
    found = [w for w in stage.panel.findChildren(QWidget) if takers(w)]
    named = {w.objectName() for w in found}
    assert {"cache_map", "cache_clear_button", "measure_button", "cache_policy"} <= named
    assert all(w.accessibleName() for w in found), [
        w.objectName() for w in found if not w.accessibleName()
    ]


def test_tokens_of_a_given_beginning_have_no_trace(stage: Stage, looking: Looking) -> None:
    """A reply that was continued: of its 40 tokens the first 10 were given, 30 drawn."""
    ids = tuple(1000 + position for position in range(30, 70))
    given = {"given": {"tokens": 10}}
    continued = message(
        2, Role.ASSISTANT, "Paris", weights_hash="w1", settings=given, token_ids=ids
    )
    stage.desk.shelf.path = (stage.desk.shelf.path[0], continued)
    stage.bridge.emit_event(ConversationOpened(stage.desk.shelf.open, stage.desk.shelf.path))
    looking.set_awake(True)
    stage.bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 30)))
    stage.answer(one_chat())
    stage.panel.map.chosen.emit(45)
    assert looking.index == 5
    assert stage.panel.map._marked == (45, 45)
    stage.panel.map.chosen.emit(35)
    assert looking.index is None, "this one was given"


def test_a_reply_that_was_cut_anew_leads_to_the_message_alone(
    stage: Stage, looking: Looking
) -> None:
    other = message(2, Role.ASSISTANT, "Paris", weights_hash="w1", token_ids=(5, 6, 7))
    stage.desk.shelf.path = (stage.desk.shelf.path[0], other)
    stage.bridge.emit_event(ConversationOpened(stage.desk.shelf.open, stage.desk.shelf.path))
    looking.set_awake(True)
    stage.bridge.emit_event(TraceRead("m2", trace_of([b"x"] * 3)))
    stage.answer(one_chat())
    stage.panel.map.chosen.emit(31)
    assert looking.message is not None
    assert (looking.message.id, looking.index) == ("m2", None)


def test_what_was_measured_of_one_chat_does_not_stand_beside_another(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.click("measure_button")
    stage.desk.called("cache.measure")[-1][1](StepMeasured(70, [18.0], [690.0], 2))
    stage.panel._ask()
    stage.answer(one_chat())
    assert stage.row("cache_step_with") == "18.0 ms"
    stage.desk.shelf.open = conversation(2, "Poem about rain")
    stage.panel._ask()
    stage.answer(one_chat())
    assert stage.row("cache_step_with") == ""
    assert stage.text("cache_step_caption") == NOT_YET


def test_figures_that_come_for_a_chat_that_was_left_are_not_those_of_the_open_one(
    stage: Stage,
) -> None:
    stage.answer(one_chat())
    stage.click("measure_button")
    stage.desk.shelf.open = conversation(2, "Poem about rain")
    told: list[object] = []
    stage.panel.measured.connect(told.append)
    stage.desk.called("cache.measure")[-1][1](StepMeasured(70, [18.0], [690.0], 2))
    assert told == []
    assert stage.row("cache_step_with") == ""
    assert stage.text("cache_step_caption") == NOT_YET
    assert stage.find(QAbstractButton, "measure_button").text() == MEASURE


def test_what_was_done_in_a_chat_that_was_left_is_not_told_in_the_open_one(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.click("cache_drop_button")
    stage.desk.shelf.open = conversation(2, "Poem about rain")
    stage.desk.called("cache.change")[-1][1]()
    assert stage.text("cache_done") == BY_HAND
    stage.click("cache_clear_button")
    assert len(stage.changes()) == 2, "the next change may be made"


def test_what_was_done_is_no_news_after_the_next_message(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.click("cache_clear_button")
    stage.desk.called("cache.change")[-1][1]()
    assert stage.text("cache_done") == DONE["clear"]
    stage.bridge.emit_event(MessageAdded(_reply()))
    assert stage.text("cache_done") == BY_HAND


def test_a_refresh_at_32768_cells_takes_less_than_five_milliseconds(stage: Stage) -> None:
    """As often as twice a second while a reply streams: everything that an answer brings, but for
    painting, which is measured in test_map.py."""
    sides = ("user", "reply")
    parts = [CellPart(i * 64, i * 64 + 64, sides[i % 2], f"m{i}") for i in range(512)]
    took = []
    for number in range(12):
        used = 32_000 + number * 60
        full = told(slot(0, [(1, 0, used)], parts, "c1"), n_ctx=32_768, n_used=used)
        stage.panel._ask()
        began = time.thread_time()
        stage.answer(full)
        took.append(time.thread_time() - began)
    assert min(took) < 0.005, "what a busy machine adds is not the panel's"


def test_a_refresh_moves_no_card(stage: Stage) -> None:
    """Whoever reads a card further down does not want it to jump with each token."""
    moved: list[object] = []

    class Watch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() in (QEvent.Type.Move, QEvent.Type.Resize):
                moved.append(watched)
            return False

    watch = Watch()
    for card in stage.panel._all_cards():
        card.installEventFilter(watch)
    rounds = []
    # Qt lays words that wrap out in several rounds: after those nothing moves any more.
    for n in range(70, 100):
        parts = [*PARTS[:3], CellPart(30, n, "reply", "m2")]
        size = n * 23_040 + 24 + 12 * n + 24 * 30
        grown = slot(0, [(1, 0, n)], parts, "c1", state_bytes=size)
        stage.panel._ask()
        stage.answer(told(grown, n_used=n, turns=[TURN]))
        QCoreApplication.processEvents()
        rounds.append(len(moved))
        moved.clear()
    assert rounds[0] > 0
    assert rounds[-15:] == [0] * 15


@pytest.mark.parametrize("name", ["cache_clear_button", "cache_park_button", "cache_drop_button"])
def test_a_second_press_presses_nothing_else(stage: Stage, name: str) -> None:
    """What was done cannot be done again; a space must not drop the chat that was parked."""
    stage.answer(one_chat())
    button = stage.find(QAbstractButton, name)
    button.setFocus()
    QTest.keyClick(button, Qt.Key.Key_Space)
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert len(stage.desk.called("cache.change")) == 1, "it is under way"
    stage.desk.called("cache.change")[-1][1]()
    stage.answer(told())
    assert not button.isEnabled()
    assert stage.panel.acts_card.hasFocus()
    QTest.keyClick(stage.panel.acts_card, Qt.Key.Key_Space)
    assert len(stage.desk.called("cache.change")) == 1


def test_where_a_reply_begins_the_keyboard_does_not_go_to_another_button(stage: Stage) -> None:
    stage.answer(one_chat())
    stage.find(QAbstractButton, "measure_button").setFocus()
    stage.panel._ask()
    stage.answer(one_chat(is_busy=True))
    assert stage.panel.acts_card.hasFocus()


def test_the_last_parked_copy_leaves_the_keyboard_in_the_panel(stage: Stage) -> None:
    stage.answer(told(parked=COPIES[:1]))
    stage.find(QAbstractButton, "drop_parked_button").setFocus()
    stage.panel._ask()
    stage.answer(told())
    assert stage.panel.acts_card.hasFocus()


def test_after_a_restart_the_turn_is_what_was_stored_with_the_reply(
    stage: Stage, looking: Looking
) -> None:
    stored = dataclasses.replace(
        _reply(),
        counts=MessageCounts(reused=417, evaluated=15, generated=9),
        settings={"reuse_source": "parked"},
    )
    stage.desk.shelf.path = (stage.desk.shelf.path[0], stored)
    looking.set_awake(True)
    opened = ConversationOpened(stage.desk.shelf.open, stage.desk.shelf.path)
    stage.bridge.emit_event(opened)
    stage.answer(told())
    assert [stage.row(f"cache_{name}") for name in ("reused", "evaluated", "written")] == [
        "417",
        "15",
        "9",
    ]
    assert stage.panel.reused.label.text() == "cached, from host memory"
    assert stage.text("cache_turn_caption") == RECORDED
    # What the engine has counted since is newer.
    stage.panel._ask()
    stage.answer(one_chat())
    assert stage.row("cache_reused") == "14"
    assert stage.text("cache_turn_caption") == COUNTED
    # A question has no turn of its own, and so nothing is said of one.
    looking.look_at("m1")
    stage.panel._ask()
    stage.answer(told())
    assert stage.row("cache_reused") == ""
    assert stage.text("cache_turn_caption") == NO_TURN


def test_what_was_counted_before_the_panel_was_there_is_known(
    stage: Stage, tools: Tools, qtbot: QtBot
) -> None:
    stage.desk.meter.last = ContextCounted(167, 256, 12, "m1")
    panel = CachePanel(tools)
    qtbot.addWidget(panel)
    panel.show()
    panel.set_active(True)
    caption = panel.findChild(QLabel, "cache_policy_caption")
    assert caption is not None
    assert caption.text().startswith("The next prompt drops 12 older messages")
    panel.set_active(False)


def test_lines_take_no_more_room_after_a_high_zoom(stage: Stage, theme: Theme) -> None:
    stage.answer(one_chat())
    before = stage.panel.where.minimumHeight()
    theme.set_zoom(300)
    assert stage.panel.where.minimumHeight() > 2 * before
    theme.set_zoom(100)
    assert stage.panel.where.minimumHeight() == before
