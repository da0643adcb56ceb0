"""Whether weights fit: headers are read and judged on a thread, and the answers come back.

Also what is free on each device: of the host's memory the system tells, of graphics devices the
engine, beside a running reply. What must hold: no method waits for a disk or for the engine; each
question is answered once, unless a newer one or `stop` ends it. Nothing heavy is imported before
somebody asks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.chat.events import MemoryChanged
from app.chat.inspection.questions import Questions
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.loading_messages import (
    Device,
    DevicesRead,
    Loaded,
    LoadOptions,
    ReadDevices,
)
from app.engine.protocol.messages import Hello

if TYPE_CHECKING:
    from app.engine.client.supervisor import StateChanged
    from app.engine.planning.fit import Fit, Returning
    from app.engine.planning.load_plan import Machine
    from app.engine.planning.projector_plan import ProjectorSizes
    from app.gguf.header import Header
    from app.library.outlines import Outlines

UNREADABLE: Final = "can't be loaded"
FAULT: Final = "This file couldn't be checked. The log has the details."
LOOK_AFTER_S: Final = 0.5
STUCK_AFTER_S: Final = 5.0
"""A disk that wakes up takes seconds; a network that is gone may take for ever."""

_TOLD_BYTES: Final = 64 * 2**20
_GRAPHICS: Final = ("gpu", "igpu")
_SETTLED: Final = ("ready", "stopped", "crashed")

_log = logging.getLogger(__name__)

Then = Callable[[str, "Fit"], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """One file or header. `key` is handed back with the answer. `projector`: what is loaded with
    it (a path, nothing, or BESIDE); of headers, the bytes of the one that comes with them."""

    key: str
    then: Then
    options: LoadOptions
    machine: Machine
    returning: Returning
    headers: tuple[Header, ...] = ()
    projector: str = ""
    projector_bytes: int = 0

    @property
    def folder(self) -> str:
        return "" if self.headers else str(Path(self.key).parent)


class Fits:
    """Made by the desk, used on its thread."""

    def __init__(self, around: Surroundings, loader: Loader, questions: Questions) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._hello: Hello | None = None
        self._told: tuple[Device, ...] = ()
        self._host: tuple[int, int] | None = None
        # What was loaded when that was looked at: only of it something comes back.
        self._told_with: Loaded | None = None
        self._host_with: Loaded | None = None
        self._shown: tuple[int, ...] = ()
        self._is_looking = False
        self._is_followed = False
        self._judge = _Judge(around)

    # --- what is free ---------------------------------------------------------------------------

    def machine(self) -> Machine:
        """All devices, with what was free on them when it was looked for last."""
        self._is_followed = True
        from app.engine.planning.load_plan import Machine
        from app.engine.planning.placement import DeviceMemory

        free, total = self._host_memory()
        found, has_host = [], False
        for device in self._told:
            is_host = device.kind == "cpu"
            has_host = has_host or is_host
            amounts = (free, total) if is_host else (device.free_bytes, device.total_bytes)
            found.append(DeviceMemory(device.name, device.description, device.kind, *amounts))
        if not has_host:
            found.insert(0, DeviceMemory("CPU", "", "cpu", free, total))
        hello = self._hello
        if hello is None:
            return Machine(tuple(found))
        return Machine(tuple(found), hello.can_offload, frozenset(hello.repacked))

    def returning(self) -> Returning:
        """What the loaded weights give back when others take their place: as far as they were
        there already when the free memory was looked at."""
        from app.engine.planning.fit import Returning, device_of

        machine, loaded = self.machine(), self._loader.loaded
        if loaded is None:
            return Returning()
        parts = tuple(
            part
            for part in loaded.memory
            if loaded
            is (self._told_with if device_of(part.device, machine.devices) else self._host_with)
        )
        return Returning(self._loader.weights_name, parts)

    def look(self) -> None:
        """Ask anew what is free; MemoryChanged follows if it is clearly another amount."""
        self._is_followed = True
        if self._is_looking or self._around.is_closing:
            return
        self._is_looking = True
        loaded = self._loader.loaded
        self._around.when_done(
            _host_memory_later(),
            lambda amounts: self._take_host(amounts, loaded),
            self._on_unreadable,
            still=ALWAYS,  # it is free memory beside `loaded`, whatever is loaded by now
        )

    def take_hello(self, hello: Hello) -> None:
        self._hello = hello
        self._told, self._told_with = tuple(hello.devices), None

    def take_state(self, event: StateChanged) -> None:
        """Weights have come or gone: look when the system has its memory back, if anybody ever
        asked."""
        if self._is_followed and event.state.value in _SETTLED:
            self._around.alarms.set("free memory", LOOK_AFTER_S, self.look)

    def _take_host(self, amounts: tuple[int, int], loaded: Loaded | None) -> None:
        self._host, self._host_with = amounts, loaded
        hello = self._hello
        if self._loader.loaded is None or self._loader.is_loading:
            # Nothing stands on the devices: they are as they were before the load.
            self._told = tuple(hello.devices) if hello is not None else ()
            self._told_with = None
            self._tell()
        elif any(device.kind in _GRAPHICS for device in self._told):
            self._questions.ask(
                ReadDevices(0),
                DevicesRead,
                lambda read: self._take_devices(read, loaded),
                self._on_unreadable,
                still=ALWAYS,  # as above
            )
        else:
            self._tell()

    def _take_devices(self, read: DevicesRead, loaded: Loaded | None) -> None:
        self._told, self._told_with = tuple(read.devices), loaded
        self._tell()

    def _on_unreadable(self, _sentence: str) -> None:
        self._is_looking = False  # what was told last stays

    def _tell(self) -> None:
        self._is_looking = False
        now = tuple(device.free_bytes for device in self.machine().devices)
        before = self._shown
        if len(now) != len(before) or any(
            abs(one - other) > _TOLD_BYTES for one, other in zip(now, before, strict=True)
        ):
            self._shown = now
            self._around.emit(MemoryChanged())

    def _host_memory(self) -> tuple[int, int]:
        if self._host is None:
            from app.engine.planning.host_memory import host_memory

            self._host = host_memory()  # a third of a millisecond
            self._host_with = self._loader.loaded
        return self._host

    # --- judging --------------------------------------------------------------------------------

    def rough(self, size_bytes: int) -> Fit:
        """By the size of all parts alone, at once; it says that it is rough."""
        from app.engine.planning.fit import rough_fit

        machine = self.machine()
        returned = self.returning().by_device(machine.devices)
        return rough_fit(
            size_bytes,
            [
                replace(device, free_bytes=device.free_bytes + returned.get(device.name, 0))
                for device in machine.devices
            ],
        )

    def files(self, paths: Iterable[str], then: Then) -> None:
        """Judge files as they would be loaded now; of a split set the first part. `then` is called
        once for each. What cannot be read does not fit, and says why."""
        machine, returning = self.machine(), self.returning()
        self._judge.put(
            [
                _Question(
                    path,
                    then,
                    self._loader.options_of(path),
                    machine,
                    returning,
                    projector=self._loader.projector_known(path),
                )
                for path in paths
            ]
        )

    def file(self, path: str, then: Then, options: LoadOptions | None = None) -> None:
        """Judge one file, before all lists, with these options or as it would be loaded now. A
        newer question with the same `then` ends this one."""
        self.stop(then)
        question = _Question(
            path,
            then,
            options or self._loader.options_of(path),
            self.machine(),
            self.returning(),
            projector=self._loader.projector_known(path),
        )
        self._judge.put([question], is_first=True)

    def headers(
        self,
        headers: Sequence[Header],
        key: str,
        then: Then,
        options: LoadOptions | None = None,
        projector_bytes: int = 0,
    ) -> None:
        """Judge weights that are not on this machine, by the headers of all their parts, with a
        projector of so many bytes."""
        question = _Question(
            key,
            then,
            options or self._around.settings.load_options(),
            self.machine(),
            self.returning(),
            tuple(headers),
            projector_bytes=projector_bytes,
        )
        self._judge.put([question], is_first=True)

    def stop(self, then: Then) -> None:
        """Nobody is called any more."""
        self._judge.stop(then)

    def close(self) -> None:
        self._judge.close()


class _Judge:
    """Reads and judges on a thread that lives as long as there are questions. One whose disk does
    not answer is left to it, with what else lies in that folder; the others go on."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._lock = threading.Lock()
        self._first: deque[_Question] = deque()
        self._later: deque[_Question] = deque()
        self._open: set[_Question] = set()
        self._held: dict[str, list[_Question]] = {}
        self._thread: threading.Thread | None = None
        self._reads: _Question | None = None
        self._read_at = 0.0
        self._is_closed = False
        self._outlines: Outlines | None = None

    def put(self, questions: list[_Question], *, is_first: bool = False) -> None:
        with self._lock:
            if self._is_closed or not questions:
                return
            self._open.update(questions)
            (self._first if is_first else self._later).extend(questions)
            self._begin()
        self._around.alarms.set_once("fit", STUCK_AFTER_S, self._look_after)

    def _begin(self) -> None:
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name="fit", daemon=True)
            self._thread.start()

    def _look_after(self) -> None:
        with self._lock:
            if self._thread is None or self._is_closed:
                return
            reads = self._reads
            if reads is not None and time.monotonic() - self._read_at >= STUCK_AFTER_S:
                _log.warning("%s does not answer", reads.key)
                self._held.setdefault(reads.folder, [])
                self._thread = self._reads = self._outlines = None
                self._begin()
        self._around.alarms.set_once("fit", STUCK_AFTER_S, self._look_after)

    def stop(self, then: Then) -> None:
        """Also what is judged already, and on its way."""
        with self._lock:
            self._open = {question for question in self._open if question.then != then}

    def close(self) -> None:
        """The thread ends with the file that it reads; nobody waits for a disk."""
        with self._lock:
            self._is_closed = True
            self._open.clear()

    def _run(self) -> None:
        while (question := self._next()) is not None:
            self._answer(question)
            with self._lock:
                if self._thread is not threading.current_thread():  # its disk answers again
                    self._later.extend(self._held.pop(question.folder, ()))
                    self._begin()
                    return
                self._reads = None

    def _next(self) -> _Question | None:
        with self._lock:
            while waiting := self._first or self._later:
                question = waiting.popleft()
                if question not in self._open:
                    continue
                held = self._held.get(question.folder)
                if held is None or question.headers:
                    self._read_at, self._reads = time.monotonic(), question
                    return question
                held[:] = [*(each for each in held if each in self._open), question]
            self._thread = None
            return None

    def _answer(self, question: _Question) -> None:
        try:
            fit = self._judged(question)
        except Exception:  # noqa: BLE001 - a fault of ours ends neither thread nor list
            _log.exception("the fit of %s", question.key)
            fit = _without_verdict(FAULT)

        def give() -> None:
            with self._lock:
                self._open.discard(question)
            question.then(question.key, fit)

        self._around.hand_over(give, lambda: question in self._open)

    def _judged(self, question: _Question) -> Fit:
        from app.engine.planning.draft_plan import draft_bytes
        from app.engine.planning.fit import fit
        from app.engine.planning.sizes import outline_of
        from app.gguf.refusal import HeaderRefused
        from app.library.outlines import Outlines, joined
        from app.refusal import Refusal

        outlines = self._outlines = self._outlines or Outlines()
        try:
            if question.headers:
                outline = outline_of(joined(question.headers))
            else:
                outline = outlines.read(question.key)
        except HeaderRefused as refused:
            return _without_verdict(refused.sentence)
        beside = sum(map(_adapter_bytes, question.options.loras))
        if question.options.draft:
            # One that cannot be read is for the load to refuse.
            with contextlib.suppress(HeaderRefused, Refusal, OSError):
                draft = outlines.read(question.options.draft)
                beside += draft_bytes(draft, question.options, question.machine)
        return fit(
            outline,
            question.options,
            question.machine,
            adapter_bytes=beside,
            projector=_projector(question),
            returning=question.returning,
        )


