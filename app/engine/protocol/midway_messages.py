"""What happened to a prompt in the middle of its reply."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import MANY, Count, Sentence, WireMessage
from app.engine.protocol.prompt_messages import CutMessage

SHIFT_NOTE: Final = "context_shifted"


class ContextShift(WireMessage, frozen=True, tag=True):
    """The window was full `after` so many tokens of a reply: its context policy took `n_tokens` of
    the prompt out, which were `n_messages` (none of a plain text). `was_read_again`: the cache
    could not be shifted, so what stood behind them was processed again. `sentence` says all of it.
    """

    after: Count
    n_tokens: Count
    n_messages: Count
    sentence: Sentence
    was_read_again: bool = False
    messages: Annotated[list[CutMessage], MANY] = msgspec.field(default_factory=list)
