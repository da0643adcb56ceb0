"""Hand-written JSON becomes typed values, or one sentence that names the place."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.engine.protocol.loading_messages import LoadOptions, RopeScaling
from app.engine.protocol.stages import TopK, TopP
from app.refusal import Refusal
from app.strict_reading import decode_object, read_stage, read_struct, snake


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": NaN}', ["NaN", "“a”"]),
        ('{"t": -Infinity}', ["-Infinity", "“t”"]),
        ('{"a": 1, "a": 2}', ["“a”", "twice"]),
        ("[1]", ["object"]),
        ("null", ["object"]),
    ],
)
def test_what_is_no_object_of_numbers_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(Refusal) as refused:
        decode_object(text)
    assert all(word in str(refused.value) for word in words)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"n_ctx": "many"}, "“n_ctx” in “load” must be a whole number, not the text “many”."),
        ({"n_ctx": 1.5}, "“n_ctx” in “load” must be a whole number, not the number 1.5."),
        ({"n_ctx": True}, "“n_ctx” in “load” must be a whole number, not true."),
        ({"rop": {}}, "Unknown setting “rop” in “load”. Did you mean “rope”?"),
        ({"yesterday": 1}, "Unknown setting “yesterday” in “load”."),
        ({"nctx": 1}, "Unknown setting “nctx” in “load”. Did you mean “n_ctx”?"),
        ({"use_mmap": 1}, "“use_mmap” in “load” must be true or false, not the number 1."),
        ({"type_k": None}, "“type_k” in “load” must be text, not null."),
        ({"devices": "CPU"}, "“devices” in “load” must be a list, not the text “CPU”."),
        (
            {"devices": ["a", 5]},
            "Item 2 of “devices” in “load” must be text, not the number 5.",
        ),
        (
            {"flash_attention": "maybe"},
            "“flash_attention” in “load” must be one of “auto”, “off”, “on”, not the text “maybe”.",
        ),
        ({"rope": []}, "“rope” in “load” must be an object, not a list."),
        ({"rope": {"kind": "yarn", "x": 1}}, "Unknown setting “x” in “rope” in “load”."),
        ({"loras": [{"scale": 1}]}, "“path” is missing in item 1 of “loras” in “load”."),
        ({"tensor_split": [1e400]}, "Item 1 of “tensor_split” in “load” is too large a number."),
        (
            {"tensor_split": [math.nan]},
            "Item 1 of “tensor_split” in “load” must be a number, not NaN.",
        ),
        ([], "“load” must be an object, not a list."),
    ],
)
def test_the_sentence_names_the_place(value: Any, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_struct(LoadOptions, value, "“load”")
    assert str(refused.value) == sentence


def test_what_fits_becomes_the_struct() -> None:
    value = {"n_ctx": 4096.0, "n_threads": None, "rope": {"freq_scale": 1}, "devices": []}
    options = read_struct(LoadOptions, value, "“load”")
    assert options == LoadOptions(n_ctx=4096, rope=RopeScaling(freq_scale=1.0), devices=[])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"k": 1}, ["“stage” is missing", "top_k, top_p"]),
        ({"stage": "topk"}, ["topk", "Did you mean “top_k”?"]),
        ({"stage": 5}, ["Unknown setting “5”"]),
        ({"stage": "top_k", "n": 40}, ["Unknown setting “n” in stage 1 (top_k)"]),
        ("top_k", ["must be an object"]),
    ],
)
def test_stages_are_told_apart_by_their_name(value: Any, words: list[str]) -> None:
    with pytest.raises(Refusal) as refused:
        read_stage(value, [TopK, TopP], "stage 1")
    assert all(word in str(refused.value) for word in words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(list(LoadOptions.__struct_fields__))


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_any_value_is_taken_or_refused_in_words(value: dict[str, Any]) -> None:
    sentence = ""
    try:
        options = read_struct(LoadOptions, value, "“load”")
    except Refusal as refused:
        sentence = refused.sentence
    if sentence:
        assert sentence.endswith((".", "?"))
    else:
        assert all(getattr(options, name) is not None or value[name] is None for name in value)


def test_names_of_classes() -> None:
    assert [snake(name) for name in ("LogitBias", "Xtc", "AdaptiveP")] == [
        "logit_bias",
        "xtc",
        "adaptive_p",
    ]
    assert json.loads('{"a": 1}') == decode_object('{"a": 1}')
