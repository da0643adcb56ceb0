"""Keys for servers of one's own choosing: in the system's keyring, and nowhere else.

A key is bound to where it was entered for: `name_of` an engine and the origin of its address, so
that an address that is changed later, by hand in the database too, gets none that was meant for
another. Where there is no keyring a key is kept for this run only. The keyring may ask the user and
wait: `key`, `keep` and `forget` belong on a thread beside the window's.
"""

from __future__ import annotations

import threading
from typing import Final, Literal

from app.hub import kept_secrets
from app.hub.address import origin_of
from app.refusal import bad_setting

SERVICE: Final = "Cutaway engine key"
MAX_LENGTH: Final = 4_096
Where = Literal["keyring", "this run"]

THIS_RUN_ONLY: Final = "This system has no keyring, so the key is kept only until Cutaway closes."
STILL_THERE: Final = (
    "The key was removed from Cutaway but couldn't be deleted from the system keyring. Delete "
    f"“{SERVICE}” there."
)


def checked_key(text: str) -> str:
    """The key as it is sent. Raises Refusal, with a sentence that does not repeat it."""
    key = text.strip()
    if not key:
        raise bad_setting("Paste a key first, or leave it out if the server needs none.")
    if len(key) > MAX_LENGTH or not key.isascii() or not key.isprintable() or " " in key:
        raise bad_setting(
            "This isn't a key: it must be one word of plain letters, digits and signs. Copy it "
            "again."
        )
    return key


def name_of(engine_id: str, url: str) -> str:
    """Under which name the keyring has the key of an engine at this address."""
    return f"{engine_id} {origin_of(url)}"


class EngineKeys:
    """Known for this run by their names; read from the keyring once where one was kept there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return "<EngineKeys>"

    def has_for_now(self, name: str) -> bool:
        """Whether a key is known in this run."""
        with self._lock:
            return name in self._known

    def key(self, engine_id: str, url: str, key_name: str) -> str | None:
        """The key to send to this address. `key_name`: what the settings say is in the keyring;
        another name than that of this address is not asked for."""
        name = name_of(engine_id, url)
        with self._lock:
            known = self._known.get(name)
        if known is not None or key_name != name:
            return known
        found = kept_secrets.read(SERVICE, name, checked_key)
        if found is not None:
            with self._lock:
                found = self._known.setdefault(name, found)
        return found

    def keep(self, name: str, text: str) -> Where:
        """Use it from now on, and put it into the keyring if there is one. Raises Refusal."""
        key = checked_key(text)
        with self._lock:
            self._known[name] = key
        return "keyring" if kept_secrets.keep(SERVICE, name, key) else "this run"

    def forget(self, name: str, *, is_in_keyring: bool) -> bool:
        """Out of the keyring too; False if it would not let go of it."""
        with self._lock:
            self._known.pop(name, None)
        return not is_in_keyring or kept_secrets.forget(SERVICE, name)
