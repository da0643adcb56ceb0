"""The server's switch: it listens as the settings say, as soon as there is something to serve.

Turning it on, off or over to other settings imports, binds and waits, so that is done on a thread,
one turn at a time: what is wanted by then counts. What must hold: with `server_on` it starts once
the model of the start has come or failed, and not before; a port that is taken, or an address
without a key, is a sentence; closing the app closes it within bounded time, in mid-reply too.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from app.chat.events import Noticed, ServedChanged, ServerChanged
from app.chat.inbox import Inbox
from app.chat.server.log import Logged, RequestLog
from app.chat.server.opened import OpenedRequest
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.file_work import answer, begin
from app.chat.weights.loading import Loader
from app.hub.engine_keys import checked_key
from app.hub.kept_secrets import forget, keep, read
from app.refusal import Refusal
from app.server.options import Limits, ServerOptions, is_loopback, read_names, read_origins

if TYPE_CHECKING:
    from app.server.exchange import Exchange
    from app.server.replying import EngineHandle

T = TypeVar("T")
SetSetting = Callable[[str, object], None]

READ_S: Final = 0.2
READ_OPEN_S: Final = 0.05
"""So often what is new of running requests is read; of one that is looked at as a chat."""

CLOSE_TIMEOUT_S: Final = 5.0
ALTERNATIVES: Final = 64
"""As many candidates of each token as a reply of the chat has, so that the panels show the same."""

KEY_SERVICE: Final = "Cutaway server key"
KEY_NAME: Final = "server"
KEY_IS_NEEDED: Final = (
    "Other computers can reach this address, so it needs a key. Set the address to 127.0.0.1 "
    "before removing the key."
)
KEY_THIS_RUN: Final = "This system has no keyring, so the key is kept only until Cutaway closes."
KEY_STAYS: Final = (
    "The key is no longer used, but couldn't be deleted from the system keyring. Delete "
    f"“{KEY_SERVICE}” there."
)
KEY_IS_GONE: Final = (
    "The server's key isn't in the system keyring any more. Make a new one in Settings → Server."
)
OFFLINE: Final = (
    "Offline is on, so other computers can't connect. Set the server's address to 127.0.0.1, or "
    "turn Offline off."
)
OUR_FAULT: Final = "The server couldn't start. Try again; the log has the details."
NO_MODEL: Final = "No model is loaded in Cutaway. Load one, then try again."

_log = logging.getLogger(__name__)


class Listening(Protocol):
    """A server that takes requests. `url`: what clients are given, without a path."""

    @property
    def url(self) -> str: ...

    def close(self, timeout_s: float) -> None:
        """Cut what runs, and free the port."""


class StartServer(Protocol):
    """Called on a thread that may wait. `wake` is `OwnServer.wake`; `failed` is told on any thread
    that it has ended by itself, and why. Raises Refusal."""

    def __call__(
        self,
        options: ServerOptions,
        engine: EngineHandle,
        *,
        told: Callable[[Exchange], None],
        wake: Callable[[], Future[str]],
        failed: Callable[[str], None],
    ) -> Listening: ...


class OwnServer:
    """`state` is the last `ServerChanged`. All methods belong to the owner's thread."""

    def __init__(
        self,
        around: Surroundings,
        loader: Loader,
        log: RequestLog,
        opened: OpenedRequest,
        set_setting: SetSetting,
        touch: Callable[[], None],
        show_arrived: Callable[[], None],
        start: StartServer,
        *,
        offline: bool,
    ) -> None:
        self.log: Final = log
        self.opened: Final = opened
        self.state = ServerChanged("off")
        self._around = around
        self._loader = loader
        self._set_setting = set_setting
        self._touch = touch
        self._show_arrived = show_arrived
        self._start = start
        self._is_offline_by_argument = offline
        self._key = ""
        self._is_released = False
        self._after_key: list[Callable[[], None]] = []
        self._running: tuple[ServerOptions, Listening] | None = None
        self._turning: threading.Thread | None = None
        self._failed: ServerOptions | None = None
        self._sleepers: list[Future[str]] = []
        self._inbox: Inbox[Exchange] = Inbox(around.post, self._see, self._after)

    # --- the switch -----------------------------------------------------------------------------

    def take_settings(self, names: frozenset[str]) -> None:
        """These have changed, or were read at the start."""
        if "offline" in names or any(name.startswith("server_") for name in names):
            self._failed = None
            self._turn()

    def take_state(self) -> None:
        """The engine's state has changed: at the start it is what the server waits for."""
        loader = self._loader
        is_over = loader.state.state in ("stopped", "crashed") and not loader.is_loading
        has_been = bool(loader.choice or loader.state.sentence)
        if loader.loaded is None and not (is_over and has_been):
            return
        self._wake_all()
        # A second instance leaves the port to the first one, unless somebody wants it here.
        if not self._is_released and self._around.can_write:
            self._is_released = True
            self._turn()

    def set_on(self, is_on: bool) -> None:
        """By hand, so at once."""
        self._is_released = self._is_released or is_on
        self._failed = None
        if self._around.settings.server_on is is_on:
            self._turn()
        else:
            self._set_setting("server_on", is_on)

    @property
    def _is_offline(self) -> bool:
        return self._is_offline_by_argument or self._around.settings.offline

    @property
    def is_on(self) -> bool:
        return self._around.settings.server_on

    def _wanted(self) -> ServerOptions | None:
        settings = self._around.settings
        if not (settings.server_on and self._is_released) or self._around.is_closing:
            return None
        minutes = settings.server_max_minutes
        limits = Limits(
            body_bytes=settings.server_max_mb * 2**20,
            waiting=settings.server_max_requests,
            reply_s=60.0 * minutes if minutes else 366 * 86_400.0,
        )
        return ServerOptions(
            host=settings.server_address,
            port=settings.server_port,
            key=self._key,
            names=read_names(settings.server_names),
            origins=read_origins(settings.server_origins),
            alternatives=ALTERNATIVES,
            record_stages=True,
            is_guest=True,
            limits=limits,
        )

    def _turn(self) -> None:
        """Bring it to what is wanted, beside this thread; again, if that is another by then."""
        if self._turning is not None or self._around.is_closing or self._needs_key():
            return
        wanted, running = self._wanted(), self._running
        is_closed_off = wanted is not None and self._is_offline and not is_loopback(wanted.host)
        if is_closed_off:
            wanted = None
        if wanted == (running[0] if running is not None else None):
            if is_closed_off:
                self._tell(ServerChanged("failed", sentence=OFFLINE))
            elif wanted is None and self._failed is None:
                self._tell(ServerChanged("off"))
            return
        if wanted is not None and wanted == self._failed:
            return
        self._tell(ServerChanged("starting" if wanted is not None else "stopping"))
        self._running = None
        future: Future[Listening | None] = Future()

        def run() -> None:
            try:
                if running is not None:
                    running[1].close(CLOSE_TIMEOUT_S)
                future.set_result(self._begun(wanted))
            except BaseException as error:  # noqa: BLE001 - it becomes a sentence
                future.set_exception(error)

        thread = threading.Thread(target=run, name="server-switch", daemon=True)
        self._turning = thread
        thread.start()
        future.add_done_callback(
            # It listens, whatever is wanted by now: that is looked at next.
            lambda _: self._around.hand_over(lambda: self._turned(wanted, future), ALWAYS)
        )

    def _begun(self, wanted: ServerOptions | None) -> Listening | None:
        """On the thread."""
        if wanted is None:
            return None
        wanted.check()

        def fail(sentence: str) -> None:
            self._around.hand_over(lambda: self._on_failed(wanted, sentence), ALWAYS)

        return self._start(
            wanted, self._loader.engine, told=self._inbox.put, wake=self.wake, failed=fail
        )

    def _on_failed(self, options: ServerOptions, sentence: str) -> None:
        """It ended by itself."""
        if self._running is None or self._running[0] is not options:
            return
        self._running, self._failed = None, options
        self._say_failed(sentence)

    def _turned(self, wanted: ServerOptions | None, future: Future[Listening | None]) -> None:
        self._turning = None
        error = future.exception()
        if error is not None:
            self._failed = wanted
            if not isinstance(error, Refusal):
                _log.error("the server did not start", exc_info=error)
            sentence = error.sentence if isinstance(error, Refusal) else OUR_FAULT
            self._say_failed(sentence)
        else:
            listening = future.result()
            if listening is not None and wanted is not None:
                self._running = (wanted, listening)
                is_open = not is_loopback(wanted.host)
                self._tell(ServerChanged("on", listening.url, is_open=is_open))
        self._turn()

    def _say_failed(self, sentence: str) -> None:
        self._tell(ServerChanged("failed", sentence=sentence))
        self._around.emit(Noticed("error", sentence))

    def _tell(self, state: ServerChanged) -> None:
        if state != self.state:
            self.state = state
            self._around.emit(state)

    def close(self) -> None:
        """The app closes: nothing listens any more when this returns."""
        for sleeper in self._sleepers:
            sleeper.set_result(NO_MODEL)
        self._sleepers.clear()
        if self._turning is not None:
            self._turning.join(2 * CLOSE_TIMEOUT_S)
        if self._running is not None:
            self._running[1].close(CLOSE_TIMEOUT_S)
            self._running = None

    # --- the key --------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What clients have to send; empty: nothing, or it has not been read from the keyring."""
        return self._key

    def _needs_key(self) -> bool:
        """Whether the keyring is asked first. It may ask the user, so not on this thread."""
        settings = self._around.settings
        is_wanted = settings.server_on and self._is_released and settings.server_key_kept
        if is_wanted and not self._key:
            self.read_key(self._turn)
        return is_wanted and not self._key

    def read_key(self, then: Callable[[], None]) -> None:
        """Bring `key` up to date, then call `then`: for whoever wants to see or copy it."""
        if self._key or not self._around.settings.server_key_kept:
            then()
            return
        self._after_key.append(then)
        if len(self._after_key) > 1:
            return  # it is being read

        def take(found: str | None) -> None:
            waiting, self._after_key = self._after_key, []
            self._key = self._key or found or ""
            if not self._key:  # somebody has deleted it
                self._set_setting("server_key_kept", False)
                self._around.emit(Noticed("warning", KEY_IS_GONE))
            for act in waiting:
                act()

        self._work(lambda: read(KEY_SERVICE, KEY_NAME, checked_key), take)

    def make_key(self, then: Callable[[], None]) -> None:
        """Another one, kept in the keyring where there is one; the one before is worth nothing."""
        made = secrets.token_urlsafe(24)

        def kept(is_stored: bool) -> None:
            self._key = made
            self._set_setting("server_key_kept", is_stored)
            if not is_stored:
                self._around.emit(Noticed("info", KEY_THIS_RUN))
            self._failed = None
            self._turn()
            then()

        self._work(lambda: keep(KEY_SERVICE, KEY_NAME, made), kept)

    def remove_key(self, then: Callable[[], None]) -> None:
        if not is_loopback(self._around.settings.server_address):
            self._around.emit(Noticed("warning", KEY_IS_NEEDED))
            return
        was_kept = self._around.settings.server_key_kept

        def gone(is_gone: bool) -> None:
            self._key = ""
            self._set_setting("server_key_kept", False)
            if not is_gone:
                self._around.emit(Noticed("warning", KEY_STAYS))
            self._turn()
            then()

        self._work(lambda: not was_kept or forget(KEY_SERVICE, KEY_NAME), gone)

    def _work(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        future, _ = begin(work, "server-key")

        def fail(sentence: str) -> None:
            self._around.emit(Noticed("error", sentence))

        answer(self._around, future, then, fail, str, still=ALWAYS)  # of the one key

    # --- waking the model -----------------------------------------------------------------------

    def wake(self) -> Future[str]:
        """On any thread: have the model loaded that was loaded last, if none is. Done with nothing
        once replies can be asked for, else with a sentence."""
        future: Future[str] = Future()
        self._around.hand_over(lambda: self._wake(future), ALWAYS)  # it asks for what is loaded now
        return future

    def _wake(self, future: Future[str]) -> None:
        loader = self._loader
        if loader.loaded is not None and not loader.is_loading:
            future.set_result("")
        elif loader.is_loading or (self._around.settings.server_loads and self._load()):
            self._sleepers.append(future)
        else:
            future.set_result(NO_MODEL)

    def _load(self) -> bool:
        """What was loaded last, again. False: there is nothing, or it failed."""
        loader = self._loader
        if loader.state.state == "crashed" and loader.is_ready:  # in a reply, not as it was loaded
            loader.load(loader.path)
            return loader.is_loading
        return loader.load_again()

    def _wake_all(self) -> None:
        if self._loader.is_loading:
            return
        sleepers, self._sleepers = self._sleepers, []
        is_there = self._loader.loaded is not None
        sentence = "" if is_there else self._loader.state.sentence or NO_MODEL
        for sleeper in sleepers:
            sleeper.set_result(sentence)

    # --- requests -------------------------------------------------------------------------------

    def stop(self, number: int) -> None:
        """End a request's replies; the client gets what there is."""
        row = self.log.get(number)
        if row is None or row.is_over:
            return
        row.is_stop_wanted = True
        for each in row.replies:
            if each.ended is None:
                self._loader.engine.stop(each.engine_id)

    def open(self, number: int) -> None:
        """Look at a request as a chat."""
        row = self.log.get(number)
        if row is not None:
            self.opened.open(row)

    def clear(self) -> None:
        self.log.clear()
        self._around.emit(ServedChanged())

    def curl(self, row: Logged) -> str:
        """The command that asks the same again."""
        from app.chat.server.curl import curl_command

        return curl_command(self.state.url, row.endpoint, row.body, has_key=bool(self.key))

    @property
    def is_busy(self) -> bool:
        return self.log.is_any_running

    def _see(self, exchange: Exchange) -> None:
        if not self._around.is_closing:
            self.log.see(exchange)

    def _after(self) -> None:
        if self._around.is_closing:
            return
        self._touch()
        self._show_arrived()
        self._around.emit(ServedChanged())
        if self.log.is_any_running:
            delay_s = READ_OPEN_S if self.opened.is_on_screen else READ_S
            self._around.alarms.set_once("served", delay_s, self._read_on)

    def _read_on(self) -> None:
        if self.log.read_on():
            self._after()
