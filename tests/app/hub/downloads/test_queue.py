"""The download queue: over real HTTP and a real database."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schema_file
from fake_hub.acts import Act, rate_limited
from fake_hub.hub import FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from queueing import ROOT, Owner, wish
from transferring import some_bytes

from app.gguf.local.finding import scan
from app.gguf.local.places import Origin, Place
from app.hub.downloads.partial import Partial
from app.hub.downloads.patience import Limits
from app.hub.downloads.run import Throttle
from app.hub.downloads.space import RESERVE_BYTES, folder_trouble
from app.hub.gate import Call
from models.records import DownloadState

REPO = "ana/tiny-GGUF"
SIZE = 400_000
S = DownloadState


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        hub.add(
            FakeRepo(
                REPO,
                [
                    FakeFile("tiny-Q4_K_M.gguf", some_bytes(SIZE)),
                    FakeFile("tiny-Q8_0.gguf", some_bytes(SIZE, seed=2)),
                    FakeFile("empty.gguf", b"", is_lfs=False),
                    FakeFile("big/b-00001-of-00002.gguf", some_bytes(150_000, seed=3)),
                    FakeFile("big/b-00002-of-00002.gguf", some_bytes(150_000, seed=4)),
                ],
            )
        )
        yield hub


@pytest.fixture
def owner(hub: FakeHub, tmp_path: Path) -> Iterator[Callable[..., Owner]]:
    """owner(**changes): the queue of one data folder; a second call is a restart."""
    owners: list[Owner] = []

    def make(**changes: Any) -> Owner:
        if owners:
            owners[-1].close()
        owners.append(Owner(tmp_path / "data", hub.endpoint, **changes))
        return owners[-1]

    yield make
    if owners:
        owners[-1].close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "weights"


def the_file(hub: FakeHub, name: str = "tiny-Q4_K_M.gguf") -> Any:
    return wish(hub.repos[REPO], name)


def the_set(hub: FakeHub) -> Any:
    return wish(hub.repos[REPO], "big/b-00001-of-00002.gguf", "big/b-00002-of-00002.gguf")


def lying_in(folder: Path) -> list[str]:
    """All that is left of a download, beside the folder's lock."""
    # os.walk passes over a folder that is removed while it is looked into; rglob does not.
    found = (name for _, _, names in os.walk(folder) for name in names)
    return sorted(name for name in found if name != ".cutaway.lock")


def part_name(file: FakeFile) -> str:
    return f".{Path(file.path).name}.{file.sha256[:8]}.part"


def ranges(hub: FakeHub) -> list[str | None]:
    return [each.range for each in hub.asked(server="cdn")]


# --- what goes well -----------------------------------------------------------------------------


def test_a_download_is_done_and_kept(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_file(hub), folder)
    done = one.until_state(key, S.DONE)
    assert Path(done.path) == folder / "ana" / "tiny-GGUF" / "tiny-Q4_K_M.gguf"
    assert Path(done.path).read_bytes() == hub.repos[REPO].files[0].content
    assert (done.fraction, done.is_ours, done.sentence) == (1.0, True, "")
    assert [each.id for each in one.finished] == [key]
    one.until(lambda: one.stored()[0].state is S.DONE)
    (stored,) = owner().stored()
    assert stored.finished_at is not None
    assert lying_in(folder) == ["tiny-Q4_K_M.gguf"]


def test_what_is_asked_for_twice_is_one_download(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """Also before the disk has answered the first time."""
    one = owner()
    ids: list[str] = []
    for _ in range(2):
        one.downloads.add(the_file(hub), folder, ids.append)
    one.until(lambda: len(ids) == 2)
    assert len(set(ids)) == 1
    assert one.until_state(ids[0], S.DONE).fraction == 1.0
    assert [each.id for each in one.downloads.snapshot()] == ids[:1]
    assert [each.id for each in one.stored()] == ids[:1]
    assert len(hub.asked(server="cdn")) == 1


def test_a_split_set_is_one_download(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_set(hub), folder)
    done = one.until_state(key, S.DONE)
    assert (done.n_files, done.size_bytes) == (2, 300_000)
    assert done.is_of(the_set(hub))
    assert done.path.endswith("b-00001-of-00002.gguf")
    assert lying_in(folder) == ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]


