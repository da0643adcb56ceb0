"""What the system's keyring keeps for us, each under a service and a name.

It may ask the user and wait, so all of this belongs on a thread beside the window's. Nothing here
raises or logs a text that could hold a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.refusal import Refusal

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

_log = logging.getLogger(__name__)


def _backend() -> KeyringBackend | None:
    """The system's keyring, if there is one that keeps anything."""
    import keyring
    from keyring.backends import fail, null

    backend = keyring.get_keyring()
    if isinstance(backend, fail.Keyring | null.Keyring) or backend.priority <= 0:
        return None
    return backend


def read(service: str, name: str, checked: Callable[[str], str]) -> str | None:
    """What is kept there, if `checked` takes it."""
    try:
        backend = _backend()
        found = backend.get_password(service, name) if backend is not None else None
        return checked(found) if found else None
    except Refusal:
        return None
    except Exception as error:  # noqa: BLE001 - each system's keyring fails in its own ways
        _log.warning("the keyring cannot be read: %s", type(error).__name__)
        return None


def keep(service: str, name: str, secret: str) -> bool:
    """Whether it is kept there now."""
    try:
        backend = _backend()
        if backend is None:
            return False
        backend.set_password(service, name, secret)
        # Some keep nothing and say nothing.
        return backend.get_password(service, name) == secret
    except Exception as error:  # noqa: BLE001 - its text may hold the secret
        _log.warning("the keyring keeps nothing: %s", type(error).__name__)
        return False


def forget(service: str, name: str) -> bool:
    """False: the keyring would not let go of it."""
    try:
        backend = _backend()
        if backend is not None:
            backend.delete_password(service, name)
    except Exception as error:  # noqa: BLE001
        _log.warning("the keyring does not let go: %s", type(error).__name__)
        return False
    return True
