"""Export and import through the desk, on a real store and real files."""

from __future__ import annotations

import errno
import json
import os
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat import events
from app.chat.documents.text_document import PLACE
from app.chat.exchange import exporting
from app.chat.exchange.choices import Choices
from app.chat.exchange.exporting import file_name
from app.chat.exchange.refusals import FileRefused
from models.records import (
    ConversationKind,
    Message,
    MessageState,
    Role,
    Whereabouts,
    WholeConversation,
)

Told = Callable[[str], str]
Looked = Callable[..., events.ImportPreviewed]


def stored(room: Any) -> Any:
    return room.desk.around.store


def whole(room: Any, conversation_id: str = "") -> Any:
    return stored(room).read_whole(conversation_id or room.desk.shelf.open.id).result(20)


def titles(room: Any) -> list[str]:
    return sorted(c.title for c in room.desk.shelf.conversations)


def test_a_chat_goes_out_and_comes_back_as_it_was(
    room: Any, told: Told, looked: Looked, tmp_path: Path, make_room: Callable[..., Any]
) -> None:
    """The tree, the trace, the settings, the draft: everything."""
    desk, target = room.desk, tmp_path / "chat.json"
    desk.replies.answer(desk.shelf.path[-1].id)
    room.until(lambda: desk.shelf.path[-1].sibling_count == 2 and room.ended_reply())
    desk.shelf.save_draft("And of It")
    desk.exchange.export([desk.shelf.open.id], str(target), "json")
    assert told("exported") == "1 chat was exported to “chat.json”."
    before = whole(room)
    assert len(before.messages) == 3
    assert before.conversation.draft == "And of It"
    assert len(before.traces) == 2
    assert before.messages[1].settings
    assert looked(target).chats[0].whereabouts is Whereabouts.THERE

    desk.folders.trash_one(desk.shelf.open.id)
    stored(room).purge_some(before.conversation.created_at.replace(year=2999)).result(20)
    preview = looked(target)
    assert preview.refusals == ()
    (chat,) = preview.chats
    assert (chat.title, chat.n_messages, chat.file) == (before.conversation.title, 3, "chat.json")
    assert chat.whereabouts is Whereabouts.NEW
    desk.exchange.import_previewed()
    told("1 chat was imported.")
    room.until(lambda: desk.shelf.conversations, "the list")
    assert whole(room, before.conversation.id) == before
    desk.exchange.export(None, str(tmp_path / "again.json"), "json")
    told("“again.json”")
    first, second = (json.loads(p.read_bytes()) for p in (target, tmp_path / "again.json"))
    assert first | {"exported_at": ""} == second | {"exported_at": ""}


def test_an_import_can_be_taken_back(room: Any, told: Told, looked: Looked, tmp_path: Path) -> None:
    chat = tmp_path / "rome.md"
    chat.write_text("# About Rome\n\n## User\n\nWhat is Rome?\n\n## Assistant\n\nA city.\n")
    assert looked(chat).chats[0].n_messages == 2
    room.desk.exchange.import_previewed()
    told("1 chat was imported.")
    room.until(lambda: "About Rome" in titles(room))
    undo = next(e.undo for e in reversed(room.of(events.Noticed)) if e.undo)
    room.desk.shelf.undo(undo)
    assert "About Rome" not in titles(room)
    assert looked(chat).chats[0].whereabouts is Whereabouts.OTHER, "it lies in the trash"


def test_a_changed_chat_comes_in_beside_the_one_that_is_there(
    room: Any, told: Told, looked: Looked, tmp_path: Path
) -> None:
    target, desk = tmp_path / "chat.json", room.desk
    desk.exchange.export(None, str(target), "json")
    told("exported")
    mine = whole(room)
    target.write_bytes(target.read_bytes().replace(b"Paris is", b"Lyon is"))
    assert [c.whereabouts for c in looked(target).chats] == [Whereabouts.OTHER]
    desk.exchange.import_previewed()
    told("1 chat was imported, 1 of them next to another version.")
    room.until(lambda: len(desk.shelf.conversations) == 2)
    assert whole(room).messages == mine.messages
    other = next(c.id for c in desk.shelf.conversations if c.id != desk.shelf.open.id)
    assert whole(room, other).messages[-1].content.startswith("Lyon is")
    assert looked(target).chats[0].whereabouts is Whereabouts.THERE
    desk.exchange.import_previewed()
    told("Nothing is new; 1 was there already.")


