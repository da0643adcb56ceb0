"""How many answers fit side by side: told before they are asked for. Pure; no Qt, no engine.

The engine's rule (`process/cache/space.py`): answers to one prompt share its cells, a slot each,
and one more joins where prompt and what all of them will soon write have room. The rest waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.engine.protocol.loading_messages import Loaded

_RESERVE: Final = 256
"""Cells that are kept for a reply without a limit before another joins, or an eighth of all."""


@dataclass(frozen=True, slots=True)
class Together:
    """Of `wanted` answers so many are written at once, at first; and why no more."""

    wanted: int
    at_once: int
    sentence: str


def together(wanted: int, loaded: Loaded | None, n_prompt: int, max_tokens: int) -> Together:
    """`n_prompt`: tokens of the prompt, 0 where nobody has counted. `max_tokens`: of each answer,
    0 for no limit.

    >>> from types import SimpleNamespace
    >>> small = SimpleNamespace(n_slots=8, n_ctx=1000, remote=None)
    >>> together(8, small, 400, 100).at_once
    6
    >>> together(4, small, 100, 0).sentence
    'All 4 at once. One that fills the window pauses until there is room.'
    """
    if loaded is None:
        return Together(wanted, wanted, "They begin when a model is loaded.")
    if loaded.remote is not None:
        sentence = f"“{loaded.remote.name}” decides how many it writes at once."
        return Together(wanted, wanted, sentence)
    each = min(_RESERVE, loaded.n_ctx // 8)
    each = max(min(each, max_tokens) if max_tokens else each, 1)
    fitting = max((loaded.n_ctx - n_prompt) // each, 1)
    at_once = min(wanted, loaded.n_slots, fitting)
    if at_once < wanted and loaded.n_slots <= fitting:
        slots = "1 slot" if loaded.n_slots == 1 else f"{loaded.n_slots} slots"
        sentence = (
            f"{at_once} at a time: the model was loaded with {slots}. The others wait. Reload it "
            f"with “Replies at once” set to {wanted} for all."
        )
    elif at_once < wanted:
        sentence = (
            f"{at_once} at a time: the context window has {loaded.n_ctx:,} tokens, {n_prompt:,} of "
            "them for the prompt. The others wait until there is room."
        )
    else:
        whole = n_prompt + wanted * (max_tokens or loaded.n_ctx)
        pauses = whole > loaded.n_ctx
        sentence = f"All {wanted} at once." + (
            " One that fills the window pauses until there is room." if pauses else ""
        )
    return Together(wanted, at_once, sentence)
