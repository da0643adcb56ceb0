"""A temporary chat: it works like any other, and nothing of it is ever in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheMap
from models.records import Role

SECRET = "zanzibar-velvet-teapot"
ANSWER = "marmalade-octopus-lantern"
SCRIPT: dict[str, Any] = {
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "ordinary", "text": "Fine."},
        {"text": f"I say {ANSWER} to that."},
    ],
}


def on_disk(folder: Path, *words: str) -> list[str]:
    """Which files of a folder hold one of these words, in any of the usual encodings."""
    needles = [word.encode(code) for word in words for code in ("utf-8", "utf-16-le")]
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def test_the_search_for_words_on_disk_finds_an_ordinary_chat(make_room, data_dir):
    room = make_room(SCRIPT).start_ready()
    room.ask(SECRET)
    room.until(lambda: on_disk(data_dir, SECRET))
    room.until(lambda: on_disk(data_dir, ANSWER))


def test_it_works_like_any_other_and_leaves_no_trace(make_room, data_dir, caplog):
    room = make_room(SCRIPT).start_ready()
    room.ask("an ordinary chat")
    room.desk.temporary.open()
    assert room.desk.temporary.is_open
    room.desk.shelf.save_draft(f"{SECRET} draft")
    room.desk.attachments.add_paste(f"{SECRET} attached " * 60)
    room.until(lambda: room.desk.attachments.of_open, "the attachment")
    reply = room.ask(SECRET)
    assert reply.content == f"I say {ANSWER} to that."
    assert room.desk.shelf.path[0].attachments
    room.desk.replies.answer(reply.id)
    room.until(lambda: room.ended_reply() and room.ended_reply().sibling_count == 2)
    room.desk.paths.show_version(room.ended_reply().id, -1)
    room.until(lambda: room.desk.shelf.path[-1].sibling_index == 0)
    room.desk.tree.edit(reply.id, f"{SECRET} edited")
    room.until(lambda: room.desk.shelf.path[-1].content == f"{SECRET} edited")
    room.desk.growing.read_trace(reply.id)
    room.until(lambda: [e for e in room.of(events.TraceRead) if e.tokens], "its trace")

    assert on_disk(data_dir, SECRET, ANSWER) == [], "while it is open"
    assert [c.title for c in room.desk.shelf.conversations] == ["an ordinary chat"]
    store = room.desk.around.store
    assert store.search(SECRET).result(20).hits == ()
    room.close()
    assert on_disk(data_dir, SECRET, ANSWER) == [], "after an orderly end"
    assert SECRET not in caplog.text
    assert ANSWER not in caplog.text


def test_one_can_come_back_to_it_until_it_is_ended(make_room):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    room.ask(SECRET)
    temporary = room.desk.shelf.open.id
    room.desk.shelf.save_draft("half a thought")
    room.desk.shelf.open_new()
    assert not room.desk.temporary.is_open
    assert room.desk.temporary.is_begun
    room.desk.temporary.open()
    room.until(lambda: room.desk.shelf.open.id == temporary)
    assert [m.role for m in room.desk.shelf.path] == [Role.USER, Role.ASSISTANT]
    assert room.desk.shelf.open.draft == "half a thought"

    room.desk.temporary.end()
    assert not room.desk.temporary.is_begun
    assert not room.desk.temporary.is_open
    assert room.desk.shelf.path == ()
    room.desk.temporary.open()
    assert room.desk.shelf.open.id != temporary
    assert room.desk.shelf.path == ()


def test_ending_it_drops_the_reply_that_grows(make_room, data_dir):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    room.desk.replies.send(f"slow {SECRET}")
    room.until(room.growing)
    before = len(room.of(events.Noticed))
    room.desk.temporary.end()
    assert not room.desk.replies.is_generating
    room.ask("an ordinary question")
    assert len(room.of(events.Noticed)) == before
    assert on_disk(data_dir, SECRET) == []


@pytest.mark.parametrize("question", [SECRET, f"slow {SECRET}"])
def test_its_tokens_leave_the_cache_with_it(make_room, question: str):
    """Also those of a reply that is still written when it is ended."""
    room = make_room(SCRIPT).start_ready()
    room.ask("an ordinary chat")
    ordinary = room.desk.shelf.open.id
    room.desk.temporary.open()
    room.desk.replies.send(question)
    room.until(room.growing if question != SECRET else room.ended_reply)

    def held() -> set[str]:
        told: list[CacheMap] = []
        room.desk.cache.read(told.append, told.append, still=ALWAYS)
        room.until(lambda: told, "the map")
        return {each.conversation for each in (*told[0].slots, *told[0].parked)}

    temporary = room.desk.shelf.open.id
    assert temporary in held()
    room.desk.temporary.end()
    room.until(lambda: temporary not in held(), "its cells go")
    assert ordinary in held()


def test_an_empty_one_is_not_worth_a_warning(make_room):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    assert not room.desk.temporary.is_begun


def test_it_is_not_opened_again_at_the_next_start(make_room):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    room.ask(SECRET)
    room.close()
    again = make_room(SCRIPT).start_ready()
    assert again.desk.shelf.path == ()
    assert again.desk.shelf.conversations == ()
    assert not again.desk.temporary.is_begun


def test_what_is_queued_there_stays_there(make_room, data_dir):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    room.desk.replies.send("slow")
    room.until(room.growing)
    room.desk.queue.add(f"{SECRET} queued")
    room.desk.replies.stop()
    room.until(lambda: not room.desk.replies.is_generating)
    room.desk.queue.send_next()
    room.until(lambda: len(room.desk.shelf.path) == 4 and room.ended_reply())
    assert on_disk(data_dir, SECRET, ANSWER) == []


def test_a_store_error_carries_no_text_into_the_log(make_room, caplog):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    room.ask("hello")
    store = room.desk.around.store
    broken = room.desk.shelf.path[0].id
    failed = store.update_message(broken, content=SECRET, seed="no number \ud800")
    room.desk.around.saved(failed)
    room.until(lambda: failed.done())
    room.pump()
    assert SECRET not in caplog.text


@pytest.mark.parametrize("is_read_only", [True])
def test_a_window_that_only_reads_has_none(make_room, is_read_only):
    make_room(SCRIPT).start_ready()
    room = make_room(SCRIPT, read_only=is_read_only).start_ready()
    room.desk.temporary.open()
    assert not room.desk.temporary.is_open


def test_it_is_not_branched_into_a_chat_that_is_kept(make_room, data_dir):
    room = make_room(SCRIPT).start_ready()
    room.desk.temporary.open()
    reply = room.ask(SECRET)
    room.desk.tree.branch_off(reply.id)
    assert "can't be branched into a new chat" in room.of(events.Noticed)[-1].sentence
    assert room.desk.shelf.conversations == ()
    assert room.desk.temporary.is_open
    assert on_disk(data_dir, SECRET) == []
