"""Traces as blobs: what comes back, how small it is, and that damage is refused in words."""

from __future__ import annotations

import math
import queue
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import Ending, EngineEvent
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import Array
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Generate, StageEffect, TokenArrived, TokenTrace
from app.engine.protocol.pieces import unpack as numbers
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, TextPrompt
from app.engine.protocol.stages import Sampling
from app.insight.trace import columns as trace_columns
from app.insight.trace.columns import LOGPROB_TOLERANCE, TraceUnreadable, pack, unpack

ROOT = Path(__file__).resolve().parents[4]


def made_up(rng: random.Random, index: int, k: int = 64, *, stages: bool = True) -> TokenTrace:
    logprobs = sorted((-rng.expovariate(0.2) for _ in range(k)), reverse=True)
    names = ["penalties", "top-k", "top-p", "min-p", "temp", "dist"]
    drawn = {"xtc": rng.randrange(2**24) / 2**24}
    if rng.random() < 0.5:
        names.insert(2, "xtc")
    return TokenTrace(
        index=index,
        token_id=rng.randrange(262_144),
        piece=rng.randbytes(rng.randrange(12)),
        logprob=logprobs[0] if logprobs else -1.0,
        rank=rng.choice([None, rng.randrange(1, 50_000)]),
        entropy=rng.choice([None, rng.uniform(0, 18)]),
        alternative_ids=Array.of("i4", [rng.randrange(262_144) for _ in range(k)]),
        alternative_logprobs=Array.of("f4", logprobs),
        stages=[
            StageEffect(name, rng.randrange(1, 262_144), rng.random(), drawn.get(name))
            for name in names
        ]
        if stages
        else [],
        ms=rng.uniform(1, 60),
        removed_by=Array.of("u1", [rng.choice([1, 2, 255]) for _ in range(k)]) if stages else None,
        uniform=rng.random() if stages else None,
        drafted=rng.random() < 0.1,
        chosen=rng.random() < 0.1,
        log_total=rng.choice([None, rng.uniform(-40, 40)]),
        draft_logprob=rng.choice([None, -rng.expovariate(1)]),
        alternative_pieces=rng.choice([[], [rng.randbytes(3) for _ in range(k)]]),
        rejected=rng.choice([None, None, Rejected([7, 9], [b"a", b"\xff"], -2.5, [-0.1, -0.3])]),
    )


def assert_same(back: list[TokenTrace], traces: list[TokenTrace]) -> None:
    """Exactly, but for the stated tolerances."""
    assert len(back) == len(traces)
    for got, want in zip(back, traces, strict=True):
        for name in (
            "index",
            "token_id",
            "piece",
            "rank",
            "uniform",
            "drafted",
            "chosen",
            "removed_by",
            "rejected",
            "alternative_pieces",
        ):
            assert getattr(got, name) == getattr(want, name), name
        assert got.alternative_ids == want.alternative_ids
        assert got.logprob == pytest.approx(want.logprob, rel=1e-6)
        if got.entropy is None or want.entropy is None:
            assert got.entropy == want.entropy
        else:
            assert got.entropy == pytest.approx(want.entropy, rel=1e-6, abs=1e-9)
        if got.log_total is None or want.log_total is None:
            assert got.log_total == want.log_total
        else:
            assert got.log_total == pytest.approx(want.log_total, rel=1e-6)
        if got.draft_logprob is None or want.draft_logprob is None:
            assert got.draft_logprob == want.draft_logprob
        else:
            assert got.draft_logprob == pytest.approx(want.draft_logprob, rel=1e-6)
        assert abs(got.ms - want.ms) <= 0.0005 + 1e-9
        assert [(s.stage, s.left, s.uniform) for s in got.stages] == [
            (s.stage, s.left, s.uniform) for s in want.stages
        ]
        assert [s.probability for s in got.stages] == pytest.approx(
            [s.probability for s in want.stages], rel=1e-6
        )
        for a, b in zip(
            numbers(got.alternative_logprobs), numbers(want.alternative_logprobs), strict=True
        ):
            assert a == b or abs(a - b) <= LOGPROB_TOLERANCE + 1e-6 * abs(b)


