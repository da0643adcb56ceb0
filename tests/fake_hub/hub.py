"""A hub on loopback: two servers, since the real one sends downloads to another host.

    with FakeHub() as hub:
        hub.add(FakeRepo("ana/tiny-GGUF", [FakeFile("tiny-Q4_K_M.gguf", data)]))
        hub.script(Act(close_after=4_000), path="/resolve/", server="cdn")
        ...
        assert hub.requests[-1].range == "bytes=4000-"

It answers over real HTTP/1.1 as the real one does (`answers.py`), unless a script says otherwise
(`acts.py`), and remembers every request with its headers. All of its threads end with it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any

from fake_hub.acts import Act, Logged, Rule
from fake_hub.answers import Handler
from fake_hub.repos import FakeRepo


@dataclass(frozen=True)
class FakeAccount:
    """Whose token it is, and which gated and private repositories it may read."""

    name: str
    may_read: frozenset[str] = frozenset()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, hub: FakeHub, name: str) -> None:
        self.hub = hub
        self.name = name
        self.open_sockets: set[socket.socket] = set()
        self.n_connections = 0
        super().__init__(("127.0.0.1", 0), Handler)
        # No thread waits in poll longer than this when the server ends.
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name=f"fake-{name}"
        )

    def start(self) -> None:
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open_sockets.add(request)
        self.n_connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open_sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error; anything else is shown by the failing test."""

    def end(self) -> None:
        self.shutdown()
        for each in list(self.open_sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.server_close()


class FakeHub:
    """See the module. `endpoint` and `cdn` are the addresses of the two servers."""

    def __init__(self, *, page_size: int = 20) -> None:
        self.repos: dict[str, FakeRepo] = {}
        self.renamed: dict[str, str] = {}
        """Old repository ids: answered with 307 to the new one."""
        self.accounts: dict[str, FakeAccount] = {}
        """Token -> account. Any other token is a bad one."""
        self.page_size = page_size
        self.requests: list[Logged] = []
        self.ending = threading.Event()
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._hub = _Server(self, "hub")
        self._cdn = _Server(self, "cdn")
        self.endpoint = f"http://127.0.0.1:{self._hub.server_address[1]}"
        self.cdn = f"http://127.0.0.1:{self._cdn.server_address[1]}"

    def __enter__(self) -> FakeHub:
        self._hub.start()
        self._cdn.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.ending.set()
        with self._lock:
            holds = [act.hold for rule in self._rules for act in rule.acts if act.hold]
        for hold in holds:
            hold.set()
        self._hub.end()
        self._cdn.end()

    # --- what a test sets up --------------------------------------------------------------------

    def add(self, *repos: FakeRepo) -> None:
        self.repos |= {repo.id: repo for repo in repos}

    def script(
        self,
        *acts: Act,
        path: str = "",
        method: str | None = None,
        server: str | None = None,
        for_ever: bool = False,
    ) -> None:
        """Acts for the next requests whose path holds `path` (of one method, of one server).
        Rules are asked in the order in which they were given; `for_ever` repeats the last act."""
        with self._lock:
            self._rules.append(Rule(list(acts), path, method, server, for_ever))

    def unscript(self) -> None:
        """Everything is ordinary again."""
        with self._lock:
            self._rules.clear()

    # --- what a test looks at -------------------------------------------------------------------

    def asked(self, path: str = "", server: str | None = None) -> list[Logged]:
        """The requests whose path holds `path`, in order."""
        with self._lock:
            found = list(self.requests)
        return [each for each in found if path in each.path and server in (None, each.server)]

    def forget(self) -> None:
        with self._lock:
            self.requests.clear()

    @property
    def n_connections(self) -> int:
        """How many connections were ever made, requests or not."""
        return self._hub.n_connections + self._cdn.n_connections

    def wait_for(self, n: int, path: str = "", timeout_s: float = 10.0) -> list[Logged]:
        """Wait until so many requests have come; return them."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.asked(path)) < n:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {n} requests with {path!r} came")
            time.sleep(0.005)
        return found

    # --- for the handler ------------------------------------------------------------------------

    def note(self, logged: Logged) -> Act:
        """Remember a request; say what to do with it."""
        with self._lock:
            self.requests.append(logged)
            for rule in self._rules:
                if rule.fits(logged.server, logged.method, logged.path):
                    return rule.take()
        return Act()

    def file_by_sha256(self, sha256: str) -> Any:
        for repo in list(self.repos.values()):
            for file in repo.files:
                if file.sha256 == sha256:
                    return file
        return None

    def sorted_repos(self, sort: str, is_rising: bool) -> Iterable[FakeRepo]:
        keys = {
            "downloads": lambda repo: repo.downloads,
            "likes": lambda repo: repo.likes,
            "trendingScore": lambda repo: repo.trending,
            "lastModified": lambda repo: repo.updated_days,
            "createdAt": lambda repo: repo.created_days,
        }
        key = keys[sort]
        return sorted(self.repos.values(), key=key, reverse=not is_rising)
