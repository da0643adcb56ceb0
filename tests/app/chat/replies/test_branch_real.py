"""Branching on the included weights: what is reused and evaluated, and that bytes stay bytes."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.engine.protocol.pieces import unpack
from models.records import Message

pytestmark = pytest.mark.weights


@pytest.fixture
def room(forked_engines: None, make_room: Any, data_dir: Path, starter_gguf: Path) -> Any:
    room = make_room(gguf=starter_gguf, is_real=True)
    for name, value in (
        *(("n_threads", 1), ("temperature", 0.8), ("seed", 3)),
        *(("max_tokens", 12), ("min_tokens", 12)),
    ):
        room.desk.settings.set(name, value)
    return room.start_ready()


def trace(room: Any, message: Message) -> list[Any]:
    before = len(room.of(events.TraceRead))
    room.desk.growing.read_trace(message.id)
    room.until(lambda: len(room.of(events.TraceRead)) > before, "the trace")
    return list(room.of(events.TraceRead)[-1].tokens)


def after(room: Any, old: Message) -> Message:
    new: Message = room.until(
        lambda: (r := room.ended_reply()) and r.id != old.id and r, "the branch"
    )
    assert new.error is None
    return new


def spelled(tokens: list[Any]) -> str:
    """What bytes say, by Python's own decoder."""
    return b"".join(token.piece for token in tokens).decode("utf-8", "replace")


def text_of(tokens: list[Any]) -> str:
    """The same as a reply has it: without a character that is cut off at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(b"".join(token.piece for token in tokens))


def test_branches_say_what_their_bytes_say(room: Any) -> None:
    """One after another: to load the weights takes longest."""
    it_evaluates_one_token(room)
    room.desk.shelf.open_new()
    a_typed_text_and_the_middle_of_its_character(room)
    a_continuation_of_a_text_and_a_choice_in_step_mode(room)


def it_evaluates_one_token(room: Any) -> None:
    old = room.ask("Write about a bird.")
    was = trace(room, old)
    second = next(i for i in unpack(was[6].alternative_ids) if i != was[6].token_id)
    room.desk.branches.at(old.id, 6, second)
    new = after(room, old)
    now = trace(room, new)
    assert (new.counts.evaluated, new.counts.reused) == (1, old.counts.prompt_tokens + 5)
    assert new.token_ids[:7] == (*old.token_ids[:6], second)
    assert [token.token_id for token in now] == list(new.token_ids)
    assert now[:6] == was[:6]
    assert now[6].alternative_ids == was[6].alternative_ids
    assert (now[6].chosen, [token.index for token in now]) == (True, list(range(len(now))))
    assert new.content == text_of(now)
    # The next turn begins with all of it.
    reply = room.ask("Go on.")
    assert reply.counts.reused >= new.counts.context_used
    assert reply.counts.evaluated < 40


def a_typed_text_and_the_middle_of_its_character(room: Any) -> None:
    old = room.ask("Write about a bird.")
    room.desk.branches.at_text(old.id, 3, " a 🦤")
    typed = after(room, old)
    tokens = trace(room, typed)
    n_typed = sum(token.chosen for token in tokens)
    assert spelled(tokens[3 : 3 + n_typed]) == " a 🦤"
    assert typed.content == text_of(tokens)  # the limit cuts a bird in two
    assert typed.counts.evaluated == 1
    # Its last token is the end of the character: another one leaves the character broken.
    place = 2 + n_typed
    assert spelled(tokens[:place]).endswith("\ufffd")
    room.desk.branches.at(typed.id, place, tokens[0].token_id)
    broken = after(room, typed)
    again = trace(room, broken)
    assert broken.content == text_of(again)
    assert spelled(again[: place + 1]).count("\ufffd") == 1
    assert broken.token_ids[:place] == typed.token_ids[:place]
    # And the right one makes it whole again, by IDs alone.
    room.desk.branches.at(broken.id, place, tokens[place].token_id)
    whole = after(room, broken)
    assert whole.content == text_of(trace(room, whole))
    assert whole.content.startswith(spelled(tokens[: place + 1]))
    assert "\ufffd" not in whole.content[: len(spelled(tokens[: place + 1]))]
    assert (whole.counts.evaluated, whole.sibling_index) == (1, 3)


def a_continuation_of_a_text_and_a_choice_in_step_mode(room: Any) -> None:
    room.desk.shelf.open_new_text()
    assert room.desk.text.go_on("The capital of France is", 24)
    old = room.until(room.ended_reply)
    was = trace(room, old)
    other = next(i for i in unpack(was[0].alternative_ids) if i != was[0].token_id)
    room.desk.step.begin()
    room.desk.branches.at(old.id, 0, other)
    held = room.until(lambda: room.desk.step.held_token, "a token is held")
    assert (held.token.index, len(room.of(events.TokenHeld))) == (1, 1)
    chosen = unpack(held.token.alternative_ids)[5]
    room.desk.step.choose(chosen)
    room.until(lambda: room.desk.step.held_token, "the next one is held")
    room.desk.step.run_on()
    new = after(room, old)
    now = trace(room, new)
    assert [token.chosen for token in now[:4]] == [True, True, False, False]
    assert (now[0].token_id, now[1].token_id) == (other, chosen)
    assert now[1].rank == 6
    assert new.counts.evaluated == 1
    assert room.desk.text.text == "The capital of France is" + spelled(now)
