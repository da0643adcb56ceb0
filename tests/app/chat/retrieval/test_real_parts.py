"""A PDF of 200 pages, a real embedding model and a real model that answers (`make soak`)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from long_document import N_PAGES, TOWNS, depth, page_text
from minilm_file import minilm_path
from pdfs import pdf

from app.chat.attachments.attached_text import block_of
from app.chat.attachments.document_parts import sent_of
from app.insight.retrieval.terms import terms

pytestmark = pytest.mark.soak

PAGE = 88
BREAD = "The bakery of the old quarter received four hundred sacks of flour in the spring."
QUESTION = "What was delivered for making bread?"


@pytest.fixture
def room(make_room: Any, starter_gguf: Path, tmp_path: Path) -> Any:
    pages = [page_text(n) for n in range(1, N_PAGES + 1)]
    pages[PAGE - 1] = pages[PAGE - 1].replace("\n\n", f"\n\n{BREAD}\n\n", 1)
    path = tmp_path / "towns.pdf"
    path.write_bytes(pdf(["\n".join(textwrap.wrap(page, 90)) for page in pages]))
    room = make_room(gguf=starter_gguf, is_real=True)
    room.start_ready()
    room.desk.settings.set("max_tokens", 8)
    assert room.desk.attachments.add_files([str(path)])
    held = room.desk.attachments
    room.until(lambda: held.of_open and held.of_open[0].details.get("chosen"), "the document")
    assert held.of_open[0].details["mode"] == "parts"
    return room


def places(room: Any, place: int) -> list[str]:
    (attachment,) = room.stored()[place].attachments
    return [part.label for part in sent_of(attachment) or []]


def test_by_words(room: Any) -> None:
    room.ask(f"How deep is the harbour of {TOWNS[136]}?")
    (kept,) = room.stored()[0].attachments
    assert kept.details["by"] == "words"
    assert "page 137" in places(room, 0)
    assert kept.tokens < 4500
    assert f"{depth(137)} metres" in room.last.rendered_prompt
    assert block_of(kept) in room.last.rendered_prompt  # what is stored is what the engine got


def test_by_meaning(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is found though no word of the question stands in what answers it."""
    assert not set(terms(QUESTION)) & set(terms(BREAD))
    monkeypatch.setattr("conftest.PATIENCE_S", 600.0, raising=False)
    room.desk.settings.set("embedding_model", str(minilm_path()))
    assert room.desk.replies.send(QUESTION)
    for _ in range(60):
        try:
            room.until(room.ended_reply, "the reply")
            break
        except pytest.fail.Exception:
            continue
    (kept,) = room.stored()[0].attachments
    assert kept.details["by"] == "meaning"
    best = max(sent_of(kept) or [], key=lambda part: part.score)
    assert best.label == f"page {PAGE}"
