"""Any text as tokens: asked after a rest, late answers dropped, counted, and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from made_words import BYTE, CONTROL, made_pieces
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, VocabularyRead
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import Still
from app.engine.protocol.messages import Tokens
from app.insight.tokenizer.merges import Part, Replay
from ui.section.panel import Tools
from ui.section.tokens import try_text
from ui.section.tokens.try_text import EMPTY, EXAMPLE, MAX_CHIPS, TryText


@dataclass
class Question:
    text: str
    then: Callable[[Any], None]
    failed: Callable[[str], None]
    special: bool
    at: float
    ids: tuple[int, ...] = ()


def while_so(still: Still, act: Callable[[Any], None]) -> Callable[[Any], None]:
    """As the desk does it."""
    return lambda found: act(found) if still() else None


class Engine:
    """What was asked of the desk; a test answers."""

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[Question] = []
        self.replays: list[Question] = []
        desk.questions.tokenize = self.tokenize
        desk.vocabulary.replay = self.replay

    def tokenize(
        self, text: str, then: Any, failed: Any, *, still: Still, special: bool = False
    ) -> None:
        answers = while_so(still, then), while_so(still, failed)
        self.asked.append(Question(text, *answers, special, time.monotonic()))

    def replay(
        self, text: str, ids: Any, then: Any, failed: Any, *, still: Still, special: bool = False
    ) -> None:
        answers = while_so(still, then), while_so(still, failed)
        self.replays.append(Question(text, *answers, special, time.monotonic(), tuple(ids)))


@pytest.fixture
def engine(desk: FakeDesk) -> Engine:
    return Engine(desk)


@pytest.fixture
def room(tools: Tools, engine: Engine, qtbot: QtBot) -> Iterator[TryText]:
    built = TryText(tools)
    qtbot.addWidget(built)
    built.resize(396, 700)
    built.show()
    qtbot.waitExposed(built)
    built.set_active(True)
    yield built
    built.set_active(False)


ANSWER = Tokens([5, 1, 2], [b" a", b"\xff", b"<end>"])


def texts(room: TryText) -> list[tuple[str, str]]:
    model = room.chips.chips
    return [(model.chip(row).text, model.chip(row).below) for row in range(model.rowCount())]


def test_the_example_is_asked_for_when_it_is_first_shown(room: TryText, engine: Engine) -> None:
    assert [question.text for question in engine.asked] == [EXAMPLE]
    assert not engine.asked[0].special
    engine.asked[0].then(ANSWER)
    assert [text for text, _ in texts(room)] == ["·a", "⟨FF⟩", "<end>"]
    assert room.tokens_card.figure.text() == "3 tokens · 24 characters · 24 bytes"


def test_it_is_asked_once_after_the_last_key(room: TryText, engine: Engine, qtbot: QtBot) -> None:
    engine.asked.clear()
    room.text.clear()
    begun = time.monotonic()
    for letter in "Zürich\u00a0🦊":
        room.text.insertPlainText(letter)
    qtbot.waitUntil(lambda: bool(engine.asked))
    assert [question.text for question in engine.asked] == ["Zürich\u00a0🦊"]
    assert engine.asked[0].at - begun >= try_text.REST_MS / 1000 * 0.95
    engine.asked[0].then(ANSWER)
    assert room.tokens_card.figure.text() == "3 tokens · 8 characters · 13 bytes"


def test_an_answer_that_was_overtaken_is_dropped(
    room: TryText, engine: Engine, qtbot: QtBot
) -> None:
    room.text.setPlainText("new")
    qtbot.waitUntil(lambda: len(engine.asked) == 2)
    old, new = engine.asked
    new.then(Tokens([9], [b"new"]))
    old.then(ANSWER)
    old.failed("late")
    assert texts(room) == [("new", "9")]
    engine.replays[0].then(Replay((Part(b"new", 9, 0),), (), "rule"))
    room.special.setChecked(True)
    replay = engine.replays[0]
    replay.failed("late")
    assert room.steps.sentence.text() == "Nothing to merge: each part is already a token."


def test_control_tokens_count_as_tokens_only_where_it_is_wanted(
    room: TryText, engine: Engine
) -> None:
    room.special.setChecked(True)
    assert [question.special for question in engine.asked] == [False, True]
    engine.asked[1].then(ANSWER)
    assert engine.replays[0].special
    assert engine.replays[0].ids == (5, 1, 2)


def test_types_are_below_the_ids_once_the_words_are_there(
    room: TryText, engine: Engine, desk: FakeDesk, bridge: FakeBridge
) -> None:
    engine.asked[0].then(ANSWER)
    assert texts(room) == [("·a", "5"), ("⟨FF⟩", "1"), ("<end>", "2")]
    words = made_pieces([b"x"] * 6, [4, BYTE, CONTROL])
    desk.loader.state = EngineStateChanged("ready", "w", loaded(fast_hash="w1"))
    desk.words.of = lambda fast_hash: words if fast_hash == "w1" else None
    bridge.emit_event(VocabularyRead("w1"))
    assert texts(room) == [("·a", "5"), ("⟨FF⟩", "1 · byte"), ("<end>", "2 · control")]
    room.chips.setCurrentIndex(room.chips.chips.index(1))
    assert room.detail.text() == "“⟨FF⟩” · ID 1 · byte · 1 byte: FF"


def test_the_replay_of_the_text_is_shown_or_why_there_is_none(
    room: TryText, engine: Engine
) -> None:
    engine.asked[0].then(ANSWER)
    (replay,) = engine.replays
    assert replay.text == EXAMPLE
    replay.failed("This kind is not replayed.")
    assert room.steps.sentence.text() == "This kind is not replayed."
    replay.then(Replay((Part(b"a", 1, 0),), (), "rule", "smollm"))
    assert room.steps.slider.isVisible()


def test_without_weights_it_is_said_and_asked_again_when_there_are_some(
    room: TryText, engine: Engine, bridge: FakeBridge
) -> None:
    engine.asked[0].failed(NO_WEIGHTS)
    assert room.detail.text() == NO_WEIGHTS
    assert texts(room) == []
    assert not room.copy_button.isEnabled()
    bridge.emit_event(EngineStateChanged("ready"))
    assert len(engine.asked) == 2
    room.set_active(False)
    bridge.emit_event(EngineStateChanged("ready"))
    assert len(engine.asked) == 2, "nobody looks"


def test_it_is_not_asked_again_while_the_same_weights_work(
    room: TryText, engine: Engine, desk: FakeDesk, bridge: FakeBridge
) -> None:
    """A step that somebody looks at stays while a reply begins and ends."""
    for name, asked in (("w1", 2), ("w1", 2), ("w2", 3)):
        desk.loader.state = EngineStateChanged("busy", name, loaded(fast_hash=name))
        bridge.emit_event(desk.loader.state)
        assert len(engine.asked) == asked
        engine.asked[-1].then(ANSWER)
    room.set_active(False)
    room.set_active(True)
    assert len(engine.asked) == 3


def test_an_empty_text_says_what_to_do(room: TryText, engine: Engine, qtbot: QtBot) -> None:
    engine.asked[0].then(ANSWER)
    room.text.clear()
    qtbot.waitUntil(lambda: room.detail.text() == EMPTY)
    assert len(engine.asked) == 1, "the engine need not be asked"
    assert room.tokens_card.figure.text() == "0 tokens · 0 characters · 0 bytes"
    assert texts(room) == []
    assert room.steps.sentence.text() == ""


def test_a_sentence_that_stands_alone_stands_below_its_title(
    room: TryText, engine: Engine, qtbot: QtBot
) -> None:
    """A title in the middle of a card that is empty otherwise looks broken."""
    engine.asked[0].then(ANSWER)
    engine.replays[0].failed("Too long.")
    QApplication.processEvents()
    cards = ((room.steps, room.steps.sentence), (room.tokens_card, room.detail))
    steps, sentence = cards[0]
    assert steps.title.y() < steps.height() / 5
    assert sentence.y() < steps.height() / 4
    assert room.chips.isVisible()
    room.text.clear()
    qtbot.waitUntil(lambda: room.detail.text() == EMPTY)
    QApplication.processEvents()
    assert not room.chips.isVisible()
    assert not steps.isVisible(), "there is nothing that it could say"
    card, detail = cards[1]
    assert card.title.y() < card.height() / 5
    assert detail.y() < card.height() / 4
    room.text.setPlainText("new")
    qtbot.waitUntil(lambda: engine.asked[-1].text == "new")
    engine.asked[-1].then(ANSWER)
    assert room.chips.isVisible()
    assert steps.isVisible()


def test_enter_on_a_chip_looks_its_id_up(room: TryText, engine: Engine, qtbot: QtBot) -> None:
    engine.asked[0].then(ANSWER)
    room.chips.setFocus()
    room.chips.setCurrentIndex(room.chips.chips.index(2))
    with qtbot.waitSignal(room.vocabulary_wanted) as wanted:
        QTest.keyClick(room.chips, Qt.Key.Key_Return)
    assert wanted.args == [2]


def test_ids_are_copied_as_a_list(room: TryText, engine: Engine) -> None:
    engine.asked[0].then(ANSWER)
    room.copy_button.click()
    assert QGuiApplication.clipboard().text() == "[5, 1, 2]"


def test_a_long_text_is_counted_whole_and_drawn_in_part(room: TryText, engine: Engine) -> None:
    count = MAX_CHIPS + 10
    engine.asked[0].then(Tokens([1] * count, [b"a"] * count))
    assert len(texts(room)) == MAX_CHIPS + 1
    assert texts(room)[-1] == ("…", "10 more")
    assert room.tokens_card.figure.text().startswith(f"{count:,} tokens")


def test_everything_has_a_name(room: TryText) -> None:
    widgets = (room.text, room.special, room.chips, room.copy_button)
    assert [widget.objectName() for widget in widgets] == [
        *("tokenise_text", "tokenise_special", "tokenise_chips", "copy_ids_button"),
    ]
    assert all(widget.accessibleName() or widget.text() for widget in widgets)  # type: ignore[attr-defined]
