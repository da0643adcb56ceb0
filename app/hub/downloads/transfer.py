"""The transfer of one file: over the gate, onto the disk, checked, and only then under its name.

    request (Range, If-Range) → redirects → the answer's head is judged → bytes are written and
    hashed → size and SHA-256 fit → fsync → the final name

What must hold:

* Nothing is written before the head of the answer fits what the hub's list promised: status,
  length, no compression, no web page.
* Never more bytes than promised are taken, and never fewer pass for the whole.
* A partial is gone on with only if the server says that it is the same content (If-Range); else
  the transfer starts over and says so. The hash decides in the end.
* Calling it off takes effect at once, whatever it waits for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import httpx2

from app.hub.downloads import transfer_faults as faults
from app.hub.downloads.partial import NameTaken, Occupied, Partial, remove_leftovers, sha256_of
from app.hub.downloads.patience import Limits
from app.hub.downloads.transfer_faults import TransferFault
from app.hub.faults import Asked, HubFault, fault_of
from app.hub.gate import Call

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS: Final = 5
FRESH_STARTS: Final = 2
"""So often one attempt may begin anew because the server does not go on with what is there."""
EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")

CHANGED_NOTE: Final = "The file changed on the server, so the download starts over."
NO_RANGE_NOTE: Final = "The server can't resume, so the download starts over."
UNKNOWN_NOTE: Final = "The partial file couldn't be verified, so the download starts over."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file of the hub, and where it shall be. `sha256` and `etag` are empty where unknown;
    `repo_id` and `page` are for sentences."""

    url: str
    size_bytes: int
    target: Path
    sha256: str = ""
    etag: str = ""
    repo_id: str = ""
    page: str = ""


class Watcher(Protocol):
    """Hears of a transfer, on its thread."""

    def checking(self, done_bytes: int) -> None:
        """So much of what is on the disk was read."""

    def moved(self, done_bytes: int, new_bytes: int) -> None:
        """So much of the file is there, so much of it just came. May wait (a speed limit)."""

    def tagged(self, etag: str) -> None:
        """The content that the partial holds, as the server names it; empty: it does not."""

    def noted(self, sentence: str) -> None:
        """Something that the user may want to know."""