def test_markdown_goes_out_and_comes_back(
    room: Any, told: Told, looked: Looked, tmp_path: Path
) -> None:
    desk, target = room.desk, tmp_path / "chat.md"
    desk.exchange.export([desk.shelf.open.id], str(target), "markdown")
    told("exported")
    text = target.read_text()
    assert "## User\n\nWhat is the capital of France?\n" in text
    assert "Paris is the capital of France.\n" in text
    assert looked(target).chats[0].whereabouts is Whereabouts.THERE
    target.write_text(text.replace("capital of France?", "capital of Gaul?"))
    assert looked(target).chats[0].whereabouts is Whereabouts.OTHER
    desk.exchange.import_previewed()
    told("imported")
    room.until(lambda: len(desk.shelf.conversations) == 2)
    desk.shelf.open_stored(
        next(c.id for c in desk.shelf.conversations if c.id != desk.shelf.open.id)
    )
    room.until(lambda: desk.shelf.path and "Gaul" in desk.shelf.path[0].content)
    assert [(m.role, m.state) for m in desk.shelf.path] == [
        (Role.USER, MessageState.COMPLETE),
        (Role.ASSISTANT, MessageState.COMPLETE),
    ]


def test_several_chats_as_markdown_fill_a_folder_and_overwrite_nothing(
    room: Any, told: Told, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    desk = room.desk
    desk.shelf.rename(desk.shelf.open.id, "A/B: what?")
    (folder / "A B what.md").write_text("mine")
    desk.shelf.open_new()
    room.ask("Another one")
    desk.exchange.export(None, str(folder), "markdown")
    told("2 chats were exported to “out”.")
    assert (folder / "A B what.md").read_text() == "mine"
    assert "# A/B: what?" in (folder / "A B what (2).md").read_text()
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("", "Chat.md"),
        ("...", "Chat.md"),
        ("con", "Chat con.md"),
        ("COM¹ .txt", "Chat COM¹ .txt.md"),
        ("a\n\tb\0c", "a b c.md"),
        ("../../etc/passwd", "etc passwd.md"),
        ("x" * 300, "x" * 80 + ".md"),
        ("\U0001f600" * 100, "\U0001f600" * 40 + ".md"),
    ],
)
def test_names_of_files(title: str, name: str) -> None:
    assert file_name(title, ".md") == name


def test_a_file_that_cannot_be_written_is_said_so_and_nothing_is_left(
    room: Any, told: Told, tmp_path: Path
) -> None:
    desk = room.desk
    desk.exchange.export(None, str(tmp_path / "nowhere" / "chat.json"), "json")
    assert "couldn't be saved (No such file" in told("Choose another location")
    (tmp_path / "folder.json").mkdir()
    desk.exchange.export(None, str(tmp_path / "folder.json"), "json")
    told("isn't a file that can be written")
    target = tmp_path / "kept.json"
    target.write_text("old")
    target.chmod(0o400)
    desk.exchange.export(None, str(target), "json")
    told("“kept.json” is read-only.")
    target.chmod(0o600)
    desk.exchange.export(["unknown"], str(target), "json")
    told("Nothing to export yet")
    assert target.read_text() == "old"
    desk.exchange.export(["unknown"], str(tmp_path / "kept.md"), "markdown")
    room.until(lambda: not desk.exchange._is_busy)
    assert not [p.name for p in tmp_path.iterdir() if p.suffix in (".part", ".md")]


