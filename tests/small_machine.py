"""The engine's process as on a computer with little free memory, and without our check of grammars:

    python small_machine.py FREE_BYTES

llama.cpp so meets the memory limit by its own fault: it follows left recursion without end.
"""

from __future__ import annotations

import sys

from app.engine.process import memory_limit
from app.engine.process.sampling import grammar


def main(free: int) -> int:
    memory_limit.host_memory = lambda: (free, free)  # type: ignore[attr-defined]
    grammar._check_shape = lambda text, label, field: None  # type: ignore[assignment]
    from app.engine.process import child

    return child.main()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
