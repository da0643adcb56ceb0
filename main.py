"""Composition root: parse the arguments, build, show, run, shut down in reverse.

What must hold:

* The hidden `--child=…` arguments are answered before Qt or anything heavy is imported:
  a child must set its environment before llama.cpp's library loads, and stay small.
* The window's frame and composer are painted and take keys before anything but Qt is
  imported. Then the last chat is shown, to be read, before anything heavy is imported. The rest
  of the window is imported beside it and built around it; then the store, the engine and the
  last used weights start (`Desk.start`).
* Everything is wired here, in one visible place; nobody reaches for a global.
* Whatever was started is closed in reverse order, within bounded time, also on SIGTERM,
  SIGINT and SIGHUP.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from threading import Thread

    from PySide6.QtWidgets import QApplication

    from app.bridge import Bridge
    from app.chat.conversations.folder import DataFolder
    from app.chat.desk import Desk, EngineFactory, OpenStore
    from app.engine.client.engine import Engine
    from app.engine.client.supervisor import EngineEvent
    from models.store.store import Store
    from ui.shell.window import MainWindow

CHILD: Final = "--child="
TAKE_A_VALUE: Final = ("--data-dir", "--gguf", "--scripted", "--quit-after")
"""Options of the window whose value is the next argument."""
COMMANDS: Final = ("ask", "inside", "bench", "serve", "export")
"""What runs without a window."""
READABLE: Final = (
    "models.store.peek",
    "app.chat.conversations.last_chat",
    "app.chat.replies.replies",
    "app.chat.documents.text_mode",
    "app.chat.conversations.searching",
    "app.chat.conversations.tagging",
    "app.chat.tools.results",
    "app.insight.time.drafts",
    "app.engine.planning.estimate",
    "ui.sidebar.conversation_delegate",
    "ui.sidebar.conversation_view",
    "ui.sidebar.search_view",
    "ui.sidebar.sidebar",
    "ui.chat.header",
    "ui.shell.notices",
    "app.markdown.formula_child",
    "app.markdown.highlight",
    "app.markdown.document",
    "app.markdown.parser",
    "ui.markdown.layouts",
    "ui.transcript.tokens.mode",
    "ui.transcript.view",
    "ui.chat.chat_column",
)
"""What shows the last chat; imported once the frame is painted, in parts that nobody waits for."""
REST: Final = (
    "filelock",
    "importlib.metadata",
    "app.chat.desk",
    "app.gguf.local.places",
    "app.insight.trace.token_groups",
    "app.bridge",
    "ui.shell.chat_menu",
    "ui.shell.columns",
    "ui.shell.following",
    "ui.shell.place",
    "ui.chat.aloud_acts",
    "ui.chat.composing",
    "ui.chat.drafting_acts",
    "ui.windows.exchange_acts",
    "ui.windows.page_acts",
    "ui.paper.picture_acts",
    "ui.windows.server.acts",
    "ui.chat.message_acts",
    "ui.shell.section_acts",
    "ui.sidebar.sidebar_acts",
    "ui.tokens.step_acts",
    "ui.shell.tab_order",
    "ui.chat.template_banner",
    "ui.chat.temporary",
    "ui.chat.engine_menu",
    "ui.chat.thinking_control",
    "ui.tools.call_acts",
    "ui.tools.tools_control",
    "ui.chat.text_mode_following",
    "ui.tokens.token_bar",
    "ui.tokens.token_view_acts",
    "ui.tokens.word_acts",
    "ui.tour.tour_acts",
    "ui.transcript.tokens.body",
    "ui.transcript.tokens.place",
    "ui.shell.lazy_windows",
    "ui.shell.window_actions",
)
"""What the window is made of besides; imported once the last chat can be read."""


def main(argv: list[str]) -> int:
    """Run what the arguments ask for and return the exit code."""
    if argv and argv[0].startswith(CHILD):
        return run_child(argv[0].removeprefix(CHILD), argv[1:])
    command, rest = command_in(argv)
    return run_without_window(command, rest) if command else run_window(argv)


def command_in(argv: list[str]) -> tuple[str, list[str]]:
    """One of `COMMANDS` ("" for the window) and its arguments. Options may stand before it.

    >>> command_in(["--data-dir", "ask", "ask", "hi"])
    ('ask', ['--data-dir', 'ask', 'hi'])
    """
    at = 0
    while at < len(argv) and argv[at].startswith("--"):
        at += 2 if argv[at] in TAKE_A_VALUE else 1
    if at < len(argv) and argv[at] in COMMANDS:
        return argv[at], argv[:at] + argv[at + 1 :]
    return "", argv


def run_without_window(command: str, arguments: list[str]) -> int:
    """One of `COMMANDS`. Until they can answer Ctrl-C themselves it ends us without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer: Callable[[list[str]], int]
    if command == "ask":
        from app.command_line import cli

        answer = cli.main
    elif command == "inside":
        from app.command_line import inside

        answer = inside.main
    elif command == "serve":
        from app.command_line import serve

        answer = serve.main
    elif command == "export":
        from app.command_line import export

        answer = export.main
    else:
        from app.bench import bench

        answer = bench.main
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return answer(arguments)


