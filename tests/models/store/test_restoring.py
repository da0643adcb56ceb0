"""A backup that was chosen takes the place of the database, whatever cuts that short."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from schema_file import all_files, path_for
from store_records import a_conversation, a_message

from models.records import WholeConversation
from models.store import backup, restoring
from models.store.backup import is_sound, list_backups
from models.store.backup_reading import NEWER, look_into, opened
from models.store.errors import ReadOnlyError, StoreError
from models.store.opening import StoreFiles
from models.store.plain import HEAD_REVISION
from models.store.store import Store

ROOT = Path(__file__).parents[3]


class KilledError(BaseException):
    """Stands for the end of the process at this moment."""


def titles_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as raw:
        return {title for (title,) in raw.execute("SELECT title FROM conversation")}


def two_states(store: Store) -> Path:
    """A backup with “old”; then “new” is written beside it. Where the backup lies."""
    store.create_conversation(a_conversation(title="old")).result(20)
    path = store.back_up(by_hand=True).result(20)
    store.create_conversation(a_conversation(title="new")).result(20)
    return path


def titles(store: Store) -> set[str]:
    return {c.title for c in store.list_conversations().result(20)}


def test_the_next_start_restores_it_and_what_was_there_is_backed_up(
    open_store: Any, data_dir: Path
) -> None:
    store = open_store()
    path = two_states(store)
    store.restore_at_start(path).result(20)
    listed = store.list_backups().result()
    assert listed.restores_at == listed.backups[0].made_at
    assert [(each.why, each.size_bytes > 0) for each in listed.backups] == [("by_hand", True)]
    store.create_conversation(a_conversation(title="written after the choice")).result(20)
    assert titles(store) == {"old", "new", "written after the choice"}
    store.close()

    again = open_store()
    told = again.opened.result()
    assert told.state == "restored"
    assert titles(again) == {"old"}
    (newest,) = (each for each in again.list_backups().result().backups if each.why == "restore")
    assert Path(newest.path).name in told.sentence
    assert titles_in(Path(newest.path)) == {"old", "new", "written after the choice"}
    again.close()
    # Once: another start restores nothing more, and there is a way back.
    third = open_store()
    assert third.opened.result().state == "ok"
    third.restore_at_start(Path(newest.path)).result(20)
    third.close()
    assert titles(open_store()) == {"old", "new", "written after the choice"}


def test_a_choice_is_taken_back_or_refused_in_words(open_store: Any, data_dir: Path) -> None:
    store = open_store()
    path = two_states(store)
    store.restore_at_start(path).result(20)
    store.restore_at_start(None).result(20)
    assert store.list_backups().result().restores_at is None
    with pytest.raises(StoreError, match="no longer there"):
        store.restore_at_start(data_dir / "db" / "cutaway.sqlite3").result(20)
    broken = path.with_name("cutaway-20260101T000000Z.sqlite3")
    broken.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(StoreError, match="damaged"):
        store.restore_at_start(broken).result(20)
    store.close()
    assert titles(open_store()) == {"old", "new"}
    reader = Store.open(data_dir, read_only=True, backup_after_s=None)
    with pytest.raises(ReadOnlyError):
        reader.restore_at_start(path).result(20)
    assert reader.list_backups().result(20).backups
    reader.close()


def cut_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> list[int]:
    """The moment-th change of a file is the last one: before it, the process ends."""
    count = [0]

    def cutting(act: Any) -> Any:
        def cut(*args: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == moment:
                raise KilledError
            return act(*args, **named)

        return cut

    for name in ("replace", "rename", "unlink", "touch"):
        monkeypatch.setattr(Path, name, cutting(getattr(Path, name)))
    for name in ("copyfile",):
        monkeypatch.setattr(shutil, name, cutting(getattr(shutil, name)))
    return count


def restart(data_dir: Path) -> None:
    """What a start does with the files, in this thread."""
    from models.store.opening import open_database

    open_database(data_dir).clean_up()


def test_cut_short_at_any_moment_it_is_done_by_the_next_start(
    open_store: Any, data_dir: Path, tmp_path: Path
) -> None:
    store = open_store()
    path = two_states(store)
    place = StoreFiles(data_dir)
    # As a killed run leaves it: with the last changes in the log alone.
    raw = sqlite3.connect(place.path)
    raw.execute("PRAGMA wal_autocheckpoint = 0")
    store.create_conversation(a_conversation(title="in the log")).result(20)
    restoring.stage(path, place)
    kept = tmp_path / "kept"
    shutil.copytree(data_dir, kept)
    raw.close()
    store.close()
    moment, is_over = 0, False
    while not is_over:
        moment += 1
        shutil.rmtree(data_dir)
        shutil.copytree(kept, data_dir)
        with pytest.MonkeyPatch.context() as patch:
            cut_at(patch, moment)
            try:
                restart(data_dir)
                is_over = True
            except KilledError:
                pass
        restart(data_dir)
        assert titles_in(place.path) == {"old"}, moment
        assert is_sound(place.path)
        found = [titles_in(each.path) for each in list_backups(place.backups)]
        assert {"old", "new", "in the log"} in found, moment
        assert restoring.staged_at(place) is None
        assert not list(place.path.parent.glob("*.damaged-*"))
    assert moment > 8


def test_cut_short_while_it_is_chosen_there_is_all_of_it_or_nothing(
    open_store: Any, data_dir: Path, tmp_path: Path
) -> None:
    store = open_store()
    path = two_states(store)
    store.close()
    place, moment, is_over = StoreFiles(data_dir), 0, False
    while not is_over:
        moment += 1
        restoring.unstage(place)
        with pytest.MonkeyPatch.context() as patch:
            cut_at(patch, moment)
            try:
                restoring.stage(path, place)
                is_over = True
            except KilledError:
                pass
        # Under its name there is only ever all of it.
        for staged in place.path.parent.glob("cutaway.restoring-*"):
            assert titles_in(staged) == {"old"}
            assert is_sound(staged)
        assert not is_over or restoring.staged_at(place) is not None
    assert moment > 4
    restart(data_dir)
    assert titles_in(place.path) == {"old"}


def test_where_there_is_no_room_it_stays_as_it_is(
    open_store: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    path = two_states(store)
    store.restore_at_start(path).result(20)
    store.close()

    def full(*_: Any, **__: Any) -> Path:
        raise StoreError("Not enough disk space for a backup of the database.")

    with monkeypatch.context() as patch:
        patch.setattr(backup, "back_up", full)
        again = open_store()
        told = again.opened.result()
    assert "wasn't restored. Not enough disk space" in told.sentence
    assert told.state == "ok"
    assert titles(again) == {"old", "new"}
    again.close()
    assert open_store().opened.result().sentence == ""


def test_what_cannot_be_replaced_now_is_used_as_it_is_and_restored_later(
    open_store: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows another program may have the file open."""
    store = open_store()
    store.restore_at_start(two_states(store)).result(20)
    store.close()
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if path.name.startswith("cutaway.restoring-"):
            raise PermissionError(13, "In use", str(path))
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        again = open_store()
        assert (
            "couldn't be restored (In use). The next start tries" in again.opened.result().sentence
        )
    assert titles(again) == {"old", "new"}
    assert again.list_backups().result(20).restores_at is not None
    again.close()
    assert titles(open_store()) == {"old"}


