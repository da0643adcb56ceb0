"""Which token would have been another one: found, not found, and not to be told."""

from __future__ import annotations

import math
import random
import struct
from time import thread_time

import msgspec
import pytest
from each import each

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.engine.protocol.pieces import unpack as numbers
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Greedy,
    LogitBias,
    Mirostat,
    MirostatV2,
    Penalties,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    TopP,
    Xtc,
)
from app.insight.sampling import what_if as module
from app.insight.sampling.selecting import TOO_MANY
from app.insight.sampling.what_if import NO_NUMBER, Change, DrawSettings, what_if
from app.insight.trace.columns import pack, unpack


def token(index: int, shares: dict[int, float], uniform: float | None, drawn: int) -> TokenTrace:
    ids, logs = list(shares), [math.log(share) for share in shares.values()]
    return TokenTrace(
        index=index,
        token_id=drawn,
        piece=b"",
        logprob=math.log(shares[drawn]),
        rank=1,
        entropy=1.0,
        alternative_ids=Array.of("i4", ids),
        alternative_logprobs=Array("f4", [len(ids)], struct.pack(f"<{len(ids)}f", *logs)),
        stages=[],
        ms=1.0,
        uniform=uniform,
    )


SHARES = {7: 0.6, 3: 0.3, 9: 0.1}


def traces() -> list[TokenTrace]:
    """Drawn from the three with a plain draw, sorted: 7 up to 0.6, 3 up to 0.9, then 9."""
    return [
        token(0, SHARES, 0.2, 7),
        token(1, SHARES, 0.55, 7),
        token(2, SHARES, 0.95, 9),
        token(3, SHARES, 0.7, 3),
    ]


def settings(*filters: object, select: SelectStage | None = None, **more: object) -> DrawSettings:
    return DrawSettings(list(filters), select or Dist(), 3, **more)  # type: ignore[arg-type]


def test_the_same_settings_change_nothing() -> None:
    found = what_if(traces(), settings(TopK(3)))
    assert (found.first, found.unsure, found.looked_at) == (None, (), 4)


def test_a_hotter_draw_changes_the_first_token_that_falls_elsewhere() -> None:
    """At temperature 2 the shares are 47, 33 and 19 %: 0.55 falls on the second."""
    found = what_if(traces(), settings(TopK(3), Temperature(2.0)))
    assert found.first == Change(1, 3)
    assert not found.unsure


def test_behind_the_first_change_nothing_is_looked_at() -> None:
    assert what_if(traces(), settings(TopK(3), Temperature(2.0))).looked_at == 2


def test_greedy_needs_no_number() -> None:
    assert what_if(traces(), settings(select=Greedy())).first == Change(2, 7)


def test_a_reply_without_numbers_is_not_told() -> None:
    plain = [msgspec.structs.replace(each, uniform=None) for each in traces()]
    found = what_if(plain, settings(TopK(3)))
    assert found.first is None
    assert {each.reason for each in found.unsure} == {module.NO_NUMBER}


def test_candidates_beyond_the_recorded_ones_are_named() -> None:
    wide = DrawSettings([Temperature(1.5)], Dist(), 50_000)
    few = {7: 0.5, 3: 0.2}
    found = what_if([token(0, few, 0.2, 7)], wide)
    assert [(each.index, each.reason) for each in found.unsure] == [
        (0, "These settings keep candidates outside the recorded 2.")
    ]


def test_positions_are_places_in_the_trace() -> None:
    """What stood before a trace is counted in its tokens' own index, and not here."""
    later = [msgspec.structs.replace(each, index=each.index + 40) for each in traces()]
    found = what_if(later, DrawSettings([Temperature(1.5)], Dist(), 50_000))
    assert [each.index for each in found.unsure] == [0, 1, 2, 3]
    assert what_if(later, settings(TopK(3), Temperature(2.0))).first == Change(1, 3)


def test_the_edge_of_two_candidates_is_not_told_but_their_names_are() -> None:
    found = what_if([token(0, SHARES, 0.6, 7)], settings(TopK(3)))
    assert found.unsure[0].may_be == {7, 3}


def test_a_token_chosen_by_hand_stays() -> None:
    chosen = [msgspec.structs.replace(each, chosen=True, uniform=None) for each in traces()]
    assert what_if(chosen, settings(TopK(1))).first is None
    assert not what_if(chosen, settings(TopK(1))).unsure


def test_what_another_version_drew_is_not_drawn_again() -> None:
    assert what_if(traces(), settings(TopK(1), first=3)).first == Change(3, 7)


def test_adaptive_p_without_a_target_draws_plainly() -> None:
    assert not what_if(traces(), settings(TopK(3), select=AdaptiveP(-1.0))).unsure


@pytest.mark.parametrize("tau", [20.0, 100.0])
def test_a_k_that_llama_cpp_cannot_count_is_not_told(tau: float) -> None:
    """Cast to an int it is 1 on one machine, and all on another."""
    found = what_if(traces(), DrawSettings([], Mirostat(tau, m=3), 3))
    assert found.first is None
    assert found.unsure[0].reason == TOO_MANY
    assert not what_if(traces(), DrawSettings([], Mirostat(1.0, m=3), 3)).unsure


def test_a_candidate_without_weight_surprises_without_end() -> None:
    cold = [Temperature(0.0005)]
    by_hand = [msgspec.structs.replace(each, chosen=True) for each in traces()]
    for given in (traces(), by_hand):
        for select in (MirostatV2(100.0), Mirostat(0.01, m=2), AdaptiveP(0.5)):
            assert what_if(given, DrawSettings(cold, select, 3)).looked_at >= 2


