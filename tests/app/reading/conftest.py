"""Documents read in this process, without its limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.reading.document import MAX_FILE_BYTES, Document
from app.reading.files import opened
from app.reading.kinds import reader_of


@pytest.fixture(scope="session")
def read_here() -> Callable[[Path], Document]:
    def read(path: Path) -> Document:
        with opened(str(path), path.name, MAX_FILE_BYTES) as file:
            return reader_of(file, path.name, lambda done, total: None)(file, path.name)

    return read