def run_child(kind: str, arguments: list[str]) -> int:
    """Be one of the program's own children; the kind was chosen by `client.child_command`."""
    if kind == "engine":
        from app.engine.process import child

        return child.main() or 0
    if kind == "scripted" and arguments:
        from app.engine.process.scripted import scripted

        return scripted.main(arguments[0]) or 0
    if kind == "templates":
        from app.engine.templates import renderer as templates

        return templates.main() or 0
    if kind == "documents":
        from app.reading import child as reading

        return reading.main()
    if kind == "pictures":
        from app.pictures import child as pictures

        return pictures.main()
    if kind == "formulas":
        from app.markdown import formula_child

        return formula_child.main()
    print(f"There is no child of the kind {kind!r}.", file=sys.stderr)  # noqa: T201
    return 2


def run_window(argv: list[str]) -> int:
    """Open the window and run until it is closed."""
    from app.chat.conversations.folder import FolderRefused

    try:
        app = build(argv)
    except FolderRefused as refused:
        print(refused, file=sys.stderr)  # noqa: T201
        return 1
    try:
        code = app.run()
    finally:
        app.close()
    if app.window.wants_restart:
        start_again()
    return code


def start_again() -> None:
    """Be this program anew, with the same arguments. All that ran has ended."""
    command = [sys.executable, *sys.orig_argv[1:]]
    if sys.platform == "win32":  # whose execv puts the arguments together without quotes
        import subprocess

        subprocess.Popen(command)
    else:
        os.execv(sys.executable, command)


def build(argv: list[str]) -> App:
    """Everything that `main.py ARGV` would make, wired and shown, without the event loop.

    A QApplication that exists is used. What is heavy begins once the window is painted and
    events are processed. Raises FolderRefused; ends with a sentence on bad arguments.
    """
    from app.chat.conversations.folder import DataFolder

    options = parse(argv)
    folder = DataFolder(options.data_dir)
    folder.prepare()

    # Only now: a wrong argument is answered before Qt is imported.
    from PySide6.QtWidgets import QApplication

    from app.chat.settings import first_look
    from ui.shell.life import drop_import_hook

    drop_import_hook()

    from ui.look.theme import STYLE, Theme
    from ui.shell.window import MainWindow

    # As an argument: Qt would make its own style first, and PySide a class of every style.
    there = QApplication.instance()
    application = there or QApplication(["cutaway", "-style", STYLE])
    assert isinstance(application, QApplication)
    application.setApplicationName("Cutaway")
    application.setDesktopFileName("cutaway")
    look = first_look.peek(folder.path)
    theme = Theme.remembered(look)
    theme.apply_to(application, has_style=there is None)
    window = MainWindow(None, None, theme, look)
    return App(application, folder, window, partial(make_desk, options, folder), options.quit_after)


def make_desk(options: Options, folder: DataFolder) -> tuple[Bridge, Desk]:
    """The use cases, and how they reach the window."""
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.gguf.local import places

    bridge = Bridge()
    desk = Desk(
        open_store=store_opener(folder),
        engine_factory=engine_factory(options.scripted),
        post=bridge.post,
        emit=bridge.emit_event,
        data_dir=folder.path,
        offline=options.offline,
        gguf=options.gguf or options.scripted,
        remember_weights=options.scripted is None,
        check_weights=check_weights if options.scripted is None else None,
        find_others=places.places_of_others,
    )
    return bridge, desk


class Options(argparse.Namespace):
    """The window's arguments."""

    data_dir: Path
    gguf: Path | None
    offline: bool
    scripted: Path | None
    quit_after: float | None


