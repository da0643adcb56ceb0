"""What goes in of a document where nobody has chosen: the whole, where that leaves room to talk.

What a person chose stays; what the app chose is chosen anew where the window is another one.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from app.chat.attachments.document_parts import PARTS, WHOLE, mode_of, n_tokens_of, whole_tokens
from models.records import Attachment

WELL: Final = 0.5
"""Of the context window: more, and nothing is left for questions and answers."""
CHOSEN: Final = "chosen"
"""In details: who chose the mode, `BY_APP` or "person"."""
BY_APP: Final = "app"


LONG_TEXT: Final = 20_000
"""Characters of a plain text from which a choice is offered. What was pasted is meant to be read:
it goes in whole where it was counted and the window holds it."""


def is_open(attachment: Attachment) -> bool:
    """Whether the app chooses for it."""
    if attachment.details.get(CHOSEN, BY_APP) != BY_APP:
        return False
    is_long_text = attachment.kind == "text" and len(attachment.text) >= LONG_TEXT
    is_known = is_long_text and whole_tokens(attachment) is not None
    return attachment.kind == "document" or is_known


def fits_well(n_tokens: int, n_ctx: int) -> bool:
    """
    >>> fits_well(4000, 8192), fits_well(5000, 8192)
    (True, False)
    """
    return n_tokens <= WELL * n_ctx


def decided(attachment: Attachment, n_ctx: int) -> Attachment:
    """With a mode, where nobody has chosen one."""
    if not is_open(attachment):
        return attachment
    n_tokens = n_tokens_of(attachment)
    fits = fits_well(n_tokens, n_ctx) if attachment.kind == "document" else n_tokens <= n_ctx
    mode = WHOLE if fits else PARTS
    details = attachment.details | {"mode": mode, CHOSEN: BY_APP}
    tokens = attachment.tokens if mode == mode_of(attachment) else None
    return dataclasses.replace(attachment, details=details, tokens=tokens)
