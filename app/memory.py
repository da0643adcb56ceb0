"""Memory that nobody uses any more: found by whoever asks next, and given back to the system.

glibc keeps what was freed for the next one who asks, and each thread's share apart: a window of
ten threads holds 10 to 25 MB so after a long reply. Both are changed here. Where there is no
glibc nothing happens: the other allocators have no such calls.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Final

_ARENA_MAX: Final = -8
"""`M_ARENA_MAX` of malloc.h."""


def share_one_heap() -> None:
    """Let all threads that are still to come take their memory from one place. Nearly all of them
    take turns anyway, by the interpreter's lock."""
    glibc = _glibc()
    if glibc is not None:
        glibc.mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """One to five milliseconds where there is much to give back, a third of one where not."""
    glibc = _glibc()
    if glibc is not None:
        glibc.malloc_trim(0)


@cache
def _glibc() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes  # not on the way to the first paint

    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None
