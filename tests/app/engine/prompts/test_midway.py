"""What can leave a prompt in the middle of its reply: whole turns, and what remains is what the
template would have written without them."""

from __future__ import annotations

import pytest
from test_fitting import WINDOW, build, chat, words

from app.engine.prompts.fitting import Policy, fit_prompt
from app.engine.prompts.midway import (
    Stretch,
    ids_without,
    parts_without,
    rest_without,
    shift_of,
    to_leave_out,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt, TextPrompt


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("drop_oldest", ["m0", "m2", "m6"]),
        ("summarize", ["m0", "m2", "m6"]),
        ("keep_ends", ["m2", "m6", "m0"]),
        ("stop", []),
    ],
)
def test_turns_go_in_the_order_of_their_policy(policy: Policy, order: list[str]) -> None:
    """Not the pinned one, and not the one that is answered."""
    prompt = chat(*[10] * 9, system=10, pinned=(4,))
    built = fit_prompt(prompt, build, WINDOW, policy)
    assert [stretch.messages[0].message_id for stretch in built.stretches] == order
    left = [m for m in prompt.messages if m.message_id not in ("m0", "m1", "m2", "m3")]
    gone = [s for s in built.stretches if s.messages[0].message_id in ("m0", "m2")]
    if gone:
        shorter = fit_prompt(ChatPrompt(left), build, WINDOW, "stop")
        assert ids_without(built.ids, gone) == shorter.ids
        assert parts_without(built.parts, gone) == shorter.parts
        rest = fit_prompt(ChatPrompt(left), build, WINDOW, policy).stretches
        moved = rest_without(built.stretches, gone)
        assert [(s.start, s.end) for s in moved] == [
            (s.start, s.end) for s in rest if s.messages[0].message_id in order
        ]


def test_after_a_cut_it_goes_on_with_what_is_left() -> None:
    built = fit_prompt(chat(*[20] * 13), build, WINDOW, "drop_oldest")
    assert built.cut[-1].message_id == "m5"
    first = built.stretches[0]
    assert first.messages[0].message_id == "m6"
    assert "".join(map(chr, built.ids[first.start :])).startswith(words(20, 6))


def test_what_has_no_question_before_it_has_no_stretch() -> None:
    """What stands before its text is not what stands before the next turn's."""
    opened = [ChatMessage("assistant", "Hi", message_id="hi"), *chat(9, 9, 9).messages]
    built = fit_prompt(ChatPrompt(opened), build, WINDOW, "drop_oldest")
    assert [s.messages[0].message_id for s in built.stretches] == ["m0"]
    unknown = fit_prompt(IdsPrompt([1] * 20), build, WINDOW, "drop_oldest")
    assert unknown.stretches == []


@pytest.mark.parametrize(("policy", "first"), [("drop_oldest", 0), ("keep_ends", 32)])
def test_a_text_goes_piece_by_piece(policy: Policy, first: int) -> None:
    built = fit_prompt(TextPrompt("x" * 200), build, WINDOW, policy)
    gone = to_leave_out(built.stretches, WINDOW, WINDOW)
    assert gone[0].start == first
    assert gone[-1].end - first == 112  # sixteen at a time, down to 153
    shift = shift_of(gone, 57)
    assert (shift.n_messages, shift.n_tokens) == (0, 112)
    assert "part of the text was dropped" in shift.sentence


def test_it_is_said_in_words() -> None:
    (stretch,) = fit_prompt(chat(9, 9, 9), build, WINDOW, "drop_oldest").stretches
    shift = shift_of([stretch], 5, "its keys are quantized")
    assert "2 messages were dropped from the prompt (22 tokens)" in shift.sentence
    assert shift.sentence.endswith("The rest was processed again: its keys are quantized.")
    assert shift.was_read_again
    assert not to_leave_out([Stretch(0, 9)], 153, WINDOW)
