"""A keyring of this test: it keeps what it is given; may refuse, or only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keyring
from keyring.backend import KeyringBackend
from keyring.backends import fail


class Ring(KeyringBackend):
    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.refuses = False
        self.n_reads = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.n_reads += 1
        if self.refuses:
            raise RuntimeError("locked; sk-one")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.refuses:
            raise RuntimeError(f"cannot keep {password}")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.refuses:
            raise RuntimeError("locked")
        del self.kept[service, username]


@contextmanager
def in_use(backend: KeyringBackend) -> Iterator[KeyringBackend]:
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    try:
        yield backend
    finally:
        keyring.set_keyring(before)


def no_ring() -> KeyringBackend:
    """What the library gives where a system has none."""
    return fail.Keyring()
