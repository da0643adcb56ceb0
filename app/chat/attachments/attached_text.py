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
from collections.abc import Iterable
from typing import Final

from models.records import Attachment

_BACKTICKS: Final = re.compile("`{3,}")


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


def block_of(attachment: Attachment) -> str:
    """One attachment between its fences."""
    longest = max(map(len, _BACKTICKS.findall(attachment.text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if attachment.text.endswith("\n") else "\n"
    return f"Attached file “{attachment.name}”:\n{fence}\n{attachment.text}{end}{fence}"
