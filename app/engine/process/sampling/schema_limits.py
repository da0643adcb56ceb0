"""What of a JSON schema its grammar does not hold, and what in it contradicts itself.

llama-cpp-python's converter decides by a few keywords what a part of a schema becomes, and passes
over the others without a word: a grammar cannot count to `minimum`, and of `anyOf` with `required`
beside it only `anyOf` is read. `unheld` goes the same way as the converter and names what it
leaves behind, as far as that could forbid anything.

    {"type": "integer", "minimum": 3}           minimum
    {"type": "string", "minimum": 3}            nothing: it says nothing about texts
    {"type": "string", "enum": ["a"]}           nothing: what may be chosen is a text
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from app.engine.protocol.bounds import shown, shown_text

Part = dict[str, Any]

_OF_TYPE: Final = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "contains", "minContains", "maxContains", "minItems",
              "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "patternProperties",
               "propertyNames", "minProperties", "maxProperties", "dependentRequired",
               "dependentSchemas", "dependencies"),
}  # fmt: skip
_OF_ALL: Final = ("$ref", "$dynamicRef", "type", "const", "enum", "oneOf", "anyOf", "allOf", "not",
                  "if")  # fmt: skip
_COUNTED: Final = (
    ("minItems", "maxItems"),
    ("minLength", "maxLength"),
    ("minProperties", "maxProperties"),
)
_MEASURED: Final = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
)
_FORMATS: Final = re.compile(r"uuid[1-5]?|date|time|date-time")


def contradiction(part: Part) -> str:
    """Why nothing fits this part, as words that follow "The JSON schema"; or ""."""
    for name in ("enum", "anyOf", "oneOf", "type"):
        if part.get(name) == [] and not (name == "oneOf" and "anyOf" in part):
            return f"has an empty “{name}”"
    if not isinstance(part.get("enum", []), list):
        return f"has an “enum” that isn't a list: {shown(part['enum'])}"
    for name, values in (("enum", part.get("enum", [])), ("const", [part.get("const")])):
        if name in part and values and not _of_its_types(part, values):
            return f"has no “{name}” value of its “type”"
    for pair in _COUNTED:
        for name in pair:
            count = part.get(name, 0)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                return f"has a “{name}” that isn't a whole number of at least 0: {shown(count)}"
    for low, high in (*_COUNTED, *_MEASURED):
        if _is_number(part.get(low)) and _is_number(part.get(high)) and part[low] > part[high]:
            return (
                f"has a “{low}” of {shown(part[low])} above its “{high}” of {shown(part[high])}, "
                "so nothing can match it"
            )
    return ""


def one_for_each_type(part: Part) -> list[Part]:
    """A part that may be of several types as parts of one, which all say the same; one of the
    values to choose from, if it has such."""
    if "const" in part or "enum" in part:
        name = "const" if "const" in part else "enum"
        values = _of_its_types(part, part["enum"] if name == "enum" else [part["const"]])
        rest = {key: value for key, value in part.items() if key not in ("type", name)}
        return [rest | {"enum": values}]
    return [{**part, "type": kind} for kind in part["type"]]


def _of_its_types(part: Part, values: list[Any]) -> list[Any]:
    """Those of the values that are of one of its types; all where a type is unknown."""
    kinds = part.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    if not all(kind in _TYPES for kind in listed):
        return values
    return [value for value in values if any(_is_of(value, kind) for kind in listed)]


def unheld(part: Part) -> list[str]:
    """The keywords of this part that its grammar does not hold, in the schema's order."""
    if branch_of(part) == "types":
        found = [name for one in one_for_each_type(part) for name in unheld(one)]
        return [name for name in part if name in found]
    held = _held(part)
    types = _types(part)
    return [name for name in part if name not in held and _says_something(name, part, types)]


def unheld_of_component(part: Part) -> list[str]:
    """The same for a part of an `allOf`, of which only the properties are read."""
    held = {"properties", "required", "type", "$ref"}
    return [n for n in part if n not in held and _says_something(n, part, _types(part))]


