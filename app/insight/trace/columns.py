"""A reply's trace as one compact blob, and back.

A trace is a table: one row per token, with 64 alternatives each. Stored row by row it would be
about 2 kB a token; here it is a third of one. Three things do it:

1. *Columns.* Numbers of one kind stand together, because a compressor finds more in a thousand
   ranks than in a thousand rows.
2. *Differences.* Alternatives are sorted, so each log-probability is told as its distance from
   the one before, in steps of 1/1024 nat; the distances are small numbers.
3. *Byte planes.* Small 32-bit numbers have bytes that are nearly always 0. All first bytes, then
   all second bytes and so on: the zeros become one long run.

       log-probabilities   −0.50   −1.25   −1.50
       in steps            −512    −1280   −1536
       differences         −512    −768    −256

What comes back: IDs, bytes, ranks, counts of candidates, who removed whom, the uniforms of the
draws and log-probabilities of −inf exactly; log-probabilities of alternatives within
`LOGPROB_TOLERANCE`; all other numbers as 32-bit floats (times within half a microsecond).

A blob out of a database is untrusted: it is bounded before it is decompressed, every length is
checked, and anything off is a `TraceUnreadable`, never a crash.

numpy is imported where a trace is read back, and not to pack one: whoever only chats does without
its 15 MB.
"""

from __future__ import annotations

import math
import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import sub
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import Array, ProtocolError
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.insight.trace.table import (
    HAS_REMOVED_BY,
    HAS_UNIFORM,
    IS_CHOSEN,
    IS_DRAFTED,
    IS_INSERTED,
    TraceTable,
)

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int32]]

Number = TypeVar("Number", int, float)

MAGIC: Final = b"CTR1"
MAX_BLOB_BYTES: Final = 64 * 1024 * 1024
MAX_PLAIN_BYTES: Final = 256 * 1024 * 1024

STEPS_PER_NAT: Final = 1024
LOGPROB_TOLERANCE: Final = 0.5 / STEPS_PER_NAT
"""Nat. A probability is told to 0.05 % of itself."""

_LOWEST: Final = -1_000_000
"""Steps that stand for −inf: a log-probability of −977, which float32 scores never reach."""

_LEVEL: Final = 6


class TraceUnreadable(Exception):  # noqa: N818 - it is an outcome with a sentence for the user
    """A stored trace that is damaged, of a newer version, or not a trace."""


class _Rejected(msgspec.Struct, array_like=True, frozen=True):
    """What was proposed for a row and not drawn. Few rows have it, so it stands as it is."""

    row: int
    ids: list[int]
    pieces: list[bytes]
    logprob: float
    draft_logprobs: list[float]


class _Pieces(msgspec.Struct, array_like=True, frozen=True):
    """The alternatives of a row whose vocabulary cannot be asked for their bytes."""

    row: int
    pieces: list[bytes]


class _Columns(msgspec.Struct, array_like=True, frozen=True):
    """All columns; n tokens, m alternatives in all, s effects of stages in all.

    Integers are byte planes of int32, floats byte planes of float32 (uniforms: float64).
    """

    n: int
    index: bytes  # differences
    token_id: bytes
    piece_sizes: bytes
    pieces: bytes
    logprob: bytes
    rank: bytes  # 0: unknown
    entropy: bytes  # NaN: unknown
    microseconds: bytes
    uniform: bytes  # NaN: none was drawn
    drafted: bytes  # bits
    alternative_counts: bytes
    alternative_ids: bytes
    alternative_steps: bytes  # differences within a token
    has_removed_by: bytes  # bits
    removed_by: bytes  # u1, for the tokens that have it
    stage_lists: list[list[str]]
    stage_list: bytes  # which of them a token has
    stage_left: bytes
    stage_probability: bytes
    stage_uniform: bytes = b""  # NaN: none was drawn; empty: no stage drew any
    chosen: bytes = b""  # bits; empty: all were drawn
    log_total: bytes = b""  # NaN: unknown; empty: of all
    draft_logprob: bytes = b""  # likewise
    rejected: list[_Rejected] = []
    inserted: bytes = b""  # bits; empty: none was
    alternative_pieces: list[_Pieces] = []


def pack(traces: Sequence[TokenTrace]) -> bytes:
    """The traces of one reply as a blob.

    >>> unpack(pack([]))
    []
    """
    table = traces if isinstance(traces, TraceTable) else TraceTable(traces)
    return MAGIC + zlib.compress(msgspec.msgpack.encode(_columns(table)), _LEVEL)


