"""One token's candidates under values that are moved."""

from __future__ import annotations

import math
import struct

import msgspec
import pytest

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stages import Temperature, TopK, TopP
from app.insight.sampling.live import Live, Values, live
from app.insight.sampling.pool import CannotTell

SHARES = {7: 0.5, 3: 0.2, 9: 0.12, 4: 0.08}


def token(drawn: int = 3, logprob: float = math.log(0.2)) -> TokenTrace:
    logs = [math.log(share) for share in SHARES.values()]
    return TokenTrace(
        index=0,
        token_id=drawn,
        piece=b"",
        logprob=logprob,
        rank=2,
        entropy=2.2,
        alternative_ids=Array("i4", [4], struct.pack("<4i", *SHARES)),
        alternative_logprobs=Array("f4", [4], struct.pack("<4f", *logs)),
        stages=[],
        ms=1.0,
        uniform=0.6,
    )


def total(found: Live) -> float:
    return sum(row.after.low for row in found.rows if row.after) + found.rest_after.high


def test_untouched_both_columns_are_softmax() -> None:
    found = live(token(), 1000, Values())
    assert [row.before for row in found.rows] == pytest.approx(list(SHARES.values()), abs=1e-4)
    assert [row.after.low for row in found.rows if row.after] == pytest.approx(
        list(SHARES.values()), abs=1e-4
    )
    assert found.covered == pytest.approx(0.9, abs=1e-4)
    assert total(found) == pytest.approx(1, abs=1e-3)
    assert (found.left, found.is_at_least) == (4, True)
    assert [row.logit for row in found.rows][:2] == pytest.approx([0, math.log(0.4)], abs=1e-5)


def test_each_cut_is_named_and_what_is_left_is_one() -> None:
    found = live(token(), 1000, Values(0.5, top_k=3, top_p=0.7))
    assert [row.removed_by for row in found.rows] == [None, None, TopP, TopK]
    assert (found.left, found.is_at_least) == (2, False)
    assert total(found) == pytest.approx(1, abs=1e-6)
    assert found.rows[0].after is not None
    assert found.rows[0].after.low == pytest.approx(0.25 / 0.29, abs=1e-5)
    share = 0.25 / 0.29
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert found.entropy_after.high == pytest.approx(entropy, abs=1e-4)
    assert found.entropy_before == 2.2


def test_the_number_falls_where_it_would_now() -> None:
    found = live(token(), 1000, Values(top_k=2))
    assert [(row.token_id, row.is_drawn, row.is_hit) for row in found.rows[:2]] == [
        (7, False, True),
        (3, True, False),
    ]


def test_the_order_of_the_stages_is_the_chains() -> None:
    """A temperature before top-p makes it keep fewer."""
    values = Values(0.3, top_p=0.7)
    assert live(token(), 4, values).left == 2
    assert live(token(), 4, values, (Temperature, TopK, TopP)).left == 1


def test_a_drawn_token_that_is_not_among_the_recorded_has_a_row() -> None:
    found = live(token(88, math.log(0.001)), 1000, Values())
    assert found.rows[-1].is_drawn
    assert found.rows[-1].before == pytest.approx(0.001)
    assert found.rows[-1].after is None
    cut = live(token(88, math.log(0.001)), 1000, Values(top_k=2))
    assert cut.rows[-1].after is not None
    assert cut.rows[-1].after.high == 0


def test_temperature_0_leaves_the_best() -> None:
    found = live(token(), 1000, Values(0.0))
    assert found.left == 1
    assert found.entropy_after.high == 0


def test_nothing_recorded_says_so() -> None:
    empty = msgspec.structs.replace(
        token(), alternative_ids=Array("i4", [0], b""), alternative_logprobs=Array("f4", [0], b"")
    )
    with pytest.raises(CannotTell):
        live(empty, 1000, Values())
