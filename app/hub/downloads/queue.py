"""The download queue: what is fetched, what waits for what, and what is kept of it.

What must hold:

* One owner: every method is called on one thread (the GUI's), every answer of another thread
  comes through `post`. Every method returns at once; disks and networks are for threads.
* The database knows a download before its first byte is on the disk, and longer than its partial
  is there: so no partial is ever nobody's, and the queue goes on after any end of the program.
* A download has at most one run, also where it is paused and resumed faster than a run ends.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.hub.downloads import files as on_disk
from app.hub.downloads.entry import DownloadEntry
from app.hub.downloads.patience import Limits
from app.hub.downloads.ports import Book, Clockwork, Links, Wish, Wishes
from app.hub.downloads.progress import ACTIVE, DownloadProgress, Speed
from app.hub.downloads.retrying import MAX_ATTEMPTS, wait_s
from app.hub.downloads.run import DownloadRun, Ending, RunNeeds, Throttle
from app.hub.downloads.safe_names import NameRefused
from app.hub.downloads.space import Claim, folder_trouble, free_bytes, shortage
from models.records import Download, DownloadFile, DownloadState

if TYPE_CHECKING:
    from app.hub.gate import Gate

TICK_S: Final = 0.4
KEEP_EVERY_S: Final = 5.0
LOOK_AT_GATE_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 2.0
PROGRESS_BYTES: Final = 1 << 20
"""An attempt that brought so much counts as a new beginning: its failure is the first one."""

TRUSTED_LIMITS: Final = 3
"""So often the wait that a server asks for is believed; then waits grow whatever it says."""
LONGEST_WAIT_S: Final = 3600.0
_log = logging.getLogger(__name__)

MISSING_PARTS: Final = (
    "Parts of this model are missing from the repository ({names}), so it couldn't be loaded. "
    "Choose another file."
)
UNREADABLE: Final = (
    "The record of this download couldn't be read. Remove it and download the file from the hub "
    "again."
)
NAME_TAKEN: Final = (
    "“{folder}” already has a different file named “{name}”. Rename or move that file, then "
    "press Retry."
)
FAILED: Final = "“{name}” wasn't downloaded. {why}"
OTHER_FOLDER: Final = (
    "A different file with this name already exists, so this one is saved in “{folder}”."
)


class Downloads:
    """See the module. `on_changed` is called at most a few times a second while bytes move;
    `say(level, sentence)` tells the user something that is no download's own."""

    def __init__(
        self,
        *,
        gate: Gate,
        links: Links,
        wishes: Wishes,
        book: Book,
        post: Callable[[Callable[[], None]], None],
        clockwork: Clockwork,
        on_changed: Callable[[], None],
        on_done: Callable[[DownloadProgress], None] = lambda _done: None,
        say: Callable[[str, str], None] = lambda _level, _sentence: None,
        limits: Limits | None = None,
        waits: Callable[[int], float] = wait_s,
        free: Callable[[Path], int] = free_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._links = links
        self._wishes = wishes
        self._book = book
        self._post = post
        self._clockwork = clockwork
        self._on_changed = on_changed
        self._on_done = on_done
        self._say = say
        self._limits = limits
        self._waits = waits
        self._free = free
        self._clock = clock
        self._entries: dict[str, DownloadEntry] = {}
        self._claims: tuple[tuple[str, Claim], ...] = ()
        self._throttle = Throttle(wishes.bytes_s)
        self._may_run = True
        self._is_closed = False

    # --- beginning and end ----------------------------------------------------------------------

    def restore(self, downloads: tuple[Download, ...], *, may_run: bool = True) -> None:
        """What the database has. What ran or waited when the program ended goes on; without
        `may_run` (another window writes the database) everything is only shown."""
        self._may_run = may_run
        for download in downloads:
            if download.id in self._entries:
                continue
            entry = DownloadEntry(download)
            entry.best_bytes = entry.done_bytes
            self._entries[download.id] = entry
            if may_run:
                self._restore(entry)
        self._fill_slots()
        self._tell()

    def _restore(self, entry: DownloadEntry) -> None:
        download = entry.download
        if not download.files:
            self._change(entry, state=DownloadState.FAILED, error=UNREADABLE, retry_at=None)
        elif download.state is DownloadState.WAITING and download.retry_at is not None:
            left_s = (download.retry_at - datetime.now(UTC)).total_seconds()
            self._wait(entry, min(max(left_s, 0.0), LONGEST_WAIT_S))
        elif download.state in ACTIVE:
            self._change(entry, state=DownloadState.QUEUED, error="", retry_at=None)
        elif download.state is DownloadState.CANCELLED:
            if entry.is_unclean:
                self._clean(entry)
        elif download.state is DownloadState.DONE:
            self._look_for(entry)

    def look(self) -> None:
        """Somebody looks at the list: are the files of what is done still there?"""
        for entry in self._entries.values():
            if self._may_run and entry.download.state is DownloadState.DONE:
                self._look_for(entry)

    def _look_for(self, entry: DownloadEntry) -> None:
        download = entry.download

        def settle(words: str) -> None:
            if words and entry.download == download:
                self._change(entry, state=DownloadState.FAILED, error=words)
                self._tell()

        self._on_thread(lambda: on_disk.what_is_missing(download), settle)

    def close(self) -> None:
        """End what runs; it goes on at the next start. Waits a few seconds at most."""
        self._is_closed = True
        runs = [entry.run for entry in self._entries.values() if entry.run is not None]
        for run in runs:
            run.cancel()
        ends_at = self._clock() + CLOSE_TIMEOUT_S
        for run in runs:
            run.join(max(0.0, ends_at - self._clock()))
        for entry in self._entries.values():
            if entry.run is not None:
                self._keep_files(entry, entry.run.files())

    # --- what the user does ---------------------------------------------------------------------

    def add(
        self,
        file: Wish,
        folder: Path,
        then: Callable[[str], None] = lambda _id: None,
        refused: Callable[[str], None] | None = None,
    ) -> None:
        """Download a file (all parts of a set) into a folder of its repository under `folder`.

        `then` gets its id once it is in the queue; `refused` a sentence where it cannot be: a name
        that is not safe, a folder that takes nothing, a disk without room.
        """
        refused = refused or (lambda sentence: self._say("error", sentence))
        try:
            download = self._made(file, folder)
        except NameRefused as error:
            refused(str(error))
            return
        if file.missing:
            names = ", ".join(file.missing[:3]) + (" …" if len(file.missing) > 3 else "")
            refused(MISSING_PARTS.format(names=names))
            return
        if self._is_there(download, then):
            return
        claims = self._claims_of(ACTIVE)
        self._on_thread(
            lambda: self._trouble(download, folder, claims),
            lambda trouble: self._enter(download, trouble, then, refused),
        )

    def pause(self, download_id: str) -> None:
        entry = self._entries.get(download_id)
        if entry is not None and entry.download.state in ACTIVE:
            self._stop(entry, DownloadState.PAUSED)

    def resume(self, download_id: str) -> None:
        """Go on with one that was paused, failed, waits or was cancelled, now."""
        entry = self._entries.get(download_id)
        states = (DownloadState.RUNNING, DownloadState.QUEUED, DownloadState.DONE)
        if entry is not None and entry.download.files and entry.download.state not in states:
            self._queue(entry)

    def cancel(self, download_id: str) -> None:
        """End it for good; what came so far is removed."""
        entry = self._entries.get(download_id)
        done = (DownloadState.DONE, DownloadState.CANCELLED)
        if entry is None or entry.download.state in done:
            return
        self._stop(entry, DownloadState.CANCELLED)
        self._after_run(entry, lambda: self._clean(entry))

    def remove(self, download_id: str) -> None:
        """Take one that does not go on off the list. A whole file stays where it is, a partial
        does not."""
        entry = self._entries.get(download_id)
        if entry is None or entry.download.state in ACTIVE:
            return
        download = entry.download

        def drop() -> None:
            self._entries.pop(download.id, None)
            self._book.drop(download.id)
            self._tell()

        def clean() -> None:
            if download.state is DownloadState.DONE:
                drop()
            else:
                self._clean(entry, drop)

        self._after_run(entry, clean)

    def to_trash(self, download_id: str, trash: Callable[[str], bool]) -> None:
        """Move the files of a finished download to the trash, if they are still those that we
        fetched. `trash(path)` does it, on a thread, and says whether it could."""
        entry = self._entries.get(download_id)
        if entry is None or entry.download.state is not DownloadState.DONE:
            return

        def settle(words: str) -> None:
            if words:
                self._say("error", words)
            elif self._entries.pop(download_id, None) is not None:
                self._book.drop(download_id)
            self._tell()

        self._on_thread(lambda: on_disk.to_trash(entry.download, trash), settle)

    def wake(self) -> None:
        """The gate was opened or closed, or the settings changed."""
        self._fill_slots()
        self._tell()

    # --- what is told ---------------------------------------------------------------------------

    def snapshot(self) -> tuple[DownloadProgress, ...]:
        """All downloads in the queue's order."""
        return tuple(
            entry.progress(self._clock(), self._gate.why_closed) for entry in self._entries.values()
        )

    def _tell(self) -> None:
        if not self._is_closed:
            self._on_changed()

    # --- entering -------------------------------------------------------------------------------

    def _made(self, file: Wish, folder: Path) -> Download:
        """Raises NameRefused."""
        names = on_disk.saved_names(file.names)
        files = tuple(
            DownloadFile(name, size, sha256, saved_as)
            for name, size, sha256, saved_as in zip(
                file.names, file.sizes, file.sha256s, names, strict=True
            )
        )
        return Download(
            id=str(uuid.uuid4()),
            endpoint=self._links.endpoint(),
            repo_id=file.repo_id,
            revision=file.revision,
            folder=str(on_disk.folder_of(folder, file.repo_id)),
            files=files,
            added_at=datetime.now(UTC),
        )

    def _trouble(self, download: Download, folder: Path, claims: tuple[Claim, ...]) -> str:
        """On a thread."""
        trouble = folder_trouble(folder)
        if trouble:
            return trouble
        wanted = Claim(folder, sum(file.size_bytes for file in download.files))
        try:
            free = self._free(folder)
        except OSError:
            return ""
        return shortage(wanted, claims, free)

    def _enter(
        self,
        download: Download,
        trouble: str,
        then: Callable[[str], None],
        refused: Callable[[str], None],
    ) -> None:
        if self._is_closed:
            return
        if trouble:
            refused(trouble)
            return
        if self._is_there(download, then):
            return
        last = max((e.download.position for e in self._entries.values()), default=0)
        entry = DownloadEntry(replace(download, position=last + 1), is_kept=False)
        self._entries[download.id] = entry

        def kept() -> None:
            entry.is_kept = True
            self._fill_slots()
            self._tell()

        def failed(sentence: str) -> None:
            self._entries.pop(download.id, None)
            refused(sentence)
            self._tell()

        self._book.create(entry.download, kept, failed)
        self._tell()
        then(download.id)

    def _is_there(self, download: Download, then: Callable[[str], None]) -> bool:
        """Whether it is in the queue already; if so, it was asked for again."""
        there = next((e for e in self._entries.values() if e.is_same_as(download)), None)
        if there is None:
            return False
        self._take_up(there)
        then(there.download.id)
        return True

    def _take_up(self, entry: DownloadEntry) -> None:
        if entry.download.state in ACTIVE:
            self._say("info", f"“{entry.name}” is already being downloaded.")
        else:
            self._queue(entry)

    # --- running --------------------------------------------------------------------------------

    def _queue(self, entry: DownloadEntry) -> None:
        entry.note, entry.n_limited = "", 0
        self._change(
            entry,
            state=DownloadState.QUEUED,
            endpoint=self._links.endpoint(),
            error="",
            attempts=0,
            retry_at=None,
        )
        self._fill_slots()
        self._tell()

    def _fill_slots(self) -> None:
        if self._is_closed or not self._may_run:
            return
        n_running = sum(entry.run is not None for entry in self._entries.values())
        for entry in list(self._entries.values()):
            is_ready = entry.is_kept and entry.is_cleaned_up and entry.run is None
            if entry.download.state is not DownloadState.QUEUED or not is_ready:
                continue
            if not self._gate.is_open:
                self._clockwork.set_once("downloads gate", LOOK_AT_GATE_S, self.wake)
                return
            if n_running >= max(1, self._wishes.at_once()):
                return
            n_running += 1
            self._start(entry)

    def _start(self, entry: DownloadEntry) -> None:
        download = entry.download
        around = RunNeeds(
            gate=self._gate,
            url_of=on_disk.url_of,
            headers_for=self._links.headers_for,
            token_refused=self._links.token_refused,
            page_of=on_disk.page_of,
            throttle=self._throttle,
            limits=self._limits or Limits(),
            free_bytes=self._free,
        )
        entry.run = DownloadRun(
            download,
            around,
            lambda: tuple(claim for key, claim in self._claims if key != download.id),
            tagged=lambda run: self._post(lambda: self._on_tagged(entry, run)),
            ended=lambda run, ending: self._post(lambda: self._on_ended(entry, run, ending)),
        )
        entry.speed = Speed()
        self._change(entry, state=DownloadState.RUNNING, error="", retry_at=None)
        self._note_claims()
        entry.run.start()
        self._clockwork.set_once("downloads", TICK_S, self._tick)

    def _tick(self) -> None:
        """A few times a second while something runs or counts down."""
        if self._is_closed:
            return
        now, is_moving = self._clock(), False
        for entry in self._entries.values():
            if entry.run is not None and entry.speed is not None:
                is_moving = True
                entry.speed.add(now, entry.run.arrived_bytes)
                if now - entry.kept_at_s >= KEEP_EVERY_S:
                    entry.kept_at_s = now
                    self._keep_files(entry, entry.run.files())
            is_moving = is_moving or entry.download.state is DownloadState.WAITING
        self._note_claims()
        self._fill_slots()  # more may be allowed at once than before
        if is_moving:
            self._clockwork.set_once("downloads", TICK_S, self._tick)
        self._tell()

    def _note_claims(self) -> None:
        """Read by the runs' threads: replaced as a whole."""
        self._claims = tuple(
            (key, entry.claim) for key, entry in self._entries.items() if entry.run is not None
        )

    def _claims_of(self, states: frozenset[DownloadState]) -> tuple[Claim, ...]:
        return tuple(e.claim for e in self._entries.values() if e.download.state in states)

    def _stop(self, entry: DownloadEntry, state: DownloadState) -> None:
        """It is in that state at once; its run ends a moment later."""
        changes: dict[str, Any] = {"state": state, "error": "", "retry_at": None}
        if entry.run is not None:
            entry.run.cancel()
            changes["files"] = entry.run.files()
        self._clockwork.cancel(f"download {entry.download.id}")
        self._change(entry, **changes)
        self._fill_slots()
        self._tell()

    def _after_run(self, entry: DownloadEntry, action: Callable[[], None]) -> None:
        if entry.run is None:
            action()
        else:
            entry.after_run = action

    def _clean(self, entry: DownloadEntry, then: Callable[[], None] = lambda: None) -> None:
        """Nothing of it is left on the disk. Until that is so, it does not run again."""
        download = entry.download
        entry.is_cleaned_up = False

        def settle(_: str) -> None:
            entry.is_cleaned_up = True
            entry.best_bytes = 0
            self._keep_files(entry, entry.cleaned_files())
            then()
            self._fill_slots()
            self._tell()

        self._on_thread(lambda: on_disk.remove_unfinished(download), settle)

    # --- what a run says ------------------------------------------------------------------------

    def _on_tagged(self, entry: DownloadEntry, run: DownloadRun) -> None:
        if entry.run is run and not self._is_closed:
            self._keep_files(entry, run.files())

    def _on_ended(self, entry: DownloadEntry, run: DownloadRun, ending: Ending) -> None:
        if self._is_closed or entry.run is not run:
            return
        entry.run, entry.speed = None, None
        self._note_claims()
        self._keep_files(entry, ending.files)
        if entry.download.state is DownloadState.RUNNING:
            self._settle(entry, ending)
        action, entry.after_run = entry.after_run, None
        if action is not None and entry.download.state is not DownloadState.QUEUED:
            action()
        self._fill_slots()
        self._tell()

    def _settle(self, entry: DownloadEntry, ending: Ending) -> None:
        match ending.kind:
            case "done":
                self._change(
                    entry, state=DownloadState.DONE, finished_at=datetime.now(UTC), attempts=0
                )
                self._on_done(entry.progress(self._clock(), self._gate.why_closed))
            case "failed":
                self._on_failed(entry, ending)
            case "name_taken":
                self._on_name_taken(entry, ending)
            case "closed" | "called_off":
                self._change(entry, state=DownloadState.QUEUED)

    def _on_failed(self, entry: DownloadEntry, ending: Ending) -> None:
        done = sum(file.done_bytes for file in ending.files)
        attempts = entry.download.attempts
        if done >= entry.best_bytes + PROGRESS_BYTES:
            attempts = 0
        entry.best_bytes = max(entry.best_bytes, done)
        if ending.fault_kind == "rate_limited":
            entry.n_limited += 1
            wait = ending.wait_s or 0.0
            if ending.wait_s is None or entry.n_limited > TRUSTED_LIMITS:
                wait = max(self._waits(entry.n_limited), wait)
        else:
            attempts += 1
            wait = max(self._waits(attempts), ending.wait_s or 0.0)
        if not ending.may_retry or attempts >= MAX_ATTEMPTS.get(
            ending.fault_kind, MAX_ATTEMPTS[""]
        ):
            self._change(
                entry, state=DownloadState.FAILED, error=ending.sentence, attempts=attempts
            )
            self._say("error", FAILED.format(name=entry.name, why=ending.sentence))
            return
        self._change(
            entry,
            state=DownloadState.WAITING,
            error=ending.sentence,
            attempts=attempts,
            retry_at=datetime.now(UTC) + timedelta(seconds=wait),
        )
        self._wait(entry, wait)

    def _wait(self, entry: DownloadEntry, seconds: float) -> None:
        entry.retry_at_s = self._clock() + seconds
        self._clockwork.set(f"download {entry.download.id}", seconds, lambda: self._go_on(entry))
        self._clockwork.set_once("downloads", TICK_S, self._tick)

    def _go_on(self, entry: DownloadEntry) -> None:
        if entry.download.state is DownloadState.WAITING:
            self._change(entry, state=DownloadState.QUEUED, retry_at=None)
            self._fill_slots()
            self._tell()

    def _on_name_taken(self, entry: DownloadEntry, ending: Ending) -> None:
        """Into a folder named after the revision, if nothing has come yet."""
        folder = Path(entry.download.folder)
        other = on_disk.folder_of_revision(folder, entry.download.revision)
        if other == folder or any(file.done_bytes for file in ending.files):
            words = NAME_TAKEN.format(name=ending.sentence, folder=folder)
            self._change(entry, state=DownloadState.FAILED, error=words)
            self._say("error", FAILED.format(name=entry.name, why=words))
            return
        entry.note = OTHER_FOLDER.format(folder=other)
        self._change(entry, state=DownloadState.QUEUED, folder=str(other))

    # --- keeping --------------------------------------------------------------------------------

    def _change(self, entry: DownloadEntry, **changes: Any) -> None:
        entry.download = replace(entry.download, **changes)
        self._book.change(entry.download.id, changes)

    def _keep_files(self, entry: DownloadEntry, files: tuple[DownloadFile, ...]) -> None:
        if files != entry.download.files:
            self._change(entry, files=files)

    def _on_thread(self, work: Callable[[], str], then: Callable[[str], None]) -> None:
        """`then` gets what `work` says, on the owner's thread: nothing, or what is wrong. Nobody
        waits for the thread at the end of the program."""

        def run() -> None:
            try:
                words = work()
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                _log.error("at the disk of a download", exc_info=error)
                words = f"The disk couldn't be checked ({type(error).__name__}). Try again."
            self._post(lambda: None if self._is_closed else then(words))

        threading.Thread(target=run, name="download-disk", daemon=True).start()
