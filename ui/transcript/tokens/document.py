"""A message as a document of tokens: cut into segments that are laid out one by one.

What must hold: what is read once costs nothing again while a reply grows, but for its last
segment; a segment ends at a line's end where there is one; positions are UTF-16 units of the
text that the tokens spell. How strongly a token is tinted is computed where it is painted.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from PySide6.QtGui import QPixmap

from app.insight.trace.message_tokens import MessageTokens, figures_of, proposals_of, usual_ms
from app.insight.trace.table import cuts_of
from app.insight.trace.token_groups import Groups, Spelling
from app.insight.trace.tokens_shown import Tint, strength, visible
from app.markdown.blocks import Block, LiteralBlock
from app.markdown.document import Document
from app.markdown.segments import Segment, SegmentKind
from ui.markdown.recent import Recent

LEAST_GROUPS: Final = 192
"""A segment ends at the first line's end after so many groups."""
MOST_GROUPS: Final = 1_024
AT_ONCE: Final = 512
GHOSTS: Final = 2
"""Of what was proposed and not drawn so many pieces are shown."""
LEVELS: Final = 16
MAX_PICTURES: Final = 160
"""Lines that are kept as they were painted."""
UNTINTED: Final = -1
_UNKNOWN: Final = -2


@dataclass(slots=True, eq=False)
class TokenSegment(Segment):
    """Groups [first_group, end_group) of its document."""

    first_group: int = 0
    end_group: int = 0


