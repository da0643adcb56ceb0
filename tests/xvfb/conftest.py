"""An X server for the session; each test starts its own program in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from x_server import XServer


@pytest.fixture(scope="session")
def x_server() -> Iterator[XServer]:
    with XServer() as server:
        yield server
