"""Step mode on a real store and the scripted engine: taking, choosing, leaving, and every end."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec
import pytest

from app.chat import events
from app.chat.replies import step_mode
from app.chat.replies.reply import CLOSED_SENTENCE
from app.chat.surroundings import ALWAYS
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import Held
from app.insight.sampling.waterfall import waterfall
from models.records import Message, MessageState

WORDS = {
    "replies": [
        {
            "tokens": [
                {"text": word, "alternatives": [["one", 0.5], ["ten", 0.2]], "uniform": 0.5}
                for word in ("one", " two", " three", " four")
            ]
        }
    ],
}
SLOW = {"replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}]}


def held(room: Any, n: int) -> events.TokenHeld:
    """The n-th time that a reply was held."""
    room.until(lambda: len(room.of(events.TokenHeld)) >= n, f"token {n} is held")
    event: events.TokenHeld = room.of(events.TokenHeld)[n - 1]
    return event


def id_of(room: Any, text: str) -> int:
    found: list[int] = []
    room.desk.questions.tokenize(
        text, lambda tokens: found.extend(tokens.token_ids), pytest.fail, still=ALWAYS
    )
    room.until(lambda: found, "the token")
    return found[0]


def trace(room: Any, message: Message) -> list[Any]:
    room.desk.growing.read_trace(message.id)
    room.until(lambda: room.of(events.TraceRead), "the trace")
    return list(room.of(events.TraceRead)[-1].tokens)


def ended(room: Any) -> Message:
    reply: Message = room.until(room.ended_reply, "the end")
    return reply


def said(room: Any, sentence: str) -> bool:
    return any(notice.sentence == sentence for notice in room.of(events.Noticed))


@pytest.fixture
def room(make_room: Any) -> Any:
    """A reply that waits at its first token."""
    room = make_room(WORDS).start_ready()
    assert not room.desk.step.is_on
    room.desk.step.begin()
    assert room.desk.step.is_on
    assert room.of(events.StepModeChanged) == [events.StepModeChanged(True)]
    assert room.desk.replies.send("Count.")
    held(room, 1)
    return room


def test_a_held_token_whose_arrays_do_not_fit_is_shown_as_far_as_they_do(room: Any) -> None:
    """It comes from another process, and goes past the table that appended tokens are read from."""
    token = held(room, 1).token
    (request_id,) = room.desk.step._waiting
    odd = msgspec.structs.replace(
        token,
        alternative_ids=Array("f8", [2], token.alternative_ids.data[:8] + bytes(8)),
        alternative_logprobs=Array("i4", [1], token.alternative_logprobs.data[:4]),
        removed_by=Array("u4", [2], bytes(8)),
    )
    room.desk.step.take_held(Held(request_id, odd))
    shown = room.desk.step.held_token.token
    assert [one.shape for one in (shown.alternative_ids, shown.alternative_logprobs)] == [[1], [1]]
    assert (shown.alternative_ids.dtype, shown.alternative_logprobs.dtype) == ("i4", "f4")
    assert waterfall(shown, None).candidates[0].token_id == token.token_id


def test_each_token_waits_and_is_taken_or_another_is_chosen(room: Any) -> None:
    first = held(room, 1)
    assert first.token.piece == b"one"
    assert room.desk.step.held_token == first
    assert room.desk.shelf.path[-1].content == ""
    ten = id_of(room, "ten")
    room.desk.step.take()
    assert room.desk.step.held_token is None
    second = held(room, 2)
    assert (second.token.piece, second.token.index) == (b" two", 1)
    room.desk.step.choose(ten)
    held(room, 3)
    assert room.desk.shelf.path[-1].content == "oneten"
    assert room.of(events.HeldEnded) == []
    room.desk.step.run_on()
    assert not room.desk.step.is_on
    reply = ended(room)
    assert reply.content == "oneten three four"
    assert [token.chosen for token in trace(room, reply)] == [False, True, False, False]
    assert [token.uniform for token in trace(room, reply)] == [0.5, None, 0.5, 0.5]
    assert room.of(events.HeldEnded) == [events.HeldEnded(reply.conversation_id, reply.id)]


def test_stop_here_ends_without_the_token_that_it_waits_at(room: Any) -> None:
    room.desk.step.take()
    held(room, 2)
    room.desk.step.stop()
    reply = ended(room)
    assert (reply.content, reply.state) == ("one", MessageState.STOPPED)
    assert len(reply.token_ids or ()) == 1
    assert len(room.of(events.HeldEnded)) == 1
    assert room.desk.step.is_on  # the next message waits again


def test_acts_without_a_held_token_do_nothing(room: Any) -> None:
    room.desk.step.take()
    room.desk.step.take()  # the next one is not there yet
    room.desk.step.choose(3)
    held(room, 2)
    assert room.desk.shelf.path[-1].content == "one"
    room.desk.step.run_on()
    ended(room)
    for act in (room.desk.step.take, room.desk.step.run_on, room.desk.step.stop):
        act()
    assert len(room.of(events.HeldEnded)) == 1


def test_a_running_reply_is_held_where_it_is(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    assert room.desk.replies.send("Go.")
    room.until(lambda: room.growing(30))
    room.desk.step.begin()
    event = held(room, 1)
    n_shown = len(room.desk.shelf.path[-1].content)
    assert event.token.index == n_shown // len("again ") > 0
    room.desk.step.run_on()
    room.until(lambda: len(room.growing().content) > n_shown + 60)
    assert room.desk.step.held_token is None
    room.desk.replies.stop()
    ended(room)


def test_the_time_of_the_one_who_thinks_is_in_no_figure(room: Any) -> None:
    thought_s, clock = 1000.0, room.desk.around.clock
    room.desk.around.clock = lambda: clock() + thought_s
    room.desk.step.take()
    held(room, 2)
    room.desk.step.run_on()
    reply = ended(room)
    shown = room.of(events.StatusFigures)
    assert all(figures.tokens_per_s is None for figures in shown)
    assert all(figures.first_token_s < 0.5 * thought_s for figures in shown)
    assert reply.counts.tokens_per_s > 20


def test_several_answers_and_exact_repetitions_do_not_wait(room: Any) -> None:
    room.desk.step.run_on()
    first = ended(room)
    room.desk.step.begin()
    room.desk.replies.ask_several(first.id, [{}, {}])
    several = room.until(lambda: (r := room.ended_reply()) and r.id != first.id and r)
    room.desk.again.run(several.id)
    room.until(lambda: (r := room.ended_reply()) and r.id not in (first.id, several.id))
    assert len(room.of(events.TokenHeld)) == 1
    room.desk.replies.answer(room.desk.shelf.path[-1].id)
    held(room, 2)


def test_a_branch_waits_behind_what_was_chosen(room: Any) -> None:
    room.desk.step.run_on()
    first = ended(room)
    room.desk.step.begin()
    room.desk.branches.at(first.id, 1, first.token_ids[0])
    event = held(room, 2)
    assert (event.token.index, event.token.piece) == (2, b" three")
    assert room.desk.shelf.path[-1].content == "oneone"


# --- leaving and ending ---------------------------------------------------------------------------


def test_another_chat_is_opened_and_the_first_one_waits(room: Any) -> None:
    first = room.desk.shelf.open
    room.desk.shelf.open_new()
    assert said(room, step_mode.LEFT_WAITING.format(title=first.title))
    assert room.desk.step.held_token is None
    room.desk.step.take()  # nothing waits here
    room.desk.shelf.open_stored(first.id)
    room.until(lambda: room.desk.shelf.open.id == first.id)
    assert room.desk.step.held_token == held(room, 1)
    room.desk.step.run_on()
    assert ended(room).content == "one two three four"


def test_a_message_that_waits_for_a_held_reply_says_so(room: Any) -> None:
    first = room.desk.shelf.open
    engine = room.desk.growing
    request_id = next(iter(engine._requests))
    room.desk.shelf.open_new()
    assert room.desk.replies.send("And here?")
    room.until(lambda: len(engine._requests) == 2, "the second request")
    (second,) = set(engine._requests) - {request_id}
    from app.engine.protocol.messages import Queued

    for _ in range(2):
        room.desk._take(Queued(second, 1))
    sentence = step_mode.WAITS_FOR_HELD.format(title=first.title)
    assert [n.sentence for n in room.of(events.Noticed)].count(sentence) == 1


def test_the_engine_dies_while_a_reply_is_held(room: Any) -> None:
    room.desk.step.take()
    held(room, 2)
    os.kill(room.desk._engine.hello.pid, signal.SIGKILL)
    reply = ended(room)
    assert (reply.content, reply.state) == ("one", MessageState.INTERRUPTED)
    assert reply.error
    assert len(room.of(events.HeldEnded)) == 1
    assert room.desk.step.held_token is None
    assert len(trace(room, reply)) == 1
    room.desk.replies.answer(reply.id)  # weights load again, and it waits as before
    held(room, 3)


def test_it_dies_before_the_first_token_was_taken(room: Any) -> None:
    os.kill(room.desk._engine.hello.pid, signal.SIGKILL)
    reply = ended(room)
    assert (reply.content, reply.state) == ("", MessageState.FAILED)
    assert len(room.of(events.HeldEnded)) == 1


def test_the_app_is_closed_while_a_reply_is_held(room: Any, make_room: Any) -> None:
    room.desk.step.take()
    held(room, 2)
    conversation = room.desk.shelf.open
    room.close()
    again = make_room(WORDS).start_ready()
    again.until(lambda: again.desk.shelf.open.id == conversation.id)
    last = again.desk.shelf.path[-1]
    assert (last.content, last.state) == ("one", MessageState.INTERRUPTED)
    assert last.error == CLOSED_SENTENCE
    assert len(trace(again, last)) == 1
    assert not again.desk.step.is_on


def test_weights_are_unloaded_while_a_reply_is_held(room: Any) -> None:
    room.desk.step.take()
    held(room, 2)
    room.desk.loader.unload()
    reply = ended(room)
    assert (reply.content, reply.state) == ("one", MessageState.STOPPED)
    assert len(room.of(events.HeldEnded)) == 1


def test_the_chat_of_a_held_reply_goes_to_the_trash(room: Any) -> None:
    room.desk.step.take()
    held(room, 2)
    conversation = room.desk.shelf.open
    room.desk.folders.trash_one(conversation.id)
    room.until(lambda: room.of(events.HeldEnded), "it is held no more")
    room.desk.shelf.restore(conversation.id)
    room.until(lambda: room.desk.shelf.open.id == conversation.id)
    assert room.desk.shelf.path[-1].content == "one"
    assert room.desk.shelf.path[-1].state is MessageState.STOPPED


def test_what_is_held_is_not_ended_for_giving_no_sign_of_life(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor after a choice: it waits again, and the engine goes on to say that it lives."""
    room = make_room(WORDS).start_ready()
    room.desk.step.begin()
    assert room.desk.replies.send("Count.")
    held(room, 1)
    oversight = room.desk._engine._local._oversight
    for number in (2, 3):
        told = oversight._last_sign
        room.until(lambda told=told: oversight._last_sign > told, "the engine says that it lives")
        assert oversight._open
        room.desk.step.take()
        held(room, number)