class TokenDocument(Document):
    """`tokens` may grow behind our back: `take_changes` reads what is new, which does not count
    before. `chosen` and `cursor` are numbers of tokens; `pictures` are the layouts' own."""

    def __init__(self, tokens: MessageTokens, tint: Tint = "probability") -> None:
        super().__init__()
        self.tokens = tokens
        self.groups = Groups()
        self.chosen: int | None = None
        self.cursor: int | None = None
        self.tint: Tint = tint
        self._paint: Sequence[float] | None = None
        self.pictures: dict[Any, tuple[Any, QPixmap]] = Recent(MAX_PICTURES)
        self._segments: list[TokenSegment] = []
        self._read_chars = 0
        self._n_unread = len(tokens)  # asked for some forty times per frame
        self._levels = array("b")
        self._usual_ms = 0.0
        self._usual_of = 0
        self._n_cuts = 0
        self._ghosts: dict[int, str] = {}
        self._drafted: set[int] = set()
        self._n_looked_at = 0

    # --- as any document ------------------------------------------------------------------------

    @property
    def source(self) -> str:
        self._read_tokens(None)
        return "".join(segment.text for segment in self._segments)

    @property
    def source_length(self) -> int:
        """About: of what is unread each token counts as four characters."""
        return self._read_chars + 4 * self._n_unread

    @property
    def is_open(self) -> bool:
        return False

    @property
    def segments(self) -> list[Segment]:
        self._read_tokens(None)
        return self.known_segments

    @property
    def known_segments(self) -> list[Segment]:
        return [*self._segments]

    @property
    def unread_chars(self) -> int:
        return 4 * self._n_unread

    def append(self, text: str) -> None:
        """Text comes by its tokens."""

    def set_open(self, is_open: bool) -> None:
        """Tokens are never held back."""

    def take_changes(self, seconds: float | None = None) -> int:
        self._read_tokens(seconds)
        changed, self._changed_from = self._changed_from, len(self._segments)
        return min(changed, len(self._segments))

    def blocks(self, segment: Segment) -> tuple[Block, ...]:
        return (LiteralBlock(segment.text),)

    def copy(self) -> TokenDocument:
        """The same tokens, unread."""
        return TokenDocument(self.tokens, self.tint)

    # --- tokens ---------------------------------------------------------------------------------

    def segment_of(self, group: int) -> int:
        """The index of the segment that a group is in."""
        firsts = [segment.first_group for segment in self._segments]
        return max(bisect_right(firsts, group) - 1, 0)

    def segment(self, index: int) -> TokenSegment:
        return self._segments[index]

    def spellings_of(self, segment: TokenSegment) -> list[Spelling]:
        return self.groups.spellings[segment.first_group : segment.end_group]

    def starts_of(self, segment: TokenSegment) -> list[int]:
        """Where each group of a segment begins in its text, and the end."""
        return list(accumulate((s.length for s in self.spellings_of(segment)), initial=0))

    def set_tint(self, tint: Tint) -> None:
        if tint != self.tint:
            self.tint = tint
            self._forget_levels()
            self._measure_time()

    def set_paint(self, paint: Sequence[float] | None) -> None:
        """Tints from elsewhere in place of the trace's, from 0 to 1 by the number of the token;
        behind the end there is none. None: the trace's again."""
        if paint is not self._paint:
            self._paint = paint
            self._forget_levels()

    def level(self, group: int) -> int:
        """How strongly a group is tinted, 0 to `LEVELS` - 1; `UNTINTED` where nothing says. Of
        several tokens that are one character the strongest counts."""
        known = self._levels[group]
        if known == _UNKNOWN:
            known = self._levels[group] = self._level(group)
        return known

    # --- drafts ---------------------------------------------------------------------------------

    @property
    def has_drafts(self) -> bool:
        return bool(self._ghosts) or bool(self._drafted)

    def ghost(self, group: int) -> str:
        """What a draft had proposed where something else was drawn: its first pieces."""
        for number in range(self.groups.firsts[group], self.groups.end_of(group)):
            if number in self._ghosts:
                return self._ghosts[number]
        return ""

    def is_drafted(self, group: int) -> bool:
        """Whether its first token was proposed by a draft."""
        return self.groups.firsts[group] in self._drafted

    def _look_for_drafts(self) -> None:
        first, n_before = self._n_looked_at, len(self.tokens.before)
        self._n_looked_at = len(self.tokens.traces)
        if first < self._n_looked_at:
            lost, drafted = proposals_of(self.tokens.traces, first)
            self._ghosts |= {n_before + at: _ghost(pieces) for at, pieces in lost.items()}
            self._drafted.update(n_before + at for at in drafted)

    @property
    def usual_ms(self) -> float:
        """What the time of a token is compared with, while time is what is tinted."""
        return self._usual_ms

    def _measure_time(self) -> None:
        """The usual time is taken anew as a reply grows, when there are twice as many tokens."""
        n = len(self.tokens.traces)
        if self.tint == "time" and n and n >= 2 * self._usual_of:
            self._usual_of, self._usual_ms = n, usual_ms(self.tokens.traces)
            self._forget_levels()

    def _level(self, group: int) -> int:
        traces, found = self.tokens.traces, UNTINTED
        for number in range(self.groups.firsts[group], self.groups.end_of(group)):
            if self._paint is not None:
                painted = self._paint[number] if number < len(self._paint) else 0.0
                if painted > 0:
                    found = max(found, min(int(painted * LEVELS), LEVELS - 1))
                continue
            place = self.tokens.place_of(number)
            if place is None:
                continue
            share = strength(figures_of(traces, place, self.tint), self.tint, self._usual_ms)
            if share is not None:
                found = max(found, min(int(share * LEVELS), LEVELS - 1))
        return found

    def _forget_levels(self) -> None:
        self._levels = array("b", bytes([_UNKNOWN & 0xFF]) * len(self.groups))

    # --- reading --------------------------------------------------------------------------------

    def _read_tokens(self, seconds: float | None) -> None:
        """Read what has come since, for about so long."""
        total, first = len(self.tokens), len(self._segments)
        n_cuts = cuts_of(self.tokens.traces)
        if total < self.groups.n_tokens or n_cuts != self._n_cuts:
            # Some were taken back, and others may be there already: rare, so all is read again.
            self._n_cuts = n_cuts
            self.groups, self._segments, first = Groups(), [], 0
            self._levels, self._read_chars = array("b"), 0
            self._ghosts, self._drafted, self._n_looked_at = {}, set(), 0
        self._look_for_drafts()
        latest = None if seconds is None else time.perf_counter() + seconds
        while self.groups.n_tokens < total:
            start = self.groups.n_tokens
            changed = self.groups.feed(self.tokens.pieces(start, min(start + AT_ONCE, total)))
            first = min(first, self._cut(changed))
            if latest is not None and time.perf_counter() > latest:
                break
        self._n_unread = max(total - self.groups.n_tokens, 0)
        self._changed_from = min(self._changed_from, first)
        self._measure_time()

    def _cut(self, changed: int) -> int:
        """Cut the groups from `changed` on into segments; the first one that is new."""
        del self._levels[changed:]
        unknown = bytes([_UNKNOWN & 0xFF]) * (len(self.groups) - changed)
        self._levels.frombytes(unknown)
        while self._segments and not self._is_done(self._segments[-1], changed):
            self._read_chars -= len(self._segments.pop().text)
        first = len(self._segments)
        start = self._segments[-1].end_group if self._segments else 0
        while start < len(self.groups):
            end = self._end_of_segment(start)
            text = "".join(s.raw for s in self.groups.spellings[start:end])
            segment = TokenSegment(SegmentKind.PLAIN, text, is_joined=start > 0)
            segment.first_group, segment.end_group = start, end
            self._segments.append(segment)
            self._read_chars += len(text)
            start = end
        return first

    def _is_done(self, segment: TokenSegment, changed: int) -> bool:
        """Whether nothing that comes can change where a segment ends."""
        if segment.end_group > changed:
            return False
        n_groups = segment.end_group - segment.first_group
        ends_line = self.groups.spellings[segment.end_group - 1].breaks_line
        return n_groups >= MOST_GROUPS or (n_groups >= LEAST_GROUPS and ends_line)

    def _end_of_segment(self, start: int) -> int:
        spellings = self.groups.spellings
        latest = min(start + MOST_GROUPS, len(spellings))
        for group in range(start + LEAST_GROUPS - 1, latest):
            if spellings[group].breaks_line:
                return group + 1
        return latest


def _ghost(pieces: Sequence[bytes]) -> str:
    """One or two pieces, and that there were more."""
    return "".join(map(visible, pieces[:GHOSTS])) + ("…" if len(pieces) > GHOSTS else "")
