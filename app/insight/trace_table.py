"""The trace of a reply while it grows: a table of bytes that reads as a list of tokens.

As objects the traces of 16,384 tokens with 64 alternatives each take 45 MB, and the allocator
keeps much of that when the reply has ended. Here a token is one row of fixed size; what differs
in length (its bytes, its alternatives, what the stages did) stands one behind the other in
buffers, and the row says where it ends:

    rows      token 0: … pieces end at 2   token 1: … pieces end at 5
    pieces    "He"                         "llo"

So any token is read without the others, and the last ones can be taken back. What comes back is
what was put in; numbers that no table can hold (beyond 64 bits) are bounded.

No numpy: a window that only chats does not import it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from operator import index as as_index
from typing import Final, NamedTuple, overload

from app.engine.protocol import Array, StageEffect, TokenTrace

_ROW: Final = struct.Struct("<qqqddddBIIIII")
_EFFECT: Final = struct.Struct("<qd")
_HAS_UNIFORM, _HAS_REMOVED, _IS_DRAFTED = 1, 2, 4
_BOUND: Final = 2**63 - 1


class Row(NamedTuple):
    """What is known of a token by itself. `..._end`: where its share of a buffer ends, in bytes
    (alternatives: in alternatives). `stages`: number of its list of stages in `stage_lists`."""

    position: int
    token_id: int
    rank: int
    logprob: float
    entropy: float
    ms: float
    uniform: float
    flags: int
    stages: int
    piece_end: int
    alternatives_end: int
    removed_end: int
    effects_end: int

    @property
    def has_uniform(self) -> bool:
        return bool(self.flags & _HAS_UNIFORM)

    @property
    def has_removed_by(self) -> bool:
        return bool(self.flags & _HAS_REMOVED)

    @property
    def is_drafted(self) -> bool:
        return bool(self.flags & _IS_DRAFTED)


_NOTHING: Final = Row(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0)


class TraceTable(Sequence[TokenTrace]):
    """The traces of one reply in order. One thread at a time.

    `alternative_ids` (i4) and `alternative_logprobs` (f4) are those of all tokens.
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
        last = self._last = self.row(length - 1)
        del self._rows[length * _ROW.size :]
        del self.pieces[last.piece_end :]
        del self.alternative_ids[4 * last.alternatives_end :]
        del self.alternative_logprobs[4 * last.alternatives_end :]
        del self.removed_by[last.removed_end :]
        del self._effects[last.effects_end :]

    def _row_of(self, token: TokenTrace, count: int, n_removed: int, n_effects: int) -> Row:
        last, uniform = self._last, token.uniform
        flags = _HAS_UNIFORM * (uniform is not None) | _HAS_REMOVED * (token.removed_by is not None)
        return Row(
            _bounded(token.index),
            _bounded(token.token_id),
            _bounded(token.rank),
            token.logprob,
            token.entropy,
            token.ms,
            uniform or 0.0,
            flags | _IS_DRAFTED * token.drafted,
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

    def rows(self) -> Iterator[Row]:
        return map(Row._make, _ROW.iter_unpack(self._rows))

    def row(self, i: int) -> Row:
        """The row of a token; before the first one all buffers end at 0."""
        return _NOTHING if i < 0 else Row._make(_ROW.unpack_from(self._rows, i * _ROW.size))

    def effects(self) -> Iterator[tuple[int, float]]:
        """What all stages of all tokens did: left, probability."""
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
            rank=row.rank,
            entropy=row.entropy,
            alternative_ids=Array("i4", [count], bytes(self.alternative_ids[first:end])),
            alternative_logprobs=Array("f4", [count], bytes(self.alternative_logprobs[first:end])),
            stages=self._stages(row, before.effects_end),
            ms=row.ms,
            removed_by=Array("u1", [len(removed)], removed) if row.has_removed_by else None,
            uniform=row.uniform if row.has_uniform else None,
            drafted=row.is_drafted,
        )

    def _stages(self, row: Row, first: int) -> list[StageEffect]:
        effects = _EFFECT.iter_unpack(self._effects[first : row.effects_end])
        return [
            StageEffect(name, left, probability)
            for name, (left, probability) in zip(self.stage_lists[row.stages], effects, strict=True)
        ]


def _effect(effect: StageEffect) -> bytes:
    return _EFFECT.pack(_bounded(effect.left), effect.probability)


def _bounded(number: int) -> int:
    """What comes from the engine's process is untrusted, and may be as large as msgpack holds."""
    return number if -_BOUND <= number <= _BOUND else _BOUND
