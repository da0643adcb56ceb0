"""What the loaded weights see and hear of what is attached."""

from __future__ import annotations

from app.chat.attachments.kinds import AUDIO, MEDIA
from app.engine.prompts.media_taken import why_not_taken
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaKind


def sense_of(kind: str) -> MediaKind:
    """What the engine calls it."""
    return "audio" if kind == AUDIO else "image"


def why_unseen(loaded: Loaded | None, kind: str) -> str:
    """Why the loaded weights get nothing of an attachment of this kind; empty: they do, or it is a
    text. Without weights there is nothing to say yet."""
    if kind not in MEDIA or loaded is None:
        return ""
    return why_not_taken(loaded, sense_of(kind))