def test_the_database_is_never_replaced(room: Any, told: Told) -> None:
    """Not even by who asks for it: all chats would be gone. Whatever it is called, and by links."""
    opened = stored(room).list_backups().result(20)
    folder = Path(opened.folder).parent
    database = next(folder.rglob("cutaway.sqlite3"))
    link = folder / "link.html"
    link.symlink_to(database)
    before = database.read_bytes()[:100]
    for target in (database, link):
        room.desk.exchange.export(None, str(target), "json")
        told(f"“{target.name}” is a database or a model. Choose another name.")
    with pytest.raises(FileRefused):
        exporting.write_text(database, "a page")
    assert database.read_bytes()[:100] == before
    assert len(stored(room).list_conversations().result(20)) == 1


def test_a_text_document_goes_out_as_its_text(room: Any, told: Told, tmp_path: Path) -> None:
    """Not as the changes that it is stored as."""
    desk = room.desk
    conversation = replace(desk.shelf.open, id="t", kind=ConversationKind.TEXT, title="Tale")
    places = ((0, 0, "Once upon "), (10, 10, "a time."), (5, 9, "twice"))
    messages = [
        Message(
            id=f"t{n}",
            conversation_id="t",
            parent_id=f"t{n - 1}" if n else None,
            role=Role.ASSISTANT if n == 1 else Role.USER,
            content=text,
            created_at=conversation.created_at,
            settings={PLACE: [start, end]},
        )
        for n, (start, end, text) in enumerate(places)
    ]
    conversation = replace(conversation, active_leaf_id="t2", draft="")
    stored(room).add_all([WholeConversation(conversation, tuple(messages))])
    desk.exchange.export(["t"], str(tmp_path / "tale.html"), "html")
    told("exported")
    page = (tmp_path / "tale.html").read_text()
    assert "Once twice a time." in page
    assert page.count("<article") == 1
    assert ">You<" not in page


def test_an_export_is_for_its_owner_alone(room: Any, told: Told, tmp_path: Path) -> None:
    room.desk.exchange.export(None, str(tmp_path / "chat.json"), "json")
    told("exported")
    assert stat.S_IMODE((tmp_path / "chat.json").stat().st_mode) == 0o600


def test_bad_files_cost_a_sentence_each_and_change_nothing(
    room: Any, told: Told, looked: Looked, tmp_path: Path
) -> None:
    good, desk = tmp_path / "good.json", room.desk
    desk.exchange.export(None, str(good), "json")
    told("exported")
    before = whole(room)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    bad = {
        "not.json": b"Dear diary",
        "photo.md": b"\x89PNG\r\n\xff\xfe",
        "words.md": b"Just words.",
        "cut.json": good.read_bytes()[:-4],
        "empty.json": b"",
        "none.json": b'{"format":"cutaway-chats","version":1,"conversations":[\n]}\n',
    }
    for name, raw in bad.items():
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "folder").mkdir()
    names = [*bad, "pipe.json", "gone.json", "folder", "nul\0.json"]
    preview = looked(*(tmp_path / name for name in names))
    assert preview.chats == ()
    assert len(preview.refusals) == len(names)
    assert all(sentence.endswith(".") for sentence in preview.refusals)
    desk.exchange.import_previewed()
    preview = looked(tmp_path / "cut.json", good)
    assert [c.file for c in preview.chats] == ["good.json"], "a good one beside it still comes"
    assert whole(room) == before
    assert len(stored(room).list_conversations().result(20)) == 1


