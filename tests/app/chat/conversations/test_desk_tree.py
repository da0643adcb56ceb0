"""Versions, edits, continuing, several answers, deleting, branches: the desk on a real store."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import events
from app.chat.conversations.tree import EMPTY_SENTENCE, TEMPORARY_SENTENCE
from app.chat.replies.replies import BUSY_SENTENCE, PRESET
from app.engine.protocol.messages import Failed, Queued
from models.records import Message, MessageState, Role

FOUR = {
    "replies": [
        {"match": "One", "text": "First answer."},
        {"match": "Two", "text": "Second answer."},
        {"match": "Three", "text": "Third answer."},
        {"text": "Another answer."},
    ],
}
SLOW = {"replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}]}


@pytest.fixture
def room(make_room: Any) -> Any:
    """Three turns."""
    made = make_room(FOUR).start_ready()
    for text in ("One?", "Two?", "Three?"):
        made.ask(text)
    return made


def texts(room: Any) -> list[str]:
    return [message.content for message in room.desk.shelf.path]


def wait_for_texts(room: Any, *wanted: str) -> tuple[Message, ...]:
    room.until(lambda: texts(room) == list(wanted), f"{wanted}, not {texts(room)}")
    return room.desk.shelf.path


def in_order(room: Any) -> list[str]:
    """The path as the database has it."""
    return [message.content for message in room.stored()]


TURNS = ("One?", "First answer.", "Two?", "Second answer.", "Three?", "Third answer.")


# --- editing ------------------------------------------------------------------------------------


def test_an_edited_answer_keeps_the_later_turns_in_view_and_the_old_one_whole(room):
    """F12."""
    old = room.desk.shelf.path
    room.desk.tree.edit(old[1].id, "Edited answer.")
    shown = wait_for_texts(room, "One?", "Edited answer.", *TURNS[2:])
    assert (shown[1].sibling_index, shown[1].sibling_count) == (1, 2)
    assert shown[1].token_ids is None
    assert [m.token_ids for m in shown[2:]] == [m.token_ids for m in old[2:]]
    assert in_order(room) == ["One?", "Edited answer.", *TURNS[2:]]

    room.desk.paths.show_version(shown[1].id, -1)
    room.until(lambda: [m.id for m in room.desk.shelf.path] == [m.id for m in old])
    assert texts(room) == list(TURNS)
    room.desk.paths.show_version(old[1].id, 1)
    room.until(lambda: [m.id for m in room.desk.shelf.path] == [m.id for m in shown])


THINKS = {
    "replies": [{"tokens": [{"text": "Hm.", "part": "reasoning"}, {"text": "Yes, "}]}],
}


def test_the_reasoning_is_part_of_the_new_version(make_room: Any):
    room = make_room(THINKS).start_ready()
    reply = room.ask("Well?")
    assert (reply.reasoning, reply.content) == ("Hm.", "Yes, ")
    room.desk.tree.edit(reply.id, "No.", reasoning="Let me see.")
    room.until(lambda: room.desk.shelf.path[-1].content == "No.")
    edited = room.desk.shelf.path[-1]
    assert (edited.reasoning, room.stored()[-1].reasoning) == ("Let me see.", "Let me see.")
    room.desk.tree.edit(edited.id, "No, no.")
    room.until(lambda: room.desk.shelf.path[-1].content == "No, no.")
    assert room.desk.shelf.path[-1].reasoning == "Let me see."
    room.desk.replies.begin_with(room.desk.shelf.path[-1].id, "So: ", "Anew.")
    room.until(lambda: room.ended_reply() and room.ended_reply().content.startswith("So: "))
    assert room.desk.shelf.path[-1].reasoning.startswith("Anew.")


def test_a_reply_that_was_stopped_in_its_reasoning_is_edited_there(make_room: Any):
    """Reasoning is what somebody wrote, too: without an answer behind it, it is saved and gone on
    from, and not passed over."""
    thinks = {"tokens": [{"text": "Hm.", "part": "reasoning"}]}
    room = make_room({"replies": [thinks]}).start_ready()
    room.desk.replies.send("Well?")
    old = room.until(room.ended_reply)
    assert (old.content, old.reasoning) == ("", "Hm.")
    assert room.desk.tree.edit(old.id, "", reasoning="Let me see.")
    room.until(lambda: room.desk.shelf.path[-1].reasoning == "Let me see.")
    assert room.stored()[-1].reasoning == "Let me see."
    edited = room.desk.shelf.path[-1]
    assert room.desk.replies.begin_with(edited.id, "", "Let me think: ")
    room.until(lambda: (r := room.ended_reply()) and r.id not in (old.id, edited.id))
    assert room.desk.shelf.path[-1].reasoning == "Let me think: Hm."
    assert not room.desk.tree.edit(room.desk.shelf.path[-1].id, " ", reasoning="\n")
    assert room.of(events.Noticed)[-1].sentence == EMPTY_SENTENCE


def test_an_edit_without_the_later_turns_says_where_they_are(room):
    old = room.desk.shelf.path
    room.desk.tree.edit(old[1].id, "Edited answer.", keep_following=False)
    wait_for_texts(room, "One?", "Edited answer.")
    assert room.of(events.Noticed)[-1].sentence == (
        "Saved as version 2. The messages that followed are under version 1."
    )
    room.desk.paths.show_version(room.desk.shelf.path[1].id, -1)
    wait_for_texts(room, *TURNS)


def test_an_edited_question_is_sent_as_a_new_version(room):
    old = room.desk.shelf.path
    room.desk.tree.edit_and_send(old[2].id, "Two, please?")
    reply = room.until(room.ended_reply)
    assert texts(room) == ["One?", "First answer.", "Two, please?", "Second answer."]
    assert (room.desk.shelf.path[2].sibling_index, room.desk.shelf.path[2].sibling_count) == (1, 2)
    assert reply.parent_id == room.desk.shelf.path[2].id
    room.desk.paths.show_version(room.desk.shelf.path[2].id, -1)
    wait_for_texts(room, *TURNS)


def test_the_very_first_message_can_be_edited_and_sent(room):
    room.desk.tree.edit_and_send(room.desk.shelf.path[0].id, "One, again?")
    room.until(room.ended_reply)
    assert texts(room) == ["One, again?", "First answer."]
    assert room.desk.shelf.path[0].sibling_count == 2


def test_attachments_stand_with_both_versions_and_with_copies(make_room):
    room = make_room(FOUR).start_ready()
    room.desk.attachments.add_paste("a long table " * 300)
    room.until(lambda: room.desk.attachments.of_open)
    room.ask("One?")
    old = room.desk.shelf.path
    room.desk.tree.edit(old[0].id, "Uno?")
    wait_for_texts(room, "Uno?", "First answer.")
    (kept,) = room.stored()[0].attachments
    assert kept.text == old[0].attachments[0].text
    room.desk.paths.show_version(room.desk.shelf.path[0].id, -1)
    wait_for_texts(room, "One?", "First answer.")
    assert len(room.stored()[0].attachments) == 1
    room.desk.tree.branch_off(old[1].id)
    room.until(lambda: room.desk.shelf.open.copied_from == old[1].id)
    assert room.stored()[0].attachments[0].text == kept.text


def test_an_empty_edit_is_refused_in_words(room):
    room.desk.tree.edit(room.desk.shelf.path[1].id, " \n")
    assert room.of(events.Noticed)[-1].sentence == EMPTY_SENTENCE
    assert texts(room) == list(TURNS)


def test_while_a_reply_grows_the_path_is_not_changed(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(20))
    for act in (
        lambda: room.desk.tree.edit(room.desk.shelf.path[0].id, "Else"),
        lambda: room.desk.tree.trash(room.desk.shelf.path[0].id),
        lambda: room.desk.tree.swap_role(room.desk.shelf.path[0].id),
    ):
        act()
        assert room.of(events.Noticed)[-1].sentence == BUSY_SENTENCE
    room.desk.replies.stop()
    room.until(room.ended_reply)
    assert room.desk.shelf.path[0].content == "Go on"


def test_a_text_that_is_refused_while_a_reply_grows_stays_with_whoever_has_it(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    reply = room.until(lambda: room.growing(20))
    question, saved = room.desk.shelf.path[0], []
    acts = (
        lambda: room.desk.tree.edit(question.id, "Else", saved=lambda: saved.append(0)),
        lambda: room.desk.tree.edit_and_send(question.id, "Else", saved=lambda: saved.append(1)),
        lambda: room.desk.tree.insert(question.id, Role.USER, "X", saved=lambda: saved.append(2)),
        lambda: room.desk.replies.begin_with(reply.id, "Well, ", saved=lambda: saved.append(3)),
    )
    for act in acts:
        n_said = len(room.of(events.Noticed))
        assert not act()
        assert [e.sentence for e in room.of(events.Noticed)[n_said:]] == [BUSY_SENTENCE]
    room.desk.replies.stop()
    room.until(room.ended_reply)
    for place, act in enumerate(acts):
        room.until(lambda: not room.desk.replies.is_generating)
        question, reply = room.desk.shelf.path[0], room.desk.shelf.path[-1]
        assert act()
        room.until(lambda place=place: saved[-1:] == [place], "on disk")
        if room.desk.replies.is_generating:
            room.desk.replies.stop()
        chat = room.desk.shelf.open.id
        room.until(lambda chat=chat: not room.desk.replies.is_occupied(chat), "shown")
    assert saved == [0, 1, 2, 3]


def test_a_beginning_is_on_disk_when_the_reply_has_its_row(make_room):
    """Not while the reply waits for weights: what was typed is nowhere else then."""
    room = make_room(FOUR).start_ready()
    room.ask("One?")
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.loaded is None)
    begin = room.desk.replies.begin_waiting
    room.desk.replies.begin_waiting = lambda: None
    saved: list[bool] = []
    beginning = room.desk.shelf.path[0].id, "Well, "
    assert room.desk.replies.begin_with(*beginning, saved=lambda: saved.append(True))
    room.store.all_settings().result(20)
    room.pump()
    assert saved == []
    room.desk.replies.begin_waiting = begin
    begin()
    room.until(lambda: saved)
    assert room.until(room.ended_reply).content.startswith("Well, ")


def test_swapped_roles_and_inserted_messages_keep_what_follows(room):
    old = room.desk.shelf.path
    room.desk.tree.swap_role(old[2].id)
    shown = wait_for_texts(room, *TURNS)
    room.until(lambda: room.desk.shelf.path[2].role is Role.ASSISTANT)
    assert room.desk.shelf.path[2].sibling_count == 2
    room.desk.tree.insert(room.desk.shelf.path[0].id, Role.ASSISTANT, "Let me think.")
    shown = wait_for_texts(room, "One?", "Let me think.", *TURNS[1:])
    assert shown[1].role is Role.ASSISTANT
    room.desk.tree.insert(None, Role.USER, "Hello.")
    wait_for_texts(room, "Hello.", "One?", "Let me think.", *TURNS[1:])
    room.desk.tree.insert(room.desk.shelf.path[-1].id, Role.USER, "Bye.")
    wait_for_texts(room, "Hello.", "One?", "Let me think.", *TURNS[1:], "Bye.")
    assert in_order(room) == texts(room)


def test_a_message_can_be_inserted_into_an_empty_chat(make_room):
    room = make_room().start_ready()
    room.desk.tree.insert(None, Role.ASSISTANT, "Welcome.")
    wait_for_texts(room, "Welcome.")
    assert [c.id for c in room.desk.shelf.conversations] == [room.desk.shelf.open.id]


# --- continuing and beginning -------------------------------------------------------------------


def test_a_continued_reply_is_a_version_with_the_old_text_and_ids_first(make_room):
    script = {"replies": [{"text": "Once upon"}, {"text": " a time."}]}
    room = make_room(script).start_ready()
    old = room.ask("A story?")
    room.desk.replies.go_on(old.id)
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != old.id and r)

    assert reply.content == "Once upon a time."
    assert (reply.sibling_index, reply.sibling_count) == (1, 2)
    assert reply.token_ids[: len(old.token_ids)] == old.token_ids
    assert len(reply.token_ids) == len(old.token_ids) + reply.counts.generated
    assert reply.settings["given"] == {
        "characters": len("Once upon"),
        "reasoning_characters": 0,
        "tokens": len(old.token_ids),
        "message_id": old.id,
    }
    assert reply.rendered_prompt.endswith("<|assistant|>Once upon")
    kept = room.stored()[-1]
    assert (kept.content, kept.token_ids) == (reply.content, reply.token_ids)
    room.desk.paths.show_version(reply.id, -1)
    wait_for_texts(room, "A story?", "Once upon")
    assert "".join(e.text for e in room.of(events.TextArrived)) == "Once upon a time."


def test_a_reply_that_was_stopped_is_continued_from_where_it_was(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(30))
    room.desk.replies.stop()
    old = room.until(room.ended_reply)
    room.desk.replies.go_on(old.id)
    room.until(lambda: (g := room.growing(len(old.content) + 30)) and g.id != old.id)
    room.desk.replies.stop()
    reply = room.until(room.ended_reply)
    assert reply.content.startswith(old.content + "again ")
    assert reply.counts.generated < len(reply.token_ids)


SMILE = [{"hex": f"{byte:02x}", "ms": 1} for byte in "🙂".encode()]


@pytest.mark.parametrize("before", ["Yes ", ""])
@pytest.mark.parametrize("n_bytes", [1, 2, 3])
def test_a_reply_that_was_cut_inside_a_character_is_completed(make_room, before, n_bytes):
    """N11."""
    first = [{"text": before, "ms": 1}] if before else []
    script = {
        "replies": [
            {"tokens": [*first, *SMILE[:n_bytes]], "stop_reason": "max_tokens"},
            {"tokens": [*SMILE[n_bytes:], {"text": "!"}]},
        ],
    }
    room = make_room(script).start_ready()
    old = room.ask("A smile?")
    assert (old.content, len(old.token_ids)) == (before, len(first) + n_bytes)
    assert (room.stored()[-1].content, room.stored()[-1].token_ids) == (before, old.token_ids)
    room.desk.replies.go_on(old.id)
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != old.id and r)
    assert reply.content == f"{before}🙂!"
    assert reply.token_ids[: len(old.token_ids)] == old.token_ids
    assert room.stored()[-1].content == reply.content
    assert "\ufffd" not in reply.rendered_prompt


def test_a_reply_that_was_stopped_inside_a_character_has_none_of_it_later(make_room):
    """N11."""
    tokens = [{"text": "Yes ", "ms": 1}, *SMILE[:2], {"text": " ", "ms": 60_000}]
    script = {"replies": [{"tokens": tokens}, {"text": "Fine."}]}
    room = make_room(script).start_ready()
    room.desk.replies.send("A smile?")
    room.until(lambda: (r := room.growing(4)) and len(r.token_ids) == 3, "all that comes")
    room.desk.replies.stop()
    old = room.until(room.ended_reply)
    assert (old.content, len(old.token_ids)) == ("Yes ", 3)
    later = room.ask("And?")
    assert "\ufffd" not in later.rendered_prompt
    assert "Yes <|end|>" in later.rendered_prompt


def test_a_crash_inside_a_character_stores_none_of_it(make_room):
    """N11."""
    tokens = [{"text": "Yes ", "ms": 1}, *SMILE[:2], {"signal": "SEGV"}]
    room = make_room({"replies": [{"tokens": tokens}]}).start_ready()
    room.desk.replies.send("A smile?")
    old = room.until(room.ended_reply)
    assert (old.state, old.content) == (MessageState.INTERRUPTED, "Yes ")
    assert room.stored()[-1].content == "Yes "


def test_ids_that_do_not_spell_the_whole_text_are_not_claimed(make_room):
    room = make_room().start_ready()
    old = room.ask("What is the capital of France?")
    room.desk.replies.begin_with(old.id, "London")
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != old.id and r)
    assert reply.content == "LondonParis is the capital of France."
    assert reply.token_ids is None
    assert reply.settings["given"]["tokens"] is None
    assert reply.rendered_prompt.endswith("<|assistant|>London")
    room.ask("And now?")  # it enters the next prompt as text


@pytest.mark.parametrize("reason", ["stop_string", "turn_end"])
def test_ids_of_what_ended_a_reply_are_not_claimed_for_its_text(make_room, reason):
    """The stop string, or the marker that ends a turn, is in the IDs and not in the text."""
    script = {
        "replies": [{"text": "Once upon", "stop_reason": reason}, {"text": " a time."}],
    }
    room = make_room(script).start_ready()
    old = room.ask("A story?")
    assert old.stop_reason == reason
    room.desk.replies.go_on(old.id)
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != old.id and r)
    assert (reply.content, reply.token_ids) == ("Once upon a time.", None)


def test_a_beginning_can_be_written_for_a_reply_that_is_not_there_yet(make_room):
    room = make_room().start_ready()
    room.desk.tree.insert(None, Role.USER, "Where is Paris?")
    wait_for_texts(room, "Where is Paris?")
    room.desk.replies.begin_with(room.desk.shelf.path[0].id, "Well: ")
    assert room.until(room.ended_reply).content == "Well: Paris is the capital of France."


def test_what_a_continued_reply_began_with_survives_the_death_of_the_engine(make_room):
    script = {
        "replies": [
            {"text": "Once upon"},
            {"tokens": [{"text": " a", "ms": 1, "repeat": 5}, {"signal": "SEGV"}]},
        ],
    }
    room = make_room(script).start_ready()
    old = room.ask("A story?")
    room.desk.replies.go_on(old.id)
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != old.id and r)
    assert reply.state is MessageState.INTERRUPTED
    assert reply.content == "Once upon a a a a a"
    assert room.stored()[-1].content == reply.content


def test_a_chosen_format_is_kept_for_the_weights_and_used(make_room):
    """A01."""
    script = {**FOUR, "load": {"loaded": {"has_template": False}}}
    room = make_room(script).start_ready()
    assert room.desk.loader.state.loaded.has_template is False
    room.desk.levels.change("weights", "chat_format", "chatml")
    reply = room.ask("One?")
    assert reply.settings["chat_format"] == "chatml"
    assert reply.settings["levels"]["chat_format"] == "weights"
    room.close()
    again = make_room(script, gguf=room._script).start_ready()
    again.until(lambda: again.desk.levels.resolved().settings.chat_format == "chatml")


# --- several answers ----------------------------------------------------------------------------


def test_several_answers_are_versions_with_settings_of_their_own(make_room):
    room = make_room(FOUR).start_ready()
    old = room.ask("One?")
    room.desk.replies.ask_several(old.id, [{"seed": 5}, {"seed": 6, "temperature": 1.5}, {}])
    assert room.desk.replies.is_generating
    began = room.until(lambda: room.of(events.AnswersBegan))[0]
    assert began.parent_id == room.desk.shelf.path[0].id
    assert room.desk.shelf.path[1].id == began.messages[0].id
    room.until(lambda: not room.desk.replies.is_generating)

    room.desk.tree.read_versions(old.id)
    read = room.until(lambda: room.of(events.VersionsRead))[0]
    assert [m.id for m in read.messages] == [old.id, *(m.id for m in began.messages)]
    assert {m.content for m in read.messages} == {"First answer."}
    assert [m.seed for m in read.messages[1:3]] == [5, 6]
    assert read.messages[2].settings["temperature"] == 1.5
    assert read.messages[1].settings["temperature"] == room.desk.settings.now.temperature
    for message in began.messages:
        told = [e.text for e in room.of(events.TextArrived) if e.message_id == message.id]
        assert "".join(told) == "First answer."
        ended = [e.message for e in room.of(events.MessageChanged) if e.message.id == message.id]
        assert ended[-1].state is MessageState.COMPLETE
    first = room.desk.shelf.path[1]
    assert (first.id, first.sibling_index, first.sibling_count) == (began.messages[0].id, 1, 4)
    assert room.stored()[-1].id == first.id


def test_picking_an_answer_shows_it_and_the_others_stay(make_room):
    room = make_room(FOUR).start_ready()
    room.ask("One?")
    room.desk.replies.ask_several(room.desk.shelf.path[0].id, [{}, {}])
    began = room.until(lambda: room.of(events.AnswersBegan))[0]
    places = [(each.sibling_index, each.sibling_count) for each in began.messages]
    assert places == [(1, 3), (2, 3)]  # beside the reply that was there
    room.until(lambda: not room.desk.replies.is_generating)
    room.desk.tree.go_to(began.messages[1].id)
    room.until(lambda: room.desk.shelf.path[-1].id == began.messages[1].id)
    assert room.desk.shelf.path[-1].sibling_count == 3
    assert room.stored()[-1].id == began.messages[1].id


def test_stop_ends_all_answers_and_one_can_be_stopped_alone(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(10))
    room.desk.replies.stop()
    old = room.until(room.ended_reply)
    room.desk.replies.ask_several(old.id, [{}, {}, {}])
    began = room.until(lambda: room.of(events.AnswersBegan))[0]
    first, second, third = (message.id for message in began.messages)
    ended: dict[str, Message] = {}

    def has_ended(message_id: str) -> bool:
        ended.update({e.message.id: e.message for e in room.of(events.MessageChanged)})
        return message_id in ended and ended[message_id].state is not MessageState.STREAMING

    room.until(lambda: any(e.message_id == first for e in room.of(events.TextArrived)))
    room.desk.growing.stop_reply(first)
    room.until(lambda: has_ended(first))
    assert room.desk.replies.is_generating
    room.until(lambda: any(e.message_id == second for e in room.of(events.TextArrived)))
    room.desk.replies.stop()
    room.until(lambda: has_ended(second) and has_ended(third))
    assert not room.desk.replies.is_generating
    assert ended[first].content
    assert ended[third].state is MessageState.STOPPED


def test_one_of_eight_that_fails_ends_no_other(make_room):
    fail = {"fail": {"kind": "native_error", "sentence": "No."}}
    replies: list[dict[str, Any]] = [{"text": f"Answer {n}."} for n in range(9)]
    replies[4] = {"tokens": [{"text": "Half"}, fail]}
    room = make_room({"replies": replies}).start_ready()
    room.ask("One?")
    asked = room.desk.shelf.path[0].id
    changes = [{"seed": n, PRESET: "Warm"} for n in range(8)]
    room.desk.replies.ask_several(asked, changes)
    began = room.until(lambda: room.of(events.AnswersBegan))[0]
    assert len(began.messages) == 8
    room.until(lambda: not room.desk.replies.is_generating)
    room.desk.tree.read_versions(began.messages[0].id)
    versions = room.until(lambda: room.of(events.VersionsRead))[0].messages[1:]
    ended = [version.state is MessageState.COMPLETE for version in versions]
    assert ended == [True] * 3 + [False] + [True] * 4
    assert versions[3].error
    assert versions[3].content == "Half"
    assert [version.settings[PRESET] for version in versions] == ["Warm"] * 8
    assert [version.settings["sampling"]["seed"] for version in versions] == list(range(8))


def test_more_answers_than_eight_are_not_asked_for(room):
    room.desk.replies.ask_several(room.desk.shelf.path[1].id, [{}] * 9)
    assert not room.desk.replies.is_generating


def test_answers_that_wait_for_weights_begin_together(make_room):
    script = {**FOUR, "load": {"ms": 300}}
    room = make_room(script).start()
    room.desk.tree.insert(None, Role.USER, "One?")
    wait_for_texts(room, "One?")
    room.desk.replies.ask_several(room.desk.shelf.path[0].id, [{}, {}])
    began = room.until(lambda: room.of(events.AnswersBegan))[0]
    assert len(began.messages) == 2
    room.until(lambda: not room.desk.replies.is_generating)


def test_the_place_in_the_queue_is_told(make_room):
    """C06."""
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(10))
    request_id = next(iter(room.desk.growing._requests))
    room.desk._take(Queued(request_id, 3))
    assert room.of(events.SendQueued)[-1].place == 3
    assert room.desk.replies.is_waiting
    room.desk._take(Queued(request_id, 0))
    last = room.of(events.SendQueued)[-1]
    assert (last.waiting, last.place) == (False, 0)
    room.desk.replies.stop()
    room.until(room.ended_reply)


def test_who_is_written_waits_no_longer_though_no_place_is_told(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(10))
    room.desk._take(Queued(next(iter(room.desk.growing._requests)), 1))
    room.until(lambda: not room.of(events.SendQueued)[-1].waiting, "its next token")
    assert not room.desk.replies.is_waiting
    room.desk.replies.stop()
    room.until(room.ended_reply)


def test_who_ends_before_its_turn_waits_no_longer(make_room):
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    room.until(lambda: room.growing(10))
    request_id = next(iter(room.desk.growing._requests))
    room.desk._take(Queued(request_id, 1))
    room.desk._take(Failed(request_id, "engine", "It is gone."))
    assert not room.of(events.SendQueued)[-1].waiting


# --- deleting -----------------------------------------------------------------------------------


def test_a_deleted_message_takes_what_follows_and_comes_back_by_undo(room):
    old = room.desk.shelf.path
    room.desk.tree.trash(old[2].id)
    wait_for_texts(room, *TURNS[:2])
    notice = room.until(lambda: [n for n in room.of(events.Noticed) if n.undo])[-1]
    assert notice.sentence == "Moved the message and the 3 below it to the trash."
    listed = room.until(lambda: room.of(events.TrashedBranchesListed))[-1]
    assert [(b.id, b.n_messages) for b in listed.branches] == [(old[2].id, 4)]

    room.desk.shelf.undo(notice.undo)
    room.until(lambda: [m.id for m in room.desk.shelf.path] == [m.id for m in old])
    assert room.stored()[-1].id == old[-1].id
    room.until(lambda: room.of(events.TrashedBranchesListed)[-1].branches == ())


def test_a_message_deleted_alone_leaves_what_follows(room):
    old = room.desk.shelf.path
    room.desk.tree.trash(old[2].id, only_this=True)
    wait_for_texts(room, *TURNS[:2], *TURNS[3:])
    notice = room.until(lambda: [n for n in room.of(events.Noticed) if n.undo])[-1]
    assert notice.sentence == "Message moved to the trash."
    room.desk.shelf.undo(notice.undo)
    room.until(lambda: [m.id for m in room.desk.shelf.path] == [m.id for m in old])
    assert all(m.sibling_count == 1 for m in room.desk.shelf.path)


def test_a_deleted_version_gives_way_to_the_one_beside_it(room):
    last = room.desk.shelf.path[-1]
    room.desk.replies.answer(last.id)
    second = room.until(lambda: (r := room.ended_reply()) and r.id != last.id and r)
    room.desk.tree.trash(second.id)
    room.until(lambda: room.desk.shelf.path[-1].id == last.id)
    assert room.desk.shelf.path[-1].sibling_count == 1


def test_what_was_deleted_is_restored_from_the_trash_after_a_restart(make_room):
    room = make_room(FOUR).start_ready()
    room.ask("One?")
    conversation_id, top = room.desk.shelf.open.id, room.desk.shelf.path[0]
    room.desk.tree.trash(top.id)
    wait_for_texts(room)
    room.close()

    again = make_room(FOUR).start_ready()
    again.desk.tree.list_trashed()
    (branch,) = again.until(lambda: again.of(events.TrashedBranchesListed))[-1].branches
    assert branch.conversation_id == conversation_id
    again.desk.shelf.open_new()
    again.desk.tree.restore(branch.id, branch.conversation_id)
    wait_for_texts(again, "One?", "First answer.")
    assert again.desk.shelf.open.id == conversation_id


# --- going somewhere else -----------------------------------------------------------------------


def test_a_branch_is_a_chat_of_its_own_with_the_path_down_to_there(room):
    old = room.desk.shelf.open
    third = room.desk.shelf.path[3]
    room.desk.tree.branch_off(third.id)
    room.until(lambda: room.desk.shelf.open.id != old.id)
    assert texts(room) == list(TURNS[:4])
    branch = room.desk.shelf.open
    assert branch.title == f"{old.title} (branch)"
    assert branch.copied_from == third.id
    assert {c.id for c in room.desk.shelf.conversations} == {old.id, branch.id}
    room.ask("Three?")
    room.desk.shelf.open_stored(old.id)
    room.until(lambda: texts(room) == list(TURNS))


def test_the_map_has_every_message_and_the_path(room):
    old = room.desk.shelf.path
    room.desk.tree.edit(old[2].id, "Two, saved?", keep_following=False)
    wait_for_texts(room, *TURNS[:2], "Two, saved?")
    room.desk.tree.trash(old[4].id)  # not on the path: nothing happens
    room.desk.tree.read_tree()
    read = room.until(lambda: room.of(events.TreeRead))[-1]
    assert [n.excerpt for n in read.nodes] == [*TURNS, "Two, saved?"]
    assert read.path_ids == tuple(m.id for m in room.desk.shelf.path)
    room.desk.tree.go_to(old[3].id)
    wait_for_texts(room, *TURNS)


def test_a_branch_that_is_not_on_the_path_can_be_pruned(room):
    old = room.desk.shelf.path
    room.desk.tree.edit(old[2].id, "Two, saved?", keep_following=False)
    wait_for_texts(room, *TURNS[:2], "Two, saved?")
    room.desk.tree.prune(old[2].id)
    listed = room.until(lambda: room.of(events.TrashedBranchesListed))[-1]
    assert [(b.id, b.n_messages) for b in listed.branches] == [(old[2].id, 4)]
    room.until(lambda: room.desk.shelf.path[2].sibling_count == 1)
    assert texts(room) == [*TURNS[:2], "Two, saved?"]
    notice = next(n for n in room.of(events.Noticed) if n.undo)
    room.desk.shelf.undo(notice.undo)
    room.until(lambda: room.desk.shelf.path[2].sibling_count == 2)


def test_a_window_that_may_not_write_changes_nothing(make_room, data_dir):
    room = make_room(FOUR).start_ready()
    room.ask("One?")
    room.until(lambda: room.stored()[1].content, "the ending is on disk")
    second = make_room(FOUR, read_only=True).start_ready()
    second.until(lambda: len(second.desk.shelf.path) == 2)
    reply = second.desk.shelf.path[1]
    for act in (
        lambda: second.desk.tree.edit(reply.id, "Else"),
        lambda: second.desk.tree.trash(reply.id),
        lambda: second.desk.tree.branch_off(reply.id),
        lambda: second.desk.replies.go_on(reply.id),
    ):
        act()
    assert [n.sentence for n in second.of(events.Noticed)][-4:] == ["Another window writes."] * 4
    assert texts(second) == texts(room)


def test_a_temporary_chat_is_changed_like_any_other_and_never_becomes_one(make_room):
    room = make_room(FOUR).start_ready()
    room.desk.temporary.open()
    for text in ("One?", "Two?"):
        room.ask(text)
    old = room.desk.shelf.path
    room.desk.tree.branch_off(old[1].id)
    assert room.of(events.Noticed)[-1].sentence == TEMPORARY_SENTENCE
    room.desk.tree.edit(old[1].id, "Edited.")
    wait_for_texts(room, "One?", "Edited.", *TURNS[2:4])
    room.desk.tree.trash(room.desk.shelf.path[0].id, only_this=True)
    wait_for_texts(room, "Edited.", *TURNS[2:4])
    notice = room.until(lambda: [n for n in room.of(events.Noticed) if n.undo])[-1]
    room.desk.shelf.undo(notice.undo)
    wait_for_texts(room, "One?", "Edited.", *TURNS[2:4])
    assert room.desk.shelf.conversations == ()


# --- weights that are gone ----------------------------------------------------------------------


@pytest.mark.parametrize("act", ["retry", "edit_and_send", "continue_reply", "ask_several"])
def test_without_weights_nothing_is_removed_and_it_goes_on_when_there_are_some(make_room, act):
    """C11."""
    failure = {"kind": "missing_file", "sentence": "The file is gone. Choose other weights."}
    script = {**FOUR, "load": {"fail": failure, "match": "gone"}}
    room = make_room(script).start_ready()
    room.ask("One?")
    before = room.desk.shelf.path
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped")
    room.desk.loader.load("/nowhere/gone.gguf")
    room.until(lambda: room.desk.loader.state.sentence == failure["sentence"])

    {
        "retry": lambda: room.desk.replies.answer(before[1].id),
        "edit_and_send": lambda: room.desk.tree.edit_and_send(before[0].id, "One, please?"),
        "continue_reply": lambda: room.desk.replies.go_on(before[1].id),
        "ask_several": lambda: room.desk.replies.ask_several(before[1].id, [{}, {}]),
    }[act]()
    room.until(lambda: any(n.sentence == failure["sentence"] for n in room.of(events.Noticed)))
    room.until(lambda: room.desk.replies.is_waiting)
    stored = {n.id for n in room.desk.around.store.load_tree(before[0].conversation_id).result()}
    assert {m.id for m in before} <= stored
    if act != "edit_and_send":
        assert [m.id for m in room.desk.shelf.path] == [m.id for m in before]

    room.desk.loader.load("/somewhere/else.gguf")
    room.until(lambda: not room.desk.replies.is_generating)
    assert room.desk.shelf.path[-1].state is MessageState.COMPLETE
    assert {m.id for m in before} <= {
        n.id for n in room.desk.around.store.load_tree(before[0].conversation_id).result()
    }