def _projector(question: _Question) -> ProjectorSizes | None:
    """What a projector takes. One that cannot be read is for the load to say."""
    from app.engine.planning.projector_plan import (
        by_size,
        chosen_projector,
        projector_sizes,
    )
    from app.gguf.header import read_header
    from app.gguf.refusal import HeaderRefused

    if question.projector_bytes:
        return by_size(question.projector_bytes)
    path = chosen_projector(question.key, question.projector) if question.projector else ""
    try:
        return projector_sizes(read_header(path)) if path else None
    except HeaderRefused:
        return None


def _adapter_bytes(lora: Lora) -> int:
    """The size of its file, which is hardly more than its matrices. One that is not there is for
    the load to refuse."""
    try:
        return Path(lora.path).expanduser().stat().st_size
    except (OSError, ValueError, RuntimeError):
        return 0


def _without_verdict(sentence: str) -> Fit:
    from app.engine.planning.fit import Fit, Verdict

    return Fit(Verdict.FITS_NOT, UNREADABLE, sentence, (), 0, 0)


def _host_memory_later() -> Future[tuple[int, int]]:
    """Read on a thread: the first time something is imported for it."""
    future: Future[tuple[int, int]] = Future()

    def read() -> None:
        from app.engine.planning.host_memory import host_memory

        try:
            future.set_result(host_memory())
        except Exception as error:  # noqa: BLE001 - nobody waits in vain
            future.set_exception(error)

    threading.Thread(target=read, name="free-memory", daemon=True).start()
    return future
