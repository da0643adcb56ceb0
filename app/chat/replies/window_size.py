"""How large a context window a prompt needs, and what else gives it room. Pure."""

from __future__ import annotations

from typing import Any, Final

from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Failed

FOR_THE_REPLY: Final = 1024
"""Tokens that a larger window has beyond the prompt, where the weights allow it."""


def larger_window(needed: int, largest: int) -> int | None:
    """The next size that holds `needed` tokens and a reply; None where the weights have none.

    >>> larger_window(5000, 8192), larger_window(8000, 8192), larger_window(9000, 8192)
    (8192, 8192, None)
    """
    if needed >= largest:
        return None
    size = 1 << (needed + FOR_THE_REPLY - 1).bit_length()
    return min(size, largest)


def room_of(
    failed: Failed, loaded: Loaded | None, policy: str, result_id: str = ""
) -> dict[str, Any]:
    """What is kept with a reply whose prompt was too long. `result_id`: of the longest result of a
    tool that it was to answer."""
    tokens, _, size = failed.evidence.partition("/")
    if not (tokens.isdecimal() and size.isdecimal()):
        return {}
    largest = loaded.n_ctx_train if loaded is not None else 0
    result = {"result": result_id} if result_id else {}
    return result | {
        "tokens": int(tokens),
        "size": int(size),
        "can_enlarge": larger_window(int(tokens), largest) is not None,
        "can_trim": policy == "stop",
    }
