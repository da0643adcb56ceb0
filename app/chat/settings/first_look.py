"""What the window needs before the database is open: theme, zoom, geometry.

A copy of a few settings in a small file, read before the first paint so that the window
does not change its look a moment later. The database stays the truth: losing this file
costs one flicker.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from app.chat.settings.settings import Settings

NAMES: Final = (
    "theme",
    "zoom_percent",
    "window_geometry",
    "section_visible",
    "section_width",
    "section_panel",
    "sidebar_visible",
    "sidebar_width",
    "send_key",
    "font_text",
    "font_reading",
    "font_mono",
    "text_px",
    "reading_px",
)
_FILE: Final = "first-look.json"
_MAX_BYTES: Final = 100_000


def read(data_dir: Path) -> Settings:
    """The settings as far as the file knows them; defaults where it is missing or wrong."""
    from app.chat.settings.settings import from_stored

    return from_stored(peek(data_dir))[0]


def peek(data_dir: Path) -> dict[str, Any]:
    """What the file says, unchecked: for the first frame, which must not wait for the settings
    to be imported."""
    try:
        with (data_dir / _FILE).open("rb") as file:
            stored = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {name: stored[name] for name in NAMES if name in stored}


def write(data_dir: Path, settings: Settings) -> None:
    """Replace the file in one step. That it cannot be written is no reason to complain."""
    from app.chat.settings.settings import as_stored

    text = json.dumps({name: as_stored(getattr(settings, name)) for name in NAMES})
    path = data_dir / _FILE
    beside = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
