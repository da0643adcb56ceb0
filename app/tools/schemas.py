"""JSON schemas of tools: bounded when they come, arguments checked against them, and forms.

The check knows what tools use (types, required and further names, lists of values, ranges, lengths,
`$ref` within the schema, any/one/all of). What it does not know (`pattern`, `format`, conditions)
it leaves to the server: patterns of a stranger can take for ever. Pure, no thread.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.tools.bounds import MAX_SCHEMA_CHARACTERS, MAX_SCHEMA_DEPTH

MAX_ARGUMENTS_CHARACTERS: Final = 1_000_000
MAX_FIELDS: Final = 24
MAX_CHOICES: Final = 200
_MAX_STEPS: Final = 20_000
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
_WORDS: Final = {
    "object": "an object { … }",
    "array": "a list [ … ]",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number",
    "number": "a number",
}


def schema_text(schema: object) -> tuple[str, str]:
    """A schema as JSON text, and why it cannot be used (empty: it can)."""
    if not isinstance(schema, dict):
        return "{}", "Its arguments aren't described by an object."
    try:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return "{}", "The description of its arguments can't be read."
    if len(text) > MAX_SCHEMA_CHARACTERS:
        return "{}", "The description of its arguments is too long."
    if _depth(schema) > MAX_SCHEMA_DEPTH:
        return "{}", "The description of its arguments is nested too deeply."
    if schema.get("type", "object") != "object":
        return "{}", "Its arguments aren't an object."
    return text, ""


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_SCHEMA_DEPTH:
        depth += 1
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [
            inner
            for each in nested
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def fingerprint(*texts: str) -> str:
    """Of what a person has seen when allowing a tool."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def read_arguments(text: str) -> tuple[dict[str, Any], str]:
    """Arguments as JSON text, and what is wrong with them (empty: nothing)."""
    if len(text) > MAX_ARGUMENTS_CHARACTERS:
        return {}, "The arguments are too long."
    try:
        found = json.loads(text.strip() or "{}", parse_constant=_refuse)
    except RecursionError:
        return {}, "The arguments are nested too deeply."
    except json.JSONDecodeError as error:
        return {}, f"The arguments aren't valid JSON: {error.msg} (line {error.lineno})."
    except ValueError as error:
        return {}, str(error)
    if not isinstance(found, dict):
        return {}, "The arguments must be one JSON object: { … }."
    if _depth(found) > MAX_SCHEMA_DEPTH:
        return {}, "The arguments are nested too deeply."
    return found, ""


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} isn't a number that can be sent.")


def trouble(arguments: Mapping[str, Any], schema: str) -> str:
    """The first thing in the arguments that the schema does not allow, as a sentence; or "".

    >>> trouble({"city": 3}, '{"properties": {"city": {"type": "string"}}}')
    '“city” must be text.'
    """
    root = json.loads(schema)
    if not isinstance(root, dict):
        return ""
    check = _Check(root)
    try:
        return next(check.troubles(dict(arguments), root, "", 0), "")
    except _TooMuch:
        return ""  # the server decides


class _TooMuch(Exception):  # noqa: N818
    """A schema that leads in circles."""


