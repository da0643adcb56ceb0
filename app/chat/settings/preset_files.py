"""A preset as a file: Cutaway's own (JSON), or another app's (`foreign_presets`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.chat.settings import foreign_presets
from app.chat.settings.resolved import SHAPING, taken
from app.chat.settings.settings import as_stored

MAX_BYTES: Final = 4 * 1024 * 1024
FORMAT: Final = "cutaway-preset"


@dataclass(frozen=True, slots=True)
class PresetFile:
    """`left_out`: settings of it that Cutaway doesn't have or that can't be, by name."""

    name: str
    values: dict[str, Any]
    left_out: tuple[str, ...] = ()


def read(text: str, name: str) -> PresetFile | None:
    """None: it holds no preset. `name`: the file's, which another app's preset is called by."""
    try:
        content = json.loads(text) if len(text) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.get("format") == FORMAT:
        value = content.get("value")
        value = value if isinstance(value, dict) else {}
        values = as_kept(value)
        left_out = tuple(str(each)[:40] for each in value if each not in values)
        return PresetFile(str(content.get("name", "")), values, left_out)
    found = foreign_presets.read(text[:MAX_BYTES])
    return None if found is None else PresetFile(name, as_kept(found.values), found.left_out)


def written(name: str, values: Mapping[str, Any]) -> str:
    content = {"format": FORMAT, "name": name, "value": values}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of these values a preset can hold, as JSON."""
    return {name: as_stored(value) for name, value in taken(values, SHAPING).items()}
