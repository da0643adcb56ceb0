"""Questions to a document of 200 pages, through the desk: the page that answers goes in."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from long_document import TOWNS, depth, long_details, long_text

from app.chat import events
from app.chat.attachments.attached_text import block_of
from app.chat.attachments.document_parts import mode_of, n_tokens_of, sent_of, source_of
from app.chat.attachments.text_files import TextFile
from app.chat.retrieval import search
from app.chat.retrieval.search import budget_of
from models.records import Attachment, Role

SCRIPT: dict[str, Any] = {
    "load": {"ms": 1, "loaded": {"n_ctx": 16384}},
    "replies": [{"text": "It is deep."}],
}
N_PAGES, PAGE = 60, 37
QUESTION = f"How many metres deep is the harbour of {TOWNS[PAGE - 1]}?"
FACT = f"The harbour of {TOWNS[PAGE - 1]} is {depth(PAGE)} metres deep."


def attach(room: Any, n_pages: int = N_PAGES, name: str = "towns.pdf") -> Attachment:
    text, _ = long_text(n_pages)
    file = TextFile(name, text, len(text), kind="document", details=long_details(n_pages))
    held = room.desk.attachments
    room.desk.shelf.ensure_stored()
    assert held._add(room.desk.shelf.open.id, file)
    room.until(lambda: held.of_open and held.of_open[0].details.get("chosen"), "the choice")
    return held.of_open[0]


def ask_of(page: int) -> str:
    return f"How many metres deep is the harbour of {TOWNS[page - 1]}?"


def fact_of(page: int) -> str:
    return f"The harbour of {TOWNS[page - 1]} is {depth(page)} metres deep."


def labels(attachment: Attachment) -> list[str]:
    return [part.label for part in sent_of(attachment) or []]


@pytest.mark.usefixtures("soon")
def test_a_long_document_is_searched_for_each_question(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    document = attach(room)
    assert mode_of(document) == "parts"
    (said,) = [e.sentence for e in room.of(events.Noticed)]
    assert "towns.pdf” has " in said
    assert document.details["whole_tokens"] > 16384
    # What would go in now is known while it is typed, and costs what it costs.
    room.desk.shelf.note_draft(QUESTION)
    room.desk.draft_parts.refresh_soon()
    held = room.desk.attachments
    room.until(lambda: f"page {PAGE}" in labels(held.of_open[0]), "the page, as it is typed")
    room.until(lambda: held.of_open[0].tokens, "its cost")
    shown = block_of(held.of_open[0])
    room.ask(QUESTION)
    assert prompts[-1] == f"{shown}\n\n{QUESTION}"
    assert FACT in prompts[-1]
    assert len(prompts[-1]) < 20_000
    (kept,) = room.stored()[0].attachments
    assert sent_of(kept)[0].score > 0
    assert max(sent_of(kept), key=lambda part: part.score).label == f"page {PAGE}"
    assert kept.details["by"] == "words"
    # A later question is searched in it, too; one of few words is read with the one before.
    room.ask(f"How deep is {TOWNS[41]}?")
    assert f"The harbour of {TOWNS[41]} is {depth(42)} metres deep." in prompts[-1]
    assert FACT in prompts[-1] or f"page {PAGE}" not in prompts[-1]
    second = room.stored()[2]
    (part,) = second.attachments
    assert part.details["of"] == kept.id
    assert part.text in prompts[-1]
    assert source_of(part, room.desk.shelf.path).text == document.text
    room.until(lambda: room.desk.shelf.path[2].attachments[0].tokens, "what its parts cost")
    # The same parts for another answer, whatever was said since.
    assert room.desk.replies.answer(room.desk.shelf.path[1].id)
    room.until(lambda: len(prompts) == 3, "another answer")
    assert prompts[2] == prompts[0]


def test_enter_is_never_slower_and_the_parts_are_stored(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    attach(room, n_pages=60)
    room.desk.replies.send(ask_of(37))
    assert room.desk.shelf.path[0].content == ask_of(37)  # on screen at once
    assert not prompts
    room.until(lambda: prompts, "the prompt")
    assert fact_of(37) in prompts[0]
    sought = [event.sentence for event in room.of(events.PartsSought)]
    assert sought == ["Searching “towns.pdf”…", ""]
    room.until(lambda: not room.desk.replies.is_generating)
    # Searched again as another version; the old one keeps its parts.
    before = room.stored()[0].attachments[0]
    assert room.desk.tree.search_again(room.desk.shelf.path[0].id)
    room.until(lambda: len(prompts) == 2, "the new version's prompt")
    room.until(lambda: not room.desk.replies.is_generating)
    assert prompts[1] == prompts[0]
    new = room.desk.shelf.path[0]
    assert new.sibling_count == 2
    store = room.desk.around.store
    old = store.list_attachments(new.conversation_id, before.message_id).result(20)
    assert old[0].details == before.details


def test_pages_are_chosen_in_words(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    document = attach(room, n_pages=12)
    choose = room.desk.draft_parts.choose
    for typed, sentence in (
        ("", "Type the pages to send, such as 1-3, 7."),
        (" , ", "Type the pages to send, such as 1-3, 7."),
        ("1.5", "“1.5” isn't a page. Type pages such as 1-3, 7."),
        ("0", "There is no page 0: they run from 1 to 12."),
        ("two", "“two” isn't a page. Type pages such as 1-3, 7."),
        ("9-2", "“9-2” runs backwards. Type 2-9."),
        ("13", "There is no page 13: they run from 1 to 12."),
        ("3-40", "There is no page 40: they run from 1 to 12."),
    ):
        assert choose(document.id, "pages", typed) == sentence
    for typed, found in (
        ("p. 4; Pages 6-7", ["page 4", "page 6–7"]),
        ("４－５、٩", ["page 4–5", "page 9"]),
    ):
        assert choose(document.id, "pages", typed) == ""
        assert labels(room.desk.attachments.of_open[0]) == found
    assert choose(document.id, "pages", " 2–3, 11- ") == ""
    room.until(lambda: room.desk.attachments.of_open[0].tokens, "its cost")
    room.ask("What?")
    assert prompts[0].startswith("Pages of the attached file “towns.pdf”:\n```\n[Page 2]\n")
    for page in range(1, 13):
        assert (f"[Page {page}]" in prompts[0]) == (page in (2, 3, 11, 12))
    assert labels(room.stored()[0].attachments[0]) == ["page 2–3", "page 11–12"]


@pytest.mark.usefixtures("soon")
def test_by_meaning_where_an_embedding_model_is_set(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    room.desk.settings.set("embedding_model", "/models/tiny.gguf")
    attach(room, n_pages=60)
    room.ask(f"Who keeps the light of {TOWNS[29]}?")
    assert f"kept by {TOWNS[29][::-1]}" in prompts[0]
    (kept,) = room.stored()[0].attachments
    assert kept.details["by"] == "meaning"
    assert all(0 < part.score <= 1 for part in sent_of(kept))


def test_without_vectors_it_is_searched_by_words_and_said(make_room: Any, asked: Any) -> None:
    failing = {"passages": {"fail": {"kind": "unsupported", "sentence": "No such model."}}}
    room = make_room(SCRIPT | failing).start_ready()
    prompts = asked(room)
    room.desk.settings.set("embedding_model", "/models/gone.gguf")
    attach(room, n_pages=60)
    room.ask(f"Who keeps the light of {TOWNS[29]}?")
    assert f"kept by {TOWNS[29][::-1]}" in prompts[0]
    said = [event.sentence for event in room.of(events.Noticed)]
    assert "Documents are searched by words. No such model." in said
    assert room.stored()[0].role is Role.USER


def test_edits_branches_and_reopened_chats(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    attach(room, n_pages=30)
    room.ask(ask_of(7))
    room.ask(ask_of(8))
    assert fact_of(8) in prompts[-1]
    # Another question in its place: other parts; the version before keeps its own.
    second = room.desk.shelf.path[2]
    assert room.desk.tree.edit_and_send(second.id, ask_of(21))
    room.until(lambda: len(prompts) == 3 and not room.desk.replies.is_generating)
    assert fact_of(21) in prompts[-1]
    assert fact_of(8) not in prompts[-1]
    first = room.desk.shelf.path[0]
    assert room.desk.tree.edit_and_send(first.id, ask_of(12))
    room.until(lambda: len(prompts) == 4 and not room.desk.replies.is_generating)
    assert fact_of(12) in prompts[-1]
    assert fact_of(7) not in prompts[-1]
    # What was saved alone keeps what went in.
    first = room.desk.shelf.path[0]
    assert room.desk.tree.edit(first.id, "Other words", keep_following=True)
    room.until(lambda: room.desk.shelf.path[0].content == "Other words")
    assert labels(room.desk.shelf.path[0].attachments[0]) == labels(first.attachments[0])
    # In a chat of its own, and after a restart, it is still searched.
    before = room.desk.shelf.open.id
    room.desk.tree.branch_off(room.desk.shelf.path[-1].id)
    room.until(lambda: room.desk.shelf.open.id != before and room.desk.shelf.path)
    branch = room.desk.shelf.open.id
    room.ask(ask_of(25))
    assert fact_of(25) in prompts[-1]
    room.close()
    again = make_room(SCRIPT).start_ready()
    prompts = asked(again)
    again.desk.shelf.open_stored(branch)
    again.until(lambda: again.desk.shelf.open.id == branch and again.desk.shelf.path)
    again.ask(ask_of(3))
    assert fact_of(3) in prompts[-1]
    part = again.desk.shelf.path[-2].attachments[0]
    source = source_of(part, again.desk.shelf.path)
    assert source is not None
    assert fact_of(3) in source.text


def test_who_would_not_wait_has_it_searched_by_words(
    make_room: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    # Not even the vectors that are asked for already are waited for: these never come.
    monkeypatch.setattr(room.desk.search, "_ask", lambda *asked, **how: None)
    room.desk.settings.set("embedding_model", "/models/tiny.gguf")
    attach(room, n_pages=60)
    assert room.desk.replies.send(ask_of(33))
    room.until(lambda: any(event.is_slow for event in room.of(events.PartsSought)), "a slow search")
    room.desk.parts.hurry(room.desk.shelf.open.id)
    room.until(lambda: prompts, "the prompt")
    assert fact_of(33) in prompts[0]
    room.until(lambda: not room.desk.replies.is_generating)
    assert room.stored()[0].attachments[0].details["by"] == "words"
    # Stopped, nothing is asked, and the message stays.
    assert room.desk.replies.send("Who keeps the light of Nowhere in the north of the coast?")
    room.until(lambda: room.of(events.PartsSought)[-1].sentence, "another search")
    room.desk.replies.stop()
    assert room.of(events.PartsSought)[-1].sentence == ""
    assert not room.desk.replies.is_generating
    assert len(prompts) == 1
    assert room.last.role is Role.USER


def test_an_embedding_model_is_tried_out_as_it_is_chosen(make_room: Any, tmp_path: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    said: list[str] = []
    room.desk.embedder.try_out(str(tmp_path / "gone.gguf"), said.append, still=lambda: True)
    assert said == ["“gone.gguf” is no longer there. Choose another embedding model."]
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    room.desk.embedder.try_out(str(path), said.append, still=lambda: True)
    room.until(lambda: len(said) == 2)
    assert said[1] == "Ready: 25.2 MB of memory while it is used, 256 numbers for each part."


def test_what_was_found_for_other_words_or_another_chat_is_dropped(make_room: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    attach(room, n_pages=30)
    room.ask(ask_of(7))
    desk, found = room.desk, lambda: [e.parts for e in room.of(events.PartsFound) if e.parts]
    for page in (8, 21):  # the first is still being cut when the second is asked for
        desk.search._cuts.clear()
        desk.shelf.note_draft(ask_of(page))
        desk.draft_parts._refresh()
    room.until(lambda: found() and found()[-1][0].tokens, "the parts and their cost")
    asked = {part.details["question"] for parts in found() for part in parts}
    assert asked == {ask_of(21)}
    # Nobody who says no is asked again, unless he takes it back.
    document = desk.shelf.path[0].attachments[0]
    desk.draft_parts.leave(document.id)
    room.until(lambda: not desk.draft_parts.of_earlier(), "none")
    left = room.of(events.Noticed)[-1]
    assert left.sentence == "“towns.pdf” isn't searched for later messages any more."
    assert room.stored()[0].attachments[0].details["asked"] == "off"
    desk.shelf.undo(left.undo)
    room.until(desk.draft_parts.of_earlier, "the parts again")
    n_found = len(found())
    desk.search._cuts.clear()
    desk.shelf.note_draft(ask_of(8))
    desk.draft_parts._refresh()
    desk.shelf.open_new()
    room.until(lambda: desk.search._cuts, "the parts of a chat that was left")
    assert len(found()) == n_found
    assert desk.draft_parts.of_earlier() == ()


def test_in_a_temporary_chat_and_behind_a_reply_that_grows(make_room: Any, asked: Any) -> None:
    slow = {"replies": [{"tokens": [{"text": "so ", "ms": 5, "repeat": 60}]}]}
    room = make_room(SCRIPT | slow).start_ready()
    prompts = asked(room)
    room.desk.temporary.open()
    attach(room, n_pages=30)
    assert room.desk.replies.send(ask_of(7))
    room.until(room.growing, "a reply")
    assert room.desk.queue.add(ask_of(21))  # it waits, and is searched when its turn comes
    room.until(lambda: len(prompts) == 2, "the queued one")
    assert fact_of(7) in prompts[0]
    assert fact_of(21) in prompts[1]
    room.until(lambda: not room.desk.replies.is_generating)


@pytest.mark.usefixtures("soon")
def test_many_documents_are_within_the_budget_together(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT | {"load": {"ms": 1, "loaded": {"n_ctx": 4096}}}).start_ready()
    prompts = asked(room)
    text, places = long_text(8)
    held, shelf = room.desk.attachments, room.desk.shelf
    shelf.ensure_stored()
    for n in range(12):  # the same file, again and again, and one that is another
        last = text.replace(TOWNS[6], "Nowhere") if n else text
        details = long_details(8) if n else long_details(8) | {"places": places[:1]}
        file = TextFile("towns.pdf", last, len(text), kind="document", details=details)
        assert held._add(shelf.open.id, file)
    room.until(lambda: [mode_of(each) for each in held.of_open] == ["parts"] * 12, "the choices")
    shelf.note_draft(ask_of(7))
    room.desk.draft_parts.refresh_soon()
    room.until(lambda: all(a.details.get("by") for a in held.of_open), "what would go in")
    shown = [a.details["sent"] for a in held.of_open]
    assert room.desk.replies.send(ask_of(7))
    room.until(lambda: prompts, "the prompt")
    kept = room.desk.shelf.path[0].attachments
    assert [a.details["sent"] for a in kept] == shown
    assert fact_of(7) in prompts[0]
    sent = [part for each in kept for part in sent_of(each)]
    assert 1 <= len(sent) < 12
    rate = n_tokens_of(kept[0]) / len(text)
    assert sum(part.end - part.start for part in sent) * rate <= budget_of(4096)
    assert {part.label for part in sent_of(kept[0])} == {"page 1"}  # it has one place alone
    assert "towns.pdf”, of which nothing is quoted here." in prompts[0]


@pytest.mark.usefixtures("soon")
def test_vectors_are_made_once_where_not_all_documents_are_held_ready(
    make_room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search cuts those anew that had to go; what took long stays."""
    monkeypatch.setattr(search, "MOST_KEPT", 1)
    room = make_room(SCRIPT).start_ready()
    room.desk.settings.set("embedding_model", "/models/tiny.gguf")
    held = room.desk.attachments
    for n_pages in (30, 31):
        attach(room, n_pages)
    room.until(lambda: [mode_of(each) for each in held.of_open] == ["parts"] * 2, "both")
    room.desk.shelf.note_draft(ask_of(7))
    room.desk.draft_parts.refresh_soon()
    room.until(
        lambda: [each.details.get("by") for each in held.of_open] == ["meaning"] * 2, "by meaning"
    )
    assert len(room.desk.search._cuts) == 1


