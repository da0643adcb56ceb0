"""What goes in of a document where nobody has chosen: the whole, where that leaves room to talk."""

from __future__ import annotations

import dataclasses
from typing import Final

from app.chat.attachments.document_parts import PARTS, WHOLE
from app.insight.retrieval.chunks import tokens_about
from models.records import Attachment

WELL: Final = 0.5
"""Of the context window: more, and nothing is left for questions and answers."""
CHOSEN: Final = "chosen"
"""In details: who chose the mode, "app" or "person"."""


def fits_well(n_tokens: int, n_ctx: int) -> bool:
    """
    >>> fits_well(4000, 8192), fits_well(5000, 8192)
    (True, False)
    """
    return n_tokens <= WELL * n_ctx


def decided(attachment: Attachment, n_ctx: int) -> Attachment:
    """With a mode, where it is a document without one."""
    if attachment.kind != "document" or CHOSEN in attachment.details:
        return attachment
    n_tokens = attachment.tokens or tokens_about(attachment.text)
    mode = WHOLE if fits_well(n_tokens, n_ctx) else PARTS
    details = attachment.details | {"mode": mode, CHOSEN: "app"}
    return dataclasses.replace(attachment, details=details)
