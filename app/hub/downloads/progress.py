"""What is told about a download, and how its speed is measured."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from app.gguf.local.finding import is_projector_name
from models.records import DownloadState

if TYPE_CHECKING:
    from app.hub.downloads.ports import Wish

Phase = Literal["", "checking", "fetching"]
SPEED_WINDOW_S: Final = 6.0
MIN_SPEED_SPAN_S: Final = 0.9

ACTIVE: Final = frozenset({DownloadState.QUEUED, DownloadState.RUNNING, DownloadState.WAITING})
"""States that go on by themselves."""


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """One download at one moment.

    `path` is the file to load once it is done. `speed_bytes_s` and `left_s` are None while nothing
    moves; `retry_in_s` counts down while it waits. `sentence` says why it failed or waits, or what
    else is to be known. `is_ours`: its files were fetched by us, so they may go to the trash.
    `names` are those on the hub, with `revision` and `sha256s` as `HubFile` has them; `name` is the
    one on the disk.
    """

    id: str
    repo_id: str
    name: str
    folder: str
    path: str
    n_files: int
    size_bytes: int
    done_bytes: int
    state: DownloadState
    added_at: datetime
    phase: Phase = ""
    speed_bytes_s: float | None = None
    left_s: float | None = None
    retry_in_s: float | None = None
    sentence: str = ""
    finished_at: datetime | None = None
    is_ours: bool = False
    names: tuple[str, ...] = ()
    revision: str = ""
    sha256s: tuple[str, ...] = ()

    @property
    def is_projector(self) -> bool:
        """It is loaded with its model, and never alone."""
        return is_projector_name(self.name)

    def is_of(self, file: Wish) -> bool:
        """Whether it is of these weights on the hub: by their hashes, in whatever revision, and by
        the revision where the hub has no hash."""
        if (self.repo_id, self.names) != (file.repo_id, file.names):
            return False
        if all(self.sha256s) and all(file.sha256s):
            return self.sha256s == file.sha256s
        return self.revision == file.revision

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        if not self.size_bytes:
            return 1.0 if self.state is DownloadState.DONE else 0.0
        return min(1.0, self.done_bytes / self.size_bytes)


class Speed:
    """Bytes per second over the last seconds, of those that came over the network."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, n_bytes: int) -> None:
        """So many bytes have come in all."""
        self._samples.append((now_s, n_bytes))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= SPEED_WINDOW_S:
            self._samples.popleft()

    @property
    def bytes_s(self) -> float | None:
        """None until there is something to measure."""
        if len(self._samples) < 2:
            return None
        (since, before), (now, after) = self._samples[0], self._samples[-1]
        if now - since < MIN_SPEED_SPAN_S:
            return None
        return max(0.0, (after - before) / (now - since))
