"""Where nothing can be written, whatever would be is refused in one sentence, and in no second one
by what it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.chat.events import Noticed
from models.records import Message, Role

Act = Callable[[Any, tuple[Message, ...]], object]

REFUSED: dict[str, Act] = {
    "tree.edit": lambda desk, m: desk.tree.edit(m[0].id, "Other"),
    "tree.edit_and_send": lambda desk, m: desk.tree.edit_and_send(m[0].id, "Other"),
    "tree.swap_role": lambda desk, m: desk.tree.swap_role(m[0].id),
    "tree.insert": lambda desk, m: desk.tree.insert(m[0].id, Role.USER, "More"),
    "tree.trash": lambda desk, m: desk.tree.trash(m[0].id),
    "tree.prune": lambda desk, m: desk.tree.prune(m[0].id),
    "tree.prune, of another branch": lambda desk, _m: desk.tree.prune("elsewhere"),
    "tree.restore": lambda desk, m: desk.tree.restore(m[0].id, m[0].conversation_id),
    "tree.branch_off": lambda desk, m: desk.tree.branch_off(m[1].id),
    "replies.send": lambda desk, _m: desk.replies.send("More"),
    "replies.answer": lambda desk, m: desk.replies.answer(m[1].id),
    "replies.go_on": lambda desk, m: desk.replies.go_on(m[1].id),
    "replies.begin_with": lambda desk, m: desk.replies.begin_with(m[0].id, "Well"),
    "replies.ask_several": lambda desk, m: desk.replies.ask_several(m[0].id, [{}, {}]),
    "again.run": lambda desk, m: desk.again.run(m[1].id),
    "queue.add": lambda desk, _m: desk.queue.add("More"),
    "room.enlarge": lambda desk, m: desk.room.enlarge(m[1].id),
    "room.trim": lambda desk, m: desk.room.trim(m[1].id),
    "text.go_on": lambda desk, _m: desk.text.go_on("Once", 4),
    "temporary.open": lambda desk, _m: desk.temporary.open(),
    "shelf.restore": lambda desk, m: desk.shelf.restore(m[0].conversation_id),
    "folders.create": lambda desk, _m: desk.folders.create("Work"),
    "folders.rename": lambda desk, _m: desk.folders.rename("f", "Work"),
    "folders.move": lambda desk, _m: desk.folders.move("f", None),
    "folders.delete": lambda desk, _m: desk.folders.delete("f"),
    "folders.move_chats": lambda desk, m: desk.folders.move_chats([m[0].conversation_id], "f"),
    "folders.pin": lambda desk, m: desk.folders.pin([m[0].conversation_id], True),
    "folders.archive": lambda desk, m: desk.folders.archive([m[0].conversation_id], True),
    "folders.trash_one": lambda desk, m: desk.folders.trash_one(m[0].conversation_id),
    "folders.trash": lambda desk, m: desk.folders.trash([m[0].conversation_id]),
    "folders.restore": lambda desk, m: desk.folders.restore([m[0].conversation_id]),
    "folders.delete_for_good": lambda desk, m: desk.folders.delete_for_good(["c"]),
    "folders.delete_backups": lambda desk, _m: desk.folders.delete_backups(),
    "levels.change": lambda desk, _m: desk.levels.change("chat", "temperature", 0.1),
    "chain.put": lambda desk, _m: desk.chain.put(desk.chain.links()[1:]),
    "presets.create": lambda desk, _m: desk.presets.create("Mine"),
    "attachments.add_paste": lambda desk, _m: desk.attachments.add_paste("a text"),
    "exchange.import_previewed": lambda desk, _m: desk.exchange.import_previewed(),
}


@pytest.fixture
def reader(make_room: Any) -> Any:
    """Shows a chat that another window may write."""
    make_room().start_ready().ask("Capital of France?")
    room = make_room(read_only=True).start_ready()
    room.until(lambda: len(room.desk.shelf.path) == 2, "the last chat")
    return room


def test_what_would_be_written_is_refused_in_one_sentence(reader: Any) -> None:
    desk, before = reader.desk, reader.desk.shelf.path
    for name, act in REFUSED.items():
        reader.events.clear()
        assert not act(desk, before), name
        said = [(each.level, each.sentence) for each in reader.of(Noticed)]
        assert said == [("warning", "Another window writes.")], name
    reader.pump()
    assert desk.shelf.path == before


def test_without_a_word_of_the_store_it_is_said_all_the_same(make_room: Any) -> None:
    room = make_room()
    assert not room.desk.around.may_write()
    assert room.of(Noticed) == [Noticed("warning", "This window is read-only.")]
