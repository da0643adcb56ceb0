"""One token's candidates under a chain that is changed."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import pytest

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, TokenTrace
from app.engine.protocol.replay_messages import (
    BANNED_BEFORE,
    FORBIDDEN,
    DrawExplained,
    ReplayedDraw,
)
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Greedy,
    MirostatV2,
    Penalties,
    SelectStage,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from app.insight.sampling.dice import Numbers
from app.insight.sampling.live import BANNED, BY_RULE, Live, live, live_along, replayed
from app.insight.sampling.pool import Between, CannotTell
from app.insight.sampling.what_if import GRAMMAR_UNASKED, NO_NUMBER, DrawSettings

SHARES = {7: 0.5, 3: 0.2, 9: 0.12, 4: 0.08}


def token(
    drawn: int = 3, logprob: float = math.log(0.2), index: int = 0, uniform: float | None = 0.6
) -> TokenTrace:
    logs = [math.log(share) for share in SHARES.values()]
    return TokenTrace(
        index=index,
        token_id=drawn,
        piece=b"",
        logprob=logprob,
        rank=2,
        entropy=2.2,
        alternative_ids=Array("i4", [4], struct.pack("<4i", *SHARES)),
        alternative_logprobs=Array("f4", [4], struct.pack("<4f", *logs)),
        stages=[],
        ms=1.0,
        uniform=uniform,
    )


def settings(
    *filters: Any, n_vocab: int = 1000, select: SelectStage | None = None, **more: Any
) -> DrawSettings:
    return DrawSettings(list(filters), select or Dist(), n_vocab, **more)


def total(found: Live) -> float:
    return sum(row.after.low for row in found.rows if row.after) + found.rest_after.high


def test_untouched_both_columns_are_softmax() -> None:
    found = live(token(), settings())
    assert [row.before for row in found.rows] == pytest.approx(list(SHARES.values()), abs=1e-4)
    assert [row.after.low for row in found.rows if row.after] == pytest.approx(
        list(SHARES.values()), abs=1e-4
    )
    assert found.covered == pytest.approx(0.9, abs=1e-4)
    assert total(found) == pytest.approx(1, abs=1e-3)
    assert (found.left, found.is_at_least, found.is_whole) == (4, True, False)
    assert [row.logit for row in found.rows][:2] == pytest.approx([0, math.log(0.4)], abs=1e-5)


def test_each_cut_is_named_and_what_is_left_is_one() -> None:
    found = live(token(), settings(TopK(3), TopP(0.7), Temperature(0.5)))
    assert [row.removed_by for row in found.rows] == [None, None, 1, 0]
    assert (found.left, found.is_at_least, found.is_whole) == (2, False, True)
    assert total(found) == pytest.approx(1, abs=1e-6)
    assert found.rows[0].after is not None
    assert found.rows[0].after.low == pytest.approx(0.25 / 0.29, abs=1e-5)
    share = 0.25 / 0.29
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert found.entropy_after.high == pytest.approx(entropy, abs=1e-4)
    assert found.entropy_before == 2.2


def test_the_number_falls_where_it_would_now() -> None:
    found = live(token(), settings(TopK(2)))
    assert [(row.token_id, row.is_drawn, row.is_hit) for row in found.rows[:2]] == [
        (7, False, True),
        (3, True, False),
    ]
    assert found.hit == 7


def test_the_order_of_the_stages_is_the_chains() -> None:
    """A temperature before top-p makes it keep fewer."""
    assert live(token(), settings(TopP(0.7), Temperature(0.3), n_vocab=4)).left == 2
    assert live(token(), settings(Temperature(0.3), TopP(0.7), n_vocab=4)).left == 1


def test_a_drawn_token_that_is_not_among_the_recorded_has_a_row() -> None:
    found = live(token(88, math.log(0.001)), settings())
    assert found.rows[-1].is_drawn
    assert found.rows[-1].before == pytest.approx(0.001)
    assert found.rows[-1].after is None
    cut = live(token(88, math.log(0.001)), settings(TopK(2)))
    assert cut.rows[-1].after is not None
    assert cut.rows[-1].after.high == 0


def test_temperature_0_leaves_the_best() -> None:
    found = live(token(), settings(Temperature(0.0)))
    assert found.left == 1
    assert found.entropy_after.high == 0


def test_greedy_takes_the_best_and_needs_no_number() -> None:
    found = live(token(uniform=None), settings(select=Greedy()))
    assert (found.hit, found.left, found.uniform, found.is_whole) == (7, 1, None, True)
    assert [row.removed_by for row in found.rows] == [None, 0, 0, 0]


def test_what_it_cannot_tell_it_says() -> None:
    assert live(token(uniform=None), settings(TopK(2))).unsure == NO_NUMBER
    assert live(token(), settings(TopK(2), is_bound=True)).unsure == GRAMMAR_UNASKED
    with pytest.raises(CannotTell, match="Typical needs the logits of all tokens"):
        live(token(), settings(Typical(0.5)))


def test_nothing_recorded_says_so() -> None:
    empty = msgspec.structs.replace(
        token(), alternative_ids=Array("i4", [0], b""), alternative_logprobs=Array("f4", [0], b"")
    )
    with pytest.raises(CannotTell):
        live(empty, settings())


# --- along the reply ------------------------------------------------------------------------------


def test_a_penalty_counts_the_tokens_before() -> None:
    traces = [token(7, math.log(0.5), index=at) for at in range(3)]
    chain = settings(TopK(3), Penalties(64, 1.0, 1.0), prompt=[])
    rows = {row.token_id: row.after for row in live_along(traces, 2, chain).rows}
    first, second = rows[7], rows[3]
    assert first is not None
    assert second is not None
    assert first.low / second.low == pytest.approx(0.5 / 0.2 * math.exp(-2), rel=1e-4)


def test_what_a_penalty_puts_among_the_others_is_not_cut() -> None:
    """The drawn token's share is unknown then, until a later stage removes all of these."""
    traces = [token(7, math.log(0.5), index=at) for at in range(2)]
    row = live_along(traces, 1, settings(Penalties(64, 1.0, 9.0), prompt=[])).rows[0]
    assert (row.token_id, row.removed_by, row.after) == (7, None, None)
    row = live_along(traces, 1, settings(Penalties(64, 1.0, 9.0), TopK(2), prompt=[])).rows[0]
    assert (row.removed_by, row.after) == (1, Between(0.0, 0.0))


