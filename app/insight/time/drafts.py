"""What speculative decoding did for a reply: as the engine stored it, or of a trace that grows.

A pass with proposals ends with the one token that nobody had proposed, so the trace tells passes
apart, and each proposal's place in its pass:

    token     the     red    fox     ran      .        away
    drafted   yes     yes    no              yes       no
    rejected                 " box"                    " far", " from"
    pass      └─ 2 of 3 accepted ─┘          └─ 1 of 3 accepted ─┘

No numpy: a window that only chats does not import it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from app.engine.protocol.draft_messages import MAX_DRAFT
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.message_tokens import drafted_of
from app.insight.trace.table import TraceTable

_BOUND: Final = 2**31
LEAST_TOKENS: Final = 6
"""With fewer there is no speed to speak of."""


@dataclass(frozen=True, slots=True)
class DraftFigures:
    """`by_position`: (proposed, accepted) at each place in a proposal. `drafted_s` for
    `drafted_tokens` with proposals, `plain_s` for `plain_tokens` without, in the same reply."""

    kind: str = "lookup"
    name: str = ""
    passes: int = 0
    by_position: tuple[tuple[int, int], ...] = ()
    drafted_s: float = 0.0
    drafted_tokens: int = 0
    plain_s: float = 0.0
    plain_tokens: int = 0
    off: str = ""

    @property
    def proposed(self) -> int:
        return sum(proposed for proposed, _ in self.by_position)

    @property
    def accepted(self) -> int:
        return sum(accepted for _, accepted in self.by_position)

    @property
    def mean_length(self) -> float:
        """Tokens per pass with proposals: those accepted, and the one drawn behind them."""
        return 1 + self.accepted / self.passes if self.passes else 0.0

    @property
    def histogram(self) -> tuple[int, ...]:
        """How many passes had none of their proposals accepted, one, two, … (what comes behind
        them is not counted).

        >>> DraftFigures(passes=5, by_position=((5, 4), (5, 4), (2, 1))).histogram
        (1, 0, 3, 1)
        """
        ends = [self.passes, *(accepted for _, accepted in self.by_position), 0]
        return tuple(more - fewer for more, fewer in pairwise(ends))

    @property
    def drafted_rate(self) -> float | None:
        return _rate(self.drafted_tokens, self.drafted_s)

    @property
    def plain_rate(self) -> float | None:
        return _rate(self.plain_tokens, self.plain_s)

    @property
    def gain(self) -> float | None:
        """Tokens per second with proposals ÷ without."""
        drafted, plain = self.drafted_rate, self.plain_rate
        return drafted / plain if drafted is not None and plain else None


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if tokens >= LEAST_TOKENS and seconds > 0 else None


@dataclass(slots=True)
class _Tally:
    passes: int = 0
    places: list[list[int]] = field(default_factory=list)

    def end_pass(self, accepted: int, rejected: int) -> None:
        if not accepted + rejected:
            return
        self.passes += 1
        while len(self.places) < accepted + rejected:
            self.places.append([0, 0])
        for at in range(accepted + rejected):
            self.places[at][0] += 1
            self.places[at][1] += at < accepted


def of_trace(traces: Sequence[TokenTrace], first: int = 0) -> DraftFigures | None:
    """Of what was recorded from token `first` on; None where nothing was proposed. What was
    proposed for the end of a reply is in no trace."""
    drafted = drafted_of(traces, first)
    rejected: Mapping[int, Any]
    if isinstance(traces, TraceTable):
        rejected = traces.rejected
    else:
        rejected = {i: t.rejected for i, t in enumerate(traces) if t.rejected is not None}
    if not rejected and not any(drafted):
        return None  # of most replies, which may be long
    tally, run = _Tally(), 0
    for at, is_drafted in enumerate(drafted, first):
        if is_drafted:
            run += 1
            continue
        tally.end_pass(run, len(rejected[at].ids) if at in rejected else 0)
        run = 0
    tally.end_pass(run, 0)
    if not tally.passes:
        return None
    places = tuple((proposed, accepted) for proposed, accepted in tally.places)
    return DraftFigures(passes=tally.passes, by_position=places)


def from_stored(stored: object) -> DraftFigures | None:
    """What was stored with a message; None where it is not what this program writes."""
    if not isinstance(stored, Mapping) or stored.get("kind") not in ("lookup", "model"):
        return None
    counts = {name: _count(stored.get(name)) for name in _COUNTS}
    seconds = {name: _seconds(stored.get(name)) for name in ("drafted_s", "plain_s")}
    places = _places(stored.get("by_position"))
    texts = {name: stored.get(name, "") for name in ("name", "off")}
    if places is None or None in counts.values() or None in seconds.values():
        return None
    if not all(isinstance(text, str) for text in texts.values()):
        return None
    return DraftFigures(stored["kind"], by_position=places, **texts, **counts, **seconds)  # type: ignore[arg-type]


_COUNTS: Final = ("passes", "drafted_tokens", "plain_tokens")


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _BOUND else None


def _seconds(value: object) -> float | None:
    is_number = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
    return float(value) if is_number and 0 <= value < _BOUND else None  # type: ignore[operator,arg-type]


def _places(rows: object) -> tuple[tuple[int, int], ...] | None:
    if not isinstance(rows, list) or len(rows) > MAX_DRAFT:
        return None
    found = []
    for row in rows:
        if not isinstance(row, Mapping):
            return None
        proposed, accepted = _count(row.get("proposed")), _count(row.get("accepted"))
        if proposed is None or accepted is None or accepted > proposed:
            return None
        found.append((proposed, accepted))
    return tuple(found)
