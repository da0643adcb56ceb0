"""The same one way out for what runs in an event loop: tool servers by address.

`AsyncGateBackend.connect_tcp` connects where `transport.GateBackend` does it for threads; the rules
are those of `transport.py`. What must hold:

* A closed gate opens nothing, and cuts what is open: the loop's reader sees the end, on any thread.
* An answer is bounded (`MAX_ANSWER_BYTES`), packed ones are refused: a few bytes could become many.
  A stream of events has its bound at each event, where it is read.
* What the caller says of an address (its headers) goes to that origin alone: redirects are followed
  within the origin or not at all, by whoever sends (`mcp` does so), never here.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import anyio
import httpcore2
import httpx2

from app.hub.gate import Gate
from app.hub.transport import (
    CONNECT_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    USER_AGENT,
    AnswerTooLong,
    ends_here,
    is_loopback,
    is_socks,
    pool_options,
    proxy_for,
)

EVENTS: Final = "text/event-stream"


class AsyncGateStream(httpcore2.AsyncNetworkStream):
    """A connection that the gate can cut from any thread."""

    def __init__(self, gate: Gate, inner: httpcore2.AsyncNetworkStream, *, is_here: bool) -> None:
        self._gate = gate
        self._inner = inner
        self.is_here = is_here

    @classmethod
    async def opened(
        cls, gate: Gate, inner: httpcore2.AsyncNetworkStream, *, is_here: bool
    ) -> AsyncGateStream:
        stream = cls(gate, inner, is_here=is_here)
        try:
            gate.enter(stream)
        except BaseException:
            await inner.aclose()
            raise
        return stream

    def cut(self) -> None:
        """Shut the socket down: whoever waits for it in the loop wakes, and closes it."""
        found = self._inner.get_extra_info("socket")
        if found is not None:
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._gate.check(self.is_here)
        try:
            return await self._inner.read(max_bytes, timeout)
        finally:
            self._gate.check(self.is_here)  # cut off, a read looks like the server's end

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._gate.check(self.is_here)
        try:
            await self._inner.write(buffer, timeout)
        finally:
            self._gate.check(self.is_here)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self._gate.check(self.is_here)
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        self._gate.leave(self)
        return await AsyncGateStream.opened(self._gate, inner, is_here=self.is_here)

    async def aclose(self) -> None:
        self._gate.leave(self)
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class AsyncGateBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections in an event loop, if the gate lets them through (`GateBackend`)."""

    def __init__(self, gate: Gate, *, has_proxy: bool) -> None:
        self._gate = gate
        self._has_proxy = has_proxy
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self._gate.check(is_loopback(host) and not self._has_proxy)
        timeout = CONNECT_TIMEOUT_S if timeout is None else timeout
        if not self._gate.is_open and host.lower().rstrip(".") == "localhost":
            host = "127.0.0.1"  # no name is looked up
        inner = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        is_here = ends_here(inner) and not self._has_proxy
        return await AsyncGateStream.opened(self._gate, inner, is_here=is_here)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with AnswerTooLong where it is longer than an answer can be."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_bytes = 0
        async for part in self._inner:
            n_bytes += len(part)
            if n_bytes > MAX_ANSWER_BYTES:
                raise AnswerTooLong
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


class _PoolTransport(httpx2.AsyncHTTPTransport):
    """httpx2's transport over a pool whose sockets come from the gate."""

    def __init__(self, gate: Gate, context: ssl.SSLContext | None, proxy: str) -> None:
        options = pool_options(16, context, proxy, AsyncGateBackend(gate, has_proxy=bool(proxy)))
        if not proxy:
            self._pool = httpcore2.AsyncConnectionPool(**options)
            return
        kind = httpcore2.AsyncSOCKSProxy if is_socks(proxy) else httpcore2.AsyncHTTPProxy
        self._pool = kind(**options)


class AsyncGateTransport(httpx2.AsyncBaseTransport):
    """Sends to one origin, through the gate, by the system's proxy where there is one."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._pool: _PoolTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._gate.check(is_loopback(request.url.host))
        request.headers.pop("Cookie", None)
        request.headers["Accept-Encoding"] = "identity"
        if self._pool is None:
            proxy = proxy_for(request.url)
            needs_tls = request.url.scheme == "https" or proxy.startswith("https")
            # Reading the system's certificates takes a moment, in which the loop goes on.
            context = (
                await anyio.to_thread.run_sync(httpx2.create_ssl_context) if needs_tls else None
            )
            try:
                self._pool = _PoolTransport(self._gate, context, proxy)
            except (ValueError, RuntimeError, httpx2.InvalidURL) as error:
                raise httpx2.ProxyError(str(error)) from None
        response = await self._pool.handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise httpx2.DecodingError("The answer is packed, though it was asked not to be.")
        if EVENTS not in response.headers.get("Content-Type", ""):
            response.stream = _Bounded(response.stream)
        return response

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()


def async_client(
    gate: Gate, headers: dict[str, str], on_status: Callable[[int], None], timeout: Any = None
) -> httpx2.AsyncClient:
    """A client whose every connection passes the gate, with these headers at each request.
    `on_status` hears the status of each answer, which `mcp` keeps to itself."""

    async def heard(response: httpx2.Response) -> None:
        on_status(response.status_code)

    return httpx2.AsyncClient(
        transport=AsyncGateTransport(gate),
        trust_env=False,
        follow_redirects=False,
        timeout=timeout or httpx2.Timeout(30.0, connect=CONNECT_TIMEOUT_S, read=300.0),
        headers={"User-Agent": USER_AGENT, **headers},
        event_hooks={"response": [heard]},
    )


def trouble_words(error: BaseException) -> str:
    """A sentence for what went wrong on the way; "" for what is no fault of a connection."""
    match error:
        case httpx2.HTTPStatusError():
            return status_words(error.response.status_code)
        case httpx2.ConnectError() | httpcore2.ConnectError():
            return "Nothing answers at this address."
        case httpx2.TimeoutException() | httpcore2.TimeoutException():
            return "The address doesn't answer in time."
        case AnswerTooLong() | httpx2.SSEError():
            return "It sent a message that is longer than 16 MB, or can't be read."
        case httpx2.HTTPError():
            return "The connection failed in the middle."
    return ""


def status_words(code: int) -> str:
    match code:
        case 401 | 403:
            return f"The server rejected the sign-in ({code}). Check its headers."
        case 404 | 405:
            return f"There is no tool server at this address ({code})."
        case 429:
            return "The server says it gets too many requests (429). Try again later."
    return f"The server answered with the error {code}."
