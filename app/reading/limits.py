"""What the process that reads a document may not do, from the moment that it looks into the file.

* Take more than `MEMORY_BYTES`, or `CPU_S` of a core: the system ends it (Linux; elsewhere the
  parent's deadline, which holds everywhere).
* Write to a file, open a connection, start a program: refused by an audit hook for all that goes
  through Python, and by the kernel where it can, which holds for native code, too (`RLIMIT_FSIZE`,
  and on Linux a filter of system calls).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from typing import Any, Final

MEMORY_BYTES: Final = 1536 * 1024 * 1024
CPU_S: Final = 150

_REFUSED: Final = (
    "socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile",
    "os.system", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink",
    "os.truncate", "os.chmod", "os.chown", "shutil.", "tempfile.", "webbrowser.", "urllib.",
    "ftplib.", "winreg.", "sqlite3.",
)  # fmt: skip
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# --- the kernel's filter: numbers of system calls, of (x86-64, ARM64); -1 where there is none ----

_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column, and the kernel's name for the machine (AUDIT_ARCH_…)."""
_FORBIDDEN: Final = (
    (41, 198), (42, 203), (53, 199), (49, 200), (50, 201),  # socket connect socketpair bind listen
    (44, 206), (46, 211), (307, 269),  # sendto sendmsg sendmmsg
    (59, 221), (322, 281), (57, -1), (58, -1),  # execve execveat fork vfork
    (85, -1), (87, -1), (263, 35), (84, -1),  # creat unlink unlinkat rmdir
    (82, -1), (264, 38), (316, 276), (83, -1), (258, 34),  # rename… mkdir mkdirat
    (86, -1), (265, 37), (88, -1), (266, 36),  # link linkat symlink symlinkat
    (76, 45), (90, -1), (268, 53), (92, -1), (260, 54), (133, -1), (259, 33),  # truncate chmod…
    (101, 117), (310, 270), (311, 271), (62, 129), (165, 40),  # ptrace process_vm_… kill mount
    (200, 130), (129, 138), (297, 240),  # tkill rt_sigqueueinfo rt_tgsigqueueinfo
    (132, -1), (235, -1), (261, -1), (280, 88), (188, 5), (189, 6), (190, 7),  # utime… setxattr…
    (425, 425), (426, 426), (438, 438), (434, 434),  # io_uring… pidfd_getfd pidfd_open
)  # fmt: skip
_UNKNOWN: Final = ((435, 435), (437, 437))  # clone3 openat2: the C library then takes the older
_OPEN: Final = ((2, -1, 1), (257, 56, 2))  # open openat, and which argument says how
_OURS: Final = ((234, 131), (302, 261))  # tgkill prlimit64: of this process alone
_CLONE: Final = (56, 220)
_CLONE_THREAD: Final = 0x10000
_X32: Final = 0x40000000
"""From here on x86-64 has all calls a second time."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _NO_SUCH_CALL = 0x7FFF0000, 0x00050001, 0x00050026
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2


def limit_process(cpu_s: int = CPU_S) -> None:
    """Take all limits; there is no way back. `cpu_s`: 0 for a process that goes on."""
    _limit_resources(cpu_s)
    _limit_calls()
    sys.addaudithook(_refuse)


def _limit_resources(cpu_s: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError):
        os.setsid()  # else it could type into the terminal that the program was started from
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s or resource.RLIM_INFINITY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # macOS takes no limit below what is mapped already.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, limit))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        if isinstance(arguments[2], int) and arguments[2] & _WRITES:
            raise PermissionError(f"a document may not write: {arguments[0]!r}")
    elif event.startswith(_REFUSED):
        raise PermissionError(f"a document may not: {event}")


def _limit_calls() -> None:
    """The kernel refuses the calls above with EPERM. Where it has no such filter, or the machine is
    another, nothing happens."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return
    program = _filter(*_MACHINES[platform.machine()])
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    prctl(_PR_SET_NO_NEW_PRIVS, 1, None, 0, 0)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0)


def _filter(column: int, machine: int) -> bytes:
    """A program for the kernel (classic BPF): 8 bytes a step, of code, jumps if true and if false,
    and a number. It sees the call's number at 0, the machine at 4, arguments from 16 on."""

    def step(code: int, number: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, number)

    def load_argument(place: int) -> bytes:
        return step(_LOAD, 16 + 8 * place)

    def answer(calls: tuple[tuple[int, int], ...], with_what: int) -> list[bytes]:
        steps: list[bytes] = []
        for call in calls:
            if call[column] >= 0:
                steps += [step(_EQUAL, call[column], 0, 1), step(_RETURN, with_what)]
        return steps

    steps = [
        step(_LOAD, 4),
        step(_EQUAL, machine, 1, 0),
        step(_RETURN, _REFUSE),  # a call by another machine's numbers (32 bits)
        step(_LOAD, 0),
        step(_AT_LEAST, _X32, 0, 1),
        step(_RETURN, _REFUSE),
        *answer(_FORBIDDEN, _REFUSE),
        *answer(_UNKNOWN, _NO_SUCH_CALL),
    ]
    for both in _OURS:
        steps += [
            step(_EQUAL, both[column], 0, 5),
            load_argument(0),
            step(_EQUAL, 0, 2, 0),
            step(_EQUAL, os.getpid(), 1, 0),
            step(_RETURN, _REFUSE),
            step(_RETURN, _ALLOW),
        ]
    for *call, place in _OPEN:
        if call[column] >= 0:
            steps += [
                step(_EQUAL, call[column], 0, 4),
                load_argument(place),
                step(_ANY_BIT, _WRITES, 0, 1),
                step(_RETURN, _REFUSE),
                step(_RETURN, _ALLOW),
            ]
    steps += [
        step(_EQUAL, _CLONE[column], 0, 4),
        load_argument(0),
        step(_ANY_BIT, _CLONE_THREAD, 1, 0),
        step(_RETURN, _REFUSE),
        step(_RETURN, _ALLOW),
        step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)
