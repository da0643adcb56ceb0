"""Merges one by one: buttons, slider and keys, what each step says, and how it was had."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.insight.tokenizer.merges import Part, Replay, Step
from ui.look.theme import Theme
from ui.section.tokens.merge_steps import MAX_CHIPS, MergeSteps

HELLO = Replay(
    start=(
        Part(b"l", 10, 0),
        Part(b"l", 10, 0),
        Part(b" ", 20, 1),
        Part(b"\xe2\x82\xac", None, 1),
    ),
    steps=(
        Step(0, 2, (Part(b"ll", 30, 0),), rank=1234),
        Step(2, 1, tuple(Part(bytes([b]), 40 + i, 1) for i, b in enumerate(b"\xe2\x82\xac"))),
    ),
    words_from="rule",
    rule="smollm",
)


@pytest.fixture
def card(theme: Theme, qtbot: QtBot) -> MergeSteps:
    built = MergeSteps(theme)
    qtbot.addWidget(built)
    built.resize(380, 300)
    built.show()
    qtbot.waitExposed(built)
    return built


def chips(card: MergeSteps) -> list[str]:
    model = card.parts.chips
    return [model.chip(row).text for row in range(model.rowCount())]


def test_it_begins_at_the_end_and_goes_back_and_forth(card: MergeSteps) -> None:
    card.show_replay(HELLO)
    assert chips(card) == ["ll", "·", "⟨E2⟩", "⟨82⟩", "⟨AC⟩"]
    assert card.figure.text() == "2 of 2 steps · 5 parts"
    assert "“€” isn't a token: spelled in bytes, E2 82 AC (byte fallback)" in card.sentence.text()
    assert card.sentence.text().endswith("These are the final tokens.")
    card.buttons["back"].click()
    assert chips(card) == ["ll", "·", "€"]
    assert card.sentence.text() == "“l” + “l” → “ll” (rank 1,234, ID 30)"
    card.buttons["first"].click()
    assert chips(card) == ["l", "l", "·", "€"]
    assert card.sentence.text().startswith("Before any merge: 4 bytes in 2 words")
    assert [button.isEnabled() for button in card.buttons.values()] == [False, False, True, True]
    card.buttons["next"].click()
    assert card.step == 1
    card.buttons["last"].click()
    assert card.step == 2
    assert [button.isEnabled() for button in card.buttons.values()] == [True, True, False, False]


def test_keys_go_step_by_step_and_to_either_end(card: MergeSteps) -> None:
    card.show_replay(HELLO)
    card.slider.setFocus()
    for key, step in (
        (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_Right, 2),
        (Qt.Key.Key_Left, 1),
        (Qt.Key.Key_End, 2),
    ):
        QTest.keyClick(card.slider, key)
        assert card.step == step


def test_what_the_step_made_is_marked_and_words_have_two_tones(card: MergeSteps) -> None:
    card.show_replay(HELLO)
    card.go_to(1)
    model = card.parts.chips
    assert [model.chip(row).is_new for row in range(3)] == [True, False, False]
    assert [model.chip(row).is_second for row in range(3)] == [False, True, True]
    card.go_to(2)
    assert [model.chip(row).is_new for row in range(5)] == [False, False, True, True, True]


def test_a_score_is_said_instead_of_a_rank(card: MergeSteps) -> None:
    step = Step(0, 2, (Part(b"ab", 3, 0),), score=-5.0)
    card.show_replay(Replay((Part(b"a", 1, 0), Part(b"b", 2, 0)), (step,), "text"))
    assert "“a” + “b” → “ab” (score −5, ID 3)" in card.sentence.text()
    assert "scores in the file" in card.caption.text()
    card.go_to(0)
    assert card.sentence.text().startswith("Before any merge: 2 characters. ")


def test_unigram_joins_a_token_at_a_time(card: MergeSteps) -> None:
    letters = tuple(Part(bytes([byte]), None, 0) for byte in b"abcx")
    known = Step(0, 3, (Part(b"abc", 3, 0),), score=-9.5)
    card.show_replay(Replay(letters, (known,), "sum"))
    assert card.sentence.text().startswith("“a” + “b” + “c” → “abc” (score −9.5, ID 3)")
    assert card.caption.text().startswith("Unigram: ")
    unknown = Step(2, 2, (Part(b"cx", 2, 0),))
    card.show_replay(Replay(letters, (unknown,), "sum"))
    assert card.sentence.text().startswith("“c” + “x” → “cx” (unknown, ID 2)")


def test_the_caption_says_how_words_were_found(card: MergeSteps) -> None:
    card.show_replay(HELLO)
    assert "rule “smollm”" in card.caption.text()
    assert "same IDs" in card.caption.text()
    unknown = Replay(HELLO.start, HELLO.steps, "tokens", "tomorrow")
    card.show_replay(unknown)
    assert card.caption.text().startswith("The word rule “tomorrow” isn't supported here")


def test_nothing_to_merge_and_no_replay_are_said(card: MergeSteps) -> None:
    card.show_replay(Replay((Part(b"a", 1, 0),), (), "rule"))
    assert card.sentence.text() == "Nothing to merge: each part is already a token."
    card.say("This kind is not replayed.")
    assert card.sentence.text() == "This kind is not replayed."
    assert not card.slider.isVisible()
    assert not any(button.isVisible() for button in card.buttons.values())
    card.show_replay(HELLO)
    assert card.slider.isVisible()


def test_a_long_text_draws_the_parts_around_the_step_and_says_how_many_there_are(
    card: MergeSteps,
) -> None:
    n_parts = MAX_CHIPS + 205
    start = tuple(Part(b"a", 1, 0) for _ in range(n_parts))
    steps = [Step(at, 2, (Part(b"aa", 2, 0),), rank=0) for at in (0, n_parts // 2, n_parts - 4)]
    card.show_replay(Replay(start, tuple(steps), "rule"))
    model = card.parts.chips

    def ends() -> tuple[str, str]:
        return model.chip(0).below, model.chip(model.rowCount() - 1).below

    card.go_to(0)
    assert (model.rowCount(), ends()) == (MAX_CHIPS + 1, ("1", "205 more"))
    for step, around in ((1, ("2", "204 more")), (2, ("152 before", "51 more"))):
        card.go_to(step)
        assert ends() == around
        assert [chip.text for chip in model._chips if chip.is_new] == ["aa"]
    card.go_to(3)
    assert ends() == ("202 before", "2")
    assert card.figure.text() == f"3 of 3 steps · {n_parts - 3} parts"


SHOWN_S = 0.05


def test_a_step_of_a_text_of_4000_characters_holds_the_window_no_longer_than_stated(
    card: MergeSteps,
) -> None:
    """Processor time of the window's thread, until it is painted."""
    start = tuple(Part(b"%d" % at, at, at % 2) for at in range(4000))
    steps = tuple(Step(0, 2, (Part(b"x%d" % at, at, 0),), rank=at) for at in range(3000))
    card.show_replay(Replay(start, steps, "rule"))
    took = []
    for step in range(10, 20):
        begun = time.thread_time()
        card.go_to(step * 100)
        card.grab()
        took.append(time.thread_time() - begun)
    assert sorted(took)[5] < SHOWN_S


def test_every_control_has_a_name_for_whoever_cannot_see_it(card: MergeSteps) -> None:
    names = {
        "merge_first_button",
        "merge_back_button",
        "merge_next_button",
        "merge_last_button",
        "merge_slider",
        "merge_parts",
    }
    widgets = [card.slider, card.parts, *card.buttons.values()]
    assert {widget.objectName() for widget in widgets} == names
    assert all(widget.accessibleName() for widget in widgets)
