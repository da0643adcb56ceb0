"""The hub's token: kept in the system's keyring, one for each hub; never anywhere else.

Where there is no keyring the token is kept for this run only, and `where` says so. It goes into no
database, log or sentence, and `repr` of nothing here shows it. The keyring may ask the user and
wait, so `read`, `keep` and `forget` belong on a thread beside the window's. Whether a request may
carry it is decided once more at the gate (`Gate.token_origin`).
"""

from __future__ import annotations

import threading
from typing import Final, Literal

from app.hub import kept_secrets
from app.refusal import bad_setting

SERVICE: Final = "Cutaway hub token"
MAX_LENGTH: Final = 512
Where = Literal["none", "keyring", "this run"]

THIS_RUN_ONLY: Final = "This system has no keyring, so the token is kept only until Cutaway closes."
STILL_THERE: Final = (
    "The token was removed from Cutaway but couldn't be deleted from the system keyring. Delete "
    f"“{SERVICE}” there."
)


def checked_token(text: str) -> str:
    """The token as it is sent. Raises Refusal, with a sentence that does not repeat it."""
    token = text.strip()
    if not token:
        raise bad_setting(
            "Paste a token first. You can create one in your account settings on the hub."
        )
    if len(token) > MAX_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise bad_setting(
            "This isn't a token. A token starts with hf_, followed by letters and digits. Copy "
            "it again."
        )
    return token


class AccessTokens:
    """The token of one hub at a time: `turn_to` another one, and the first is not sent there."""

    def __init__(self, origin: str) -> None:
        self._lock = threading.Lock()
        self._origin = origin
        self._kept_here: dict[str, str] = {}
        self._where: Where = "none"
        self._refused = ""

    def __repr__(self) -> str:
        return f"<AccessTokens of {self._origin}: {self._where}>"

    @property
    def where(self) -> Where:
        """Where the present hub's token is kept."""
        return self._where

    @property
    def token(self) -> str | None:
        """The token to send; None if there is none, or the hub has refused it in this run."""
        with self._lock:
            token = self._kept_here.get(self._origin)
        return None if token is None or token == self._refused else token

    @property
    def is_refused(self) -> bool:
        """Whether there is a token that the hub has refused."""
        with self._lock:
            token = self._kept_here.get(self._origin)
        return token is not None and token == self._refused

    def refuse(self, token: str) -> None:
        """The hub does not know this token: it is not sent again until another one is entered."""
        self._refused = token

    def turn_to(self, origin: str) -> None:
        """Another hub; call `read` next."""
        with self._lock:
            self._origin = origin
            self._where = "this run" if origin in self._kept_here else "none"

    def read(self) -> None:
        """Look into the keyring for the present hub's token."""
        with self._lock:
            origin = self._origin
            if origin in self._kept_here:
                return
        found = kept_secrets.read(SERVICE, origin, checked_token)
        with self._lock:
            if found is not None and origin == self._origin:
                self._kept_here[origin] = found
                self._where = "keyring"

    @property
    def origin(self) -> str:
        """Of the present hub."""
        return self._origin

    def keep(self, token: str, origin: str) -> None:
        """Use it for that hub from now on and put it into the keyring; `where` says whether that
        went. The hub that took it may be the present one no more: no other gets it."""
        token = checked_token(token)
        with self._lock:
            self._kept_here[origin] = token
            self._refused = ""
        is_stored = kept_secrets.keep(SERVICE, origin, token)
        with self._lock:
            if origin == self._origin:
                self._where = "keyring" if is_stored else "this run"

    def forget(self) -> bool:
        """Out of the keyring too; False if it would not let go of it."""
        with self._lock:
            origin, was = self._origin, self._where
            self._kept_here.pop(origin, None)
            self._where = "none"
            self._refused = ""
        return was != "keyring" or kept_secrets.forget(SERVICE, origin)
