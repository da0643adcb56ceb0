"""Parts of documents are spans of their own in a prompt, apart from what stands around them."""

from __future__ import annotations

from datetime import UTC, datetime

from app.chat.attachments.attached_text import attached_spans, part_spans, with_attachments
from app.engine.prompts.sources import sourced
from app.engine.protocol.prompt_messages import ChatMessage
from models.records import Attachment

TEXT = "[Page 1]\nOne ``` fact.\n[Page 2]\nAnother.\n[Page 3]\nA third."
PAGES = [[0, "page 1"], [23, "page 2"], [41, "page 3"]]


def attached(**details: object) -> Attachment:
    return Attachment(
        "a", "c", "x.pdf", TEXT, 9, datetime(2026, 1, 1, tzinfo=UTC), details=dict(details)
    )


def test_each_part_is_a_span() -> None:
    sent = [[9, 23, 2.5, "page 1"], [41, 58, 1.25, "page 3"]]
    document = attached(mode="parts", places=PAGES, sent=sent)
    content = with_attachments("Which?", [document])
    assert content == (
        "Parts of the attached file “x.pdf” that fit the question:\n````\n[Page 1]\n"
        "One ``` fact.\n\n[Page 3]\nA third.\n````\n\nWhich?"
    )
    message = ChatMessage(
        "user",
        content,
        message_id="m",
        attachments=attached_spans([document]),
        passages=part_spans([document]),
    )
    parts = [(content[start:end], origin) for start, end, origin, _ in sourced(message).sources]
    assert [origin for _, origin in parts] == [
        *("attachment", "passage", "attachment", "passage", "attachment", "user")
    ]
    assert [text for text, origin in parts if origin == "passage"] == [
        "One ``` fact.",
        "[Page 3]\nA third.",
    ]


def test_details_that_do_not_hold_are_left_out() -> None:
    """They come from files and other machines, too."""
    sent = [[0, 10**9, 1, "x"], [5, 2, 1, "x"], ["0", 3, 1, "x"], [0, 8, "much", "x"], 7, [1, 2]]
    for wrong in (sent, "all", None, {"a": 1}):
        assert with_attachments("Q", [attached(mode="parts", sent=wrong)]) == (
            "Attached file “x.pdf”, of which nothing is quoted here.\n\nQ"
        )
    whole = with_attachments("", [attached(mode=["parts"], sent=sent, places="none")])
    assert TEXT in whole