@given(st.integers(0, 12), st.integers(0, 70), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_what_was_packed_comes_back(n: int, k: int, stages: bool, seed: int) -> None:
    rng = random.Random(seed)
    traces = [made_up(rng, i, k, stages=stages) for i in range(n)]
    assert_same(unpack(pack(traces)), traces)


def test_tokens_may_differ_in_what_was_recorded() -> None:
    """Settings change in step mode; a reply that was taken back repeats an index."""
    rng = random.Random(5)
    traces = [
        made_up(rng, 0, 3),
        made_up(rng, 1, 0, stages=False),
        made_up(rng, 1, 64),
        made_up(rng, 7, 1, stages=False),
        msgspec.structs.replace(made_up(rng, 8, 4), stages=[StageEffect("greedy", 1, 1.0)]),
    ]
    assert_same(unpack(pack(traces)), traces)


def test_impossible_candidates_stay_impossible() -> None:
    rng = random.Random(1)
    trace = msgspec.structs.replace(
        made_up(rng, 0, 3), alternative_logprobs=Array.of("f4", [-0.5, -100.25, -math.inf])
    )
    (back,) = unpack(pack([trace]))
    assert numbers(back.alternative_logprobs) == (-0.5, -100.25, -math.inf)


def test_a_blob_that_is_cut_or_changed_is_refused() -> None:
    rng = random.Random(2)
    traces = [made_up(rng, i, 8) for i in range(20)]
    blob, whole = pack(traces), unpack(pack(traces))
    for length in (0, 3, 4, 5, len(blob) // 2, len(blob) - 1):
        with pytest.raises(TraceUnreadable):
            unpack(blob[:length])
    for _ in range(200):
        changed = bytearray(blob)
        changed[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        try:
            read = unpack(bytes(changed))
        except TraceUnreadable:
            continue
        # The last bits before zlib's checksum fill up a byte and say nothing.
        assert read == whole, "zlib's checksum let a change pass"


def test_columns_that_do_not_fit_each_other_are_refused() -> None:
    """Whole by their checksum, and still lying: each column made longer, shorter, or wild."""
    rng = random.Random(3)
    blob = pack([made_up(rng, i, 8) for i in range(20)])
    columns = msgspec.msgpack.decode(zlib.decompress(blob[4:]))
    refused = 0
    for at, column in enumerate(columns):
        wild: list[Any] = [None, -1, 2**62, b"", []]
        if isinstance(column, bytes):
            wild += [column[:-1], column + b"\0", rng.randbytes(len(column)), b"\xff" * len(column)]
        for value in wild:
            changed = [*columns[:at], value, *columns[at + 1 :]]
            try:
                back = unpack(b"CTR1" + zlib.compress(msgspec.msgpack.encode(changed)))
            except TraceUnreadable:
                refused += 1
            else:  # other numbers of the right shape
                assert len(back) in (0, 20)
    assert refused > 100


@given(st.binary(max_size=200))
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    for blob in (data, b"CTR1" + data, b"CTR1" + zlib.compress(data)):
        with pytest.raises(TraceUnreadable):
            unpack(blob)


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_columns, "MAX_PLAIN_BYTES", 1_000_000)
    with pytest.raises(TraceUnreadable, match="end is missing"):
        unpack(b"CTR1" + zlib.compress(b"\0" * 10_000_000))


def test_a_newer_version_is_named() -> None:
    with pytest.raises(TraceUnreadable, match="newer"):
        unpack(b"CTR2" + zlib.compress(b""))


def test_importing_costs_no_numpy() -> None:
    code = "import sys, app.insight.trace.columns; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# --- real replies -------------------------------------------------------------------------------


def _real_trace(gguf: Path, prompt: Any, n_tokens: int) -> list[TokenTrace]:
    endings: queue.SimpleQueue[Ending] = queue.SimpleQueue()
    traces: list[TokenTrace] = []

    def on_event(event: EngineEvent) -> None:
        if isinstance(event, TokenArrived):
            traces.append(event.token)
        elif isinstance(event, Ending):
            endings.put(event)

    engine = Engine(child_command("engine"), on_event)
    try:
        engine.load(str(gguf), LoadOptions(n_ctx=1024, n_threads=1))
        endings.get(timeout=60)
        engine.generate(
            Generate(
                id=0,
                prompt=prompt,
                sampling=Sampling(seed=1),
                max_tokens=n_tokens,
                alternatives=64,
                record_stages=True,
            )
        )
        endings.get(timeout=60)
    finally:
        engine.close()
    return traces


@pytest.mark.weights
@pytest.mark.parametrize(
    "which", ["starter_gguf", pytest.param("gemma_gguf", marks=pytest.mark.soak)]
)
def test_a_real_trace_takes_less_than_600_bytes_per_token(
    which: str,
    forked_engines: None,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Top-64 with all stages of the usual chain."""
    gguf = request.getfixturevalue(which)
    prompt: Any = ChatPrompt([ChatMessage("user", "Write a long story about the sea.")])
    if which == "gemma_gguf":
        prompt = TextPrompt("Once upon a time, by the sea,")
    traces = _real_trace(gguf, prompt, 40)
    assert len(traces) > 30
    assert all(len(numbers(trace.alternative_ids)) == 64 for trace in traces)
    assert all(trace.stages for trace in traces)
    blob = pack(traces)
    per_token = len(blob) / len(traces)
    with capsys.disabled():
        print(f"\n  trace of {gguf.name}: {per_token:.0f} bytes per token ({len(traces)} tokens)")
    assert per_token <= 600
    assert_same(unpack(blob), traces)


@pytest.mark.parametrize(
    ("column", "unknown"),
    [
        ("draft_logprob", {}),
        ("log_total", {"log_total": None}),
        ("chosen", {"chosen": False, "log_total": None}),
    ],
)
def test_blobs_of_before_a_column_was_stored_are_read(column: str, unknown: dict[str, Any]) -> None:
    """Stored with fewer columns; and a reply of which nothing is known there is stored so, too."""
    rng = random.Random(6)
    traces = [msgspec.structs.replace(made_up(rng, i, 5), chosen=i == 3) for i in range(9)]
    last = {"draft_logprob": None, "rejected": None, "alternative_pieces": []}
    unknown = unknown | last
    columns = msgspec.msgpack.decode(zlib.decompress(pack(traces)[4:]))
    at = trace_columns._Columns.__struct_fields__.index(column)
    old = trace_columns.MAGIC + zlib.compress(msgspec.msgpack.encode(columns[:at]))
    without = [msgspec.structs.replace(trace, **unknown) for trace in traces]
    assert_same(unpack(old), without)
    assert msgspec.msgpack.decode(zlib.decompress(pack(without)[4:]))[at] == b""


def test_pieces_of_alternatives_that_are_not_there_are_a_damaged_trace() -> None:
    trace = msgspec.structs.replace(made_up(random.Random(1), 0, 2), alternative_pieces=[])
    columns = msgspec.msgpack.decode(zlib.decompress(pack([trace])[4:]))
    for wrong in ([[0, [b"a"]]], [[1, [b"a", b"b"]]], [[-1, []]], [[0, "x"]]):
        columns[-1] = wrong
        blob = trace_columns.MAGIC + zlib.compress(msgspec.msgpack.encode(columns))
        with pytest.raises(trace_columns.TraceUnreadable):
            unpack(blob)


def test_a_damaged_draft_is_a_damaged_trace() -> None:
    columns = msgspec.msgpack.decode(zlib.decompress(pack([made_up(random.Random(1), 0, 2)])[4:]))
    for wrong in ([[0, [1, 2], [b"a"], -1.0, []]], [[0, [1], [b"a"], 7.0, []]], [[0, "x"]]):
        columns[trace_columns._Columns.__struct_fields__.index("rejected")] = wrong
        blob = trace_columns.MAGIC + zlib.compress(msgspec.msgpack.encode(columns))
        with pytest.raises(trace_columns.TraceUnreadable):
            unpack(blob)
