"""One download at work: its files, one after another, on a thread of its own.

`DownloadRun` is made and asked by the queue's owner; its thread writes plain numbers that the
owner reads whenever it likes, and ends with exactly one `Ending`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from app.hub.downloads.partial import NameTaken
from app.hub.downloads.patience import Limits
from app.hub.downloads.progress import Phase
from app.hub.downloads.space import Claim, folder_trouble, shortage
from app.hub.gate import Call, CalledOff, Gate, GateClosed
from models.records import Download, DownloadFile

if TYPE_CHECKING:
    from app.hub.downloads.transfer_faults import TransferFault

SPACE_EVERY_BYTES: Final = 64 << 20
SPACE_EVERY_S: Final = 5.0
NAP_S: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, and what its files are then. `wait_s` is what the server asks for."""

    kind: Literal["done", "failed", "called_off", "closed", "name_taken"]
    files: tuple[DownloadFile, ...]
    sentence: str = ""
    fault_kind: str = ""
    may_retry: bool = False
    wait_s: float | None = None


class Throttle:
    """Keeps all downloads together under so many bytes per second (0: no limit)."""

    def __init__(self, bytes_s: Callable[[], float]) -> None:
        self._bytes_s = bytes_s
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._limit = 0.0

    def pay(self, n_bytes: int, call: Call) -> None:
        """Wait until so many bytes may have come. Another limit ends the wait. Raises CalledOff."""
        limit = self._bytes_s()
        if limit <= 0 or not n_bytes:
            return
        with self._lock:
            now = time.monotonic()
            if limit != self._limit:
                self._limit, self._free_at = limit, now
            self._free_at = max(self._free_at, now) + n_bytes / limit
            until = self._free_at
        while (left := until - time.monotonic()) > 0 and self._bytes_s() == limit:
            call.check()
            time.sleep(min(left, NAP_S))


@dataclass(frozen=True, slots=True)
class RunNeeds:
    """What every run needs. `claims` are those of the other running downloads."""

    gate: Gate
    url_of: Callable[[Download, DownloadFile], str]
    headers_for: Callable[[str], Mapping[str, str]]
    token_refused: Callable[[], None]
    page_of: Callable[[Download], str]
    throttle: Throttle
    limits: Limits
    free_bytes: Callable[[Path], int]


@dataclass
class _Live:
    """What the thread writes; single assignments, so that no lock is needed."""

    files: list[DownloadFile]
    done_bytes: list[int]
    arrived_bytes: int = 0
    phase: Phase = ""
    note: str = ""


