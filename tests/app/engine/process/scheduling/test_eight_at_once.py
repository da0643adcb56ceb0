"""Eight answers to one prompt: it is read once, and each says what it says alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from gguf_writer import bpe_vocabulary
from native_session import NativeSession, load_quietly
from other_shapes import bound_of, distance, force, traces
from recurrent_gguf import tiny_mamba

from app.engine.planning.load_plan import N_SLOTS, N_STATES
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.protocol.messages import Finished, Summary
from app.engine.protocol.stages import Dist, Sampling, Temperature
from app.insight.sampling.outcomes import Run, outcomes, step_of

pytestmark = pytest.mark.weights

EIGHT = 8


def summary_of(session: NativeSession, request_id: int) -> Summary:
    ending = session.ending(request_id)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    return ending.result


def hot(seed: int) -> Sampling:
    return Sampling(filters=[Temperature(1.5)], select=Dist(), seed=seed)


@pytest.mark.parametrize("length", [9, 20, 100])
def test_a_prompt_is_read_once_for_all_of_them(made_session: NativeSession, length: int) -> None:
    session, ids = made_session, [100 + n for n in range(length)]
    requests = [session.add(ids, hot(seed), max_tokens=3) for seed in range(EIGHT)]
    session.run()
    summaries = [summary_of(session, request) for request in requests]
    assert [s.evaluated for s in summaries] == [length, *[1] * (EIGHT - 1)]
    assert [s.reuse_source for s in summaries] == ["", *["fork"] * (EIGHT - 1)]
    assert max(span.slots for s in summaries for span in s.timeline) == EIGHT


def test_each_of_eight_says_what_it_says_alone(made_session: NativeSession) -> None:
    _each_as_alone(made_session, [150 + n for n in range(17)], 6)


@pytest.mark.soak
@pytest.mark.parametrize("weights", ["starter", "gemma"])
def test_each_of_eight_on_a_real_file(
    request: pytest.FixtureRequest, native_log: NativeLog, weights: str
) -> None:
    loaded: Weights = request.getfixturevalue(weights)
    ids = loaded.vocabulary.tokenize("The captain stood at the rail and began to tell them")
    _each_as_alone(NativeSession(loaded, native_log), ids, 24)


def _each_as_alone(session: NativeSession, ids: list[int], length: int) -> None:
    """What each draws alone, with its own seed, is forced upon it beside the seven others."""
    alone = []
    for seed in range(EIGHT):
        request = session.add(ids, hot(seed), max_tokens=length, reuse_prefix=False, alternatives=2)
        session.run()
        alone.append(traces(session, request))
    together = [
        session.add(ids, hot(seed), max_tokens=length, alternatives=2, hold=True)
        for seed in range(EIGHT)
    ]
    wanted = [[token.token_id for token in tokens] for tokens in alone]
    force(session, dict(zip(together, wanted, strict=True)))
    assert len({tuple(ids) for ids in wanted}) > 1
    for tokens, request in zip(alone, together, strict=True):
        assert distance(tokens, traces(session, request)) <= bound_of(session.weights)


@pytest.mark.parametrize(
    "n_seeds", [64, pytest.param(4000, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_first_tokens_come_as_often_as_the_scores_say(
    made_session: NativeSession, n_seeds: int
) -> None:
    """Each expected share against the softmax of the scores that another context gave; and, of
    many, χ² over the ten most probable tokens and all the rest, below its 99.9th percentile."""
    session, ids = made_session, [100 + n for n in range(20)]
    sharp = Sampling(filters=[Temperature(0.05)], select=Dist())
    reference = session.add(ids, max_tokens=1, alternatives=64, reuse_prefix=False)
    session.run()
    (token,) = traces(session, reference)
    nats = np.frombuffer(token.alternative_logprobs.data, "<f4") / 0.05
    shares = np.exp(nats - nats.max())
    shares /= shares.sum()  # behind the 64 best nothing is left at this temperature
    by_id = dict(
        zip(np.frombuffer(token.alternative_ids.data, "<i4").tolist(), shares, strict=True)
    )
    runs = []
    for first in range(0, n_seeds, EIGHT):
        seeds = range(first, first + EIGHT)
        requests = [
            session.add(
                ids, msgspec.structs.replace(sharp, seed=s), max_tokens=1, record_stages=True
            )
            for s in seeds
        ]
        session.run()
        for seed, request in zip(seeds, requests, strict=True):
            (drawn,) = traces(session, request)
            runs.append(Run(seed, [step_of(drawn)], is_over=True))
        session.events.clear()
    found = outcomes(runs)
    assert found is not None
    assert (found.position, found.n, found.differs) == (0, n_seeds, True)
    for row in found.rows:
        assert row.expected == pytest.approx(by_id[row.token_id], rel=0.1)
    counts = {row.token_id: row.count for row in found.rows}
    best = sorted(by_id, key=lambda i: -by_id[i])[:10]
    cells = [(counts.get(i, 0), n_seeds * by_id[i]) for i in best]
    seen, expected = (sum(column) for column in zip(*cells, strict=True))
    cells.append((n_seeds - seen, n_seeds - expected))
    if n_seeds > 1000:
        assert sum((c - e) ** 2 / e for c, e in cells if e > 5) < 29.6


def test_one_that_fails_ends_alone(
    made_session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, ids = made_session, [100 + n for n in range(20)]
    requests = [session.add(ids, hot(seed), max_tokens=6) for seed in range(EIGHT)]
    writer = session.scheduler._writer
    real = writer.draw

    def draw(row: object, slot: object) -> None:
        if row.reply.request.id == requests[3] and len(row.reply.generated) == 2:  # type: ignore[attr-defined]
            raise ValueError
        real(row, slot)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "draw", draw)
    session.run()
    kinds = [type(session.ending(request)).__name__ for request in requests]
    assert kinds == ["Finished"] * 3 + ["Failed"] + ["Finished"] * 4


def test_where_each_sequence_takes_memory_there_are_fewer(
    made: Weights, native_log: NativeLog, tmp_path: Path
) -> None:
    assert made.n_slots == N_SLOTS == EIGHT
    tiny_mamba(tmp_path / "mamba.gguf", vocabulary=bpe_vocabulary())
    weights = load_quietly(tmp_path / "mamba.gguf", native_log, n_ctx=256, n_threads=1)
    try:
        assert weights.n_slots == N_STATES
        assert Scheduler(weights, lambda _item: None, native_log).sequences()
    finally:
        weights.close()
