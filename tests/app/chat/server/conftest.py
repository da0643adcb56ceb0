"""No test of the server touches the keyring of whoever runs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from keyring_ring import Ring, in_use


@pytest.fixture(autouse=True)
def ring() -> Iterator[Ring]:
    with in_use(made := Ring()):
        yield made
