"""The engine's heap lies in large pages, where the system gives them to those who ask."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.bench.sides import Session
from app.engine.protocol.loading_messages import LoadOptions
from app.memory import in_large_pages

MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc and /proc are Linux's")


@pytest.mark.weights
def test_the_engine_asks_for_large_pages(starter_gguf: Path) -> None:
    session = Session(str(starter_gguf), LoadOptions(n_ctx=2048))
    try:
        hello = session._engine.hello
        assert hello is not None
        process = Path(f"/proc/{hello.pid}")
        environment = process.joinpath("environ").read_bytes().split(b"\0")
        assert [e for e in environment if b"glibc.malloc.hugetlb=1" in e]
        if MODE.exists() and "[madvise]" in MODE.read_text():
            assert _asked_for(process) > 16 * 1024  # the cache alone takes 45 MB
    finally:
        session.close()


def _asked_for(process: Path) -> int:
    """KiB that are in use in areas which `madvise` has marked for large pages (flag `hg`)."""
    total = resident = 0
    for line in process.joinpath("smaps").read_text().splitlines():
        if line.startswith("Rss:"):
            resident = int(line.split()[1])
        elif line.startswith("VmFlags:") and "hg" in line.split():
            total += resident
    return total


def test_what_is_set_already_stays() -> None:
    name = "GLIBC_TUNABLES"
    assert in_large_pages({}) == {name: "glibc.malloc.hugetlb=1"}
    others = {name: "glibc.malloc.check=1"}
    assert in_large_pages(others) == {name: "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}
    assert in_large_pages({name: "glibc.malloc.hugetlb=0"}) == {}


def test_elsewhere_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert in_large_pages(os.environ) == {}