@pytest.mark.parametrize("seed", [-1, 2**32, 2**70])
def test_a_seed_that_is_none_gives_no_numbers(seed: int) -> None:
    """An imported reply may have any."""
    unnumbered = [token(0, SHARES, None, 7)]
    (unsure,) = what_if(unnumbered, DrawSettings([], Dist(), 3, seed=seed)).unsure
    assert unsure.reason == NO_NUMBER


def test_penalties_see_what_was_written_before() -> None:
    """Token 7 is drawn first, and weighs less from then on: 0.55 falls on another one."""
    found = what_if(traces(), settings(TopK(3), Penalties(64, 1.0, 3.0, 0.0), prompt=[]))
    assert found.first is not None
    assert found.first.index == 1
    without = what_if(traces(), settings(TopK(3), Penalties(64, 1.0, 3.0, 0.0)))
    assert len(without.unsure) == 4


def test_a_bias_by_text_is_told_where_its_tokens_are_known() -> None:
    bias = LogitBias([TokenBias(text="x", ban=True)])
    assert what_if(traces(), settings(bias, TopK(3))).unsure
    found = what_if(traces(), settings(bias, TopK(3), ids_of=lambda _text: [7]))
    assert found.first == Change(0, 3)


def test_xtc_uses_the_number_that_it_drew() -> None:
    def with_xtc(number: float | None) -> list[TokenTrace]:
        effect = StageEffect("xtc", 3, 0.6, number)
        return [msgspec.structs.replace(traces()[0], stages=[effect])]

    chain = settings(TopK(3), Xtc(0.5, 0.25))
    assert what_if(with_xtc(0.9), chain).first is None
    assert what_if(with_xtc(0.1), chain).first == Change(0, 3)
    assert what_if(with_xtc(None), chain).unsure[0].may_be == {7, 3}


def test_a_grammar_has_the_last_word() -> None:
    """Another token may be forbidden by it; the same one was allowed."""
    found = what_if(traces(), settings(TopK(3), Temperature(2.0), is_bound=True))
    assert found.first is None
    assert [(each.index, each.reason) for each in found.unsure] == [(1, module.GRAMMAR_UNASKED)]
    forced = [
        msgspec.structs.replace(traces()[0], stages=[StageEffect("grammar", 1, 1.0)]),
        *traces()[1:],
    ]
    found = what_if(forced, settings(TopK(3)))
    assert [(each.index, each.reason) for each in found.unsure] == [(0, module.BY_GRAMMAR)]


def test_what_was_banned_then_is_no_candidate() -> None:
    """Token 7 was banned there: 3 has 75 % of what is left."""
    banned = msgspec.structs.replace(
        token(0, SHARES, 0.5, 3),
        stages=[StageEffect("banned-strings", 2, 0.75)],
        removed_by=Array("u1", [3], bytes([0, 255, 255])),
    )
    assert what_if([banned], settings(TopK(3))).first is None


def test_it_ends_when_the_answer_is_not_wanted() -> None:
    long = [msgspec.structs.replace(traces()[0], index=at) for at in range(1000)]
    asked = iter([False, True])
    found = what_if(long, settings(TopK(3)), lambda: next(asked))
    assert found.first is None


def test_four_thousand_tokens_take_less_than_a_second() -> None:
    source = random.Random(1)
    shares = sorted((source.random() ** 4 for _ in range(64)), reverse=True)
    by_id = {source.randrange(50_000): share / sum(shares) * 0.99 for share in shares}
    one = token(0, by_id, 0.0001, next(iter(by_id)))
    long = [msgspec.structs.replace(one, index=at) for at in range(4000)]
    filters = [TopK(40), TopP(0.95), Temperature(1.2)]
    began = thread_time()
    found = what_if(long, DrawSettings(filters, Dist(), 50_000))
    took = thread_time() - began
    assert found.looked_at == 4000
    assert found.first is None
    assert took < 1.0, took


def edge(logprobs: tuple[float, ...], t: float) -> float:
    """Where the part of the best one ends, at a temperature."""
    weights = [math.exp(logprob / t) for logprob in logprobs]
    return weights[0] / sum(weights)


@each("seed", range(20))
def test_what_a_stored_trace_has_rounded_is_not_taken_for_sure(seed: int) -> None:
    """A number between the edge of the true shares and that of the rounded ones."""
    source = random.Random(seed)
    first, second = sorted((source.uniform(0.2, 0.5) for _ in range(2)), reverse=True)
    shares = {7: first, 3: second, 9: 1 - first - second}
    if shares[9] > second:
        shares = {7: shares[9], 3: first, 9: second}
    (read,) = unpack(pack([token(0, shares, 0.99, min(shares, key=shares.get))]))  # type: ignore[arg-type]
    true = edge(tuple(math.log(share) for share in shares.values()), 0.7)
    rounded = edge(numbers(read.alternative_logprobs), 0.7)
    number = (true + rounded) / 2
    assert abs(true - rounded) < 1e-3
    stored = msgspec.structs.replace(read, uniform=number)
    found = what_if([stored], settings(TopK(3), Temperature(0.7)))
    best = 7 if number < true else 3
    assert (found.first is None and found.unsure) or found.first == Change(0, best)
    if abs(true - rounded) > 1e-4:
        assert found.unsure
