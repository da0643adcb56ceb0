"""Documents through the desk: read beside the window, kept with their places, counted, sent."""

from __future__ import annotations

import dataclasses
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from each import each
from pdfs import PICTURE, pdf

from app.chat import events
from app.chat.attachments.document_parts import follow_up, sent_of, source_of, whole_tokens
from app.chat.attachments.documents import read_file
from app.chat.conversations.shelf import new_message
from app.insight.retrieval.choice import Part
from app.reading import client
from app.reading.client import Reading
from models.records import Attachment

NEVER = [sys.executable, "-c", "import sys; sys.stdin.read()"]
PAGES = "[Page 1]\n\nHello, page one.\n\n[Page 2]\n\nThe answer is 42."


def test_a_document_is_attached_with_its_places(make_room: Any, tmp_path: Path) -> None:
    path = tmp_path / "report"  # it is what it holds, whatever it is called
    path.write_bytes(pdf(["Hello, page one.", "The answer is 42.", PICTURE, ""]))
    room = make_room().start_ready()
    held = room.desk.attachments
    assert held.add_files([str(path)])
    (attachment,) = room.until(lambda: held.of_open, "the document")
    assert (attachment.name, attachment.kind) == ("report", "document")
    assert (attachment.text, attachment.size_bytes) == (
        f"{PAGES}\n\n[Page 3]\n\n[Page 4]",
        path.stat().st_size,
    )
    read = {
        "media_type": "application/pdf",
        "places": [[0, "page 1"], [28, "page 2"], [57, "page 3"], [67, "page 4"]],
        "mode": "whole",
        "pages": "",
    }
    assert attachment.details.items() >= read.items()
    (said,) = room.until(lambda: room.of(events.Noticed), "what to know about it")
    assert said.sentence == "Page 3 of “report” has no text: pictures aren't read."
    assert room.until(lambda: held.of_open[0].tokens, "its tokens") > 20
    room.ask("What is the answer?")
    (kept,) = room.stored()[0].attachments
    assert (kept.kind, kept.text) == ("document", attachment.text)
    assert kept.details.items() >= read.items()


def test_a_window_that_closes_waits_for_no_document(make_room: Any, tmp_path: Path) -> None:
    path = tmp_path / "slow.pdf"
    path.write_bytes(pdf(["Hello"]))
    room = make_room().start_ready()
    held = room.desk.attachments
    held._new_reading = partial(Reading, command=NEVER)
    held.add_files([str(path)])
    assert room.until(lambda: held._readings[room.desk.shelf.open.id]._children, "the process")


