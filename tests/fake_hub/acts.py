"""What a script makes the fake hub do with a request instead of the ordinary thing.

    hub.script(Act(status=503), Act(close_after=4_000), path="/resolve/")

The first request whose path holds `/resolve/` gets the 503, the second one the ordinary answer
cut off after 4,000 bytes of its body, every later one the ordinary answer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Act:
    """Changes to one answer. What is left at its default is as the real hub would do it."""

    status: int | None = None
    """Answer with this status, and with `body`, instead of the ordinary answer."""
    body: bytes | None = None
    """Another body (an HTML page, say). With a status of None it goes out with 200."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to add, or to put in the place of the ordinary ones."""
    without: tuple[str, ...] = ()
    """Names of ordinary headers to leave out."""
    close_after: int | None = None
    """Close the connection after so many bytes of the body. -1: before any answer."""
    stall_after: int | None = None
    """After so many bytes of the body send nothing more, with the connection open."""
    drip: tuple[int, float] | None = None
    """Send so many bytes at a time and wait so many seconds after each."""
    claimed_length: int | None = None
    """The Content-Length to claim; what is sent stays the same and the connection is closed."""
    etag: str | None = None
    """The ETag (and X-Linked-Etag, where there is one) to claim, without its quotes."""
    location: str | None = None
    """Redirect there with 302 (or `status`)."""
    gzip: bool = False
    """Compress the body and say so (Content-Encoding), though nobody asked for it."""
    endless: bool = False
    """Send the body, then zeros for ever, without a Content-Length."""
    delay_s: float = 0.0
    """Wait before the answer."""
    hold: threading.Event | None = None
    """Wait for this before the answer."""
    ignore_range: bool = False
    """Answer a Range with 200 and the whole body."""
    is_chunked: bool = False
    """Send the body in chunks, without a Content-Length."""


def rate_limited(
    seconds: int, *, retry_after: bool = True, ratelimit: bool = False, is_used_up: bool = True
) -> Act:
    """429 with Retry-After, with the hub's `ratelimit` headers, with both or with neither."""
    headers: dict[str, str] = {}
    if retry_after:
        headers["Retry-After"] = str(seconds)
    if ratelimit:
        headers["ratelimit"] = f'"resolvers";r={0 if is_used_up else 12};t={seconds}'
        headers["ratelimit-policy"] = '"fixed window";"resolvers";q=5000;w=300'
    return Act(status=429, headers=headers, body=b'{"error":"You have reached your rate limit."}')


CAPTIVE_PORTAL = (
    b"<!DOCTYPE html><html><head><title>Welcome to Hotel WiFi</title></head>"
    b"<body><h1>Please log in</h1></body></html>"
)


def captive_portal() -> Act:
    return Act(body=CAPTIVE_PORTAL, headers={"Content-Type": "text/html; charset=utf-8"})


@dataclass
class Rule:
    """The acts that wait for requests of one kind."""

    acts: list[Act]
    path: str
    method: str | None
    server: str | None
    is_for_ever: bool

    def fits(self, server: str, method: str, path: str) -> bool:
        return (
            bool(self.acts)
            and self.path in path
            and self.method in (None, method)
            and self.server in (None, server)
        )

    def take(self) -> Act:
        if self.is_for_ever and len(self.acts) == 1:
            return self.acts[0]
        return self.acts.pop(0)


@dataclass(frozen=True)
class Logged:
    """A request as it came in."""

    server: str
    """"hub" or "cdn"."""
    method: str
    path: str
    """Decoded, without the query."""
    query: dict[str, list[str]]
    headers: dict[str, str]
    """Names in lower case."""
    at_s: float
    """time.monotonic()."""

    @property
    def range(self) -> str | None:
        return self.headers.get("range")

    @property
    def token(self) -> str | None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme == "Bearer" else None

    def one(self, name: str) -> Any:
        """The only value of a query parameter; None if it is not there."""
        values = self.query.get(name, [])
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None