def test_no_file_in_the_folder_ends_the_thread_of_backups(
    open_store: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digits that are no time, a backup of a newer version, and whatever else goes wrong."""
    store = open_store()
    path = two_states(store)
    path.with_name("cutaway-99999999T999999Z.sqlite3").write_bytes(b"")
    newer = path.with_name("cutaway-20260101T000000Z.sqlite3")
    shutil.copyfile(path, newer)
    with closing(sqlite3.connect(newer)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    other = path.with_name("cutaway-20260102T000000Z.sqlite3")
    with closing(sqlite3.connect(other)) as raw, raw:
        raw.execute("CREATE TABLE recipe (name)")
    listed = [Path(each.path) for each in store.list_backups().result(20).backups]
    assert listed == [path, other, newer]
    for refused, words in ((newer, "newer version"), (other, "damaged")):
        with pytest.raises(StoreError, match=words):
            store.restore_at_start(refused).result(20)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: 1 / 0)
        with pytest.raises(StoreError):
            store.restore_at_start(path).result(20)
    assert store.list_backups().result(20).restores_at is None


def test_what_is_damaged_is_put_aside_and_replaced(open_store: Any, data_dir: Path) -> None:
    store = open_store()
    path = two_states(store)
    store.restore_at_start(path).result(20)
    store.close()
    place = StoreFiles(data_dir)
    place.path.write_bytes(b"no database at all" * 1000)
    again = open_store()
    assert again.opened.result().state == "restored"
    assert titles(again) == {"old"}
    (damaged,) = place.path.parent.glob("*.damaged-*.sqlite3")
    assert damaged.read_bytes().startswith(b"no database")


def test_those_made_by_hand_are_thinned_apart(open_store: Any, data_dir: Path) -> None:
    store = open_store()
    two_states(store)
    for _ in range(6):
        store.back_up(by_hand=True).result(20)
    store.back_up().result(20)
    why = [each.why for each in store.list_backups().result().backups]
    assert why.count("by_hand") == 5
    assert why.count("daily") == 1


# --- looking into one ---------------------------------------------------------------------------


def test_it_is_looked_into_and_single_chats_come_out_of_it(open_store: Any, tmp_path: Path) -> None:
    store = open_store()
    path = two_states(store)
    before = path.read_bytes()
    chat = next(c for c in store.list_conversations().result() if c.title == "old")
    store.append_message(a_message(chat, content="Kept?")).result()
    full = store.back_up().result(20)
    looked = store.look_into_backup(full).result(20)
    assert (looked.n_chats, looked.n_messages, looked.why_not) == (2, 1, "")
    assert {(each.title, each.n_messages) for each in looked.chats} == {("old", 1), ("new", 0)}
    store.trash_conversation(chat.id).result()
    store.delete_trashed([chat.id]).result()
    with opened(full) as inside:
        assert set(inside.ids()) == {each.id for each in looked.chats}
        whole = inside.whole(chat.id)
    assert [m.content for m in whole.messages] == ["Kept?"]
    store.add_all([whole])
    assert titles(store) == {"old", "new"}
    assert path.read_bytes() == before
    assert {each.name for each in path.parent.iterdir()} == {path.name, full.name}


def test_every_schema_there_was_is_read_and_a_newer_one_refused(tmp_path: Path) -> None:
    for number, source in enumerate(all_files()):
        path = tmp_path / f"cutaway-2026010{number + 1}T000000Z.sqlite3"
        shutil.copyfile(source, path)
        before = path.read_bytes()
        assert look_into(path).chats[0].title == "Capitals"
        with opened(path) as inside:
            whole = inside.whole("chat")
        assert isinstance(whole, WholeConversation)
        assert len(whole.messages) >= 3
        assert path.read_bytes() == before
    newer = tmp_path / "cutaway-20260201T000000Z.sqlite3"
    shutil.copyfile(path_for(HEAD_REVISION), newer)
    with closing(sqlite3.connect(newer)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    assert look_into(newer).why_not == NEWER
    with pytest.raises(StoreError, match="newer version"), opened(newer):
        pass
    newer.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    assert "damaged" in look_into(newer).why_not
    newer.unlink()
    assert "no longer there" in look_into(newer).why_not


# --- killed for real ----------------------------------------------------------------------------

_CHILD = """
import sys
from pathlib import Path
from models.store.store import Store

sys.stdout.write("begun\\n")
sys.stdout.flush()
store = Store.open(Path(sys.argv[1]), backup_after_s=None)
store.opened.result()
sys.stdout.write("opened\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 25))]
)
def test_killed_while_it_is_restored(open_store: Any, data_dir: Path, seed: int) -> None:
    store = open_store()
    path = two_states(store)
    store.restore_at_start(path).result(20)
    store.close()
    dice = random.Random(seed)
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(dice.random() * 0.6)
    child.kill()
    child.communicate()
    again = open_store()
    assert titles(again) == {"old"}
    backups = again.list_backups().result(20).backups
    assert {"old", "new"} in [titles_in(Path(each.path)) for each in backups]


def test_a_second_window_that_reads_does_not_hold_it_up(open_store: Any, data_dir: Path) -> None:
    store = open_store()
    store.restore_at_start(two_states(store)).result(20)
    reader = Store.open(data_dir, read_only=True, backup_after_s=None)
    assert titles(reader) == {"old", "new"}
    store.create_conversation(a_conversation(title="in the log")).result(20)
    store.close()
    again = open_store()
    assert titles(again) == {"old"}
    again.create_conversation(a_conversation(title="later")).result(20)
    assert titles(reader) <= {"old", "new", "in the log", "later"}
    reader.close()
    again.close()
    assert titles(open_store()) == {"old", "later"}
    found = [titles_in(each.path) for each in list_backups(StoreFiles(data_dir).backups)]
    assert {"old", "new", "in the log"} in found


def test_where_all_backups_are_deleted_none_is_restored(open_store: Any, data_dir: Path) -> None:
    store = open_store()
    store.restore_at_start(two_states(store)).result(20)
    assert store.delete_backups().result(20) == 1
    assert store.list_backups().result(20).restores_at is None
    assert not list((data_dir / "db").glob("*restoring*"))
    store.close()
    assert titles(open_store()) == {"old", "new"}
