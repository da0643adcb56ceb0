"""Free and total memory of this computer, within what the control groups grant this program.

A container, a slice of systemd or a batch job may grant less than the machine has, on any level
above us; whoever takes more is ended by the kernel. Reading takes a fifth of a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import psutil

_FILE_PAGES: Final = ("inactive_file", "active_file")
_OLD: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
_NEW: Final = ("memory.max", "memory.current", "")
"""Names of limit and use, and what stands before each count of `memory.stat`: version 1 and 2."""


def host_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Free and total bytes. Pages of files are given back when memory is short, so they count as
    free; swap does not."""
    memory = psutil.virtual_memory()
    free, total = memory.available, memory.total
    for folder, names in _groups(root):
        found = _granted(folder, names)
        if found is not None:
            limit, used = found
            free, total = min(free, max(limit - used, 0)), min(total, limit)
    return free, total


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The folders of this process's groups that may limit memory, each with those above it.

    Inside a container the path in /proc may be the one outside of it: then it is not there, and
    the top is the container's own.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    top = root / "sys/fs/cgroup"
    for line in lines:
        _number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            yield from ((folder, _OLD) for folder in _upwards(top / "memory", path))
        elif not controllers:
            yield from ((folder, _NEW) for folder in _upwards(top, path))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    inside = PurePosixPath(path.lstrip("/"))
    if ".." not in inside.parts:
        for part in (inside, *inside.parents):
            yield top / part


def _granted(folder: Path, names: tuple[str, str, str]) -> tuple[int, int] | None:
    """Limit and use of a group in bytes; None where it has no limit."""
    limit_name, used_name, prefix = names
    try:
        limit = int((folder / limit_name).read_text())
        used = int((folder / used_name).read_text())
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        pages = sum(int(counts.get(prefix + name, 0)) for name in _FILE_PAGES)
    except (OSError, ValueError):
        return None
    return limit, max(used - pages, 0)
