"""A server in the engine's place: what `client.Engine` offers, with a thread per open request.

    engine = RemoteEngine(Reach(gate, address_of, key_of), on_event=print)
    engine.load("engine://e1/some-model")
    engine.wait_for(engine.generate(Generate(0, ChatPrompt([ChatMessage("user", "Hi")]))), 60)
    engine.close()

Requests are worked on by threads of their own, and all that they tell goes through one queue: the
*teller* calls `on_event` and listeners, in order. What must hold:

* Each request ends exactly once, in Finished, Stopped or Failed, whatever the server does: what a
  thread tells after the ending is dropped, under the lock that made the ending.
* Stop ends a request at once, with what had arrived, and closes its connection; the server stops
  when it sees that. Nobody waits for it.
* What had arrived stays: it is in the ending of a request that failed, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import logging
import queue
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.engine.client.engine import Listener
from app.engine.client.supervisor import FAULT, Ending, EngineEvent, EngineState, StateChanged
from app.engine.protocol.loading_messages import Loaded, LoadWeights
from app.engine.protocol.messages import (
    Choose,
    Command,
    Done,
    Event,
    Failed,
    Finished,
    Generate,
    Hello,
    Hold,
    Log,
    Result,
    Resume,
    Shutdown,
    Stop,
    Stopped,
)
from app.engine.protocol.remote_messages import EngineAddress, engine_and_model, model_name
from app.engine.protocol.thinking_messages import TemplateInspected
from app.engine.remote.answer import ReplyReader
from app.engine.remote.target import Target
from app.hub.gate import Call, CalledOff, Gate
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.engine.templates.client import TemplateClient
    from app.hub.engines.calls import Server

MAX_OPEN: Final = 24
"""Fewer than the connections that the gate's client holds."""
_REMEMBERED_ENDINGS: Final = 16
_LOG_LINES: Final = 200

_MAY_BE_ANOTHER: Final = ("unreachable", "not_loaded", "server_error")
"""Faults (`app.hub.engines.faults`) behind which a server may be another one."""

