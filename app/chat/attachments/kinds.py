"""The kinds of attachments, and what the loaded weights can see and hear of them."""

from __future__ import annotations

from typing import Final

from app.engine.protocol.loading_messages import Loaded

PICTURE: Final = "picture"
AUDIO: Final = "audio"
MEDIA: Final = frozenset({PICTURE, AUDIO})
"""Their bytes go to the model, and their text is empty."""


def why_unseen(loaded: Loaded | None, kind: str) -> str:
    """Why the loaded weights get nothing of an attachment of this kind; empty: they do, or it is a
    text. Without weights there is nothing to say yet."""
    if kind not in MEDIA or loaded is None:
        return ""
    what = "hear audio" if kind == AUDIO else "see pictures"
    if loaded.remote is not None:
        if kind == AUDIO:
            return f"Audio can't be sent to {loaded.remote.name}."
        return loaded.remote.why_not("images")
    projector = loaded.projector
    if projector is None:
        return f"This model can't {what}: it has no projector file (mmproj) loaded."
    if projector.why:
        return f"This model can't {what}: its projector couldn't be loaded. {projector.why}"
    if not (projector.audio if kind == AUDIO else projector.images):
        return f"This model can't {what}: its projector is only for {_other(kind)}."
    return ""


def _other(kind: str) -> str:
    return "pictures" if kind == AUDIO else "audio"
