"""Paths as people type them. `pathlib` raises where a person only mistyped something."""

from __future__ import annotations

import contextlib
from pathlib import Path


def typed_path(text: str | Path) -> Path:
    """The absolute path; `~` is the home folder, and a `~name` that nobody has stays as it is."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):  # no such user, or no home folder
        path = path.expanduser()
    return path.absolute()


def is_file(path: Path) -> bool:
    """Whether a file can be seen there: no also where the path is too long or may not be seen."""
    try:
        return path.is_file()
    except OSError:
        return False
