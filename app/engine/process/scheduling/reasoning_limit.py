"""The budget of reasoning tokens: at the limit the engine itself writes what closes reasoning.

    … so 12 × 4 | ⟨limit⟩  \\n </think> \\n\\n | The answer is …
                             inserted            drawn again

The inserted tokens go the way of every token: they are measured (how probable each was) and marked
in the trace. They come between two whole characters, and not into a closing tag that has just
begun. A grammar that does not allow one of them goes before the limit.
"""

from __future__ import annotations

from typing import Final

from app.engine.process.cache.slot import SlotReply
from app.engine.process.native.vocabulary import Vocabulary
from app.engine.protocol.prompt_messages import ChatPrompt

PATIENCE: Final = 8
"""Tokens that a character or a closing tag may still take."""

ENDED: Final = "reasoning_limit"
BANNED_CLOSING: Final = (
    "What closes the reasoning completes a banned string, so the reasoning went on."
)
NOT_ALLOWED: Final = "The grammar doesn't allow the reasoning to be closed, so it went on."


def limit_of(reply: SlotReply) -> int:
    """How many tokens the reasoning of this reply may have; 0: as many as it likes."""
    prompt = None if reply.has_no_limit else reply.request.generate.prompt
    return prompt.reasoning_budget if isinstance(prompt, ChatPrompt) else 0


def closing_ids(reply: SlotReply, vocabulary: Vocabulary) -> list[int]:
    """The tokens to insert now; none before the limit, and once they have been inserted."""
    limit, thought = limit_of(reply), reply.text.n_thought
    if not limit or reply.ended_at_limit or thought < limit or reply.forced:
        return []
    closing = reply.text.closing
    if not closing and thought >= limit + PATIENCE:
        closing = reply.text.closing_by_force
    if not closing:
        return []
    return vocabulary.tokenize(closing, special=True)
