"""What the supervisor knows and decides. Everything here runs on its owner thread.

`engine.py` says what must hold; this is how. One child at a time; requests that have not
ended are in `_open` (sent) or `_waiting` (for weights that are loading); `_farewell` is set
while the child is being ended on purpose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, cast

import msgspec

from app.engine.client.exits import Doing, describe_exit, last_words
from app.engine.client.open_request import OpenRequest
from app.engine.client.process import BrokenFrames, ChildProcess, ChildReport, Exited, StderrLine
from app.engine.client.timers import Timers
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.frames import FrameTooLarge, ProtocolError, clean_text
from app.engine.protocol.loading_messages import Loaded, LoadWeights
from app.engine.protocol.media_messages import ProjectorOffer
from app.engine.protocol.messages import (
    PROTOCOL_VERSION,
    Alive,
    Choose,
    Done,
    Event,
    Failed,
    Finished,
    Generate,
    Hello,
    Hold,
    Log,
    Resume,
    Shutdown,
    Stop,
    Stopped,
)
from app.engine.protocol.request_rules import check_request
from app.memory import in_large_pages

RESTART_BUDGET: Final = 3
RESTART_WINDOW_S: Final = 600.0
_LINE_CHARACTERS: Final = 4096
_CANCELLED: Final = "Loading was cancelled. Load the model again or choose another."
_TOO_MUCH_TEXT: Final = (
    "This is too much text for one request. Start a new chat and send it in parts."
)
_NOT_SENDABLE: Final = (
    "A setting of this request is out of range. Check its numbers and send it again."
)
FAULT: Final = "Something went wrong in Cutaway. Try again; the log has the details."


class EngineState(StrEnum):
    """stopped: no weights in memory. ready and busy: weights in memory. stopping: the child
    is being ended. crashed: it ended by itself, or had to be ended."""

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The engine's state. In crashed, and in stopped after a failed load, `sentence` says why
    and `evidence` holds the last lines of the log."""

    state: EngineState
    sentence: str = ""
    evidence: str = ""


EngineEvent = Event | StateChanged
Ending = Finished | Stopped | Failed


