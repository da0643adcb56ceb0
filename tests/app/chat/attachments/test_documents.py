"""Documents through the desk: read beside the window, kept with their places, counted, sent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pdfs import PICTURE, pdf

from app.chat import events
from app.reading.client import Reading

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
    never = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    room.desk.attachments._documents = Reading(command=never)
    room.desk.attachments.add_files([str(path)])
    assert room.until(lambda: room.desk.attachments._documents._children, "the process")
