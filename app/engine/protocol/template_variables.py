"""Variables that somebody gives a chat template: a JSON object, as text.

{"enable_thinking": false, "tools_in_user_message": true, "date_string": "1 Jan 2030"}
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from app.engine.protocol.bounds import BadSetting

FIELD: Final = "template_variables"
MAX_CHARACTERS: Final = 100_000
MAX_NAMES: Final = 100
MAX_NAME_LENGTH: Final = 100
MAX_DEPTH: Final = 16
_LARGEST: Final = 2**63
OWN: Final = ("messages", "add_generation_prompt", "bos_token", "eos_token")
"""What every template gets from the chat and the file."""


def read_variables(text: str) -> dict[str, Any]:
    """Name → value; an empty text gives none. Raises BadSetting."""
    if not text.strip():
        return {}
    if len(text) > MAX_CHARACTERS:
        raise BadSetting(FIELD, f"Template variables are limited to {MAX_CHARACTERS:,} characters.")
    try:
        values = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadSetting(FIELD, f"Template variables aren't valid JSON ({where}).") from error
    except (ValueError, RecursionError) as error:
        raise BadSetting(FIELD, "Template variables aren't valid JSON.") from error
    if not isinstance(values, dict):
        raise BadSetting(FIELD, 'Write template variables as an object, like {"name": true}.')
    if len(values) > MAX_NAMES:
        raise BadSetting(FIELD, f"At most {MAX_NAMES} template variables can be set.")
    for name, value in values.items():
        if not name.isidentifier() or len(name) > MAX_NAME_LENGTH:
            raise BadSetting(FIELD, f"“{name[:40]}” can't be the name of a template variable.")
        if name in OWN:
            raise BadSetting(FIELD, f"“{name}” is filled in by the chat and can't be set.")
        _check(name, value, MAX_DEPTH)
    return values


def _refuse(constant: str) -> None:
    """What Python's JSON has, and JSON has not: NaN, Infinity."""
    raise BadSetting(FIELD, f"Template variables can't hold {constant}.")


def _check(name: str, value: object, depth: int) -> None:
    """What no frame could carry is refused."""
    if depth == 0:
        raise BadSetting(FIELD, f"The value of “{name}” is nested too deeply.")
    if isinstance(value, int | float) and not (-_LARGEST <= value < _LARGEST):
        raise BadSetting(FIELD, f"The value of “{name}” holds a number that is too large.")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadSetting(FIELD, f"The value of “{name}” holds a number that is too large.")
    if isinstance(value, str) and not _is_text(value):
        raise BadSetting(FIELD, f"The value of “{name}” holds broken characters.")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inside:
        _check(name, each, depth - 1)
    for key in value if isinstance(value, dict) else ():
        _check(name, key, depth - 1)


def _is_text(text: str) -> bool:
    """No lone surrogates, which JSON can spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(values: dict[str, Any]) -> str:
    """The text that `read_variables` reads back."""
    return json.dumps(values, ensure_ascii=False) if values else ""