def parse(argv: list[str]) -> Options:
    """The arguments, with defaults filled in. Bad ones end the program with a sentence."""
    from app.paths import is_file, typed_path

    parser = OneSentenceParser(
        prog="main.py",
        description="Chat with a language model on this machine.",
        epilog="Without a window: main.py ask --help, inside --help, bench --help, serve --help.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data-dir",
        type=folder_argument,
        metavar="DIR",
        help="folder for all chats and settings",
    )
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="load this model")
    parser.add_argument("--offline", action="store_true", help="open no network connection")
    parser.add_argument(
        "--scripted", type=Path, metavar="FILE", help="play a script instead of a model"
    )
    parser.add_argument("--quit-after", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    options = parser.parse_args(argv, namespace=Options())
    chosen: Path | None = options.data_dir
    if chosen is None:
        # Only now: platformdirs costs a tenth of the way to the first paint.
        from app.chat.conversations.folder import default_data_dir

        options.data_dir = default_data_dir()
    for name in ("gguf", "scripted"):
        path = getattr(options, name)
        if path is None:
            continue
        path = typed_path(path)
        if not is_file(path):
            parser.error(f"File not found: “{path}”. Check the path given with --{name}.")
        setattr(options, name, path)
    return options


def folder_argument(text: str) -> Path:
    """A folder's path. An empty one (`--data-dir "$UNSET"`) would mean the present folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected a folder")
    return Path(text)


class OneSentenceParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:].rstrip(".")
        self.exit(2, f"{sentence}. “main.py --help” lists all options.\n")


def store_opener(folder: DataFolder) -> OpenStore:
    """Opens the store of the folder: to write if no other instance does, else to read."""

    def open_store(*, on_problem: Callable[[str, str], None]) -> Store:
        from app.chat.conversations.folder import SECOND_INSTANCE_SENTENCE
        from models.store.store import Store

        return Store.open(
            folder.path,
            read_only=not folder.take_lock(),
            read_only_sentence=SECOND_INSTANCE_SENTENCE,
            on_problem=on_problem,
        )

    return open_store


def engine_factory(script: Path | None) -> EngineFactory:
    """Makes the engine: llama.cpp's, or the one that plays a script."""

    def make(on_event: Callable[[EngineEvent], None]) -> Engine:
        from app.engine.client.engine import Engine
        from app.engine.client.process import child_command

        if script is not None:
            return Engine(child_command("scripted", str(script)), on_event)
        return Engine(child_command("engine"), on_event)

    return make


def check_weights(path: Path) -> None:
    """Raise HeaderRefused for a file that cannot be loaded, as far as its header tells."""
    from app.gguf.chat_check import read_chat_header

    read_chat_header(path)


class App:
    """What `build` made. `close` ends it all, in reverse order of the making.

    The window is a frame until it has been painted; whoever asks for the desk before gets the
    rest at once.
    """

    def __init__(
        self,
        application: QApplication,
        folder: DataFolder,
        window: MainWindow,
        make: Callable[[], tuple[Bridge, Desk]],
        quit_after_s: float | None = None,
    ) -> None:
        from ui.shell.life import FirstPaint, Imports, QuietCollector, call_after

        self.application = application
        self.folder = folder
        self.window = window
        self._make = make
        self._made: tuple[Bridge, Desk] | None = None
        self._is_closed = False
        self._warming: Thread | None = None
        self._collector = QuietCollector(lambda: self.desk.replies.is_generating)
        self._collector.hold()
        self._imports = Imports(window, REST, self._start)
        self._reading = Imports(window, READABLE, self._show_last_chat)
        self._first_paint = FirstPaint(window, self._reading.begin)
        self._second_paint: FirstPaint | None = None
        if quit_after_s is not None:
            call_after(window, quit_after_s, self.end)
        window.show()

    @property
    def bridge(self) -> Bridge:
        return self._complete()[0]

    @property
    def desk(self) -> Desk:
        return self._complete()[1]

    def _complete(self) -> tuple[Bridge, Desk]:
        if self._made is None:
            self._made = self._make()
            bridge, desk = self._made
            self.window.complete(desk, bridge)
        return self._made

    def _show_last_chat(self) -> None:
        """What was open last comes on screen; when it is painted, the rest is imported."""
        from app.chat.conversations.last_chat import may_peek
        from models.store.peek import last_chat
        from ui.shell.life import FirstPaint

        found = None if self._made is not None else last_chat(self.folder.path)
        if found is None or not may_peek(self.folder.path, found[0].id):
            self._imports.begin()
            return
        self.window.show_chat(*found)
        shown = self.window.chat.transcript.viewport()
        self._second_paint = FirstPaint(shown, self._imports.begin)

    def _start(self) -> None:
        """The frame is painted and takes keys, and the rest is imported: now it may begin."""
        from PySide6.QtCore import QTimer

        from ui.shell.life import WARM_UP_AFTER_MS

        self._complete()
        self._collector.begin()
        QTimer.singleShot(WARM_UP_AFTER_MS, self.window, self._warm_up)
        self.desk.start()

    def _warm_up(self) -> None:
        from ui.shell.life import warm_up

        if not self._is_closed:
            self._warming = warm_up()

    def run(self) -> int:
        """Run the event loop until the window is closed or a signal asks for the end."""
        from ui.shell.life import SignalWatcher

        with SignalWatcher(self.end):
            return self.application.exec()

    def end(self) -> None:
        """End the event loop as closing the window does, also under an open dialog."""
        self.window.close()
        self.application.quit()

    def close(self) -> None:
        """Close the window, then the desk (engine, store), then let the folder go."""
        if self._is_closed:
            return
        self._is_closed = True
        self._first_paint.cancel()
        self._reading.cancel()
        if self._second_paint is not None:
            self._second_paint.cancel()
        self._imports.cancel()
        self.window.close()
        if self._made is not None:
            bridge, desk = self._made
            desk.shutdown()
            bridge.close()
            bridge.deleteLater()
        elif self._second_paint is not None:
            from app.chat.conversations.last_chat import end_peek

            end_peek(self.folder.path)
        if self._warming is not None:
            self._warming.join()
        self._collector.end()  # now that there is no other thread
        self.folder.release()
        self.window.deleteLater()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
