"""`main.py serve`: the server without the window, until Ctrl-C.

    main.py serve --gguf qwen3-4b --port 8642

The address goes to stdout once the model is loaded and the port is open; a line for each request to
stderr. The first Ctrl-C (or SIGTERM) ends all requests and frees the port; the second one does not
wait. `run.py` says how it ends; here Ctrl-C is the ordinary end, so its exit code is 0.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import msgspec

from app.command_line.media_files import projector_path
from app.command_line.run import (
    LeftAtOnce,
    SentenceParser,
    add_common_options,
    add_file_options,
    argument_text,
    run_to_the_end,
    weights_path,
)
from app.command_line.settings import AskSettings
from app.command_line.talk import RequestError
from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineEvent, StateChanged
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, Finished, Stopped
from app.paths import is_file, typed_path
from app.refusal import Refusal, bad_setting
from app.server.asking import model_name
from app.server.options import DEFAULT_PORT, ServerOptions, is_loopback, read_names, read_origins
from app.server.server import Server, ServerState

if TYPE_CHECKING:
    from app.server.exchange import Exchange

KEY_VARIABLE: Final = "CUTAWAY_SERVER_KEY"
_MAX_NAMED: Final = 5


def main(argv: Sequence[str]) -> int:
    """Serve, and return the exit code."""
    return run_to_the_end(lambda: _run(_parse(argv)))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = SentenceParser(
        prog="main.py serve",
        description="Let other programs use a model: OpenAI's and Anthropic's protocols.",
    )
    add_file_options(parser)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=int, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}; 0: any free one")
    add("--key", metavar="KEY", help=f"key that clients must send (or set {KEY_VARIABLE})")
    add("--slots", type=int, metavar="N", help="replies at once (default: automatic)")
    add(
        "--model-names",
        default="",
        metavar="NAMES",
        help="what else clients may call the model, with commas between; *: anything",
    )
    add(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="web page that may use it, like http://localhost:3000 (may be repeated)",
    )
    add_common_options(parser, "serve")
    return parser.parse_args(argv)


def _run(options: argparse.Namespace) -> int:
    server_options = ServerOptions(
        host=options.host,
        port=options.port,
        key=options.key if options.key is not None else os.environ.get(KEY_VARIABLE, ""),
        names=read_names(argument_text(options.model_names)),
        origins=read_origins(",".join(map(argument_text, options.allow_origin))),
    )
    if options.offline and not is_loopback(options.host):
        raise bad_setting("--offline listens on this computer alone. Remove it, or --host.")
    server_options.check()  # before the weights load for it
    load_options = _load_options(options)
    if options.gguf and not is_file(typed_path(options.gguf)):
        options.gguf = str(named_weights(argument_text(options.gguf)))
    path = weights_path(options)
    projector = projector_path(options, is_needed=True)
    return _Serving(options, server_options).run(path, load_options, projector)


def _load_options(options: argparse.Namespace) -> LoadOptions:
    settings = AskSettings()
    settings.take_load_options(options)
    found = settings.load_options()
    return found if options.slots is None else msgspec.structs.replace(found, n_slots=options.slots)


def named_weights(name: str) -> Path:
    """A file on this machine by its name, or a part of it that no other has. Raises Refusal."""
    from app.gguf.local.finding import is_projector_name, scan
    from app.gguf.local.places import places_of_others
    from app.gguf.local.split_names import set_name

    def is_loaded_by(path: Path) -> bool:
        split = set_name(path.name)
        return not is_projector_name(path.name) and (split is None or split.part == 1)

    wanted = name.casefold().removesuffix(".gguf")
    if not wanted or "/" in wanted or os.sep in wanted:
        raise Refusal(
            "missing_file", f"File not found: “{name}”. Check the path given with --gguf."
        )
    seen = {each.path for place in places_of_others() for each in scan(place).files}
    found = sorted(filter(is_loaded_by, seen))
    same = [path for path in found if path.stem.casefold() == wanted]
    alike = same or [path for path in found if wanted in path.stem.casefold()]
    if not alike:
        raise Refusal(
            "missing_file",
            f"No model called “{name}” was found in the folders of other programs. Pass its path "
            "with --gguf.",
        )
    if len({path.name for path in alike}) > 1:
        names = ", ".join(path.name for path in alike[:_MAX_NAMED])
        raise bad_setting(f"“{name}” could be several models: {names}. Use the whole name.")
    return alike[0]


class _Interrupted:
    """Put among what happens by Ctrl-C, or SIGTERM."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A request that has ended, as it is said."""

    text: str


