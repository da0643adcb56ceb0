"""Whether what is loaded takes a picture or a sound; if not, why, and what would do."""

from __future__ import annotations

from app.engine.prompts.media import refuse_unseen
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MediaKind


def why_not_taken(loaded: Loaded, kind: MediaKind) -> str:
    """A sentence or two; empty: it takes them, or, of a server that says nothing about it, may."""
    is_picture = kind == "image"
    if loaded.remote is not None:
        return loaded.remote.why_not("images" if is_picture else "audio")
    offer = loaded.projector
    can = offer is not None and not offer.why and (offer.images if is_picture else offer.audio)
    return "" if can else refuse_unseen(kind, offer).sentence
