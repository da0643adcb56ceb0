"""What is asked of the engine to continue a document: the text before the caret, no template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from app.chat.documents.text_document import Range, document, generated_ranges
from app.chat.replies.prompts import generate_request
from app.chat.settings.settings import Settings
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import TextPrompt
from models.records import Conversation, Message

MAX_TOKENS: Final = 256
"""Of one continuation, where the settings say nothing: documents have no end of turn."""

CHARACTERS_PER_TOKEN: Final = 16
"""More than any text has. So much of a document is looked at to fill a context window."""


def text_prompt(before: str, window: int, generated: Iterable[Range] = ()) -> TextPrompt:
    """The text before the caret, as far as the window can reach. `generated`: what of the document
    weights wrote.

    The cut moves in large steps, so that the next prompts begin as this one and only what is new
    of them is read.
    """
    reach = window * CHARACTERS_PER_TOKEN
    cut = 0
    if reach and len(before) > 2 * reach:
        cut = (len(before) - reach) // reach * reach
    text = before[cut:]
    ranges = [(max(low - cut, 0), min(high - cut, len(text))) for low, high in generated]
    return TextPrompt(text, generated=[(low, high) for low, high in ranges if low < high])


def text_request(
    conversation: Conversation,
    path: Sequence[Message],
    settings: Settings,
    place: Sequence[int],
    window: int,
) -> Generate:
    """The request for a continuation of the document at a place."""
    return msgspec.structs.replace(
        generate_request(conversation, (), settings, ""),
        prompt=text_prompt(document(path)[: place[0]], window, generated_ranges(path)),
        max_tokens=settings.max_tokens or MAX_TOKENS,
    )
