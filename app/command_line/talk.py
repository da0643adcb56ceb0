"""A talk with one engine that plays without a window: questions, their endings, and Ctrl-C."""

from __future__ import annotations

import argparse
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from app.command_line.run import LeftAtOnce
from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import Ending, EngineEvent, StateChanged
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.messages import (
    Command,
    Event,
    Failed,
    Finished,
    ReadVocabulary,
    Stopped,
    VocabularyTable,
)
from app.engine.protocol.pieces import Pieces
from app.refusal import Refusal

T = TypeVar("T")

_LAST_WAIT_S: Final = 1.0


class RequestError(Refusal):
    """The engine said that something failed. Its own kinds tell no wrong argument."""

    def __init__(self, failed: Failed) -> None:
        super().__init__("failed", failed.sentence, failed.evidence)
        self.failed = failed


class _CtrlC:
    """Put among the endings by the user."""


@dataclass(frozen=True)
class _CannotPrint:
    """Put among the endings when stdout takes nothing more, or a line of it cannot be made."""

    error: Exception


def _ignore(event: Event) -> None:
    pass


class Talk:
    """One engine, its endings in a queue, and the user's Ctrl-C.

    `on_event` and `on_quiet` are called on the engine's thread, in order, where what arrives is
    printed: one thread less to wake for each token, on a machine whose cores are busy with the
    next one. What they raise is raised where an ending is waited for.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        on_event: Callable[[Event], None] = _ignore,
        on_quiet: Callable[[], None] = lambda: None,
    ) -> None:
        """`options`: those of `run.add_file_options`."""
        self._heard = on_event
        self._paused = on_quiet
        self._is_read = True
        self._submitting = threading.Lock()
        self._places: Mapping[int, int] = {}
        self._heard_of: Callable[[Event, int], None] = lambda _event, _place: None
        # Only a SimpleQueue may be put into by a signal handler.
        self._endings: queue.SimpleQueue[Ending | _CtrlC | _CannotPrint] = queue.SimpleQueue()
        command = child_command("engine")
        if options.scripted is not None:
            command = child_command("scripted", str(options.scripted))
        self._engine = Engine(command, self._on_event, on_quiet=self._on_quiet)
        self._interrupts = 0
        self._old_handler = signal.signal(signal.SIGINT, self._on_ctrl_c)

    def load(self, path: str, options: LoadOptions, projector: str = "") -> Loaded:
        """Raises RequestError."""
        loading = self._engine.load(path, options, projector=projector)
        return self._result(self._follow(loading), Loaded)

    def ask(self, command: Command, kind: type[T]) -> T:
        """The answer to a question, which is of this kind. Raises RequestError."""
        found = self._result(self.ending_of(command), kind)
        if self._interrupts:  # the answer was quicker than the engine heard of it
            raise KeyboardInterrupt
        return found

    def ask_aside(self, command: Command, kind: type[T]) -> T:
        """The same, and nobody is told what happens meanwhile."""
        heard, self._heard = self._heard, _ignore
        try:
            return self.ask(command, kind)
        finally:
            self._heard = heard

    def read_pieces(self) -> Pieces:
        """What each token ID of the loaded file stands for. Raises RequestError."""
        return Pieces(self.ask(ReadVocabulary(0), VocabularyTable))

    def ending_of(self, command: Command) -> Ending:
        """How a request ended; Ctrl-C stops it."""
        return self._follow(self._engine.request(command))

    def endings_of(
        self, commands: Sequence[Command], heard: Callable[[Event, int], None]
    ) -> Iterator[tuple[int, Ending]]:
        """How each of several requests ended, with its place, as they end; what happens meanwhile
        goes to `heard` with the place. Ctrl-C stops all."""
        if self._interrupts:
            raise KeyboardInterrupt
        with self._submitting:  # an event may come before its number is known
            places = {self._engine.request(one): place for place, one in enumerate(commands)}
            self._places, self._heard_of = places, heard
        is_open = set(places)
        while is_open:
            ending = self._endings.get()
            if isinstance(ending, _CtrlC):
                for request_id in is_open:
                    self._engine.stop(request_id)
            elif isinstance(ending, _CannotPrint):
                raise ending.error
            elif ending.id in is_open:
                is_open.discard(ending.id)
                yield places[ending.id], ending

    def close(self) -> None:
        """Whoever reads stdout may take nothing and so hold the engine's thread."""
        self._engine.close(_LAST_WAIT_S if self._interrupts > 1 else None)
        signal.signal(signal.SIGINT, self._old_handler)

    @staticmethod
    def _result(ending: Ending, kind: type[T]) -> T:
        if isinstance(ending, Failed):
            raise RequestError(ending)
        if isinstance(ending, Stopped):
            raise KeyboardInterrupt
        if not isinstance(ending.result, kind):
            raise Refusal("failed", "The engine sent an invalid response. Try again.")
        return ending.result

    def _on_ctrl_c(self, *_: object) -> None:
        """The first one stops the request, which then ends in order, so that no line is cut
        in the middle; a second one is not waited for."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise LeftAtOnce
        self._endings.put(_CtrlC())

    def _on_event(self, event: EngineEvent) -> None:
        """Called on the engine's thread."""
        if isinstance(event, Finished | Stopped | Failed):
            self._endings.put(event)
        elif self._is_read and not isinstance(event, StateChanged):
            with self._submitting:
                place = self._places.get(getattr(event, "id", 0))
            if place is None:
                self._tell(lambda: self._heard(event))
            else:
                self._tell(lambda: self._heard_of(event, place))

    def _on_quiet(self) -> None:
        """Called on the engine's thread: what has come is told."""
        if self._is_read:
            self._tell(self._paused)

    def _tell(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - raised where somebody waits for the ending
            self._is_read = False
            self._endings.put(_CannotPrint(error))

    def _follow(self, request_id: int) -> Ending:
        """Wait until the request ends; Ctrl-C stops it."""
        if self._interrupts:
            raise KeyboardInterrupt
        while True:
            ending = self._endings.get()
            if isinstance(ending, _CtrlC):
                self._engine.stop(request_id)
            elif isinstance(ending, _CannotPrint):
                raise ending.error
            elif ending.id == request_id:
                return ending
