"""What can go wrong with a server, as one exception with a sentence that says what to do next."""

from __future__ import annotations

import re
import socket
import ssl
from typing import Any, Final, Literal

import httpx2
import msgspec

from app.hub.faults import causes, in_words, wait_of
from app.hub.gate import OFFLINE_BY_ARGUMENT, GateClosed
from app.hub.transport import AnswerTooLong, AnswerTooSlow, is_loopback

FaultKind = Literal[
    "unreachable",  # no connection may be made, or none came about
    "refused",  # without a key, with a wrong one, or not for this account
    "not_loaded",  # no such model there
    "busy",  # later, perhaps
    "prompt_too_long",
    "bad_setting",  # it does not take the request as it is
    "unsupported",  # it knows no such question
    "server_error",  # it broke, cut, stalled or says what cannot be read
]

MAX_SAID: Final = 300
"""Characters of a server's own words in a sentence."""
_TOO_LONG: Final = re.compile(
    r"context[ _](length|window|size)|exceed_context_size|too long|maximum (context|model) length"
    r"|max_model_len|exceeds? the available context",
    re.IGNORECASE,
)
_NO_MODEL: Final = re.compile(
    r"model.{0,200}(not found|does not exist|not exist)|no such model", re.I
)


class ServerFault(Exception):  # noqa: N818
    """`sentence` is for the user. `evidence`: what the server wrote. `status`: of HTTP, 0 without
    an answer; `retry_after_s`: how long it asks to wait, None where it does not say."""

    def __init__(
        self,
        kind: FaultKind,
        sentence: str,
        evidence: str = "",
        *,
        status: int = 0,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(sentence)
        self.kind: FaultKind = kind
        self.sentence = sentence
        self.evidence = evidence
        self.status = status
        self.retry_after_s = retry_after_s


FAILURES: Final = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    GateClosed,
    AnswerTooLong,
    AnswerTooSlow,
)
"""What a request raises when it fails; CalledOff is not among them, since nobody is to be told."""


def shortened(text: str, key: str | None = None) -> str:
    """A server's words, fit for a sentence: one line, no control characters, not its key.

    >>> shortened("no\\x1b[31m such  thing")
    'no [31m such thing'
    """
    if key:
        text = text.replace(key, "…")
    text = " ".join("".join(c if c.isprintable() else " " for c in text[:8192]).split())
    return text if len(text) <= MAX_SAID else f"{text[: MAX_SAID - 1]}…"


def message_in(answer: Any) -> str:
    """What an error answer says: OpenAI's `error.message`, FastAPI's `detail`, or a plain text."""
    found = answer
    if isinstance(found, dict):
        inner = found.get("error", found.get("detail", found.get("message", "")))
        found = inner.get("message", "") if isinstance(inner, dict) else inner
        if isinstance(found, list):  # FastAPI's, one for each field
            parts = [each.get("msg", "") for each in found if isinstance(each, dict)]
            found = "; ".join(str(part) for part in parts)
    return found if isinstance(found, str) else ""


