"""Asks the picture process, which may be killed at any time.

    pictures = Pictures()
    pictures.prepare(data, longest=1536).result()   # waits: never on the window's thread
    pictures.draw(data, 320, 240).add_done_callback(…)

One picture after the other: what is to be sent first, then the drawing that was asked for last,
which is what is on screen now. A picture that takes longer than the deadline, or ends the process,
is refused; the next one gets a new process. It ends when nothing was asked for a while.
"""

from __future__ import annotations

import itertools
import queue
import threading
from concurrent.futures import Future
from typing import Any, Final, cast

from app.engine.client.process import (
    BrokenFrames,
    ChildProcess,
    Exited,
    Reports,
    child_command,
    reporting_child,
)
from app.engine.protocol.frames import ProtocolError
from app.pictures.messages import (
    DEADLINE_S,
    DrawPicture,
    PictureDrawn,
    PictureNotRead,
    PicturePrepared,
    PictureRefused,
    PictureRequest,
    PicturesReady,
    PreparePicture,
    decode_reply,
)

_START_S: Final = 30.0
_IDLE_S: Final = 60.0

_Job = tuple[tuple[int, int], Future[Any] | None, PictureRequest | None]


class Pictures:
    """Owns the picture process and the thread that talks to it. Any thread may ask."""

    def __init__(
        self,
        *,
        deadline_s: float = DEADLINE_S,
        idle_s: float = _IDLE_S,
        command: list[str] | None = None,
    ) -> None:
        self._deadline_s = deadline_s
        self._idle_s = idle_s
        self._command = command or child_command("pictures")
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._child: ChildProcess | None = None
        self._reports: Reports = queue.SimpleQueue()
        self._is_ready = self._is_closed = False

    def prepare(
        self, data: bytes, longest: int, raw_size: tuple[int, int] = (0, 0)
    ) -> Future[PicturePrepared]:
        """Ready to be stored and sent. Its future raises PictureRefused."""
        return self._ask((0, next(self._numbers)), PreparePicture(data, longest, *raw_size))

    def draw(self, data: bytes, width: int, height: int) -> Future[PictureDrawn]:
        """Pixels that fit into this. Its future raises PictureRefused; it can be cancelled."""
        return self._ask((1, -next(self._numbers)), DrawPicture(data, width, height))

    def close(self) -> None:
        """Nothing more is answered; what is being read is refused."""
        with self._lock:
            self._is_closed = True
            thread, child = self._thread, self._child
        self._jobs.put(((-1, 0), None, None))
        if child is not None:
            child.kill()
        if thread is not None:
            thread.join(_START_S)

    def _ask(self, order: tuple[int, int], request: PictureRequest) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._is_closed:
                future.cancel()
                return future
            if self._thread is None:
                # It starts the process, which ends with it.
                self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)
                self._thread.start()
        self._jobs.put((order, future, request))
        return future

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s if self._child is not None else None)
            except queue.Empty:
                self._end_child()
                continue
            _, future, request = job
            del job
            if future is None or request is None:
                break
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._answered(request))
                except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
                    future.set_exception(error)
            del future, request  # megabytes
        self._end_child()
        while not self._jobs.empty():
            _, left, _ = self._jobs.get()
            if left is not None:
                left.cancel()

    def _answered(self, request: PictureRequest) -> PicturePrepared | PictureDrawn:
        for _ in range(2):  # the process may have been gone before it could read the picture
            if (reply := self._answer(request)) is not None:
                return reply
        raise PictureRefused("damaged", "can't be read: it may be damaged. Save it again.")

    def _answer(self, request: PictureRequest) -> PicturePrepared | PictureDrawn | None:
        """None where the process ended first."""
        child = self._ensure_child()
        try:
            child.send(request)
        except ProtocolError as error:
            raise PictureRefused("too_large", "is too large. Make it smaller first.") from error
        while True:
            try:
                report = self._reports.get(timeout=self._deadline_s if self._is_ready else _START_S)
            except queue.Empty:
                self._end_child()
                raise PictureRefused("timeout", "takes too long to read. Save it again.") from None
            if isinstance(report, PicturesReady):
                self._is_ready = True
            elif isinstance(report, PicturePrepared | PictureDrawn):
                return report
            elif isinstance(report, PictureNotRead):
                if report.kind == "memory":
                    self._end_child()
                raise PictureRefused(report.kind, report.sentence)
            elif isinstance(report, Exited | BrokenFrames):
                self._end_child()
                return None

    def _ensure_child(self) -> ChildProcess:
        with self._lock:
            if self._is_closed:
                raise PictureRefused("failed", "wasn't read: Cutaway is closing.")
            if self._child is not None:
                return self._child
            reports = self._reports = queue.SimpleQueue()
            self._is_ready = False
            try:
                self._child = reporting_child(self._command, reports, cast("Any", decode_reply))
            except OSError as error:
                sentence = f"can't be read: the process for pictures didn't start ({error})."
                raise PictureRefused("failed", sentence) from error
            return self._child

    def _end_child(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.join()
