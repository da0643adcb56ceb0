"""What a schema's grammar holds: each claim is tried on texts, with llama.cpp's own grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from native_session import NativeSession

from app.engine.process.native.weights import Weights
from app.engine.process.sampling.grammar import new_grammar, schema_notes, schema_to_gbnf
from app.engine.process.sampling.schema_grammar import convert
from app.engine.process.sampling.schema_limits import (
    MAX_SENTENCES,
    contradiction,
    sentences,
    unheld,
)
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.messages import Finished, Note
from app.engine.protocol.stages import Sampling

pytestmark = pytest.mark.weights


def accepts(schema: dict[str, Any], text: str, weights: Weights) -> bool:
    """Whether a reply may be exactly this text."""
    grammar = new_grammar("", json.dumps(schema), weights.vocabulary)
    assert grammar is not None
    try:
        for token_id in weights.vocabulary.tokenize(text):
            if not grammar.allows(token_id):
                return False
            grammar.accept(token_id)
        return grammar.allows(weights.vocabulary.eos_id or 0)
    finally:
        grammar.close()


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}

NOT_HELD: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"type": "integer", "minimum": 3}, "2", ["minimum"]),
    ({"type": "integer", "maximum": 3, "minimum": 1}, "4", ["maximum", "minimum"]),
    ({"type": "number", "exclusiveMinimum": 0}, "0", ["exclusiveMinimum"]),
    ({"type": "number", "exclusiveMaximum": 0}, "0", ["exclusiveMaximum"]),
    ({"type": "integer", "multipleOf": 2}, "3", ["multipleOf"]),
    ({"type": "string", "format": "email"}, '"a"', ["format"]),
    ({"type": "string", "pattern": "^a*$", "maxLength": 1}, '"aa"', ["maxLength"]),
    ({"type": "string", "format": "date", "maxLength": 1}, '"2026-01-01"', ["maxLength"]),
    ({"type": ["integer", "null"], "minimum": 3}, "2", ["minimum"]),
    ({"title": "Count", "minimum": 3}, "2", ["minimum"]),
    ({"type": ["string", "null"], "format": "email"}, '"a"', ["format"]),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]",
     ["uniqueItems"]),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}}, "[1]",
     ["contains"]),
    ({"type": "array", "prefixItems": [{"type": "null"}], "minItems": 2}, "[null]", ["minItems"]),
    ({"type": "array", "items": [{"type": "null"}, {"type": "null"}], "maxItems": 1},
     "[null,null]", ["maxItems"]),
    ({"type": "array", "items": {"type": "null"}, "prefixItems": [{"type": "integer"}]}, "[null]",
     ["prefixItems"]),
    ({"type": "object", "required": ["a"]}, "{}", ["required"]),
    ({"type": "object", "minProperties": 1}, "{}", ["minProperties"]),
    ({"type": "object", "propertyNames": {"maxLength": 1}}, '{"aa":1}', ["propertyNames"]),
    (OBJECT | {"required": ["a", "b"]}, '{"a":1}', ["required"]),
    (OBJECT | {"allOf": [{"required": ["a"]}]}, "{}", ["allOf"]),
    (OBJECT | {"anyOf": [{"type": "null"}]}, "null", ["type", "properties"]),
    (OBJECT | {"not": {"required": ["a"]}}, '{"a":1}', ["not"]),
    (OBJECT | {"if": {}, "then": {"required": ["a"]}}, "{}", ["if"]),
    (OBJECT | {"dependentRequired": {"a": ["b"]}}, '{"a":1}', ["dependentRequired"]),
    ({"enum": [1, "x"], "type": "string"}, "1", ["type"]),
    ({"const": 1, "minimum": 5}, "1", ["minimum"]),
    ({"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": {"type": "integer"}}}, "1", ["minimum"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text", "names"), NOT_HELD, ids=range(len(NOT_HELD)))
def test_what_is_not_held_is_named(
    schema: dict[str, Any], text: str, names: list[str], starter: Weights
) -> None:
    assert accepts(schema, text, starter), "it is held after all"
    assert unheld(schema) == names
    (note,) = schema_notes(json.dumps(schema))
    assert all(f"“{name}”" in note for name in names)
    assert " at #, " in note


HELD: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "string", "minLength": 2, "maxLength": 3}, '"ab"', '"a"'),
    ({"type": "string", "minLength": 2, "maxLength": 3, "title": "t"}, '"abc"', '"abcd"'),
    ({"type": "string", "pattern": "^a+$"}, '"aa"', '"b"'),
    ({"type": "string", "format": "date"}, '"2026-01-01"', '"x"'),
    ({"type": "string", "minimum": 7}, '"x"', "1"),
    ({"type": "string"}, '"a\\nb"', '"a\nb"'),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, "[1,2]", "[1]"),
    ({"type": "array", "minItems": 1, "maxItems": 2}, '[1,"a"]', "[]"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 2.0}, "[null,null]", "[null]"),
    ({"const": 2.0}, "2.0", "3"),
    ({"type": "array", "items": {}, "maxItems": 1}, "[null]", "[1,2]"),
    ({"type": "array", "prefixItems": [{"type": "null"}], "items": False}, "[null]", "[null,1]"),
    ({"type": "array", "items": {"type": "null"}, "uniqueItems": False}, "[null]", "[1]"),
    (OBJECT | {"required": ["a"], "additionalProperties": False}, '{"a":1}', "{}"),
    (OBJECT | {"additionalProperties": {"type": "null"}}, '{"b":null}', '{"b":1}'),
    ({"type": "object", "additionalProperties": True}, '{"b":1}', "1"),
    ({"type": "string", "enum": ["a", "b"]}, '"a"', '"c"'),
    ({"type": "integer", "const": 4}, "4", "5"),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "null", "true"),
    ({"type": ["string", "null"], "maxLength": 1}, "null", '"aa"'),
    ({"type": ["null", "string"], "pattern": "^a+$"}, '"aa"', '"b"'),
    ({"type": ["string", "null"], "enum": ["a", "b", None]}, "null", '"c"'),
    ({"type": ["string", "null"], "enum": ["a", 1, None]}, '"a"', "1"),
    ({"type": ["integer", "null"], "const": 4}, "4", "null"),
    ({"type": ["object", "null"]} | {"properties": OBJECT["properties"], "required": ["a"]}, "null",
     "{}"),
    ({"type": ["array", "null"], "items": {"type": "null"}}, "[null]", "[1]"),
    ({"title": "Data"}, "[1,null]", "x"),
    ({"description": "Anything"}, '"a"', "x"),
    (OBJECT | {"properties": {"a": {"title": "A"}}, "required": ["a"]}, '{"a":[1]}', "{}"),
    (OBJECT | {"properties": {"a": {}}, "required": ["a"]}, '{"a":"b"}', "{}"),
    ({"allOf": [{"$ref": "#/$defs/n"}], "title": "t", "$defs": {"n": {"type": "integer"}}}, "1",
     "{}"),
    ({"allOf": [{"properties": {"a": {"type": "null"}}}, OBJECT | {"properties": {}}]},
     '{"a":null}', "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), HELD, ids=range(len(HELD)))
def test_what_is_held_is_not_named(
    schema: dict[str, Any], good: str, bad: str, starter: Weights
) -> None:
    assert accepts(schema, good, starter)
    assert not accepts(schema, bad, starter)
    assert schema_notes(json.dumps(schema)) == ()


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"type": "array", "items": {}, "minItems": 3, "maxItems": 2}, "“minItems” of 3 above"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "“minLength” of 3 above its “maxLength”"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "“minimum” of 3 above its “maximum” of 2"),
    ({"type": "integer", "exclusiveMinimum": 3, "maximum": 2}, "“exclusiveMinimum” of 3"),
    ({"type": "object", "minProperties": 2, "maxProperties": 1}, "“minProperties”"),
    (
        {"type": "string", "minLength": -1},
        "“minLength” that isn't a whole number of at least 0: -1",
    ),
    ({"type": "array", "items": {}, "maxItems": "2"}, "“maxItems” that isn't a whole number"),
    ({"enum": []}, "an empty “enum”"),
    ({"enum": "abc"}, "“enum” that isn't a list"),
    ({"anyOf": []}, "an empty “anyOf”"),
    ({"oneOf": []}, "an empty “oneOf”"),
    ({"type": []}, "an empty “type”"),
    ({"type": ["null", "integer"], "enum": ["a"]}, "no “enum” value of its “type”"),
    ({"allOf": [{"type": "string"}, {"type": "string"}]}, "parts that aren't objects"),
]


@pytest.mark.parametrize(("schema", "words"), CONTRADICTIONS, ids=range(len(CONTRADICTIONS)))
def test_what_nothing_can_fit_is_refused(schema: dict[str, Any], words: str) -> None:
    for whole in (schema, {"type": "object", "properties": {"x": schema}}):
        with pytest.raises(BadSetting) as caught:
            schema_to_gbnf(json.dumps(whole))
        assert caught.value.field == "json_schema"
        assert words in caught.value.sentence
    assert contradiction({"minimum": 2, "maximum": 2, "minItems": 0}) == ""


def test_places_are_named_also_behind_references() -> None:
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0}, "n": {"$ref": "#/$defs/n"}},
        "$defs": {
            "n": {"type": "number", "maximum": 1},
            "unused": {"type": "number", "minimum": 1},
        },
    }
    first, second = convert(schema).notes
    assert "“minimum” at #/properties/age, so" in first
    assert "“maximum” at #/$defs/n, so" in second


def test_many_places_are_counted() -> None:
    said = sentences([(f"#/{number}", ["minimum"]) for number in range(20)])
    assert len(said) == MAX_SENTENCES
    assert "13 more places" in said[-1]


def test_it_is_said_before_the_reply_begins(session: NativeSession, starter: Weights) -> None:
    prompt = starter.vocabulary.tokenize("How old?")
    schema = json.dumps({"type": "integer", "minimum": 3})
    request = session.add(prompt, Sampling(seed=1, json_schema=schema), max_tokens=5)
    session.run()
    events = session.of(request)
    (note,) = [event for event in events if isinstance(event, Note)]
    assert (note.kind, "“minimum”" in note.sentence) == ("schema_not_held", True)
    assert events.index(note) < events.index(session.tokens(request)[0])
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert note.sentence in ending.result.notes  # type: ignore[union-attr]
