"""The download queue over a real store and the fake hub, with the test as its owner's thread.

`python tests/queueing.py` runs it in processes of their own, which a test may kill: one for each
line of JSON that it reads, a list of `DATA_DIR ENDPOINT [--add FOLDER …]`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import queue
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from app.chat.alarms import Alarms  # noqa: E402
from app.hub.downloads.patience import Limits  # noqa: E402
from app.hub.downloads.ports import Links, Wishes  # noqa: E402
from app.hub.downloads.progress import DownloadProgress  # noqa: E402
from app.hub.downloads.queue import Downloads  # noqa: E402
from app.hub.gate import Gate  # noqa: E402
from app.hub.records import HubFile  # noqa: E402
from models.records import Download, DownloadState  # noqa: E402
from models.store.store import Store  # noqa: E402

PATIENT = Limits(stall_s=10.0)


def wish(repo: Any, *names: str, **changes: Any) -> HubFile:
    """Files of a fake repository as the hub's client tells of them."""
    files = [repo.file(name) for name in names]
    return HubFile(
        **{
            "repo_id": repo.id,
            "revision": repo.commit,
            "names": tuple(file.path for file in files),
            "sizes": tuple(file.size_bytes for file in files),
            "sha256s": tuple(file.sha256 if file.is_lfs else "" for file in files),
        }
        | changes
    )


class StoreBook:
    """The queue's database."""

    def __init__(self, store: Store, post: Callable[[Callable[[], None]], None]) -> None:
        self._store = store
        self._post = post

    def create(
        self, download: Download, then: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        future = self._store.create_download(download)
        future.add_done_callback(lambda _: self._post(then))

    def change(self, download_id: str, changes: Mapping[str, Any]) -> None:
        self._store.update_download(download_id, **changes)

    def drop(self, download_id: str) -> None:
        self._store.delete_download(download_id)


@dataclass
class Owner:
    """Everything around the queue. `until` runs what other threads post."""

    data_dir: Path
    endpoint: str
    at_once: int = 2
    bytes_s: float = 0.0
    limits: Limits = PATIENT
    waits: Callable[[int], float] = lambda attempt: 0.02 * attempt
    free: Callable[[Path], int] | None = None
    said: list[tuple[str, str]] = field(default_factory=list)
    finished: list[DownloadProgress] = field(default_factory=list)
    n_told: int = 0

    def __post_init__(self) -> None:
        self._is_closed = False
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = Store.open(self.data_dir, backup_after_s=None)
        self.store.opened.result(20)
        self.gate = Gate(is_open=True)
        self.alarms = Alarms(self._posted.put)
        more = {} if self.free is None else {"free": self.free}
        self.downloads = Downloads(
            gate=self.gate,
            links=Links(lambda: self.endpoint, lambda _url: {}),
            wishes=Wishes(lambda: self.at_once, lambda: self.bytes_s),
            book=StoreBook(self.store, self._posted.put),
            post=self._posted.put,
            clockwork=self.alarms,
            on_changed=self._on_changed,
            on_done=self.finished.append,
            say=lambda level, sentence: self.said.append((level, sentence)),
            limits=self.limits,
            waits=self.waits,
            **more,
        )
        self.downloads.restore(self.store.list_downloads().result(20))

    def _on_changed(self) -> None:
        self.n_told += 1

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.downloads.close()
        self.alarms.close()
        self.store.close()
        self.gate.shut_down()

    def until(self, is_so: Callable[[], bool], timeout_s: float = 15.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"it did not come to that: {self.downloads.snapshot()}")
            try:
                self._posted.get(timeout=0.02)()
            except queue.Empty:
                continue

    def pump(self, seconds: float) -> None:
        """Run what is posted for so long."""
        ends_at = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > ends_at)

    def one(self, download_id: str) -> DownloadProgress:
        return next(each for each in self.downloads.snapshot() if each.id == download_id)

    def until_state(self, download_id: str, *states: DownloadState) -> DownloadProgress:
        self.until(lambda: self.one(download_id).state in states)
        return self.one(download_id)

    def stored(self) -> tuple[Download, ...]:
        return self.store.list_downloads().result(20)

    def add(self, file: HubFile, folder: Path) -> str:
        """Its id, once it is in the queue."""
        ids: list[str] = []
        refused: list[str] = []
        self.downloads.add(file, folder, ids.append, refused.append)
        self.until(lambda: bool(ids or refused))
        if refused:
            raise AssertionError(refused[0])
        return ids[0]

    def refusal(self, file: HubFile, folder: Path) -> str:
        ids: list[str] = []
        refused: list[str] = []
        self.downloads.add(file, folder, ids.append, refused.append)
        self.until(lambda: bool(ids or refused))
        assert not ids
        return refused[0]


def _child(line: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("--add", type=Path)
    parser.add_argument("--file", default="")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--sha256", default="")
    parser.add_argument("--repo", default="")
    parser.add_argument("--revision", default="")
    given = parser.parse_args(line)
    owner = Owner(given.data_dir, given.endpoint)
    if given.add is not None:
        file = HubFile(given.repo, given.revision, (given.file,), (given.size,), (given.sha256,))
        owner.add(file, given.add)
    owner.until(lambda: False, timeout_s=20)


def _start_children() -> None:
    """For each line of JSON that comes, a process with these arguments; its id is printed. They
    are forked from this one, which has no thread: what takes its time is imported once."""
    for name in (
        "app.hub.downloads.transfer",
        "models.store.opening",
        "sqlalchemy.dialects.sqlite",
    ):
        importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line))
            os._exit(1)
        print(pid, flush=True)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _start_children()
