"""Single transfers from the fake hub, as the tests of downloads make them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_hub.hub import FakeHub
from fake_hub.repos import FakeFile, FakeRepo

from app.hub.downloads.patience import Limits
from app.hub.downloads.transfer import Transfer, Wanted
from app.hub.gate import Call, Gate
from app.hub.transport import plain_client

REPO = "ana/tiny-GGUF"
PATIENT = Limits(stall_s=10.0)
QUICK = Limits(stall_s=0.3, connect_s=2.0, slow_window_s=0.3, slow_bytes_per_s=1_000_000)


def some_bytes(count: int, seed: int = 1) -> bytes:
    return b"GGUF" + random.Random(seed).randbytes(count - 4)


@dataclass
class Heard:
    """A watcher that remembers. `on_moved(done)` may do what it likes in the middle."""

    on_moved: Callable[[int], None] = lambda _done: None
    on_checking: Callable[[int], None] = lambda _done: None
    notes: list[str] = field(default_factory=list)
    etags: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    n_checked: int = 0

    def checking(self, done_bytes: int) -> None:
        self.n_checked = done_bytes
        self.on_checking(done_bytes)

    def moved(self, done_bytes: int, new_bytes: int) -> None:
        self.done.append(done_bytes)
        self.on_moved(done_bytes)

    def tagged(self, etag: str) -> None:
        self.etags.append(etag)

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


@dataclass
class Fetching:
    """One file of the fake hub and the folder it goes to; `run` is one attempt."""

    hub: FakeHub
    folder: Path
    gate: Gate
    file: FakeFile
    has_hash: bool = True
    tokens: Callable[[str], Mapping[str, str]] = lambda _url: {}

    @property
    def target(self) -> Path:
        return self.folder / Path(self.file.path).name

    @property
    def part(self) -> Path:
        mark = f".{self.file.sha256[:8]}" if self.has_hash else ""
        return self.folder / f".{self.target.name}{mark}.part"

    @property
    def url(self) -> str:
        return f"{self.hub.endpoint}/{REPO}/resolve/{self.hub.repos[REPO].commit}/{self.file.path}"

    def transfer(self, heard: Heard | None = None, **changes: Any) -> Transfer:
        """`changes` are those of `Wanted`, and `limits` and `call`."""
        limits, call = changes.pop("limits", PATIENT), changes.pop("call", None) or Call()
        wanted = Wanted(
            **{
                "url": self.url,
                "size_bytes": self.file.size_bytes,
                "target": self.target,
                "sha256": self.file.sha256 if self.has_hash else "",
                "repo_id": REPO,
            }
            | changes
        )
        return Transfer(
            wanted,
            self.gate.client(plain_client),
            self.tokens,
            call,
            heard or Heard(),
            limits=limits,
        )

    def run(self, heard: Heard | None = None, **changes: Any) -> int | None:
        return self.transfer(heard, **changes).run()

    def left(self) -> list[str]:
        """What lies in the folder beside its own lock."""
        if not self.folder.exists():
            return []
        return sorted(p.name for p in self.folder.iterdir() if p.name != ".cutaway.lock")

    def ranges(self) -> list[str | None]:
        return [each.range for each in self.hub.asked(server="cdn")]


def a_repo(*files: FakeFile) -> FakeRepo:
    return FakeRepo(REPO, list(files))
