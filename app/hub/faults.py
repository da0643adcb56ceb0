"""What can go wrong with a hub, as one exception with a sentence that says what to do next.

`fault_of` turns every way in which a request fails into a `HubFault`: the gate's refusal, what
httpx2 raises, and the hub's own answers, which look alike (401 means a gated repository, a private
one, one that does not exist, or a bad token) and are told apart by their headers. A sentence never
holds a token, a signed address or what the server wrote in its body.
"""

from __future__ import annotations

import email.utils
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import httpx2

from app.hub.gate import GateClosed
from app.hub.transport import AnswerTooLong, AnswerTooSlow

FaultKind = Literal[
    "token_bad",
    "gated",
    "forbidden",
    "private_or_missing",
    "not_found",
    "rate_limited",
    "server",
    "offline",
    "not_hub",
    "network",
]

MAX_WAIT_S: Final = 3600.0
LOCAL_WORKS: Final = "Models on this computer still work."

BAD_CREDENTIALS: Final = "Invalid credentials in Authorization header"
"""The hub's X-Error-Message for a token that it does not know."""

DISABLED: Final = "Access to this resource is disabled."
"""The hub's X-Error-Message for a repository that it took down."""

_RATELIMIT: Final = re.compile(
    r'"(?P<what>\w+)"\s*;\s*r\s*=\s*(?P<left>\d+)\s*;\s*t\s*=\s*(?P<s>\d+)'
)


class HubFault(Exception):  # noqa: N818
    """`sentence` is for the user. `retry_after_s`: how long the server asks to wait, in seconds;
    None where it does not say. `status` is the HTTP status, 0 without an answer."""

    def __init__(
        self, kind: FaultKind, sentence: str, *, retry_after_s: float | None = None, status: int = 0
    ) -> None:
        super().__init__(sentence)
        self.kind: FaultKind = kind
        self.sentence = sentence
        self.retry_after_s = retry_after_s
        self.status = status

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later, with nothing changed by anybody."""
        return self.kind in ("rate_limited", "server", "network")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request was about, for the sentence: a repository (or ""), its page, a file in it,
    and whether a token went along."""

    host: str
    repo_id: str = ""
    page: str = ""
    file_name: str = ""
    has_token: bool = False

    @property
    def thing(self) -> str:
        return f"“{self.repo_id}”" if self.repo_id else "this"


FAILURES: Final = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    GateClosed,
    AnswerTooLong,
    AnswerTooSlow,
)
"""What a request raises when it fails; CalledOff is not among them, since nobody is to be told."""


def fault_of(what: BaseException | httpx2.Response, asked: Asked) -> HubFault:
    """The fault behind an exception or an answer of 300 and above."""
    if isinstance(what, HubFault):
        return what
    if isinstance(what, httpx2.Response):
        return _of_answer(what, asked)
    return _of_error(what, asked)


def not_a_hub(asked: Asked, status: int = 200) -> HubFault:
    """Something answers, but it is no hub: a login page, or a wrong address."""
    return HubFault(
        "not_hub",
        f"“{asked.host}” didn't respond like a model hub. If your network requires a login "
        "(hotel, train), log in with a browser and try again. Otherwise check the hub address. "
        f"{LOCAL_WORKS}",
        status=status,
    )


# --- answers ------------------------------------------------------------------------------------


def _of_answer(answer: httpx2.Response, asked: Asked) -> HubFault:
    status, code = answer.status_code, answer.headers.get("X-Error-Code", "")
    if status in (401, 403) or code == "RepoNotFound":
        return _refused(answer, code, asked)
    if status == 404:
        return _not_found(answer, code, asked)
    if status == 429:
        seconds = wait_of(answer.headers)
        when = f"in {in_words(seconds)}" if seconds is not None else "in a few minutes"
        return HubFault(
            "rate_limited",
            f"“{asked.host}” is limiting requests. Try again {when}"
            + ("." if asked.has_token else ", or use a token for a higher limit."),
            retry_after_s=seconds,
            status=status,
        )
    if status >= 500 or status == 408:
        return HubFault(
            "server",
            f"“{asked.host}” reports a server error (error {status}). Try again in a few minutes.",
            retry_after_s=wait_of(answer.headers),
            status=status,
        )
    if status < 400:
        return not_a_hub(asked, status)
    return HubFault(
        "not_hub",
        f"“{asked.host}” rejected the request (error {status}). Check the hub address.",
        status=status,
    )