class _Check:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._steps = 0

    def troubles(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        self._steps += 1
        if self._steps > _MAX_STEPS or depth > 2 * MAX_SCHEMA_DEPTH:
            raise _TooMuch
        if schema is False:
            yield f"{_named(place)} isn't allowed."
        if not isinstance(schema, dict):
            return
        if isinstance(schema.get("$ref"), str):
            yield from self.troubles(value, self._found(schema["$ref"]), place, depth + 1)
        yield from _own_troubles(value, schema, place)
        for each in _list(schema.get("allOf")):
            yield from self.troubles(value, each, place, depth + 1)
        for several in (_list(schema.get("anyOf")), _list(schema.get("oneOf"))):
            if several and not any(self._is_one(value, each, place, depth) for each in several):
                first = next(self.troubles(value, several[0], place, depth + 1), "")
                yield first if len(several) == 1 else f"{_named(place)} fits none of its forms."
        if isinstance(value, dict):
            yield from self._in_object(value, schema, place, depth)
        if isinstance(value, list):
            items = schema.get("items")
            for number, each in enumerate(value):
                yield from self.troubles(each, items, f"{place}[{number + 1}]", depth + 1)

    def _is_one(self, value: Any, schema: Any, place: str, depth: int) -> bool:
        return next(self.troubles(value, schema, place, depth + 1), None) is None

    def _in_object(
        self, value: dict[str, Any], schema: dict[str, Any], place: str, depth: int
    ) -> Iterator[str]:
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        for name in _list(schema.get("required")):
            if isinstance(name, str) and name not in value:
                yield f"“{_joined(place, name)}” is missing."
        further = schema.get("additionalProperties", True)
        for name, each in value.items():
            inner = known.get(name, further if "patternProperties" not in schema else True)
            if name not in known and inner is False:
                yield f"There is no argument “{_joined(place, name)}”."
            else:
                yield from self.troubles(each, inner, _joined(place, name), depth + 1)

    def _found(self, ref: str) -> Any:
        """What a `#/…` points to; everything fits one that leads nowhere."""
        at: Any = self._root
        if not ref.startswith("#"):
            return True
        for part in ref[1:].strip("/").split("/") if ref.strip("#/") else ():
            part = part.replace("~1", "/").replace("~0", "~")
            at = at.get(part) if isinstance(at, dict) else None
        return True if at is None else at


def _own_troubles(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    """What the schema says of the value itself, and not of what is in it."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else _list(kinds)
    known = [kind for kind in kinds if kind in _WORDS]
    if known and not any(_is_kind(value, kind) for kind in known):
        yield f"{_named(place)} must be {' or '.join(_WORDS[kind] for kind in known)}."
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_same(value, each) for each in choices):
        some = ", ".join(_shown(each) for each in choices[:8])
        more = ", …" if len(choices) > 8 else ""
        yield f"{_named(place)} must be one of {some}{more}."
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{_named(place)} must be {_shown(schema['const'])}."
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_troubles(value, schema, place)
    if isinstance(value, str):
        yield from _length_troubles(len(value), schema, "Length", "characters", place)
    if isinstance(value, list):
        yield from _length_troubles(len(value), schema, "Items", "entries", place)


def _number_troubles(value: float, schema: dict[str, Any], place: str) -> Iterator[str]:
    low, high = _number(schema.get("minimum")), _number(schema.get("maximum"))
    above, below = _number(schema.get("exclusiveMinimum")), _number(schema.get("exclusiveMaximum"))
    if low is not None and value < low:
        yield f"{_named(place)} must be at least {low:g}."
    if high is not None and value > high:
        yield f"{_named(place)} must be at most {high:g}."
    if above is not None and value <= above:
        yield f"{_named(place)} must be more than {above:g}."
    if below is not None and value >= below:
        yield f"{_named(place)} must be less than {below:g}."


def _length_troubles(
    length: int, schema: dict[str, Any], what: str, words: str, place: str
) -> Iterator[str]:
    low, high = _number(schema.get(f"min{what}")), _number(schema.get(f"max{what}"))
    if low is not None and length < low:
        yield f"{_named(place)} needs at least {low:g} {words}."
    if high is not None and length > high:
        yield f"{_named(place)} can have at most {high:g} {words}."


def _is_kind(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and (kind == "number" or float(value).is_integer())
    return isinstance(value, _KINDS[kind])


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"“{text[:60]}”" if isinstance(value, str) else text[:60]


def _named(place: str) -> str:
    return f"“{place}”" if place else "The whole"


def _joined(place: str, name: str) -> str:
    return (f"{place}.{name}" if place else name)[:120]


@dataclass(frozen=True, slots=True)
class FormField:
    """One argument that a form can ask for. `choices` are of a list of texts, else empty."""

    name: str
    kind: Literal["text", "lines", "whole", "number", "switch", "choice"]
    description: str = ""
    is_required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


def form_fields(schema: str) -> tuple[FormField, ...] | None:
    """The fields of a form for these arguments; None where a form cannot hold them (nested ones,
    too many): then they are edited as JSON. No argument at all is an empty form."""
    root = json.loads(schema)
    properties = root.get("properties", {}) if isinstance(root, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        return None
    if any(name in root for name in ("anyOf", "oneOf", "allOf", "$ref", "patternProperties")):
        return None
    required = {name for name in _list(root.get("required")) if isinstance(name, str)}
    fields = [_field(name, each, name in required) for name, each in properties.items()]
    found = tuple(field for field in fields if field is not None)
    return found if len(found) == len(fields) else None


def _field(name: str, schema: Any, is_required: bool) -> FormField | None:
    if not isinstance(schema, dict):
        return None
    schema = _without_null(schema)
    described, default = schema.get("description"), schema.get("default")
    description = described[:500] if isinstance(described, str) else ""
    choices = schema.get("enum")
    if isinstance(choices, list):
        if not all(isinstance(each, str) for each in choices) or len(choices) > MAX_CHOICES:
            return None
        return FormField(name, "choice", description, is_required, tuple(choices), default)
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        is_texts = isinstance(items, dict) and items.get("type") == "string" and "enum" not in items
        return FormField(name, "lines", description, is_required, (), default) if is_texts else None
    kinds: dict[Any, Literal["text", "whole", "number", "switch"]] = {
        "string": "text",
        "integer": "whole",
        "number": "number",
        "boolean": "switch",
    }
    found = kinds.get(kind) if isinstance(kind, str) else None
    return FormField(name, found, description, is_required, (), default) if found else None


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """`string or null`, as many servers describe what may be left out, is a string."""
    for several in ("anyOf", "oneOf"):
        forms = [f for f in _list(schema.get(several)) if f != {"type": "null"}]
        if len(forms) == 1 and isinstance(forms[0], dict):
            return {**{k: v for k, v in schema.items() if k != several}, **forms[0]}
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        if len(others) == 1:
            return {**schema, "type": others[0]}
    return schema
