"""How the server listens, and what it bears."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final

from app.refusal import bad_setting

DEFAULT_PORT: Final = 8642
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
MIN_KEY: Final = 8
MAX_KEY: Final = 512
ANY_NAME: Final = "*"
MAX_NAMES: Final = 32
MAX_NAME: Final = 200
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]{0,30}://[a-z0-9.-]{1,253}(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Limits:
    """`behind`: events that a client may be behind; what reads slower is ended, as is one that
    takes nothing for `send_s`. `waiting`: requests beside those that have a slot. `header_s`: for
    a request's head and for an idle connection; `body_s`: for its body. `reply_s`: for a reply.
    `ping_s`: a stream in which nothing comes for so long (a long prompt is read) says that it is
    still there, or programs and proxies give it up."""

    body_bytes: int = 32 * 2**20
    header_bytes: int = 32 * 2**10
    connections: int = 128
    waiting: int = 32
    header_s: float = 30.0
    body_s: float = 60.0
    send_s: float = 30.0
    ping_s: float = 15.0
    reply_s: float = 3600.0
    behind: int = 4096


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`port` 0: any that is free. `key`: what clients send; empty: none is asked for, which is
    allowed on loopback alone. `origins`: web pages that may use it, as "http://localhost:3000".
    `alternatives` and `record_stages`: what is recorded of each token besides what was asked for,
    so that a panel can show it. `names`: what else the loaded model may be called, for programs
    that have a model's name built in; ANY_NAME: whatever they say. `is_guest`: a
    person uses the same engine, and comes first."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    key: str = ""
    origins: tuple[str, ...] = ()
    alternatives: int = 0
    record_stages: bool = False
    names: tuple[str, ...] = ()
    is_guest: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise Refusal for what cannot be, or must not be, listened on."""
        if not 0 <= self.port <= 65535:
            raise bad_setting(f"The port must be between 0 and 65535, not {self.port}.")
        if self.key and not (MIN_KEY <= len(self.key) <= MAX_KEY and _is_plain(self.key)):
            raise bad_setting(
                f"The key must have {MIN_KEY} to {MAX_KEY} letters, digits or signs, no spaces."
            )
        if not self.key and not is_loopback(self.host):
            raise bad_setting(
                f"Listening on {self.host} lets other computers connect, so it needs a key. Set "
                "one, or use 127.0.0.1."
            )


def read_names(text: str) -> tuple[str, ...]:
    """Names with commas between them. Raises Refusal.

    >>> read_names(" gpt-4o-mini, gpt-4o,gpt-4o-mini ,")
    ('gpt-4o-mini', 'gpt-4o')
    """
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if len(names) > MAX_NAMES or any(len(n) > MAX_NAME or not n.isprintable() for n in names):
        raise bad_setting(
            f"Enter up to {MAX_NAMES} names of up to {MAX_NAME} characters, with commas between "
            "them."
        )
    return names


def read_origins(text: str) -> tuple[str, ...]:
    """Web pages with commas between them, as browsers send them. Raises Refusal.

    >>> read_origins("http://localhost:3000/, https://App.example.org")
    ('http://localhost:3000', 'https://app.example.org')
    """
    given = (each.strip().rstrip("/").lower() for each in text.split(","))
    origins = tuple(dict.fromkeys(filter(None, given)))
    if len(origins) > MAX_NAMES or not all(map(_ORIGIN.fullmatch, origins)):
        raise bad_setting(
            f"Enter up to {MAX_NAMES} origins like http://localhost:3000, with commas between them."
        )
    return origins


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key
