"""The engine as the rest of the program sees it: one handle over a child that may die.

    engine = Engine(child_command("engine"), on_event=print)
    engine.load("weights.gguf")
    request = engine.generate(Generate(0, ChatPrompt([ChatMessage("user", "Hi")])))
    ending = engine.wait_for(request, timeout=60)
    engine.close()

Everything happens on one *owner thread*: commands of any thread and reports of the child's
threads become steps in its inbox, and `on_event` is called on it, in order. A request that was
given a `listener` tells all of its events to that one instead. What must hold:

* Each request ends exactly once, in Finished, Stopped or Failed, also when the child is
  killed, never starts, or stops answering, and when a fault of ours meets it on the owner
  thread; then the ending is made here.
* Deadlines measure lack of progress that the child owes, while we are awake to see it: any frame
  is a sign of life. A child that computes for long, or waits for a person, says `Alive`.
* Stop is a ladder: a Stop frame, after 2 s terminate, after 1 s more kill, always join. While
  others are answered the child is not ended: the stopped request ends here after 2 s.
* Weights that crashed the engine while they loaded are never loaded again unasked. After
  another crash the next `generate` starts a child and loads them again, at most
  `RESTART_BUDGET` times in `RESTART_WINDOW_S`.
* `unload` ends the child, so that its memory really returns.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike, fsencode, fspath
from typing import Final

import msgspec

from app.engine.client.open_request import OpenRequest
from app.engine.client.supervisor import (
    FAULT,
    Ending,
    EngineEvent,
    EngineState,
    Patience,
    Supervisor,
)
from app.engine.protocol.frames import clean_text
from app.engine.protocol.loading_messages import Loaded, LoadOptions, LoadWeights
from app.engine.protocol.messages import (
    Choose,
    Command,
    Failed,
    Generate,
    Hello,
    Hold,
    Resume,
    Shutdown,
    Stop,
)
from app.engine.protocol.saved_messages import SavedFolder

STOP_GRACE_S: Final = 2.0
TERMINATE_GRACE_S: Final = 1.0
PROGRESS_TIMEOUT_S: Final = 120.0
_REMEMBERED_ENDINGS: Final = 16

Listener = Callable[[EngineEvent], None]
"""Takes events, on the engine's thread and in order. It must not wait."""

_log = logging.getLogger(__name__)


