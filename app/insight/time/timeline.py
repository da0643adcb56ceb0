"""The time line of a reply: its stretches, the lanes that they lie in, and their sums.

The engine records stretches without gaps (`app.engine.process.trace.timeline`), so where each
begins follows from the lengths before it, and they add up to the whole. Where its tokens lie on
them: `bars.py`. No numpy: a window that only chats does not import it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.engine.protocol.timeline_messages import MAX_SPANS, Span

Lane = Literal["waited", "prefill", "decode"]

LEAST_MS: Final = 0.001
"""What the engine rounds to: with less there is no speed to speak of."""

_BOUND: Final = 2**53


@dataclass(frozen=True, slots=True)
class Stretch:
    """As `Span`, in milliseconds after the arrival."""

    kind: str
    start_ms: float
    ms: float
    tokens: int = 0
    slots: int = 0
    batch: int = 0
    parts: int = 1

    @property
    def end_ms(self) -> float:
        return self.start_ms + self.ms

    @property
    def lane(self) -> Lane:
        return KINDS[self.kind].lane


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of stretch is called, in which lane it lies, and one sentence on what it is."""

    name: str
    lane: Lane
    sentence: str


KINDS: Final[dict[str, Kind]] = {
    "arriving": Kind(
        "On its way",
        "waited",
        "The request arrived and waited for the current pass to finish.",
    ),
    "rendering": Kind(
        "Prompt prepared",
        "waited",
        "The prompt is assembled with the chat template and tokenised.",
    ),
    "queued": Kind("Queue", "waited", "Waited for a free slot."),
    "prefix": Kind(
        "Shared prefix",
        "waited",
        "Waited for another reply to process the same beginning, so that it is processed only "
        "once.",
    ),
    "room": Kind("Room", "waited", "Waited for free cells in the KV cache."),
    "alone": Kind(
        "Alone",
        "waited",
        ("A repeatable reply can't share a pass with others, so one of them waited."),
    ),
    "settling": Kind(
        "Slot prepared",
        "waited",
        "The sampling chain is created, and the cached part of the prompt is kept.",
    ),
    "restoring": Kind(
        "Cache restored",
        "waited",
        "A copy of the KV cache was restored from host memory or disk.",
    ),
    "seeing": Kind(
        "Pictures encoded",
        "prefill",
        "The projector turned a picture or a sound into the vectors that stand in the prompt.",
    ),
    "between": Kind(
        "Between passes",
        "waited",
        "The next batch is assembled and other replies in it draw their tokens.",
    ),
    "prefill": Kind(
        "Prefill",
        "prefill",
        "The prompt is processed in parallel, chunk by chunk; bound by arithmetic.",
    ),
    "reread": Kind(
        "Prefill again",
        "prefill",
        ("The KV cache was lost, so prompt and text were processed again."),
    ),
    "first": Kind(
        "First token",
        "decode",
        "Drawn from the logits of the last prefill pass, so it needs no pass of its own.",
    ),
    "decode": Kind(
        "Decode",
        "decode",
        "One token per pass, more with speculative decoding; bound by memory.",
    ),
    "awaited": Kind(
        "First token",
        "decode",
        "From sending to the first token: the way there and back, the server's queue, the prompt "
        "and the first draw together.",
    ),
    "arrived": Kind("Tokens", "decode", "As they arrived here, network included."),
    "told": Kind("Tokens", "decode", "By the server's own clock."),
    "taken_back": Kind(
        "Discarded", "decode", "Decode of tokens that completed a banned string, drawn again."
    ),
    "ending": Kind(
        "End",
        "decode",
        "After the last token: the pass that drew the end token, or unfinished work.",
    ),
    "held": Kind("On hold", "waited", "Step mode: the drawn token waited for a choice."),
    "failed": Kind("Failed pass", "waited", "llama.cpp couldn't compute this pass."),
    "broken_off": Kind(
        "Interrupted", "waited", "A pass was interrupted because a reply in it was stopped."
    ),
}
"""In the order in which sums are shown."""

WRITING: Final = frozenset({"first", "decode", "awaited", "arrived", "told"})
_WITH_RATE: Final = frozenset({"prefill", "reread", "decode", "arrived", "told"})
COUNTED: Final = WRITING | {"prefill", "reread"}
"""Passes whose tokens were read, or are part of the reply."""


@dataclass(frozen=True, slots=True)
class Part:
    """All stretches of one kind. `share` of the whole; `tokens_per_s` where tokens were read or
    written (decode counts as llama-bench does: without the first token)."""

    kind: str
    ms: float
    share: float
    tokens: int
    tokens_per_s: float | None

    @property
    def name(self) -> str:
        return KINDS[self.kind].name

    @property
    def sentence(self) -> str:
        return KINDS[self.kind].sentence


# --- stored and read ----------------------------------------------------------------------------


