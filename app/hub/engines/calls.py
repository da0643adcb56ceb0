"""One question to a server, or one streamed answer, with a bound for everything.

    server = Server(gate, "Mine", "http://localhost:8080", key=None)
    server.get("/v1/models")
    with server.events("/v1/chat/completions", {"stream": True, …}) as events:
        for event in events:
            …

Events are server-sent ones (WHATWG HTML, § 9.2): lines, each `field: value`, an empty one between
two events; a line that begins with a colon is a sign of life and nothing else.

What belongs to a `Call` (`gate.py`) is cut when that is cancelled: the server sees its connection
closed, and stops.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx2
import msgspec

from app.hub.address import origin_of
from app.hub.engines import faults
from app.hub.engines.faults import FAILURES, ServerFault
from app.hub.gate import KEY_ORIGIN, Gate
from app.hub.transport import CONNECT_TIMEOUT_S, plain_client, read_whole

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""A prompt's log-probabilities are the longest."""
MAX_ERROR_BYTES: Final = 64 * 1024
MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""And of a line."""
ANSWER_DEADLINE_S: Final = 60.0
SILENCE_S: Final = 600.0
"""Without a byte: a long prompt is read on a slow machine, and few servers say that they are at
it."""
PROGRESS_S: Final = 600.0
"""With bytes, but nothing new in them."""

_MOST_PARTS: Final = 1024
"""Of a line, before they are put together: each may be a single byte."""

_ESCAPES: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
"""A pair of surrogates, half of one, any other escape."""

Done = object()
"""What `events` gives for the stream's own mark of its end."""


