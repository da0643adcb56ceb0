"""The window fills up while a reply is written: which stretches of its prompt can go.

Where a prompt was fitted (`fitting.py`) it is known where each turn lies in its tokens. So what a
context policy would leave out of the next prompt can leave this one as well, in the middle of the
reply. A stretch reaches from the text of a turn to the text of the next one, so that what remains
is what the template would have written without the turn:

    <user> Q1 <end> <assistant> A1 <end> <user> Q2 <end> <assistant> …
           └──────── may go ────────────────┘

The system prompt, pinned turns, the last turn and the reply itself have no stretch: a reply that
fills the window alone has come to its end, so that none goes on for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.prompts.tokens import PromptPart
from app.engine.protocol.midway_messages import ContextShift
from app.engine.protocol.prompt_messages import CutMessage

TARGET: Final = 0.6
"""Share of the window that is used after a cut."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens [start, end) of a prompt, and the messages that they are."""

    start: int
    end: int
    messages: tuple[CutMessage, ...] = ()

    @property
    def n_tokens(self) -> int:
        return self.end - self.start


def to_leave_out(stretches: Sequence[Stretch], used: int, window: int) -> list[Stretch]:
    """The first stretches, until at most 60 % of the window are used.

    >>> turns = [Stretch(2, 30), Stretch(30, 50), Stretch(50, 70)]
    >>> [(s.start, s.end) for s in to_leave_out(turns, 100, 100)]
    [(2, 30), (30, 50)]
    """
    gone: list[Stretch] = []
    for stretch in stretches:
        if used <= int(window * TARGET):
            break
        gone.append(stretch)
        used -= stretch.n_tokens
    return gone


def shift_of(gone: Sequence[Stretch], after: int, why_not: str = "") -> ContextShift:
    """Those are gone from the prompt, `after` so many tokens of its reply. `why_not`: why the cells
    behind them could not be shifted."""
    messages = [message for stretch in gone for message in stretch.messages]
    n_messages = sum(message.role != "text" for message in messages)
    n_tokens = sum(stretch.n_tokens for stretch in gone)
    what = f"{n_messages:,} messages were" if n_messages > 1 else "a message was"
    what = what if n_messages else "part of the text was"
    how = "The cached rest moved up; nothing was processed again."
    if why_not:
        how = f"The rest was processed again: {why_not}."
    sentence = (
        f"The context window filled up during this reply, so {what} dropped from the prompt "
        f"({n_tokens:,} tokens). {how}"
    )
    return ContextShift(after, n_tokens, n_messages, sentence, bool(why_not), messages)


def rest_without(stretches: Sequence[Stretch], gone: Sequence[Stretch]) -> list[Stretch]:
    """The others, where they lie once those are gone.

    >>> turns = [Stretch(2, 30), Stretch(30, 50), Stretch(50, 70)]
    >>> rest_without(turns, turns[:2])
    [Stretch(start=2, end=22, messages=())]
    """
    return [
        replace(stretch, start=_moved(stretch.start, gone), end=_moved(stretch.end, gone))
        for stretch in stretches
        if stretch not in gone
    ]


def ids_without(ids: Sequence[int], gone: Sequence[Stretch]) -> list[int]:
    """
    >>> ids_without([7, 8, 9, 10], [Stretch(1, 3)])
    [7, 10]
    """
    left = list(ids)
    for stretch in latest_first(gone):
        del left[stretch.start : stretch.end]
    return left


def parts_without(parts: Sequence[PromptPart], gone: Sequence[Stretch]) -> list[PromptPart]:
    """The parts of a prompt once those stretches are gone.

    >>> parts = [PromptPart(0, 4, "user"), PromptPart(4, 9, "assistant")]
    >>> [(part.start, part.end) for part in parts_without(parts, [Stretch(3, 6)])]
    [(0, 3), (3, 6)]
    """
    kept = [
        replace(part, start=_moved(part.start, gone), end=_moved(part.end, gone)) for part in parts
    ]
    return [part for part in kept if part.end > part.start]


def latest_first(stretches: Sequence[Stretch]) -> list[Stretch]:
    """So that taking one out moves none that is still to go."""
    return sorted(stretches, key=lambda stretch: stretch.start, reverse=True)


def _moved(at: int, gone: Sequence[Stretch]) -> int:
    return at - sum(max(min(at, stretch.end) - stretch.start, 0) for stretch in gone)
