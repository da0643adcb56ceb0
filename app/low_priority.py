"""Threads that everything else comes before: hashing, writing what was computed to disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Final

NICE: Final = 15


def lower_priority() -> None:
    """Let everything else come first from now on, for this thread: processor and disk.

    Where a system has no such thing for threads, it stays as it is.
    """
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform.startswith("linux"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        elif sys.platform == "darwin":
            libc = ctypes.CDLL(None)
            libc.pthread_set_qos_class_self_np(0x09, 0)  # QOS_CLASS_BACKGROUND
        elif sys.platform == "win32":
            kernel = ctypes.WinDLL("kernel32")
            kernel.SetThreadPriority(kernel.GetCurrentThread(), 0x00010000)  # background mode