@dataclass(slots=True)
class _Farewell:
    """Why the present child is being ended, and what follows its exit."""

    then: Callable[[], None]
    crashed: Failed | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before the next rung of the ladder, and for a sign of life."""

    progress_s: float
    stop_s: float
    terminate_s: float


class Supervisor:
    """The owner thread's state. `post` puts a step into its inbox; `emit` tells the listener;
    `finish` tells how a request ended; `new_id` gives a fresh request id."""

    def __init__(
        self,
        command: list[str],
        env: Mapping[str, str] | None,
        *,
        log_lines: int,
        patience: Patience,
        clock: Callable[[], float],
        post: Callable[[Callable[[], None]], None],
        emit: Callable[[EngineEvent], None],
        finish: Callable[[Ending], None],
        new_id: Callable[[], int],
    ) -> None:
        self.state = EngineState.STOPPED
        self.hello: Hello | None = None
        self.loaded: Loaded | None = None
        self.log_lines: deque[str] = deque(maxlen=log_lines)
        self._command = command
        self._env = env
        self._patience = patience
        self._clock = clock
        self._post = post
        self._emit = emit
        self._finish = finish
        self._new_id = new_id
        self._child: ChildProcess | None = None
        self._farewell: _Farewell | None = None
        self._crashed: Failed | None = None
        self._open: dict[int, OpenRequest] = {}
        self._waiting: list[OpenRequest] = []
        self._load_id: int | None = None
        self._lost_projector: ProjectorOffer | None = None
        """One that the child died of: the weights stand without it."""
        self._wanted: LoadWeights | None = None
        self._restarts: deque[float] = deque()
        self._timers = Timers(clock)
        self._last_sign = 0.0

    def _settle(self, reason: Failed | None = None) -> None:
        """Work out the state from what is; tell the listener if it changed."""
        state = self._present_state()
        if state is self.state and reason is None:
            return
        self.state = state
        if reason is None:
            self._emit(StateChanged(state))
        else:
            self._emit(StateChanged(state, reason.sentence, reason.evidence))

    def _present_state(self) -> EngineState:
        if self._farewell is not None:
            return EngineState.STOPPING
        if self._child is None:
            return EngineState.CRASHED if self._crashed else EngineState.STOPPED
        if self.hello is None:
            return EngineState.STARTING
        if self._load_id is not None:
            return EngineState.LOADING
        if self.loaded is None:
            return EngineState.STOPPED
        busy = any(isinstance(request.command, Generate) for request in self._open.values())
        return EngineState.BUSY if busy else EngineState.READY

    @property
    def open_ids(self) -> set[int]:
        """Requests that are sent, or wait for weights."""
        return {*self._open, *(request.id for request in self._waiting)}

    @property
    def is_owing(self) -> bool:
        """Whether any request has not ended. May be asked on any thread."""
        return bool(self._open) or bool(self._waiting)

    @property
    def pid(self) -> int | None:
        """The child's; None where there is none. May be asked on any thread."""
        child = self._child
        return None if child is None else child.pid

    # --- timers -----------------------------------------------------------------------------

    def seconds_to_next_timer(self) -> float | None:
        """How long the owner may sleep; None: until a step comes."""
        return self._timers.nap_s(self._progress_due_at())

    def run_timers(self) -> None:
        """Do what is due. Call it when all that had come by then is taken in."""
        self._timers.run_due()
        due_at = self._progress_due_at()
        if due_at is not None and self._timers.now() >= due_at:
            self._end_by_force(
                "native_error",
                f"The engine didn't respond for {self._patience.progress_s:.0f} s and was "
                "stopped. The partial reply is kept. Try again to reload the model.",
            )

    def _progress_due_at(self) -> float | None:
        """When the child must have given its next sign of life, or None if it owes us none. What
        a request waits for (a long step, a person's choice) it alone knows: it says `Alive`."""
        if self._child is None or self._farewell is not None:
            return None
        if self.hello is None or self._open:
            return self._last_sign + self._patience.progress_s
        return None

    # --- commands ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the child without anything to load."""
        self._ensure_child()

    def load(self, command: LoadWeights) -> None:
        """Load in place of what is loaded or loading; the restart budget begins anew."""
        self._restarts.clear()
        self._wanted = command
        self._lost_projector = None
        if self._child is not None and (self.loaded or self._load_id or self._farewell):
            self._end_open_requests_as_stopped()
            self._end_child(partial(self._begin_load, command))
        else:
            self._begin_load(command)

    def _begin_load(self, command: LoadWeights) -> None:
        if self._wanted is not command:
            return self._finish(Stopped(command.id, Done()))  # another load came meanwhile
        request = OpenRequest(command, self._clock())
        self._open[command.id] = request
        if self._ensure_child():
            self._load_id = command.id
            self._send(request)
            self._settle()
        return None

    def unload(self, request_id: int) -> None:
        """End the child; the request ends when it has gone."""
        self._wanted = None
        self._crashed = None
        self._end_open_requests_as_stopped()
        self._end_child(lambda: self._finish(Finished(request_id, Done())))

    def submit(self, request: OpenRequest) -> None:
        """Send a command that needs weights, hold it until they are there, or refuse it."""
        if self._load_id is not None or (self._farewell and self._wanted):
            self._waiting.append(request)
        elif self.loaded is not None and self._farewell is None:
            self._open[request.id] = request
            self._send(request)
            self._settle()
        elif isinstance(request.command, Generate) and self._may_restart():
            self._waiting.append(request)
            self._reload()
        else:
            self._finish(self._not_loaded(request.id))

    def _may_restart(self) -> bool:
        now = self._clock()
        while self._restarts and self._restarts[0] < now - RESTART_WINDOW_S:
            self._restarts.popleft()
        return (
            self._crashed is not None
            and self._wanted is not None
            and len(self._restarts) < RESTART_BUDGET
        )

    def _reload(self) -> None:
        """Start a child with the weights that were loaded when the last one died."""
        assert self._wanted is not None
        self._restarts.append(self._clock())
        self._wanted = msgspec.structs.replace(self._wanted, id=self._new_id())
        self._begin_load(self._wanted)

    def _not_loaded(self, request_id: int) -> Failed:
        if self._wanted is not None and self._crashed is not None:
            sentence = (
                f"The engine stopped {RESTART_BUDGET} times within ten minutes. Reload the model "
                "to continue, or choose another."
            )
        elif self._crashed is not None:
            sentence = f"No model is loaded. {self._crashed.sentence}"
        else:
            sentence = "No model is loaded. Choose a GGUF file first."
        return Failed(request_id, "not_loaded", sentence)

    def steer(self, command: Hold | Choose | Resume) -> None:
        """Pass on a command of step mode, if its request is still open."""
        if command.target in self._open and self._child is not None and self._farewell is None:
            with suppress(ProtocolError):  # no such token: the choice is still open
                self._child.send(command)

    def stop(self, request_id: int) -> None:
        """Begin the ladder for a reply or a load; drop a request that only waits."""
        waiting = next((one for one in self._waiting if one.id == request_id), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            return self._finish(waiting.stopped(self._context_size()))
        request = self._open.get(request_id)
        if request is None or request.stopping or self._child is None or self._farewell:
            return None
        request.stopping = True
        is_load = request_id == self._load_id
        if is_load and self.hello is None:  # a child that only starts reads no commands yet
            return self._cancel_load_by_force()
        self._child.send(Stop(request_id))
        climb = self._cancel_load_by_force if is_load else partial(self._stop_by_force, request)
        return self._timers.arm(f"stop {request_id}", self._patience.stop_s, climb)

    def _stop_by_force(self, request: OpenRequest) -> None:
        """The next rung. A child in the middle of other people's replies is not ended for one that
        was stopped, nor for a question: that one ends here, and the child sees its Stop later."""
        others = any(
            isinstance(other.command, Generate) and not other.stopping
            for other in self._open.values()
        )
        if others or not isinstance(request.command, Generate):
            return self._on_ending(request, request.stopped(self._context_size()))
        return self._end_by_force(
            "native_error",
            "The engine didn't respond to Stop and was ended. The model reloads with your next "
            "message.",
        )

    def _cancel_load_by_force(self) -> None:
        self._wanted = None
        self._refuse_waiting(_CANCELLED)
        self._end_open_requests_as_stopped()
        self._farewell = _Farewell(self._settle)
        self._terminate()
        self._settle()

    def close(self, then: Callable[[], None]) -> None:
        """End everything, then call `then`."""
        self._wanted = None
        try:
            self._end_open_requests_as_stopped()
        finally:
            self._end_child(then)

    # --- the child --------------------------------------------------------------------------

    def _ensure_child(self) -> bool:
        """Start the child if there is none. On failure the open requests fail."""
        if self._child is not None:
            return True
        self._crashed = None
        self._last_sign = self._timers.now()
        try:
            env = {**in_large_pages(), **(self._env or {})}
            self._child = ChildProcess(self._command, self._report, env)
        except OSError as error:
            self._fail_everything(
                Failed(0, "internal", f"The engine couldn't be started: {error}.", str(error))
            )
            return False
        self._settle()
        return True

    def _send(self, request: OpenRequest) -> None:
        assert self._child is not None
        if len(self._open) == 1:  # nothing was owed until now
            self._last_sign = self._timers.now()
        try:
            if isinstance(request.command, Generate):
                check_request(request.command)
            return self._child.send(request.command)
        except BadSetting as error:
            failed = Failed(request.id, error.kind, error.sentence, error.evidence)
        except FrameTooLarge as error:
            failed = Failed(request.id, "prompt_too_long", _TOO_MUCH_TEXT, str(error))
        except ProtocolError as error:
            failed = Failed(request.id, "bad_setting", _NOT_SENDABLE, str(error))
        return self._on_ending(request, failed)

    def _report(self, child: ChildProcess, report: ChildReport) -> None:
        """Called on the child's threads."""
        self._post(partial(self._on_report, child, report))

    def _on_report(self, child: ChildProcess, report: ChildReport) -> None:
        if child is not self._child:
            return
        if isinstance(report, Exited):
            self._on_exit(child, report.code)
        elif isinstance(report, StderrLine):
            self._on_log(Log("warning", report.text))
        elif isinstance(report, BrokenFrames):
            self.log_lines.append(f"broken frames: {report.reason}")
            if self._farewell is None:
                self._end_by_force(
                    "internal",
                    "The engine sent an invalid response and was stopped. The partial reply is "
                    "kept. Try again.",
                )
        else:
            self._last_sign = self._timers.now()
            for message in report.messages:
                if child is self._child:
                    self._on_event_of_child(cast("Event", message))

    def _on_event_of_child(self, event: Event) -> None:
        if isinstance(event, Hello):
            self._on_hello(event)
        elif isinstance(event, Log):
            self._on_log(event)
        elif isinstance(event, Alive):
            return  # that it came is all that it says
        elif (request := self._open.get(event.id)) is None:
            return  # of a request that has already ended
        elif isinstance(event, Finished | Stopped | Failed):
            self._on_ending(request, event)
        else:
            request.note(event)
            self._emit(event)

    def _on_hello(self, hello: Hello) -> None:
        self.hello = hello
        self._emit(hello)
        if hello.protocol != PROTOCOL_VERSION:
            return self._end_by_force(
                "internal",
                "The engine and the window have different versions. Reinstall Cutaway.",
            )
        return self._settle()

    def _on_log(self, log: Log) -> None:
        """Keep and tell a line; no child can fill our memory with long ones."""
        if len(log.text) > _LINE_CHARACTERS:
            log = Log(log.level, log.text[:_LINE_CHARACTERS] + "…")
        self.log_lines.append(log.text)
        self._emit(log)

    def _on_ending(self, request: OpenRequest, ending: Ending) -> None:
        self._timers.disarm(f"stop {request.id}")
        del self._open[request.id]
        if request.id != self._load_id:
            self._finish(ending)
            return self._settle()
        self._load_id = None
        if isinstance(ending, Finished) and isinstance(ending.result, Loaded):
            self.loaded = _without(ending.result, self._lost_projector)
            self._finish(Finished(ending.id, self.loaded))
            self._settle()
            return self._send_waiting()
        return self._on_load_without_weights(ending)

    def _on_load_without_weights(self, ending: Ending) -> None:
        """Failed or cancelled: end the child too, so that what it had allocated returns."""
        self._wanted = None
        self._finish(ending)
        failed = ending if isinstance(ending, Failed) else None
        self._refuse_waiting(failed.sentence if failed else _CANCELLED)
        self._end_child(lambda: self._settle(failed))

    def _refuse_waiting(self, sentence: str) -> None:
        """The weights that these requests waited for do not come."""
        for request in self._take_waiting():
            self._finish(Failed(request.id, "not_loaded", f"No model is loaded. {sentence}"))

    def _send_waiting(self) -> None:
        for request in self._take_waiting():
            self.submit(request)

    def _take_waiting(self) -> list[OpenRequest]:
        waiting, self._waiting = self._waiting, []
        return waiting

    # --- endings ----------------------------------------------------------------------------

    def on_fault(self, request_id: int, evidence: str) -> None:
        """A fault of ours on the owner thread. The command that met it fails alone; without one
        (0), and where it was to load, what is known of the child may be wrong: the child is ended,
        and with it everything that is open."""
        self.log_lines.extend(evidence.splitlines())
        reason = Failed(request_id, "internal", FAULT, evidence)
        if request_id and (self._wanted is None or request_id != self._wanted.id):
            return self._fail_alone(reason)
        if self._child is None:
            self._fail_everything(reason)
        elif self._farewell is None:
            self._end_by_force(reason.kind, reason.sentence)
        else:
            self._child.kill()
            self._fail_everything(reason)
        return self._finish(reason)  # a load may not have come to be open

    def _fail_alone(self, reason: Failed) -> None:
        self._waiting = [request for request in self._waiting if request.id != reason.id]
        self._timers.disarm(f"stop {reason.id}")
        request = self._open.pop(reason.id, None)
        if request is not None and self._child is not None:
            self._child.send(Stop(reason.id))
        self._finish(reason if request is None else request.failed(reason, self._context_size()))
        self._settle()

    def _end_open_requests_as_stopped(self) -> None:
        requests = [*self._open.values(), *self._take_waiting()]
        self._open.clear()
        self._load_id = None
        for request in requests:
            self._timers.disarm(f"stop {request.id}")
            self._finish(request.stopped(self._context_size()))

    def _end_child(self, then: Callable[[], None]) -> None:
        """Ask the child to end, climb the ladder if it does not; afterwards `then` is called.

        A second call while the child is ending adds to what follows.
        """
        if self._child is None:
            self._settle()
            return then()
        if self._farewell is not None:
            first = self._farewell.then
            self._farewell.then = partial(_in_turn, first, then)
            return None
        self._farewell = _Farewell(then)
        self._child.send(Shutdown())
        self._child.close_stdin()
        self._timers.arm("ladder", self._patience.stop_s, self._terminate)
        return self._settle()

    def _end_by_force(self, kind: str, sentence: str) -> None:
        """End a child that does not answer or does not make sense; open requests fail."""
        if self._child is None or self._farewell is not None:
            return
        reason = Failed(0, kind, sentence, self._evidence())
        self._farewell = _Farewell(lambda: None, crashed=reason)
        self._terminate()
        self._settle()

    def _terminate(self) -> None:
        if self._child is not None:
            self._child.terminate()
            self._timers.arm("ladder", self._patience.terminate_s, self._child.kill)

    def _on_exit(self, child: ChildProcess, code: int) -> None:
        farewell, was_loading = self._farewell, self._load_id is not None
        late = [] if was_loading else self._take_waiting()
        doing = self._doing()
        self._timers.clear()
        child.join()
        self._child = self._farewell = None
        self.hello = self.loaded = None
        if farewell is not None and farewell.crashed is None:
            self._waiting.extend(late)
            self._settle()
            return farewell.then()
        if farewell is not None and farewell.crashed is not None:
            reason = farewell.crashed
        else:
            lines = last_words(list(self.log_lines))
            report = describe_exit(code, doing, lines, file=self._file_of(doing))
            reason = Failed(0, report.kind, report.sentence, self._evidence())
        if (
            farewell is None
            and doing == "loading projector"
            and self._load_without_projector(reason)
        ):
            return None
        if was_loading:
            self._wanted = None
        self._fail_everything(reason)
        if farewell is not None:
            farewell.then()
        for request in late:  # they came while the child was being ended
            self.submit(request)
        return None

    def _load_without_projector(self, reason: Failed) -> bool:
        """The weights were sound, so they are loaded once more, alone. False: nobody waits."""
        wanted, request = self._wanted, self._open.pop(self._load_id or 0, None)
        self._load_id = None
        if wanted is None or request is None or request.stopping:
            if request is not None:
                self._open[request.id] = request
                self._load_id = request.id
            return False
        self._lost_projector = ProjectorOffer(wanted.projector, why=reason.sentence)
        self._wanted = msgspec.structs.replace(wanted, projector="")
        self._begin_load(self._wanted)
        return True

    def _fail_everything(self, reason: Failed) -> None:
        """The child is gone: end what was open, then say that it crashed."""
        requests = [*self._open.values(), *self._take_waiting()]
        size = self._context_size()
        self._open.clear()
        self._load_id = None
        self._crashed = reason
        for request in requests:
            self._finish(
                request.stopped(size) if request.stopping else request.failed(reason, size)
            )
        self._settle(reason)

    def _doing(self) -> Doing:
        if self.hello is None:
            return "starting"
        if self._load_id is not None:
            return _AT[self._open[self._load_id].is_at]
        if any(request.is_at == "media" for request in self._open.values()):
            return "looking"
        return "answering" if self._open else "idle"

    def _file_of(self, doing: Doing) -> str:
        """The name of what was being loaded."""
        if self._wanted is None:
            return ""
        wanted = self._wanted
        path = {"loading draft": wanted.options.draft, "loading projector": wanted.projector}
        return Path(clean_text(path.get(doing, wanted.path))).name

    def _context_size(self) -> int:
        return self.loaded.n_ctx if self.loaded else 0

    def _evidence(self) -> str:
        return "\n".join(last_words(list(self.log_lines)))


def _without(loaded: Loaded, lost: ProjectorOffer | None) -> Loaded:
    """What stands in memory, and which projector does not."""
    if lost is None:
        return loaded
    note = f"The projector can't be used. {lost.why}"
    return msgspec.structs.replace(loaded, projector=lost, notes=[*loaded.notes, note])


_AT: Final[dict[str, Doing]] = {
    "model": "loading",
    "draft": "loading draft",
    "projector": "loading projector",
}


def _in_turn(*steps: Callable[[], None]) -> None:
    for step in steps:
        step()