@dataclass(slots=True)
class Transfer:
    """One attempt. `run` it on a thread that may wait; `call` calls it off."""

    wanted: Wanted
    client: httpx2.Client
    headers_for: Callable[[str], Mapping[str, str]]
    """What a request to this address carries: the token, for the hub's own host alone."""
    call: Call
    watcher: Watcher
    limits: Limits = field(default_factory=Limits)
    token_refused: Callable[[], None] = lambda: None
    """The hub does not know the token; the same is asked without it."""
    _has_token: bool = field(default=False, init=False)
    _without_token: bool = field(default=False, init=False)

    def run(self) -> int | None:
        """Fetch the file; its time of change in nanoseconds, None if it was there already.

        Raises TransferFault, NameTaken (another file has the name), and the gate's CalledOff and
        GateClosed. Whatever is raised, a partial stays for another attempt, unless it is worth
        nothing.
        """
        with self.call.running():
            partial = Partial(self.wanted.target, self.wanted.sha256)
            try:
                if self._is_there():
                    remove_leftovers(self.wanted.target, self.wanted.sha256)
                    return None
                partial.open()
                try:
                    self._fill(partial)
                    self._verify(partial)
                    return partial.finish()
                finally:
                    partial.close()
            except Occupied as error:
                raise faults.occupied(self.wanted.target.name) from error
            except OSError as error:
                if partial.size_bytes:
                    self.watcher.moved(partial.size_bytes, 0)
                left = self.wanted.size_bytes - partial.size_bytes
                raise faults.of_disk(error, self.wanted.target, max(left, 0)) from error

    def _is_there(self) -> bool:
        """Whether the whole file has its name already. Raises NameTaken for another one."""
        wanted, target = self.wanted, self.wanted.target
        if not os.path.lexists(target):
            return False
        if not target.is_file() or target.stat().st_size != wanted.size_bytes:
            raise NameTaken
        if wanted.size_bytes and (
            not wanted.sha256 or sha256_of(target, self._on_read) != wanted.sha256.lower()
        ):
            raise NameTaken
        return True

    def _on_read(self, done_bytes: int) -> None:
        self.call.check()
        self.watcher.checking(done_bytes)

    def _verify(self, partial: Partial) -> None:
        wanted = self.wanted
        if wanted.sha256 and partial.sha256 != wanted.sha256.lower():
            partial.remove()
            self.watcher.tagged("")
            raise faults.other_content(wanted.target.name)

    # --- bytes ----------------------------------------------------------------------------------

    def _fill(self, partial: Partial) -> None:
        etag = self._take_up(partial)
        for _ in range(FRESH_STARTS + 1):
            if partial.size_bytes == self.wanted.size_bytes and self._is_size_proved():
                self.watcher.moved(partial.size_bytes, 0)
                return
            response = self._ask(partial.size_bytes, etag)
            try:
                note = self._why_afresh(response, partial.size_bytes, etag)
                if note:
                    self._start_over(partial, note)
                    etag = ""
                if note and response.status_code != 200:
                    continue
                self._judge(response, partial.size_bytes)
                self.watcher.tagged(_strong(response.headers.get("ETag", "")))
                self._take_body(response, partial)
                return
            finally:
                response.close()
        raise faults.changed(self.wanted.target.name)

    def _is_size_proved(self) -> bool:
        """A size of 0 may also mean that the hub's list has none: then the server is asked."""
        return self.wanted.size_bytes > 0 or self.wanted.sha256.lower() == EMPTY_SHA256

    def _take_up(self, partial: Partial) -> str:
        """The ETag to go on with; what is on the disk has been hashed."""
        wanted, etag = self.wanted, _strong(self.wanted.etag)
        if partial.size_bytes > wanted.size_bytes or not (wanted.sha256 or etag):
            if partial.size_bytes:
                self._start_over(partial, UNKNOWN_NOTE)
            return ""
        if partial.size_bytes:
            partial.read_again(self._on_read)
            return etag
        return ""

    def _start_over(self, partial: Partial, note: str) -> None:
        partial.start_over()
        self.watcher.tagged("")
        self.watcher.noted(note)

    def _take_body(self, response: httpx2.Response, partial: Partial) -> None:
        size = self.wanted.size_bytes
        # Without a hash, only the end of the body tells that it is not longer than promised.
        ends_by_itself = "Content-Length" in response.headers or self.wanted.sha256
        pace = _Pace(self.limits)
        try:
            for block in response.iter_raw():
                room = size - partial.size_bytes
                if len(block) > room and not self.wanted.sha256:
                    raise faults.wrong_length(self.wanted.target.name, None, size)
                partial.append(block[:room])
                came_at = time.monotonic()
                self.watcher.moved(partial.size_bytes, min(len(block), room))
                pace.leave_out(time.monotonic() - came_at)
                self.call.check()
                if partial.size_bytes == size and ends_by_itself:
                    return
                if pace.is_too_slow(len(block)):
                    raise faults.too_slow(partial.size_bytes, size)
        except httpx2.HTTPError as error:
            raise faults.of_stream(error, partial.size_bytes, size, self.limits.stall_s) from error
        if partial.size_bytes < size:
            raise faults.broke_off(partial.size_bytes, size)

    # --- the answer's head ----------------------------------------------------------------------

    def _why_afresh(self, response: httpx2.Response, start: int, etag: str) -> str:
        """Why what is on the disk cannot be gone on with; empty if it can, or there is nothing."""
        if not start or response.status_code not in (200, 206, 416):
            return ""
        found = _strong(response.headers.get("ETag", ""))
        if response.status_code == 416 or (etag and found and found != etag):
            return CHANGED_NOTE
        if response.status_code == 200:
            return NO_RANGE_NOTE
        given = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if given is None or int(given[1]) != start:
            return NO_RANGE_NOTE
        return "" if given[3] in ("*", str(self.wanted.size_bytes)) else CHANGED_NOTE

    def _judge(self, response: httpx2.Response, start: int) -> None:
        """Raise TransferFault unless the body can be the bytes from `start` on."""
        wanted, name = self.wanted, self.wanted.target.name
        if response.status_code != (206 if start else 200):
            raise self._refusal(response)
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            raise faults.compressed(name, encoding)
        if response.headers.get("Content-Type", "").strip().lower().startswith("text/html"):
            raise faults.web_page(name)
        length = response.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) != wanted.size_bytes - start:
            raise faults.wrong_length(name, start + int(length), wanted.size_bytes)

    def _refusal(self, response: httpx2.Response) -> TransferFault:
        is_elsewhere = response.url.host != httpx2.URL(self.wanted.url).host or (
            response.url.port != httpx2.URL(self.wanted.url).port
        )
        if is_elsewhere and response.status_code in (401, 403, 404, 410):
            return faults.expired(self.wanted.target.name)
        if response.status_code < 400:
            return faults.of_hub(self._fault(httpx2.RemoteProtocolError("not asked for")))
        return faults.of_hub(self._fault(response))

    def _fault(self, what: BaseException | httpx2.Response) -> HubFault:
        wanted = self.wanted
        asked = Asked(
            host=httpx2.URL(wanted.url).host,
            repo_id=wanted.repo_id,
            page=wanted.page,
            file_name=wanted.target.name,
            has_token=self._has_token,
        )
        return fault_of(what, asked)

    # --- asking ---------------------------------------------------------------------------------

    def _ask(self, start: int, etag: str) -> httpx2.Response:
        """The answer at the end of the redirects, its body unread."""
        url = httpx2.URL(self.wanted.url)
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send(url, start, etag)
            if response.status_code == 401 and self._is_token_bad(response):
                response.close()
                self._without_token = True
                self.token_refused()
                response = self._send(url, start, etag)
            if response.status_code not in REDIRECTS:
                return response
            try:
                self._check_promise(response)
                url = self._next_url(url, response.headers.get("Location", ""))
            finally:
                response.close()
        raise faults.bad_redirect(self.wanted.target.name)

    def _is_token_bad(self, response: httpx2.Response) -> bool:
        """A bad token closes public files too, which nobody needs one for."""
        return self._has_token and self._fault(response).kind == "token_bad"

    def _send(self, url: httpx2.URL, start: int, etag: str) -> httpx2.Response:
        headers = {} if self._without_token else dict(self.headers_for(str(url)))
        self._has_token = any(name.lower() == "authorization" for name in headers)
        headers["Accept-Encoding"] = "identity"
        if start:
            headers["Range"] = f"bytes={start}-"
            if etag:
                headers["If-Range"] = etag
        timeout = httpx2.Timeout(self.limits.stall_s, connect=self.limits.connect_s)
        try:
            request = self.client.build_request("GET", url, headers=headers, timeout=timeout)
            return self.client.send(request, stream=True)
        except httpx2.ReadTimeout as error:
            raise faults.stalled(start, self.wanted.size_bytes, self.limits.stall_s) from error
        except httpx2.HTTPError as error:
            raise faults.of_hub(self._fault(error)) from error

    def _check_promise(self, response: httpx2.Response) -> None:
        """The hub tells size and hash beside the address that it sends to."""
        size = response.headers.get("X-Linked-Size", "")
        digest = response.headers.get("X-Linked-ETag", "").strip('"').lower()
        is_other = bool(self.wanted.sha256) and digest != self.wanted.sha256.lower()
        if (size.isdecimal() and int(size) != self.wanted.size_bytes) or (
            _SHA256.fullmatch(digest) and is_other
        ):
            raise faults.changed(self.wanted.target.name)

    def _next_url(self, url: httpx2.URL, location: str) -> httpx2.URL:
        try:
            target = url.join(location)
        except (httpx2.InvalidURL, ValueError) as error:
            raise faults.bad_redirect(self.wanted.target.name) from error
        is_worse = url.scheme == "https" and target.scheme != "https"
        if not location or target.scheme not in ("http", "https") or not target.host or is_worse:
            raise faults.bad_redirect(self.wanted.target.name)
        return target


class _Pace:
    """Tells a connection that lives but brings nothing worth waiting for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = time.monotonic()
        self._bytes = 0

    def leave_out(self, seconds: float) -> None:
        """So long we kept the server waiting ourselves: a limit of speed."""
        self._since += seconds

    def is_too_slow(self, n_bytes: int) -> bool:
        self._bytes += n_bytes
        took = time.monotonic() - self._since
        if took < self._limits.slow_window_s:
            return False
        is_slow = self._bytes < took * self._limits.slow_bytes_per_s
        self._since, self._bytes = time.monotonic(), 0
        return is_slow


def _strong(etag: str) -> str:
    """An ETag that stands for bytes; empty for a weak one, or none."""
    return etag if etag.startswith('"') else ""
