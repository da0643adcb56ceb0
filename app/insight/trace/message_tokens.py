"""A message as tokens: those that were drawn, with their traces, and those around them.

a reply that goes on from a given beginning     before: given   traces: drawn
a reply longer than its trace                   traces: drawn   after: known by their IDs
a message of the user                           before: as the vocabulary cuts it
nothing known                                   before: the words of its text, no tokens
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.trace.table import IS_DRAFTED, TraceTable
from app.insight.trace.tokens_shown import Figures, Tint
from models.records import Message

MOST_TIMES: Final = 2_000
_WORDS: Final = re.compile(rb"\s?[^\s]{1,64}|\s[^\S\n]{0,63}")


@dataclass(frozen=True, slots=True)
class MessageTokens:
    """`are_tokens` False: the pieces are words of the text, since nothing says where its tokens
    are. `note`: a sentence about all of them, for under the text. `hint`: about those that were
    not drawn, for who points at one. `ids` are those of `before` and `after`, where known."""

    before: Sequence[bytes] = ()
    traces: Sequence[TokenTrace] = ()
    after: Sequence[bytes] = ()
    before_ids: Sequence[int] = ()
    after_ids: Sequence[int] = ()
    note: str = ""
    hint: str = ""
    are_tokens: bool = True

    def __len__(self) -> int:
        return len(self.before) + len(self.traces) + len(self.after)

    def place_of(self, number: int) -> int | None:
        """The place in the trace of a token; None of one that was not drawn."""
        place = number - len(self.before)
        return place if 0 <= place < len(self.traces) else None

    def id_of(self, number: int) -> int | None:
        place = self.place_of(number)
        if place is not None:
            return self.traces[place].token_id
        behind = number - len(self.before) - len(self.traces)
        ids, at = (self.before_ids, number) if behind < 0 else (self.after_ids, behind)
        return ids[at] if at < len(ids) else None

    def pieces(self, first: int, end: int) -> list[bytes]:
        """The bytes of tokens [first, end)."""
        n_before, n_traces = len(self.before), len(self.traces)
        found = list(self.before[first:end])
        drawn = range(max(first - n_before, 0), min(end - n_before, n_traces))
        if drawn:
            found += pieces_of(self.traces, drawn.start, drawn.stop)
        behind = n_before + n_traces
        if end > behind:
            found += self.after[max(first - behind, 0) : end - behind]
        return found

    def piece(self, number: int) -> bytes:
        return self.pieces(number, number + 1)[0]


def drafted_of(traces: Sequence[TokenTrace], first: int = 0) -> list[bool]:
    """Of each token from `first` on whether a draft had proposed it."""
    if isinstance(traces, TraceTable):
        return [bool(flags & IS_DRAFTED) for flags in traces.column("flags", first)]
    return [token.drafted for token in traces[first:]]


def proposals_of(
    traces: Sequence[TokenTrace], first: int = 0
) -> tuple[dict[int, tuple[bytes, ...]], list[int]]:
    """Of the tokens from `first` on: what a draft had proposed and was not drawn, by place, and the
    places of those that were proposed and drawn."""
    if isinstance(traces, TraceTable):
        rejected = {at: each for at, each in traces.rejected.items() if at >= first}
    else:
        later = enumerate(traces[first:], first)
        rejected = {at: token.rejected for at, token in later if token.rejected is not None}
    drafted = [at for at, is_drafted in enumerate(drafted_of(traces, first), first) if is_drafted]
    return {at: tuple(each.pieces) for at, each in rejected.items()}, drafted


def pieces_of(traces: Sequence[TokenTrace], first: int, end: int) -> list[bytes]:
    if isinstance(traces, TraceTable):
        ends = [traces.row(at).piece_end for at in range(first - 1, end)]
        return [bytes(traces.pieces[start:stop]) for start, stop in pairwise(ends)]
    return [token.piece for token in traces[first:end]]


def ids_of(traces: Sequence[TokenTrace], first: int = 0) -> list[int]:
    """From token `first` on."""
    if isinstance(traces, TraceTable):
        return traces.column("token_id", first).tolist()
    return [token.token_id for token in traces[first:]]


def times_of(traces: Sequence[TokenTrace]) -> list[float]:
    """The milliseconds of each."""
    if isinstance(traces, TraceTable):
        return traces.column("ms").tolist()
    return [token.ms for token in traces]


def figures_of(traces: Sequence[TokenTrace], place: int, tint: Tint) -> Figures:
    """What the tint of a token is computed from. Of a growing trace only the row is read: to make
    a token with its alternatives takes ten times as long."""
    if isinstance(traces, TraceTable) and tint != "surprise":
        return traces.row(place)
    return traces[place]


def plain(text: str, note: str = "", hint: str = "") -> MessageTokens:
    """A text of which no tokens are known, in words.

    >>> plain("Two words").before
    [b'Two', b' words']
    """
    # A long word may be cut within a character: as tokens are, and put together like them.
    words = _WORDS.findall(text.encode("utf-8", "replace"))
    return MessageTokens(before=words, note=note, hint=hint, are_tokens=False)


def is_from_server(message: Message) -> bool:
    """Whether a server wrote it: how it draws and what it computes with, this machine can't tell
    (`app.chat.replies.written_by` says more of it)."""
    return isinstance(message.settings.get("engine"), dict)


def n_given(message: Message) -> int | None:
    """How many tokens of a reply were its given beginning and are in no trace; None where there is
    one that has no token IDs. What is stored is untrusted."""
    given = message.settings.get("given")
    if not isinstance(given, dict):
        return 0
    n_tokens, n_traced = given.get("tokens"), given.get("traced", 0)
    if not isinstance(n_tokens, int) or not isinstance(n_traced, int) or n_tokens < 0:
        return None
    return min(max(n_tokens - n_traced, 0), n_tokens)


def first_chosen(message: Message) -> int | None:
    """Where in its trace a reply has the token that was chosen by hand to branch it; None of one
    that was not branched so."""
    given = message.settings.get("given")
    is_branch = isinstance(given, dict) and bool(given.get("chosen"))
    return n_taken_over(message) if is_branch else None


def n_taken_over(message: Message) -> int:
    """How many of the first tokens of its trace a reply has from the version that it was branched
    from: they were drawn there, with other settings and at another time."""
    given = message.settings.get("given")
    n_traced = given.get("traced") if isinstance(given, dict) else None
    return max(n_traced, 0) if isinstance(n_traced, int) else 0


def given_text(message: Message) -> str:
    """The text of a given beginning, reasoning first."""
    given = message.settings.get("given")
    if not isinstance(given, dict):
        return ""
    parts = []
    for text, name in (
        (message.reasoning, "reasoning_characters"),
        (message.content, "characters"),
    ):
        length = given.get(name)
        parts.append(text[:length] if isinstance(length, int) and length > 0 else "")
    return "".join(parts)


def of_reply(
    message: Message, traces: Sequence[TokenTrace], words: Pieces | None, note: str = ""
) -> MessageTokens | None:
    """The tokens of a reply from its trace, and from its IDs where it has no trace. None where
    neither says anything."""
    ids = message.token_ids or ()
    if not len(traces):
        if not ids or words is None:
            return None
        pieces = tuple(words.piece(token_id) for token_id in ids)
        return MessageTokens(before=pieces, before_ids=ids, note=note, hint=note)
    n_before = n_given(message)
    if n_before is None:
        text = given_text(message)
        return MessageTokens(before=plain(text).before, traces=traces, hint=GIVEN)
    before_ids, after_ids = ids[:n_before], ids[n_before + len(traces) :]
    if words is None:
        before = plain(given_text(message)).before if n_before else ()
        note = REST_UNKNOWN if after_ids else ""
        return MessageTokens(before=before, traces=traces, note=note, hint=GIVEN)
    return MessageTokens(
        before=tuple(words.piece(token_id) for token_id in before_ids),
        traces=traces,
        after=tuple(words.piece(token_id) for token_id in after_ids),
        before_ids=before_ids,
        after_ids=after_ids,
        hint=GIVEN if n_before else NOT_RECORDED,
    )


GIVEN: Final = "Given as the start of the reply, not drawn."
NOT_RECORDED: Final = "Not recorded: only the first 16,384 tokens are."
REST_UNKNOWN: Final = (
    "The tokens after these weren't recorded. Load the model that wrote them to see them."
)


def usual_ms(traces: Sequence[TokenTrace]) -> float:
    """The median time of a token, of evenly spread ones where there are many; 0 without any."""
    n = len(traces)
    if not n:
        return 0.0
    if isinstance(traces, TraceTable):
        times = list(traces.column("ms"))
        return float(median(times[:: max(1, n // MOST_TIMES)]))
    return float(median(traces[at].ms for at in range(0, n, max(1, n // MOST_TIMES))))


def most_uncertain_place(traces: Sequence[TokenTrace]) -> int | None:
    """The place of the token with the largest entropy, the first of equals; None where that of none
    is known. Of a growing trace no token is made for it: that takes a tenth of a second at 16,384.
    """
    if not len(traces):
        return None
    if isinstance(traces, TraceTable):
        entropies = list(traces.column("entropy"))
    else:
        entropies = [math.nan if t.entropy is None else t.entropy for t in traces]
    known = (at for at, entropy in enumerate(entropies) if not math.isnan(entropy))
    return max(known, key=lambda at: (entropies[at], -at), default=None)
