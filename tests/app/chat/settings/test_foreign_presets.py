"""Presets as SillyTavern and text-generation-webui write them, and the chains made of them."""

from __future__ import annotations

import json
from typing import Any

import yaml
from each import each
from examples import examples
from hypothesis import given, settings, strategies as st

from app.chat.settings.foreign_presets import KNOWN, read
from app.chat.settings.resolved import SHAPING, taken

TAVERN = {
    "temp": 1.2,
    "temperature_last": True,
    "top_p": 1,
    "top_k": 0,
    "min_p": 0.05,
    "typical_p": 1,
    "tfs": 0.95,
    "top_a": 0,
    "rep_pen": 1.05,
    "rep_pen_range": 0,
    "freq_pen": 0,
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 0,
    "dry_sequence_breakers": '["\\n", ":"]',
    "xtc_threshold": 0.1,
    "xtc_probability": 0.5,
    "mirostat_mode": 0,
    "ban_eos_token": True,
    "genamt": 350,
}
WEBUI = """temperature: 0.7
dynamic_temperature: true
dynatemp_low: 0.5
dynatemp_high: 1.5
top_p: 0.9
repetition_penalty: '1.15'
dry_multiplier: 1
dry_sequence_breakers: '"\\n", "*"'
smoothing_factor: 0.2
sampler_priority:
- temperature
- quadratic_sampling
- top_p
"""


def stages(text: str) -> list[dict[str, Any]]:
    found = read(text)
    assert found is not None
    assert taken(found.values, SHAPING).keys() == found.values.keys()
    chain = found.values["chain"]
    assert isinstance(chain, list)
    return chain


def test_a_preset_of_silly_tavern() -> None:
    found = read(json.dumps(TAVERN))
    assert found is not None
    assert [stage["stage"] for stage in stages(json.dumps(TAVERN))] == [
        *("penalties", "dry", "min_p", "xtc", "temperature", "dist")
    ]
    penalties, dry, *_ = stages(json.dumps(TAVERN))
    assert (penalties["repeat"], penalties["last_n"]) == (1.05, -1)
    assert (dry["allowed_length"], dry["last_n"], dry["breakers"]) == (3, -1, ["\n", ":"])
    assert (found.values["ban_end_token"], found.values["max_tokens"]) == (True, 350)
    assert found.left_out == ("Tail-free sampling",)


def test_a_preset_of_text_generation_webui() -> None:
    found = read(WEBUI)
    assert found is not None
    chain = stages(WEBUI)
    assert [stage["stage"] for stage in chain] == [
        *("dynamic_temperature", "top_p", "penalties", "dry", "dist")
    ]
    assert (chain[0]["t"], chain[0]["spread"]) == (1.0, 0.5)
    assert (chain[2]["repeat"], chain[3]["breakers"]) == (1.15, ["\n", "*"])
    assert found.left_out == ("Smooth sampling",)


def test_values_that_cannot_be_are_left_out_by_name() -> None:
    found = read(json.dumps({"temp": 5000, "top_k": "many", "min_p": 0.1, "top_p": 7}))
    assert found is not None
    assert [stage["stage"] for stage in found.values["chain"]] == ["min_p", "dist"]
    assert found.left_out == ("temperature", "top_p")


def test_greedy_and_mirostat() -> None:
    assert stages('{"do_sample": false, "temp": 1, "top_p": 0.9, "min_p": 0}')[-1] == {
        "stage": "greedy"
    }
    told = {"mirostat_mode": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "temp": 1}
    assert stages(json.dumps(told))[-1]["stage"] == "mirostat_v2"


def test_other_files_are_none() -> None:
    def is_none(text: str) -> None:
        assert read(text) is None

    each(
        is_none,
        [
            ("",),
            ("[]",),
            ('{"temp": 1}',),
            ("temp: 1\ntop_p: 2",),
            ("[" * 100_000,),
            ("a: &a [*a]",),
            ("!!python/object/apply:os.system ['true']",),
            ("x: " + "y" * 100_000,),
            ("just words: and: more",),
        ],
    )


def test_a_master_export_brings_its_system_prompt_and_says_what_it_lacks() -> None:
    rest = {"prompts": [{"identifier": "main"}], "logit_bias": [], "grammar_string": "root ::= x"}
    master = {"sysprompt": {"name": "Roleplay", "content": "Stay."}, "preset": {**TAVERN, **rest}}
    found = read(json.dumps(master))
    assert found is not None
    assert found.values["system_prompt"] == "Stay."
    assert found.left_out == ("Prompts", "Grammar", "Tail-free sampling")


def test_koboldais_order_is_kept() -> None:
    kobold = {"temp": 0.7, "top_p": 0.9, "top_k": 40, "rep_pen": 1.1, "order": [6, 0, 1, 3, 5, 2]}
    assert [stage["stage"] for stage in stages(json.dumps(kobold))] == [
        *("penalties", "top_k", "temperature", "top_p", "dist")
    ]


ODD = (None, True, "", "x", [], {}, "1e999", -1, 1e300, -1e300, 10**400, float("nan"), [[]], "nan")


def test_no_value_is_a_fault() -> None:
    @settings(max_examples=examples(100))
    @given(st.dictionaries(st.sampled_from(sorted({*TAVERN, *KNOWN, "order", "samplers"})),
                           st.sampled_from(ODD)))  # fmt: skip
    def holds(odd: dict[str, Any]) -> None:
        for text in (json.dumps(TAVERN | odd), yaml.safe_dump(odd)):
            found = read(text)
            assert found is None or taken(found.values, SHAPING).keys() == found.values.keys()

    holds()


def test_what_its_reader_would_take_long_for_is_not_read() -> None:
    head = "temperature: 1\ntop_p: 1\ntop_k: 2\na: "
    assert [read(head + rest) for rest in ("[" * 7900, "x" * 9000)] == [None, None]
    assert read(f"{head} 3\n? 0x{'f' * 7000}\n: 1") is not None  # a key that is no word
