"""What is said of a document: what it is, what it costs, which parts of it go in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.chat.attachments.attached_text import block_of
from app.chat.attachments.document_parts import (
    PAGES,
    PARTS,
    is_of_another,
    mode_of,
    places_of,
    sent_of,
    whole_tokens,
)
from app.chat.retrieval.choosing import LONG_TEXT
from app.insight.retrieval.choice import Part
from app.insight.retrieval.chunks import tokens_about
from app.reading.document import KINDS, PLACES
from models.records import Attachment

MODES: Final = {"whole": "Whole", "pages": "Pages", "parts": "Parts that fit"}
MOST_NAMED: Final = 4
_HOW: Final = {"meaning": "by meaning", "words": "by words"}


def has_choice(attachment: Attachment) -> bool:
    """Whether it is offered to send less than the whole."""
    if attachment.kind not in ("text", "document"):
        return False
    return attachment.kind == "document" or len(attachment.text) >= LONG_TEXT


def facts_text(attachment: Attachment) -> str:
    """What it is: its kind and its pages."""
    kind = KINDS.get(str(attachment.details.get("media_type", "")), "")
    return " · ".join(filter(None, (kind, places_text(attachment))))


def places_text(attachment: Attachment) -> str:
    """How many pages, sheets, chapters or sections it has; "" where it has none."""
    places = places_of(attachment)
    if not places:
        return ""
    own = PLACES.get(str(attachment.details.get("media_type", "")), "section")
    noun = "page" if places[0][1].startswith("page ") else own
    return f"{len(places):,} {noun}{'' if len(places) == 1 else 's'}"


def note_of(attachment: Attachment) -> str:
    """What to know about it: pages of pictures, text that is missing."""
    note = attachment.details.get("note", "")
    return note if isinstance(note, str) else ""


def whole_cost(attachment: Attachment) -> int | None:
    """Tokens of all of it, where they have been counted."""
    return whole_tokens(attachment)


def whole_text(attachment: Attachment) -> str:
    """The same in words; about, where nothing counts it: at a server, or before a model is
    loaded. Takes 10 ms for a million characters."""
    counted = whole_cost(attachment)
    cost = about_text(attachment.text) if counted is None else tokens_text(counted)
    return f"{cost} in all"


def about_text(text: str) -> str:
    """
    >>> about_text("harbour " * 6170)
    'about 12,000 tokens'
    """
    return f"about {tokens_text(int(float(f'{tokens_about(text):.2g}')))}"


def tokens_text(n_tokens: int) -> str:
    return f"{n_tokens:,} token{'' if n_tokens == 1 else 's'}"


def score_text(score: float, by: str) -> str:
    """
    >>> score_text(8.314, "words"), score_text(0.7261, "meaning"), score_text(0.0, "words")
    ('8.3', '0.73', '')
    """
    if not score:
        return ""
    return f"{score:.2f}" if by == "meaning" else f"{score:.1f}"


def part_text(part: Part, by: str, place: int = 0) -> str:
    """A part by its place, and how well it fits.

    >>> part_text(Part(0, 9, 8.31, "page 12"), "words")
    'page 12 · 8.3'
    """
    where = part.label or f"part {place + 1}"
    return " · ".join(filter(None, (where, score_text(part.score, by))))


def parts_text(attachments: Sequence[Attachment]) -> list[str]:
    """The parts of all of them, in the order of a prompt."""
    return [
        f"{part.label or f'part {place + 1}'} of {each.name}"
        for each in attachments
        for place, part in enumerate(sent_of(each) or [])
    ]


def by_of(attachment: Attachment) -> str:
    return str(attachment.details.get("by", ""))


def goes_in(attachment: Attachment) -> str:
    """What of it goes in now, and what that costs where no chip says it."""
    parts = sent_of(attachment)
    if not parts:
        looking = "Nothing of it is sent" if by_of(attachment) else "Looking for parts…"
        return looking if mode_of(attachment) == PARTS else ""
    cost = ""
    if attachment.tokens is None:
        cost = about_text(block_of(attachment))
    elif is_of_another(attachment):
        cost = tokens_text(attachment.tokens)
    if mode_of(attachment) == PAGES:
        return cost
    if not any(part.score for part in parts):
        asked = str(attachment.details.get("question", ""))
        why = "Nothing fits the question, so its" if asked else "Until you type a question: its"
        return " · ".join(filter(None, (f"{why} beginning", cost)))
    how = _HOW.get(by_of(attachment), "")
    count = f"{len(parts):,} part{'' if len(parts) == 1 else 's'} {how}".strip()
    return " · ".join(filter(None, (count, cost, named(parts, by_of(attachment)))))


def named(parts: Sequence[Part], by: str) -> str:
    """The parts by their places, the best first."""
    order = sorted(parts, key=lambda part: -part.score)
    found = [
        f"{part.label or f'part {parts.index(part) + 1}'} ({score_text(part.score, by)})"
        for part in order[:MOST_NAMED]
    ]
    more = f" and {len(order) - MOST_NAMED:,} more" if len(order) > MOST_NAMED else ""
    return ", ".join(found) + more


def is_parts(attachment: Attachment) -> bool:
    return mode_of(attachment) == PARTS
