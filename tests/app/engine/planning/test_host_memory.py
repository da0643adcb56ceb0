"""Memory of the host, as made-up control groups of both versions grant it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from app.engine.planning.host_memory import host_memory

TOTAL = psutil.virtual_memory().total


def group(root: Path, line: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line + "\n")


def limits(folder: Path, limit: str, used: int, stat: str, *, is_old: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("limit_in_bytes", "usage_in_bytes") if is_old else ("max", "current")
    (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
    (folder / f"memory.{names[1]}").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


def test_without_a_group_it_is_the_machines_own(tmp_path: Path) -> None:
    free, total = host_memory(tmp_path)
    assert total == TOTAL
    assert 0 < free <= total


@pytest.mark.parametrize("place", ["", "user.slice/app.scope", "gone/outside"])
def test_the_second_version(tmp_path: Path, place: str) -> None:
    group(tmp_path, f"0::/{place}")
    top = tmp_path / "sys/fs/cgroup"
    inside = top if place.startswith("gone") else top / place
    limits(inside, "1000000", 900_000, "anon 100\ninactive_file 300000\nactive_file 100000\n")
    assert host_memory(tmp_path) == (500_000, 1_000_000)
    limits(inside, "max", 900_000, "")
    assert host_memory(tmp_path)[1] == TOTAL


def test_a_limit_above_counts_too(tmp_path: Path) -> None:
    group(tmp_path, "0::/user.slice/app.scope")
    top = tmp_path / "sys/fs/cgroup"
    limits(top / "user.slice/app.scope", "1000000", 100_000, "")
    limits(top / "user.slice", "800000", 600_000, "")
    assert host_memory(tmp_path) == (200_000, 800_000)


def test_the_first_version(tmp_path: Path) -> None:
    group(tmp_path, "4:cpu,cpuacct:/\n3:memory:/jobs/1\n0::/")
    folder = tmp_path / "sys/fs/cgroup/memory/jobs/1"
    stat = "inactive_file 7\ntotal_inactive_file 300000\ntotal_active_file 100000\n"
    limits(folder, "1000000", 900_000, stat, is_old=True)
    limits(folder.parent, str((1 << 63) - 4096), 900_000, "", is_old=True)
    assert host_memory(tmp_path) == (500_000, 1_000_000)


@pytest.mark.parametrize("line", ["", "nonsense", "0::/../../..", "0::", "memory"])
def test_what_cannot_be_read_limits_nothing(tmp_path: Path, line: str) -> None:
    group(tmp_path, line)
    limits(tmp_path / "sys/fs/cgroup", "many", 1, "broken")
    assert host_memory(tmp_path)[1] == TOTAL


def test_a_group_that_holds_more_than_it_may_has_nothing_free(tmp_path: Path) -> None:
    group(tmp_path, "0::/")
    limits(tmp_path / "sys/fs/cgroup", "1000", 5000, "")
    assert host_memory(tmp_path) == (0, 1000)