def test_a_file_that_changed_after_it_was_looked_at_is_not_imported(
    room: Any, told: Told, looked: Looked, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.md", tmp_path / "second.md"
    for path in (first, second):
        path.write_text(f"# {path.stem}\n\n## User\n\n{path.stem}\n")
    assert len(looked(first, second).chats) == 2
    second.write_text("## User\n\nsomething else\n")
    room.desk.exchange.import_previewed()
    told("second.md has changed since you chose it")
    assert len(stored(room).list_conversations().result(20)) == 1, "all or nothing"


def test_one_at_a_time(room: Any, told: Told, tmp_path: Path) -> None:
    room.desk.exchange.export(None, str(tmp_path / "one.json"), "json")
    room.desk.exchange.export(None, str(tmp_path / "two.json"), "json")
    told("still running")
    told("“one.json”")
    assert not (tmp_path / "two.json").exists()
    room.desk.exchange.export(None, str(tmp_path / "two.json"), "json")
    told("“two.json”")


def test_closing_gives_up_what_runs(room: Any, tmp_path: Path) -> None:
    room.desk.exchange._closing.set()
    room.desk.exchange.export(None, str(tmp_path / "one.json"), "json")
    room.close()
    assert list(tmp_path.glob("*.json*")) == list(tmp_path.glob("script-*.json"))


def test_a_temporary_chat_is_exported_when_somebody_asks_for_it(
    room: Any, told: Told, tmp_path: Path
) -> None:
    desk = room.desk
    desk.temporary.open()
    room.ask("A secret")
    desk.exchange.export([desk.shelf.open.id], str(tmp_path / "secret.md"), "markdown")
    told("exported")
    assert "A secret" in (tmp_path / "secret.md").read_text()


def test_several_chats_are_files_of_their_own_or_an_archive_of_them(
    room: Any, told: Told, tmp_path: Path
) -> None:
    desk = room.desk
    for _ in range(2):
        desk.shelf.open_new()
        room.ask("What is the capital of France?")
    archive = tmp_path / "chats.zip"
    desk.exchange.export(None, str(archive), Choices("html"))
    told("3 chats were exported to “chats.zip”.")
    with zipfile.ZipFile(archive) as opened:
        names = sorted(opened.namelist())
        pages = [opened.read(name).decode() for name in names]
    title = "What is the capital of France"
    assert [name.removeprefix(title) for name in names] == [" (2).html", " (3).html", ".html"]
    assert all("What is the capital of France?" in page for page in pages)
    desk.exchange.export(None, str(tmp_path / "folder"), Choices("docx"))
    told("“folder”")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        name.replace(".html", ".docx") for name in names
    ]
    desk.exchange.export(None, str(tmp_path / "all.jsonl"), Choices("training"))
    told("“all.jsonl”")
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert [[m["role"] for m in json.loads(line)["messages"]] for line in lines] == [
        ["user", "assistant"]
    ] * 3
    progress = room.of(events.ExportProgressed)
    assert [each.is_over for each in progress if each.is_over] == [True] * 3


def test_a_cancelled_export_leaves_what_was_there(room: Any, told: Told, tmp_path: Path) -> None:
    desk, target = room.desk, tmp_path / "chat.html"
    target.write_text("old")

    class Waiting:
        """A press that is asked for a page, and cancelled while it makes one."""

        def print_chat(self, chat: Any, choices: Choices, path: Path) -> None:
            desk.exchange.cancel()
            path.write_bytes(b"half")
            chat.step()

        def close(self) -> None:
            pass

    desk.exchange.press = Waiting()
    desk.exchange.export([desk.shelf.open.id], str(target), Choices("pdf"))
    told("Export cancelled.")
    assert target.read_text() == "old"
    assert not list(tmp_path.glob(".cutaway-*"))


def test_a_second_export_wakes_no_cancelled_one(room: Any, told: Told, tmp_path: Path) -> None:
    desk, target = room.desk, tmp_path / "chat.pdf"

    class Waiting:
        def print_chat(self, chat: Any, choices: Choices, path: Path) -> None:
            desk.exchange.cancel()
            desk.exchange.export(None, str(tmp_path / "second.json"), "json")
            chat.step()

        def close(self) -> None:
            pass

    desk.exchange.press = Waiting()
    desk.exchange.export([desk.shelf.open.id], str(target), Choices("pdf"))
    told("Export cancelled.")
    assert not target.exists()


def test_a_full_disk_is_said_and_the_old_file_stays(
    room: Any, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for form in ("html", "training", "tokens"):
        target = tmp_path / f"chat.{form}"
        target.write_text("old")
        with monkeypatch.context() as patched:
            patched.setattr(exporting, "sync", full)
            room.desk.exchange.export([room.desk.shelf.open.id], str(target), Choices(form))
            words = told(f"“{target.name}” couldn't be saved (No space left on device).")
        assert words.endswith("free some space.")
        assert target.read_text() == "old"
    assert not list(tmp_path.glob(".cutaway-*"))
