"""Attached texts in a prompt: whole, set apart, and never able to end their own block."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

from hypothesis import given, strategies as st

from app.chat.attachments.attached_text import block_of, placed_media, with_attachments
from app.engine.protocol.media_messages import Media
from models.records import Attachment


def attached(text: str, name: str = "notes.txt") -> Attachment:
    return Attachment("a", "c", name, text, len(text), datetime(2026, 1, 1, tzinfo=UTC))


def test_the_text_stands_between_fences_before_what_was_typed() -> None:
    assert with_attachments("What is it?", [attached("one\ntwo"), attached("x\n", "b.txt")]) == (
        "Attached file “notes.txt”:\n```\none\ntwo\n```\n\n"
        "Attached file “b.txt”:\n```\nx\n```\n\n"
        "What is it?"
    )


def test_without_attachments_or_words_nothing_is_added() -> None:
    assert with_attachments("Hello", []) == "Hello"
    assert with_attachments("  ", [attached("x")]) == "Attached file “notes.txt”:\n```\nx\n```"


@given(st.text(alphabet="`\nab", max_size=60))
def test_no_text_can_end_its_own_block(text: str) -> None:
    block = block_of(attached(text))
    fence = re.search(r":\n(`{3,})\n", block).group(1)
    inside = block.split(f"{fence}\n", 1)[1].removesuffix(fence)
    assert text in inside
    assert fence not in inside


def test_pictures_and_texts_stand_in_the_order_in_which_they_were_attached() -> None:
    """What was typed is the last of it."""
    notes, more = attached("one"), attached("two", "more.txt")
    pictures = [dataclasses.replace(attached(n, ""), id=n, kind="picture") for n in ("x", "y", "z")]
    order = [pictures[0], notes, pictures[1], pictures[2], more]
    content = with_attachments("Compare.", [notes, more])
    media = {each.id: Media(each.id, "image", b"") for each in pictures}
    placed = placed_media(order, media, content)
    second = content.index("Attached file “more.txt”")
    assert [(m.id, m.at) for m in placed] == [("x", 0), ("y", second), ("z", second)]
    assert content.endswith("\n\nCompare.")
