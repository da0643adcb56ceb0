"""The Prompt panel: whose prompt it shows, its colours, surprise on request, and the difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from made_prompts import prompt_of, scores
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import (
    ContextCounted,
    ConversationOpened,
    EngineStateChanged,
    MessageChanged,
)
from app.chat.inspection.prompt_reading import PromptOf
from app.chat.settings.resolved import Resolved
from app.chat.settings.settings import Settings
from app.chat.surroundings import Still
from app.engine.protocol.adapter_messages import Adapters, Lora
from models.records import MessageCounts, MessageState, Role
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.kinds import KINDS
from ui.section.panel import Tools
from ui.section.prompt.panel import NO_TURN_BEFORE, NO_WORDS, OF_NEXT, OF_REPLY, PromptPanel
from ui.section.prompt.shares import PartsBar
from ui.section.section import Section
from ui.tokens.origins import origin_tone

COUNTS = MessageCounts(reused=4, evaluated=5, prompt_tokens=9)
PATH = (
    message(1, Role.USER, "Which city?"),
    message(2, Role.ASSISTANT, "Paris", weights_hash="w1", token_ids=(900, 901)),
    message(3, Role.USER, "And now?"),
    message(4, Role.ASSISTANT, "Rome", weights_hash="w1", counts=COUNTS, settings={"sampling": {}}),
)
FIRST = prompt_of(
    "m2",
    ("scaffold", [b"<user>"], None),
    ("user", [b"Which", b" city"], "m1"),
    ("scaffold", [b"<reply>"], None),
)
SECOND = prompt_of(
    "m4",
    ("scaffold", [b"<user>"], None),
    ("user", [b"Which", b" city"], "m1"),
    ("scaffold", [b"<reply>"], None),
    ("assistant", [b"Paris", b"!"], "m2"),
    ("user", [b"\n", b"And", b" now"], "m3"),
)


class Desk(FakeDesk):
    """Answers when it is told to."""

    def __init__(self, bridge: FakeBridge, folder: Any) -> None:
        super().__init__(bridge, folder)
        self.loader.state = EngineStateChanged("ready", "SmolLM2", loaded(fast_hash="w1"))
        self.shelf.path = PATH
        self.growing.trace_of = lambda _id: None
        self.prompts.read = self._read
        self.prompts.read_next = lambda then, still: self._read(None, then, still)
        self.scoring.ask = self._score
        self.levels.resolved = lambda: Resolved(Settings(), {})
        self.asked: list[tuple[str | None, Callable[[PromptOf], None]]] = []
        self.scored: list[tuple[list[int], Any, Any, Any]] = []
        self.scored_with: list[Adapters] = []

    def _read(self, message_id: str | None, then: Callable[[PromptOf], None], still: Still) -> None:
        self.asked.append((message_id, lambda of: then(of) if still() else None))

    def _score(self, token_ids: Any, take: Any, then: Any, failed: Any, adapters: Any) -> None:
        self.scored.append((list(token_ids), take, then, failed))
        self.scored_with.append(adapters)

    def answer(self, of: PromptOf) -> None:
        """To the oldest question."""
        message_id, then = self.asked.pop(0)
        assert message_id == of.message_id
        then(of)


@pytest.fixture
def desk(bridge: FakeBridge, tmp_path: Any) -> Desk:
    return Desk(bridge, tmp_path)


@pytest.fixture
def section(tools: Tools, desk: Desk, bridge: FakeBridge, qtbot: QtBot) -> Section:
    built = Section(tools, [kind for kind in KINDS if kind.title == "Prompt"])
    qtbot.addWidget(built)
    built.resize(420, 860)
    built.show()
    qtbot.waitExposed(built)
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), PATH))
    return built


@pytest.fixture
def panel(section: Section, desk: Desk) -> PromptPanel:
    """With the prompt of the last reply."""
    found = section.panel()
    assert isinstance(found, PromptPanel)
    for _ in range(len(desk.asked) - 1):
        desk.asked.pop(0)[1](PromptOf(None, "asked too early"))
    desk.answer(SECOND)
    return found


def press(panel: PromptPanel, button: QPushButton, qtbot: QtBot) -> None:
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def tones(panel: PromptPanel, count: int) -> list[Any]:
    return [panel.text._look.tone(number) for number in range(count)]


def test_the_reply_that_is_looked_at_is_asked_about_once(panel: PromptPanel, desk: Desk) -> None:
    assert panel.objectName() == "panel_prompt"
    assert desk.asked == []
    assert panel.card.heading.text() == OF_REPLY
    assert panel.card.figure.text() == "9 tokens · 37 bytes"
    legend = [swatch.text() for swatch in panel.card._swatches]
    assert legend == ["template 2 (22%)", "you 5 (56%)", "reply 2 (22%)"]
    assert panel.card.sentence.text() == "What the engine was given."
    assert "4 tokens from the KV cache, 5 processed (prefill)." in panel.card.facts.text()


def test_the_tone_behind_a_token_says_where_it_comes_from(panel: PromptPanel, theme: Theme) -> None:
    origins = ["scaffold", "user", "user", "scaffold", "assistant", "assistant", *["user"] * 3]
    for mode in ("light", "dark"):
        theme.set_mode(mode)
        assert tones(panel, 9) == [origin_tone(theme.colors, origin) for origin in origins]
    controls = [panel.text._look.is_control(number) for number in range(9)]
    assert controls == [True, False, False, True, *[False] * 5]


def test_what_is_known_of_a_token(panel: PromptPanel, qtbot: QtBot) -> None:
    assert panel.whence.text().startswith("Hover over a token")
    panel.text.choose(5)
    assert panel.whence.text() == "reply, message 2 · token 6 of 9"
    assert panel.token.text() == "! · ID 105 · normal"
    assert panel.bytes.text() == "1 byte 21"
    qtbot.keyClick(panel.text, Qt.Key.Key_Right)
    assert panel.token.text() == "↵ · ID 106 · normal"
    assert "↵ · ID 106" in panel.text.accessibleDescription()


def test_text_and_ids_are_copied(panel: PromptPanel, qtbot: QtBot) -> None:
    press(panel, panel.copy_text_button, qtbot)
    assert QGuiApplication.clipboard().text() == SECOND.text
    press(panel, panel.copy_ids_button, qtbot)
    assert QGuiApplication.clipboard().text() == str(list(range(100, 109)))


def test_a_part_is_gone_to_by_the_bar(panel: PromptPanel, qtbot: QtBot) -> None:
    bar = panel.card.bar
    qtbot.mouseClick(
        bar, Qt.MouseButton.LeftButton, pos=QPoint(round(bar.width() * 4.5 / 9), bar.height() // 2)
    )
    assert panel.text.current == 4
    assert bar.accessibleDescription() == "reply, message 2: 2 of 9 tokens"
    bar.setFocus()
    qtbot.keyClick(bar, Qt.Key.Key_Right)
    assert panel.text.current == 6
    qtbot.keyClick(bar, Qt.Key.Key_Right)
    qtbot.keyClick(bar, Qt.Key.Key_Left)
    assert panel.text.current == 4


# --- whose prompt it is -------------------------------------------------------------------------


def test_what_would_be_sent_next_follows_what_is_typed(
    panel: PromptPanel, desk: Desk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    press(panel, panel.next_button, qtbot)
    nothing = PromptOf(None, "Nothing would be sent.")
    desk.answer(nothing)
    assert panel.card.heading.text() == OF_NEXT
    assert not panel.paper.isVisible()
    qtbot.waitUntil(lambda: panel.card.height() < 100)  # the room below stays empty
    assert not panel.surprise_button.isEnabled()
    for _ in range(3):  # while one question is open, the others become one
        bridge.emit_event(ContextCounted(9, 4096))
    assert len(desk.asked) == 1
    desk.answer(nothing)
    assert len(desk.asked) == 1
    draft = prompt_of(None, ("user", [b"Hel", b"lo"], None))
    desk.answer(draft)
    assert panel.card.figure.text() == "2 tokens · 5 bytes"
    panel.text.choose(1)
    bridge.emit_event(ContextCounted(9, 4096))
    desk.answer(dataclasses.replace(draft))
    assert panel.text.current == 1  # nothing changed, so nobody loses their place
    press(panel, panel.reply_button, qtbot)
    desk.answer(SECOND)
    assert panel.card.heading.text() == OF_REPLY
    bridge.emit_event(ContextCounted(9, 4096))
    assert desk.asked == []


def test_another_reply_is_asked_about_and_a_late_answer_is_dropped(
    panel: PromptPanel, desk: Desk, tools: Tools
) -> None:
    tools.looking.look_at("m2")
    tools.looking.look_at("m4")
    tools.looking.look_at("m2")
    assert [message_id for message_id, _ in desk.asked] == ["m2"]
    desk.answer(FIRST)
    assert [message_id for message_id, _ in desk.asked] == ["m2"]
    desk.answer(FIRST)
    assert panel.card.figure.text() == "4 tokens · 23 bytes"


def test_the_end_of_a_reply_and_other_weights_ask_again_and_figures_do_not(
    panel: PromptPanel, desk: Desk, bridge: FakeBridge
) -> None:
    message = PATH[3]
    bridge.emit_event(MessageChanged(dataclasses.replace(message, content="Rome.")))
    assert desk.asked == []
    stopped = dataclasses.replace(message, state=MessageState.STOPPED)
    bridge.emit_event(MessageChanged(stopped))
    assert len(desk.asked) == 1
    desk.answer(SECOND)
    desk.loader.state = EngineStateChanged("stopped")
    bridge.emit_event(desk.loader.state)
    desk.answer(PromptOf("m4", "The stored text, without tokens.", "Which city?\nAnd now?"))
    assert panel.card.figure.text() == "20 characters"
    assert panel.card.legend.isHidden()
    assert panel.copy_text_button.isEnabled()
    assert not panel.copy_ids_button.isEnabled()
    assert not panel.difference_button.isEnabled()
    assert panel.text.is_whole
    assert "".join(s.raw for s in panel.text.lines.groups.spellings) == "Which city?\nAnd now?"


def test_a_hidden_panel_asks_nothing(
    panel: PromptPanel, section: Section, desk: Desk, bridge: FakeBridge, tools: Tools
) -> None:
    section.hide()
    tools.looking.look_at("m2")
    bridge.emit_event(ContextCounted(9, 4096))
    assert desk.asked == []
    section.show()
    assert [message_id for message_id, _ in desk.asked] == ["m2"]


# --- surprise -----------------------------------------------------------------------------------


def test_surprise_comes_on_request_and_in_chunks(
    panel: PromptPanel, desk: Desk, theme: Theme, qtbot: QtBot
) -> None:
    press(panel, panel.surprise_button, qtbot)
    ((ids, take, then, _),) = desk.scored
    assert ids == list(range(100, 109))
    assert panel.tint.isVisible()
    assert panel.note.text() == "Processing the prompt again: 1 of 9 tokens."
    assert tones(panel, 9) == [None] * 9
    take(scores(1, [1.0, 2**-5, 2**-30], [1, 9, 40_000]))
    wanted = "Processing the prompt again: 4 of 9 tokens."
    qtbot.waitUntil(lambda: panel.note.text() == wanted)  # at most ten times a second
    tints = tint_colors(theme.colors)
    assert tones(panel, 5) == [None, tints[0], tints[round(15 / 2)], tints[15], None]
    panel.text.choose(2)
    assert panel.whence.text().endswith("surprise 5.00 bits · rank 9")
    take(scores(4, [0.5] * 5, [1] * 5))
    then()
    assert panel.note.text().startswith("Mean 5.00 bits per token")
    assert "Computed now" in panel.note.text()
    press(panel, panel.surprise_button, qtbot)
    assert not panel.tint.isVisible()
    assert panel.note.text() == ""
    assert tones(panel, 1) == [origin_tone(theme.colors, "scaffold")]


def test_a_prompt_is_read_with_the_adapters_of_its_reply(
    panel: PromptPanel, desk: Desk, tools: Tools, bridge: FakeBridge, qtbot: QtBot
) -> None:
    """As they were then; and what would be sent next, with those of today."""
    now = Settings(loras=(Lora("/a/terse.gguf", 0.5),))
    desk.levels.resolved = lambda: Resolved(now, {})
    press(panel, panel.surprise_button, qtbot)
    files = [{"path": "/a/terse.gguf", "scale": 2.0, "hash": "0" * 32}]
    written = dataclasses.replace(PATH[-1], settings={"sampling": {}, "loras": files})
    bridge.emit_event(MessageChanged(written))
    press(panel, panel.surprise_button, qtbot)
    press(panel, panel.surprise_button, qtbot)
    press(panel, panel.next_button, qtbot)
    desk.answer(dataclasses.replace(SECOND, message_id=None))
    press(panel, panel.surprise_button, qtbot)
    assert desk.scored_with == [
        Adapters(),
        Adapters([Lora("/a/terse.gguf", 2.0, "0" * 32)]),
        Adapters([Lora("/a/terse.gguf", 0.5)]),
    ]


def test_surprise_that_is_not_wanted_any_more_is_stopped(
    panel: PromptPanel, desk: Desk, tools: Tools, qtbot: QtBot
) -> None:
    press(panel, panel.surprise_button, qtbot)
    n_stopped = len(desk.called("scoring.stop"))
    press(panel, panel.surprise_button, qtbot)
    assert len(desk.called("scoring.stop")) == n_stopped + 1
    press(panel, panel.surprise_button, qtbot)
    tools.looking.look_at("m2")
    desk.answer(FIRST)
    _, take, then, failed = desk.scored[-1]
    take(scores(1, [0.5], [1]))
    then()
    failed("too late")
    assert panel.note.text() == ""
    assert not panel.surprise_button.isChecked()


def test_a_refusal_is_a_sentence(panel: PromptPanel, desk: Desk, qtbot: QtBot) -> None:
    press(panel, panel.surprise_button, qtbot)
    desk.scored[0][3]("A reply is being written.")
    assert panel.note.text() == "A reply is being written."
    assert not panel.surprise_button.isChecked()
    assert not panel.tint.isVisible()


# --- difference ---------------------------------------------------------------------------------


class Words:
    def piece(self, token_id: int) -> bytes:
        return {900: b" Par", 901: b"is"}[token_id]


def test_the_difference_to_the_turn_before(
    panel: PromptPanel, desk: Desk, theme: Theme, qtbot: QtBot
) -> None:
    desk.words.of = lambda _hash: Words()
    press(panel, panel.difference_button, qtbot)
    desk.answer(FIRST)
    assert panel.note.text() == (
        "Same beginning: 4 tokens, reusable from the KV cache. Removed (struck through): 2 "
        "tokens of the previous turn. Added (tinted): 5 tokens. Recorded as cached: 4."
    )
    groups = panel.text.lines.groups
    assert "".join(s.raw for s in groups.spellings) == (
        "<user>Which city<reply> ParisParis!\nAnd now"
    )
    look = panel.text._look
    assert [look.is_struck(number) for number in range(11)] == [
        *[False] * 4,
        True,
        True,
        *[False] * 5,
    ]
    new = [
        tone is not None and tone.name() == theme.colors.accent_tone for tone in tones(panel, 11)
    ]
    assert new == [*[False] * 6, *[True] * 5]
    panel.text.choose(4)
    assert panel.whence.text() == "It was here in the previous turn."
    panel.text.choose(6)
    assert panel.token.text() == "Paris · ID 104 · normal"
    panel.text.choose(3)
    assert panel.token.text() == "<reply> · ID 103 · control"
    press(panel, panel.difference_button, qtbot)
    assert len(panel.text._strip) == 9
    assert panel.note.text() == ""


def test_a_difference_that_comes_when_nobody_looks_at_it_any_more_is_dropped(
    desk: Desk, panel: PromptPanel, qtbot: QtBot
) -> None:
    desk.words.of = lambda _hash: Words()
    press(panel, panel.difference_button, qtbot)
    press(panel, panel.difference_button, qtbot)
    desk.answer(FIRST)
    assert panel.note.text() == ""
    assert len(panel.text._strip) == 9


def test_where_there_is_nothing_to_compare_it_is_said(
    panel: PromptPanel, desk: Desk, tools: Tools, qtbot: QtBot
) -> None:
    press(panel, panel.difference_button, qtbot)
    desk.answer(FIRST)  # the reply's IDs are known, and not what they spell
    assert panel.note.text() == NO_WORDS
    press(panel, panel.difference_button, qtbot)
    desk.answer(PromptOf("m2", "It was written by “Qwen”.", "text"))
    assert panel.note.text().endswith("It was written by “Qwen”.")
    assert not panel.difference_button.isChecked()
    tools.looking.look_at("m2")
    desk.answer(FIRST)
    press(panel, panel.difference_button, qtbot)
    assert panel.note.text() == NO_TURN_BEFORE
    assert not panel.difference_button.isChecked()
    assert desk.asked == []


def test_the_next_message_is_compared_with_the_last_reply(
    panel: PromptPanel, desk: Desk, qtbot: QtBot
) -> None:
    press(panel, panel.next_button, qtbot)
    draft = dataclasses.replace(SECOND, message_id=None)
    desk.answer(draft)
    press(panel, panel.difference_button, qtbot)
    desk.answer(SECOND)
    assert panel.note.text().startswith("Same beginning: 9 tokens")
    press(panel, panel.surprise_button, qtbot)
    assert not panel.difference_button.isChecked()
    assert len(panel.text._strip) == 9


# --- as a widget --------------------------------------------------------------------------------


def test_every_control_has_a_name_and_a_way_by_keyboard(panel: PromptPanel) -> None:
    for kind in (QPushButton, PartsBar):
        for widget in panel.findChildren(kind):
            assert widget.objectName()
            assert widget.accessibleName()
            assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    for button in panel.findChildren(QPushButton):
        assert button.toolTip()
    assert panel.text.objectName() == "prompt_text"


@pytest.mark.parametrize(("width", "zoom"), [(300, 100), (420, 100), (840, 200), (900, 300)])
def test_it_fits_a_narrow_section_at_any_zoom(
    panel: PromptPanel, section: Section, theme: Theme, qtbot: QtBot, width: int, zoom: int
) -> None:
    theme.set_zoom(zoom)
    section.resize(width, 860)
    qtbot.waitUntil(lambda: section.width() == width)
    press(panel, panel.surprise_button, qtbot)
    qtbot.waitUntil(lambda: panel.text.is_whole)
    for widget in panel.findChildren(QWidget):
        if widget.isVisible() and isinstance(widget, QLabel | QPushButton):
            right = widget.mapTo(section, QPoint(widget.width(), 0)).x()
            assert right <= width, widget.objectName()
