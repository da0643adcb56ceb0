"""The kinds of attachments, and what the loaded weights can see and hear of them."""

from __future__ import annotations

from typing import Final

from app.engine.prompts.media_taken import why_not_taken
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaKind

PICTURE: Final = "picture"
AUDIO: Final = "audio"
MEDIA: Final = frozenset({PICTURE, AUDIO})
"""Their bytes go to the model, and their text is empty."""


def sense_of(kind: str) -> MediaKind:
    """What the engine calls it."""
    return "audio" if kind == AUDIO else "image"


def why_unseen(loaded: Loaded | None, kind: str) -> str:
    """Why the loaded weights get nothing of an attachment of this kind; empty: they do, or it is a
    text. Without weights there is nothing to say yet."""
    if kind not in MEDIA or loaded is None:
        return ""
    return why_not_taken(loaded, sense_of(kind))
