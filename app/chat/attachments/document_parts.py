"""What of a long attachment goes into the prompt: whole, chosen pages, or the parts that fit.

It is kept with the attachment, in its `details`, so that a prompt is the same whenever it is made:

    mode      "whole", "pages" or "parts"; without one: whole
    pages     what was typed, "1-3, 7"
    sent      [[start, end, score, label], …]: what went in of its text, in the text's order
    of        the id of the attachment whose text these are parts of, where that belongs to an
              earlier message. `text` is then no more than what went in, and `sent` says where it
              stands in the other one, `at` where in this one
    question  what the parts were searched for
    by        "meaning" (vectors) or "words" (BM25)
    whole_tokens  what all of it costs, where that was counted

Details come from a database, from files and from other machines: what does not hold is left out.
"""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.insight.retrieval.choice import Part
from app.insight.retrieval.chunks import pages_of, tokens_about
from app.refusal import Refusal
from models.records import Attachment, Message

WHOLE: Final = "whole"
PAGES: Final = "pages"
PARTS: Final = "parts"
BY_MEANING: Final = "meaning"
BY_WORDS: Final = "words"
WHOLE_TOKENS: Final = "whole_tokens"
_FOUND: Final = ("sent", "question", "by")
MAX_PARTS: Final = 400
MAX_SCORE: Final = 1e9
MAX_TOKENS: Final = 10**9
SEARCHABLE: Final = frozenset({"text", "document"})

_RANGE: Final = re.compile(r"\s*(?:pp?\.?|pages?)?\s*(\d{1,6})\s*(?:[-–—]\s*(\d{1,6})?\s*)?", re.I)
_BETWEEN: Final = re.compile("[,;、،؛]")
_NUMBER: Final = re.compile(r"\d+")


def mode_of(attachment: Attachment) -> str:
    mode = attachment.details.get("mode")
    return mode if mode in (PAGES, PARTS) else WHOLE


def places_of(attachment: Attachment) -> list[tuple[int, str]]:
    """Where its pages, sheets or chapters begin, in order, and what they are called."""
    found = []
    for each in _lists(attachment.details.get("places"), 2):
        start, label = each
        if _is_count(start) and start <= len(attachment.text) and isinstance(label, str):
            found.append((start, label))
    return sorted(found)


def sent_of(attachment: Attachment) -> list[Part] | None:
    """What went in; None where that is the whole of it."""
    if mode_of(attachment) == WHOLE:
        return None
    length = math.inf if is_of_another(attachment) else len(attachment.text)
    found: list[Part] = []
    for start, end, score, label in _lists(attachment.details.get("sent"), 4):
        is_there = _is_count(start) and _is_count(end) and start < end <= length
        if is_there and isinstance(score, int | float) and isinstance(label, str):
            found.append(Part(start, end, float(score) if 0 <= score < MAX_SCORE else 0.0, label))
    return sorted(found, key=lambda part: part.start)[:MAX_PARTS]


def whole_tokens(attachment: Attachment) -> int | None:
    """What all of it costs, where it has been counted."""
    if mode_of(attachment) == WHOLE and attachment.tokens is not None:
        return attachment.tokens
    counted = attachment.details.get(WHOLE_TOKENS)
    return counted if isinstance(counted, int) and 0 < counted < MAX_TOKENS else None


def n_tokens_of(attachment: Attachment) -> int:
    """The same; about, where it has not been counted."""
    return whole_tokens(attachment) or tokens_about(attachment.text)


def is_of_another(attachment: Attachment) -> bool:
    """Whether its parts are of a document that belongs to an earlier message."""
    return isinstance(attachment.details.get("of"), str)


def with_sent(
    attachment: Attachment, parts: Sequence[Part], *, question: str = "", by: str = ""
) -> Attachment:
    """The same, with these parts of it going in."""
    sent = [[part.start, part.end, round(part.score, 4), part.label] for part in parts]
    details = attachment.details | {"sent": sent, "question": question, "by": by}
    return dataclasses.replace(attachment, details=details)


def without_found(details: dict[str, Any]) -> dict[str, Any]:
    """Without all that was found in a text that is another one now."""
    return {name: details[name] for name in details if name not in (*_FOUND, WHOLE_TOKENS)}


def unsent(attachments: Iterable[Attachment]) -> tuple[Attachment, ...]:
    """As they were before parts of them were searched for."""
    return tuple(
        dataclasses.replace(
            each,
            details={
                name: value
                for name, value in each.details.items()
                if name not in _FOUND or mode_of(each) != PARTS
            },
        )
        for each in attachments
        if not is_of_another(each)
    )


# --- pages ----------------------------------------------------------------------------------------