def as_stored(spans: Sequence[Span]) -> list[list[Any]]:
    """Kind, milliseconds, tokens, slots, batch, parts of each; zeros at the end are left out.

    >>> as_stored([Span("queued", 0.0, 1.5), Span("decode", 1.5, 20.0, 2, 1, 1)])
    [['queued', 1.5], ['decode', 20.0, 2, 1, 1]]
    """
    rows = []
    for span in spans[:MAX_SPANS]:
        row: list[Any] = [span.kind, span.ms, span.tokens, span.slots, span.batch]
        if span.parts > 1:
            row.append(span.parts)
        while not row[-1] and len(row) > 2:
            row.pop()
        rows.append(row)
    return rows


def from_stored(rows: object) -> tuple[Stretch, ...]:
    """What was stored with a message; empty where it is not what this program writes.

    >>> from_stored([["queued", 1.5], ["decode", 20.0, 2, 1, 1]])[1].start_ms
    1.5
    >>> from_stored([["queued", -1]]), from_stored(None)
    ((), ())
    """
    if not isinstance(rows, list) or len(rows) > MAX_SPANS:
        return ()
    stretches: list[Stretch] = []
    at = 0.0
    for row in rows:
        stretch = _stretch(row, at)
        if stretch is None:
            return ()
        stretches.append(stretch)
        at = stretch.end_ms
    return tuple(stretches)


def _stretch(row: object, at: float) -> Stretch | None:
    if not isinstance(row, list) or not 2 <= len(row) <= 6:
        return None
    if not isinstance(row[0], str) or row[0] not in KINDS:
        return None
    ms, counts = row[1], row[2:]
    if type(ms) not in (int, float) or not math.isfinite(ms) or not 0 <= ms < _BOUND:
        return None
    if any(type(count) is not int or not 0 <= count < _BOUND for count in counts):
        return None
    return Stretch(row[0], at, float(ms), *counts)


def of_trace(token_ms: Sequence[float]) -> tuple[Stretch, ...]:
    """The line of a reply of which only the trace is known: it begins where prefill ended.

    >>> [(one.kind, one.ms, one.tokens) for one in of_trace([1.0, 20.0, 21.0])]
    [('first', 1.0, 1), ('decode', 41.0, 2)]
    """
    if not len(token_ms):
        return ()
    first = Stretch("first", 0.0, float(token_ms[0]), 1)
    if len(token_ms) == 1:
        return (first,)
    return (first, Stretch("decode", first.ms, math.fsum(token_ms[1:]), len(token_ms) - 1))


def of_server(token_ms: Sequence[float], *, is_told: bool) -> tuple[Stretch, ...]:
    """The line of a server's reply, which says nothing of its passes. `is_told`: these times are
    its own; else they are those of the arrivals here, and the first one is of all before it.

    >>> [(one.kind, one.ms, one.tokens) for one in of_server([9.0, 2.0, 2.0], is_told=False)]
    [('awaited', 9.0, 1), ('arrived', 4.0, 2)]
    """
    if not len(token_ms):
        return ()
    if is_told:
        return (Stretch("told", 0.0, math.fsum(token_ms), len(token_ms)),)
    first = Stretch("awaited", 0.0, float(token_ms[0]), 1)
    if len(token_ms) == 1:
        return (first,)
    return (first, Stretch("arrived", first.ms, math.fsum(token_ms[1:]), len(token_ms) - 1))


# --- sums ---------------------------------------------------------------------------------------


def total_ms(stretches: Sequence[Stretch]) -> float:
    return math.fsum(one.ms for one in stretches)


def parts(stretches: Sequence[Stretch]) -> list[Part]:
    """The sums by kind, in the order of `KINDS`; they add up to the whole.

    >>> line = [Stretch("prefill", 0, 100.0, 20), Stretch("decode", 100, 300.0, 15)]
    >>> [(part.name, part.share, part.tokens_per_s) for part in parts(line)]
    [('Prefill', 0.25, 200.0), ('Decode', 0.75, 50.0)]
    """
    whole = total_ms(stretches)
    found = []
    for kind in KINDS:
        those = [one for one in stretches if one.kind == kind]
        if not those:
            continue
        ms, tokens = total_ms(those), sum(one.tokens for one in those)
        has_rate = kind in _WITH_RATE and tokens and ms >= LEAST_MS
        found.append(
            Part(
                kind,
                ms,
                ms / whole if whole > 0 else 0.0,
                tokens,
                1000 * tokens / ms if has_rate else None,
            )
        )
    return found


def lane_ms(stretches: Sequence[Stretch], lane: Lane) -> float:
    return total_ms([one for one in stretches if one.lane == lane])


def is_gathered(stretches: Sequence[Stretch]) -> bool:
    """Whether neighbours were put together, so that places are not exact any more."""
    return any(one.parts > 1 for one in stretches)
