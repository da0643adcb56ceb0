"""The trace of a growing reply: what is put in comes out, what is taken back is gone, and it is
small."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tracemalloc
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.insight.trace.columns import pack, unpack
from app.insight.trace.table import IS_DRAFTED, TraceTable

ROOT = Path(__file__).resolve().parents[4]


def made_up(rng: random.Random, index: int, k: int, *, stages: bool = True) -> TokenTrace:
    names = rng.choice([["top-k", "temp", "dist"], ["greedy"], ["penalties", "top-p"]])
    return TokenTrace(
        index=index,
        token_id=rng.randrange(262_144),
        piece=rng.randbytes(rng.randrange(6)),
        logprob=-rng.expovariate(0.3),
        rank=rng.choice([None, rng.randrange(1, 50_000)]),
        entropy=rng.choice([None, rng.uniform(0, 18)]),
        alternative_pieces=rng.choice([[], [rng.randbytes(2) for _ in range(k)]]),
        alternative_ids=Array.of("i4", [rng.randrange(262_144) for _ in range(k)]),
        alternative_logprobs=Array.of("f4", [-rng.expovariate(0.2) for _ in range(k)]),
        stages=[StageEffect(name, rng.randrange(99), rng.random()) for name in names]
        if stages
        else [],
        ms=rng.uniform(1, 60),
        removed_by=Array.of("u1", [rng.choice([1, 255]) for _ in range(k)]) if stages else None,
        uniform=rng.random() if rng.random() < 0.5 else None,
        drafted=rng.random() < 0.1,
        chosen=rng.random() < 0.1,
        draft_logprob=-rng.expovariate(1) if rng.random() < 0.3 else None,
        rejected=Rejected([3], [b"x"], -1.5) if rng.random() < 0.3 else None,
    )


def _made_up(seed: int, n: int, k: int = 5) -> list[TokenTrace]:
    rng = random.Random(seed)
    return [made_up(rng, i, rng.randrange(k + 1), stages=rng.random() < 0.7) for i in range(n)]


@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(0, 70))
@settings(max_examples=examples(60))
def test_every_token_comes_back_exactly(seed: int, n: int, k: int) -> None:
    traces = _made_up(seed, n, k)
    table = TraceTable(traces)
    assert len(table) == n
    assert list(table) == traces
    assert [table[i - n] for i in range(n)] == traces
    assert table[2:-1] == traces[2:-1]
    with pytest.raises(IndexError):
        table[n]
    with pytest.raises(IndexError):
        table[-n - 1]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)), max_size=8), st.integers(0, 99))
@settings(max_examples=examples(60))
def test_what_is_taken_back_leaves_no_trace(acts: list[tuple[int, int]], seed: int) -> None:
    """Against a list: so many tokens come, then only so many are kept, and on."""
    rng = random.Random(seed)
    table, expected = TraceTable(), list[TokenTrace]()
    for coming, kept in acts:
        for token in (made_up(rng, len(expected), 3) for _ in range(coming)):
            table.append(token)
            expected.append(token)
        table.truncate(kept)
        del expected[kept:]
    assert list(table) == expected
    assert unpack(pack(table)) == unpack(pack(expected))


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 14))
@settings(max_examples=examples(60))
def test_a_head_is_a_table_of_its_own(seed: int, n: int, length: int) -> None:
    traces = _made_up(seed, n)
    table = TraceTable(traces)
    head = table.head(length)
    assert list(head) == traces[:length]
    more = _made_up(seed + 1, 2)
    for token in more:
        head.append(token)
    assert list(head) == [*traces[:length], *more]
    assert list(table) == traces
    assert unpack(pack(head)) == unpack(pack([*traces[:length], *more]))


def test_a_column_is_that_field_of_every_token() -> None:
    replace = msgspec.structs.replace
    traces = [replace(each, entropy=each.entropy or 0.5) for each in _made_up(3, 50)]
    table = TraceTable(traces)
    assert table.column("token_id").tolist() == [trace.token_id for trace in traces]
    assert table.column("entropy").tolist() == [trace.entropy for trace in traces]
    ends = list(accumulate(len(trace.piece) for trace in traces))
    assert table.column("piece_end").tolist() == ends
    assert table.flags(IS_DRAFTED) == [trace.drafted for trace in traces]
    assert not TraceTable().column("rank")
    for start in (0, 1, 49, 50, 51):
        wanted = [trace.entropy for trace in traces[start:]]
        assert table.column("entropy", start).tolist() == wanted


def test_a_number_beyond_all_bounds_ends_nothing() -> None:
    rng = random.Random(1)
    wild = msgspec.structs.replace(
        made_up(rng, 0, 2), token_id=2**64 - 1, rank=-(2**63), logprob=-math.inf, ms=math.inf
    )
    table = TraceTable([wild, made_up(rng, 1, 2)])
    assert table[0].token_id == 2**63 - 1
    assert (table[0].logprob, table[0].ms) == (-math.inf, math.inf)
    assert table[1].index == 1


def test_alternatives_without_a_log_probability_are_left_out() -> None:
    odd = msgspec.structs.replace(
        made_up(random.Random(1), 0, 0),
        alternative_ids=Array.of("i4", [7, 8, 9]),
        alternative_logprobs=Array.of("f4", [-0.5, -1.0]),
        removed_by=Array.of("u1", [1]),
        stages=[],
    )
    (back,) = TraceTable([odd])
    assert back.alternative_ids == Array.of("i4", [7, 8])
    assert back.alternative_logprobs == odd.alternative_logprobs
    assert back.removed_by == odd.removed_by
    (stored,) = unpack(pack([odd]))
    assert stored.alternative_ids == back.alternative_ids
    assert stored.removed_by == Array.of("u1", [1, 255])


def test_a_long_reply_takes_less_than_a_kilobyte_a_token() -> None:
    rng = random.Random(2)
    of_a_vocabulary = {"alternative_pieces": []}
    traces = [msgspec.structs.replace(made_up(rng, i, 64), **of_a_vocabulary) for i in range(1000)]
    tracemalloc.start()
    try:
        table = TraceTable(traces)
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == 1000
    assert kept / 1000 < 1000


def test_packing_needs_no_numpy() -> None:
    code = (
        "import sys; from app.insight.trace.columns import pack;"
        "from app.engine.protocol.frames import Array;"
        "from app.engine.protocol.messages import StageEffect, TokenTrace;"
        "a = Array('i4', [2], bytes(8)); b = Array('f4', [2], bytes(8));"
        "t = TokenTrace(0, 1, b'a', -1.0, 1, 2.0, a, b, [StageEffect('dist', 2, 0.5)], 3.0);"
        "assert pack([t] * 3); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
