"""What the window needs before the database is open: theme, zoom, geometry.

A copy of a few settings in a small file, read before the first paint so that the window
does not change its look a moment later. The database stays the truth: losing this file
costs one flicker.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Final

from app.chat.settings import Settings, as_stored, from_stored

NAMES: Final = (
    "theme",
    "zoom_percent",
    "window_geometry",
    "section_visible",
    "sidebar_visible",
    "sidebar_width",
    "send_key",
)
_FILE: Final = "first-look.json"
_MAX_BYTES: Final = 100_000


def read(data_dir: Path) -> Settings:
    """The settings as far as the file knows them; defaults where it is missing or wrong."""
    try:
        with (data_dir / _FILE).open("rb") as file:
            stored = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return Settings()
    if not isinstance(stored, dict):
        return Settings()
    return from_stored({name: stored[name] for name in NAMES if name in stored})[0]


def write(data_dir: Path, settings: Settings) -> None:
    """Replace the file in one step. That it cannot be written is no reason to complain."""
    text = json.dumps({name: as_stored(getattr(settings, name)) for name in NAMES})
    path = data_dir / _FILE
    beside = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