class _Serving:
    """One engine, one server, and what happens to them, in a queue that the main thread reads."""

    def __init__(self, options: argparse.Namespace, server_options: ServerOptions) -> None:
        # Only a SimpleQueue may be put into by a signal handler.
        self._happened: queue.SimpleQueue[object] = queue.SimpleQueue()
        command = child_command("engine")
        if options.scripted is not None:
            command = child_command("scripted", str(options.scripted))
        self._engine = Engine(command, self._on_event)
        self._server = Server(
            self._engine,
            server_options,
            on_state=self._happened.put,
            on_exchange=self._on_exchange,
        )
        self._interrupts = 0

    def run(self, path: str, load_options: LoadOptions, projector: str = "") -> int:
        names = [signal.SIGINT, signal.SIGTERM]
        before = {name: signal.signal(name, self._on_signal) for name in names}
        try:
            if self._load(path, load_options, projector):
                self._serve()
            return 0
        finally:
            self._server.stop()
            self._engine.close()
            for name, handler in before.items():
                signal.signal(name, handler)

    def _load(self, path: str, load_options: LoadOptions, projector: str) -> bool:
        """False: it was interrupted. Raises RequestError."""
        _say(sys.stderr, f"Loading {Path(path).name} …")
        request_id = self._engine.load(path, load_options, projector=projector)
        while True:
            happened = self._happened.get()
            if isinstance(happened, _Interrupted):
                self._engine.stop(request_id)
            elif isinstance(happened, Failed) and happened.id == request_id:
                raise RequestError(happened)
            elif isinstance(happened, Finished | Stopped) and happened.id == request_id:
                return isinstance(happened, Finished)

    def _serve(self) -> None:
        self._server.start()
        while True:
            happened = self._happened.get()
            if isinstance(happened, _Interrupted):
                return
            if happened is ServerState.RUNNING:
                self._say_address()
            elif happened is ServerState.FAILED:
                raise Refusal("failed", self._server.sentence)
            elif isinstance(happened, StateChanged) and happened.sentence:
                _say(sys.stderr, happened.sentence)
            elif isinstance(happened, _Line):
                _say(sys.stderr, happened.text)

    def _say_address(self) -> None:
        loaded = self._engine.loaded
        _say(sys.stdout, f"{self._server.address}/v1")
        if loaded is not None:
            slots = f"{loaded.n_slots} replies at once" if loaded.n_slots > 1 else "one at a time"
            _say(sys.stderr, f"{model_name(loaded)}, {slots}. Press Ctrl-C to stop.")
            for note in loaded.notes:
                _say(sys.stderr, note)

    def _on_signal(self, *_: object) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise LeftAtOnce
        self._happened.put(_Interrupted())

    def _on_event(self, event: EngineEvent) -> None:
        """On the engine's thread."""
        if isinstance(event, Finished | Stopped | Failed | StateChanged):
            self._happened.put(event)

    def _on_exchange(self, exchange: Exchange) -> None:
        """On a thread of the server's, which nobody who reads stderr may hold up."""
        if exchange.seconds is not None:
            self._happened.put(_Line(line_of(exchange)))


def _say(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def line_of(exchange: Exchange) -> str:
    """An ended request, in a line."""
    at = time.strftime("%H:%M:%S", time.localtime(exchange.began))
    said = exchange.sentence
    summaries = [reply.summary for reply in exchange.replies if reply.summary is not None]
    if exchange.is_gone:
        said = "the client went away"
    elif summaries and not said:
        written = sum(summary.generated for summary in summaries)
        said = f"{summaries[0].prompt_tokens:,} + {written:,} tokens"
    status = exchange.status or "-"
    return f"{at} {exchange.who} {exchange.endpoint} {status} {exchange.seconds:.1f} s {said}"
