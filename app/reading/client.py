"""Reads documents, each in a process of its own that may be killed at any time.

    document = read_document("report.pdf")      # waits; on a thread of its own, never the window's

What must hold: no process outlives the call, whatever the file makes of it, and `Reading.end` ends
what another thread waits for at once.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Final

from app.engine.client.process import (
    BrokenFrames,
    ChildProcess,
    Exited,
    Reports,
    child_command,
    reporting_child,
)
from app.reading.document import Document, DocumentRefused, Place, Progress
from app.reading.files import shown_name
from app.reading.messages import (
    DocumentNotRead,
    DocumentRead,
    PagesRead,
    ReadDocument,
    decode_reply,
)

DEADLINE_S: Final = 120.0
_QUIET_S: Final = 0.5
"""After so long somebody wants to know that it is still being read."""


def read_document(path: str) -> Document:
    """The text of a document, or DocumentRefused."""
    return Reading().read(path)


class Reading:
    """Reads documents, any number beside each other, until it is ended."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, command: list[str] | None = None) -> None:
        self._deadline_s = deadline_s
        self._command = command or child_command("documents")
        self._lock = threading.Lock()
        self._children: set[ChildProcess] = set()
        self._is_ended = False

    def read(self, path: str, progress: Progress = lambda done, total: None) -> Document:
        """The text of a document, or DocumentRefused. Waits for it, `deadline_s` at most."""
        name = shown_name(path)
        reports: Reports = queue.SimpleQueue()
        child = self._start(name, reports)
        try:
            child.send(ReadDocument(path, name))
            reply = self._reply(name, reports, progress)
        finally:
            with self._lock:
                self._children.discard(child)
            child.kill()
            child.join()
        if isinstance(reply, DocumentNotRead):
            raise DocumentRefused(reply.kind, reply.sentence)
        places = tuple(Place(start, label) for start, label in reply.places)
        return Document(name, reply.media_type, reply.text, places, reply.size_bytes, reply.note)

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def end(self) -> None:
        """From any thread: what is being read is refused, and nothing is read any more."""
        with self._lock:
            self._is_ended = True
            for child in self._children:
                child.kill()

    def _start(self, name: str, reports: Reports) -> ChildProcess:
        with self._lock:
            if self._is_ended:
                raise _failed(name)
            try:
                child = reporting_child(self._command, reports, decode_reply)
            except OSError as error:
                sentence = f"The process that reads documents couldn't be started: {error}."
                raise DocumentRefused("Not started", sentence) from error
            self._children.add(child)
        return child

    def _reply(
        self,
        name: str,
        reports: Reports,
        progress: Progress,
    ) -> DocumentRead | DocumentNotRead:
        until = time.monotonic() + self._deadline_s
        reached = (0, 0)
        while True:
            left_s = until - time.monotonic()
            try:
                report = reports.get(timeout=max(0.0, min(left_s, _QUIET_S)))
            except queue.Empty:
                if left_s <= _QUIET_S:
                    raise self._too_slow(name) from None
                progress(*reached)
                continue
            if isinstance(report, DocumentRead | DocumentNotRead):
                return report
            if isinstance(report, PagesRead):
                reached = (report.done, report.total)
                progress(*reached)
            if isinstance(report, Exited | BrokenFrames):
                raise _failed(name)

    def _too_slow(self, name: str) -> DocumentRefused:
        sentence = (
            f"“{name}” couldn't be read within {self._deadline_s:g} seconds. "
            "Attach only the part that matters."
        )
        return DocumentRefused("Takes too long", sentence)


def _failed(name: str) -> DocumentRefused:
    why = "it may be damaged, or need too much memory"
    sentence = f"“{name}” couldn't be read: {why}. Save it again or copy its text."
    return DocumentRefused("Damaged or too large", sentence)
