"""Facts of arrays that were made by hand, each worked out beside it in another way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.engine.protocol.cut_messages import Cut
from app.insight.inside.embedding import Neighbour
from app.insight.inside.votes import votes
from app.insight.inside.wrote import MOST_ROWS, Contribution, Written
from app.insight.tour.facts import Fact, Facts
from app.insight.tour.seen import (
    attention_facts,
    head_facts,
    layer_facts,
    nearest_facts,
    vote_facts,
    written_facts,
)

N_LAYER, N_HEAD, N_TOK = 3, 4, 6
NAN_LAYER = 1


def piece(place: int) -> str:
    return f"p{place}"


def word(token_id: int) -> str | None:
    return f"w{token_id}"


def unread(token_id: int) -> str | None:
    return None


def values(facts: Facts) -> dict[str, float | str]:
    return {name: fact.value for name, fact in facts.items()}


@pytest.fixture
def attention() -> np.ndarray:
    """Rows that sum to one; the layer in the middle has no attention."""
    made = np.random.default_rng(3).dirichlet([0.4] * N_TOK, (N_LAYER, N_HEAD)).astype(np.float32)
    made[NAN_LAYER] = np.nan
    return made


# --- attention ----------------------------------------------------------------------------------


def test_attention_is_averaged_over_the_heads_that_have_some(attention: np.ndarray) -> None:
    arrays = {"attention": attention, "k_after": np.zeros((N_LAYER, 2, 8), np.float32)}
    found = attention_facts(arrays, {}, piece)
    rows = [row for layer in (0, 2) for row in attention[layer].tolist()]
    mean = [math.fsum(row[at] for row in rows) / len(rows) for at in range(N_TOK)]
    assert found["n_head"].value == N_HEAD
    assert found["n_heads"] == Fact(8, "8")
    assert found["n_kv_head"] == Fact(2, "2 sets")
    assert found["sink_share"].value == pytest.approx(mean[0])
    assert found["looked_at"].value == f"p{max(range(1, N_TOK), key=mean.__getitem__)}"


def test_the_hardest_look_is_that_of_all_layers_without_the_first_token(
    attention: np.ndarray,
) -> None:
    attention[2, 3] = [0.02, 0, 0, 0, 0.97, 0.01]
    attention[0, 1] = [0.99, 0.01, 0, 0, 0, 0]
    found = attention_facts({"attention": attention}, {}, piece)
    assert found["look_head"].text == "head 3 of layer 2"
    assert (found["look_token"].text, found["look_share"].text) == ("p4", "97%")


def test_heads_that_share_nothing_have_no_sets(attention: np.ndarray) -> None:
    arrays = {"attention": attention, "k_after": np.zeros((N_LAYER, N_HEAD, 8), np.float32)}
    assert "n_kv_head" not in attention_facts(arrays, {}, piece)


def test_the_first_token_looks_nowhere_else() -> None:
    alone = {"attention": np.ones((2, 2, 1), np.float32)}
    assert set(attention_facts(alone, {}, piece)) == {"n_head", "n_heads"}


def test_where_nothing_is_looked_at_nothing_is_named() -> None:
    """All of it is on the first token."""
    only_first = np.zeros((2, 2, 3), np.float32)
    only_first[:, :, 0] = 1
    found = attention_facts({"attention": only_first}, {}, piece)
    assert set(found) == {"n_head", "n_heads", "sink_share"}
    assert found["sink_share"].text == "100%"


def test_without_attention_the_file_says_why() -> None:
    found = attention_facts({}, {"attention": "This model has no attention."}, piece)
    assert values(found) == {"no_attention": "This model has no attention."}
    assert attention_facts({}, {}, piece) == {}


def test_a_chosen_head_may_look_at_the_first_token(attention: np.ndarray) -> None:
    attention[2, 1] = [0.6, 0.4, 0, 0, 0, 0]
    found = head_facts({"attention": attention}, 2, 1, piece)
    assert found["chosen_head"].text == "Head 1 of layer 2"
    assert (found["chosen_token"].text, found["chosen_share"].text) == ("p0", "60%")


@pytest.mark.parametrize(
    ("layer", "head"), [(None, 1), (0, None), (N_LAYER, 0), (0, N_HEAD), (NAN_LAYER, 0)]
)
def test_a_head_that_is_not_there_is_not_chosen(
    attention: np.ndarray, layer: int | None, head: int | None
) -> None:
    assert head_facts({"attention": attention}, layer, head, piece) == {}


# --- layers -------------------------------------------------------------------------------------


def lens(ranks: list[int] | None) -> dict[str, np.ndarray]:
    n = N_LAYER if ranks is None else len(ranks)
    arrays = {
        "lens_ids": np.array([[10 * layer + 1, 10 * layer + 2] for layer in range(n)], np.int32),
        "lens_logits": np.zeros((n, 2), np.float32),
        "lens_total": np.zeros(n, np.float32),
    }
    if ranks is not None:
        arrays["lens_target_ranks"] = np.array(ranks, np.int32)[:, None] - 1
    return arrays


def test_the_lens_says_from_where_the_token_leads_and_what_a_layer_would_say() -> None:
    found = layer_facts(lens([1204, 1, 5, 1, 1]), 2, 5, word)
    assert values(found) == {
        "chosen_layer": 2,
        "lead_layer": 3,
        "layer_best": "w21",
        "layer_rank": 5,
    }
    assert layer_facts(lens([1204, 1]), 0, 2, word)["layer_rank"].text == "1,204"


def test_a_token_that_never_leads_ends_at_a_rank() -> None:
    found = layer_facts(lens([4, 3, 2]), None, 3, word)
    assert values(found) == {"end_rank": 2}


def test_a_token_that_is_overtaken_tells_where_it_led() -> None:
    found = layer_facts(lens([7, 1, 2, 1, 3]), None, 5, word)
    assert values(found) == {"end_rank": 3, "first_lead": 1}


def test_behind_the_end_there_is_no_rank_and_without_a_vocabulary_no_word() -> None:
    assert values(layer_facts(lens(None), 1, 3, word)) == {"chosen_layer": 1, "layer_best": "w11"}
    assert values(layer_facts(lens(None), 1, 3, unread)) == {"chosen_layer": 1}
    assert layer_facts(lens(None), 3, 3, word) == {}
    assert values(layer_facts({}, 1, 3, word)) == {"chosen_layer": 1}


def written(*contributions: Contribution) -> Written:
    return Written(7, 9, 1.0, 1.0, contributions, 0.0, 3, 4, (), {})


def test_the_head_that_wrote_most_is_the_first_that_helped() -> None:
    found = written_facts(
        written(
            Contribution("FFN of layer 2", 3.0, Cut("ffn", 2)),
            Contribution("head 0 of layer 1", -2.0, Cut("head", 1, 0)),
            Contribution("head 3 of layer 2", 1.318, Cut("head", 2, 3)),
            Contribution("head 2 of layer 2", 0.5, Cut("head", 2, 2)),
        ),
        word,
    )
    assert found["top_head"].text == "head 3 of layer 2"
    assert found["top_head_logits"] == Fact(1.318, "+1.32")
    assert found["other"].text == "w9"


def test_a_head_that_is_not_listed_is_not_named() -> None:
    others = [Contribution("embedding", 2.0)] * MOST_ROWS
    behind = Contribution("head 3 of layer 2", 1.0, Cut("head", 2, 3))
    assert set(written_facts(written(*others, behind), word)) == {"other"}
    assert written_facts(written(*others), unread) == {}


# --- scores -------------------------------------------------------------------------------------


def test_scores_and_odds_follow_from_the_logits() -> None:
    logits = np.random.default_rng(4).normal(0, 3, 400).astype(np.float32)
    order = sorted(range(400), key=lambda at: -logits[at])
    target = order[40]
    weights = [math.exp(float(each)) for each in logits]
    found = vote_facts(votes(logits, 10, target), target, word)
    assert found["logit"].value == pytest.approx(float(logits[target]))
    assert math.exp(float(found["probability"].value)) == pytest.approx(
        weights[target] / math.fsum(weights), rel=1e-5
    )
    assert found["rank"].value == 41
    assert (found["best"].text, found["second"].text) == (f"w{order[0]}", f"w{order[1]}")
    assert found["lead"].value == pytest.approx(float(logits[order[0]] - logits[order[1]]))
    assert found["odds"].value == pytest.approx(weights[order[0]] / weights[order[1]], rel=1e-5)


def test_behind_the_end_only_the_best_are_known() -> None:
    found = vote_facts(votes(np.array([1.0, 3.1, 1.0, -2.0], np.float32)), None, word)
    assert {name: fact.text for name, fact in found.items()} == {
        "best": "w1",
        "second": "w0",
        "lead": "2.10",
        "odds": "8.2",
    }


@pytest.mark.parametrize(
    ("logits", "names"),
    [
        ([5.0, -np.inf], {"best", "second"}),
        ([900.0, 0.0], {"best", "second", "lead"}),
        ([5.0], {"best"}),
    ],
)
def test_odds_that_no_number_can_say_are_left_out(logits: list[float], names: set[str]) -> None:
    assert set(vote_facts(votes(np.array(logits, np.float32)), None, word)) == names


# --- vectors ------------------------------------------------------------------------------------


def test_the_nearest_is_another_word() -> None:
    ranking = (
        Neighbour((4,), 0, 1.0, is_input=True),
        Neighbour((5,), 1, 0.9, is_variant=True),
        Neighbour((6, 8), 2, 0.8),
    )
    assert nearest_facts(ranking, word)["nearest"].text == "w6"
    assert nearest_facts(ranking[:2], word) == {}
    assert nearest_facts(ranking, unread) == {}