def test_files_can_be_given_up_while_they_are_read(
    make_room: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_QUIET_S", 0.01)
    (tmp_path / "slow.pdf").write_bytes(pdf(["Hello"]))
    (tmp_path / "next.txt").write_text("next")
    room = make_room().start_ready()
    held = room.desk.attachments
    held._new_reading = partial(Reading, command=NEVER)
    held.add_files([str(tmp_path / name) for name in ("slow.pdf", "next.txt")])
    reached = room.until(lambda: room.of(events.DocumentReached), "that it takes long")[0]
    assert (reached.name, reached.total) == ("slow.pdf", 0)
    held.stop_reading(room.desk.shelf.open.id)
    room.until(lambda: not room.of(events.AttachmentsChanged)[-1].is_coming, "the end of it")
    assert not held.of_open
    assert not room.of(events.Noticed), "who stops it knows"
    held._new_reading = Reading
    held.add_files([str(tmp_path / "next.txt")])
    assert room.until(lambda: held.of_open, "another one")


@each(
    ("name", "text"),
    [
        ("a.py", "#!/usr/bin/env python\nprint('<html>')\n"),
        ("index.php", "<!DOCTYPE html>\n<html><?php echo 1 ?></html>\n"),
        ("App.vue", "<template><p>{{ a }}</p></template>\n"),
        ("page.html.j2", "<!doctype html>\n{% block a %}{% endblock %}\n"),
        ("pom.xml", "<?xml version='1.0'?>\n<project/>\n"),
        ("logo.svg", "<svg xmlns='x'><text>a</text></svg>\n"),
        ("part.html", "<p>a part, not a page</p>\n"),
        ("data.csv", "a;b\n1;2\n"),
        ("data.tsv", "a\tb\n"),
        ("book.ipynb", '{"cells": []}\n'),
        ("paper.tex", "\\documentclass{article}\n% PDF-like: %%PDF\n"),
        ("Makefile", "all:\n\techo PK\n"),
        ("notes.md", "# PK is no zip\n"),
    ],
)
def test_source_code_and_tables_stay_as_they_are(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    file = read_file(str(tmp_path / name), Reading(command=["no such program"]))
    assert (file.kind, file.text) == ("text", text)


def test_the_source_of_a_web_page_can_be_attached_instead(make_room: Any, tmp_path: Path) -> None:
    source = "<!doctype html>\n<h1>Title</h1>\n<p>Text\n"
    (tmp_path / "page.html").write_text(source, "utf-8")
    room = make_room().start_ready()
    held = room.desk.attachments
    held.use_sources()
    said = room.until(lambda: room.of(events.Noticed))[-1]
    assert said.sentence.startswith("There is no page")
    held.add_files([str(tmp_path / "page.html")])
    (page,) = room.until(lambda: held.of_open, "the page")
    assert (page.kind, page.text) == ("document", "# Title\n\nText")
    held.use_sources([page.id])
    room.until(lambda: held.of_open and held.of_open[0].kind == "text", "its source")
    assert [each.text for each in held.of_open] == [source]
    (tmp_path / "page.html").unlink()
    held.use_sources()
    assert [each.text for each in held.of_open] == [source], "it is no page any more"


def test_how_far_it_is_read_is_told_of_the_chat_on_screen(make_room: Any, tmp_path: Path) -> None:
    room = make_room().start_ready()
    held = room.desk.attachments

    class Slow(Reading):
        def read(self, path: str, progress: Any = None) -> Any:
            progress(2, 9)
            return super().read(path)

    (tmp_path / "slow.pdf").write_bytes(pdf(["Hello"]))
    held._new_reading = Slow
    held.add_files([str(tmp_path / "slow.pdf")])
    room.until(lambda: held.of_open, "the document")
    (reached,) = room.of(events.DocumentReached)
    assert (reached.name, reached.done, reached.total) == ("slow.pdf", 2, 9)

    class Left(Reading):
        """Read while its chat is left."""

        def read(self, path: str, progress: Any = None) -> Any:
            may_go_on.wait(10)
            progress(3, 9)
            return super().read(path)

    may_go_on, chat = Event(), room.desk.shelf.open.id
    held._new_reading = Left
    held.add_files([str(tmp_path / "slow.pdf")])
    room.desk.shelf.open_new()
    may_go_on.set()
    room.until(lambda: len(held.of_draft(chat)) == 2, "the document in its chat")
    assert room.of(events.DocumentReached) == [reached]


def test_details_from_elsewhere_do_no_harm() -> None:
    """An imported chat may say anything of its parts."""
    sent = [[0, 2, -3.0, ""], [2, 4, float("nan"), ""], [4, 6, 10**400, ""], [6, 8, 2, "page 1"]]
    sent += [[8, 10**30, 1.0, ""], [3, 1, 1.0, ""], [True, 2, 1.0, ""], [0, 2, "much", ""]]
    when = datetime(2026, 1, 1, tzinfo=UTC)
    details = {"mode": "parts", "sent": sent, "whole_tokens": 10**400}
    one = Attachment("a", "c", "x.pdf", "0123456789", 10, when, kind="document", details=details)
    assert [part.score for part in sent_of(one) or []] == [0.0, 0.0, 0.0, 2.0]
    assert whole_tokens(one) is None


def test_parts_in_a_copied_chat_are_of_the_document_that_holds_them() -> None:
    """Of two files with one name, the one with the same words there."""
    when = datetime(2026, 1, 1, tzinfo=UTC)
    texts = ("The pier is old.", "The pier is new.")
    files = [
        Attachment(f"copy {text}", "c", "x.txt", text, 16, when, details={"mode": "parts"})
        for text in texts
    ]
    messages = [new_message("c", None, "?", (each,)) for each in files]
    original = dataclasses.replace(files[1], id="gone")
    part = follow_up(original, [Part(4, 15, 1.0)], messages[0], "new", 0)
    assert source_of(part, messages) is files[1]
    assert source_of(part, messages[:1]) is None