def test_e06_an_empty_file_in_the_queue_finishes(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    assert one.until_state(one.add(the_file(hub, "empty.gguf"), folder), S.DONE).fraction == 1.0


def test_as_many_run_at_once_as_are_allowed(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner(at_once=1)
    hub.script(Act(stall_after=1000), server="cdn")
    first = one.add(the_file(hub), folder)
    second = one.add(the_file(hub, "tiny-Q8_0.gguf"), folder)
    one.until(lambda: one.one(first).done_bytes == 1000)
    one.until(lambda: len(one.stored()) == 2)
    one.pump(0.1)
    assert one.one(second).state is S.QUEUED
    one.downloads.pause(first)
    assert one.until_state(second, S.DONE).state is S.DONE
    assert one.one(first).state is S.PAUSED
    one.downloads.resume(first)
    one.until_state(first, S.DONE)


def test_more_at_once_begin_when_more_are_allowed(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner(at_once=1)
    hub.script(Act(stall_after=1000), server="cdn")
    first = one.add(the_file(hub), folder)
    one.until(lambda: one.one(first).done_bytes == 1000)
    second = one.add(the_file(hub, "tiny-Q8_0.gguf"), folder)
    one.at_once = 2
    one.until_state(second, S.DONE)
    assert one.one(first).state is S.RUNNING


def test_two_at_once_share_a_limit_of_speed(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner(bytes_s=2_000_000)
    began = time.monotonic()
    keys = [one.add(the_file(hub, n), folder) for n in ("tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf")]
    for key in keys:
        one.until_state(key, S.DONE)
    assert time.monotonic() - began > 0.35


def test_another_limit_of_speed_holds_at_once() -> None:
    """Also for what waits under the old one: an hour, here."""
    limits = [1.0]
    throttle = Throttle(lambda: limits[0])
    threads = [
        threading.Thread(target=throttle.pay, args=(3_600, Call()), daemon=True) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    threads[0].join(0.1)
    assert all(thread.is_alive() for thread in threads)
    limits[0] = 1_000_000.0
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)
    began = time.monotonic()
    throttle.pay(1_000, Call())
    assert time.monotonic() - began < 5


def test_progress_is_told_a_few_times_a_second(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """However often bytes arrive."""
    one = owner(bytes_s=400_000)
    hub.script(Act(drip=(1000, 0.001)), server="cdn")
    key = one.add(the_file(hub), folder)
    one.until_state(key, S.DONE)
    assert len(hub.asked(server="cdn")) == 1
    assert one.n_told < 15


def test_the_same_file_is_not_queued_twice(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    hub.script(Act(stall_after=1000), server="cdn", for_ever=True)
    key = one.add(the_file(hub), folder)
    assert one.add(the_file(hub), folder) == key
    assert "already" in one.said[-1][1]
    assert len(one.downloads.snapshot()) == 1


# --- interruptions ------------------------------------------------------------------------------


def test_pause_and_resume_fetch_only_the_rest(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the disk lets the paused one go only a while later."""
    close = Partial.close
    monkeypatch.setattr(Partial, "close", lambda self: (time.sleep(0.2), close(self))[1])
    one = owner()
    hub.script(Act(stall_after=100_000), server="cdn")
    key = one.add(the_file(hub), folder)
    one.until(lambda: one.one(key).done_bytes == 100_000)
    one.downloads.pause(key)
    assert one.one(key).state is S.PAUSED
    one.downloads.resume(key)
    seen: set[S] = set()

    def is_done() -> bool:
        seen.add(one.one(key).state)
        return one.one(key).state is S.DONE

    one.until(is_done)
    assert ranges(hub) == [None, "bytes=100000-"]
    assert seen <= {S.QUEUED, S.RUNNING, S.DONE}  # the old run never stood in the new one's way


def test_nothing_is_fetched_before_the_database_knows_of_it(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = owner()
    asked: list[Any] = []
    monkeypatch.setattr(one.downloads._book, "create", lambda *given: asked.append(given))
    key = one.add(the_file(hub), folder)
    one.downloads.wake()
    one.pump(0.1)
    assert (hub.requests, lying_in(folder)) == ([], [])
    asked[0][1]()
    one.until_state(key, S.DONE)
    other: list[str] = []
    one.downloads.add(the_file(hub, "tiny-Q8_0.gguf"), folder, refused=other.append)
    one.until(lambda: len(asked) == 2)
    asked[1][2]("The database is full.")
    assert other == ["The database is full."]
    assert [each.id for each in one.downloads.snapshot()] == [key]


def test_a_restart_goes_on_where_it_was_and_leaves_paused_ones_alone(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    hub.script(Act(stall_after=100_000), Act(stall_after=50_000), server="cdn")
    first = one.add(the_file(hub), folder)
    one.until(lambda: one.one(first).done_bytes == 100_000)
    second = one.add(the_file(hub, "tiny-Q8_0.gguf"), folder)
    one.until(lambda: one.one(second).done_bytes == 50_000)
    one.downloads.pause(second)
    again = owner()
    assert again.until_state(first, S.DONE).sentence == ""
    assert again.one(second).state is S.PAUSED
    assert again.one(second).done_bytes == 50_000
    assert ranges(hub) == [None, None, "bytes=100000-"]


def test_e07_an_update_keeps_the_queue(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    """E07: a download of the former version, with its part on the disk, goes on in this one."""
    file, commit = hub.repos[REPO].files[0], hub.repos[REPO].commit
    database = tmp_path / "data" / "db" / "cutaway.sqlite3"
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for("0003"), database)
    files = (
        f'[{{"name": "{file.path}", "size_bytes": {SIZE}, "sha256": "{file.sha256}", '
        f'"saved_as": "{file.path}", "etag": "\\"{file.sha256}\\"", "done_bytes": 100000}}]'
    )
    with closing(sqlite3.connect(database)) as raw:
        raw.execute(
            "UPDATE download SET state = 'running', endpoint = ?, repo_id = ?, revision = ?, "
            "folder = ?, files = ?",
            (hub.endpoint, REPO, commit, str(folder), files),
        )
        raw.commit()
    folder.mkdir()
    (folder / part_name(file)).write_bytes(file.read(0, 100_000))
    one = owner()
    assert one.until_state("download", S.DONE).done_bytes == SIZE
    assert (folder / file.path).read_bytes() == file.content
    assert ranges(hub) == ["bytes=100000-"]


def test_e02_a_killed_program_goes_on_and_leaves_nothing_behind(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    """E02: kill -9 three times; each byte is fetched once."""
    file = hub.repos[REPO].files[0]
    stops = (40, 60, 80)
    hub.script(
        Act(stall_after=SIZE * 40 // 100),
        Act(stall_after=SIZE * 20 // 100),
        Act(stall_after=SIZE * 20 // 100),
        server="cdn",
    )
    options = ["--add", str(folder), "--repo", REPO, "--revision", hub.repos[REPO].commit]
    options += ["--file", file.path, "--size", str(SIZE), "--sha256", file.sha256]
    with _starter() as start:
        for share in stops:
            pid = start([str(tmp_path / "data"), hub.endpoint, *options])
            options = []
            try:
                _wait_for_part(folder, SIZE * share // 100, pid)
                assert lying_in(folder) == sorted([f".{file.path}.lock", part_name(file)])
            finally:
                os.kill(pid, signal.SIGKILL)
    one = owner()
    (key,) = [each.id for each in one.downloads.snapshot()]
    one.until_state(key, S.DONE)
    starts = [0 if r is None else int(r.removeprefix("bytes=").rstrip("-")) for r in ranges(hub)]
    assert starts == [SIZE * share // 100 for share in (0, 40, 60, 80)]
    assert lying_in(folder) == [file.path]
    assert (folder / REPO / file.path).read_bytes() == file.content


@contextmanager
def _starter() -> Iterator[Callable[[list[str]], int]]:
    """What starts programs of their own, one after the end of another; they are given their
    arguments and known by their id."""
    with subprocess.Popen(
        [sys.executable, "tests/queueing.py"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        orders, answers = starter.stdin, starter.stdout
        assert orders is not None
        assert answers is not None

        def start(arguments: list[str]) -> int:
            print(json.dumps(arguments), file=orders, flush=True)
            return int(answers.readline())

        yield start


def _wait_for_part(folder: Path, size: int, pid: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        os.kill(pid, 0)  # raises where it has ended
        parts = list(folder.rglob(".*.part"))
        if parts and parts[0].stat().st_size == size:
            return
        time.sleep(0.01)
    raise TimeoutError(f"{size} bytes did not come: {lying_in(folder)}")


def test_e03_an_interrupted_file_is_never_listed_as_weights(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """E03: neither by its name nor by the search of folders; cancelling leaves nothing."""
    one = owner()
    hub.script(Act(stall_after=100_000), server="cdn")
    key = one.add(the_file(hub), folder)
    one.until(lambda: one.one(key).done_bytes == 100_000)
    assert list(folder.rglob("*.gguf")) == []
    assert scan(Place(Origin.DOWNLOADS, folder)).files == []
    one.downloads.cancel(key)
    assert one.one(key).state is S.CANCELLED
    one.until(lambda: not (folder / "ana").exists())
    one.downloads.remove(key)
    one.until(lambda: one.stored() == ())


def test_e01_retries_are_bounded_and_end_in_a_cause(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """E01: a hub that always sends an error page, and one that closes at 43 % each time."""
    one = owner()
    page = b"<!doctype html>" + b"x" * 620
    hub.script(Act(body=page, headers={"Content-Type": "text/html"}), server="cdn", for_ever=True)
    key = one.add(the_file(hub), folder)
    failed = one.until_state(key, S.FAILED)
    assert "web page" in failed.sentence
    assert one.said == [("error", f"“{failed.name}” wasn't downloaded. {failed.sentence}")]
    assert len(hub.asked(server="cdn")) == 4
    hub.unscript()
    hub.forget()
    hub.script(Act(close_after=SIZE * 43 // 100, ignore_range=True), server="cdn", for_ever=True)
    one.downloads.resume(key)
    failed = one.until_state(key, S.FAILED)
    assert "43%" in failed.sentence
    assert len(hub.asked(server="cdn")) == 8
    assert list(folder.rglob("*.gguf")) == []
    hub.unscript()
    one.downloads.resume(key)
    one.until_state(key, S.DONE)


@pytest.mark.parametrize(
    ("act", "least_s"),
    [
        (rate_limited(1), 0.9),
        (rate_limited(1, retry_after=False, ratelimit=True), 0.9),
        (rate_limited(2, retry_after=False), 0.35),
    ],
    ids=["Retry-After", "ratelimit", "neither"],
)
def test_e11_a_rate_limit_is_counted_down_and_goes_on(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, act: Act, least_s: float
) -> None:
    """E11, in the middle of a set of files."""
    one = owner(waits=lambda _attempt: 0.4)
    hub.script(Act(), act, server="hub")
    key = one.add(the_set(hub), folder)
    waiting = one.until_state(key, S.WAITING)
    began = time.monotonic()
    assert "limiting requests" in waiting.sentence
    assert waiting.retry_in_s is not None
    one.until(lambda: (one.one(key).retry_in_s or 9) < least_s - 0.2)
    assert one.until_state(key, S.DONE).done_bytes == 300_000
    assert time.monotonic() - began > least_s - 0.2
    assert len(hub.asked("/repos/", server="cdn")) == 2


def test_e11_the_countdown_goes_on_after_a_restart(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    hub.script(rate_limited(600), server="hub")
    key = one.add(the_file(hub), folder)
    one.until_state(key, S.WAITING)
    again = owner()
    waiting = again.one(key)
    assert waiting.state is S.WAITING
    assert 590 < (waiting.retry_in_s or 0) <= 600
    again.downloads.resume(key)
    again.until_state(key, S.DONE)


@pytest.mark.alone
def test_e15_a_stall_is_retried_so_often_and_can_be_cancelled_at_once(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """E15."""
    one = owner(limits=Limits(stall_s=0.1))
    hub.script(Act(stall_after=10), server="cdn", for_ever=True)
    key = one.add(the_file(hub), folder)
    one.until(lambda: len(hub.asked("/repos/")) == 4)
    began = time.monotonic()
    one.downloads.cancel(key)
    assert one.one(key).state is S.CANCELLED
    one.until(lambda: lying_in(folder) == [])
    assert time.monotonic() - began < 1


def test_offline_it_waits_in_the_queue_and_goes_on(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    hub.script(Act(stall_after=100_000), server="cdn")
    key = one.add(the_file(hub), folder)
    one.until(lambda: one.one(key).done_bytes == 100_000)
    one.gate.close_it()
    offline = one.until_state(key, S.QUEUED)
    assert "offline" in offline.sentence
    one.pump(0.2)  # nothing but the gate can wake it now
    hub.forget()
    one.gate.open_it()
    one.until_state(key, S.DONE)
    assert ranges(hub) == ["bytes=100000-"]


# --- the disk -----------------------------------------------------------------------------------


def test_e09_what_does_not_fit_is_refused_before_it_begins(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """E09: alone, and beside what is queued for the same disk."""
    one = owner(at_once=1, free=lambda _: RESERVE_BYTES + SIZE + 1000)
    too_large = wish(hub.repos[REPO], "tiny-Q4_K_M.gguf", sizes=(SIZE + 1001,))
    words = one.refusal(too_large, folder)
    assert "still to be downloaded" in words
    assert words.endswith("then try again.")
    assert hub.requests == []
    hub.script(Act(stall_after=1000), server="cdn")
    one.add(the_file(hub), folder)
    words = one.refusal(the_file(hub, "tiny-Q8_0.gguf"), folder)
    assert "other downloads need" in words
    assert len(one.downloads.snapshot()) == 1
    one.downloads.cancel(one.downloads.snapshot()[0].id)


def test_e09_space_is_looked_at_again_while_it_runs(
    owner: Callable[..., Owner],
    hub: FakeHub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E09: another program fills the disk meanwhile."""
    monkeypatch.setattr("app.hub.downloads.run.SPACE_EVERY_BYTES", 64 * 1024)
    free = [10 * RESERVE_BYTES]
    one = owner(free=lambda _: free[0], bytes_s=500_000)
    key = one.add(the_file(hub), folder)
    one.until(lambda: one.one(key).done_bytes > 0)
    free[0] = RESERVE_BYTES + 1000
    failed = one.until_state(key, S.FAILED)
    assert "still to be downloaded" in failed.sentence
    assert lying_in(folder) == [part_name(hub.repos[REPO].files[0])]
    free[0], one.bytes_s = 10 * RESERVE_BYTES, 0.0
    one.downloads.resume(key)
    one.until_state(key, S.DONE)


def test_e13_a_read_only_folder_is_refused_when_it_is_chosen(
    owner: Callable[..., Owner], hub: FakeHub, tmp_path: Path
) -> None:
    """E13: by permissions, as somebody who is not root; and where a file is in the way."""
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    assert "is a file" in folder_trouble(blocked / "below")
    assert "is a file" in owner().refusal(the_file(hub), blocked)
    assert "full path" in folder_trouble(Path("relative"))
    fresh = tmp_path / "made" / "up"
    assert folder_trouble(fresh, is_used_now=False) == ""
    assert not (tmp_path / "made").exists()


def test_e13_as_somebody_who_may_not_write(tmp_path: Path) -> None:
    """E13: a folder of mode 0555, one whose lock belongs to somebody else, and a good one."""
    script = (
        "import os, sys, tempfile\n"
        "from pathlib import Path\n"
        "from app.hub.downloads.space import folder_trouble\n"
        "from app.hub.downloads.transfer_faults import of_disk\n"
        "from app.hub.downloads.partial import Partial\n"
        "import filelock\n"
        "with tempfile.TemporaryDirectory() as name:\n"
        "    top = Path(name); top.chmod(0o755)\n"
        "    closed, foreign, good = top / 'closed', top / 'foreign', top / 'good'\n"
        "    for each in (closed, foreign, good): each.mkdir(); each.chmod(0o777)\n"
        "    (foreign / '.cutaway.lock').touch(mode=0o600); closed.chmod(0o555)\n"
        "    was_root = os.geteuid() == 0\n"
        "    if was_root: os.seteuid(65534)\n"
        "    elif True: (foreign / '.cutaway.lock').chmod(0o000)\n"
        "    print(folder_trouble(closed)); print(folder_trouble(good) or 'good')\n"
        "    try: Partial(foreign / 'x.gguf').open(); print('opened')\n"
        "    except OSError as error: print(of_disk(error, foreign / 'x.gguf', 1).sentence)\n"
        "    if was_root: os.seteuid(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    closed, good, foreign = done.stdout.splitlines()
    assert "read-only, or you don't have permission" in closed
    assert good == "good"
    assert "read-only, or you don't have permission" in foreign


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a disk of its own")
def test_a_disk_that_is_really_full_at_60_percent(hub: FakeHub, tmp_path: Path) -> None:
    """A disk in memory with room for 60 % of the file, in a name space of its own. Where the
    system does not let us have one, `test_transfer` has the same with writes that fail."""
    file = FakeFile("large.gguf", some_bytes(3_000_000, seed=8))
    hub.repos[REPO].files.append(file)
    disk = tmp_path / "disk"
    disk.mkdir()
    room = file.size_bytes * 60 // 100 // 4096 * 4096
    inside = (
        f"mount -t tmpfs -o size={room} tmpfs {disk} || exit 77; "
        f'exec "{sys.executable}" -c "$0" "$@"'
    )
    script = (
        "import os, sys\n"
        "sys.path.insert(0, 'tests')\n"
        "from pathlib import Path\n"
        "from queueing import Owner\n"
        "from app.hub.records import HubFile\n"
        "from models.records import DownloadState as S\n"
        "data, endpoint, folder, repo, commit, name, size, sha = sys.argv[1:]\n"
        "one = Owner(Path(data), endpoint, free=lambda _: 10**12)\n"
        "file = HubFile(repo, commit, (name,), (int(size),), (sha,))\n"
        "key = one.add(file, Path(folder))\n"
        "print(one.until_state(key, S.FAILED).sentence)\n"
        "print(*sorted(p.name for p in Path(folder).rglob('*.*')), sep=',')\n"
        "print(next(Path(folder).rglob('.*.part')).stat().st_size)\n"
        "sys.stdout.flush(); os._exit(0)\n"
    )
    given = [str(tmp_path / "data"), hub.endpoint, str(disk), REPO]
    given += [hub.repos[REPO].commit, file.path, str(file.size_bytes), file.sha256]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", inside, script, *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this system gives no name space with a disk of its own")
    sentence, names, size = done.stdout.splitlines()
    assert "is full" in sentence, done.stderr
    assert names == f".cutaway.lock,{part_name(file)}"
    assert room - 16 * 4096 < int(size) <= room


def test_a_file_larger_than_the_disk_takes_is_told(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """The system's own limit on the size of files, in a process of its own."""
    script = (
        "import resource, sys\n"
        "sys.path.insert(0, 'tests')\n"
        "from pathlib import Path\n"
        "from queueing import Owner\n"
        "from app.hub.records import HubFile\n"
        "from models.records import DownloadState as S\n"
        "data, endpoint, folder, repo, commit, name, size, sha = sys.argv[1:]\n"
        "one = Owner(Path(data), endpoint)\n"
        "file = HubFile(repo, commit, (name,), (int(size),), (sha,))\n"
        "limit = int(size) * 60 // 100\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "key = one.add(file, Path(folder))\n"
        "print(one.until_state(key, S.FAILED).sentence)\n"
        "print(one.one(key).done_bytes)\n"
        "import os; sys.stdout.flush(); os._exit(0)\n"
    )
    # The database is larger than the limit allows for a small file: so a large one.
    file = FakeFile("large.gguf", some_bytes(3_000_000, seed=8))
    hub.repos[REPO].files.append(file)
    given = [str(folder.parent / "data"), hub.endpoint, str(folder), REPO]
    given += [hub.repos[REPO].commit, file.path, str(file.size_bytes), file.sha256]
    done = subprocess.run(
        [sys.executable, "-c", script, *given], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    sentence, done_bytes = done.stdout.splitlines()
    assert "too large for the file system" in sentence, done.stderr
    assert int(done_bytes) == 1_800_000
    assert lying_in(folder) == [part_name(file)]


def test_another_file_of_that_name_stays_and_this_one_goes_beside_it(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    theirs = folder / REPO / "tiny-Q4_K_M.gguf"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"mine")
    one = owner()
    done = one.until_state(one.add(the_file(hub), folder), S.DONE)
    assert theirs.read_bytes() == b"mine"
    assert Path(done.path).parent.name == hub.repos[REPO].commit[:8]
    assert done.folder in done.sentence
    assert Path(done.path).read_bytes() == hub.repos[REPO].files[0].content


def test_where_that_is_taken_too_it_fails_in_words(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    theirs = folder / REPO / hub.repos[REPO].commit[:8] / "tiny-Q4_K_M.gguf"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"mine")
    (folder / REPO / "tiny-Q4_K_M.gguf").write_bytes(b"mine too")
    one = owner()
    failed = one.until_state(one.add(the_file(hub), folder), S.FAILED)
    assert "Rename or move that file" in failed.sentence
    assert theirs.read_bytes() == b"mine"
    one.downloads.cancel(failed.id)
    one.downloads.remove(failed.id)
    one.until(lambda: one.downloads.snapshot() == ())
    assert theirs.read_bytes() == b"mine"


def test_a_whole_file_that_was_there_is_done_at_once_and_not_ours(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    there = folder / REPO / "tiny-Q4_K_M.gguf"
    there.parent.mkdir(parents=True)
    there.write_bytes(bytes(hub.repos[REPO].files[0].content))  # type: ignore[arg-type]
    one = owner()
    done = one.until_state(one.add(the_file(hub), folder), S.DONE)
    assert hub.requests == []
    assert not done.is_ours
    one.downloads.to_trash(done.id, lambda _: pytest.fail("not ours"))
    one.until(lambda: bool(one.said))
    assert "weren't downloaded by Cutaway" in one.said[0][1]
    assert there.exists()


def test_two_instances_fetch_a_file_once(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    """Two data folders, one folder of weights: one writes, the other takes what it wrote."""
    first, second = owner(), Owner(tmp_path / "other", hub.endpoint)
    try:
        hub.script(Act(drip=(20_000, 0.02)), server="cdn")
        one = first.add(the_file(hub), folder)
        first.until(lambda: first.one(one).done_bytes > 0)
        two = second.add(the_file(hub), folder)
        waiting = second.until_state(two, S.WAITING, S.FAILED)
        assert "Another window or program" in waiting.sentence
        first.until_state(one, S.DONE)
        second.downloads.resume(two)
        assert not second.until_state(two, S.DONE).is_ours
        assert len(hub.asked(server="cdn")) == 1
    finally:
        second.close()


# --- taking away --------------------------------------------------------------------------------


def test_to_the_trash_goes_only_what_we_fetched_and_nobody_changed(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_set(hub), folder)
    path = Path(one.until_state(key, S.DONE).path)
    os.utime(path, ns=(1, 1))
    gone: list[str] = []

    def trash(name: str) -> bool:
        gone.append(name)
        Path(name).unlink()
        return True

    one.downloads.to_trash(key, trash)
    one.until(lambda: bool(one.said))
    assert "has changed" in one.said[0][1]
    assert gone == []
    one.downloads.to_trash(key, lambda _: False)
    one.until(lambda: len(one.said) == 2)
    (download,) = one.stored()
    os.utime(path, ns=(1, download.files[0].mtime_ns or 0))
    one.downloads.to_trash(key, lambda _: False)
    one.until(lambda: len(one.said) == 3)
    assert "couldn't be moved" in one.said[2][1]
    one.downloads.to_trash(key, trash)
    one.until(lambda: one.downloads.snapshot() == ())
    assert gone == [str(path), str(path.with_name("b-00002-of-00002.gguf"))]
    assert not (folder / "ana").exists()
    assert folder.exists()
    one.until(lambda: one.stored() == ())


def test_a_finished_file_that_is_gone_is_told_and_can_be_fetched_again(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_file(hub), folder)
    path = Path(one.until_state(key, S.DONE).path)
    one.downloads.look()
    away = path.rename(path.with_suffix(".away"))
    one.downloads.look()
    gone = one.until_state(key, S.FAILED)
    assert "is no longer in" in gone.sentence
    away.rename(path)
    one.downloads.resume(key)
    assert one.until_state(key, S.DONE).is_ours
    assert len(hub.asked(server="cdn")) == 1
    one.until(lambda: one.stored()[0].state is S.DONE)
    path.unlink()
    again = owner()
    assert "is no longer in" in again.until_state(key, S.FAILED).sentence
    again.downloads.resume(key)
    again.until_state(key, S.DONE)
    assert path.exists()


def test_what_was_whole_once_is_not_deleted_with_its_entry(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """A disk that was away makes it fail; it is back when the entry is taken off the list."""
    one = owner()
    key = one.add(the_set(hub), folder)
    path = Path(one.until_state(key, S.DONE).path)
    away = path.parent.rename(folder / "away")
    one.downloads.look()
    one.until_state(key, S.FAILED)
    away.rename(path.parent)
    one.downloads.remove(key)
    one.until(lambda: one.downloads.snapshot() == ())
    assert lying_in(folder) == ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]


def test_two_revisions_of_a_name_have_partials_of_their_own(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    """Also where one of them is cancelled, and after a restart."""
    repo = hub.repos[REPO]
    one = owner()
    hub.script(Act(stall_after=100_000), server="cdn")
    old = one.add(the_file(hub), folder)
    one.until(lambda: one.one(old).done_bytes == 100_000)
    one.downloads.pause(old)
    newer = FakeFile("tiny-Q4_K_M.gguf", some_bytes(SIZE, seed=9))
    first, repo.files[0], was = repo.files[0], newer, repo.commit
    repo.commit = "f" * 40
    hub.script(Act(stall_after=50_000), server="cdn")
    new = one.add(wish(repo, newer.path), folder)
    one.until(lambda: one.one(new).done_bytes == 50_000)
    one.downloads.cancel(new)
    one.until(lambda: lying_in(folder) == [part_name(first)])
    again = owner()
    repo.files[0], repo.commit = first, was
    again.pump(0.1)
    again.downloads.resume(old)
    again.until_state(old, S.DONE)
    assert ranges(hub) == [None, None, "bytes=100000-"]


def test_a_finished_one_that_is_taken_off_the_list_stays_on_the_disk(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_file(hub), folder)
    path = Path(one.until_state(key, S.DONE).path)
    one.downloads.remove(key)
    assert one.downloads.snapshot() == ()
    assert path.exists()


def test_a_set_that_is_cancelled_half_way_leaves_no_half(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    hub.script(Act(), Act(stall_after=10_000), server="cdn")
    key = one.add(the_set(hub), folder)
    one.until(lambda: one.one(key).done_bytes == 160_000)
    one.downloads.cancel(key)
    one.until(lambda: lying_in(folder) == [])
    one.until(lambda: one.stored()[0].files[0].done_bytes == 0)
    one.downloads.resume(key)
    one.until_state(key, S.DONE)


def test_an_orphan_beside_a_finished_file_is_cleaned_at_the_start(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    path = Path(one.until_state(one.add(the_file(hub), folder), S.DONE).path)
    one.until(lambda: one.stored()[0].state is S.DONE)
    one.close()
    (path.parent / part_name(hub.repos[REPO].files[0])).write_bytes(b"left by a killed program")
    again = owner()
    again.until(lambda: lying_in(folder) == [path.name])


def test_names_that_are_not_safe_are_refused_or_made_safe(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    words = one.refusal(wish(hub.repos[REPO], "tiny-Q4_K_M.gguf", names=("../x.gguf",)), folder)
    assert "leads outside its folder" in words
    words = one.refusal(wish(hub.repos[REPO], "tiny-Q4_K_M.gguf", missing=("b.gguf",)), folder)
    assert "b.gguf" in words
    hub.repos[REPO].files.append(FakeFile("NUL.gguf", b"GGUF", is_lfs=True))
    done = one.until_state(one.add(the_file(hub, "NUL.gguf"), folder), S.DONE)
    assert Path(done.path).name == "_NUL.gguf"


def test_a_program_that_ends_between_the_name_and_the_database_owns_its_file(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path
) -> None:
    one = owner()
    key = one.add(the_file(hub), folder)
    path = Path(one.until_state(key, S.DONE).path)
    one.until(lambda: one.stored()[0].state is S.DONE)
    (download,) = one.stored()
    before = tuple(replace(f, mtime_ns=None, etag='"e"', done_bytes=9) for f in download.files)
    one.store.update_download(key, state=S.RUNNING, files=before).result(20)
    one.close()
    os.link(path, path.with_name(part_name(hub.repos[REPO].files[0])))
    hub.forget()
    assert owner().until_state(key, S.DONE).is_ours
    assert hub.requests == []
    assert lying_in(folder) == [path.name]


def test_a_row_that_cannot_be_read_says_so(
    owner: Callable[..., Owner], hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    one = owner()
    key = one.add(the_file(hub), folder)
    one.until_state(key, S.DONE)
    one.close()
    with closing(sqlite3.connect(tmp_path / "data" / "db" / "cutaway.sqlite3")) as raw:
        raw.execute("UPDATE download SET files = '{', state = 'running'")
        raw.commit()
    again = owner()
    assert "couldn't be read" in again.one(key).sentence
    again.downloads.remove(key)
    again.until(lambda: again.downloads.snapshot() == ())


def test_a_fault_of_ours_ends_one_download_in_words(
    owner: Callable[..., Owner],
    hub: FakeHub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Partial, "append", lambda *_: 1 / 0)
    one = owner()
    failed = one.until_state(one.add(the_file(hub), folder), S.FAILED)
    assert "ZeroDivisionError" in failed.sentence
