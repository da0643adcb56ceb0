"""What the window knows of a chain's values, without llama.cpp."""

from __future__ import annotations

import pytest

from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import RULES, check_stage, check_stages
from app.engine.protocol.stages import (
    Dry,
    FilterStage,
    LogitBias,
    Sampling,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    TopP,
)


def test_every_stage_of_the_protocol_has_a_rule() -> None:
    assert set(RULES) == {*FilterStage.__args__, *SelectStage.__args__}
    assert {kind for kind, rule in RULES.items() if rule.selects} == set(SelectStage.__args__)


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
def test_the_values_that_stages_begin_with_are_allowed(kind: type[TopK]) -> None:
    check_stage(kind(), "here")


@pytest.mark.parametrize(
    ("stage", "field", "words"),
    [
        (Temperature(t=-0.5), "filters[1].t", "Temperature must be between 0 and 100, not -0.5."),
        (TopP(p=1.5), "filters[1].p", "Top-p must be between 0 and 1, not 1.5."),
        (TopK(k=2.5), "filters[1].k", "Top-k must be a whole number, not 2.5."),  # type: ignore[arg-type]
        (TopP(min_keep=0), "filters[1].min_keep", "a whole number from 1 to 1,000,000, not 0."),
        (Dry(breakers=["x" * 41]), "filters[1].breakers", "41 bytes"),
        (LogitBias([TokenBias(token_id=50)]), "filters[1].biases[0].token_id", "0 to 49"),
        (LogitBias([TokenBias()]), "filters[1].biases[0]", "either a token's ID or a text"),
    ],
)
def test_a_refusal_names_its_field(stage: FilterStage, field: str, words: str) -> None:
    with pytest.raises(BadSetting) as refused:
        check_stages(Sampling([TopK(), stage]), n_vocab=50)
    assert refused.value.field == field
    assert words in refused.value.sentence


def test_what_binds_every_draw_is_checked_too() -> None:
    for sampling, field in (
        (Sampling(seed=2**32 - 1), "seed"),
        (Sampling(min_tokens=-1), "min_tokens"),
        (Sampling(banned_strings=["", "x"]), "banned_strings[0]"),
        (Sampling([TopK()] * 33), "filters"),
    ):
        with pytest.raises(BadSetting) as refused:
            check_stages(sampling)
        assert refused.value.field == field


def test_a_refusal_names_the_most_that_a_value_may_be() -> None:
    """Who types a number that is too large is not told that it must be larger than nothing."""
    for rule in RULES.values():
        for attribute, _label, bounds in rule.checks:
            most = f"{int(bounds.high):,}" if bounds.high >= 10_000 else f"{bounds.high:g}"
            assert bounds.words.endswith(most), (rule.name, attribute)


def test_an_empty_field_is_called_so() -> None:
    with pytest.raises(BadSetting, match="Temperature must be a number, not nothing"):
        check_stage(Temperature(""), "")  # type: ignore[arg-type]
