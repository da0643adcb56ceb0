"""A download in the queue, and what is told about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.hub.downloads.progress import DownloadProgress, Speed
from app.hub.downloads.run import DownloadRun
from app.hub.downloads.space import Claim
from models.records import Download, DownloadFile, DownloadState


@dataclass(slots=True)
class DownloadEntry:
    """`is_kept`: the database has it. `best_bytes`: how far it ever came. `n_limited`: how often in
    a row the server said that it is asked too often."""

    download: Download
    run: DownloadRun | None = None
    speed: Speed | None = None
    best_bytes: int = 0
    n_limited: int = 0
    kept_at_s: float = 0.0
    retry_at_s: float = 0.0
    note: str = ""
    is_kept: bool = True
    is_cleaned_up: bool = True
    after_run: Callable[[], None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether bytes may come; a run that was ended is not over at once."""
        return self.run is not None and self.download.state is DownloadState.RUNNING

    @property
    def name(self) -> str:
        """The file that is loaded; the repository's where none can be read."""
        files = self.download.files
        return files[0].saved_as if files else self.download.repo_id

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.download.files)

    @property
    def done_bytes(self) -> int:
        if self.run is not None and self.is_running:
            return self.run.done_bytes
        return sum(file.done_bytes for file in self.download.files)

    def cleaned_files(self) -> tuple[DownloadFile, ...]:
        """As they are with nothing of them on the disk; what was whole once may still be there."""
        was_whole = self.download.finished_at is not None
        return tuple(
            replace(file, done_bytes=0, etag="", mtime_ns=file.mtime_ns if was_whole else None)
            for file in self.download.files
        )

    @property
    def is_unclean(self) -> bool:
        """Whether something of it may be left on the disk."""
        return self.download.files != self.cleaned_files()

    @property
    def claim(self) -> Claim:
        return Claim(Path(self.download.folder), self.size_bytes - self.done_bytes)

    def progress(self, now_s: float, why_closed: str) -> DownloadProgress:
        """At this moment of the queue's clock; `why_closed` is the gate's."""
        download = self.download
        size, done = self.size_bytes, self.done_bytes
        speed = self.speed.bytes_s if self.speed is not None and self.is_running else None
        first = download.files[0] if download.files else None
        is_waiting = download.state is DownloadState.WAITING
        return DownloadProgress(
            id=download.id,
            repo_id=download.repo_id,
            name=self.name,
            folder=download.folder,
            path=str(Path(download.folder) / first.saved_as) if first is not None else "",
            n_files=len(download.files),
            size_bytes=size,
            done_bytes=done,
            state=download.state,
            added_at=download.added_at,
            phase=self.run.phase if self.run is not None and self.is_running else "",
            speed_bytes_s=speed,
            left_s=(size - done) / speed if speed else None,
            retry_in_s=max(0.0, self.retry_at_s - now_s) if is_waiting else None,
            sentence=self._sentence(why_closed),
            finished_at=download.finished_at,
            is_ours=any(file.mtime_ns is not None for file in download.files),
            names=tuple(file.name for file in download.files),
            revision=download.revision,
            sha256s=tuple(file.sha256 for file in download.files),
        )

    def _sentence(self, why_closed: str) -> str:
        if self.download.state is DownloadState.QUEUED and why_closed:
            return why_closed
        if self.run is not None and self.is_running and self.run.note:
            return self.run.note
        return self.download.error or self.note

    def is_same_as(self, other: Download) -> bool:
        """Whether both are of the same files."""
        mine = self.download
        names = [file.name for file in mine.files] == [file.name for file in other.files]
        return names and (mine.repo_id, mine.revision) == (other.repo_id, other.revision)