@pytest.mark.usefixtures("soon")
def test_what_the_app_chose_is_chosen_anew_in_another_window(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts = asked(room)
    document = attach(room, n_pages=8)
    assert (mode_of(document), document.details["chosen"]) == ("whole", "app")
    loaded = room.desk.loader.loaded
    state = room.desk.loader.state
    room.desk.loader.state = dataclasses.replace(state, loaded=None)
    room.desk.draft_parts._refresh()  # without a model nothing is another choice
    assert mode_of(room.desk.attachments.of_open[0]) == "whole"
    small = msgspec.structs.replace(loaded, n_ctx=512)
    room.desk.loader.state = dataclasses.replace(state, loaded=small)
    room.desk.draft_parts.refresh_soon()
    held = room.desk.attachments
    room.until(lambda: mode_of(held.of_open[0]) == "parts" and held.of_open[0].tokens, "parts")
    assert len(block_of(held.of_open[0])) < 300
    # Back in the large one, just before it is sent.
    room.desk.loader.state = state
    room.ask(ask_of(7))
    assert prompts[0] == f"{block_of(document)}\n\n{ask_of(7)}"
    assert mode_of(room.stored()[0].attachments[0]) == "whole"


@pytest.mark.usefixtures("soon")
def test_a_text_that_no_window_holds_is_sent_in_parts(make_room: Any, asked: Any) -> None:
    room = make_room(SCRIPT | {"load": {"ms": 1, "loaded": {"n_ctx": 21_000}}}).start_ready()
    prompts = asked(room)
    held = room.desk.attachments
    assert held.add_paste("Sixty metres of rope. " * 920)  # more than half of it, and meant whole
    room.until(lambda: held.of_open and held.of_open[0].details.get("chosen"), "its cost")
    assert mode_of(held.of_open[0]) == "whole"
    assert held.add_paste("Sixty metres of rope. " * 960 + "The pier is old.")
    room.until(lambda: mode_of(held.of_open[-1]) == "parts", "parts")
    held.remove(held.of_open[0].id)
    room.desk.shelf.note_draft("How old is the pier?")
    room.desk.draft_parts.refresh_soon()
    room.until(lambda: held.of_open[0].details.get("question"), "parts for it")
    # Read again in another encoding, what was found before stands nowhere.
    (before,) = held.of_open
    held._set_text(before.id, "Beginning. " * 2000 + before.text, 50_000)
    assert not sent_of(held.of_open[0])
    room.until(lambda: held.of_open[0].details.get("question"), "parts of it")
    assert sent_of(held.of_open[0])[0].start > sent_of(before)[0].start
    room.ask("How old is the pier?")
    assert "The pier is old." in prompts[0]
    assert len(prompts[0]) < 6000


def test_parts_stay_where_their_document_is_deleted_or_moved(
    make_room: Any, asked: Any, tmp_path: Path
) -> None:
    room = make_room(SCRIPT).start_ready()
    prompts, desk = asked(room), room.desk
    attach(room, n_pages=30)
    room.ask(ask_of(7))
    room.ask(ask_of(8))
    first, _, second, _ = desk.shelf.path
    desk.exchange.export([desk.shelf.open.id], str(tmp_path / "chat.json"), "json")
    room.until(lambda: (tmp_path / "chat.json").is_file(), "the file")
    desk.tree.trash(first.id, only_this=True)
    room.until(lambda: desk.shelf.path[0].id != first.id, "the first is gone")
    assert source_of(second.attachments[0], desk.shelf.path) is None
    assert desk.replies.answer(desk.shelf.path[-1].id)
    room.until(lambda: len(prompts) == 3 and not desk.replies.is_generating)
    assert prompts[2] == prompts[1]
    room.ask(ask_of(9))  # nothing is left to search in
    assert prompts[3] == ask_of(9)
    desk.shelf.undo(next(e.undo for e in reversed(room.of(events.Noticed)) if e.undo))
    room.until(lambda: desk.shelf.path[0].id == first.id, "the first is back")
    room.ask(ask_of(10))
    assert fact_of(10) in prompts[4]