def pages_chosen(attachment: Attachment, typed: str) -> list[Part]:
    """The pages that "1-3, 7" means, neighbours as one part each. Raises Refusal.

    Pages are called as the document calls them ("page 12"); places without a number by their order.
    """
    pages = list(pages_of(len(attachment.text), places_of(attachment)))
    pages = [page for page in pages if page[2]]
    numbers = _numbered([label for _, _, label in pages])
    wanted: set[int] = set()
    pieces = [*filter(str.strip, _BETWEEN.split(unicodedata.normalize("NFKC", typed)))]
    if not pieces:
        raise Refusal("bad_setting", "Type the pages to send, such as 1-3, 7.")
    for piece in pieces:
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise Refusal(
                "bad_setting", f"“{piece.strip()[:20]}” isn't a page. Type pages such as 1-3, 7."
            )
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if not match[2] and piece.rstrip()[-1:] in "-–—":  # "5-": to the end
            last = max(numbers, default=first)
        if first > last:
            raise Refusal("bad_setting", f"“{piece.strip()}” runs backwards. Type {last}-{first}.")
        found = [numbers[number] for number in sorted(numbers) if first <= number <= last]
        missing = first if first not in numbers else last
        if missing not in numbers:
            raise Refusal("bad_setting", _no_page(missing, numbers))
        wanted.update(found)
    return _joined(pages[place] for place in sorted(wanted))


def _numbered(labels: Sequence[str]) -> dict[int, int]:
    """The place of each page by its number."""
    found = [_NUMBER.search(label) for label in labels]
    if all(found):
        named = {int(match.group()): place for place, match in enumerate(found) if match}
        if len(named) == len(labels):
            return named
    return {place + 1: place for place in range(len(labels))}


def _no_page(number: int, numbers: dict[int, int]) -> str:
    if not numbers:
        return "This file has no pages. Send it whole, or the parts that fit."
    return f"There is no page {number:,}: they run from {min(numbers):,} to {max(numbers):,}."


def _joined(pages: Iterable[tuple[int, int, str]]) -> list[Part]:
    found: list[Part] = []
    for start, end, label in pages:
        last = found[-1] if found else None
        if last is not None and last.end == start:
            first = last.label.split("–")[0]
            number = _NUMBER.search(label)
            until = number.group() if number else label
            found[-1] = Part(last.start, end, 0.0, f"{first}–{until}")
        else:
            found.append(Part(start, end, 0.0, label))
    return found


# --- as they stand in a prompt --------------------------------------------------------------------


def quoted(attachment: Attachment, parts: Sequence[Part]) -> tuple[str, list[tuple[int, int]]]:
    """The parts below one another, each with the words that say where it stands, and which
    characters of that are parts. Where a text itself says it ("[Page 12]"), nothing is added."""
    found, spans = "", list[tuple[int, int]]()
    for part in parts:
        text, label = attachment.text[part.start : part.end].strip("\n"), part.label
        found += "\n\n" if found else ""
        found += "" if not label or _says(text, label) else f"[{label[:1].upper()}{label[1:]}]\n"
        spans.append((len(found), len(found) + len(text)))
        found += text
    return found, spans


def own_spans(attachment: Attachment) -> list[tuple[int, int]]:
    """Of parts of another one: which characters of its text are parts."""
    at, found = 0, list[tuple[int, int]]()
    for start, end in _lists(attachment.details.get("at"), 2):
        if _is_count(start) and _is_count(end) and at <= start < end <= len(attachment.text):
            found.append((start, end))
            at = end
    return found


def _says(text: str, label: str) -> bool:
    first = text.split("\n", 1)[0].strip(" []#").casefold()
    return first.partition(", numbered ")[0] == label.split("–")[0].casefold()


def follow_up(
    source: Attachment, parts: Sequence[Part], message: Message, own_id: str, place: int
) -> Attachment:
    """Parts of a document of an earlier message, as an attachment of this one. They are kept word
    for word: what went in stays known where the first message is deleted."""
    text, spans = quoted(source, parts)
    bare = dataclasses.replace(
        source,
        id=own_id,
        conversation_id=message.conversation_id,
        message_id=message.id,
        text=text,
        size_bytes=len(text.encode()),
        created_at=message.created_at,
        tokens=None,
        position=place,
        details={"mode": PARTS, "of": source.id, "at": [list(span) for span in spans]},
    )
    return with_sent(bare, parts)


def source_of(attachment: Attachment, path: Iterable[Message]) -> Attachment | None:
    """The document that parts are of, on the path that holds them; of a copied chat, the one that
    has its name, and the same words where the parts stand."""
    if not is_of_another(attachment):
        return attachment
    documents = [a for m in path for a in m.attachments if not is_of_another(a)]
    same = [each for each in documents if each.id == attachment.details["of"]]
    named = (a for a in documents if a.name == attachment.name and _holds(a, attachment))
    return next(iter(same or named), None)


def _holds(document: Attachment, parts: Attachment) -> bool:
    return all(
        document.text[part.start : part.end].strip("\n") == parts.text[start:end]
        for part, (start, end) in zip(sent_of(parts) or [], own_spans(parts), strict=False)
    )


def searched_in(path: Iterable[Message]) -> list[Attachment]:
    """The documents of a path that later questions are searched in, too."""
    return [
        each
        for message in path
        for each in message.attachments
        if mode_of(each) == PARTS and not is_of_another(each) and each.details.get("asked") != "off"
    ]


def _lists(value: Any, length: int) -> list[list[Any]]:
    lists = value if isinstance(value, list) else []
    return [each for each in lists if isinstance(each, list) and len(each) == length]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
