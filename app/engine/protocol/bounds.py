"""What a setting may hold, and the sentence for what it may not.

Everything that comes from a person or a file is checked here before anything runs: native
samplers assert, and an assertion ends the process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from app.refusal import Refusal

_MAX_SHOWN: Final = 40


class BadSetting(Refusal):
    """A value that cannot be used; `sentence` names the field and what it may be. `place`: line and
    column, from 1, where a text of several lines goes wrong."""

    def __init__(self, field: str, sentence: str, place: tuple[int, int] | None = None) -> None:
        super().__init__("bad_setting", sentence, field)
        self.field = field
        self.place = place


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be. `words` follows "must be"."""

    low: float
    high: float
    words: str
    whole: bool = False


def check_number(value: object, label: str, field: str, bounds: Bounds) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole and (bounds.whole or not isinstance(value, float)):
        kind = "a whole number" if bounds.whole else "a number"
        raise BadSetting(field, f"{label} must be {kind}, not {shown(value)}.")
    assert isinstance(value, int | float)
    # Compared before it is asked whether it is finite: an integer may be too large for a float.
    if not bounds.low <= value <= bounds.high or not math.isfinite(value):
        raise BadSetting(field, f"{label} must be {bounds.words}, not {shown(value)}.")


def check_switch(value: object, label: str, field: str) -> None:
    if not isinstance(value, bool):
        raise BadSetting(field, f"{label} must be on or off, not {shown(value)}.")


def check_text(value: object, label: str, field: str, *, most: int, least: int = 1) -> None:
    """A text of `least` to `most` bytes (UTF-8) that C can take: no NUL, no lone surrogate."""
    if not isinstance(value, str):
        raise BadSetting(field, f"{label} must be text, not {shown(value)}.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise BadSetting(field, f"{label} contains half a character (a lone surrogate).") from None
    if "\0" in value:
        raise BadSetting(field, f"{label} contains the character NUL, which isn't allowed.")
    if size < least:
        raise BadSetting(field, f"{label} is empty. Fill it in or remove it.")
    if size > most:
        raise BadSetting(field, f"{label} has {size:,} bytes; the limit is {most:,}.")


def check_list(value: object, label: str, field: str, *, most: int) -> None:
    if not isinstance(value, list | tuple):
        raise BadSetting(field, f"{label} must be a list, not {shown(value)}.")
    if len(value) > most:
        raise BadSetting(field, f"{label} has {len(value):,} entries; the limit is {most:,}.")


def shown(value: object) -> str:
    """A value as a sentence may quote it: never long, never over several lines."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of that size"
    if value == "":
        return "nothing"
    return _cut(str(value) if isinstance(value, int | float) else repr(value))


def shown_text(text: str) -> str:
    """The same for words that get no marks, or those of the sentence.

    >>> shown_text("it's\\nlong"), shown_text("x" * 99)[-3:]
    ("it's\\\\nlong", 'xx…')
    """
    return _cut("".join(repr(c)[1:-1] if not c.isprintable() else c for c in text))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
