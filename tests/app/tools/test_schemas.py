"""Arguments against schemas, compared with the reference implementation of JSON Schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, strategies as st

from app.tools.schemas import FormField, form_fields, read_arguments, schema_text, trouble

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.sampled_from(["", "a", "bc"])
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = st.sampled_from(["object", "array", "string", "boolean", "null", "integer", "number"])
SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda kind: {"type": kind}, KINDS),
        st.builds(lambda kinds: {"type": kinds}, st.lists(KINDS, min_size=1, unique=True)),
        st.builds(lambda each: {"enum": each}, st.lists(PLAIN, min_size=1, max_size=3)),
        st.builds(lambda each: {"const": each}, PLAIN),
        st.builds(lambda low: {"minimum": low, "exclusiveMaximum": low + 4}, st.integers(-5, 5)),
        st.builds(lambda n: {"minLength": n, "maxLength": n + 1, "minItems": n}, st.integers(0, 2)),
        st.just({"$ref": "#/$defs/text"}),
        st.booleans(),
    ),
    lambda inner: st.one_of(
        st.builds(lambda each: {"items": each}, inner),
        st.builds(lambda several: {"anyOf": several}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda several: {"allOf": several}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(
            lambda known, needed, further: {
                "properties": known, "required": needed, "additionalProperties": further
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            inner,
        ),
    ),
    max_leaves=5,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), SCHEMAS)
def test_it_refuses_what_the_reference_refuses(arguments, schema):
    schema = {"allOf": [schema], "$defs": {"text": {"type": "string"}}}
    expected = jsonschema.Draft202012Validator(schema).is_valid(arguments)
    assert (trouble(arguments, json.dumps(schema)) == "") is expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "“city” is missing."),
        ({"city": 3}, "“city” must be text."),
        ({"city": "x", "days": 2.5}, "“days” must be a whole number."),
        ({"city": "x", "days": 9}, "“days” must be at most 7."),
        ({"city": "x", "unit": "K"}, "“unit” must be one of “C”, “F”."),
        ({"city": "x", "town": "y"}, "There is no argument “town”."),
        ({"city": "x", "at": [{"lat": "n"}]}, "“at[1].lat” must be a number."),
        ({"city": "x", "days": 7}, ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(arguments, words):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "maximum": 7},
            "unit": {"enum": ["C", "F"]},
            "at": {"type": "array", "items": {"properties": {"lat": {"type": "number"}}}},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert trouble(arguments, json.dumps(schema)) == words


def test_hostile_schemas_cost_nothing():
    circle = {"properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert trouble({"a": {}}, json.dumps(circle)) == ""
    slow = {"properties": {"a": {"pattern": "(a+)+$", "type": "string"}}}
    assert trouble({"a": "a" * 60 + "!"}, json.dumps(slow)) == ""
    assert schema_text([])[1]
    assert schema_text({"type": "string"})[1]
    deep: dict = {}
    for _ in range(5_000):
        deep = {"items": deep}
    assert schema_text(deep)[1]


def test_arguments_are_read_or_refused_in_words():
    assert read_arguments('{"a": 1}') == ({"a": 1}, "")
    assert read_arguments("  ") == ({}, "")
    for text in ("[1]", "{", '{"a": NaN}', "[" * 100_000, '{"a":' * 99_999, "x" * 1_000_001):
        assert read_arguments(text)[1].endswith(".")


def test_simple_arguments_are_a_form_and_others_are_not():
    schema = {
        "type": "object",
        "properties": {
            "zone": {"type": "string", "description": "IANA name"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
            "words": {"type": "array", "items": {"type": "string"}},
            "loud": {"type": ["boolean", "null"]},
            "how": {"enum": ["a", "b"]},
        },
        "required": ["zone"],
    }
    assert form_fields(json.dumps(schema)) == (
        FormField("zone", "text", "IANA name", is_required=True),
        FormField("n", "whole", default=3),
        FormField("words", "lines"),
        FormField("loud", "switch"),
        FormField("how", "choice", choices=("a", "b")),
    )
    schema["properties"]["at"] = {"type": "object"}  # type: ignore[index]
    assert form_fields(json.dumps(schema)) is None
    assert form_fields("{}") == ()