def _refused(answer: httpx2.Response, code: str, asked: Asked) -> HubFault:
    """401 and 403, and 404 with RepoNotFound: gated, not on the list, hidden, or a bad token."""
    status = answer.status_code
    message = answer.headers.get("X-Error-Message", "")
    page = f" ({asked.page})" if asked.page else ""
    if message == DISABLED:
        words = (
            f"“{asked.host}” has disabled access to {asked.thing}, even with a token. Choose "
            "another model."
        )
        return HubFault("not_found", words, status=status)
    if code == "GatedRepo" and not asked.has_token:
        return HubFault(
            "gated",
            f"{asked.thing} is gated. Accept its terms on its page{page}, then enter a token from "
            "your account here.",
            status=status,
        )
    if not asked.has_token and (status == 403 or not asked.repo_id):
        words = f"“{asked.host}” requires a token for {asked.thing}. Enter one from your account."
        return HubFault("forbidden", words, status=status)
    if status == 403:
        return HubFault(
            "forbidden",
            f"Your token has no access to {asked.thing}. Request access on its page{page} and try "
            "again once it is granted, or enter another token.",
            status=status,
        )
    if asked.has_token and status == 401 and (message == BAD_CREDENTIALS or not code):
        return token_refused(asked, status)
    if code == "GatedRepo":
        return HubFault(
            "forbidden",
            f"Your token has no access to {asked.thing} yet. Request access on its page{page}, "
            "then try again once it is granted.",
            status=status,
        )
    next_step = (
        "your token has no access to it. Check the spelling, or use its owner's token"
        if asked.has_token
        else "it is private. Check the spelling, or enter its owner's token"
    )
    return HubFault(
        "private_or_missing",
        f"“{asked.host}” has no {asked.thing}, or {next_step}.",
        status=status,
    )


def token_refused(asked: Asked, status: int = 401) -> HubFault:
    return HubFault(
        "token_bad",
        f"“{asked.host}” rejected your token: it is mistyped, expired or revoked. Create a new "
        "one there, or continue without one.",
        status=status,
    )


def _not_found(answer: httpx2.Response, code: str, asked: Asked) -> HubFault:
    status = answer.status_code
    if code == "EntryNotFound" and asked.file_name:
        words = f"“{asked.file_name}” is no longer in {asked.thing}. Reload the list of files."
        return HubFault("not_found", words, status=status)
    if code == "RevisionNotFound":
        words = f"That version of {asked.thing} no longer exists. Reload the list of files."
        return HubFault("not_found", words, status=status)
    if not asked.repo_id:
        return not_a_hub(asked, status)
    words = f"“{asked.host}” couldn't find this in {asked.thing}. Reload the list of files."
    return HubFault("not_found", words, status=status)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds an answer asks to wait: Retry-After (seconds or a date), else the
    `ratelimit` header where it says that nothing is left. At most an hour; None: not said."""
    text = headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if text.isdecimal():
        seconds = float(text[:9])
    elif text:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            seconds = None
    if seconds is None:
        found = _RATELIMIT.search(headers.get("ratelimit", ""))
        if found is not None and int(found["left"]) == 0:
            seconds = float(found["s"][:9])
    return None if seconds is None else min(max(seconds, 0.0), MAX_WAIT_S)


def in_words(seconds: float) -> str:
    if seconds < 90:
        whole = max(round(seconds), 1)
        return f"{whole} second" + ("s" if whole != 1 else "")
    return f"{round(seconds / 60)} minutes"


# --- no answer ----------------------------------------------------------------------------------


def _of_error(error: BaseException, asked: Asked) -> HubFault:
    if isinstance(error, GateClosed):
        return HubFault("offline", error.sentence)
    host = f"“{asked.host}”"
    if isinstance(error, AnswerTooLong | httpx2.DecodingError | httpx2.TooManyRedirects):
        return not_a_hub(asked)
    found = list(causes(error))
    if any(isinstance(each, socket.gaierror) for each in found):
        words = f"The address {host} can't be found. Check your connection and the hub address"
    elif any(isinstance(each, ssl.SSLError) for each in found):
        words = (
            f"{host} has no valid certificate. A network login page or a wrong system clock can "
            "cause this: check both"
        )
    elif any(isinstance(each, ConnectionRefusedError) for each in found):
        words = (
            f"{host} or your system's proxy refused the connection. Check the hub address, or try "
            "again later"
        )
    elif isinstance(error, AnswerTooSlow | httpx2.TimeoutException):
        words = f"{host} didn't respond in time. Check your connection, or try again later"
    elif isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return not_a_hub(asked)
    elif isinstance(error, httpx2.ProxyError):
        words = (
            f"The proxy refused the connection to {host}, or isn't an HTTP or HTTPS proxy. Check "
            "the system's proxy settings"
        )
    elif isinstance(error, httpx2.RemoteProtocolError):
        words = f"{host} closed the connection early. Try again"
    else:
        words = f"Can't reach {host}. Check your connection, then try again"
    return HubFault("network", f"{words}. {LOCAL_WORKS}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
