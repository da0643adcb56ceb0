"""Values of tool servers that are secret: in the system's keyring, one entry for each server.

An entry is bound to what it was entered for: a command, or the origin of an address. A server that
is changed later, by hand in the database too, gets no value that was meant for another. Where there
is no keyring they are kept for this run, and `keep` says so. The keyring may ask the user and wait,
so all of it belongs on a thread beside the window's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Final

from app.hub import kept_secrets
from app.hub.address import origin_of
from app.tools.servers import ToolServer

SERVICE: Final = "Cutaway tool server"
THIS_RUN_ONLY: Final = (
    "This system has no keyring, so the secret values are kept only until Cutaway closes."
)


def name_of(server: ToolServer) -> str:
    """Under which name the keyring has the values of a server as it is now."""
    return f"{server.id} {origin_of(server.address) if server.is_by_address else server.command}"


class ToolSecrets:
    """Known for this run once they were read. `repr` shows none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return "<ToolSecrets>"

    def read(self, server: ToolServer) -> dict[str, str]:
        """The values of its secrets; those that are nowhere are left out."""
        if not server.secrets:
            return {}
        name = name_of(server)
        with self._lock:
            known = self._known.get(name)
        if known is None:
            text = kept_secrets.read(SERVICE, name, str)
            with self._lock:
                known = self._known.setdefault(name, _read(text or ""))
        return {each: known[each] for each in server.secrets if each in known}

    def keep(self, server: ToolServer, values: Mapping[str, str]) -> bool:
        """Keep these, and no others, of a server. False: for this run only."""
        name = name_of(server)
        with self._lock:
            self._known[name] = dict(values)
        if not values:
            kept_secrets.forget(SERVICE, name)
            return True
        return kept_secrets.keep(SERVICE, name, json.dumps(dict(values)))

    def forget(self, server: ToolServer) -> None:
        if server.secrets:
            with self._lock:
                self._known.pop(name_of(server), None)
            kept_secrets.forget(SERVICE, name_of(server))


def _read(text: str) -> dict[str, str]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return (
        {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    )
