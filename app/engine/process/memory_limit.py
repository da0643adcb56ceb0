"""How much memory the engine's process may take, so that nothing it is given takes the machine.

A grammar, a template or a file can make native code ask for memory without end. Where the system
limits a process (Linux), such a request fails long before others have to make way: C++ throws
`bad_alloc`, the process ends, and the window says that memory ran out (`exits.py`).

What is limited is private writable memory (RLIMIT_DATA, which counts mappings since Linux 4.7).
Weights that are read from their file do not count, nor does what is only reserved: graphics
drivers reserve terabytes of addresses, so a limit on those (RLIMIT_AS) would end every load.

The limit leaves a tenth of what is free to others:

    what is in memory now + 9/10 of what is free

and is never below what a load whose plan was accepted needs, with room for what comes later (the
copies of chats, a second context, threads' stacks), though the plan counts mapped weights too:

    what is asked for now + the plan's share of host memory + a quarter of all memory, 3 GiB at most

Both get the plan's share of the devices on top, since drivers may keep that in the process's own
memory. "Free" is what the control group grants, too (`host_memory.py`).

The template process is limited apart and more tightly (`app/engine/templates/renderer.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from app.engine.planning.estimate import HOST
from app.engine.planning.host_memory import host_memory
from app.engine.protocol.loading_messages import MemoryPart

MOST_ROOM_BYTES: Final = 3 * 1024**3
_STATUS: Final = Path("/proc/self/status")


def limit_memory(planned: Sequence[MemoryPart] = ()) -> int | None:
    """Set the limit for what is free now and what a load is planned to take; return it in bytes,
    or None where the system has none. Takes 0.3 ms. A lower one that was set from outside stays."""
    taken = _taken()
    if sys.platform != "linux" or taken is None:
        return None
    import resource

    asked_for, in_memory = taken
    limit = limit_bytes(asked_for, in_memory, *host_memory(), planned)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit = min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    return limit


def limit_bytes(
    asked_for: int, in_memory: int, free: int, total: int, planned: Sequence[MemoryPart] = ()
) -> int:
    """The limit on private memory, of which `asked_for` is mapped and `in_memory` in use; `free`
    and `total` are the host's.

    >>> limit_bytes(2 << 30, 1 << 30, 20 << 30, 32 << 30) >> 30
    19
    >>> limit_bytes(2 << 30, 1 << 30, 2 << 30, 32 << 30, [MemoryPart("CPU", "kv", 2 << 30)]) >> 30
    7
    """
    on_host = sum(part.size_bytes for part in planned if part.device == HOST)
    elsewhere = sum(part.size_bytes for part in planned if part.device != HOST)
    room = min(MOST_ROOM_BYTES, total // 4)
    return max(in_memory + free * 9 // 10, asked_for + on_host + room) + elsewhere


def _taken() -> tuple[int, int] | None:
    """Private memory that is mapped, and that is in use; None where the system does not say."""
    try:
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        mapped, used = (int(lines[name].split()[0]) for name in ("VmData", "RssAnon"))
    except (OSError, ValueError, KeyError):
        return None
    return mapped * 1024, used * 1024