class Engine:
    """Supervisor and client in one. Public methods return at once and may be called from any
    thread, except `wait_for` and `close`, which wait."""

    def __init__(
        self,
        command: list[str],
        on_event: Listener,
        *,
        env: Mapping[str, str] | None = None,
        log_lines: int = 400,
        progress_timeout_s: float = PROGRESS_TIMEOUT_S,
        stop_grace_s: float = STOP_GRACE_S,
        terminate_grace_s: float = TERMINATE_GRACE_S,
        clock: Callable[[], float] = time.monotonic,
        on_quiet: Callable[[], None] | None = None,
    ) -> None:
        """`on_event` is called on a thread of the engine's, in order; `on_quiet` there too,
        whenever all that has come so far was told."""
        self._on_event = on_event
        self._on_quiet = on_quiet
        self._clock = clock
        self._ids = itertools.count(1)
        self._promised: set[int] = set()
        self._taken: set[int] = set()
        self._listeners: dict[int, Listener] = {}
        self._is_judging = False
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._start_lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._closed = False
        self._endings: OrderedDict[int, Ending] = OrderedDict()
        self._ended = threading.Condition()
        self._oversight = Supervisor(
            command,
            env,
            log_lines=log_lines,
            patience=Patience(progress_timeout_s, stop_grace_s, terminate_grace_s),
            clock=clock,
            post=self._inbox.put,
            emit=self._emit,
            finish=self._finish,
            new_id=self._new_id,
        )

    # --- what any thread may ask ------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        """The state as of the last `StateChanged`."""
        return self._oversight.state

    @property
    def hello(self) -> Hello | None:
        """What the running child said of itself (devices, version), or None."""
        return self._oversight.hello

    @property
    def loaded(self) -> Loaded | None:
        """The weights in memory, or None."""
        return self._oversight.loaded

    @property
    def is_owing(self) -> bool:
        """Whether any request has not ended."""
        return self._oversight.is_owing

    @property
    def pid(self) -> int | None:
        """The child's; None where there is none."""
        return self._oversight.pid

    def log_tail(self) -> list[str]:
        """The last lines of llama.cpp's log and of the child's stderr, oldest first."""
        return list(self._oversight.log_lines.copy())

    def start(self) -> None:
        """Start the child without weights, so that a later load begins sooner."""
        self._post(0, self._oversight.start)

    def load(
        self,
        path: str | PathLike[str],
        options: LoadOptions | None = None,
        saved: SavedFolder | None = None,
        projector: str = "",
    ) -> int:
        """Load weights in place of those loaded now, if any. Ends in Finished(Loaded). `saved`:
        where chats' KV state lies on disk; nowhere where it is not given. `projector`: path of the
        file that lets them see or hear."""
        name = fspath(path)
        raw = b"" if clean_text(name) == name else fsencode(name)
        options = options or LoadOptions()
        command = LoadWeights(self._new_id(), name, options, raw, saved, projector)
        self._post(command.id, partial(self._oversight.load, command))
        return command.id

    def unload(self) -> int:
        """End the child, so that all its memory returns. Ends in Finished(Done)."""
        request_id = self._new_id()
        self._post(request_id, partial(self._oversight.unload, request_id))
        return request_id

    def generate(self, request: Generate, listener: Listener | None = None) -> int:
        """Start a reply; `request.id` is filled in. Waits for weights that are loading."""
        return self.request(request, listener)

    def request(self, command: Command, listener: Listener | None = None) -> int:
        """Send any command. Returns its fresh id, or the target of one that has no id. `listener`
        is told all that this request tells, its ending included, and `on_event` none of it."""
        if isinstance(command, Stop):
            self.stop(command.target)
            return command.target
        if isinstance(command, Hold | Choose | Resume):
            self._post(command.target, partial(self._oversight.steer, command))
            return command.target
        if isinstance(command, Shutdown):
            raise TypeError("close() shuts the engine down")
        command = msgspec.structs.replace(command, id=self._new_id())
        if listener is not None:
            self._listeners[command.id] = listener
        if isinstance(command, LoadWeights):
            step = partial(self._oversight.load, command)
        else:
            step = partial(self._oversight.submit, OpenRequest(command, self._clock()))
        self._post(command.id, step)
        return command.id

    def stop(self, request_id: int) -> None:
        """Stop a reply or a load: at once if the child obeys, else by ending the child."""
        self._post(request_id, partial(self._oversight.stop, request_id))

    def wait_for(self, request_id: int, timeout: float) -> Ending:
        """Block until the request has ended and return its ending.

        Only the last few endings are remembered. Raises TimeoutError. Not from `on_event`.
        """
        with self._ended:
            if not self._ended.wait_for(lambda: request_id in self._endings, timeout):
                raise TimeoutError(f"request {request_id} did not end within {timeout} s")
            return self._endings[request_id]

    def close(self, timeout_s: float | None = None) -> None:
        """End the child and the threads; nothing is left. Open requests end as stopped. After
        `timeout_s` a listener that does not return is left behind with its thread."""
        with self._start_lock:
            if self._closed:
                return
            self._closed = True
            owner = self._owner
        if owner is None:
            return
        self._inbox.put(partial(self._oversight.close, partial(self._inbox.put, None)))
        if threading.current_thread() is not owner:
            owner.join(timeout_s)

    # --- the owner thread -------------------------------------------------------------------

    def _new_id(self) -> int:
        """An id that one ending is promised for."""
        request_id = next(self._ids)
        self._promised.add(request_id)
        return request_id

    def _post(self, request_id: int, step: Callable[[], None]) -> None:
        """Put a step of this request (0: of none) into the inbox."""
        with self._start_lock:
            if self._closed:
                self._listeners.pop(request_id, None)
                raise RuntimeError("the engine is closed")
            if self._owner is None:
                self._owner = threading.Thread(target=self._run, name="engine-owner", daemon=True)
                self._owner.start()
            self._inbox.put(partial(self._guard, step, request_id))

    def _run(self) -> None:
        while True:
            wait_s = self._oversight.seconds_to_next_timer()
            if wait_s == 0.0 and not self._is_judging:
                # Behind all that has come: a deadline is judged when that is taken in.
                self._is_judging = True
                self._inbox.put(self._judge)
            try:
                step = self._inbox.get(timeout=wait_s)
            except queue.Empty:
                continue
            if step is None:
                return self._tell_quiet()
            self._guard(step)
            del step  # a request holds a whole chat, an ending its prompt
            if self._inbox.empty():
                self._tell_quiet()

    def _judge(self) -> None:
        self._is_judging = False
        self._oversight.run_timers()

    def _guard(self, step: Callable[[], None], request_id: int = 0) -> None:
        """Take a step. A fault of ours must not end the thread that ends everything, nor leave a
        request that was taken, and is known nowhere any more, without its ending."""
        if request_id in self._promised:
            self._taken.add(request_id)
        try:
            step()
        except Exception:  # noqa: BLE001 - it ends its request
            _log.exception("a fault on the engine's owner thread")
            evidence = traceback.format_exc(limit=-6)
            try:
                self._oversight.on_fault(request_id, evidence)
            except Exception:  # noqa: BLE001 - as above
                _log.exception("and another one, as its request was ended")
                self._finish(Failed(request_id, "internal", FAULT, evidence))
            for lost in sorted(self._taken - self._oversight.open_ids):
                self._finish(Failed(lost, "internal", FAULT, evidence))

    def _emit(self, event: EngineEvent) -> None:
        tell = self._listeners.get(getattr(event, "id", 0), self._on_event)
        try:
            tell(event)
        except Exception:  # noqa: BLE001 - a fault of the listener must not end the owner
            _log.exception("the engine's listener failed on %s", type(event).__name__)

    def _tell_quiet(self) -> None:
        try:
            if self._on_quiet is not None:
                self._on_quiet()
        except Exception:  # noqa: BLE001 - as in `_emit`
            _log.exception("the engine's listener failed in a pause")

    def _finish(self, ending: Ending) -> None:
        """Tell the listener how a request ended, then whoever waits for it. Once: what has ended
        before, or was never promised, is not told."""
        if ending.id not in self._promised:
            return
        self._promised.discard(ending.id)
        self._taken.discard(ending.id)
        self._emit(ending)
        self._listeners.pop(ending.id, None)
        with self._ended:
            self._endings[ending.id] = ending
            if len(self._endings) > _REMEMBERED_ENDINGS:
                self._endings.popitem(last=False)
            self._ended.notify_all()
