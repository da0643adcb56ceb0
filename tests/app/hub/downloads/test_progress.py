"""Speed, waits, room and words of downloads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.hub.downloads.progress import SPEED_WINDOW_S, DownloadProgress, Speed
from app.hub.downloads.retrying import wait_s
from app.hub.downloads.space import RESERVE_BYTES, Claim, shortage
from app.hub.records import HubFile
from models.records import DownloadState


def test_it_is_known_by_what_is_in_it() -> None:
    """Under whatever name it is saved, and after a commit that leaves it as it is."""
    file = HubFile("ana/x", "0" * 40, ("q4/CON.gguf",), (9,), ("a" * 64,))
    at = datetime(2026, 11, 28, tzinfo=UTC)
    saved = DownloadProgress(
        "d", "ana/x", "_CON.gguf", "/w", "/w/_CON.gguf", 1, 9, 9, DownloadState.DONE, at
    )
    of = replace(saved, names=file.names, revision=file.revision, sha256s=file.sha256s)
    assert of.is_of(file)
    assert of.is_of(replace(file, revision="1" * 40))
    assert not of.is_of(replace(file, sha256s=("b" * 64,)))
    assert not of.is_of(replace(file, names=("q8/CON.gguf",)))
    assert not of.is_of(replace(file, repo_id="ben/x"))
    unhashed = replace(file, sha256s=("",))
    assert of.is_of(unhashed)
    assert not of.is_of(replace(unhashed, revision="1" * 40))


def test_speed_is_that_of_the_last_seconds() -> None:
    speed = Speed()
    assert speed.bytes_s is None
    speed.add(0.0, 0)
    speed.add(0.4, 400)
    assert speed.bytes_s is None
    speed.add(1.0, 1_000)
    assert speed.bytes_s == pytest.approx(1_000)
    for tenth in range(11, 300):
        speed.add(tenth / 10, 1_000 + 50 * (tenth - 10))
    assert speed.bytes_s == pytest.approx(500)
    for tenth in range(300, 300 + round(10 * SPEED_WINDOW_S) + 2):
        speed.add(tenth / 10, 15_450)
    assert speed.bytes_s == 0


def test_waits_grow_and_end_at_five_minutes() -> None:
    waits = [wait_s(attempt) for attempt in range(1, 12)]
    assert all(
        least <= wait <= least + 1 for least, wait in zip((2, 4, 8, 16), waits, strict=False)
    )
    assert waits[-1] == 300
    assert len({wait_s(1) for _ in range(20)}) > 1


def test_room_is_what_is_free_less_what_others_want_on_that_disk(tmp_path: Path) -> None:
    here = tmp_path / "not" / "made" / "yet"
    wanted = Claim(here, 1_000)
    assert shortage(wanted, (), RESERVE_BYTES + 1_000) == ""
    assert "1 kB are still to be downloaded" in shortage(wanted, (), RESERVE_BYTES + 999)
    other = Claim(tmp_path, 1)
    assert "other downloads need" in shortage(wanted, (other,), RESERVE_BYTES + 1_000)
    elsewhere = Claim(Path("/proc/self"), 10**15)
    assert shortage(wanted, (elsewhere,), RESERVE_BYTES + 1_000) == ""
    assert shortage(Claim(here, 10**18)) != ""