def branch_of(part: Part) -> str:
    """By which keyword the converter goes for this part, in its order; "type" for none of them."""
    kind = part.get("type")
    if "$ref" in part:
        return "$ref"
    for union in ("oneOf", "anyOf"):
        if part.get(union):
            return union
    if isinstance(kind, list):
        return "types"
    for values in ("const", "enum"):
        if values in part:
            return values
    if kind in (None, "object"):
        if "properties" in part or part.get("additionalProperties", True) is not True:
            return "properties"
        if "allOf" in part:
            return "allOf"
    if kind in (None, "array") and ("items" in part or "prefixItems" in part):
        listed = part.get("items") or part.get("prefixItems")
        return "prefixItems" if isinstance(listed, list) else "items"
    if kind in (None, "string"):
        if "pattern" in part:
            return "pattern"
        if _FORMATS.fullmatch(str(part.get("format", ""))):
            return "format"
        if "minLength" in part or "maxLength" in part:
            return "length"
    return "type"


def _held(part: Part) -> set[str]:
    """What the branch that the converter takes for this part reads."""
    branch = branch_of(part)
    if branch in ("const", "enum"):
        return _held_by_values(part, branch, part["enum"] if branch == "enum" else [part["const"]])
    return {
        "$ref": {"$ref"},
        "oneOf": {"oneOf"},
        "anyOf": {"anyOf"},
        "properties": {"type", "properties", "additionalProperties", *_held_required(part)},
        "allOf": {"type", "allOf"},
        "items": {"type", "items", "minItems", "maxItems"},
        "prefixItems": {"type", *_held_of_list(part)},
        "pattern": {"type", "pattern"},
        "format": {"type", "format"},
        "length": {"type", "minLength", "maxLength"},
    }.get(branch, {"type"})


def _held_by_values(part: Part, name: str, values: list[Any]) -> set[str]:
    """A type is held where all that may be chosen is of it."""
    kind = part.get("type")
    return {name, "type"} if all(_is_of(value, kind) for value in values) else {name}


def _held_required(part: Part) -> set[str]:
    required = part.get("required", [])
    known = part.get("properties", {})
    return {"required"} if all(name in known for name in required) else set()


def _held_of_list(part: Part) -> set[str]:
    """As many items as the list has."""
    items = part.get("items") or part.get("prefixItems")
    held = {"items", "prefixItems"}
    count = len(items) if isinstance(items, list) else 0
    if part.get("minItems", 0) <= count:
        held.add("minItems")
    if part.get("maxItems", count) >= count:
        held.add("maxItems")
    return held


def _says_something(name: str, part: Part, types: set[str]) -> bool:
    """Whether a keyword could forbid anything of these types."""
    if part[name] is {"additionalProperties": True, "uniqueItems": False}.get(name):
        return False
    if name in _OF_ALL:
        return True
    return any(name in _OF_TYPE[kind] for kind in types)


def _types(part: Part) -> set[str]:
    """The types that a part is about, as far as it says so; all of them if it does not."""
    kinds = part.get("type")
    given = set(kinds if isinstance(kinds, list) else [kinds])
    known = {"number" if kind == "integer" else kind for kind in given} & _OF_TYPE.keys()
    return known if kinds is not None else set(_OF_TYPE)


_TYPES: Final[dict[object, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "array": (list,),
    "object": (dict,), "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def _is_of(value: object, kind: object) -> bool:
    if isinstance(value, bool):
        return kind in (None, "boolean")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return kind is None or isinstance(value, _TYPES.get(kind, ()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sentences(found: Iterable[tuple[str, list[str]]]) -> list[str]:
    """One sentence for each place: `found` holds places and the keywords that are not held there.

    >>> sentences([("#/properties/age", ["minimum", "maximum"])])[0].partition(",")[0]
    "A grammar can't enforce the schema's “minimum” and “maximum” at #/properties/age"
    """
    said = []
    for place, names in found:
        *first, last = [f"“{name}”" for name in names]
        which = f"{', '.join(first)} and {last}" if first else last
        said.append(
            f"A grammar can't enforce the schema's {which} at {shown_text(place)}, so check the "
            "reply."
        )
    if len(said) > MAX_SENTENCES:
        more = len(said) - MAX_SENTENCES + 1
        rest = f"The schema has {more:,} more places that a grammar can't enforce."
        said = [*said[: MAX_SENTENCES - 1], rest]
    return said


MAX_SENTENCES: Final = 8
