"""Who may ask at all, and how much of a request is read.

A page in a browser can send requests to this machine, and with a name of its own that is made to
mean 127.0.0.1 it could read the answers (DNS rebinding). So on loopback the Host must be a name of
this machine, and whatever comes from a page (it says so by Origin, or Sec-Fetch-Site) is refused
unless its origin was allowed. Keys are compared in a time that does not depend on them.
"""

from __future__ import annotations

import asyncio
import hmac
import string
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from app.amounts import bytes_words
from app.server.errors import ApiError, bad_request
from app.server.options import LOOPBACK_NAMES, Limits, ServerOptions, is_loopback

_MAX_ASKED: Final = 2000
_OF_NAMES: Final = frozenset(string.ascii_letters + string.digits + "-_")
_SENT_BY_PAGES: Final = "authorization, content-type, x-api-key, anthropic-version"
_PAGES: Final = ("cross-site", "same-site")
_FOREIGN_HOST: Final = (
    "This server answers requests for localhost only. Use http://127.0.0.1 as the address."
)
_FROM_PAGE: Final = (
    "Web pages can't use this server unless their origin is allowed in Cutaway's settings."
)
_KEY: Final = "A key is needed: send it as “Authorization: Bearer …” or “x-api-key: …”."


def cors_headers(headers: Mapping[str, str], options: ServerOptions) -> dict[str, str]:
    """What a page whose origin is allowed is told; nothing to any other."""
    origin = headers.get("origin")
    if origin is None or origin not in options.origins:
        return {}
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": _asked_for(headers),
        "access-control-allow-private-network": "true",
        "access-control-max-age": "600",
        "vary": "Origin",
    }


def _asked_for(headers: Mapping[str, str]) -> str:
    """The libraries send a dozen headers of their own; none of them does anything here."""
    asked = headers.get("access-control-request-headers", "")
    names = [name.strip() for name in asked.split(",")]
    is_plain = len(asked) <= _MAX_ASKED and all(set(name) <= _OF_NAMES for name in names)
    return asked if asked and is_plain else _SENT_BY_PAGES


def check_sender(
    headers: Mapping[str, str], options: ServerOptions, *, is_preflight: bool = False
) -> None:
    """Raise ApiError where this one may not ask. A browser that asks whether a page may ask
    (`is_preflight`) sends no key."""
    origin = headers.get("origin")
    is_allowed = origin is not None and origin in options.origins
    if is_loopback(options.host) and not is_own_name(headers.get("host", "")):
        raise ApiError(403, _FOREIGN_HOST, code="wrong_host")
    is_page = origin is not None or headers.get("sec-fetch-site") in _PAGES
    if is_page and not is_allowed:
        raise ApiError(403, _FROM_PAGE, code="origin_not_allowed")
    if options.key and not is_preflight and not _has_key(headers, options.key):
        raise ApiError(401, _KEY, code="invalid_api_key")


def is_own_name(host: str) -> bool:
    """Whether a Host header names this machine's loopback.

    >>> [is_own_name(h) for h in ("127.0.0.1:80", "LOCALHOST", "[::1]:9", "evil.test", "a@::1")]
    [True, True, True, False, False]
    """
    if not host or set(host) & set("@/\\?# "):
        return False
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in LOOPBACK_NAMES or (name[:1].isdigit() and is_loopback(name))


def _has_key(headers: Mapping[str, str], key: str) -> bool:
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return hmac.compare_digest(given.encode("latin-1", "replace"), key.encode())


async def read_object(request: Request, limits: Limits) -> tuple[Any, bytes]:
    """The request's JSON, and as it came. Raises ApiError, or ClientDisconnect."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "Send JSON, with “Content-Type: application/json”.")
    body = await _body(request, limits)
    try:
        return msgspec.json.decode(body), body
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"The request isn't valid JSON: {str(error)[:200]}.") from error


async def _body(request: Request, limits: Limits) -> bytes:
    sentence = f"A request may have at most {bytes_words(limits.body_bytes)}."
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > limits.body_bytes:
        raise ApiError(413, sentence)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_s):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise ApiError(413, sentence)
                parts.append(part)
    except TimeoutError as error:
        raise ApiError(408, f"The request wasn't sent within {limits.body_s:g} s.") from error
    return b"".join(parts)
