"""The KV cache through the desk: read, changed, timed; and where the next prompt is cut."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import events
from app.chat.inspection.cache import ALREADY, ELSEWHERE, FOR_SURPRISE
from app.chat.inspection.prompt_scoring import CONVERSATION
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheMap, ChangeCache, StepMeasured

SCRIPT: dict[str, Any] = {"replies": [{"text": "blue sky"}]}
LATE = {**SCRIPT, "measured": {"step_ms": [2], "replay_ms": [50], "ms": 60_000}}


class Answers(list[Any]):
    """What was answered; a failure is its sentence."""

    def done(self) -> None:
        self.append("done")


def read(room: Any) -> CacheMap:
    answers = Answers()
    room.desk.cache.read(answers.append, answers.append, still=ALWAYS)
    room.until(lambda: answers, "the map")
    assert isinstance(answers[0], CacheMap), answers
    return answers[0]


def change(room: Any, act: Any, conversation: str = "", **fields: Any) -> str:
    answers = Answers()
    wanted = ChangeCache(0, act, conversation, **fields)
    room.desk.cache.change(wanted, answers.done, answers.append, still=ALWAYS)
    room.until(lambda: answers, act)
    return str(answers[0])


def test_cells_are_known_by_chat_and_message(make_room):
    room = make_room(SCRIPT).start_ready()
    assert read(room).slots == []
    reply = room.ask("Colour?")
    (slot,) = read(room).slots
    assert slot.conversation == room.desk.shelf.open.id
    assert room.desk.cache.title(slot.conversation) == "Colour?"
    parts = {part.message_id: part for part in slot.parts if part.message_id}
    assert parts[reply.id].origin == "reply"
    assert parts[reply.id].end - parts[reply.id].start == len(reply.token_ids)
    assert parts[reply.parent_id].origin == "user"
    # On the next turn the same reply is a message of the prompt.
    room.ask("And?")
    (slot,) = read(room).slots
    assert {p.origin for p in slot.parts if p.message_id == reply.id} == {"assistant"}
    assert room.desk.cache.title("gone") == ELSEWHERE


def test_a_prompt_that_is_read_for_its_surprise_is_called_so_and_leaves_nothing(make_room):
    script = {**SCRIPT, "replies": [{"text": "blue sky", "prompt_probabilities": [0.5]}]}
    room = make_room(script).start_ready()
    answers = Answers()
    room.desk.scoring.ask([1, 2, 3, 4], lambda _scores: None, answers.done, answers.append)
    room.until(lambda: answers, "the scores")
    assert answers == ["done"]
    assert (read(room).slots, read(room).parked) == ([], [])
    assert room.desk.cache.title(CONVERSATION) == FOR_SURPRISE


def test_of_several_answers_each_has_its_own_id(make_room):
    room = make_room(SCRIPT).start_ready()
    asked: list[Any] = []
    generate = room.desk._engine.generate
    room.desk._engine.generate = lambda request: asked.append(request) or generate(request)
    room.ask("Colour?")
    room.desk.replies.ask_several(room.desk.shelf.path[0].id, [{}, {"temperature": 1.0}])
    room.until(lambda: not room.desk.replies.is_generating and len(asked) == 3, "two more answers")
    ids = [request.reply_id for request in asked]
    assert len(set(ids)) == 3
    assert all(ids)


def test_what_is_changed_is_gone_from_the_next_turn(make_room):
    room = make_room(SCRIPT).start_ready()
    first = room.ask("Colour?")
    conversation = room.desk.shelf.open.id
    assert change(room, "keep_prefix", conversation, keep=2) == "done"
    assert room.ask("And?").counts.reused == 2
    assert change(room, "park", conversation) == "done"
    assert [copy.conversation for copy in read(room).parked] == [conversation]
    assert change(room, "clear") == "done"
    assert room.ask("More?").counts.reused == 0
    assert change(room, "drop", "nobody") != "done"
    assert first.counts.evaluated


def test_one_step_is_timed_one_at_a_time(make_room):
    room = make_room(SCRIPT).start_ready()
    room.ask("Colour?")
    answers = Answers()
    conversation = room.desk.shelf.open.id
    room.desk.cache.measure(conversation, answers.append, answers.append, still=ALWAYS)
    room.until(lambda: answers, "the times")
    (measured,) = answers
    assert isinstance(measured, StepMeasured)
    assert (measured.step, measured.replay) == (2.0, 40.0)


def test_a_measurement_that_is_not_wanted_any_more_calls_nobody(make_room):
    room = make_room(LATE).start_ready()
    room.ask("Colour?")
    answers = Answers()
    conversation = room.desk.shelf.open.id
    room.desk.cache.measure(conversation, answers.append, answers.append, still=ALWAYS)
    room.desk.cache.measure(conversation, answers.append, answers.append, still=ALWAYS)
    assert answers == [ALREADY]
    room.desk.cache.stop_measuring()
    assert room.ask("And?").content == "blue sky", "the engine is free again"
    assert answers == [ALREADY]


def test_without_weights_it_is_said(make_room):
    room = make_room({**SCRIPT, "load": {"fail": ["not_a_gguf", "No."]}}).start()
    answers = Answers()
    room.desk.cache.read(answers.append, answers.append, still=ALWAYS)
    room.desk.cache.measure("c", answers.append, answers.append, still=ALWAYS)
    room.desk.cache.change(ChangeCache(0, "clear"), answers.done, answers.append, still=ALWAYS)
    assert answers == [NO_WEIGHTS] * 3


# --- the cut ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_the_meter_says_down_to_where_messages_would_be_left_out(make_room):
    room = make_room(
        {"load": {"loaded": {"n_ctx": 128}}, "replies": [{"text": "Ten words or so."}]}
    ).start_ready()
    counts: list[events.ContextCounted] = []

    def count(text: str) -> events.ContextCounted:
        room.events.clear()
        room.desk.shelf.save_draft(text)
        told = room.until(
            lambda: [c for c in room.of(events.ContextCounted) if c.last_cut is not None], "a count"
        )
        counts.append(told[-1])
        return told[-1]

    assert count("One?").last_cut == ""
    for number in range(6):
        room.ask(f"A question of a few words, number {number}, is it not?")
    before = count("And one more?")
    path = [message.id for message in room.desk.shelf.path]
    assert before.n_cut > 0
    cut = path.index(before.last_cut) + 1
    assert before.n_cut == cut, "all messages from the first to the last one that is left out"
    # What is really asked for leaves out the same.
    reply = room.ask("And one more?")
    assert reply.settings["cut"]["n_messages"] == before.n_cut
    # The end of a reply says how full the window is, and nothing of the next prompt.
    assert [c.last_cut for c in room.of(events.ContextCounted)][-1] is None


def test_a_reply_that_ends_in_another_chat_says_nothing_of_this_one(make_room):
    room = make_room({"replies": [{"text": "blue sky " * 30, "ms": 2}]}).start_ready()
    room.desk.replies.send("What colour is the sky?")
    room.until(room.growing, "a reply")
    elsewhere = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    room.events.clear()
    room.until(lambda: not room.desk.replies.is_busy(elsewhere), "its end")
    room.until(lambda: room.of(events.ContextCounted), "a count of this chat")
    assert {c.used for c in room.of(events.ContextCounted)} == {0}
