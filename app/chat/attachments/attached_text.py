"""How attached texts stand in a prompt: whole, and clearly set apart from what was typed.

    Attached file “notes.txt”:
    ```
    the whole text
    ```

    What does it say?

The fence is longer than any run of backticks in the text, so that no file can end its own block
and speak as the user. Control tokens need no care here: the engine reads what people and files
wrote as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from app.chat.attachments.kinds import AUDIO, MEDIA, PICTURE
from app.engine.protocol.media_messages import Media
from models.records import Attachment

_BACKTICKS: Final = re.compile("`{3,}")
_UNSEEN: Final = {
    PICTURE: "Attached picture “{name}”, which you can't see.",
    AUDIO: "Attached sound “{name}”, which you can't hear.",
}


def with_attachments(text: str, attachments: Iterable[Attachment]) -> str:
    """A message's text as the prompt has it."""
    blocks = [block_of(attachment) for attachment in attachments]
    return "\n\n".join([*blocks, text] if text.strip() else blocks)


def attached_spans(attachments: Iterable[Attachment]) -> list[tuple[int, int]]:
    """Which characters [start, end) of `with_attachments` are attached, fences and all."""
    spans: list[tuple[int, int]] = []
    at = 0
    for attachment in attachments:
        length = len(block_of(attachment))
        spans.append((at, at + length))
        at += length + len("\n\n")
    return spans


def placed_media(
    attachments: Iterable[Attachment], media: Mapping[str, Media], content: str
) -> list[Media]:
    """Those that the model is given, each with its place in the content: where it stands among the
    texts, which `with_attachments` has without it."""
    found: list[Media] = []
    at = 0
    for attachment in attachments:
        given = media.get(attachment.id)
        if given is not None:
            found.append(msgspec.structs.replace(given, at=min(at, len(content))))
        else:
            at += len(block_of(attachment)) + len("\n\n")
    return found


def block_of(attachment: Attachment) -> str:
    """One attachment between its fences; of a picture that the model is not given, a line."""
    if attachment.kind in MEDIA:
        return _UNSEEN[attachment.kind].format(name=attachment.name)
    longest = max(map(len, _BACKTICKS.findall(attachment.text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if attachment.text.endswith("\n") else "\n"
    return f"Attached file “{attachment.name}”:\n{fence}\n{attachment.text}{end}{fence}"