class Server:
    """One server, as it is asked on one thread. `name` is what sentences call it."""

    def __init__(
        self,
        gate: Gate,
        name: str,
        url: str,
        key: str | None,
        *,
        silence_s: float = SILENCE_S,
        progress_s: float = PROGRESS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self.name = name
        self._url = url.rstrip("/")
        self._key = key
        self.has_key = bool(key)
        self.silence_s = silence_s
        self._progress_s = progress_s
        self._clock = clock

    def get(self, path: str, *, deadline_s: float = ANSWER_DEADLINE_S) -> Any:
        """The answer, from JSON. Raises ServerFault."""
        with self._sent("GET", path, None, deadline_s) as response:
            return self._whole(response, deadline_s)

    def post(
        self, path: str, body: dict[str, Any], *, deadline_s: float = ANSWER_DEADLINE_S
    ) -> Any:
        """Likewise."""
        with self._sent("POST", path, body, deadline_s) as response:
            return self._whole(response, deadline_s)

    @contextlib.contextmanager
    def events(self, path: str, body: dict[str, Any]) -> Iterator[EventStream]:
        """An answer that comes in pieces. Raises ServerFault, also while it is read."""
        with self._sent("POST", path, body, self.silence_s) as response:
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise faults.not_a_server(self.name)
            is_whole = kind == "application/json"
            yield EventStream(self, response, self._progress_s, self._clock, is_whole=is_whole)

    @contextlib.contextmanager
    def _sent(
        self, method: str, path: str, body: dict[str, Any] | None, wait_s: float
    ) -> Iterator[httpx2.Response]:
        headers = {"Accept-Encoding": "identity", "Accept": "application/json, text/event-stream"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = f"{self._url}{path}"
        try:
            client = self._gate.client(plain_client)
            request = client.build_request(
                method,
                url,
                headers=headers,
                content=None if body is None else msgspec.json.encode(body),
                timeout=httpx2.Timeout(wait_s, connect=CONNECT_TIMEOUT_S),
                extensions={KEY_ORIGIN: origin_of(self._url)},
            )
            response = client.send(request, stream=True)
        except FAILURES as error:
            raise faults.of_error(error, self.name, self._url) from error
        try:
            if response.status_code >= 300:
                said = self._error_body(response)
                raise faults.of_answer(
                    response.status_code, response.headers, said, self.name, self._key
                )
            yield response
        except FAILURES as error:
            raise faults.of_error(error, self.name, self._url) from error
        finally:
            with contextlib.suppress(*FAILURES):
                response.close()

    def _error_body(self, response: httpx2.Response) -> bytes:
        """As much of it as there is: an error is told without its text, too."""
        with contextlib.suppress(*FAILURES):
            return read_whole(response, MAX_ERROR_BYTES, 10.0)
        return b""

    def _whole(self, response: httpx2.Response, deadline_s: float) -> Any:
        body = read_whole(response, MAX_ANSWER_BYTES, deadline_s)
        if response.headers.get("Content-Type", "").strip().lower().startswith("text/html"):
            raise faults.not_a_server(self.name)
        return self.decoded(body)

    def decoded(self, text: bytes) -> Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
        try:  # Python servers write NaN, Infinity and half a surrogate pair, which JSON has not
            whole = _ESCAPES.sub(lambda m: r"\ufffd" if m[1] else m[0], text.decode())
            return json.loads(whole)
        except (ValueError, RecursionError) as error:
            raise faults.unreadable(self.name, str(error)) from None

    def reported(self, told: Any) -> ServerFault:
        """An error that came as an event, in the middle of an answer that began well."""
        inner = told.get("error", told) if isinstance(told, dict) else told
        status = inner.get("code") if isinstance(inner, dict) else None
        status = status if isinstance(status, int) and 400 <= status <= 599 else 500
        body = msgspec.json.encode(told)[:MAX_ERROR_BYTES]
        return faults.of_answer(status, httpx2.Headers(), body, self.name, self._key)


class EventStream:
    """The events of an answer, decoded from JSON; `Done` for the mark at its end. `progressed`: the
    last one brought something new."""

    def __init__(
        self,
        server: Server,
        response: httpx2.Response,
        progress_s: float,
        clock: Callable[[], float],
        *,
        is_whole: bool,
    ) -> None:
        self._server = server
        self._response = response
        self._progress_s = progress_s
        self._clock = clock
        self._is_whole = is_whole
        self._moved_at = clock()

    def progressed(self) -> None:
        self._moved_at = self._clock()

    def __iter__(self) -> Iterator[Any]:
        if self._is_whole:
            body = read_whole(self._response, MAX_ANSWER_BYTES, self._progress_s)
            yield self._event(b"", body)
            return
        data: list[bytes] = []
        size, name = 0, b""
        for line in self._lines():
            if not line:
                if data:
                    yield self._event(name, b"\n".join(data))
                data, size, name = [], 0, b""
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                size += len(value)
                if size > MAX_EVENT_BYTES:
                    raise faults.unreadable(self._server.name, "an event is too long")
                data.append(value)
            elif field == b"event":
                name = value
            elif field == b"error":  # llama-server's, of before 2025
                raise self._server.reported(self._server.decoded(value))
        if data:
            try:
                yield self._event(name, b"\n".join(data))
            except ServerFault as fault:
                raise faults.cut_short(self._server.name, "half an event") from fault

    def _event(self, name: bytes, data: bytes) -> Any:
        if data.strip() == b"[DONE]":
            return Done
        told = self._server.decoded(data)
        if name == b"error" or (isinstance(told, dict) and told.get("error")):
            raise self._server.reported(told)
        return told

    def _lines(self) -> Iterator[bytes]:
        """Without their ends; what is no whole line at the end of all comes as the last one."""
        held: list[bytes] = []
        size = 0
        for part in self._parts():
            *lines, rest = part.split(b"\n")
            for line in lines:
                whole = b"".join((*held, line))
                held, size = [], 0
                self._check_line(len(whole))
                yield whole.removesuffix(b"\r")
            held.append(rest)
            size += len(rest)
            self._check_line(size)
            if len(held) > _MOST_PARTS:
                held = [b"".join(held)]
        if size:
            yield b"".join(held)

    def _check_line(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise faults.unreadable(self._server.name, "a line is too long")

    def _parts(self) -> Iterator[bytes]:
        try:
            for part in self._response.iter_raw():
                yield part
                if self._clock() - self._moved_at > self._progress_s:
                    raise faults.stalled(self._server.name, self._progress_s)
        except httpx2.TimeoutException as error:
            raise faults.stalled(self._server.name, self._server.silence_s) from error
