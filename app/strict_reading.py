"""Values that people wrote (a JSON file) become typed ones, or a sentence that names the place.

The types are those of the wire (`app/engine/protocol/`), so nothing is listed twice. But where the
wire lets unknown fields pass, here each is refused, with the nearest known name:

    {"stage": "top_p", "keep": 1}   →   Unknown setting “keep” in stage 1 (top_p). Did
                                        you mean “min_keep”?
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

import msgspec
from msgspec import inspect

from app.engine.protocol.frames import clean_text
from app.refusal import Refusal, bad_setting

STAGE: Final = "stage"
"""The field that tells which of several structs a JSON object is."""


def decode_object(text: str) -> dict[str, Any]:
    """One JSON object. Refuses what Python would let pass: NaN, Infinity, a name given twice.

    >>> decode_object('{"temperature": NaN}')
    Traceback (most recent call last):
    app.refusal.Refusal: NaN isn't a valid number; found near “temperature”.
    """

    def refuse(word: str) -> NoReturn:
        near = re.findall(r'"([^"\\]*)"\s*:[^:"]*' + re.escape(word), text)
        where = f"; found near “{near[0]}”" if near else ""
        raise bad_setting(f"{word} isn't a valid number{where}.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise bad_setting(f"“{name}” appears twice. Keep one of them.")
        return dict(pairs)

    value = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    if not isinstance(value, dict):
        raise bad_setting("It must contain one JSON object: { … }.")
    return value


def unknown(name: str, known: Iterable[str], where: str) -> Refusal:
    """The refusal of a name, with the one that was probably meant."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, 0.6)
    near = [other for other in names if name and other.startswith(name)] or near
    hint = f" Did you mean “{near[0]}”?" if near else ""
    return bad_setting(f"Unknown setting “{name}” in {where}.{hint}")


@functools.cache  # msgspec reads the annotations anew each time, and settings are read often
def field_types(struct: type[msgspec.Struct]) -> Mapping[str, inspect.Type]:
    """The types of a struct's fields."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {field.name: field.type for field in info.fields}


def read_fields(
    values: Mapping[str, Any], types: Mapping[str, inspect.Type], where: str
) -> dict[str, Any]:
    """Check each value against the type of its name. Raises Refusal."""
    for name in values:
        if name not in types:
            raise unknown(name, types, where)
    return {name: read_value(value, types[name], _place(name, where)) for name, value in
            values.items()}  # fmt: skip


def read_struct(struct: type[msgspec.Struct], value: object, where: str) -> Any:
    """A JSON object as `struct`. Raises Refusal."""
    if not isinstance(value, dict):
        raise bad_setting(f"{_upper(where)} must be an object, not {_what(value)}.")
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    for name in required:
        if name not in value:
            raise bad_setting(f"“{name}” is missing in {where}.")
    return struct(**read_fields(value, field_types(struct), where))


def read_value(value: object, kind: inspect.Type, place: str) -> Any:
    """One value as the type says. Raises Refusal, naming `place`."""
    if isinstance(kind, inspect.UnionType):
        others = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        if value is None and len(others) < len(kind.types):
            return None
        if len(others) > 1:
            return read_stage(value, [one.cls for one in others], place)  # type: ignore[attr-defined]
        return read_value(value, others[0], place)
    if isinstance(kind, inspect.StructType):
        return read_struct(kind.cls, value, place)
    if isinstance(kind, inspect.ListType):
        if not isinstance(value, list):
            raise bad_setting(f"{_upper(place)} must be a list, not {_what(value)}.")
        return [
            read_value(item, kind.item_type, f"item {number} of {place}")
            for number, item in enumerate(value, 1)
        ]
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            choices = ", ".join(f"“{choice}”" for choice in kind.values)
            raise bad_setting(f"{_upper(place)} must be one of {choices}, not {_what(value)}.")
        return value
    return _read_plain(value, kind, place)


def read_stage(value: object, structs: list[type[msgspec.Struct]], place: str) -> Any:
    """A JSON object whose `stage` says which struct it is."""
    if not isinstance(value, dict):
        raise bad_setting(f"{_upper(place)} must be an object, not {_what(value)}.")
    named = {snake(struct.__name__): struct for struct in structs}
    name = value.get(STAGE)
    if name is None:
        raise bad_setting(f"“{STAGE}” is missing in {place}. It is one of {', '.join(named)}.")
    if not isinstance(name, str) or name not in named:
        raise unknown(str(name), named, f"“{STAGE}” of {place}")
    rest = {key: item for key, item in value.items() if key != STAGE}
    return read_struct(named[name], rest, f"{place} ({name})")


@functools.cache
def snake(name: str) -> str:
    """A class name as it stands in a file.

    >>> snake("TopNSigma"), snake("MirostatV2"), snake("TopK")
    ('top_n_sigma', 'mirostat_v2', 'top_k')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _read_plain(value: object, kind: inspect.Type, place: str) -> Any:
    is_bool = isinstance(value, bool)
    if isinstance(kind, inspect.BoolType) and is_bool:
        return value
    if isinstance(kind, inspect.StrType) and isinstance(value, str):
        return clean_text(value)
    if isinstance(kind, inspect.IntType) and not is_bool:
        if isinstance(value, int):
            if abs(value) < 2**63:
                return value
            raise bad_setting(f"{_upper(place)} is too large a number.")
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            return int(value)
    is_number = isinstance(value, int | float) and not is_bool
    if isinstance(kind, inspect.FloatType) and is_number:
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        if math.isnan(number):
            raise bad_setting(f"{_upper(place)} must be a number, not NaN.")
        raise bad_setting(f"{_upper(place)} is too large a number.")
    raise bad_setting(f"{_upper(place)} must be {_WANTED[type(kind)]}, not {_what(value)}.")


_WANTED: Final[dict[type[inspect.Type], str]] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
}


def _what(value: object) -> str:
    """How a wrong value is called.

    >>> _what([1]), _what(True), _what("x" * 100), _what(None)
    ('a list', 'true', 'the text “xxxxxxxxxxxxxxxxxxxx…”', 'null')
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text “{value if len(value) <= 20 else value[:20] + '…'}”"
    if isinstance(value, int | float):
        text = f"{value:g}" if isinstance(value, float) else str(value)[:20]
        return f"the number {text}"
    return "a list" if isinstance(value, list) else "an object"


def _place(name: str, where: str) -> str:
    return f"“{name}” in {where}"


def _upper(place: str) -> str:
    return place[:1].upper() + place[1:]