def _columns(table: TraceTable) -> _Columns:
    counts = _shares(table.column("alternatives_end"))
    drawn = zip(table.column("uniform"), table.flags(HAS_UNIFORM), strict=True)
    return _Columns(
        n=len(table),
        index=_planes(_shares(table.column("position"))),
        token_id=_planes(table.column("token_id")),
        piece_sizes=_planes(_shares(table.column("piece_end"))),
        pieces=bytes(table.pieces),
        logprob=_planes(table.column("logprob"), "f"),
        rank=_planes(table.column("rank")),
        entropy=_planes(table.column("entropy"), "f"),
        microseconds=_planes(map(_microseconds, table.column("ms"))),
        uniform=_planes((uniform if has_one else math.nan for uniform, has_one in drawn), "d"),
        drafted=_bits(table.flags(IS_DRAFTED)),
        alternative_counts=_planes(counts),
        alternative_ids=_byte_planes(table.alternative_ids, 4),
        alternative_steps=_planes(_steps(table.alternative_logprobs, counts)),
        has_removed_by=_bits(table.flags(HAS_REMOVED_BY)),
        removed_by=_removed_by(table, counts),
        stage_lists=[list(names) for names in table.stage_lists],
        stage_list=_planes(table.column("stages")),
        stage_left=_planes(effect[0] for effect in table.effects()),
        stage_probability=_planes((effect[1] for effect in table.effects()), "f"),
        stage_uniform=_known(array("f", (effect[2] for effect in table.effects()))),
        chosen=_bits(chosen) if any(chosen := table.flags(IS_CHOSEN)) else b"",
        log_total=_known(table.column("log_total")),
        draft_logprob=_known(table.column("draft_logprob")),
        rejected=[
            _Rejected(row, each.ids, each.pieces, each.logprob, each.draft_logprobs)
            for row, each in table.rejected.items()
        ],
        inserted=_bits(inserted) if any(inserted := table.flags(IS_INSERTED)) else b"",
        alternative_pieces=[
            _Pieces(row, pieces) for row, pieces in table.alternative_pieces.items()
        ],
    )


def _known(numbers: array[float]) -> bytes:
    """As 32-bit floats; nothing where none is known (most chains have no stage that draws)."""
    return b"" if all(map(math.isnan, numbers)) else _planes(numbers, "f")


def _shares(ends: array[int]) -> array[int]:
    """Each less the one before it."""
    return array("q", map(sub, ends, chain([0], ends)))


def _removed_by(table: TraceTable, counts: array[int]) -> bytes:
    """Of a token without as many marks as alternatives the missing ones count as "was there"."""
    ends, shares, first = table.column("removed_end"), [], 0
    for has_marks, end, count in zip(table.flags(HAS_REMOVED_BY), ends, counts, strict=True):
        if has_marks:
            shares.append(table.removed_by[first:end].ljust(count, b"\xff"))
        first = end
    return b"".join(shares)


def _steps(logprobs: bytearray, counts: array[int]) -> array[int]:
    """The log-probabilities of all tokens in steps, each less the one before it."""
    nats = _little_endian(array("f", bytes(logprobs)))
    found, first = array("i"), 0
    for count in counts:
        share = nats[first : first + count]
        try:
            steps = [round(nat * STEPS_PER_NAT) for nat in share]
        except (ValueError, OverflowError):
            steps = [_step(nat) for nat in share]
        if steps and (min(steps) < _LOWEST or max(steps) > -_LOWEST):
            steps = [_step(nat) for nat in share]
        found.extend(map(sub, steps, [0, *steps]))
        first += count
    return found


def _step(nat: float) -> int:
    """Of a number that may be infinite, or none."""
    return _LOWEST if math.isnan(nat) else round(max(_LOWEST, min(nat * STEPS_PER_NAT, -_LOWEST)))


def _microseconds(ms: float) -> int:
    return min(max(round(ms * 1000), 0), 2**31 - 1) if math.isfinite(ms) else 0


def _planes(values: Iterable[float], code: str = "i") -> bytes:
    """The first byte of every number, then the second of every number, …"""
    numbers = array(code, values)
    return _byte_planes(_little_endian(numbers).tobytes(), numbers.itemsize)


def _byte_planes(numbers: bytes | bytearray, size: int) -> bytes:
    return b"".join([numbers[place::size] for place in range(size)])


def _little_endian(numbers: array[Number]) -> array[Number]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bits(flags: list[bool]) -> bytes:
    """Eight to a byte, the first one highest."""
    size = (len(flags) + 7) // 8
    digits = "".join(["1" if flag else "0" for flag in flags])
    return int(digits.ljust(8 * size, "0") or "0", 2).to_bytes(size, "big")


