"""Records what the time of one reply went into, as it happens.

A reply's time is cut where something ends: `mark(kind, now)` says what it was since the last cut.
So the stretches have no gaps, and add up to the time from the command's arrival to the end.

    arrived ── rendering ── queued ── settling ── prefill ── first ── decode ───────── ending
                                                  31 tokens  1        98 tokens, 1 slot

Passes of one token each that shared their step with as many others are one stretch: how long each
took is in the tokens' own traces; where there are more stretches than `MAX_SPANS` they are gathered
by kind. What step mode held is a stretch, but no part of the engine's clock. Stored with the reply,
some 200 bytes. What must hold: a token costs the decoding thread a comparison and two additions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.engine.protocol.timeline_messages import MAX_SPANS, Span, SpanKind

_MOST_ENTRIES: Final = 4 * MAX_SPANS
_WRITING: Final = frozenset({"first", "decode"})
_PASSES: Final = frozenset({"prefill", "reread", "first", "decode"})


@dataclass(slots=True)
class Pass:
    """What the pass that was computed last held, of all replies."""

    slots: int = 0
    batch: int = 0


@dataclass(slots=True)
class _Entry:
    kind: SpanKind
    start: float
    end: float
    tokens: int = 0
    slots: int = 0
    batch: int = 0
    parts: int = 1


class Timeline:
    """Of one reply. Times are seconds of the engine's clock.

    >>> timeline = Timeline(10.0)
    >>> timeline.mark("rendering", 10.25)
    >>> timeline.mark("queued", 10.5)
    >>> [(span.kind, span.start_ms, span.ms) for span in timeline.spans(11.0)]
    [('rendering', 0.0, 250.0), ('queued', 250.0, 250.0), ('ending', 500.0, 500.0)]
    """

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self._last = arrived
        self._entries: list[_Entry] = []
        self.awaited: SpanKind = "queued"
        self._n_tokens = 0
        self._is_again = False
        self.latest = Pass()
        """Shared with the scheduler, which keeps it up to date."""

    # --- before it has a slot -------------------------------------------------------------------

    def awaits(self, kind: SpanKind, now: float) -> None:
        """What it waits for from now on, unless it did before."""
        if kind != self.awaited:
            self.end_waiting(now)
            self.awaited = kind

    def end_waiting(self, now: float) -> None:
        self.mark(self.awaited, now)

    # --- in its slot ----------------------------------------------------------------------------

    def mark(self, kind: SpanKind, now: float, tokens: int = 0) -> None:
        """What was since the last mark."""
        start, self._last = self._last, max(now, self._last)
        last = self._entries[-1] if self._entries else None
        if last is not None and last.kind == kind and kind not in _PASSES:
            last.end = self._last
            last.tokens += tokens
        elif tokens or self._last > start:
            self._add(_Entry(kind, start, self._last, tokens))

    def prefilled(self, started: float, now: float, tokens: int) -> None:
        """A pass has read so many tokens of it."""
        self.mark("between", started)
        self._add_pass("reread" if self._is_again else "prefill", now, tokens)

    def begin_again(self, now: float) -> None:
        """All that was read is lost, and there is room to read it once more."""
        self.mark("room", now)
        self._is_again = True

    def token(self, now: float) -> None:
        """One more token is part of the reply."""
        n_before, self._n_tokens = self._n_tokens, self._n_tokens + 1
        latest = self.latest
        last = self._entries[-1] if self._entries else None
        if (
            last is not None
            and last.kind == "decode"
            and last.tokens
            and last.slots == latest.slots
            and last.batch == latest.batch
        ):
            self._last = last.end = now
            last.tokens += 1
        else:
            self._add_pass("decode" if n_before else "first", now, 1)

    def drawn(self, now: float) -> None:
        """A token was drawn and waits for a choice."""
        self._add_pass("decode" if self._n_tokens else "first", now, 0)

    def take_back(self, since: float, n_tokens: int) -> None:
        """The last `n_tokens` are no part of the reply any more: what was written after `since`
        was for nothing."""
        later: list[_Entry] = []
        self._n_tokens -= n_tokens
        # A clock that has not moved on between two tokens tells nothing: then it is the number.
        while self._entries and (n_tokens or self._entries[-1].end > since):
            entry = self._entries.pop()
            later.append(entry)
            if entry.kind not in _WRITING:
                continue
            if entry.start < since or entry.tokens > n_tokens:
                kept = replace(entry, end=since, tokens=max(entry.tokens - n_tokens, 0))
                self._entries.append(kept)
                entry.start, entry.tokens = since, n_tokens
            n_tokens = max(n_tokens - entry.tokens, 0)
            entry.kind = "taken_back"
        self._entries += reversed(later)

    # --- at the end -----------------------------------------------------------------------------

    def spans(self, now: float, kind: SpanKind = "ending") -> list[Span]:
        """All of it, until now; `kind` is what was since the last mark."""
        entries = list(self._entries)
        if now > self._last:
            entries.append(_Entry(kind, self._last, now))
        return [self._span(entry, now) for entry in _gathered(entries, MAX_SPANS)]

    def _span(self, entry: _Entry, now: float) -> Span:
        # Rounded where it is cut, so that the lengths still add up to the whole.
        start, end = self._ms(entry.start), self._ms(min(entry.end, now))
        return Span(
            entry.kind,
            start,
            round(max(end - start, 0.0), 3),
            entry.tokens,
            entry.slots,
            entry.batch,
            entry.parts,
        )

    def _ms(self, moment: float) -> float:
        return round((moment - self.arrived) * 1000, 3)

    # --- small things ---------------------------------------------------------------------------

    def _add_pass(self, kind: SpanKind, now: float, tokens: int) -> None:
        start, self._last = self._last, max(now, self._last)
        latest = self.latest
        self._add(_Entry(kind, start, self._last, tokens, latest.slots, latest.batch))

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        if len(self._entries) > _MOST_ENTRIES:
            self._entries = _gathered(self._entries, MAX_SPANS)


def _gathered(entries: list[_Entry], limit: int) -> list[_Entry]:
    """At most `limit` entries: neighbours are put together by kind, in ever larger groups."""
    size = 4
    while len(entries) > limit:
        entries = [
            one for at in range(0, len(entries), size) for one in _by_kind(entries[at : at + size])
        ]
        size *= 2
    return entries


def _by_kind(entries: list[_Entry]) -> list[_Entry]:
    """One entry per kind, as long as all of that kind, one behind the other."""
    found: dict[str, _Entry] = {}
    lengths: dict[str, float] = {}
    for entry in entries:
        one = found.get(entry.kind)
        lengths[entry.kind] = lengths.get(entry.kind, 0.0) + entry.end - entry.start
        if one is None:
            found[entry.kind] = replace(entry)
        else:
            one.tokens += entry.tokens
            one.parts += entry.parts
            one.slots = max(one.slots, entry.slots)
            one.batch = max(one.batch, entry.batch)
    at = entries[0].start
    for kind, one in found.items():
        one.start, one.end = at, at + lengths[kind]
        at = one.end
    return list(found.values())
