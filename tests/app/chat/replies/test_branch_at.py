"""Branching a reply by choosing a token, on a real store and the scripted engine."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.chat import events
from app.chat.replies import branch_at
from app.chat.replies.branch_at import n_untraced
from app.chat.replies.replies import OTHER_WEIGHTS_SENTENCE
from app.chat.settings.sampler_links import stages_at
from app.chat.surroundings import ALWAYS
from app.engine.protocol.stages import Temperature
from app.insight.trace.message_tokens import first_chosen, n_taken_over
from models.records import Message, MessageState

TABLE = [["blue", 0.5], ["red", 0.25], ["the", 0.1]]
STAGES = {"stages": [["top-k", 2, 0.66], ["dist", 1, 1.0]], "removed_by": [255, 255, 0]}


def word(text: str, **fields: Any) -> dict[str, Any]:
    return {"text": text, "probability": 0.5, "alternatives": TABLE, "uniform": 0.5, **fields}


COLOURS = {
    "replies": [
        {"tokens": [word("The "), word("blue", **STAGES), word(" sky"), word(" is"), word(" up.")]}
    ],
}
THINKING = {
    "replies": [
        {
            "tokens": [
                {"text": "Hm", "part": "reasoning"},
                {"text": ", so", "part": "reasoning"},
                {"text": "Yes"},
                {"text": "."},
            ]
        }
    ],
}
HALVES = {
    "replies": [{"tokens": [{"text": "a "}, {"hex": "f09f"}, {"hex": "a6a4"}, {"text": "!"}]}],
}


def trace(room: Any, message_id: str) -> list[Any]:
    before = len(room.of(events.TraceRead))
    room.desk.growing.read_trace(message_id)
    room.until(lambda: len(room.of(events.TraceRead)) > before, "the trace")
    return list(room.of(events.TraceRead)[-1].tokens)


def id_of(room: Any, text: str) -> int:
    found: list[int] = []
    room.desk.questions.tokenize(
        text, lambda tokens: found.extend(tokens.token_ids), pytest.fail, still=ALWAYS
    )
    room.until(lambda: found, "the token")
    (token_id,) = found
    return token_id


def branched(room: Any, old: Message) -> Message:
    reply: Message = room.until(
        lambda: (r := room.ended_reply()) and r.id != old.id and r, "the branch"
    )
    return reply


def said(room: Any) -> str:
    return str(room.of(events.Noticed)[-1].sentence)


def said_of(room: Any, message_id: str) -> list[Message]:
    """A message as it was shown, in each path and in each change, in order."""
    found: list[Message] = []
    for event in room.events:
        if isinstance(event, events.PathChanged):
            found += [each for each in event.messages if each.id == message_id]
        elif isinstance(event, events.MessageAdded | events.MessageChanged):
            found += [event.message] if event.message.id == message_id else []
    return found


def refused(room: Any, old: Message, sentence: str) -> None:
    room.until(lambda: room.of(events.Noticed) and said(room) == sentence, sentence)
    assert room.desk.shelf.path[-1].id == old.id
    assert not room.desk.replies.is_generating


def test_a_chosen_token_begins_a_new_version_and_the_old_one_stays(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    was = trace(room, old.id)
    red = id_of(room, "red")
    room.desk.branches.at(old.id, 1, red)
    new = branched(room, old)
    assert new.content == "The red sky is up."
    assert (new.parent_id, new.sibling_index, new.sibling_count) == (old.parent_id, 1, 2)
    assert new.token_ids == (*old.token_ids[:1], red, *old.token_ids[2:])
    assert new.settings["given"] == {
        "characters": 0, "reasoning_characters": 0, "tokens": 1, "message_id": old.id,
        "traced": 1, "chosen": [red],
        "drawn_with": [[1, {k: old.settings["sampling"][k] for k in ("filters", "select")}]],
    }  # fmt: skip
    now = trace(room, new.id)
    assert [token.index for token in now] == [0, 1, 2, 3, 4]
    assert now[0] == was[0]
    assert (now[1].token_id, now[1].chosen, now[1].rank, now[1].uniform) == (red, True, 2, None)
    assert now[1].alternative_ids == was[1].alternative_ids
    assert now[1].removed_by == was[1].removed_by
    assert [token.chosen for token in now] == [False, True, False, False, False]
    assert new.counts.evaluated == 1
    assert new.counts.generated == 4
    assert new.rendered_prompt == old.rendered_prompt
    room.desk.paths.show_version(new.id, -1)
    room.until(lambda: room.desk.shelf.path[-1].id == old.id, "the old version")
    back = dataclasses.replace(room.desk.shelf.path[-1], rendered_prompt=old.rendered_prompt)
    assert back == dataclasses.replace(old, sibling_count=2)


def test_where_it_was_chosen_is_known_from_the_first_moment_on(make_room: Any) -> None:
    """For who looks while it grows; of another version without a choice there is no such place."""
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.branches.at(old.id, 1, id_of(room, "red"))
    new = branched(room, old)
    seen = [each for each in said_of(room, new.id) if each.state is MessageState.STREAMING]
    assert seen
    assert {(n_taken_over(each), first_chosen(each)) for each in seen} == {(1, 1)}
    room.desk.replies.answer(new.id)
    third = room.until(
        lambda: (r := room.ended_reply()) and r.id not in (old.id, new.id) and r, "another version"
    )
    assert (n_taken_over(third), first_chosen(third)) == (0, None)


def test_of_each_token_it_is_known_with_which_chain_it_was_drawn(make_room: Any) -> None:
    """Also of a branch of a branch: a temperature of now says nothing about a token of before."""
    room = make_room(COLOURS).start_ready()
    old, used = room.ask("Colour?"), []
    for place, temperature in ((2, 1.5), (4, 0.5), (3, 0.5)):
        used.append(old.settings["temperature"])
        room.desk.settings.set("temperature", temperature)
        room.desk.branches.at(old.id, place, id_of(room, "red"))
        old = branched(room, old)
    heats = [
        next(stage.t for stage in stages_at(old.settings, at) if isinstance(stage, Temperature))
        for at in range(5)
    ]
    assert heats == [used[0], used[0], 1.5, 0.5, 0.5]
    assert len(old.settings["given"]["drawn_with"]) == 2


def test_the_tokens_that_views_are_told_of_have_their_place_in_the_whole(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    before = len(room.of(events.TokenRecorded))
    room.desk.branches.at(old.id, 2, old.token_ids[0])
    branched(room, old)
    told = room.of(events.TokenRecorded)[before:]
    assert [event.token.index for event in told] == [2, 3, 4]


def test_a_text_is_tokenised_by_itself(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.branches.at_text(old.id, 2, " red the")
    new = branched(room, old)
    assert new.content.startswith("The blue red the")
    now = trace(room, new.id)
    n_chosen = sum(token.chosen for token in now)
    assert n_chosen == len(new.settings["given"]["chosen"]) > 1
    assert b"".join(token.piece for token in now[2 : 2 + n_chosen]) == b" red the"
    room.desk.branches.at_text(new.id, 0, "")
    refused(room, new, branch_at.NO_TEXT)


def test_a_branch_of_a_branch_and_the_first_token(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    red = id_of(room, "red")
    room.desk.branches.at(old.id, 1, red)
    second = branched(room, old)
    room.desk.branches.at(second.id, 3, red)
    third = branched(room, second)
    assert third.content == "The red skyred up."
    assert [token.chosen for token in trace(room, third.id)] == [False, True, False, True, False]
    assert third.sibling_index == 2
    room.desk.branches.at(third.id, 0, red)
    fourth = branched(room, third)
    assert fourth.content == "redblue sky is up."
    assert [token.chosen for token in trace(room, fourth.id)] == [True] + [False] * 4


def test_a_continued_reply_is_branched_at_what_was_drawn(make_room: Any) -> None:
    """Its trace begins behind the tokens that it was given."""
    room = make_room({"replies": [{"text": "one two"}, {"text": " and three"}]})
    room.start_ready()
    first = room.ask("Count.")
    room.desk.replies.go_on(first.id)
    second = branched(room, first)
    assert second.content == "one two and three"
    assert n_untraced(second) == len(first.token_ids)
    assert [token.piece for token in trace(room, second.id)] == [b" and", b" three"]
    room.desk.branches.at(second.id, 1, id_of(room, " two"))
    third = branched(room, second)
    assert third.content.startswith("one two and two")
    assert third.token_ids[: len(first.token_ids) + 1] == second.token_ids[:-1]
    assert n_untraced(third) == len(first.token_ids)
    now = trace(room, third.id)
    assert [token.index for token in now] == list(range(len(now)))
    assert [token.piece for token in now[:2]] == [b" and", b" two"]
    room.desk.branches.at(third.id, 0, id_of(room, "one"))
    fourth = branched(room, third)
    assert fourth.content.startswith("one twoone")


def test_in_the_middle_of_a_character(make_room: Any) -> None:
    room = make_room(HALVES).start_ready()
    old = room.ask("Bird?")
    assert old.content == "a 🦤!"
    (last,) = [
        i for i, t in zip(old.token_ids, trace(room, old.id), strict=True) if t.piece == b"!"
    ]
    room.desk.branches.at(old.id, 2, last)
    new = branched(room, old)
    assert new.content == "a \ufffd!!"
    room.desk.branches.at(new.id, 2, old.token_ids[2])
    assert branched(room, new).content == "a 🦤!"


def test_inside_reasoning(make_room: Any) -> None:
    room = make_room(THINKING).start_ready()
    old = room.ask("Well?")
    assert (old.reasoning, old.content) == ("Hm, so", "Yes.")
    room.desk.branches.at(old.id, 1, old.token_ids[0])
    new = branched(room, old)
    assert (new.reasoning, new.content) == ("HmHm", "Yes.")
    room.desk.branches.at(new.id, 3, old.token_ids[2])
    last = branched(room, new)
    assert (last.reasoning, last.content) == ("HmHm", "YesYes")


def test_the_prompt_is_that_of_the_old_version_and_the_dice_are_todays(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    room.desk.settings.set("system_prompt", "Then.")
    old = room.ask("Colour?")
    room.desk.settings.set("system_prompt", "Now.")
    room.desk.settings.set("temperature", 1.5)
    room.desk.branches.at(old.id, 1, id_of(room, "red"))
    new = branched(room, old)
    assert new.settings["system_prompt"] == "Then."
    assert new.settings["levels"] == {"system_prompt": "message"}
    assert new.settings["temperature"] == 1.5
    assert new.rendered_prompt == old.rendered_prompt
    assert new.counts.prompt_tokens == old.counts.prompt_tokens + 1


def test_a_reply_that_grows_is_stopped_first(make_room: Any) -> None:
    slow = {"replies": [{"tokens": [word("again ", ms=5, repeat=4000)]}]}
    room = make_room(slow).start_ready()
    red = id_of(room, "red")
    assert room.desk.replies.send("Go on.")
    growing = room.until(lambda: room.growing(30))
    room.desk.branches.at(growing.id, 2, red)
    room.until(lambda: room.growing() and room.growing().id != growing.id, "the branch")
    room.until(lambda: len(room.growing().content) > 30)
    assert room.growing().content.startswith("again again redagain again ")
    (stopped,) = [
        e.message for e in room.of(events.MessageChanged)
        if e.message.id == growing.id and e.message.state is MessageState.STOPPED
    ]  # fmt: skip
    assert stopped.content.startswith("again again again ")
    room.desk.replies.stop()
    room.until(room.ended_reply)
    room.desk.branches.at(growing.id, 2, red)  # not on screen any more
    assert said(room) == branch_at.NOT_A_REPLY


def test_a_continuation_of_a_document_is_branched_at_its_place(make_room: Any) -> None:
    room = make_room({"replies": [{"text": " upon a time."}]}).start_ready()
    room.desk.shelf.open_new_text()
    assert room.desk.text.go_on("Once. The end.", 4)
    old = room.until(room.ended_reply)
    assert room.desk.text.text == "Once upon a time.. The end."
    room.desk.branches.at(old.id, 1, id_of(room, " time"))
    new = branched(room, old)
    assert new.content == " upon time time."
    assert room.desk.text.text == "Once upon time time.. The end."
    assert new.settings["place"] == old.settings["place"] == [4, 4]
    assert new.sibling_index == 1


def test_a_banned_token_and_what_cannot_be_chosen_end_in_words(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.branches.at(old.id, 1, 10**6)
    new = branched(room, old)
    assert new.state is MessageState.FAILED
    assert new.error == "Token 1000000 doesn't exist."
    assert new.content == "The "


def test_a_branch_is_run_again_with_its_beginning_and_its_choice(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.branches.at(old.id, 1, id_of(room, "red"))
    new = branched(room, old)
    room.desk.again.run(new.id)
    again = branched(room, new)
    assert again.content == new.content
    assert "identical" in said(room)


# --- what stands against it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"weights_hash": None}, branch_at.UNKNOWN_WEIGHTS),
        (
            {"weights_hash": "other", "weights_name": "Big ones"},
            branch_at.OTHER_WEIGHTS.format(name="Big ones"),
        ),
        ({"token_ids": None}, branch_at.NO_IDS),
        ({"token_ids": (1, 2, 3, 4, 5)}, branch_at.NOT_ITS_TRACE),
    ],
)
def test_replies_that_cannot_be_branched(
    make_room: Any, fields: dict[str, Any], sentence: str
) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.shelf._path[old.id] = dataclasses.replace(old, **fields)
    room.desk.branches.at(old.id, 2, old.token_ids[0])
    refused(room, old, sentence)
    if "weights_hash" in fields:
        room.desk.branches.at_text(old.id, 2, "x")
        refused(room, old, sentence)


def test_a_missing_trace_and_a_place_beyond_it_are_said(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.branches.at(old.id, 5, old.token_ids[0])
    refused(room, old, branch_at.NO_SUCH_TOKEN.format(count=5))
    room.store.save_trace(old.id, b"CTR1 rubbish").result(10)
    room.desk.branches.at(old.id, 1, old.token_ids[0])
    room.until(lambda: any("damaged" in n.sentence for n in room.of(events.Noticed)), "damage")
    room.desk.branches.at(room.desk.shelf.path[0].id, 0, 1)
    refused(room, old, branch_at.NOT_A_REPLY)


def test_beside_other_answers_that_grow_it_waits_for_nobody_and_says_so(make_room: Any) -> None:
    slow = {"text": "again", "ms": 5, "repeat": 4000}
    script = {"replies": [{"text": "Short one."}, {"tokens": [slow]}]}
    room = make_room(script).start_ready()
    old = room.ask("Go.")
    room.desk.replies.ask_several(old.id, [{}, {}])
    room.until(lambda: room.growing(10))
    room.desk.shelf.replace_path(old.conversation_id, (room.desk.shelf.path[0], old))
    room.desk.branches.at(old.id, 0, old.token_ids[1])
    room.until(lambda: room.of(events.Noticed) and said(room) == branch_at.BUSY, "the sentence")


def test_a_system_prompt_that_is_not_stored_must_be_there(make_room: Any) -> None:
    room = make_room(COLOURS | {"load": {"loaded": {"n_ctx": 8192}}}).start_ready()
    room.desk.settings.set("system_prompt", "x" * 5000)
    old = room.ask("Colour?")
    room.desk.settings.set("system_prompt", "short")
    room.desk.branches.at(old.id, 1, old.token_ids[0])
    refused(room, old, branch_at.OTHER_PROMPT)
    room.desk.settings.set("system_prompt", "x" * 5000)
    room.desk.branches.at(old.id, 1, old.token_ids[0])
    assert branched(room, old).rendered_prompt == old.rendered_prompt


def test_other_weights_that_come_before_it_could_begin(make_room: Any) -> None:
    room = make_room(COLOURS).start_ready()
    old = room.ask("Colour?")
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.loaded is None, "unloaded")
    begin = room.desk.replies.begin_waiting
    room.desk.replies.begin_waiting = lambda: None
    room.desk.branches.at(old.id, 1, old.token_ids[0])
    room.until(lambda: room.desk.replies.is_generating, "it waits")
    room.desk.loader.load(str(room._script))
    room.until(lambda: room.desk.loader.state.state == "ready", "ready")
    room.desk.loader._last_loaded = type("Other", (), {"fast_hash": "other"})()
    begin()
    assert said(room) == OTHER_WEIGHTS_SENTENCE
    assert not room.desk.replies.is_generating
    assert room.desk.shelf.path[-1].id == old.id
