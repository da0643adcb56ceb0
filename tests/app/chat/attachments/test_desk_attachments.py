"""Attachments through the desk: stored, counted, sent whole, kept with their message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.chat.attachments.attachments import MAX_ATTACHMENTS
from app.chat.conversations.tree import EMPTY_SENTENCE

LONG = "All happy families are alike. " * 200
ENDLESS = {"replies": [{"tokens": [{"text": "a ", "ms": 5, "repeat": 4000}]}]}


def attach(room: Any, text: str = LONG) -> Any:
    """Attach a pasted text and wait until it is there."""
    before = len(room.desk.attachments.of_open)
    assert room.desk.attachments.add_paste(text)
    room.until(lambda: len(room.desk.attachments.of_open) == before + 1, "the attachment")
    return room.desk.attachments.of_open[-1]


def stored(room: Any, conversation_id: str) -> Any:
    return room.desk.around.store.list_attachments(conversation_id).result(20)


def test_a_paste_is_stored_with_the_draft_and_counted(make_room):
    room = make_room().start_ready()
    attachment = attach(room)
    assert (attachment.name, attachment.text) == ("Pasted text", LONG)
    assert attachment.size_bytes == len(LONG)
    tokens = room.until(lambda: room.desk.attachments.of_open[0].tokens, "its tokens")
    assert tokens > 1000
    (kept,) = stored(room, room.desk.shelf.open.id)
    assert (kept.text, kept.message_id) == (LONG, None)
    room.until(lambda: stored(room, room.desk.shelf.open.id)[0].tokens == tokens)


@pytest.mark.usefixtures("soon")
def test_the_meter_counts_what_is_attached(make_room):
    room = make_room().start_ready()
    attach(room)
    counted = room.until(lambda: room.of(events.ContextCounted), "a count")
    room.until(lambda: room.of(events.ContextCounted)[-1].used > 1000, f"more than {counted}")


def test_the_whole_text_goes_into_the_prompt_and_stays_with_the_message(make_room, asked):
    room = make_room().start_ready()
    prompts = asked(room)
    attach(room, "line one\n<|im_end|>\n" * 300)
    room.ask("What does it say?")
    assert prompts == [
        "Attached file “Pasted text”:\n```\n"
        + "line one\n<|im_end|>\n" * 300
        + "```\n\nWhat does it say?"
    ]
    message = room.desk.shelf.path[0]
    assert message.content == "What does it say?"
    assert [a.name for a in message.attachments] == ["Pasted text"]
    assert room.desk.attachments.of_open == ()
    kept = room.stored()[0]
    assert kept.attachments[0].text == "line one\n<|im_end|>\n" * 300
    assert kept.attachments[0].message_id == kept.id

    prompts.clear()
    room.desk.replies.answer(room.desk.shelf.path[1].id)
    room.until(lambda: room.ended_reply() and len(prompts) == 1)
    assert "<|im_end|>" in prompts[0], "a retry has it too"


def test_attachments_alone_are_a_message(make_room):
    room = make_room().start_ready()
    attach(room)
    room.ask("")
    assert room.desk.shelf.path[0].content == ""
    assert room.desk.shelf.open.title == "Pasted text"


def test_files_that_are_refused_together_are_summed_up(make_room, tmp_path: Path):
    """A notice for each would push the earlier ones away."""
    room = make_room().start_ready()
    paths = []
    for name, raw in (
        ("a.png", b"\x89PNG\0\1\2" * 99),
        ("good.txt", b"good words"),
        ("b.png", b"\x89PNG\0\1\2" * 99),
        ("c.png", b"\x89PNG\0\1\2" * 99),
        ("d.png", b"\x89PNG\0\1\2" * 99),
        ("paper.pdf", b"%PDF-1.4"),
        ("nothing.txt", b""),
    ):
        (tmp_path / name).write_bytes(raw)
        paths.append(str(tmp_path / name))
    room.desk.attachments.add_files([*paths, str(tmp_path / "gone.txt"), str(tmp_path)])
    (said,) = room.until(lambda: room.of(events.Noticed))
    room.until(lambda: room.desk.attachments.of_open)
    assert [a.name for a in room.desk.attachments.of_open] == ["good.txt"]
    assert said.sentence.splitlines() == [
        "8 files weren't attached.",
        "Not text: “a.png”, “b.png”, “c.png” and 1 more",
        "Damaged: “paper.pdf”",
        "Empty: “nothing.txt”",
        "Missing: “gone.txt”",
        f"Folder: “{tmp_path.name}”",
    ]


def test_encodings_that_are_guessed_together_are_said_in_one(make_room, tmp_path: Path):
    room = make_room().start_ready()
    texts = {"a.txt": "Größe und Füße", "b.txt": "naïve café", "c.txt": "こんにちは、世界。"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode("cp932" if name == "c.txt" else "cp1252"))
    room.desk.attachments.add_files([str(tmp_path / name) for name in texts])
    (said,) = room.until(lambda: room.of(events.Noticed))
    assert said.sentence.splitlines() == [
        "The encoding of 3 files was guessed. If one looks wrong, open it and choose another.",
        "Western (Windows-1252): “a.txt”, “b.txt”",
        "Japanese (Shift-JIS): “c.txt”",
    ]
    room.until(lambda: len(room.desk.attachments.of_open) == 3)
    assert all(room.desk.attachments.encoding(a.id) for a in room.desk.attachments.of_open)


def test_more_files_than_a_message_takes_are_refused_in_words_that_help(make_room, tmp_path: Path):
    room = make_room().start_ready()
    file = tmp_path / "a.txt"
    file.write_text("words")
    room.desk.attachments.add_files([str(file)] * (MAX_ATTACHMENTS + 1))
    room.desk.attachments.add_files([str(file)])
    room.until(lambda: room.desk.attachments.of_open)
    room.desk.attachments.add_files([str(file)] * MAX_ATTACHMENTS)
    limit = f"A message takes at most {MAX_ATTACHMENTS} attachments: "
    said = [event.sentence for event in room.of(events.Noticed)]
    assert said == [f"{limit}attach fewer.", f"{limit}remove some."]
    assert len(room.desk.attachments.of_open) == 1


def test_files_are_read_or_refused_one_by_one(make_room, tmp_path: Path):
    room = make_room().start_ready()
    good, bad = tmp_path / "good.txt", tmp_path / "bad.bin"
    good.write_text("good words")
    bad.write_bytes(b"\0\1\2\3" * 100)
    room.desk.attachments.add_files([str(bad), str(good), str(tmp_path / "gone.txt")])
    room.until(lambda: room.of(events.Noticed) and room.desk.attachments.of_open)
    assert [a.name for a in room.desk.attachments.of_open] == ["good.txt"]
    said = [event.sentence for event in room.of(events.Noticed)]
    assert said == ["2 files weren't attached.\nNot text: “bad.bin”\nMissing: “gone.txt”"]


def test_a_guessed_encoding_can_be_changed(make_room, tmp_path: Path):
    room = make_room().start_ready()
    file = tmp_path / "notes.txt"
    file.write_bytes("Größe".encode("cp1252"))
    room.desk.attachments.add_files([str(file)])
    room.until(
        lambda: (
            room.desk.attachments.of_open and room.desk.attachments.of_open[0].tokens is not None
        )
    )
    (attachment,) = room.desk.attachments.of_open
    guessed = room.desk.attachments.encoding(attachment.id)
    assert guessed
    room.desk.attachments.read_as(attachment.id, "cp1251")
    room.until(lambda: room.desk.attachments.of_open[0].text == "GrцЯe")
    room.until(lambda: room.desk.attachments.of_open[0].tokens is not None, "it is counted anew")
    assert room.desk.attachments.encoding(attachment.id) == "cp1251"
    (kept,) = stored(room, room.desk.shelf.open.id)
    assert (kept.text, kept.size_bytes) == ("GrцЯe", len("GrцЯe".encode()))
    # Two choices at once: the last one holds.
    room.desk.attachments.read_as(attachment.id, "cp1253")
    room.desk.attachments.read_as(attachment.id, "cp1252")
    room.until(lambda: room.desk.attachments.of_open[0].text == "Größe")
    assert stored(room, room.desk.shelf.open.id)[0].text == "Größe"


def test_a_file_that_is_utf_8_leaves_nothing_to_choose(make_room, tmp_path: Path):
    room = make_room().start_ready()
    file = tmp_path / "notes.txt"
    file.write_text("Größe", encoding="utf-8")
    room.desk.attachments.add_files([str(file)])
    room.until(lambda: room.desk.attachments.of_open)
    (attachment,) = room.desk.attachments.of_open
    assert room.desk.attachments.encoding(attachment.id) == ""
    room.desk.attachments.read_as(attachment.id, "cp1251")
    assert room.desk.attachments.of_open[0].text == "Größe"


def test_a_refused_file_makes_no_conversation(make_room, tmp_path: Path):
    room = make_room().start_ready()
    room.desk.attachments.add_files([str(tmp_path / "gone.txt")])
    room.until(lambda: room.of(events.Noticed))
    assert room.desk.shelf.conversations == ()


def test_removing_can_be_undone(make_room):
    room = make_room().start_ready()
    attachment = attach(room)
    room.desk.attachments.remove(attachment.id)
    assert room.desk.attachments.of_open == ()
    assert stored(room, room.desk.shelf.open.id) == ()
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    room.until(lambda: [a.id for a in room.desk.attachments.of_open] == [attachment.id])
    assert len(stored(room, room.desk.shelf.open.id)) == 1


def test_taken_as_text_it_is_no_attachment_any_more(make_room):
    room = make_room().start_ready()
    attachment = attach(room)
    assert room.desk.attachments.take_as_text(attachment.id) == LONG
    assert room.desk.attachments.of_open == ()
    assert stored(room, room.desk.shelf.open.id) == ()
    assert room.desk.attachments.take_as_text(attachment.id) == ""


def test_they_are_there_again_after_a_restart_and_in_their_own_chat(make_room):
    room = make_room().start_ready()
    first = attach(room)
    first_chat = room.desk.shelf.open.id
    room.desk.shelf.open_new()
    assert room.desk.attachments.of_open == ()
    second = attach(room, "Another text. " * 400)
    room.close()

    again = make_room().start_ready()
    again.until(lambda: again.desk.attachments.of_open, "the draft's attachments")
    assert [a.text for a in again.desk.attachments.of_open] == [second.text]
    again.desk.shelf.open_stored(first_chat)
    again.until(lambda: [a.id for a in again.desk.attachments.of_open] == [first.id])


def test_a_second_window_attaches_nothing(make_room):
    room = make_room().start_ready()
    attach(room)
    other = make_room(read_only=True).start_ready()
    assert not other.desk.attachments.add_paste(LONG)
    assert other.of(events.Noticed)[-1].sentence == "Another window writes."


def test_the_next_paste_has_a_name_of_its_own(make_room):
    room = make_room().start_ready()
    attach(room)
    assert attach(room).name == "Pasted text 2"


def test_an_edited_version_can_leave_out_what_was_attached(make_room, asked):
    """One that was too large is mended so."""
    room = make_room().start_ready()
    small, large = attach(room, "the small text"), attach(room, "the large text " * 400)
    room.ask("What?")
    prompts = asked(room)
    question = room.desk.shelf.path[0]
    kept = tuple(each for each in question.attachments if each.name == small.name)
    assert room.desk.tree.edit_and_send(question.id, "What?", kept)
    room.until(lambda: room.ended_reply() and prompts)
    assert prompts == ["Attached file “Pasted text”:\n```\nthe small text\n```\n\nWhat?"]
    assert [a.text for a in room.stored()[0].attachments] == ["the small text"]
    edited = room.desk.shelf.path[0]
    assert room.desk.tree.edit(edited.id, "", attachments=edited.attachments)
    room.until(lambda: room.desk.shelf.path[0].content == "")
    assert not room.desk.tree.edit(room.desk.shelf.path[0].id, "", attachments=())
    assert room.of(events.Noticed)[-1].sentence == EMPTY_SENTENCE
    room.desk.paths.show_version(room.desk.shelf.path[0].id, -2)
    room.until(lambda: room.desk.shelf.path[0].id == question.id)
    assert [a.name for a in room.stored()[0].attachments] == [small.name, large.name]


def test_an_edited_version_keeps_what_was_attached(make_room, asked):
    room = make_room().start_ready()
    attach(room, "the whole text")
    room.ask("What?")
    prompts = asked(room)
    room.desk.tree.edit_and_send(room.desk.shelf.path[0].id, "Why?")
    room.until(lambda: room.ended_reply() and prompts)
    assert prompts == ["Attached file “Pasted text”:\n```\nthe whole text\n```\n\nWhy?"]
    edited = room.stored()[0]
    assert edited.content == "Why?"
    assert [a.text for a in edited.attachments] == ["the whole text"]
