"""Children of the program, and the program itself, forked from a process that has imported what
they need.

Starting an interpreter and importing take thirty times as long as a fork, and hundreds of tests
want a child that is not what they are about. Such a child is a process like any other: a child
of the tests' process, with pipes, signals and an exit code of its own. A test about the start
itself, or about who ends with whom, takes none.

A forked engine's first child for templates is forked, too: by the engine, before it has threads.

Only Linux lets a process make a child of its parent's; elsewhere children are started as ever.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
MAINS: Final = {
    "engine": "app.engine.process.child",
    "patched": "patched_engine",
    "scripted": "app.engine.process.scripted.scripted",
    "templates": "app.engine.templates.renderer",
}
"""The program's own children that are forked, by kind, and the modules whose `main` they run."""
WINDOW: Final = "window"
"""The kind of whatever Python runs in a process of its own (`python -c CODE`, `python FILE`), with
Qt and the window imported."""
STORE: Final = "models.store.opening"
"""What the store's own thread imports: SQLAlchemy and all tables, a third of a second."""
LATER: Final = {
    "engine": (
        "app.engine.process.serving",
        "numpy.random",
        "concurrent.futures.thread",
        "app.engine.process.beams.room",
        "app.engine.process.probe.room",
        "app.engine.process.probe.cut_replies",
    ),
    "scripted": ("app.engine.process.scripted.inside", "app.engine.process.scripted.adapters"),
}
"""What they import once they run: an engine llama.cpp's library and numpy first, the rest at the
first draw or question; a scripted one numpy at the first that is about the network."""

_CLONE: Final = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
"""Linux's number of the call that forks, here."""
CAN_FORK: Final = sys.platform == "linux" and _CLONE is not None
_CLONE_PARENT: Final = 0x8000
_MAX_REQUEST_BYTES: Final = 1 << 20


class Source:
    """The process that is forked for these kinds; it ends when this end of its socket is closed."""

    def __init__(self, *kinds: str) -> None:
        from app.engine.client.process import child_environment

        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *kinds],
                env=child_environment({"OPENBLAS_NUM_THREADS": "1"}),  # its threads cannot fork
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self, kind: str, arguments: list[str], env: dict[str, str], folder: Path, fds: list[int]
    ) -> int:
        """A new child of this process, with these as its stdin, stdout and stderr; its pid."""
        request = json.dumps([kind, arguments, env, str(folder)]).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], fds)
            return int(self._socket.recv(16))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


class Forking(subprocess.Popen[Any]):
    """Popen that forks the program's own children, and starts whatever else it is given."""

    sources: ClassVar[dict[str, Source | Standby]] = {}
    """By kind; what is not there is started."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """subprocess's step between making the pipes and using them (3.11 to 3.14)."""
        pass_fds, cwd, env, pipes = rest[3], rest[4], rest[5], rest[9:15]
        kind, arguments = self._kind_of(args)
        if not kind or pass_fds:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        theirs = [pipes[0], pipes[3], pipes[5]]  # what was left out is inherited
        fds = [own if fd == -1 else fd for own, fd in enumerate(theirs)]
        folder = Path.cwd() / (cwd or "")
        self.pid = self.sources[kind].fork(kind, arguments, dict(env or os.environ), folder, fds)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _kind_of(self, command: Any) -> tuple[str, list[str]]:
        """Which kind that is forked, "" for none, and the arguments of its main."""
        for kind in MAINS:
            begin = _begin(kind)
            if command[: len(begin)] == begin:
                return (kind, command[len(begin) :]) if kind in self.sources else ("", [])
        program, first, *_ = (*command, "", "")
        is_python = program == sys.executable and (first == "-c" or first.endswith(".py"))
        return (WINDOW, command[1:]) if is_python and WINDOW in self.sources else ("", [])


def fork_from(source: Source | None, patch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Let children of these kinds be forked, where there is a source, until `patch` is undone."""
    if source is not None:
        for kind in kinds:
            patch.setitem(Forking.sources, kind, source)
        patch.setattr(subprocess, "Popen", Forking)


class Standby:
    """A child that waits until it is wanted as one for templates."""

    def __init__(self, main: Callable[[], int], not_its: Sequence[int]) -> None:
        """`not_its`: open files whose end others wait for."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._is_wanted = False
        self._pid = os.fork()
        with theirs:
            if self._pid:
                return
            self._socket.close()
            for fd in not_its:
                os.close(fd)
            request, fds, _flags, _address = socket.recv_fds(theirs, _MAX_REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        _, _, env, folder = json.loads(request)
        _become(fds, env, folder)
        exit_code = main() or 0
        sys.stderr.flush()
        os._exit(exit_code)

    def fork(
        self, kind: str, arguments: list[str], env: dict[str, str], folder: Path, fds: list[int]
    ) -> int:
        """It is that child from now on; the next one is started. Its pid."""
        del Forking.sources[kind]
        self._is_wanted = True
        request = json.dumps([kind, arguments, env, str(folder)]).encode()
        socket.send_fds(self._socket, [request], fds)
        self._socket.close()
        return self._pid

    def close(self) -> None:
        if not self._is_wanted:
            self._socket.close()
            os.waitpid(self._pid, 0)


def _begin(kind: str) -> list[str]:
    """The argv that starts such a child, without its own arguments."""
    from patched_engine import engine_with

    from app.engine.client.process import child_command

    return engine_with("")[:-1] if kind == "patched" else child_command(kind)


# --- the process that is forked -----------------------------------------------------------------


def _serve(asked: socket.socket, kinds: Sequence[str]) -> int:
    """Fork at each request until there are no more; in a child, be it and return its exit code."""
    mains = {kind: _main_of(kind) for kind in kinds}
    for kind in kinds:
        for name in LATER.get(kind, ()):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection of each child would copy all of that
    while True:
        request, fds, _flags, _address = socket.recv_fds(asked, _MAX_REQUEST_BYTES, 3)
        if not request:
            return 0
        kind, arguments, env, folder = json.loads(request)
        pid = _fork_for_the_parent()
        if not pid:
            asked.close()
            renderer = Standby(mains["templates"], fds) if kind == "engine" else None
            _become(fds, env, folder)
            if renderer is None:
                return mains[kind](*arguments) or 0
            Forking.sources["templates"] = renderer
            subprocess.Popen = Forking  # type: ignore[misc]
            exit_code = mains[kind](*arguments) or 0
            renderer.close()
            return exit_code
        asked.send(str(pid).encode())
        for fd in fds:
            os.close(fd)


def _become(fds: Sequence[int], env: dict[str, str], folder: str) -> None:
    """Take these as stdin, stdout and stderr, and the environment."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)


def _main_of(kind: str) -> Callable[..., int | None]:
    if kind == WINDOW:
        _import_the_window()
        return _run_python
    main: Callable[..., int | None] = importlib.import_module(MAINS[kind]).main
    return main


def _import_the_window() -> None:
    """As main.py does it, and what is imported beside the window later on."""
    from ui.shell.life import drop_import_hook, warm_up

    drop_import_hook()
    import main

    for name in ("ui.shell.window", *main.READABLE, *main.REST, STORE):
        importlib.import_module(name)
    warm_up().join()


def _run_python(*arguments: str) -> int:
    """What `python ARGUMENTS` would do; its exit code."""
    faulthandler.enable()
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = list(arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _fork_for_the_parent() -> int:
    """As os.fork, but the new process is no child of this one: it is its parent's."""
    python = ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid: int = python.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


if __name__ == "__main__":
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    exit_code = _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # taking an interpreter apart takes twice as long as all of the above