NOT_LOADED: Final = "No model is loaded. Choose one from the model menu."
CANCELLED: Final = "Loading was cancelled. Load the model again or choose another."
NOT_LISTED: Final = (
    "This server isn't in Settings → Engines any more. Add it again, or choose another model."
)
TOO_MANY: Final = (
    "{} requests are open at this server. Wait for one of them to end, then try again."
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reach:
    """How servers are reached. `address_of`: the address for a path of a remote model, None where
    it is not listed; called on any thread. `key_of`: its key; it may wait."""

    gate: Gate
    address_of: Callable[[str], EngineAddress | None]
    key_of: Callable[[EngineAddress], str | None]


@dataclass(slots=True, eq=False)
class _Open:
    """A request that has not ended."""

    command: Command
    id: int
    listener: Listener | None
    call: Call = field(default_factory=Call)
    reply: ReplyReader | None = None


class RemoteEngine:
    """Public methods return at once and may be called from any thread, except `wait_for` and
    `close`, which wait."""

    def __init__(
        self,
        reach: Reach,
        on_event: Listener,
        *,
        first_id: int = 1,
        clock: Callable[[], float] = time.monotonic,
        silence_s: float | None = None,
    ) -> None:
        self._reach = reach
        self._on_event = on_event
        self._clock = clock
        self._silence_s = silence_s
        self._ids = itertools.count(first_id)
        self._lock = threading.RLock()
        self._open: dict[int, _Open] = {}
        self._waiting: list[_Open] = []
        self._load_id: int | None = None
        self._state = EngineState.STOPPED
        self._target: Target | None = None
        self._is_in_doubt = False
        """The server broke off: it may have been started anew, with another model."""
        self._loaded: Loaded | None = None
        self._threads: set[threading.Thread] = set()
        self._is_closed = False
        self._endings: OrderedDict[int, Ending] = OrderedDict()
        self._ended = threading.Condition(self._lock)
        self._lines: list[str] = []
        self._templates: TemplateClient | None = None
        self._told: queue.SimpleQueue[tuple[Listener, EngineEvent] | None] = queue.SimpleQueue()
        self._teller: threading.Thread | None = None

    # --- what any thread may ask ------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def hello(self) -> Hello | None:
        """A server says none."""
        return None

    @property
    def loaded(self) -> Loaded | None:
        return self._loaded

    @property
    def is_owing(self) -> bool:
        return bool(self._open)

    @property
    def pid(self) -> int | None:
        return None

    def log_tail(self) -> list[str]:
        """What was asked, and how it ended."""
        with self._lock:
            return list(self._lines)

    def start(self) -> None:
        """There is nothing to start."""

    def load(self, path: str, options: object = None, saved: object = None) -> int:
        """Ask the server about a model of its (`remote_path`) and use it from now on. Ends in
        Finished(Loaded)."""
        return self.request(LoadWeights(0, path))

    def unload(self) -> int:
        """Let the server go. Ends in Finished(Done)."""
        with self._lock:
            request_id = self._new(Done(), None).id  # type: ignore[arg-type]
            # First: whoever hears of an ending looks here for why it came.
            self._target = self._loaded = self._load_id = None
            for each in [*self._open.values()]:
                if each.id != request_id:
                    self._stop(each)
            self._finish(Finished(request_id, Done()))
            self._settle()
        return request_id

    def generate(self, request: Generate, listener: Listener | None = None) -> int:
        return self.request(request, listener)

    def request(self, command: Command, listener: Listener | None = None) -> int:
        """Send any command. Returns its fresh id, or the target of one that has no id."""
        if isinstance(command, Stop):
            self.stop(command.target)
            return command.target
        if isinstance(command, Hold | Choose | Resume):
            return command.target  # no server waits for a choice: its reply has had a note
        if isinstance(command, Shutdown):
            raise TypeError("close() shuts the engine down")
        with self._lock:
            opened = self._new(command, listener)
            if isinstance(command, LoadWeights):
                self._begin_load(opened)
            elif self._load_id is not None:
                self._waiting.append(opened)
            else:
                self._begin(opened)
        return opened.id

    def stop(self, request_id: int) -> None:
        """End it now, and close its connection."""
        with self._lock:
            opened = self._open.get(request_id)
            if opened is None:
                return
            self._stop(opened)
            if request_id == self._load_id:
                self._load_id = None
                self._refuse_waiting(CANCELLED)
                self._settle()

    def wait_for(self, request_id: int, timeout: float) -> Ending:
        """Block until the request has ended. Only the last few endings are remembered. Raises
        TimeoutError. Not from `on_event`."""
        with self._ended:
            if not self._ended.wait_for(lambda: request_id in self._endings, timeout):
                raise TimeoutError(f"request {request_id} did not end within {timeout} s")
            return self._endings[request_id]

    def close(self, timeout_s: float | None = None) -> None:
        """End all, as stopped; threads that hang in a look-up of a name are left behind."""
        with self._lock:
            if self._is_closed:
                return
            for each in [*self._open.values()]:
                self._stop(each)
            self._is_closed = True
            threads, teller = list(self._threads), self._teller
            templates, self._templates = self._templates, None
        if templates is not None:
            templates.abandon()
            templates.close()
        self._told.put(None)
        ends_at = time.monotonic() + (2.0 if timeout_s is None else timeout_s)
        for thread in [*threads, *([teller] if teller is not None else [])]:
            if thread is not threading.current_thread():
                thread.join(max(ends_at - time.monotonic(), 0.0))

    # --- requests, under the lock -----------------------------------------------------------

    def _new(self, command: Command, listener: Listener | None) -> _Open:
        if self._is_closed:
            raise RuntimeError("the engine is closed")
        if self._teller is None:
            self._teller = threading.Thread(target=self._tell_all, name="servers", daemon=True)
            self._teller.start()
        request_id = next(self._ids)
        if not isinstance(command, Done):
            command = msgspec.structs.replace(command, id=request_id)
        opened = _Open(command, request_id, listener)
        self._open[request_id] = opened
        return opened

    def _begin_load(self, opened: _Open) -> None:
        self._target = self._loaded = None
        for each in [*self._open.values()]:
            if each is not opened and each not in self._waiting:
                self._stop(each)
        self._load_id = opened.id
        self._settle()
        self._run(opened)

    def _begin(self, opened: _Open) -> None:
        if self._target is None:
            self._finish(Failed(opened.id, "not_loaded", NOT_LOADED))
        elif len(self._open) > MAX_OPEN:
            self._finish(Failed(opened.id, "busy", TOO_MANY.format(MAX_OPEN)))
        else:
            self._run(opened)
            self._settle()

    def _run(self, opened: _Open) -> None:
        work = partial(self._work, opened, self._target)
        thread = threading.Thread(target=work, name=f"server-{opened.id}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _stop(self, opened: _Open) -> None:
        result: Result = Done()
        if isinstance(opened.command, Generate) and opened.reply is not None:
            result = opened.reply.summary("stopped")
        elif isinstance(opened.command, Generate):
            from app.engine.client.open_request import OpenRequest

            result = OpenRequest(opened.command, 0.0).stopped(0).result
        self._finish(Stopped(opened.id, result))
        opened.call.cancel()

    def _finish(self, ending: Ending) -> None:
        """Once: of what has ended nothing more is told."""
        opened = self._open.pop(ending.id, None)
        if opened is None:
            return
        self._waiting = [each for each in self._waiting if each is not opened]
        self._told.put((opened.listener or self._on_event, ending))
        self._note(type(opened.command).__name__, ending)
        self._endings[ending.id] = ending
        if len(self._endings) > _REMEMBERED_ENDINGS:
            self._endings.popitem(last=False)
        self._ended.notify_all()

    def _note(self, what: str, ending: Ending) -> None:
        words = f"{what}: {type(ending).__name__.lower()}"
        if isinstance(ending, Failed):
            words += f" ({ending.kind}): {ending.sentence} {ending.evidence}".rstrip()
        self._lines = [*self._lines[-_LOG_LINES:], words]
        if what in ("LoadWeights", "Generate") or isinstance(ending, Failed):
            level = "warning" if isinstance(ending, Failed) else "info"
            self._told.put((self._on_event, Log(level, words[:4096])))

    def _settle(self, reason: Failed | None = None) -> None:
        if self._load_id is not None:
            state = EngineState.LOADING
        elif self._loaded is None:
            state = EngineState.STOPPED
        else:
            open_ = [each for each in self._open.values() if each not in self._waiting]
            busy = any(isinstance(each.command, Generate) for each in open_)
            state = EngineState.BUSY if busy else EngineState.READY
        if state is self._state and reason is None:
            return
        self._state = state
        sentence, evidence = (reason.sentence, reason.evidence) if reason else ("", "")
        self._told.put((self._on_event, StateChanged(state, sentence, evidence)))

    def _refuse_waiting(self, sentence: str) -> None:
        for each in [*self._waiting]:
            self._finish(Failed(each.id, "not_loaded", f"No model is loaded. {sentence}"))

    # --- the teller -------------------------------------------------------------------------

    def _tell_all(self) -> None:
        while (told := self._told.get()) is not None:
            listener, event = told
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - a fault of the listener must not end the teller
                _log.exception("the engine's listener failed on %s", type(event).__name__)
            del told, listener, event

    # --- a request's own thread -------------------------------------------------------------

    def _work(self, opened: _Open, target: Target | None) -> None:
        try:
            with opened.call.running():
                if isinstance(opened.command, LoadWeights):
                    self._load(opened, opened.command.path)
                else:
                    assert target is not None
                    self._answer(opened, target)
        except CalledOff:
            with self._lock:  # it has ended already
                self._finish(Stopped(opened.id, Done()))
        except Exception as error:  # noqa: BLE001 - it ends its request
            self._fail(opened, error)
        finally:
            with self._lock:
                self._settle()
                self._threads.discard(threading.current_thread())

    def _fail(self, opened: _Open, error: Exception) -> None:
        kind, sentence = getattr(error, "kind", "internal"), getattr(error, "sentence", "")
        evidence = getattr(error, "evidence", "")
        if not sentence:
            _log.error("a request to a server failed", exc_info=error)
            kind, sentence, evidence = "internal", FAULT, traceback.format_exc(limit=-6)
        with self._lock:
            partial_ = None
            if opened.reply is not None and opened.reply.has_begun:
                partial_ = opened.reply.summary("failed")
            failed = Failed(opened.id, kind, sentence, evidence, partial_)
            is_load = opened.id == self._load_id
            self._is_in_doubt = self._is_in_doubt or (not is_load and kind in _MAY_BE_ANOTHER)
            self._finish(failed)
            if is_load:
                self._load_id = None
                self._refuse_waiting(sentence)
                self._settle(failed)

    def _server(self, address: EngineAddress) -> Server:
        from app.hub.engines.calls import SILENCE_S, Server

        silence_s = SILENCE_S if self._silence_s is None else self._silence_s
        return Server(
            self._reach.gate,
            address.name,
            address.url,
            self._reach.key_of(address),
            silence_s=silence_s,
            progress_s=silence_s,
        )

    def _load(self, opened: _Open, path: str) -> None:
        from app.engine.remote.trying import target_of

        began_at = self._clock()
        address, asked = self._reach.address_of(path), ""
        while address is None or address.url != asked:  # it may be changed while it is asked
            if address is None:
                raise Refusal("missing_file", NOT_LISTED)
            asked = address.url
            target = target_of(self._server(address), address, engine_and_model(path)[1])
            address = self._reach.address_of(path)
        target = self._with_templates(target)
        loaded = loaded_from(target, path, self._clock() - began_at)
        with self._lock:
            if opened.id not in self._open:
                return
            self._load_id = None
            self._target, self._loaded, self._is_in_doubt = target, loaded, False
            self._finish(Finished(opened.id, loaded))
            self._settle()
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self._begin(each)

    def _with_templates(self, target: Target) -> Target:
        return dataclasses.replace(target, inspect=self._inspect, render=self._render)

    def _looked_again(self, target: Target, server: Server) -> Target:
        """Its model as it is now. Raises ServerFault and Refusal."""
        from app.engine.remote.trying import target_of

        found = self._with_templates(target_of(server, target.address, target.model.id))
        with self._lock:
            if self._target is target:
                self._target, self._is_in_doubt = found, False
        return found

    def _inspect(self, template: str, **words: Any) -> TemplateInspected:
        return self._template_client().inspect(template, **words)

    def _render(self, template: str, messages: list[dict[str, Any]], **words: Any) -> str:
        return self._template_client().render(template, messages, **words)

    def _template_client(self) -> TemplateClient:
        """The template process: a server's template is somebody's program, too."""
        from app.engine.templates.client import TemplateClient

        with self._lock:
            if self._is_closed:
                raise CalledOff
            if self._templates is None:
                self._templates = TemplateClient()
            return self._templates

    def _answer(self, opened: _Open, target: Target) -> None:
        from app.engine.remote.questions import answered
        from app.engine.remote.replying import reply_to

        server = self._server(target.address)
        command = opened.command
        if self._is_in_doubt:
            target = self._looked_again(target, server)
        if not isinstance(command, Generate):
            self._end(opened, lambda: answered(command, server, target))
            return

        def tell(event: Event) -> None:
            with self._lock:
                if opened.id in self._open:
                    self._told.put((opened.listener or self._on_event, event))

        def begun(reply: ReplyReader) -> None:
            with self._lock:
                opened.reply = reply

        reply = reply_to(command, server, target, tell, begun, self._lock, self._clock)
        with self._lock:
            self._finish(Finished(opened.id, reply))

    def _end(self, opened: _Open, answer: Callable[[], Result]) -> None:
        result = answer()
        with self._lock:
            self._finish(Finished(opened.id, result))


def loaded_from(target: Target, path: str, load_s: float) -> Loaded:
    """A server's model as the window knows weights: what it does not say is 0 or empty."""
    model, offer = target.model, target.offer
    return Loaded(
        path=path,
        name=model_name(model.id),
        architecture="",
        description=f"{offer.kind_name} {offer.version}".strip(),
        size_bytes=model.size_bytes,
        n_params=model.n_params,
        n_layer=0,
        n_embd=0,
        n_head=0,
        n_head_kv=0,
        n_vocab=model.n_vocab,
        n_ctx=model.n_ctx,
        n_ctx_train=model.n_ctx_train,
        n_ubatch=0,
        n_threads=0,
        n_gpu_layers=0,
        flash_attention=False,
        type_k="",
        type_v="",
        has_template=True,
        add_bos=False,
        eog_ids=[],
        memory=[],
        kv_bytes_per_token=0,
        load_s=load_s,
        notes=list(offer.notes),
        fast_hash=remote_hash(path),
        n_slots=target.n_slots,
        remote=offer,
    )


def remote_hash(path: str) -> str:
    """What a server's model is known again by: where it is and what it is called there.

    >>> remote_hash("engine://e1/m")[:7]
    'remote-'
    """
    return f"remote-{hashlib.blake2b(path.encode(), digest_size=12).hexdigest()}"
