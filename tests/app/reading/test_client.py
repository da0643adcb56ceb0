"""A document read as the app reads it: by the real process."""

from __future__ import annotations

import sys

import pytest
from each import each
from pdfs import pdf

from app.reading.client import Reading, read_document
from app.reading.document import Document, DocumentRefused, Place
from app.reading.messages import DocumentRead, PagesRead, ReadDocument


def test_a_document_is_a_text_with_its_places(tmp_path):
    path = tmp_path / "two pages.pdf"
    path.write_bytes(pdf(["Hello, page one.\nIts second line.", "Café on page two."]))
    text = "[Page 1]\n\nHello, page one.\nIts second line.\n\n[Page 2]\n\nCafé on page two."
    assert read_document(str(path)) == Document(
        "two pages.pdf",
        "application/pdf",
        text,
        (Place(0, "page 1"), Place(text.index("[Page 2]"), "page 2")),
        path.stat().st_size,
    )


def test_what_cannot_be_read_costs_a_sentence(tmp_path):
    reading = Reading()
    with pytest.raises(DocumentRefused, match="no longer there"):
        reading.read(str(tmp_path / "gone.pdf"))
    reading.end()
    with pytest.raises(DocumentRefused, match="couldn't be read"):
        reading.read(str(tmp_path / "gone.pdf"))


def test_it_says_how_far_it_is(tmp_path, monkeypatch):
    from app.reading import child

    said = []
    monkeypatch.setattr(child, "limit_process", lambda: None)
    monkeypatch.setattr(child, "_PACE_S", 0.0)
    (tmp_path / "a.pdf").write_bytes(pdf(["one", "two", "three"]))
    request = ReadDocument(str(tmp_path / "a.pdf"), "a.pdf")
    assert isinstance(child.answer(request, child._Pace(said.append)), DocumentRead)
    assert said == [PagesRead(1, 3), PagesRead(2, 3), PagesRead(3, 3)]


@each(
    ("program", "kind"),
    [
        ("os.abort()", "Damaged or too large"),
        ("os.write(1, b'no frame at all' * 99)", "Damaged or too large"),
        ("os.write(1, (1 << 31).to_bytes(4, 'little'))", "Damaged or too large"),
        ("sys.exit(0)", "Damaged or too large"),
        (
            "[(os.write(2, b'.\\n'), time.sleep(0.01)) for _ in range(999)]",
            "Takes too long",
        ),
    ],
)
def test_whatever_becomes_of_the_process_is_said(program, kind, tmp_path):
    command = [sys.executable, "-S", "-E", "-c", f"import os, sys, time; {program}"]
    reading = Reading(deadline_s=0.3 if kind == "Takes too long" else 30, command=command)
    with pytest.raises(DocumentRefused) as refused:
        reading.read(str(tmp_path / "a.pdf"))
    assert refused.value.kind == kind
    assert not reading._children
