"""What the process that reads a document may not do, from the moment that it looks into the file.

* Take more than `MEMORY_BYTES`, or `CPU_S` of a core: the system ends it (Linux, macOS in part; the
  parent's deadline holds everywhere).
* Write to a file, open a connection, start a program: refused by an audit hook for all that goes
  through Python, and by the kernel where it can (`RLIMIT_FSIZE`; on Linux a seccomp filter), which
  holds for native code, too.
"""

from __future__ import annotations

import sys
from typing import Any, Final

MEMORY_BYTES: Final = 1536 * 1024 * 1024
CPU_S: Final = 150
_REFUSED: Final = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.",
    "tempfile.",
    "webbrowser.",
    "urllib.",
    "ftplib.",
    "winreg.",
)
_WRITES: Final = frozenset("wax+")


def limit_process() -> None:
    """Take all limits; there is no way back."""
    _limit_resources()
    sys.addaudithook(_refuse)


def _limit_resources() -> None:
    if sys.platform == "win32":
        return
    import resource

    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(what, (limit, hard))
        except (ValueError, OSError):  # macOS takes no limit below what is mapped already
            continue


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        mode = arguments[1]
        if isinstance(mode, str) and not _WRITES.isdisjoint(mode):
            raise PermissionError(f"a document may not write: {arguments[0]!r}")
    elif event.startswith(_REFUSED):
        raise PermissionError(f"a document may not: {event}")