def test_mirostats_limit_moves_with_what_was_drawn() -> None:
    """0.6 falls on 7 in the sorted candidates: surprise −log2(0.5 ÷ 0.82) = 0.71 bits."""
    traces = [token(7, math.log(0.5), index=at) for at in range(3)]
    chain = settings(TopK(3), select=MirostatV2(2.0, 0.5))
    found = [live_along(traces, at, chain).memory for at in range(3)]
    surprise = -math.log2(0.5 / 0.82)
    assert found == pytest.approx([4.0 + at * 0.5 * (2.0 - surprise) for at in range(3)], abs=1e-3)


def test_adaptive_p_aims_above_its_target_after_less() -> None:
    """Counted is the share before the transform, of a token that it drew itself."""
    chain = settings(TopK(3), select=AdaptiveP(0.9, 0.0))
    drawn = live(token(), chain).hit
    assert drawn == 7
    kept = live_along([token(7, math.log(0.5)), token(index=1)], 1, chain)
    assert kept.memory == pytest.approx(1.0)  # 2 · 0.9 − 0.61, at most 1
    other = live_along([token(3), token(index=1)], 1, chain)
    assert other.memory == pytest.approx(0.9, abs=1e-4)


# --- by the engine --------------------------------------------------------------------------------


def test_what_the_engine_says_is_shown_as_it_is() -> None:
    told = DrawExplained(
        ids=Array.of("i4", [7, 3, 9, 4, 5]),
        logits=Array.of("f4", [11.0, 10.0, 9.0, 8.0, 7.0]),
        logprobs=Array.of("f4", [math.log(p) for p in (0.4, 0.3, 0.1, 0.05, 0.05)]),
        shares=Array.of("f4", [0.0, 0.75, 0.0, 0.0, 0.2]),
        removed_by=Array("u1", [5], bytes([FORBIDDEN, SURVIVED, 1, BANNED_BEFORE, SURVIVED])),
        left=[900, 300, 300],
        entropy_before=2.0,
        entropy_after=1.0,
        memory=5.5,
        is_second=True,
    )
    found = replayed(token(), told, ReplayedDraw(9, 3, 0.75, 300), Numbers(0.5, again=0.25))
    assert [row.removed_by for row in found.rows] == [BY_RULE, None, 1, BANNED, None]
    assert [row.logit for row in found.rows] == [0.0, -1.0, -2.0, -3.0, -4.0]
    assert [row.is_hit for row in found.rows] == [False, True, False, False, False]
    assert found.rest_after == Between(pytest.approx(0.05), pytest.approx(0.05))  # type: ignore[arg-type]
    assert found.rest_before == pytest.approx(0.1)
    assert (found.left, found.memory, found.uniform) == (300, 5.5, 0.25)
    assert found.is_replayed
    assert found.is_second
    assert found.is_whole
