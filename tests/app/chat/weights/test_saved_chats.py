"""What chats leave on disk, through the desk: the key, who is saved, and what goes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from app.chat.surroundings import ALWAYS
from app.chat.weights.saved_chats import FOLDER, KEY_FILE, MB
from app.engine.protocol.cache_messages import CacheMap
from app.engine.protocol.messages import Done
from app.engine.protocol.saved_messages import (
    KEY_BYTES,
    PART_SUFFIX,
    SUFFIX,
    SaveChats,
    name_start,
)


def map_of(room: Any) -> CacheMap:
    answers: list[Any] = []
    room.desk.cache.read(answers.append, answers.append, still=ALWAYS)
    room.until(lambda: answers, "the map")
    assert isinstance(answers[0], CacheMap), answers
    return answers[0]


def on_disk(room: Any, conversation_id: str, suffix: str = SUFFIX, size: int = 1000) -> Path:
    """A file as the engine would write it for this chat."""
    folder = room.data_dir / FOLDER
    folder.mkdir(exist_ok=True)
    path: Path = folder / f"{name_start(conversation_id)}-0123{suffix}"
    path.write_bytes(bytes(size))
    return path


def with_key(room: Any) -> Any:
    room.until(lambda: room.desk.saved_chats.for_engine(), "the key")
    return room


def test_the_key_is_made_once_and_for_its_owner_alone(make_room: Any, data_dir: Path) -> None:
    first = with_key(make_room().start())
    path = data_dir / KEY_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    key = path.read_bytes()
    assert len(key) == KEY_BYTES
    told = first.desk.saved_chats.for_engine()
    assert told.key == key
    assert told.may_write
    assert told.cap_bytes == first.desk.settings.now.saved_chats_mb * MB
    assert repr(key) not in repr(told)
    first.close()
    again = with_key(make_room().start())
    assert again.desk.saved_chats.for_engine().key == key
    again.close()
    path.write_bytes(b"no key")
    with_key(make_room().start()).close()
    assert len(path.read_bytes()) == KEY_BYTES
    if hasattr(os, "mkfifo"):  # nobody waits for who never writes
        path.unlink()
        os.mkfifo(path)
        with_key(make_room().start())
        assert path.is_file()


def test_a_second_window_makes_no_key_and_may_not_write(make_room: Any, data_dir: Path) -> None:
    second = make_room(read_only=True).start_ready()
    second.until(lambda: second.desk.around.store_state.state == "read_only")
    assert second.desk.saved_chats.for_engine() is None
    assert not (data_dir / KEY_FILE).exists()
    with_key(make_room().start())
    third = with_key(make_room(read_only=True).start_ready())
    assert not third.desk.saved_chats.for_engine().may_write
    path = on_disk(third, "gone")
    third.desk.saved_chats.drop_all(lambda: pytest.fail("nothing may be removed"))
    third.desk.saved_chats.forget(["gone"])
    third.desk.saved_chats.sweep()
    assert map_of(third).saved == []
    assert path.exists()


def test_stored_chats_are_saved_and_a_temporary_one_is_not(make_room: Any) -> None:
    room = with_key(make_room().start_ready())
    room.ask("Capital?")
    (copy,) = map_of(room).saved
    assert copy.conversation == room.desk.shelf.open.id
    room.desk.temporary.open()
    room.ask("A secret?")
    assert [each.conversation for each in map_of(room).saved] == [copy.conversation]
    room.desk.saved_chats.drop_all(lambda: None)
    room.until(lambda: not map_of(room).saved)


def test_what_is_deleted_for_good_goes_from_the_disk(make_room: Any) -> None:
    room = with_key(make_room().start_ready())
    room.ask("Capital?")
    chat = room.desk.shelf.open.id
    path, part = on_disk(room, chat), on_disk(room, chat, PART_SUFFIX)
    room.desk.folders.trash([chat])
    room.until(lambda: room.store.list_trash().result(20))
    assert path.exists()  # it can still come back
    room.desk.folders.delete_for_good([chat])
    room.until(lambda: not path.exists() and not part.exists())
    assert map_of(room).saved == []


def test_what_belongs_to_no_chat_goes_at_the_start(make_room: Any) -> None:
    room = with_key(make_room().start_ready())
    room.ask("Capital?")
    ours, orphan = on_disk(room, room.desk.shelf.open.id), on_disk(room, "of nobody")
    foreign = orphan.with_name("notes.txt")
    foreign.write_text("a file of somebody")
    room.close()
    again = make_room().start_ready()
    again.until(lambda: not orphan.exists())
    assert ours.exists()
    assert foreign.exists()


def test_they_are_measured_and_go_where_they_are_turned_off(make_room: Any) -> None:
    room = with_key(make_room().start_ready())
    room.ask("Capital?")
    path = on_disk(room, room.desk.shelf.open.id, size=5000)
    sizes: list[int] = []
    room.desk.saved_chats.measure(sizes.append, still=ALWAYS)
    room.until(lambda: sizes)
    assert sizes == [5000]
    room.desk.settings.set("saved_chats_mb", 0)
    room.until(lambda: not path.exists())
    assert room.desk.saved_chats.for_engine().cap_bytes == 0
    assert map_of(room).saved_cap_bytes == 0


# --- with llama.cpp -------------------------------------------------------------------------------


@pytest.fixture
def make_real(forked_engines: None, make_room: Any, made_gguf: Path) -> Any:
    """Rooms with the real engine, that answer with eight tokens."""

    def make(**options: Any) -> Any:
        room = make_room(gguf=made_gguf, is_real=True, **options).start()
        for name, value in (("n_threads", 1), ("max_tokens", 8), ("min_tokens", 8)):
            room.desk.settings.set(name, value)
        room.until(lambda: room.desk.loader.state.state == "ready")
        return with_key(room)

    return make


QUESTION = "Tell me about the lighthouse at the end of the world, and of who lives there."


def saved_files(data_dir: Path) -> list[Path]:
    return sorted((data_dir / FOLDER).glob(f"*{SUFFIX}"))


def save_now(room: Any) -> None:
    done: list[Any] = []
    room.desk.questions.ask(SaveChats(0), Done, done.append, done.append, still=ALWAYS)
    room.until(lambda: done)
    assert done == [Done()]


@pytest.mark.weights
def test_a_chat_goes_on_after_a_restart_as_if_it_had_not_been_closed(
    make_real: Any, data_dir: Path
) -> None:
    room = make_real()
    first = room.ask(QUESTION)
    room.close()
    (path,) = saved_files(data_dir)
    assert path.stat().st_mode & 0o777 == 0o600
    again = make_real()
    again.until(lambda: again.desk.shelf.path)
    again.until(lambda: map_of(again).parked)  # it was counted as it came on screen
    reply = again.ask("And then?")
    assert reply.settings["reuse_source"] == "saved"
    # Random weights say what is no text, and that is cut anew; the prompt is the same.
    assert reply.counts.reused >= first.counts.prompt_tokens


@pytest.mark.weights
def test_a_temporary_chat_is_never_written(make_real: Any, data_dir: Path) -> None:
    room = make_real()
    room.desk.temporary.open()
    room.ask(QUESTION)
    save_now(room)
    room.close()
    assert saved_files(data_dir) == []


@pytest.mark.weights
def test_what_was_written_holds_when_the_engine_is_killed(make_real: Any, data_dir: Path) -> None:
    room = make_real()
    room.ask(QUESTION)
    save_now(room)
    os.kill(room.desk.loader.engine.hello.pid, signal.SIGKILL)
    room.until(lambda: room.desk.loader.state.state == "crashed")
    reply = room.ask("And then?")  # loads again by itself
    assert reply.settings["reuse_source"] == "saved"
