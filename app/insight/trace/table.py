"""The trace of a reply while it grows: a table of bytes that reads as a list of tokens.

As objects the traces of 16,384 tokens with 64 alternatives each take 45 MB, and the allocator keeps
much of that when the reply has ended. Here a token takes 0.9 kB: one row of fixed size; what
differs in length (its bytes, its alternatives, what the stages did) stands one behind the other in
buffers, and the row says where it ends:

    rows      token 0: … pieces end at 2   token 1: … pieces end at 5
    pieces    "He"                         "llo"

So any token is read without the others, and the last ones can be taken back. What comes back is
what was put in; numbers that no table can hold (beyond 64 bits) are bounded.

No numpy: a window that only chats does not import it.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import index as as_index
from typing import Any, Final, NamedTuple, overload

from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace

_CODES: Final = "qqqddddddBIIIII"
_ROW: Final = struct.Struct(f"<{_CODES}")
_EFFECT: Final = struct.Struct("<qdd")
HAS_UNIFORM, HAS_REMOVED_BY, IS_DRAFTED, IS_CHOSEN, IS_INSERTED = 1, 2, 4, 8, 16
_BOUND: Final = 2**63 - 1


class Row(NamedTuple):
    """What is known of a token by itself. `..._end`: where its share of a buffer ends, in bytes
    (alternatives: in alternatives). `stages`: number of its list of stages in `stage_lists`.
    `rank` 0, and NaN in `entropy`, `log_total`, `draft_logprob`: it is not known."""

    position: int
    token_id: int
    rank: int
    logprob: float
    entropy: float
    ms: float
    uniform: float
    log_total: float
    draft_logprob: float
    flags: int
    stages: int
    piece_end: int
    alternatives_end: int
    removed_end: int
    effects_end: int


_NOTHING: Final = Row(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0)
_PLACES: Final = {
    name: (code, struct.calcsize(f"<{_CODES[:i]}"))
    for i, (name, code) in enumerate(zip(Row._fields, _CODES, strict=True))
}
"""Of each field: its code and where in the row it begins."""


class TraceTable(Sequence[TokenTrace]):
    """The traces of one reply in order. One thread at a time.

    `alternative_ids` (i4) and `alternative_logprobs` (f4) are those of all tokens. `rejected`: what
    was proposed and not drawn, of the few tokens that have it; `alternative_pieces`: likewise.
    `n_cuts`: how often tokens were taken back; others may stand in their places by now.
    """

    def __init__(self, traces: Iterable[TokenTrace] = ()) -> None:
        self._rows = bytearray()
        self._last = _NOTHING
        self._list_numbers: dict[tuple[str, ...], int] = {}
        self._effects = bytearray()
        self.stage_lists: list[tuple[str, ...]] = []
        self.pieces = bytearray()
        self.alternative_ids = bytearray()
        self.alternative_logprobs = bytearray()
        self.removed_by = bytearray()
        self.rejected: dict[int, Rejected] = {}
        self.alternative_pieces: dict[int, list[bytes]] = {}
        self.n_cuts = 0
        for trace in traces:
            self.append(trace)

    # --- growing --------------------------------------------------------------------------------

    def append(self, token: TokenTrace) -> None:
        """Put a token at the end. Alternatives without a log-probability are left out."""
        ids, logprobs = token.alternative_ids.data, token.alternative_logprobs.data
        count = min(len(ids), len(logprobs)) // 4
        removed = b"" if token.removed_by is None else token.removed_by.data[:count]
        effects = b"".join([_effect(effect) for effect in token.stages])
        row = self._row_of(token, count, len(removed), len(effects))
        if token.rejected is not None:
            self.rejected[len(self)] = token.rejected
        if token.alternative_pieces:
            self.alternative_pieces[len(self)] = token.alternative_pieces[:count]
        self._rows += _ROW.pack(*row)
        self._last = row
        self.pieces += token.piece
        self.alternative_ids += ids[: 4 * count]
        self.alternative_logprobs += logprobs[: 4 * count]
        self.removed_by += removed
        self._effects += effects

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens; all, where there are not so many."""
        if length >= len(self):
            return
        self.n_cuts += 1
        self.rejected = {i: each for i, each in self.rejected.items() if i < length}
        pieces = self.alternative_pieces.items()
        self.alternative_pieces = {i: each for i, each in pieces if i < length}
        last = self._last = self.row(length - 1)
        del self._rows[length * _ROW.size :]
        del self.pieces[last.piece_end :]
        del self.alternative_ids[4 * last.alternatives_end :]
        del self.alternative_logprobs[4 * last.alternatives_end :]
        del self.removed_by[last.removed_end :]
        del self._effects[last.effects_end :]

    def head(self, length: int) -> TraceTable:
        """A table of its own of the first `length` tokens: bytes are copied, no token is made."""
        found = TraceTable()
        for name in (
            *("_rows", "_effects", "pieces"),
            *("alternative_ids", "alternative_logprobs", "removed_by"),
        ):
            setattr(found, name, bytearray(getattr(self, name)))
        found.stage_lists = list(self.stage_lists)
        found.rejected = dict(self.rejected)
        found.alternative_pieces = dict(self.alternative_pieces)
        found._list_numbers = dict(self._list_numbers)
        found._last = self._last
        found.truncate(length)
        return found

    @property
    def size_bytes(self) -> int:
        """Of what its tokens hold."""
        return (
            len(self._rows)
            + len(self._effects)
            + len(self.pieces)
            + len(self.alternative_ids)
            + len(self.alternative_logprobs)
            + len(self.removed_by)
        )

    def _row_of(self, token: TokenTrace, count: int, n_removed: int, n_effects: int) -> Row:
        last, uniform = self._last, token.uniform
        flags = HAS_UNIFORM * (uniform is not None)
        flags |= HAS_REMOVED_BY * (token.removed_by is not None) | IS_INSERTED * token.inserted
        return Row(
            _bounded(token.index),
            _bounded(token.token_id),
            _bounded(token.rank or 0),
            token.logprob,
            math.nan if token.entropy is None else token.entropy,
            token.ms,
            uniform or 0.0,
            math.nan if token.log_total is None else token.log_total,
            math.nan if token.draft_logprob is None else token.draft_logprob,
            flags | IS_DRAFTED * token.drafted | IS_CHOSEN * token.chosen,
            self._list_number(tuple([effect.stage for effect in token.stages])),
            last.piece_end + len(token.piece),
            last.alternatives_end + count,
            last.removed_end + n_removed,
            last.effects_end + n_effects,
        )

    def _list_number(self, names: tuple[str, ...]) -> int:
        number = self._list_numbers.setdefault(names, len(self.stage_lists))
        if number == len(self.stage_lists):
            self.stage_lists.append(names)
        return number

    # --- reading --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    @overload
    def __getitem__(self, index: int) -> TokenTrace: ...

    @overload
    def __getitem__(self, index: slice) -> list[TokenTrace]: ...

    def __getitem__(self, index: int | slice) -> TokenTrace | list[TokenTrace]:
        if isinstance(index, slice):
            return [self._token(i) for i in range(*index.indices(len(self)))]
        i = as_index(index)
        i += len(self) if i < 0 else 0
        if not 0 <= i < len(self):
            raise IndexError(f"there is no token {index} among {len(self)}")
        return self._token(i)

    def column(self, name: str, start: int = 0) -> array[Any]:
        """One field of all rows from `start` on, without making a single row: its first bytes
        stand a row apart, so do its second ones, and so on."""
        code, offset = _PLACES[name]
        found = array(code)
        size, first = found.itemsize, offset + start * _ROW.size
        column = bytearray(max(len(self) - start, 0) * size)
        for place in range(size):
            column[place::size] = self._rows[first + place :: _ROW.size]
        found.frombytes(column)
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def flags(self, flag: int) -> list[bool]:
        return [bool(flags & flag) for flags in self.column("flags")]

    def row(self, i: int) -> Row:
        """The row of a token; before the first one all buffers end at 0."""
        return _NOTHING if i < 0 else Row._make(_ROW.unpack_from(self._rows, i * _ROW.size))

    def effects(self) -> Iterator[tuple[int, float, float]]:
        """What all stages of all tokens did: left, probability, uniform (NaN: none drawn)."""
        return _EFFECT.iter_unpack(self._effects)

    def _token(self, i: int) -> TokenTrace:
        before, row = self.row(i - 1), self.row(i)
        first, end = 4 * before.alternatives_end, 4 * row.alternatives_end
        count = row.alternatives_end - before.alternatives_end
        removed = bytes(self.removed_by[before.removed_end : row.removed_end])
        return TokenTrace(
            index=row.position,
            token_id=row.token_id,
            piece=bytes(self.pieces[before.piece_end : row.piece_end]),
            logprob=row.logprob,
            rank=row.rank or None,
            entropy=None if math.isnan(row.entropy) else row.entropy,
            alternative_ids=Array("i4", [count], bytes(self.alternative_ids[first:end])),
            alternative_logprobs=Array("f4", [count], bytes(self.alternative_logprobs[first:end])),
            stages=self._stages(row, before.effects_end),
            ms=row.ms,
            removed_by=Array("u1", [len(removed)], removed) if row.flags & HAS_REMOVED_BY else None,
            uniform=row.uniform if row.flags & HAS_UNIFORM else None,
            drafted=bool(row.flags & IS_DRAFTED),
            chosen=bool(row.flags & IS_CHOSEN),
            inserted=bool(row.flags & IS_INSERTED),
            log_total=None if math.isnan(row.log_total) else row.log_total,
            draft_logprob=None if math.isnan(row.draft_logprob) else row.draft_logprob,
            rejected=self.rejected.get(i),
            alternative_pieces=self.alternative_pieces.get(i, []),
        )

    def _stages(self, row: Row, first: int) -> list[StageEffect]:
        effects = _EFFECT.iter_unpack(self._effects[first : row.effects_end])
        return [
            StageEffect(name, left, probability, None if math.isnan(uniform) else uniform)
            for name, (left, probability, uniform) in zip(
                self.stage_lists[row.stages], effects, strict=True
            )
        ]


def cuts_of(traces: Sequence[TokenTrace]) -> int:
    """How often tokens of a trace were taken back; only one that grows knows."""
    return traces.n_cuts if isinstance(traces, TraceTable) else 0


def _effect(effect: StageEffect) -> bytes:
    uniform = math.nan if effect.uniform is None else effect.uniform
    return _EFFECT.pack(_bounded(effect.left), effect.probability, uniform)


def _bounded(number: int) -> int:
    """What comes from the engine's process is untrusted, and may be as large as msgpack holds."""
    return number if -_BOUND <= number <= _BOUND else _BOUND
