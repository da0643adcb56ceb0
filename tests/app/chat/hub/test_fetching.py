"""Downloads through the desk: over the fake hub, with the desk's own store, gate and settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub.acts import Act
from fake_hub.hub import FakeAccount, FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from queueing import wish
from transferring import some_bytes

from app.chat import events
from app.hub.downloads.patience import Limits
from models.records import DownloadState as S

REPO = "ana/tiny-GGUF"
SIZE = 300_000
MakeRoom = Callable[..., Any]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as hub:
        hub.add(FakeRepo(REPO, [FakeFile("tiny-Q4_K_M.gguf", some_bytes(SIZE))]))
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        yield hub


def begun(room: Any) -> Any:
    """The queue has been read."""
    room.start()
    room.until(lambda: room.desk.downloads._downloads is not None, "the queue")
    return room


def add(room: Any, hub: FakeHub) -> str:
    ids: list[str] = []
    failed: list[str] = []
    room.desk.downloads.add(wish(hub.repos[REPO], "tiny-Q4_K_M.gguf"), ids.append, failed.append)
    room.until(lambda: ids or failed, "an answer")
    assert failed == []
    return ids[0]


def one(room: Any) -> Any:
    (found,) = room.desk.downloads.all
    return found


def test_a_download_goes_into_the_data_folder_and_is_told(
    make_room: MakeRoom, hub: FakeHub
) -> None:
    room = begun(make_room())
    told: list[Any] = []
    stop = room.desk.downloads.follow(told.append)
    add(room, hub)
    room.until(lambda: one(room).state is S.DONE, "done")
    path = room.data_dir / "weights" / REPO / "tiny-Q4_K_M.gguf"
    assert Path(one(room).path) == path
    assert path.read_bytes() == hub.repos[REPO].files[0].content
    assert told[-1] == room.desk.downloads.all
    assert [n.sentence for n in room.of(events.Noticed)] == ["“tiny-Q4_K_M.gguf” downloaded."]
    stop()
    n_told = len(told)
    room.desk.downloads.remove(one(room).id)
    assert room.desk.downloads.all == ()
    assert len(told) == n_told
    assert path.exists()


def test_a_gated_file_is_fetched_with_the_token_of_the_hub(
    make_room: MakeRoom, hub: FakeHub
) -> None:
    hub.repos[REPO].gated = "auto"
    hub.accounts["hf_secret"] = FakeAccount("ana", frozenset({REPO}))
    room = begun(make_room())
    add(room, hub)
    room.until(lambda: one(room).state is S.FAILED, "failed")
    assert "gated" in one(room).sentence
    kept: list[str] = []
    room.desk.hub.set_token("hf_secret", kept.append, lambda trouble: kept.append(str(trouble)))
    room.until(lambda: kept, "a token")
    hub.forget()
    room.desk.downloads.resume(one(room).id)
    room.until(lambda: one(room).state is S.DONE, "done")
    assert [(each.server, each.token) for each in hub.requests] == [
        ("hub", "hf_secret"),
        ("cdn", None),
    ]


def test_a_token_that_became_bad_is_told_and_a_public_file_comes_all_the_same(
    make_room: MakeRoom, hub: FakeHub
) -> None:
    hub.accounts["hf_secret"] = FakeAccount("ana", frozenset({REPO}))
    room = begun(make_room())
    kept: list[str] = []
    room.desk.hub.set_token("hf_secret", kept.append, lambda trouble: kept.append(str(trouble)))
    room.until(lambda: kept, "a token")
    hub.accounts.clear()
    add(room, hub)
    room.until(lambda: one(room).state is S.DONE, "done")
    assert room.desk.hub.state.is_token_refused
    said = [notice.sentence for notice in room.of(events.Noticed)]
    assert any("rejected your token" in sentence for sentence in said)


def test_it_goes_on_after_a_restart_by_itself(make_room: MakeRoom, hub: FakeHub) -> None:
    hub.script(Act(stall_after=100_000), server="cdn")
    room = begun(make_room())
    add(room, hub)
    room.until(lambda: one(room).done_bytes == 100_000, "a part")
    began = time.monotonic()
    room.close()
    assert time.monotonic() - began < Limits().stall_s / 2
    again = begun(make_room())
    again.until(lambda: one(again).state is S.DONE, "done")
    assert [each.range for each in hub.asked(server="cdn")] == [None, "bytes=100000-"]


def test_the_offline_switch_holds_it_and_lets_it_go(make_room: MakeRoom, hub: FakeHub) -> None:
    hub.script(Act(stall_after=100_000), server="cdn")
    room = begun(make_room())
    add(room, hub)
    room.until(lambda: one(room).done_bytes == 100_000, "a part")
    room.desk.settings.set("offline", True)
    room.until(lambda: one(room).state is S.QUEUED, "queued")
    assert "offline" in one(room).sentence
    hub.forget()
    room.desk.settings.set("offline", False)
    room.until(lambda: one(room).state is S.DONE, "done")
    assert len(hub.requests) == 2


def test_started_offline_nothing_is_fetched(make_room: MakeRoom, hub: FakeHub) -> None:
    room = make_room(offline=True).start()
    room.desk.downloads.begin()
    room.until(lambda: room.desk.downloads._downloads is not None, "the queue")
    add(room, hub)
    room.until(lambda: "--offline" in one(room).sentence, "why not")
    assert hub.n_connections == 0


def test_e13_a_window_that_only_reads_shows_the_queue_and_says_why(
    make_room: MakeRoom, hub: FakeHub
) -> None:
    """E13: the second instance of a data folder."""
    hub.script(Act(stall_after=1000), server="cdn", for_ever=True)
    first = begun(make_room())
    add(first, hub)
    first.until(lambda: hub.asked(server="cdn"), "a request")
    second = begun(make_room(read_only=True))
    assert one(second).state is S.RUNNING
    assert second.desk.downloads.trouble == "Another window writes."
    refused: list[str] = []
    second.desk.downloads.add(
        wish(hub.repos[REPO], "tiny-Q4_K_M.gguf"), refused.append, refused.append
    )
    assert refused == ["Another window writes."]
    second.desk.downloads.cancel(one(second).id)
    assert second.of(events.Noticed)[-1].sentence == "Another window writes."
    assert one(first).state is S.RUNNING
    assert len(hub.asked(server="cdn")) == 1


def test_e13_a_folder_is_tried_when_it_is_chosen(
    make_room: MakeRoom, hub: FakeHub, tmp_path: Path
) -> None:
    """E13: one that takes nothing is refused at once and changes nothing."""
    room = begun(make_room())
    said: list[str] = []

    def choose(path: str) -> str:
        said.clear()
        room.desk.downloads.set_folder(path, said.append)
        room.until(lambda: said, "an answer")
        return said[0]

    (tmp_path / "file").write_bytes(b"")
    assert "is a file" in choose(str(tmp_path / "file"))
    assert "unreadable characters" in choose(str(tmp_path / "a\0b"))
    assert room.desk.settings.now.download_folder == ""
    good = tmp_path / "good"
    assert choose(str(good)) == ""
    assert room.desk.downloads.folder == good
    assert not good.exists()
    add(room, hub)
    room.until(lambda: one(room).state is S.DONE, "done")
    assert Path(one(room).path).is_relative_to(good)
    assert choose("") == ""
    assert room.desk.downloads.folder == room.data_dir / "weights"


def test_a_database_without_the_table_says_so(make_room: MakeRoom, hub: FakeHub) -> None:
    room = make_room()
    room.desk.downloads._on_unread("The list cannot be read.")
    refused: list[str] = []
    room.desk.downloads.add(
        wish(hub.repos[REPO], "tiny-Q4_K_M.gguf"), refused.append, refused.append
    )
    assert refused == ["The list cannot be read."]


def test_to_the_trash_through_the_desk(make_room: MakeRoom, hub: FakeHub) -> None:
    room = begun(make_room())
    key = add(room, hub)
    room.until(lambda: one(room).state is S.DONE, "done")
    path = one(room).path

    def trash(name: str) -> bool:
        os.unlink(name)  # noqa: PTH108
        return True

    room.desk.downloads.to_trash(key, trash)
    room.until(lambda: room.desk.downloads.all == (), "gone")
    assert not Path(path).exists()
