"""What another program sees of a data folder: the database, read-only, while it is in use."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any


def rows(data_dir: Path, question: str, *values: object) -> list[tuple[Any, ...]]:
    """Nothing while the database is not made yet, or busy: look again."""
    for path in data_dir.glob("db/*.sqlite3"):
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as base,
        ):
            return base.execute(question, values).fetchall()
    return []


def setting(data_dir: Path, name: str) -> Any:
    found = rows(data_dir, "SELECT value FROM setting WHERE name = ?", name)
    return json.loads(found[0][0]) if found else None
