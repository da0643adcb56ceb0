"""llama-server's fields as our chain."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.server.errors import ApiError
from app.server.fields import Fields
from app.server.sampling import read_sampling, seeds_of, with_format

OFF: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}


def _read(values: dict[str, Any]) -> Sampling:
    fields = Fields(values)
    found = read_sampling(fields)
    fields.close()
    return found


def test_what_is_not_said_is_as_in_llama_server() -> None:
    assert _read({}) == Sampling([TopK(40), TopP(0.95), MinP(0.05), Temperature(0.8)], Dist())


@pytest.mark.parametrize(
    ("values", "filters"),
    [
        ({}, []),
        (
            {
                "repeat_penalty": 1.5,
                "repeat_last_n": 9,
                "presence_penalty": 0.25,
                "frequency_penalty": 2,
            },
            [Penalties(9, 1.5, 2.0, 0.25)],
        ),
        (
            {
                "dry_multiplier": 2,
                "dry_base": 3,
                "dry_allowed_length": 4,
                "dry_penalty_last_n": 5,
                "dry_sequence_breakers": [";"],
            },
            [Dry(2.0, 3.0, 4, 5, [";"])],
        ),
        ({"top_n_sigma": 2}, [TopNSigma(2.0)]),
        ({"typical_p": 0.5, "min_keep": 3}, [Typical(0.5, 3)]),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.2}, [Xtc(0.5, 0.2, 1)]),
        ({"temperature": 2, "dynatemp_range": 0.5}, [DynamicTemperature(2.0, 0.5, 1.0)]),
        (
            {"logit_bias": {"7": -100, "8": 3}},
            [LogitBias([TokenBias(7, bias=-100.0), TokenBias(8, bias=3.0)])],
        ),
        (
            {"logit_bias": [[7, False], [" cat", 1.5]]},
            [LogitBias([TokenBias(7, ban=True), TokenBias(text=" cat", bias=1.5)])],
        ),
    ],
)
def test_each_field_is_a_stage(values: dict[str, Any], filters: list[Any]) -> None:
    assert _read({**OFF, **values}) == Sampling(filters, Dist())


@pytest.mark.parametrize(
    "order", ["tkm", ["temperature", "top_k", "min_p"], ["temp", "top-k", "m"]]
)
def test_the_order_is_that_of_samplers(order: Any) -> None:
    if "m" in order and isinstance(order, list):
        with pytest.raises(ApiError, match="Unknown sampler"):
            _read({"samplers": order})
        return
    assert _read({"samplers": order}).filters == [Temperature(0.8), TopK(40), MinP(0.05)]


def test_who_selects() -> None:
    assert _read({"temperature": 0}) == Sampling([], Greedy())
    assert _read({"temperature": 0, "top_k": 5}) == Sampling([TopK(5)], Greedy())
    assert _read({**OFF, "mirostat": 1, "mirostat_tau": 4}).select == Mirostat(4.0, 0.1)
    second = _read({"mirostat": 2, "mirostat_eta": 0.2, "top_k": 3})
    assert second == Sampling([Temperature(0.8)], MirostatV2(5.0, 0.2))
    assert _read({**OFF, "adaptive_target": 0.5}).select == AdaptiveP(0.5, 0.9)


def test_seeds_of_several_choices() -> None:
    assert seeds_of(Fields({"seed": 2**32 - 2}), 2) == [2**32 - 2, 0]
    assert seeds_of(Fields({"seed": -1}), 2) == [None, None]
    assert seeds_of(Fields({}), 1) == [None]


@pytest.mark.parametrize(
    ("values", "grammar", "schema"),
    [
        ({"response_format": {"type": "text"}}, "", ""),
        ({"response_format": {"type": "json_object"}}, "", '{"type":"object"}'),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "strict": True, "schema": {"type": "array"}},
                }
            },
            "",
            '{"type":"array"}',
        ),
        ({"json_schema": {"type": "string"}}, "", '{"type":"string"}'),
        ({"grammar": 'root ::= "a"'}, 'root ::= "a"', ""),
    ],
)
def test_forms(values: dict[str, Any], grammar: str, schema: str) -> None:
    found = with_format(Sampling(), Fields(values))
    assert (found.grammar, found.json_schema) == (grammar, schema)