def of_answer(
    status: int, headers: httpx2.Headers, body: bytes, name: str, key: str | None
) -> ServerFault:
    """An answer that is none, with what the server said in it."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        is_page = b"<html" in body[:2048].lower() or b"<!doctype" in body[:2048].lower()
        told = "" if is_page else body[:4096].decode("utf-8", "replace")
    said = shortened(message_in(told), key)
    words = f" It says: “{said.rstrip('.')}”." if said else ""
    evidence = f"HTTP {status}" + (f": {said}" if said else "")

    def fault(kind: FaultKind, sentence: str, retry_after_s: float | None = None) -> ServerFault:
        return ServerFault(kind, sentence, evidence, status=status, retry_after_s=retry_after_s)

    who = f"“{name}”"
    if 300 <= status < 400:
        return fault(
            "unreachable",
            f"{who} redirects to another address, which isn't followed. Enter its final address "
            "in Settings → Engines.",
        )
    if status == 401:
        what = "rejected its key" if key else "needs a key"
        return fault(
            "refused", f"{who} {what} (error 401).{words} Enter a key in Settings → Engines."
        )
    if status == 403:
        return fault(
            "refused",
            f"{who} doesn't allow this (error 403).{words} Check the key's permissions, or choose "
            "another model.",
        )
    if status == 429:
        seconds = wait_of(headers)
        when = f"in {in_words(seconds)}" if seconds is not None else "later"
        return fault(
            "busy", f"{who} is limiting requests (error 429).{words} Try again {when}.", seconds
        )
    if status in (400, 413, 422) and (_TOO_LONG.search(said) or status == 413):
        return fault(
            "prompt_too_long",
            f"This chat is too long for {who}.{words} Start a new chat, write a shorter message, "
            "or start the server with a larger context window.",
        )
    if status in (400, 404) and _NO_MODEL.search(said):
        return fault(
            "not_loaded",
            f"{who} doesn't have this model any more.{words} Choose another model from the menu.",
        )
    if status in (404, 405, 501):
        return fault(
            "unsupported",
            f"{who} doesn't know this request (error {status}).{words} Check its address in "
            "Settings → Engines.",
        )
    if status == 503:
        seconds = wait_of(headers)
        when = f"in {in_words(seconds)}" if seconds is not None else "in a moment"
        return fault(
            "busy",
            f"{who} isn't ready (error 503).{words} Try again {when}.",
            seconds,
        )
    if status >= 500 or status == 408:
        return fault(
            "server_error",
            f"{who} reports a server error (error {status}).{words} Try again; the server's own "
            "log has the details.",
        )
    return fault(
        "bad_setting",
        f"{who} rejected the request (error {status}).{words} Change the settings it names and "
        "try again.",
    )


def unreadable(name: str, what: str) -> ServerFault:
    """An answer that makes no sense; `what` is for us."""
    return ServerFault(
        "server_error",
        f"“{name}” sent a response that can't be read. Try again, or check that its address in "
        "Settings → Engines leads to an OpenAI-compatible server.",
        what,
    )


def not_a_server(name: str) -> ServerFault:
    """A page for people, where an answer for programs was asked for."""
    return ServerFault(
        "server_error",
        f"“{name}” answered with a web page. Check its address in Settings → Engines; if your "
        "network requires a login, log in with a browser first.",
        "text/html",
    )


def cut_short(name: str, what: str = "") -> ServerFault:
    return ServerFault(
        "server_error",
        f"“{name}” closed the connection before the reply was finished. The partial reply is "
        "kept. Continue it, or try again.",
        what,
    )


def stalled(name: str, seconds: float) -> ServerFault:
    return ServerFault(
        "server_error",
        f"“{name}” sent nothing new for {in_words(seconds)}, so the request was ended. Try again; "
        "the server's own log has the details.",
    )


def of_error(error: BaseException, name: str, url: str) -> ServerFault:
    """Whatever a request raises (`FAILURES`)."""
    who = f"“{name}”"
    if isinstance(error, GateClosed):
        return ServerFault("unreachable", _offline(error.sentence, who, url))
    if isinstance(error, AnswerTooLong | httpx2.DecodingError):
        return unreadable(name, type(error).__name__)
    found = list(causes(error))
    if any(isinstance(each, socket.gaierror) for each in found):
        words = f"The address of {who} can't be found. Check it in Settings → Engines"
    elif any(isinstance(each, ssl.SSLCertVerificationError) for each in found):
        words = (
            f"{who} has no valid certificate. Check its address in Settings → Engines and your "
            "system clock"
        )
    elif any(isinstance(each, ssl.SSLError) for each in found):
        words = (
            f"{who} doesn't answer over https. If it isn't encrypted, begin its address with "
            "http:// in Settings → Engines"
        )
    elif any(isinstance(each, ConnectionRefusedError) for each in found):
        words = (
            f"{who} isn't running at {_place(url)}. Start it, or check its address in Settings → "
            "Engines"
        )
    elif isinstance(error, AnswerTooSlow | httpx2.TimeoutException):
        words = f"{who} didn't respond in time. Check that it's running, then try again"
    elif isinstance(error, httpx2.ProxyError):
        words = f"The proxy refused the connection to {who}. Check the system's proxy settings"
    elif isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError):
        return cut_short(name, type(error).__name__)
    else:
        words = (
            f"Can't reach {who}. Check that it's running and that you're connected, then try again"
        )
    return ServerFault("unreachable", f"{words}.", type(error).__name__)


def _offline(sentence: str, who: str, url: str) -> str:
    if sentence == OFFLINE_BY_ARGUMENT:
        return f"Cutaway was started with --offline. Restart it without --offline to use {who}."
    if "Offline" not in sentence:
        return sentence  # settings that are not read yet
    words = f"Cutaway is offline. Turn off Offline in Settings → Data to use {who}"
    is_here = is_loopback(httpx2.URL(url).host)
    return words + (
        ", or allow servers on this computer in Settings → Engines." if is_here else "."
    )


def _place(url: str) -> str:
    """Host and port, for a sentence."""
    return httpx2.URL(url).netloc.decode("ascii", "replace")
