"""What is shown as the prompt of a reply is the one that it was given, or says why not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.chat.attachments.attached_text import block_of
from app.chat.inspection import prompt_reading as words
from app.chat.inspection.prompt_reading import PromptOf
from app.chat.replies.recorded import MAX_SYSTEM_PROMPT
from app.chat.surroundings import ALWAYS
from models.records import Message, Role

SCRIPT: dict[str, Any] = {
    "replies": [{"text": "Paris of course"}, {"text": "Rome, I think"}],
}
SLOW: dict[str, Any] = {
    "replies": [{"tokens": [{"text": "again ", "ms": 5, "repeat": 4000}]}],
}


def read(room: Any, message: Message) -> PromptOf:
    found: list[PromptOf] = []
    room.desk.prompts.read(message.id, found.append, still=ALWAYS)
    room.until(lambda: found, "the prompt")
    assert len(found) == 1
    return found[0]


def read_next(room: Any) -> PromptOf:
    found: list[PromptOf] = []
    room.desk.prompts.read_next(found.append, still=ALWAYS)
    room.until(lambda: found, "the next prompt")
    return found[0]


def origins(of: PromptOf) -> list[tuple[str, str, str | None]]:
    assert of.tokens is not None
    return [
        (p.origin, b"".join(of.tokens.pieces(p.start, p.end)).decode(), p.message_id)
        for p in of.tokens.parts
        if p.origin != "scaffold"
    ]


def test_the_prompt_of_a_reply_is_what_the_engine_was_given(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    room.ask("Which city?")
    reply = room.ask("And of Italy?")
    of = read(room, reply)
    assert (of.message_id, of.sentence, of.is_given) == (reply.id, words.GIVEN, True)
    assert of.tokens is not None
    assert of.text == reply.rendered_prompt == of.tokens.blob.decode()
    assert len(of.tokens) == reply.counts.prompt_tokens
    ids = [message.id for message in room.desk.shelf.path]
    assert origins(of)[1:] == [
        ("user", "Which city?", ids[0]),
        ("assistant", "Paris of course", ids[1]),
        ("user", "And of Italy?", ids[2]),
    ]
    assert of.shown is not None
    assert of.shown.returned == [ids[1]]


def test_it_is_the_same_after_a_restart_and_after_the_settings_changed(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    before = read(room, room.ask("Which city?"))
    room.close()
    again = make_room(SCRIPT).start_ready()
    reply = again.until(again.ended_reply, "the stored reply")
    assert reply.rendered_prompt is None  # paths are read without it
    again.desk.settings.set("system_prompt", "Speak like a pirate.")
    again.desk.settings.set("context_policy", "stop")
    of = read(again, reply)
    assert (of.text, of.sentence, of.is_given) == (before.text, words.GIVEN, True)
    assert of.tokens is not None
    assert before.tokens is not None
    assert of.tokens.ids == before.tokens.ids


def test_an_answer_that_comes_behind_another_chat_is_of_the_reply_it_was_asked_for(
    make_room: Any,
) -> None:
    room = make_room(SCRIPT).start_ready()
    before = read(room, room.ask("Which city?"))
    room.close()
    again = make_room(SCRIPT).start_ready()
    reply = again.until(again.ended_reply, "the stored reply")
    answers: list[PromptOf] = []
    again.desk.prompts.read(reply.id, answers.append, still=ALWAYS)
    again.desk.shelf.open_new()
    of = again.until(lambda: answers and answers[0], "the answer")
    assert (of.text, of.sentence, of.is_given) == (before.text, words.GIVEN, True)


def test_what_was_attached_is_told_from_what_was_typed(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    assert room.desk.attachments.add_paste("bye <|end|> ``` " * 20)
    room.until(lambda: room.desk.attachments.of_open, "the attachment")
    draft = read_next_of(room, "What does it say?")
    (attachment,) = room.desk.attachments.of_open
    reply = room.ask("What does it say?")
    expected = [("attachment", block_of(attachment)), ("user", "\n\nWhat does it say?")]
    of = read(room, reply)
    assert of.is_given
    assert [part[:2] for part in origins(of)[1:]] == expected
    assert [part[:2] for part in origins(draft)[1:]] == expected
    assert draft.text == of.text


def read_next_of(room: Any, text: str) -> PromptOf:
    room.desk.shelf.save_draft(text)
    return read_next(room)


def test_what_would_be_sent_next_is_what_is_sent_then(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    nothing = read_next(room)
    assert (nothing.sentence, nothing.tokens) == (words.NOTHING_YET, None)
    of = read_next_of(room, "Which city?")
    assert (of.message_id, of.sentence, of.is_given) == (None, words.NEXT, False)
    assert room.ask("Which city?").rendered_prompt == of.text
    assert origins(of)[-1] == ("user", "Which city?", None)
    second = read_next_of(room, "And of Italy?")
    assert room.ask("And of Italy?").rendered_prompt == second.text


def test_a_document_is_continued_from_the_text_before_the_caret(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    room.desk.shelf.open_new_text()
    assert read_next(room).sentence == words.NOTHING_YET
    room.desk.text.save("Once upon a time", 4)
    of = read_next(room)
    assert (of.sentence, of.text, origins(of)) == (
        words.NEXT_TEXT,
        "Once",
        [("text", "Once", None)],
    )
    assert room.desk.text.go_on("Once upon a time", 4)
    reply = room.until(room.ended_reply, "the continuation")
    of = read(room, reply)
    assert (of.sentence, of.text, of.is_given) == (words.GIVEN, "Once", True)
    assert reply.rendered_prompt == "Once"
    written = "OnceParis of course upon a time"
    assert room.desk.text.text == written
    room.desk.text.save(written, len(written))
    expected = [("text", "Once"), ("assistant", "Paris of course"), ("text", " upon a time")]
    assert [part[:2] for part in origins(read_next(room))] == expected
    assert room.desk.text.go_on(written, len(written))
    second = room.until(lambda: (r := room.ended_reply()) and r.id != reply.id and r, "the second")
    of = read(room, second)
    assert (of.is_given, [part[:2] for part in origins(of)]) == (True, expected)


def test_a_begun_reply_has_its_beginning_in_the_prompt(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    first = room.ask("Which city?")
    room.desk.replies.go_on(first.id)
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != first.id and r, "it goes on")
    of = read(room, reply)
    assert of.is_given, of.sentence
    assert of.text.endswith("<|assistant|>Paris of course")
    assert origins(of)[-1][:2] == ("assistant", "Paris of course")


def test_while_a_reply_grows_and_after_its_end(make_room: Any) -> None:
    room = make_room(SLOW).start_ready()
    room.desk.replies.send("Go on")
    growing = room.until(room.growing, "some text")
    of = read(room, growing)
    assert (of.sentence, of.is_given) == (words.GROWING, False)
    room.desk.replies.stop()
    reply = room.until(room.ended_reply, "the end")
    given = read(room, reply)
    assert (given.sentence, given.text, given.is_given) == (words.GIVEN, of.text, True)


def test_a_branch_has_the_tokens_before_the_chosen_one_in_its_prompt(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    first = room.ask("Which city?")
    assert first.token_ids is not None
    room.desk.branches.at(first.id, 1, first.token_ids[0])
    reply = room.until(lambda: (r := room.ended_reply()) and r.id != first.id and r, "the branch")
    of = read(room, reply)
    assert of.is_given, of.sentence
    assert of.tokens is not None
    assert of.tokens.ids[-1] == first.token_ids[0]
    assert of.tokens.parts[-1].origin == "assistant"


# --- where it cannot be said --------------------------------------------------------------------


def test_of_other_weights_the_stored_text_is_shown_alone(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    room.close()
    others = {**SCRIPT, "load": {"loaded": {"fast_hash": "others"}}}
    again = make_room(others).start_ready()
    of = read(again, again.until(again.ended_reply, "the stored reply"))
    assert (of.text, of.tokens, of.is_given) == (reply.rendered_prompt, None, False)
    name = reply.weights_name
    assert of.sentence == f"{words.STORED_ALONE} {words.OTHER_WEIGHTS.format(name=name)}"


def test_without_weights_the_stored_text_is_shown_alone(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.loaded is None, "no weights")
    of = read(room, reply)
    assert of.sentence == f"{words.STORED_ALONE} {words.NO_WEIGHTS}"
    assert of.text == reply.rendered_prompt
    assert read_next(room).tokens is None


def change_stored(room: Any, message: Message, **fields: Any) -> None:
    room.store.update_message(message.id, **fields).result(20)


def test_of_a_changed_path_the_stored_text_is_shown_and_where_it_differs(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    change_stored(room, room.desk.shelf.path[0], content="Which river?")
    room.close()
    again = make_room(SCRIPT).start_ready()
    of = read(again, again.until(again.ended_reply, "the stored reply"))
    assert (of.text, of.tokens, of.is_given) == (reply.rendered_prompt, None, False)
    place = reply.rendered_prompt.index("city") + 1
    assert f"differs from character {place} on" in of.sentence
    assert "has changed since" in of.sentence


def test_of_another_window_the_sizes_are_named(make_room: Any) -> None:
    script = {**SCRIPT, "load": {"loaded": {"n_ctx": 120}}}
    room = make_room(script).start_ready()
    for text in ("one " * 6, "two " * 6, "three " * 6, "four " * 6):
        reply = room.ask(text)
    assert reply.settings["cut"]
    given = read(room, reply)
    assert given.is_given
    assert given.shown is not None
    assert given.shown.cut
    room.close()
    again = make_room(SCRIPT).start_ready()
    of = read(again, again.until(again.ended_reply, "the stored reply"))
    assert of.text == reply.rendered_prompt
    assert "cut for a context window of 120 tokens" in of.sentence
    assert "loaded with 4,096" in of.sentence


def test_a_long_system_prompt_is_known_again_by_its_hash(make_room: Any) -> None:
    long = "Be brief. " * (MAX_SYSTEM_PROMPT // 10 + 1)
    room = make_room({**SCRIPT, "load": {"loaded": {"n_ctx": 40_000}}}).start_ready()
    room.desk.settings.set("system_prompt", long)
    reply = room.ask("Which city?")
    assert read(room, reply).is_given
    room.desk.settings.set("system_prompt", "Another one.")
    of = read(room, reply)
    assert (of.text, of.tokens) == (reply.rendered_prompt, None)
    assert "system prompt has changed" in of.sentence


def test_what_was_not_stored_is_rendered_now_and_says_so(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    change_stored(room, reply, rendered_prompt=None)
    room.close()
    again = make_room(SCRIPT).start_ready()
    stored = again.until(again.ended_reply, "the stored reply")
    of = read(again, stored)
    assert (of.sentence, of.is_given) == (words.NOT_STORED, False)
    assert of.text == reply.rendered_prompt
    change_stored(again, stored, settings={})
    again.close()
    third = make_room(SCRIPT).start_ready()
    of = read(third, third.until(third.ended_reply, "the stored reply"))
    assert (of.text, of.tokens) == ("", None)
    assert of.sentence.startswith(words.NOTHING_STORED)


def test_the_same_text_with_another_number_of_tokens_is_no_proof(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    reply = room.ask("Which city?")
    counts = dataclasses.replace(reply.counts, prompt_tokens=7)
    change_stored(room, reply, counts=counts)
    room.close()
    again = make_room(SCRIPT).start_ready()
    of = read(again, again.until(again.ended_reply, "the stored reply"))
    assert not of.is_given
    assert of.tokens is not None
    assert f"It had 7 tokens then and has {len(of.tokens):,} now" in of.sentence


def test_only_replies_have_a_prompt(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    room.ask("Which city?")
    question = room.desk.shelf.path[0]
    assert question.role is Role.USER
    assert read(room, question).sentence == words.NOT_A_REPLY


def test_a_reply_of_a_long_path_is_read_from_its_root(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(SCRIPT).start_ready()
    for text in ("one", "two", "three"):
        reply = room.ask(text)
    room.close()
    monkeypatch.setattr("app.chat.conversations.shelf.FIRST_PART", 2)
    monkeypatch.setattr("app.chat.conversations.shelf.Shelf._read_on", lambda self: None)
    again = make_room(SCRIPT).start_ready()
    stored = again.until(again.ended_reply, "the stored reply")
    assert len(again.desk.shelf.path) == 2
    of = read(again, stored)
    assert (of.sentence, of.text) == (words.GIVEN, reply.rendered_prompt)
    assert read_next(again).sentence == words.READING
