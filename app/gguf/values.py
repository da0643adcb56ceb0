"""Metadata values as people type them, and as a GGUF stores them."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Final

from app.gguf.header import ARRAY, KIND_NAMES, SCALARS, STRING, Scalar, Value
from app.refusal import bad_setting

MAX_ITEMS: Final = 4096
"""Of an array that is typed."""
MAX_TYPED_BYTES: Final = 1 << 20
"""Of one text: a chat template has some thousand."""

_KIND_OF: Final = {name: kind for kind, name in KIND_NAMES.items()}
_BOOLS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_FLOATS: Final = frozenset({_KIND_OF["float32"], _KIND_OF["float64"]})
_BOOL: Final = _KIND_OF["bool"]

KIND_CHOICES: Final = tuple(name for name in KIND_NAMES.values() if name != "array")
"""The kinds of one value, as `Entry.kind_name` says them."""


@dataclass(frozen=True, slots=True)
class NewValue:
    """`kind` and `item_kind` are GGUF's value types; the latter counts for arrays alone."""

    kind: int
    item_kind: int
    value: Value

    def encoded(self) -> bytes:
        """As the file has it: the type, then the value."""
        if not isinstance(self.value, list):
            return struct.pack("<I", self.kind) + _encoded(self.kind, self.value)
        items = b"".join(_encoded(self.item_kind, item) for item in self.value)
        return struct.pack("<IIQ", ARRAY, self.item_kind, len(self.value)) + items


def value_typed(kind_name: str, text: str) -> NewValue:
    """The value that `text` says, of a kind as `Entry.kind_name` has it. Arrays are typed as JSON.
    Raises Refusal.

    >>> value_typed("uint32", "8192").encoded().hex()
    '0400000000200000'
    """
    name, _, item_name = kind_name.partition(" of ")
    kind = _KIND_OF[name]
    if kind != ARRAY:
        return NewValue(kind, 0, _scalar_typed(kind, text))
    item_kind = _KIND_OF[item_name]
    return NewValue(ARRAY, item_kind, [_checked(item_kind, item) for item in _list_typed(text)])


def text_of_value(value: Value) -> str:
    """A value as it is typed: what `value_typed` reads back."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _scalar_typed(kind: int, text: str) -> Scalar:
    if kind == STRING:
        return _checked(kind, text)
    plain = text.strip().replace(",", "").replace("_", "")
    if kind == _BOOL:
        if plain.lower() not in _BOOLS:
            raise bad_setting("Enter true or false.")
        return _BOOLS[plain.lower()]
    try:
        return _checked(kind, float(plain) if kind in _FLOATS else int(plain, 10))
    except ValueError as error:
        raise bad_setting(f"Enter a {_number_words(kind)}.") from error


def _list_typed(text: str) -> list[object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_setting(
            'Enter a list in JSON format, for example [1, 2] or ["en", "de"].'
        ) from error
    if not isinstance(found, list):
        raise bad_setting("Enter a list in square brackets.")
    if len(found) > MAX_ITEMS:
        raise bad_setting(f"Lists of more than {MAX_ITEMS:,} items can't be edited here.")
    return found


def _checked(kind: int, value: object) -> Scalar:
    """The value, if a file can hold it as this kind."""
    if kind == STRING:
        return _checked_text(value)
    if kind == _BOOL:
        if not isinstance(value, bool):
            raise bad_setting("Enter true or false.")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_setting(f"Enter a {_number_words(kind)}.")
    if kind in _FLOATS:
        return _checked_float(kind, value)
    if not isinstance(value, int):
        raise bad_setting(f"Enter a {_number_words(kind)}.")
    try:
        struct.pack(SCALARS[kind], value)
    except struct.error as error:
        low, high = _range(kind)
        raise bad_setting(f"Enter a number from {low:,} to {high:,}.") from error
    return value


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise bad_setting("Put each text in quotation marks.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise bad_setting("This text has a broken character. Type it again.") from error
    if size > MAX_TYPED_BYTES:
        raise bad_setting("Texts are limited to 1 MB. Shorten it.")
    return value


def _checked_float(kind: int, value: float) -> float:
    try:
        number = float(value)
        struct.pack(SCALARS[kind], number)
    except (OverflowError, struct.error) as error:
        raise bad_setting("This number is too large for its type.") from error
    if not math.isfinite(number):
        raise bad_setting("Enter a finite number.")
    return number


def _encoded(kind: int, value: Scalar) -> bytes:
    if kind == STRING:
        data = str(value).encode()
        return struct.pack("<Q", len(data)) + data
    return struct.pack(SCALARS[kind], value)


def _range(kind: int) -> tuple[int, int]:
    form = SCALARS[kind]
    bits = 8 * struct.calcsize(form)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if form[1].islower() else (0, (1 << bits) - 1)


def _number_words(kind: int) -> str:
    return "number, for example 0.5" if kind in _FLOATS else "whole number"