class DownloadRun:
    """`start` it once; `cancel` ends it at once. `ended` and `tagged` are called on its thread."""

    def __init__(
        self,
        download: Download,
        around: RunNeeds,
        claims: Callable[[], tuple[Claim, ...]],
        *,
        tagged: Callable[[DownloadRun], None],
        ended: Callable[[DownloadRun, Ending], None],
    ) -> None:
        self.download = download
        self._around = around
        self._claims = claims
        self._tagged = tagged
        self._ended = ended
        self._call = Call()
        files = list(download.files)
        self._live = _Live(files, [file.done_bytes for file in files])
        self._thread = threading.Thread(target=self._work, name="download", daemon=True)
        self._space = _SpaceWatch(self)

    # --- for the owner --------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        self._call.cancel()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def done_bytes(self) -> int:
        return sum(self._live.done_bytes)

    @property
    def arrived_bytes(self) -> int:
        """Over the network, in this run."""
        return self._live.arrived_bytes

    @property
    def left_bytes(self) -> int:
        return sum(file.size_bytes for file in self._live.files) - self.done_bytes

    @property
    def phase(self) -> Phase:
        return self._live.phase

    @property
    def note(self) -> str:
        return self._live.note

    def files(self) -> tuple[DownloadFile, ...]:
        """As they are now."""
        pairs = zip(list(self._live.files), self._live.done_bytes, strict=True)
        return tuple(replace(file, done_bytes=done) for file, done in pairs)

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        ending = self._ending()
        self._live.phase = ""
        self._ended(self, ending)

    def _ending(self) -> Ending:
        from app.hub.downloads.transfer_faults import TransferFault

        try:
            self._fetch_all()
        except CalledOff:
            return Ending("called_off", self.files())
        except GateClosed as closed:
            return Ending("closed", self.files(), closed.sentence)
        except NameTaken as taken:
            return Ending("name_taken", self.files(), str(taken))
        except TransferFault as fault:
            return _failed(fault, self.files())
        except Exception as error:  # noqa: BLE001 - a fault of ours ends one download
            _log.error("a download failed", exc_info=error)
            words = f"The download failed ({type(error).__name__}). Press Retry."
            return Ending("failed", self.files(), words, "bug")
        return Ending("done", self.files())

    def _fetch_all(self) -> None:
        from app.hub.downloads.transfer_faults import TransferFault

        folder = Path(self.download.folder)
        trouble = folder_trouble(folder)
        if trouble:
            raise TransferFault("read_only", trouble)
        self.check_space()
        for index, file in enumerate(self.download.files):
            if not self._is_done(folder, file):
                self._fetch(folder, index, file)

    def _is_done(self, folder: Path, file: DownloadFile) -> bool:
        """Whether an earlier run fetched this one, and nobody has touched it since."""
        if file.mtime_ns is None:
            return False
        with contextlib.suppress(OSError):
            found = (folder / file.saved_as).stat()
            return (found.st_size, found.st_mtime_ns) == (file.size_bytes, file.mtime_ns)
        return False

    def _fetch(self, folder: Path, index: int, file: DownloadFile) -> None:
        from app.hub.downloads.transfer import Transfer, Wanted
        from app.hub.transport import plain_client

        around, download = self._around, self.download
        wanted = Wanted(
            url=around.url_of(download, file),
            size_bytes=file.size_bytes,
            target=folder / file.saved_as,
            sha256=file.sha256,
            etag=file.etag,
            repo_id=download.repo_id,
            page=around.page_of(download),
        )
        watcher = _Watcher(self, index)
        transfer = Transfer(
            wanted,
            around.gate.client(plain_client),
            around.headers_for,
            self._call,
            watcher,
            limits=around.limits,
            token_refused=around.token_refused,
        )
        try:
            mtime_ns = transfer.run()
        except NameTaken as taken:
            raise NameTaken(wanted.target.name) from taken
        if mtime_ns is None and self._live.files[index].etag:
            # We had begun it: the program ended between the file's name and the database.
            with contextlib.suppress(OSError):
                mtime_ns = wanted.target.stat().st_mtime_ns
        done = replace(file, etag="", mtime_ns=mtime_ns, done_bytes=file.size_bytes)
        self._live.done_bytes[index] = file.size_bytes
        self._live.files[index] = done
        self._tagged(self)

    # --- for its watcher ------------------------------------------------------------------------

    def on_checking(self) -> None:
        self._live.phase = "checking"

    def on_moved(self, index: int, done_bytes: int, new_bytes: int) -> None:
        self._live.phase = "fetching"
        self._live.done_bytes[index] = done_bytes
        self._live.arrived_bytes += new_bytes
        self._space.on_moved(new_bytes)
        self._around.throttle.pay(new_bytes, self._call)

    def on_tagged(self, index: int, etag: str) -> None:
        if self._live.files[index].etag != etag:
            self._live.files[index] = replace(self._live.files[index], etag=etag)
            self._tagged(self)

    def on_noted(self, sentence: str) -> None:
        self._live.note = sentence

    def check_space(self) -> None:
        """Raise TransferFault where the disk has no room for what is still to come."""
        from app.hub.downloads.transfer_faults import TransferFault

        folder = Path(self.download.folder)
        try:
            free = self._around.free_bytes(folder)
        except OSError:
            return
        words = shortage(Claim(folder, self.left_bytes), self._claims(), free)
        if words:
            raise TransferFault("no_space", words)


class _SpaceWatch:
    """Looks now and then whether there is still room: another program may fill the disk."""

    def __init__(self, run: DownloadRun) -> None:
        self._run = run
        self._bytes = 0
        self._at_s = time.monotonic()

    def on_moved(self, new_bytes: int) -> None:
        self._bytes += new_bytes
        now = time.monotonic()
        if self._bytes >= SPACE_EVERY_BYTES or now - self._at_s >= SPACE_EVERY_S:
            self._bytes, self._at_s = 0, now
            self._run.check_space()


@dataclass(frozen=True, slots=True)
class _Watcher:
    """A transfer's watcher, for one file of a run."""

    run: DownloadRun
    index: int

    def checking(self, done_bytes: int) -> None:
        self.run.on_checking()

    def moved(self, done_bytes: int, new_bytes: int) -> None:
        self.run.on_moved(self.index, done_bytes, new_bytes)

    def tagged(self, etag: str) -> None:
        self.run.on_tagged(self.index, etag)

    def noted(self, sentence: str) -> None:
        self.run.on_noted(sentence)


def _failed(fault: TransferFault, files: tuple[DownloadFile, ...]) -> Ending:
    if fault.may_retry:
        import tenacity  # noqa: F401 - it takes its time, and the owner needs it next

    return Ending(
        "failed", files, fault.sentence, fault.kind, may_retry=fault.may_retry, wait_s=fault.wait_s
    )
