"""The same archive of another app again, and a newer one: only what is new is added, and nothing
that is there changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_exports as exports
import pytest
from foreign_exports import gpt_chat, said, tree

from app.chat import events
from app.chat.exchange import importing
from app.chat.exchange.choices import Choices
from models.records import Whereabouts

Told = Callable[[str], str]
Looked = Callable[..., events.ImportPreviewed]

OLD = {"q": (None, said("user", "Why?")), "a": ("q", said("assistant", "Because."))}
MORE = {"q2": ("a", said("user", "Really?")), "b": ("q", said("assistant", "No idea."))}
LAST = {"a2": ("q2", said("assistant", "Yes."))}


def write(path: Path, *chats: Any) -> Path:
    return exports.gpt_archive(path, list(chats))


def chat(leaf: str, *edges: dict[str, Any], title: str = "Why", **more: Any) -> Any:
    joined: dict[str, Any] = {}
    for each in edges:
        joined |= each
    return gpt_chat(title, tree(joined), leaf, id="why", **more)


@pytest.fixture
def bring(room: Any, told: Told, looked: Looked) -> Callable[..., list[Whereabouts]]:
    """Import a file; what was said of its chats beforehand."""

    def do(path: Path, words: str, chosen: frozenset[str] | None = None) -> list[Whereabouts]:
        preview = looked(path)
        room.desk.exchange.import_previewed(chosen)
        told(words)
        return [each.whereabouts for each in preview.chats]

    return do


def whole(room: Any, title: str) -> Any:
    (found,) = (c for c in room.store.list_conversations().result(20) if c.title == title)
    return room.store.read_whole(found.id).result(20)


def test_again_adds_nothing_and_newer_adds_what_is_new(
    room: Any, bring: Any, tmp_path: Path
) -> None:
    desk = room.desk
    first = write(tmp_path / "1.zip", chat("a", OLD), exports.gpt_branches())
    assert bring(first, "2 chats were imported.") == [Whereabouts.NEW] * 2
    before = room.store.list_conversations().result(20)
    assert bring(first, "Nothing is new; 2 were there already.") == [Whereabouts.THERE] * 2
    assert room.store.list_conversations().result(20) == before

    pictures = whole(room, "Branches").files.values()
    assert list(pictures) == [("image/png", exports.PNG)]
    there = whole(room, "Why")
    own = there.conversation.id
    desk.shelf.open_stored(own)
    room.until(lambda: desk.shelf.open.id == own and desk.shelf.path)
    desk.shelf.rename(own, "Mine")
    newer = write(tmp_path / "2.zip", chat("a2", OLD, MORE, LAST, title="Theirs"))
    assert bring(newer, "1 chat has new messages.") == [Whereabouts.MORE]
    now = whole(room, "Mine")  # what was renamed here stays so
    assert {m.content for m in now.messages} == {"Why?", "Because.", "Really?", "No idea.", "Yes."}
    kept = {message.id: message for message in now.messages}
    assert all(kept[message.id] == message for message in there.messages)
    assert kept[now.conversation.active_leaf_id].content == "Yes."
    room.until(lambda: [m.content for m in desk.shelf.path][-1] == "Yes.")
    assert bring(newer, "Nothing is new; 1 was there already.") == [Whereabouts.THERE]
    assert room.store.staged_ids().result(20) == ()
    assert room.store.list_trash().result(20) == ()


def test_what_was_deleted_or_gone_on_with_here_stays_so(
    room: Any, bring: Any, tmp_path: Path
) -> None:
    bring(write(tmp_path / "1.zip", chat("q2", OLD, MORE)), "1 chat was imported.")
    there = whole(room, "Why")
    ids = {message.content: message.id for message in there.messages}
    room.store.set_active_leaf(there.conversation.id, ids["No idea."]).result(20)
    room.store.trash_branch(ids["Really?"]).result(20)
    again = chat("a2", OLD, MORE, LAST)
    assert bring(write(tmp_path / "2.zip", again), "1 chat has new messages.") == [Whereabouts.MORE]
    now = whole(room, "Why")
    assert now.conversation.active_leaf_id == ids["No idea."]
    (added,) = (m for m in now.messages if m.content == "Yes.")
    assert added.parent_id == ids["Because."]  # the nearest that nobody deleted


def test_a_chat_in_the_trash_comes_back_beside_it_and_some_can_be_chosen(
    room: Any, bring: Any, looked: Looked, tmp_path: Path
) -> None:
    archive = write(tmp_path / "1.zip", chat("a", OLD), exports.gpt_branches())
    (why, _) = looked(archive).chats
    assert (why.app, why.n_messages, why.file) == ("ChatGPT", 2, "1.zip")
    bring(archive, "1 chat was imported.", frozenset({why.id}))
    assert {c.title for c in room.store.list_conversations().result(20)} >= {"Why"}
    room.desk.shelf.trash(why.id)
    room.until(lambda: room.store.list_trash().result(20))
    found = bring(archive, "2 chats were imported, 1 of them next to another version.")
    assert found == [Whereabouts.OTHER, Whereabouts.NEW]
    assert bring(archive, "Nothing is new; 2 were there") == [Whereabouts.THERE] * 2


@pytest.mark.parametrize("ended", ["cancelled", "killed"])
def test_half_of_what_is_new_is_nothing(
    room: Any, bring: Any, looked: Looked, told: Told, ended: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, make_room: Any,
) -> None:  # fmt: skip
    bring(write(tmp_path / "1.zip", chat("a", OLD)), "1 chat was imported.")
    before = whole(room, "Why")
    newer = write(tmp_path / "2.zip", chat("a2", OLD, MORE, LAST), 7)
    looked(newer)
    desk = room.desk

    def stop(done: int) -> None:
        if done == 5:
            (desk.exchange._cancelled if ended == "cancelled" else desk.exchange._closing).set()
            desk.exchange._check_wanted()

    monkeypatch.setattr(desk.exchange, "_progress", lambda _total: stop)
    desk.exchange.import_previewed()
    if ended == "cancelled":
        told("Import cancelled. Nothing was added.")
        assert room.store.list_trashed_branches().result(20) == ()
    else:
        room.until(lambda: sum(each.is_over for each in room.of(events.ImportProgressed)) == 2)
        assert room.store.staged_ids().result(20) == (before.conversation.id,)
        assert whole(room, "Why") == before
        room.close()
        room = make_room().start_ready()
        room.until(lambda: room.store.staged_ids().result(20) == ())
    assert whole(room, "Why") == before


def test_every_app_says_what_does_not_come(looked: Looked, tmp_path: Path) -> None:
    path = tmp_path / "webui.json"
    path.write_text(json.dumps([exports.webui_branches()]))
    found = looked(path)
    assert {(each.app, each.what) for each in found.left_out} == {
        ("Open WebUI", "Sources that replies cite"),
        ("Open WebUI", "Files missing from the export (named in the messages)"),
    }
    assert {each.where for each in found.left_out} == {("Weather",)}
    nothing = exports.archive(tmp_path / "photos.zip", {"a.txt": "x"})
    assert looked(exports.gpt_archive(tmp_path / "gpt.zip")).left_out[-1].where == (
        "user.json",
        "message_feedback.json",
    )
    (sentence,) = looked(nothing).refusals
    assert sentence == "photos.zip is an archive without chats that Cutaway can read."


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_exports_of_cutaway_itself_come_out_of_folders_and_archives(
    room: Any, told: Told, looked: Looked, kind: str, tmp_path: Path
) -> None:
    title = room.desk.shelf.open.title
    folder = tmp_path / "backup"
    folder.mkdir()
    room.desk.exchange.export(None, str(folder / "all.json"), Choices("json"))
    told("exported")
    (folder / "bad.json").write_text('{"format":"cutaway-chats","version":1,"conversations":[\n{')
    place = folder
    if kind == "archive":
        place = exports.archive(
            tmp_path / "backup.zip", {each.name: each.read_bytes() for each in folder.iterdir()}
        )
    found = looked(place)
    assert [(c.title, c.whereabouts, c.app) for c in found.chats] == [
        (title, Whereabouts.THERE, "")
    ]
    assert ["damaged" in each.what for each in found.left_out] == [True]


def test_each_dialog_imports_what_it_shows(
    room: Any, told: Told, looked: Looked, tmp_path: Path
) -> None:
    """Files were dropped while others were asked about."""
    first, second = (looked(write(tmp_path / f"{t}.zip", chat("a", OLD, title=t))) for t in "AB")
    room.desk.exchange.import_previewed(None, first.number)
    told("1 chat was imported.")
    assert whole(room, "A").messages
    room.desk.exchange.forget_preview(second.number)
    room.desk.exchange.import_previewed(None, second.number)
    room.pump()
    assert not [c for c in room.store.list_conversations().result(20) if c.title == "B"]


def test_what_is_dropped_meanwhile_does_not_take_a_cancel_back(
    room: Any, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    look_through = importing.look_through

    def slow(store: Any, paths: Any, now: Any, check: Any, tell: Any) -> Any:
        goes_on.wait(20)
        return look_through(store, paths, now, check, tell)

    monkeypatch.setattr(importing, "look_through", slow)
    path = write(tmp_path / "1.zip", chat("a", OLD))
    room.desk.exchange.preview([str(path)])
    room.desk.exchange.cancel()
    room.desk.exchange.preview([str(path)])
    told("still running")
    goes_on.set()
    room.until(lambda: [each for each in room.of(events.ImportLooked) if each.is_over])
    room.pump()
    assert room.of(events.ImportPreviewed) == []
