"""What is looked at inside follows the chosen token, and place and arrays belong together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_inside import PROMPT, AnsweredByHand
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation

from app.chat.events import ConversationOpened, EngineStateChanged, TraceRead
from models.records import Message
from ui.section.inside.view import CANCELLED, CHOOSE, InsideView
from ui.section.looking import READING, Looking

N_PROMPT = len(PROMPT)


@pytest.fixture
def view(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, reply: Message, qtbot: QtBot
) -> InsideView:
    return InsideView(looking, desk, bridge)  # type: ignore[arg-type]


def test_a_token_is_about_the_place_before_it(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    assert (view.sentence, view.place, inside.asked) == (CHOOSE, None, [])
    looking.select(0)
    assert view.place is None  # not before there is something to see
    inside.answer()
    assert view.place == N_PROMPT - 1
    assert (view.read_word, view.piece(N_PROMPT)) == ("·is", "·Paris")
    assert (view.target, view.index, view.n_layer) == (100, 0, 4)
    assert view.seen is not None
    assert int(view.seen.arrays["logits"].argmax()) == 100


def test_asleep_it_asks_nothing(view: InsideView, looking: Looking, inside: AnsweredByHand) -> None:
    looking.select(1)
    assert inside.asked == []
    view.set_awake(True)
    assert [place for place, _ in inside.asked] == [N_PROMPT]


def test_what_was_looked_at_stays_until_the_next_is_here(
    view: InsideView, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    first = view.seen
    looking.select(1)
    assert (view.place, view.seen) == (N_PROMPT - 1, first)
    inside.answer(is_whole=False)
    assert view.place == N_PROMPT
    assert view.is_waiting
    assert "lens_ids" not in view.seen.arrays  # type: ignore[union-attr]
    inside.answer()
    assert not view.is_waiting
    looking.select(2)
    with qtbot.waitSignal(view.seen_changed):
        pass  # nothing comes, and what is gone is not shown for long
    assert (view.place, view.seen) == (N_PROMPT + 1, None)


def test_one_step_back_from_the_first_token_is_into_the_prompt(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    view.step(-1)
    inside.answer()
    assert (view.place, view.index, looking.index) == (N_PROMPT - 2, None, None)
    assert (view.read_word, view.target) == ("·capital", 103)
    assert looking.aside == "·is · token 4 of the prompt"  # what all panels say above
    for _ in range(9):
        view.step(-1)
        if inside.is_asked:
            inside.answer()
    assert view.place == 0
    for _ in range(N_PROMPT - 1):
        view.step(1)
        inside.answer()
    assert (view.place, looking.index) == (N_PROMPT - 1, 0)


def test_behind_the_last_token_nothing_is_known_to_come(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(3)
    inside.answer()
    view.step(1)
    inside.answer()
    assert (view.place, view.target, looking.index) == (N_PROMPT + 3, None, None)
    view.step(1)
    assert view.place == N_PROMPT + 3


def test_steps_in_a_row_go_on_from_where_one_is_going(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    view.step(1)
    view.step(1)
    inside.answer()
    assert (view.place, looking.index) == (N_PROMPT + 1, 2)


def test_layer_and_head_stay_from_token_to_token(
    view: InsideView, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    with qtbot.waitSignals([view.layer_changed, view.head_changed]):
        view.choose_head(2, 1)
    looking.select(1)
    inside.answer()
    assert (view.layer, view.head) == (2, 1)


def test_a_reply_that_cannot_be_looked_into_says_why_and_when_it_can_it_is(
    view: InsideView, looking: Looking, inside: AnsweredByHand, desk: FakeDesk, bridge: FakeBridge
) -> None:
    inside.why_not = "No model is loaded."
    view.set_awake(True)
    looking.select(0)
    assert (view.sentence, inside.asked) == ("No model is loaded.", [])
    inside.why_not = ""
    desk.loader.loaded = object()
    bridge.emit_event(EngineStateChanged("ready"))
    inside.answer()
    assert view.seen is not None
    inside.why_not = "No model is loaded."
    desk.loader.loaded = None
    bridge.emit_event(EngineStateChanged("stopped"))
    assert (view.seen, view.place, view.sentence) == (None, None, "No model is loaded.")


def test_a_trace_that_cannot_be_read_says_so(
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
    inside: AnsweredByHand,
    ask: Callable[..., tuple[Message, ...]],
    qtbot: QtBot,
) -> None:
    view = InsideView(looking, desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    view.set_awake(True)
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    assert view.sentence == READING
    bridge.emit_event(TraceRead(desk.shelf.path[-1].id, (), "It can't be read."))
    assert view.sentence == "It can't be read."


def test_while_a_reply_is_written_nothing_is_asked_and_nothing_shown_anew(
    view: InsideView, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    inside.why_not = "This reply is still being generated."
    looking.is_growing = True
    view.set_awake(True)
    assert view.sentence == inside.why_not
    with qtbot.assertNotEmitted(view.seen_changed):
        looking.traces = (*looking.traces, looking.traces[0])
        looking.trace_changed.emit()


def test_a_failure_is_shown_and_one_can_ask_again(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.fail("No room for that.")
    assert (view.sentence, view.seen, view.place) == ("No room for that.", None, N_PROMPT - 1)
    view.again()
    inside.answer()
    assert (view.sentence, view.seen is not None) == ("", True)


def test_what_came_before_it_was_cancelled_stays(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.progress(1, 4)
    assert view.progress == (1, 4)
    inside.answer(is_whole=False)
    view.cancel()
    assert (view.sentence, view.progress, view.is_waiting) == (CANCELLED, None, False)
    assert view.seen is not None
    assert not inside.is_asked


def test_a_card_that_wants_more_has_it_asked_for(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    view.want(["q_after", "logits"])
    assert "q_after" in inside.asked[-1][1]
    inside.answer()
    assert "q_after" in view.seen.arrays  # type: ignore[union-attr]
    n_asked = len(inside.asked)
    view.want(["q_after"])
    assert len(inside.asked) == n_asked


def test_a_text_that_comes_when_another_token_is_chosen_is_dropped(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    inside.gives_text = False
    looking.select(0)
    looking.select(1)
    inside.give_text()
    assert [place for place, _ in inside.asked] == [N_PROMPT]


def test_what_the_network_made_of_a_token_that_was_left_is_dropped(
    view: InsideView, looking: Looking, inside: AnsweredByHand
) -> None:
    view.set_awake(True)
    looking.select(0)
    late = inside.late_answer()
    looking.select(1)
    late()
    assert view.place is None
    inside.answer()
    assert view.place == N_PROMPT


def test_while_a_text_is_read_for_long_nothing_of_another_one_stands_there(
    view: InsideView, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    inside.gives_text = False
    with qtbot.waitSignal(view.seen_changed):
        looking.select(1)
    assert (view.text, view.place, view.seen, view.sentence) == (None, None, None, "")
    assert view.is_waiting
    inside.give_text()
    inside.answer()
    assert view.place == N_PROMPT
