"""Where many replies first differ: counted against counting by hand, and against the dice."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from made_traces import trace_of

from app.engine.protocol.messages import StageEffect
from app.insight.sampling.outcomes import END, Run, Step, outcomes, step_of


def run(seed: int, *ids: int, ended: bool = False) -> Run:
    steps = [Step(i, str(i).encode(), 0.5, 0.25, {9: 0.125, i: 0.5}) for i in ids]
    return Run(seed, steps, ended, True)


def test_the_first_difference_and_what_follows_it() -> None:
    runs = [run(1, 1, 2, 3), run(2, 1, 2, 4), run(3, 1, 5), run(4, 1, 2, 3)]
    found = outcomes(runs)
    assert found is not None
    assert (found.position, found.n, found.differs) == (1, 4, True)
    assert [(row.token_id, row.count, row.share, row.seed) for row in found.rows] == [
        (2, 3, 0.75, 1),
        (5, 1, 0.25, 3),
    ]
    behind = outcomes(runs, (1, 2))
    assert behind is not None
    assert [(row.token_id, row.count) for row in behind.rows] == [(3, 2), (4, 1)]
    assert behind.stray(0.25) == pytest.approx((0.25 * 0.75 / 3) ** 0.5)
    assert outcomes(runs, (1, 5)) is None
    assert outcomes([]) is None


def test_an_end_is_an_outcome_with_the_end_tokens_probability() -> None:
    found = outcomes([run(1, 1, 2), run(2, 1, ended=True), run(3, 1, 2)], end_ids=[9, 11])
    assert found is not None
    assert [(row.token_id, row.count, row.model) for row in found.rows] == [
        (2, 2, 0.5),
        (END, 1, 0.125),
    ]
    assert found.rows[1].is_end
    assert found.unseen is None


def test_who_has_not_come_so_far_is_not_counted() -> None:
    found = outcomes([run(1, 1, 2), run(2, 1), run(3, 1, 4), run(4)])
    assert found is not None
    assert (found.position, found.n) == (1, 2)
    assert found.unseen == pytest.approx(0.5)


def test_where_all_agree_the_last_token_is_told() -> None:
    found = outcomes([run(1, 1, 2), run(2, 1, 2)])
    assert found is not None
    assert (found.position, found.differs, found.n) == (1, False, 2)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=12))
def test_against_counting_by_hand(texts: list[list[int]]) -> None:
    runs = [run(n, *ids) for n, ids in enumerate(texts)]
    found = outcomes(runs)
    columns = [[ids[at] for ids in texts if len(ids) > at] for at in range(4)]
    parting = next((at for at, column in enumerate(columns) if len(set(column)) > 1), None)
    if parting is None:
        assert found is None or not found.differs
    else:
        assert found is not None
        assert found.position == parting
        counted = {row.token_id: row.count for row in found.rows}
        assert counted == Counter(columns[parting])
        assert sum(row.share for row in found.rows) == pytest.approx(1.0)


def test_what_is_kept_of_a_token() -> None:
    (token,) = trace_of([b"Hi"])
    step = step_of(token)
    assert (step.token_id, step.piece) == (token.token_id, b"Hi")
    staged = msgspec.structs.replace(
        token, stages=[StageEffect("top-k", 40, 0.2), StageEffect("dist", 40, 0.3)]
    )
    assert step_of(staged).expected == pytest.approx(0.3)


@pytest.mark.soak
def test_counts_follow_the_expected_shares() -> None:
    """χ² of 20,000 draws with three degrees of freedom: below 16.27 in 999 of 1,000 cases."""
    dice, shares = random.Random(7), {1: 0.5, 2: 0.3, 3: 0.15, 4: 0.05}
    drawn = dice.choices(list(shares), list(shares.values()), k=20_000)
    runs = [Run(n, [Step(i, b"", shares[i], shares[i])]) for n, i in enumerate(drawn)]
    found = outcomes(runs)
    assert found is not None
    chi = sum(
        (row.count - found.n * shares[row.token_id]) ** 2 / (found.n * shares[row.token_id])
        for row in found.rows
    )
    assert chi < 16.27
