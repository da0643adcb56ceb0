"""An X server of one's own, and a real program in it, driven by real key presses.

`XServer` starts Xvfb on a display that it chooses itself and ends it by its process.
`Program` starts a command on that display and drives it with xdotool: keys go through the
server's own input extension, so they take the way that a keyboard's would. There is no window
manager; what one would do (give focus, ask to close) is done here.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import psutil

T = TypeVar("T")
_PR_SET_CHILD_SUBREAPER: Final = 36

# A client message as a window manager sends it when its close button is pressed. Runs in a
# process of its own: Xlib ends the process on an error.
ASK_TO_CLOSE = """
import ctypes, sys

class ClientMessage(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong), ("format", ctypes.c_int), ("data", ctypes.c_long * 5),
        ("rest", ctypes.c_long * 24),
    ]

x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XInternAtom.restype = ctypes.c_ulong
x.XInternAtom.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
x.XSendEvent.argtypes = [
    ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_long, ctypes.c_void_p
]
x.XCloseDisplay.argtypes = [ctypes.c_void_p]
display = x.XOpenDisplay(None)
window = int(sys.argv[1])
message = ClientMessage(type=33, window=window, format=32)
message.message_type = x.XInternAtom(display, b"WM_PROTOCOLS", 0)
message.data[0] = x.XInternAtom(display, b"WM_DELETE_WINDOW", 0)
x.XSendEvent(display, window, 0, 0, ctypes.byref(message))
x.XCloseDisplay(display)
"""

SCREENSHOT = """
import sys
from PySide6.QtGui import QGuiApplication

application = QGuiApplication([])
assert application.primaryScreen().grabWindow(0).save(sys.argv[1])
"""


class TookTooLongError(AssertionError):
    """Something that was waited for did not come."""


def wait_for(what: str, look: Callable[[], T], timeout_s: float = 20.0) -> T:
    """Look until there is something to see (a true value), and return it."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TookTooLongError(f"{what} did not come within {timeout_s:.0f} s")
        time.sleep(0.01)


def end(process: subprocess.Popen[bytes], patience_s: float = 5.0) -> None:
    """Terminate, then kill, and always wait."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


class XServer:
    """Xvfb with one screen of 1440×900, for as long as the context lasts."""

    def __init__(self, timeout_s: float = 15.0) -> None:
        readable, writable = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    "Xvfb",
                    *("-displayfd", str(writable)),
                    *("-screen", "0", "1440x900x24"),
                    *("-nolisten", "tcp"),
                    "-noreset",
                ],
                pass_fds=(writable,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            os.close(writable)
            self.display = f":{self._read_number(readable, timeout_s)}"
        finally:
            os.close(readable)

    def _read_number(self, readable: int, timeout_s: float) -> int:
        """The server writes the display's number and a line feed once it takes clients."""
        text = b""
        deadline = time.monotonic() + timeout_s
        while not text.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([readable], [], [], left)
            chunk = os.read(readable, 16) if ready else b""
            if not chunk:
                self.close()
                raise TookTooLongError(f"Xvfb took no clients within {timeout_s:.0f} s")
            text += chunk
        return int(text)

    def close(self) -> None:
        end(self._process)

    def __enter__(self) -> XServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _take_orphans(is_on: bool) -> None:
    """While it is on, a descendant whose parent ends becomes a child of this process, which notices
    its end at once; the system's first process takes up to two seconds."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


class Program:
    """One program on a display. Leaving the context ends it and everything it started."""

    def __init__(
        self,
        command: Sequence[str],
        display: str,
        log: Path,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = {
            name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"
        }
        self._environment |= {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb"} | dict(
            environment or {}
        )
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._family: set[psutil.Process] = set()

    def __enter__(self) -> Program:
        _take_orphans(True)
        return self

    def __exit__(self, kind: object, exception: BaseException | None, traceback: object) -> None:
        if exception is not None:
            exception.add_note(f"the program printed: {self.printed()[-2000:] or 'nothing'}")
        self.children()
        end(self.process)
        for child in self._family:
            if child.is_running():
                child.kill()
        psutil.wait_procs(list(self._family), timeout=5)
        _take_orphans(False)

    def printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _tool(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{command[0]} {command[1]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def _takes_focus(self, number: str) -> bool:
        """False while a window that was seen is hidden again, or not quite there yet."""
        try:
            self._tool("xdotool", "windowfocus", "--sync", number)
        except AssertionError as error:
            if "BadMatch" in str(error) or "BadWindow" in str(error):
                return False
            raise
        return True

    def window(self, title: str, timeout_s: float = 30.0, other_than: str = "") -> str:
        """The number of the visible window whose title holds `title`; it gets the focus.
        `other_than`: one of that title that is about to go."""

        def look() -> str:
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the program ended with {self.process.returncode}: {self.printed()[-2000:]}"
                )
            found = self._tool("xdotool", "search", "--onlyvisible", "--name", title, check=False)
            number = next((each for each in found.splitlines() if each != other_than), "")
            return number if number and self._takes_focus(number) else ""

        return wait_for(f"a window {title!r}", look, timeout_s)

    def key(self, *names: str) -> None:
        """Press keys by their X names: "Return", "ctrl+n"."""
        self._tool("xdotool", "key", "--delay", "30", *names)

    def type(self, text: str) -> None:
        self._tool("xdotool", "type", "--delay", "4", text)

    def click(self, x: int, y: int) -> None:
        self._tool("xdotool", "mousemove", "--sync", str(x), str(y), "click", "1")

    def screenshot(self, path: Path) -> Path:
        """The whole screen as a PNG."""
        self._tool(sys.executable, "-c", SCREENSHOT, str(path))
        return path

    def ask_to_close(self, window: str) -> None:
        """What a window manager sends for its close button."""
        self._tool(sys.executable, "-I", "-S", "-c", ASK_TO_CLOSE, window)

    def children(self) -> set[psutil.Process]:
        """All processes below the program now; remembered for `survivors`."""
        try:
            now = set(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            now = set()
        self._family |= now
        return now

    def wait(self, timeout_s: float = 20.0) -> int:
        """The exit code; negative for a signal."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TookTooLongError(f"the program did not end within {timeout_s:.0f} s") from None

    def kill(self) -> None:
        """As the kernel would: no warning, no clearing up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def survivors(self, timeout_s: float = 5.0) -> list[str]:
        """Remembered children that are still alive after at most `timeout_s`."""
        _, alive = psutil.wait_procs(list(self._family), timeout=timeout_s)
        return [f"{child.pid} {child.name()}" for child in alive]
