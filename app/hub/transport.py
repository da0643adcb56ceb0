"""Where connections are really made: httpx2 over sockets that belong to a gate.

`GateBackend.connect_tcp` is the one place in the program that connects. Everything above it is
httpx2's own; so timeouts, TLS and proxies are as there. No wait is endless, whatever a caller
asks for: huggingface_hub asks without a limit.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import ipaddress
import logging
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from app.hub.address import origin_of
from app.hub.gate import KEY_ORIGIN, Gate, current_call

CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 20.0
"""Without a single byte."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
ANSWER_DEADLINE_S: Final = 60.0
USER_AGENT: Final = f"cutaway; httpx2/{importlib.metadata.version('httpx2')}"

# They log addresses, signed ones too.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class AnswerTooLong(Exception):  # noqa: N818
    """More bytes than an answer of this kind can have."""


class AnswerTooSlow(Exception):  # noqa: N818
    """Bytes come, but the whole answer takes too long."""


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class GateStream(httpcore2.NetworkStream):
    """A connection that the gate, and the call that waits for it, can cut."""

    def __init__(self, gate: Gate, inner: httpcore2.NetworkStream, *, is_here: bool) -> None:
        self._gate = gate
        self._inner = inner
        self._lock = threading.Lock()
        self._is_waiting = False
        self.is_here = is_here
        try:
            gate.enter(self)
        except BaseException:
            inner.close()
            raise

    def cut(self) -> None:
        """Wake whoever waits for bytes, on any thread, and leave the closing to it. (An
        SSLSocket's own shutdown would take its state away from under the reader.) Where nobody
        waits, close."""
        with self._lock:
            if self._is_waiting:
                inner = self._inner.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(inner, socket.SHUT_RDWR)
                return
            self.close()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        self._gate.check(self.is_here)
        call = current_call()
        try:
            with call.using(self) if call is not None else contextlib.nullcontext():
                with self._lock:
                    self._is_waiting = True
                try:
                    yield
                finally:
                    with self._lock:
                        self._is_waiting = False
        finally:
            # Cut off, a read fails or looks like an end: neither is the server's.
            self._gate.check(self.is_here)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._in_use():
            return self._inner.read(max_bytes, READ_TIMEOUT_S if timeout is None else timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._in_use():
            self._inner.write(buffer, READ_TIMEOUT_S if timeout is None else timeout)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        with self._in_use():
            inner = self._inner.start_tls(
                ssl_context, server_hostname, CONNECT_TIMEOUT_S if timeout is None else timeout
            )
        self._gate.leave(self)
        return GateStream(self._gate, inner, is_here=self.is_here)

    def close(self) -> None:
        self._gate.leave(self)
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def ends_here(stream: httpcore2.NetworkStream | httpcore2.AsyncNetworkStream) -> bool:
    """Whether the other end of a connection is on this machine, by its address and not its name."""
    peer = stream.get_extra_info("server_addr")
    return isinstance(peer, tuple) and bool(peer) and is_loopback(str(peer[0]))


class GateBackend(httpcore2.NetworkBackend):
    """Opens TCP connections, if the gate is open, and those to this machine where it lets these
    through; their names are not looked up anywhere then. Behind a proxy the other end is
    elsewhere, wherever the proxy itself is."""

    def __init__(self, gate: Gate, *, has_proxy: bool = False) -> None:
        self._gate = gate
        self._has_proxy = has_proxy
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        self._gate.check(is_loopback(host) and not self._has_proxy)
        call = current_call()
        if call is not None:
            call.check()
        timeout = CONNECT_TIMEOUT_S if timeout is None else timeout
        names: tuple[str, ...] = (host,)
        if not self._gate.is_open and host.lower().rstrip(".") == "localhost":
            names = ("127.0.0.1", "::1")
        inner = self._connected(names, port, timeout, local_address, socket_options)
        is_here = ends_here(inner) and not self._has_proxy
        return GateStream(self._gate, inner, is_here=is_here)

    def _connected(
        self, names: tuple[str, ...], port: int, timeout: float, *options: Any
    ) -> httpcore2.NetworkStream:
        for name in names[:-1]:
            with contextlib.suppress(httpcore2.ConnectError):
                return self._inner.connect_tcp(name, port, timeout, *options)
        return self._inner.connect_tcp(names[-1], port, timeout, *options)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        raise NotImplementedError

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def pool_options(
    most: int, context: ssl.SSLContext | None, proxy: str, backend: object
) -> dict[str, Any]:
    """What a pool of at most so many connections is made with, for threads and event loops alike;
    its sockets come from `backend`. Raises ValueError or InvalidURL for a proxy that is none."""
    options: dict[str, Any] = {
        "ssl_context": context,
        "max_connections": most,
        "max_keepalive_connections": 4,
        "keepalive_expiry": 15.0,
        "network_backend": backend,
    }
    if proxy:
        given = httpx2.Proxy(proxy)
        options["proxy_url"] = httpcore2.URL(
            scheme=given.url.raw_scheme,
            host=given.url.raw_host,
            port=given.url.port,
            target=given.url.raw_path,
        )
        options["proxy_auth"] = given.raw_auth
    return options


def is_socks(proxy: str) -> bool:
    return bool(proxy) and httpx2.URL(proxy).scheme.startswith("socks")


class _PoolTransport(httpx2.HTTPTransport):
    """httpx2's transport, over a pool whose sockets come from the gate (it has no way to ask for
    that, so the pool is made here as it is made there)."""

    def __init__(self, gate: Gate, context: ssl.SSLContext | None, proxy: str) -> None:
        options = pool_options(32, context, proxy, GateBackend(gate, has_proxy=bool(proxy)))
        if not proxy:
            self._pool = httpcore2.ConnectionPool(**options)
            return
        kind = httpcore2.SOCKSProxy if is_socks(proxy) else httpcore2.HTTPProxy
        self._pool = kind(**options)


class GateTransport(httpx2.BaseTransport):
    """Sends requests through the gate, by the system's proxy where there is one."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._pools: dict[tuple[str, bool], _PoolTransport] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self._gate.check(is_loopback(request.url.host))
        request.headers.pop("Cookie", None)
        key_origin = request.extensions.get(KEY_ORIGIN, "")
        is_of_server = bool(key_origin) and origin_of(str(request.url)) == key_origin
        if not is_of_server and not self._may_have_token(request.url):
            request.headers.pop("Authorization", None)
        return self._pool_for(request.url).handle_request(request)

    def _may_have_token(self, url: httpx2.URL) -> bool:
        if origin_of(str(url)) != self._gate.token_origin:
            return False
        return url.scheme == "https" or is_loopback(url.host)

    def _pool_for(self, url: httpx2.URL) -> _PoolTransport:
        """One for each way out. Certificates are read once TLS is needed: that takes a moment."""
        proxy = proxy_for(url)
        needs_tls = url.scheme == "https" or proxy.startswith("https")
        with self._lock:
            if needs_tls and self._context is None:
                self._context = httpx2.create_ssl_context()
            context = self._context if needs_tls else None
            way = (proxy, needs_tls)
            if way not in self._pools:
                try:
                    self._pools[way] = _PoolTransport(self._gate, context, proxy)
                except (ValueError, RuntimeError, httpx2.InvalidURL) as error:
                    # Of a kind that httpx2 does not speak: SOCKS needs one more package.
                    raise httpx2.ProxyError(str(error)) from None
            return self._pools[way]

    def close(self) -> None:
        with self._lock:
            pools = list(self._pools.values())
            self._pools.clear()
        for each in pools:
            each.close()


def proxy_for(url: httpx2.URL) -> str:
    """The system's proxy for an address; "" for none. This machine is never behind one."""
    if is_loopback(url.host) or proxy_bypass(url.host):
        return ""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all") or ""
    return found if "://" in found or not found else f"http://{found}"


def plain_client(gate: Gate) -> httpx2.Client:
    return httpx2.Client(
        transport=GateTransport(gate),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        headers={"User-Agent": USER_AGENT},
    )


def read_whole(
    response: httpx2.Response,
    max_bytes: int = MAX_ANSWER_BYTES,
    deadline_s: float = ANSWER_DEADLINE_S,
) -> bytes:
    """The body of a streamed answer, unpacked, and never more of it than `max_bytes`, also where
    a few packed bytes would become many. Closes the answer.

    Raises AnswerTooLong, AnswerTooSlow, and what httpx2 and the gate raise.
    """
    packing = response.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packing in ("gzip", "deflate") else None
    ends_at = time.monotonic() + deadline_s
    parts: list[bytes] = []
    n_bytes = 0
    try:
        for raw in response.iter_raw():
            part = raw if unpack is None else unpack.decompress(raw, max_bytes - n_bytes + 1)
            n_bytes += len(part)
            parts.append(part)
            if n_bytes > max_bytes:
                raise AnswerTooLong
            if time.monotonic() > ends_at:
                raise AnswerTooSlow
    except zlib.error as error:
        raise httpx2.DecodingError(str(error)) from error
    finally:
        response.close()
    return b"".join(parts)
