"""What was freed goes back to the system, where the system has a way to ask for it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from app import memory

ROOT = Path(__file__).resolve().parents[2]
HAS_TRIM = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim")

FREED_UNDER_A_KEPT_BLOCK = """
import psutil
from app.memory import give_back
give_back()
blocks = [bytearray(100_000) for _ in range(400)]
kept = blocks.pop()
del blocks
before = psutil.Process().memory_info().rss
give_back()
after = psutil.Process().memory_info().rss
print(before - after)
"""


def test_what_was_freed_is_given_back() -> None:
    """The last block of forty megabytes is kept, so that glibc does not do it by itself."""
    done = subprocess.run(
        [sys.executable, "-c", FREED_UNDER_A_KEPT_BLOCK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    given = int(done.stdout)
    assert given > 30_000_000 if HAS_TRIM else given >= -1_000_000


THREADS_THAT_FREE = """
import re, sys, threading
from app.memory import share_one_heap
import ctypes
if "share" in sys.argv:
    share_one_heap()
turn = threading.Barrier(4)
def work():
    blocks = [bytearray(50_000) for _ in range(20)]
    turn.wait()
    del blocks
    turn.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


def _heaps(tmp_path: Path, *arguments: str) -> int:
    """How many heaps glibc has after four threads took memory at the same time."""
    report = tmp_path / "malloc.xml"
    subprocess.run(
        [sys.executable, "-c", THREADS_THAT_FREE, str(report), *arguments], cwd=ROOT, check=True
    )
    return report.read_text().count("<heap nr=")


def test_threads_share_one_heap(tmp_path: Path) -> None:
    if HAS_TRIM:
        assert _heaps(tmp_path) > 2
        assert _heaps(tmp_path, "share") == 1


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    memory._glibc.cache_clear()
    try:
        memory.share_one_heap()
        memory.give_back()
        assert memory._glibc() is None
    finally:
        memory._glibc.cache_clear()