# --- back ---------------------------------------------------------------------------------------


def unpack(blob: bytes) -> list[TokenTrace]:
    """The traces in a blob. Raises TraceUnreadable."""
    try:
        return _traces(_decode(blob))
    except TraceUnreadable:
        raise
    except (ValueError, OverflowError, IndexError, msgspec.MsgspecError, zlib.error) as error:
        raise TraceUnreadable(f"The trace of this reply is damaged ({error}).") from error


def _decode(blob: bytes) -> _Columns:
    if not blob.startswith(MAGIC):
        newer = blob[:3] == MAGIC[:3]
        what = "was written by a newer version of Cutaway" if newer else "isn't a trace"
        raise TraceUnreadable(f"The stored trace of this reply {what}.")
    if len(blob) > MAX_BLOB_BYTES:
        raise TraceUnreadable("The trace of this reply is damaged: it is implausibly large.")
    inflater = zlib.decompressobj()
    plain = inflater.decompress(blob[len(MAGIC) :], MAX_PLAIN_BYTES)
    if not inflater.eof:
        raise TraceUnreadable("The trace of this reply is damaged: its end is missing.")
    return msgspec.msgpack.decode(plain, type=_Columns)


def _traces(columns: _Columns) -> list[TokenTrace]:
    import numpy as np

    n = columns.n
    if not 0 <= n <= MAX_PLAIN_BYTES:
        raise TraceUnreadable("The trace of this reply is damaged: its length is impossible.")
    counts = _counts(columns.alternative_counts, n)
    alternatives = _alternatives_of(columns, counts)
    stages = _stages_of(columns)
    has_removed = _flags(columns.has_removed_by, n)
    sizes = _counts(columns.piece_sizes, n)
    ends = np.cumsum(sizes)
    if (int(ends[-1]) if n else 0) != len(columns.pieces):
        raise TraceUnreadable("The trace of this reply is damaged: its pieces don't match.")
    removed_ends = np.cumsum(np.where(has_removed, counts, 0))
    if (int(removed_ends[-1]) if n else 0) != len(columns.removed_by):
        raise TraceUnreadable("The trace of this reply is damaged: its stages don't match.")
    index = np.cumsum(_numbers(columns.index, n).astype(np.int64))
    rows = zip(
        index.tolist(),
        _numbers(columns.token_id, n).tolist(),
        sizes.tolist(),
        ends.tolist(),
        _finite(_numbers(columns.logprob, n, "<f4"), or_impossible=True),
        _numbers(columns.rank, n).tolist(),
        _known_or_none(_numbers(columns.entropy, n, "<f4")),
        _numbers(columns.microseconds, n).tolist(),
        _numbers(columns.uniform, n, "<f8").tolist(),
        _flags(columns.drafted, n).tolist(),
        _flags(columns.chosen or bytes((n + 7) // 8), n).tolist(),
        _or_none(columns.log_total, n),
        _or_none(columns.draft_logprob, n),
        _flags(columns.inserted or bytes((n + 7) // 8), n).tolist(),
        counts.tolist(),
        has_removed.tolist(),
        removed_ends.tolist(),
        strict=True,
    )
    rejected = _rejected_of(columns)
    pieces = _pieces_of(columns, counts)
    return [
        TokenTrace(
            index=number,
            token_id=token_id,
            piece=columns.pieces[end - size : end],
            logprob=logprob,
            rank=rank or None,
            entropy=entropy,
            alternative_ids=ids,
            alternative_logprobs=logprobs,
            stages=effects,
            ms=microseconds / 1000,
            removed_by=Array("u1", [count], columns.removed_by[removed_end - count : removed_end])
            if is_recorded
            else None,
            uniform=None if math.isnan(uniform) else uniform,
            drafted=drafted,
            chosen=chosen,
            log_total=log_total,
            draft_logprob=draft_logprob,
            rejected=rejected.get(row),
            inserted=inserted,
            alternative_pieces=pieces.get(row, []),
        )
        for row, ((
            number, token_id, size, end, logprob, rank, entropy, microseconds, uniform, drafted,
            chosen, log_total, draft_logprob, inserted, count, is_recorded, removed_end,
        ), (ids, logprobs), effects) in enumerate(zip(rows, alternatives, stages, strict=True))
    ]  # fmt: skip


def _rejected_of(columns: _Columns) -> dict[int, Rejected]:
    found = {}
    for one in columns.rejected:
        rejected = Rejected(one.ids, one.pieces, one.logprob, one.draft_logprobs)
        try:
            rejected.check()
        except ProtocolError as error:
            raise TraceUnreadable(f"The trace of this reply is damaged: {error}.") from error
        found[one.row] = rejected
    return found


def _pieces_of(columns: _Columns, counts: Any) -> dict[int, list[bytes]]:
    found = {each.row: each.pieces for each in columns.alternative_pieces}
    for row, pieces in found.items():
        if not (0 <= row < columns.n and len(pieces) == counts[row]):
            raise TraceUnreadable("The trace of this reply is damaged: its pieces don't match.")
    return found


def _alternatives_of(columns: _Columns, counts: Any) -> list[tuple[Array, Array]]:
    import numpy as np

    total = int(counts.sum())
    ids = _numbers(columns.alternative_ids, total).astype("<i4").tobytes()
    steps = _sums(_numbers(columns.alternative_steps, total), counts)
    logprobs = np.where(steps <= _LOWEST, -np.inf, steps / STEPS_PER_NAT).astype("<f4").tobytes()
    ends = np.cumsum(4 * counts).tolist()
    return [
        (
            Array("i4", [count], ids[end - 4 * count : end]),
            Array("f4", [count], logprobs[end - 4 * count : end]),
        )
        for count, end in zip(counts.tolist(), ends, strict=True)
    ]


def _sums(differences: Ints, counts: Any) -> Any:
    """What was told as differences, anew for every token."""
    import numpy as np

    sums = np.cumsum(differences.astype(np.int64))
    starts = np.cumsum(counts) - counts
    before = np.where(starts > 0, sums[np.maximum(starts - 1, 0)], 0) if len(sums) else starts
    return sums - np.repeat(before, counts)


def _stages_of(columns: _Columns) -> list[list[StageEffect]]:
    lists = columns.stage_lists
    chosen = _numbers(columns.stage_list, columns.n).tolist()
    if any(not 0 <= number < len(lists) for number in chosen):
        raise TraceUnreadable("The trace of this reply is damaged: it has unknown stages.")
    total = sum(len(lists[number]) for number in chosen)
    left = _numbers(columns.stage_left, total).tolist()
    probabilities = _finite(_numbers(columns.stage_probability, total, "<f4"))
    drawn = _or_none(columns.stage_uniform, total)
    rows = zip(left, probabilities, drawn, strict=True)
    return [
        [StageEffect(name, *row) for name, row in zip(lists[number], rows, strict=False)]
        for number in chosen
    ]


def _numbers(planes: bytes, n: int, dtype: str = "<i4") -> Any:
    """What `_planes` was made of. Raises TraceUnreadable if there are not n numbers."""
    import numpy as np

    size = np.dtype(dtype).itemsize
    if len(planes) != n * size:
        raise TraceUnreadable("The trace of this reply is damaged: a column has the wrong length.")
    bytes_of = np.frombuffer(planes, np.uint8).reshape(size, n).T
    return np.ascontiguousarray(bytes_of).view(dtype).reshape(n)


def _or_none(planes: bytes, n: int) -> list[float | None]:
    """What `_known` was made of: None for what is not known."""
    if not planes:
        return [None] * n
    return _known_or_none(_numbers(planes, n, "<f4"))


def _known_or_none(numbers: Any) -> list[float | None]:
    _finite(numbers[numbers == numbers])
    return [None if math.isnan(number) else number for number in numbers.tolist()]


def _counts(planes: bytes, n: int) -> Any:
    import numpy as np

    counts = _numbers(planes, n).astype(np.int64)
    if n and (int(counts.min()) < 0 or int(counts.sum()) > MAX_PLAIN_BYTES):
        raise TraceUnreadable("The trace of this reply is damaged: a count is impossible.")
    return counts


def _flags(bits: bytes, n: int) -> Any:
    import numpy as np

    if len(bits) != (n + 7) // 8:
        raise TraceUnreadable("The trace of this reply is damaged: a column has the wrong length.")
    return np.unpackbits(np.frombuffer(bits, np.uint8))[:n].astype(bool)


def _finite(values: Any, *, or_impossible: bool = False) -> list[float]:
    """Floats that can be shown; −inf only where it says that a token was impossible."""
    import numpy as np

    fits = np.isfinite(values) | (values == -np.inf) if or_impossible else np.isfinite(values)
    if not fits.all():
        raise TraceUnreadable("The trace of this reply is damaged: a number is invalid.")
    listed: list[float] = values.tolist()
    return listed
