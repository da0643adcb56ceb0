"""What the desk tells of the weights on this machine."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from placed_weights import put

from app.chat import events
from app.chat.weights import local_weights
from app.gguf.local.places import Origin, Place
from app.gguf.values import value_typed
from app.library import local
from app.library.local import LocalSnapshot
from models.records import Download, DownloadFile, DownloadState, LocalFile

NEVER_S = 3_600.0


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "WATCH_INTERVAL_S", 0.05)
    monkeypatch.setattr(local, "TOLD_EVERY_S", 0.02)


class Following:
    def __init__(self, room) -> None:
        self._room = room
        self.told: list[LocalSnapshot] = []
        self.threads: set[str] = set()
        self.stop = room.desk.local.follow(self._take)

    def _take(self, snapshot: LocalSnapshot) -> None:
        self.told.append(snapshot)
        self.threads.add(threading.current_thread().name)

    def until(self, holds: Callable[[LocalSnapshot], object]) -> LocalSnapshot:
        self._room.until(
            lambda: self.told and not self.told[-1].is_looking and holds(self.told[-1])
        )
        return self.told[-1]

    def until_names(self, *names: str) -> LocalSnapshot:
        return self.until(lambda told: [each.name for each in told.entries] == list(names))


def ask_folder(room, path: Path | str) -> str:
    answers: list[str] = []
    room.desk.local.add_folder(str(path), answers.append)
    room.until(lambda: answers)
    return answers[0]


def without_included(room) -> None:
    room.desk.loader.__dict__["included"] = None


def test_a_folder_is_looked_into_and_left_again(make_room, tmp_path: Path) -> None:
    put(tmp_path / "one" / "a.gguf", "a")
    room = make_room(remember_weights=False).start_ready()
    without_included(room)
    following = Following(room)
    following.until_names()
    assert ask_folder(room, tmp_path / "one") == ""
    found = following.until_names("a").entries[0]
    assert (found.path, found.origin) == (tmp_path / "one" / "a.gguf", Origin.FOLDER)
    assert room.desk.settings.now.weights_folders == (str(tmp_path / "one"),)
    put(tmp_path / "one" / "b.gguf", "b")
    following.until_names("a", "b")
    room.desk.local.remove_folder(str(tmp_path / "one"))
    following.until_names()
    assert (tmp_path / "one" / "a.gguf").exists()
    assert following.threads == {threading.current_thread().name}


def test_e13_a_folder_is_checked_when_it_is_chosen(
    make_room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room().start()
    file = put(tmp_path / "a.gguf")
    (tmp_path / "closed").mkdir()
    assert "can't be found. Connect its disk, or choose" in ask_folder(room, tmp_path / "gone")
    assert "isn't a folder" in ask_folder(room, file)
    assert "unreadable characters" in ask_folder(room, tmp_path / "\udcff")
    list_folder = os.scandir

    def scandir(path: Path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "have permission to read" in ask_folder(room, tmp_path / "closed")
    assert room.desk.settings.now.weights_folders == ()
    assert ask_folder(room, tmp_path) == ""
    assert "has already been added" in ask_folder(room, f"{tmp_path}/")
    assert room.desk.settings.now.weights_folders == (str(tmp_path),)


def test_choosing_a_folder_that_hangs_does_not_hold_the_owner(
    make_room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room().start()
    answers, go_on = [], threading.Event()
    list_folder = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: go_on.wait(20) and list_folder(path))
    room.desk.local.add_folder(str(tmp_path), answers.append)
    room.desk.local.add_folder(str(tmp_path / "x"), answers.append)
    room.pump()
    assert answers == []
    go_on.set()
    room.until(lambda: len(answers) == 2)


def test_folders_and_hashes_are_known_at_the_next_start(
    make_room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "one" / "a.gguf", "a")
    room = make_room(remember_weights=False).start_ready()
    without_included(room)
    ask_folder(room, tmp_path / "one")
    following = Following(room)
    following.until(lambda told: told.entries and told.n_unhashed == 0)
    room.until(lambda: room.store.list_local_files().result(20))
    room.close()
    monkeypatch.setattr(local, "look_at", None)  # nothing is read again
    room = make_room(remember_weights=False).start_ready()
    without_included(room)
    room.desk.local.rest(True)
    found = Following(room).until_names("a").entries[0]
    assert found.is_computed
    assert found.facts is not None


def test_weights_of_other_programs_are_listed_unless_that_is_off(make_room, tmp_path: Path) -> None:
    put(tmp_path / "lm" / "a.gguf", "a")
    others = [Place(Origin.LM_STUDIO, tmp_path / "lm")]
    room = make_room(find_others=lambda: others, remember_weights=False).start_ready()
    without_included(room)
    following = Following(room)
    assert following.until_names("a").entries[0].origin == Origin.LM_STUDIO
    room.desk.settings.set("find_other_apps", False)
    following.until_names()


def test_the_menu_has_what_was_used_before_then_what_was_found(
    make_room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_weights, "MAX_IN_MENU", 4)
    for name in "abcd":
        put(tmp_path / "one" / f"{name}.gguf", name)
    (tmp_path / "one" / "cut.gguf").write_bytes(b"GGUF")
    room = make_room().start_ready()
    ask_folder(room, tmp_path / "one")
    Following(room).until(lambda told: len(told.entries) > 4)
    names = [weights.name for weights in room.desk.local.for_menu()]
    assert names == [*(w.name for w in room.desk.loader.known_weights()), "a", "b"]
    room.desk.loader.load(str(tmp_path / "one" / "a.gguf"))
    room.until(lambda: room.desk.loader.known_weights()[0].path.endswith("a.gguf"))
    names = [weights.name for weights in room.desk.local.for_menu()]
    assert names.count("a") == 1


def test_what_was_opened_from_anywhere_is_listed_from_then_on(make_room, tmp_path: Path) -> None:
    path = put(tmp_path / "elsewhere" / "a.gguf", "a")
    room = make_room().start_ready()
    following = Following(room)
    following.until(lambda told: not any(each.name == "a" for each in told.entries))
    room.desk.loader.load(str(path))
    told = following.until(lambda told: any(each.name == "a" for each in told.entries))
    assert [each.origin for each in told.entries if each.path == path] == [Origin.OPENED]


def test_a_corrected_copy_goes_where_it_is_found(make_room, tmp_path: Path) -> None:
    room = make_room(remember_weights=False).start_ready()
    without_included(room)
    following = Following(room)
    watched = put(tmp_path / "mine" / "below" / "a.gguf", "a")
    assert ask_folder(room, tmp_path / "mine") == ""
    following.until_names("a")
    assert room.desk.local.folder_for_copy(watched) == watched.parent
    alone = put(tmp_path / "elsewhere" / "b.gguf", "b")
    folder = room.desk.local.folder_for_copy(alone)
    assert folder == room.desk.downloads.folder
    written: list[Path] = []
    room.desk.headers.write_copy(
        alone,
        folder / "c.gguf",
        {"general.name": value_typed("string", "C")},
        on_progress=lambda done, total: None,
        then=written.append,
        failed=pytest.fail,
    )
    following.until(lambda told: {each.name for each in told.entries} == {"a", "c"})
    in_downloads = folder / "c.gguf"
    assert written == [in_downloads]
    assert room.desk.local.folder_for_copy(in_downloads) == folder


def test_a_blob_is_called_as_the_other_program_calls_it(make_room, tmp_path: Path) -> None:
    blob = put(tmp_path / "llama" / "model.gguf", "inside")
    room = make_room().start_ready()
    ask_folder(room, tmp_path)
    Following(room).until(lambda told: any(each.name == "llama" for each in told.entries))
    room.desk.loader.load(str(blob))
    room.until(lambda: room.desk.loader.state.weights_name == "llama")
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert room.desk.loader.state.weights_name == "llama"


def test_a_reply_and_a_load_have_the_disk_for_themselves(make_room, tmp_path: Path) -> None:
    script = {
        "load": {"ms": 300},
        "replies": [{"tokens": [{"text": "x ", "ms": 5, "repeat": 4000}]}],
    }
    room = make_room(script).start()
    room.until(lambda: room.desk.loader.state.state == "loading")
    assert room.desk.local._is_resting
    room.until(lambda: room.desk.loader.state.state == "ready")
    assert not room.desk.local._is_resting
    room.desk.replies.send("Hello")
    room.until(room.growing)
    put(tmp_path / "one" / "a.gguf", "a")
    ask_folder(room, tmp_path / "one")
    following = Following(room)
    told = following.until(lambda told: any(each.name == "a" for each in told.entries))
    assert told.n_unhashed > 0
    room.desk.replies.stop()
    following.until(lambda told: told.n_unhashed == 0)


def test_nothing_is_looked_for_before_the_start_is_over(
    make_room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_weights, "BEGIN_AFTER_S", NEVER_S)
    room = make_room().start_ready()
    assert room.desk.local._library is None
    monkeypatch.setattr(local_weights, "BEGIN_AFTER_S", 0.01)
    room.desk.local.on_settings_read()
    room.until(lambda: room.desk.local._library is not None)


def test_who_follows_no_more_is_not_called(make_room, tmp_path: Path) -> None:
    room = make_room().start_ready()
    first, second = Following(room), Following(room)
    first.until(lambda _: True)
    first.stop()
    first.stop()
    before = len(first.told)
    put(tmp_path / "one" / "a.gguf", "a")
    ask_folder(room, tmp_path / "one")
    second.until(lambda told: any(each.name == "a" for each in told.entries))
    assert len(first.told) == before


def test_a_second_window_lists_too_and_writes_nothing(make_room, tmp_path: Path) -> None:
    put(tmp_path / "lm" / "a.gguf", "a")
    make_room().start().close()
    others = [Place(Origin.LM_STUDIO, tmp_path / "lm")]
    room = make_room(read_only=True, find_others=lambda: others).start()
    following = Following(room)
    following.until(lambda told: told.entries and told.n_unhashed == 0)
    room.pump()
    assert room.store.list_local_files().result(20) == ()
    assert not [event for event in room.of(events.Noticed) if event.level == "error"]


def test_a_download_of_ours_is_known_by_the_hash_that_it_came_with(
    make_room, data_dir: Path
) -> None:
    path = put(data_dir / "weights" / "owner" / "a.gguf", "a")
    info = path.stat()
    file = DownloadFile("a.gguf", info.st_size, "ab" * 32, path.name, mtime_ns=info.st_mtime_ns)
    done = Download(
        "d", "https://x", "o/r", "c", str(path.parent), (file,), datetime.now(UTC),
        DownloadState.DONE,
    )  # fmt: skip
    room = make_room(remember_weights=False).start_ready()
    without_included(room)
    room.store.create_download(done).result(20)
    room.desk.local.rest(True)  # no hash is computed here
    found = Following(room).until(lambda told: told.entries and told.n_unhashed == 0).entries[0]
    assert (found.origin, found.sha256) == (Origin.DOWNLOADS, "ab" * 32)


def test_weights_that_were_used_are_remembered_with_their_whole_hash(
    make_room, tmp_path: Path
) -> None:
    path = put(tmp_path / "a.gguf", "a")
    room = make_room().start_ready()
    room.desk.loader.load(str(path))
    room.until(lambda: room.desk.loader.state.weights_name == "a" and room.desk.loader.state.loaded)
    following = Following(room)
    room.desk.local.look_again()
    following.until(lambda told: any(each.name == "a" and each.sha256 for each in told.entries))
    known = room.store.list_weights().result(20)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert [weights.sha256 for weights in known if weights.path == str(path)] == [sha256]


def test_what_was_not_seen_for_a_year_is_forgotten(make_room) -> None:
    room = make_room().start()
    when = datetime.now(UTC)
    files = [
        LocalFile(f"/{days}.gguf", 1, 1, 1, when - timedelta(days=days)) for days in (300, 400)
    ]
    room.store.save_local_files(tuple(files)).result(20)
    Following(room).until(lambda _: True)
    paths = {file.path for file in room.store.list_local_files().result(20)}
    assert paths & {"/300.gguf", "/400.gguf"} == {"/300.gguf"}


def test_unasked_it_does_not_begin_beside_a_reply(
    make_room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is imported and read for it would take the time of some tokens."""
    monkeypatch.setattr(local_weights, "BEGIN_AFTER_S", NEVER_S)
    room = make_room(remember_weights=False).start_ready()
    ours = room.desk.local
    ours.rest(True)
    monkeypatch.setattr(local_weights, "BEGIN_AFTER_S", 0.01)
    put_off: list[str] = []
    set_alarm = ours._around.alarms.set

    def noted(name: str, *rest: Any) -> None:
        put_off.append(name)
        set_alarm(name, *rest)

    monkeypatch.setattr(ours._around.alarms, "set", noted)
    ours.on_settings_read()
    room.until(lambda: put_off.count("local weights") == 4)
    assert ours._library is None
    ours.rest(False)
    room.until(lambda: ours._library is not None)
