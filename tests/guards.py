"""What a test may not leave behind, and what it may not reach.

`LeakGuard` compares the process before and after a test: threads, child processes, and, once
Qt widgets are in use, running QThreads, timers and top-level windows. `NetworkGuard` refuses
every connection that leaves this machine, and remembers it, so that code which swallows the
refusal still fails its test.
"""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

PATIENCE_S = 3.0
"""How long threads and children may take to end once their test is over."""

THREADS: Final = Path("/proc/self/task")

THREADS_TELL = (THREADS / str(os.getpid()) / "children").exists()
"""Whether the kernel tells a thread's children (Linux, in all but odd builds)."""


class LeakGuard:
    """Remembers what exists now; `leaks()` names what came since and does not go away."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._children = set(_children())
        self._native_threads = _native_threads()
        self._windows = {id(window) for window in _top_level_windows()}

    def leaks(self, patience_s: float = PATIENCE_S) -> list[str]:
        """Wait until nothing new is left, at most `patience_s`; return what is, in words."""
        deadline = time.monotonic() + patience_s
        pause_s = 0.001
        while True:
            found = self._look()
            if not found or time.monotonic() > deadline:
                return found
            # Most of what is left ends by itself, and a collection looks at all that there is.
            if pause_s > 0.03 or any(leak.startswith("window") for leak in found):
                gc.collect()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.25)

    def _look(self) -> list[str]:
        _settle_qt()
        found = [
            f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if thread not in self._threads and not isinstance(thread, threading._DummyThread)
        ]
        found += [
            f"child process {child.pid} ({_command_of(child)})"
            for child in _children()
            if child not in self._children
        ]
        found += [
            f"window {type(window).__name__} {window.objectName()!r}"
            for window in _top_level_windows()
            if id(window) not in self._windows
        ]
        if self._has_more_threads():
            found += [f"QThread {name!r}" for name in _running_qthreads()]
        return found

    def _has_more_threads(self) -> bool:
        """A thread that was joined is gone a moment later; looking for QThreads takes longer."""
        for _ in range(10):
            if _native_threads() <= self._native_threads:
                return False
            time.sleep(0.0005)
        return True


def _native_threads() -> set[int]:
    """By their numbers: where one of before ends as another begins, there are as many as before."""
    if THREADS_TELL:
        return {int(each.name) for each in THREADS.iterdir()}
    return {each.id for each in psutil.Process().threads()}


def _children() -> list[psutil.Process]:
    """The children of this process. psutil reads about every process of the machine for them;
    Linux tells each thread's."""
    if not THREADS_TELL:
        return psutil.Process().children()
    if _is_childless():
        return []
    pids, again = None, _children_by_thread()
    while again and pids != again:  # where one ends meanwhile, another may be left out
        pids, again = again, _children_by_thread()
    found = []
    for pid in again:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def _is_childless() -> bool:
    """What most tests find, in one call: there is none to wait for, of whatever kind (`__WALL`:
    Qt makes its own without the signal that tells of their end)."""
    any_kind = 0x40000000
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | any_kind)
    except ChildProcessError:
        return True
    return False


def _children_by_thread() -> set[int]:
    pids: set[int] = set()
    for thread in THREADS.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            pids.update(map(int, (thread / "children").read_text().split()))
    return pids


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()[:4]) or process.status()
    except psutil.Error as error:
        return type(error).__name__


def _application() -> Any:
    """The QApplication, if this process has made one; Qt is never imported from here."""
    widgets = sys.modules.get("PySide6.QtWidgets")
    return widgets.QApplication.instance() if widgets is not None else None


def _settle_qt() -> None:
    """Let what was posted happen, deletions included (an idle loop leaves those waiting)."""
    application = _application()
    if application is None:
        return
    core = sys.modules["PySide6.QtCore"]
    application.processEvents()
    core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete)


def _top_level_windows() -> list[Any]:
    application = _application()
    if application is None or not hasattr(application, "topLevelWidgets"):
        return []
    # A menu or a tool tip that belongs to another widget goes with it. Qt keeps one QTipLabel.
    return [
        window
        for window in application.topLevelWidgets()
        if window.parent() is None and window.metaObject().className() != "QTipLabel"
    ]


def _running_qthreads() -> list[str]:
    core = sys.modules.get("PySide6.QtCore")
    if core is None:
        return []
    main = core.QThread.currentThread()
    return [
        thread.objectName() or type(thread).__name__
        for thread in gc.get_objects()
        if isinstance(thread, core.QThread) and thread is not main and _is_running(thread, main)
    ]


def _is_running(thread: Any, main: Any) -> bool:
    try:
        return bool(thread.isRunning()) and thread != main
    except RuntimeError:  # its C++ side is gone
        return False


def is_local(family: int, address: Any) -> bool:
    """Whether a socket address stays on this machine."""
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = address[0]
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class NetworkGuard:
    """While installed, sockets of this process reach this machine only."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, self._guarded(getattr(socket.socket, name)))
        look_up = socket.getaddrinfo

        def guarded_look_up(host: Any, *args: Any, **options: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            if name is not None and not is_local(socket.AF_INET, (name,)):
                self._refuse(f"name look-up of {name}")
            return look_up(host, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)

    def _guarded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(sock: socket.socket, *args: Any) -> Any:
            address = args[-1]
            if not is_local(sock.family, address):
                self._refuse(f"connection to {address}")
            return original(sock, *args)

        return guarded

    def _refuse(self, what: str) -> None:
        self.refused.append(what)
        raise OSError(f"tests reach no network: {what}")
