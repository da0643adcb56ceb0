"""How attached texts stand in a prompt: clearly set apart from what was typed.

    Attached file “notes.txt”:
    ```
    the whole text
    ```

    What does it say?

Of a document that does not go in whole, its chosen pages or the parts that fit, each with its
place:

    Parts of the attached file “report.pdf” that fit the question:
    ```
    [Page 12]
    the part of page 12

    [Page 40]
    the part of page 40
    ```

The fence is longer than any run of backticks in the text, so that no file can end its own block
and speak as the user. Control tokens need no care here: the engine reads what people and files
wrote as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from app.chat.attachments.document_parts import (
    PAGES,
    is_of_another,
    mode_of,
    own_spans,
    quoted,
    sent_of,
)
from app.chat.attachments.kinds import AUDIO, MEDIA, PICTURE
from app.engine.protocol.media_messages import Media
from models.records import Attachment

_BACKTICKS: Final = re.compile("`{3,}")
_BETWEEN: Final = "\n\n"
_HEADS: Final = {
    None: "Attached file “{name}”:",
    "pages": "Pages of the attached file “{name}”:",
    "parts": "Parts of the attached file “{name}” that fit the question:",
    "nothing": "Attached file “{name}”, of which nothing is quoted here.",
}
_UNSEEN: Final = {
    PICTURE: "Attached picture “{name}”, which you can't see.",
    AUDIO: "Attached sound “{name}”, which you can't hear.",
}


def with_attachments(text: str, attachments: Iterable[Attachment]) -> str:
    """A message's text as the prompt has it."""
    blocks = [block_of(attachment) for attachment in attachments]
    return _BETWEEN.join([*blocks, text] if text.strip() else blocks)


def attached_spans(attachments: Iterable[Attachment]) -> list[tuple[int, int]]:
    """Which characters [start, end) of `with_attachments` are attached, fences and all."""
    spans: list[tuple[int, int]] = []
    at = 0
    for attachment in attachments:
        length = len(block_of(attachment))
        spans.append((at, at + length))
        at += length + len(_BETWEEN)
    return spans


def part_spans(attachments: Iterable[Attachment]) -> list[tuple[int, int]]:
    """Which characters of `with_attachments` are parts of documents, one by one."""
    spans: list[tuple[int, int]] = []
    at = 0
    for attachment in attachments:
        block, own = _block(attachment)
        spans += [(at + start, at + end) for start, end in own]
        at += len(block) + len(_BETWEEN)
    return spans


def placed_media(
    attachments: Iterable[Attachment], media: Mapping[str, Media], content: str
) -> list[Media]:
    """Those that the model is given, each with its place in the content: where it stands among the
    texts, which `with_attachments` has without it, or among the words (`AT`)."""
    found: list[Media] = []
    at = 0
    for attachment in attachments:
        given = media.get(attachment.id)
        if given is not None:
            among = attachment.details.get(AT)
            place = at + among if isinstance(among, int) and among > 0 else at
            found.append(msgspec.structs.replace(given, at=min(place, len(content))))
        else:
            at += len(block_of(attachment)) + len("\n\n")
    return sorted(found, key=lambda each: each.at)


AT: Final = "at"
"""In the details of a picture: before which of its message's characters it stands."""


def block_of(attachment: Attachment) -> str:
    """One attachment between its fences: what goes in of it; of a picture that the model is not
    given, a line."""
    return _block(attachment)[0]


def _block(attachment: Attachment) -> tuple[str, list[tuple[int, int]]]:
    """The block, and which characters of it are parts of a document."""
    if attachment.kind in MEDIA:
        return _UNSEEN[attachment.kind].format(name=attachment.name), []
    parts = sent_of(attachment)
    if parts is None:
        return _fenced(attachment, None, attachment.text)[0], []
    if not parts:
        return _HEADS["nothing"].format(name=attachment.name), []
    kind = "pages" if mode_of(attachment) == PAGES else "parts"
    if is_of_another(attachment):
        inside, spans = attachment.text, own_spans(attachment)
    else:
        inside, spans = quoted(attachment, parts)
    block, before = _fenced(attachment, kind, inside)
    return block, [(start + before, end + before) for start, end in spans]


def _fenced(attachment: Attachment, kind: str | None, text: str) -> tuple[str, int]:
    """The block, and where `text` begins in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    before = f"{_HEADS[kind].format(name=attachment.name)}\n{fence}\n"
    return f"{before}{text}{end}{fence}", len(before)
