"""What goes in of a document where nobody has chosen: the whole, where that leaves room to talk.

What a person chose stays; what the app chose is chosen anew where the window is another one.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from app.chat.attachments.document_parts import PARTS, WHOLE, mode_of, n_tokens_of
from models.records import Attachment

WELL: Final = 0.5
"""Of the context window: more, and nothing is left for questions and answers."""
CHOSEN: Final = "chosen"
"""In details: who chose the mode, `BY_APP` or "person"."""
BY_APP: Final = "app"


def fits_well(n_tokens: int, n_ctx: int) -> bool:
    """
    >>> fits_well(4000, 8192), fits_well(5000, 8192)
    (True, False)
    """
    return n_tokens <= WELL * n_ctx


def decided(attachment: Attachment, n_ctx: int) -> Attachment:
    """With a mode, where it is a document for which nobody has chosen one."""
    if attachment.kind != "document" or attachment.details.get(CHOSEN, BY_APP) != BY_APP:
        return attachment
    mode = WHOLE if fits_well(n_tokens_of(attachment), n_ctx) else PARTS
    details = attachment.details | {"mode": mode, CHOSEN: BY_APP}
    tokens = attachment.tokens if mode == mode_of(attachment) else None
    return dataclasses.replace(attachment, details=details, tokens=tokens)
