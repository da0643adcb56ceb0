"""What another app has written, where anything may stand: read as what it should be, or as none."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

MAX_YAML: Final = 32 * 1024
_MAX_BRACKETS: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI_FROM: Final = 100_000_000_000
"""Seconds up to the year 5138; what is larger counts in milliseconds, or in less."""


def text(value: object) -> str:
    """Text with line ends as they are here; "" for what is none."""
    if not isinstance(value, str):
        return ""
    if "\r" in value:
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    return value


def line(value: object) -> str:
    """On one line, for titles and names."""
    return " ".join(text(value).replace("\0", " ").split())[:500]


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def mappings(value: object) -> Iterator[dict[str, Any]]:
    """Those elements of a list that are objects."""
    return (each for each in listed(value) if isinstance(each, dict))


def yaml_value(text: str) -> Any:
    """None for what can't be read. Its reader can't be stopped, so what takes it long is not read:
    it needs a second for 80,000 characters, or for 6,000 brackets in each other."""
    if len(text) > MAX_YAML or text.count("[") + text.count("{") > _MAX_BRACKETS:
        return None
    import yaml  # type: ignore[import-untyped] # late: only where somebody imports one

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def unquoted(value: str) -> str:
    """The text that is meant where an app has written it as JSON, perhaps twice."""
    for _ in range(2):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if not isinstance(found, str):
            return value
        value = found
    return value


def key(value: object) -> str:
    """An id, which some apps write as a number; "" for none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value)[:500]


def number(value: object) -> float | None:
    """Also of a text that is one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:  # an int of 400 digits
        return None
    return value if math.isfinite(value) else None


def time(value: object) -> datetime | None:
    """Seconds, milli-, micro- or nanoseconds since 1970, as number or text; or ISO 8601.
    Without a zone it is UTC.

    >>> time("1700000000.5") == time(1700000000500) == time("2023-11-14T22:13:20.5Z")
    True
    """
    seconds = number(value)
    if seconds is not None:
        while abs(seconds) >= _MILLI_FROM:
            seconds /= 1000
        try:
            return _EPOCH + timedelta(seconds=seconds) if seconds else None
        except OverflowError:
            return None
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
