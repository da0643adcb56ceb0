"""Chats whose KV state outlives the engine: what is written, what comes back, and what does not."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary
from made_adapters import write_vector
from native_session import load_quietly
from recurrent_gguf import tiny_mamba
from saved_session import KEY, SavedSession

from app.engine.process.cache import keeping, saved as saved_states
from app.engine.process.cache.cells import Cells
from app.engine.process.cache.keeping import SAVED_LOST
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.protocol.adapter_messages import Adapters, ControlVector
from app.engine.protocol.cache_messages import CacheMap, ChangeCache, ReadCache
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import Failed, Finished
from app.engine.protocol.saved_messages import (
    PART_SUFFIX,
    SUFFIX,
    DropSaved,
    ForgetChats,
    name_start,
)

pytestmark = pytest.mark.weights

PROMPT = [1 + (7 * i) % 700 for i in range(300)]
Run = Callable[..., SavedSession]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


@pytest.fixture
def run(made: Weights, native_log: NativeLog, folder: Path) -> Iterator[Run]:
    """Begins another run of the engine; the one before ends."""
    last: list[SavedSession] = []

    def begin(**options: Any) -> SavedSession:
        end()
        session = SavedSession(options.pop("weights", made), native_log, folder, **options)
        last.append(session)
        return session

    def end() -> None:
        while last:
            last.pop().end()

    yield begin
    end()


@pytest.fixture
def native_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each state that llama.cpp was given."""
    given: list[int] = []
    restore = Cells.restore

    def counted(self: Cells, data: Any, ids: Any) -> bool:
        given.append(len(data))
        return restore(self, data, ids)

    monkeypatch.setattr(Cells, "restore", counted)
    return given


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def told(session: SavedSession) -> CacheMap:
    ending = session.scheduler.cache.answer(ReadCache(1))
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, CacheMap)
    return ending.result


def grown(ids: list[int], summary: Any, *more: int) -> list[int]:
    """The prompt of the next turn."""
    return [*ids, *summary.token_ids, *(more or (5, 6, 7))]


# --- back after the end ---------------------------------------------------------------------------


def check_restored_equals_unrestored(
    begin: Callable[[], SavedSession], prompt: list[int], length: int
) -> None:
    """Two turns in one run, and the second one again in a run of its own: text and all numbers."""
    first = begin()
    turn = first.chat(prompt)
    first.save()
    second = grown(prompt, turn)
    unrestored = first.chat(second, length=length, is_stored=False)  # so it isn't saved over
    traces = [event.token for event in first.tokens(2)]
    assert unrestored.reuse_source == "slot"
    again = begin()
    restored = again.chat(second, length=length)
    assert (restored.reuse_source, restored.reused) == ("saved", unrestored.reused)
    assert restored.token_ids == unrestored.token_ids
    logprobs = [event.token.logprob for event in again.tokens(1)]
    assert logprobs == [trace.logprob for trace in traces]
    assert again.notes() == []


@pytest.fixture(scope="module")
def made_state(
    native_log: NativeLog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weights]:
    """Weights that keep one state, which cannot be cut."""
    path = tmp_path_factory.mktemp("made") / "mamba.gguf"
    tiny_mamba(path, vocabulary=bpe_vocabulary(f" {a}{b}" for a in ascii_lowercase for b in "qrst"))
    weights = load_quietly(path, native_log, n_ctx=1024, n_ubatch=64, n_threads=1)
    yield weights
    weights.close()


@pytest.mark.parametrize("name", ["made", "made_window", "made_state"])
def test_a_restored_chat_equals_an_unrestored_one(
    name: str, request: pytest.FixtureRequest, native_log: NativeLog, run: Run
) -> None:
    weights = request.getfixturevalue(name)
    ids = [token_id % weights.vocabulary.n_vocab for token_id in PROMPT]
    check_restored_equals_unrestored(lambda: run(weights=weights), ids, 8)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_on_both_files(
    name: str, request: pytest.FixtureRequest, native_log: NativeLog, run: Run
) -> None:
    weights: Weights = request.getfixturevalue(name)
    text = "The lighthouse keeper counted the ships, wrote their names into his book, and slept. "
    prompt = weights.vocabulary.tokenize(text * 30, False, True)[:700]
    check_restored_equals_unrestored(lambda: run(weights=weights), prompt, 60)


def test_what_slots_hold_at_the_end_is_saved(run: Run, folder: Path) -> None:
    summary = run().chat(PROMPT)
    again = run()
    (path,) = files(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    reply = again.chat(grown(PROMPT, summary))
    assert reply.reused == len(PROMPT) + len(summary.token_ids) - 1
    assert reply.reuse_source == "saved"
    restoring = [span.kind for span in reply.timeline if span.kind == "restoring"]
    assert restoring


def test_what_is_being_written_as_the_engine_ends_is_written_in_time(
    run: Run, folder: Path
) -> None:
    """The thread of low priority may not come to it any more."""
    session = run()
    session.wait_for_scan()
    summary = session.chat(PROMPT)
    session.keeping.states.disturb(True)
    session.keeping._write_slot(session.keeping._unsaved_slots()[0])
    session.end()
    assert len(files(folder)) == 1
    assert not list(folder.glob(f"*{PART_SUFFIX}"))
    assert run().chat(grown(PROMPT, summary)).reuse_source == "saved"


def test_what_cannot_be_written_in_time_is_left(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "SAVE_AT_END_S", 0.0)
    session = run()
    session.chat(PROMPT)
    session.end()
    assert not folder.exists() or not list(folder.iterdir())


def test_the_longest_beginning_wins_in_a_chat_with_branches(run: Run) -> None:
    other = [*PROMPT[:40], *range(300, 600)]
    first = run()
    ends = [grown(ids, first.chat(ids)) for ids in (PROMPT, other)]
    second = run()
    second.wait_for_scan()
    assert len(told(second).saved) == 2
    for ids in (PROMPT, other):
        kept = second.chat([*ids, 9, 9]).reused
        assert kept == len(ids)
    assert all(len(end) > len(ids) for end, ids in zip(ends, (PROMPT, other), strict=True))


def test_a_longer_file_replaces_the_one_that_it_can_stand_for(run: Run, folder: Path) -> None:
    session, ids = run(), PROMPT
    for _ in range(3):
        ids = grown(ids, session.chat(ids))
        session.save()
    session.keeping.states.wait_written(60)
    assert len(told(session).saved) == len(files(folder)) == 1


def test_what_was_counted_is_in_host_memory_before_it_is_asked_for(run: Run) -> None:
    summary = run().chat(PROMPT)
    again = run()
    again.wait_for_scan()
    ids = grown(PROMPT, summary)
    again.keeping.foresee(ids)
    assert again.keeping.idle_s == 0.0
    again.keeping.tend(is_idle=True)
    again.wait_for_news()
    again.keeping.tend(is_idle=True)
    (copy,) = told(again).parked
    assert copy.n_tokens == len(PROMPT) + len(summary.token_ids) - 1
    reply = again.chat(ids)
    assert reply.reuse_source == "saved"
    assert again.keeping.states.fetching is None


def test_what_a_request_waits_for_is_not_taken_from_under_it(run: Run) -> None:
    """The context's thread looks round for what is due just as the file has been read."""
    summary = run().chat(PROMPT)
    again = run()
    again.wait_for_scan()
    again.scheduler.keeping.states.take_news()
    request_id = again.add(grown(PROMPT, summary), max_tokens=2, conversation="a", is_stored=True)
    again.scheduler.step()
    assert not again.scheduler.has_work
    again.wait_for_news()
    again.keeping.tend(is_idle=True)
    assert again.scheduler.has_work
    again.run()
    ending = again.ending(request_id)
    assert isinstance(ending, Finished)
    assert ending.result.reuse_source == "saved"


def test_nobody_waits_for_a_disk_that_hangs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = run().chat(PROMPT)
    now, may_read = [0.0], threading.Event()
    again = run(clock=lambda: now[0])
    again.wait_for_scan()
    read = saved_states.saved_file.read

    def slow(*arguments: Any) -> Any:
        assert may_read.wait(60)
        return read(*arguments)

    monkeypatch.setattr(saved_states.saved_file, "read", slow)
    ids = grown(PROMPT, summary)
    first = again.add(ids, max_tokens=2, conversation="a", is_stored=True)
    again.run()
    wait_s = again.keeping.idle_s
    assert wait_s is not None
    now[0] += wait_s
    assert not again.scheduler.has_work
    now[0] += 0.01
    again.run()
    assert isinstance(ending := again.ending(first), Finished)
    assert ending.result.reused == 0
    may_read.set()
    again.wait_for_news()
    again.keeping.tend(is_idle=True)
    assert len(told(again).parked) == 1


def test_it_comes_back_where_nothing_can_be_parked(run: Run) -> None:
    summary = run().chat(PROMPT)
    again = run(options=LoadOptions(parked_bytes=0))
    reply = again.chat(grown(PROMPT, summary))
    assert reply.reuse_source == "saved"
    again.keeping.tend(is_idle=True)
    assert told(again).parked == []
    assert again.scheduler._space.parking.guest is None


def test_what_is_larger_than_the_window_is_left_where_it_is(
    run: Run, made_gguf: Path, native_log: NativeLog, native_reads: list[int]
) -> None:
    run().chat(PROMPT)
    small = load_quietly(made_gguf, native_log, n_ctx=256, n_ubatch=64, n_threads=1)
    try:
        session = run(weights=small)
        session.wait_for_scan()
        assert session.chat(PROMPT[:200]).reused == 0
        assert session.keeping.states.fetching is None
        assert not native_reads
    finally:
        run().end()
        small.close()


# --- what is never written ------------------------------------------------------------------------


def test_a_chat_that_is_not_stored_is_never_written(run: Run, folder: Path) -> None:
    session = run()
    session.chat(PROMPT, "temporary", is_stored=False)
    session.chat(list(range(400, 700)), "another", is_stored=False)
    assert told(session).parked
    assert session.keeping.idle_s is None
    session.save()
    run()
    assert not files(folder)


def test_a_second_window_reads_and_never_writes_or_removes(run: Run, folder: Path) -> None:
    summary = run().chat(PROMPT)
    run().end()
    before = {path: path.stat().st_mtime_ns for path in files(folder)}
    (folder / f"left{PART_SUFFIX}").write_bytes(b"of another window that is just writing")
    second = run(may_write=False, cap_bytes=10)
    reply = second.chat(grown(PROMPT, summary))
    assert reply.reuse_source == "saved"
    refused = second.scheduler.cache.answer(DropSaved(5))
    assert isinstance(refused, Failed)
    second.scheduler.cache.answer(ChangeCache(6, "clear"))
    second.end()
    assert {path: path.stat().st_mtime_ns for path in files(folder)} == before
    assert (folder / f"left{PART_SUFFIX}").exists()


def test_a_full_disk_is_a_line_in_the_log(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        saved_states.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 0)
    )
    session = run()
    session.chat(PROMPT)
    session.save()
    assert not list(folder.iterdir())
    assert "cannot be written" in session.log_lines()[-1]
    assert session.keeping.idle_s is None  # it isn't tried over and over
    assert session.chat([*PROMPT, 3]).stop_reason == "max_tokens"


def test_a_write_that_fails_leaves_nothing(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_states.saved_file.os, "fsync", fail)
    session = run()
    session.chat(PROMPT)
    session.save()
    assert not list(folder.iterdir())


# --- what never reaches native code ---------------------------------------------------------------


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: _flip(path, 0),
        lambda path: _flip(path, 9),
        lambda path: _flip(path, 400),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"GGUF" * 1000),
    ],
    ids=["version", "length", "head", "short", "long", "empty", "foreign"],
)
def test_a_file_that_is_not_as_it_was_written_is_never_used(
    spoil: Callable[[Path], object], run: Run, folder: Path, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    session = run()
    session.end()
    spoil(files(folder)[0])
    again = run()
    reply = again.chat(grown(PROMPT, summary))
    assert (reply.reused, reply.stop_reason) == (0, "max_tokens")
    assert not native_reads
    assert any("it is not used" in line for line in again.log_lines())


@pytest.mark.parametrize("at", [-1, -1_000])
def test_a_flipped_bit_in_the_data_is_one_full_pass_and_a_quiet_line(
    at: int, run: Run, folder: Path, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    run().end()
    _flip(files(folder)[0], at)
    again = run()
    reply = again.chat(grown(PROMPT, summary))
    assert reply.reused == 0
    assert not native_reads
    assert again.notes() == [SAVED_LOST]
    again.chat([*PROMPT, 3])
    assert again.notes() == [SAVED_LOST]  # said once


def test_two_chunks_that_change_places_are_found(
    run: Run, folder: Path, native_reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_states.saved_file, "CHUNK_BYTES", 4096)
    summary = run().chat(PROMPT)
    run().end()
    (path,) = files(folder)
    data = path.read_bytes()
    path.write_bytes(data[:-8192] + data[-4096:] + data[-8192:-4096])
    reply = run().chat(grown(PROMPT, summary))
    assert reply.reused == 0
    assert not native_reads


def test_another_installation_s_files_are_not_used(
    run: Run, folder: Path, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    reply = run(key=KEY[::-1]).chat(grown(PROMPT, summary))
    assert reply.reused == 0
    assert not native_reads


@pytest.mark.parametrize("key", [b"", KEY[:-1], KEY * 3], ids=["none", "short", "long"])
def test_nothing_is_read_or_written_with_what_is_no_key(
    key: bytes, run: Run, folder: Path, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    run().end()
    (before,) = files(folder)
    reply = run(key=key).chat(grown(PROMPT, summary))
    assert reply.reused == 0
    run().end()
    assert files(folder) == [before]
    assert not native_reads


def test_another_version_s_files_are_removed(
    run: Run, folder: Path, native_reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.engine.process.native import native

    summary = run().chat(PROMPT)
    run().end()
    before = files(folder)
    with monkeypatch.context() as patch:
        patch.setattr(native, "library_version", lambda: "another")
        reply = run().chat(grown(PROMPT, summary), is_stored=False)
    assert reply.reused == 0
    assert not native_reads
    assert before
    assert not files(folder)


def test_a_file_of_other_weights_stays_and_is_not_used(
    run: Run, folder: Path, made_window: Weights, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    other = run(weights=made_window)
    reply = other.chat(grown(PROMPT, summary), is_stored=False)
    assert reply.reused == 0
    assert not native_reads
    (copy,) = told(other).saved
    assert not copy.is_usable
    assert len(files(folder)) == 1


def test_another_cache_type_is_another_state(
    run: Run, folder: Path, made_gguf: Path, native_log: NativeLog, native_reads: list[int]
) -> None:
    summary = run().chat(PROMPT)
    weights = load_quietly(
        made_gguf, native_log, n_ctx=1024, n_ubatch=64, n_threads=1, type_k="f32", type_v="f32"
    )
    try:
        reply = run(weights=weights).chat(grown(PROMPT, summary), is_stored=False)
        assert reply.reused == 0
        assert not native_reads
    finally:
        run().end()
        weights.close()


def test_a_file_that_went_meanwhile_is_one_full_pass(run: Run, folder: Path) -> None:
    summary = run().chat(PROMPT)
    session = run()
    session.wait_for_scan()
    files(folder)[0].unlink()
    reply = session.chat(grown(PROMPT, summary))
    assert (reply.reused, reply.stop_reason) == (0, "max_tokens")
    assert session.notes() == [SAVED_LOST]


# --- by hand, and by itself -----------------------------------------------------------------------


def test_the_longest_unused_goes_first(run: Run, folder: Path) -> None:
    session = run()
    for number, name in enumerate("abc"):
        session.chat([100 * number + i for i in range(100)], name)
        session.save()
    sizes = [copy.size_bytes for copy in told(session).saved]
    session.end()
    again = run(cap_bytes=sum(sizes) - 1)
    again.wait_for_scan()
    again.end()
    assert [copy.conversation for copy in told(again).saved] == ["b", "c"]
    assert {path.name.partition("-")[0] for path in files(folder)} == set(map(name_start, "bc"))


def test_a_chat_has_so_many_branches_and_no_more(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_states, "MOST_OF_CHAT", 2)
    session = run()
    for first in (1, 2, 3):
        session.chat([first, *PROMPT[:60]])
        session.save()
    assert [copy.n_tokens for copy in told(session).saved] == [64, 64]
    assert session.keeping.states.best([1, *PROMPT], 60)[1] == 0
    assert len(files(folder)) == 2


def test_what_a_run_has_left_half_written_goes(run: Run, folder: Path) -> None:
    run().chat(PROMPT)
    run().end()
    left = folder / f"left{PART_SUFFIX}"
    left.write_bytes(b"the beginning of")
    run().wait_for_scan()
    assert not left.exists()


@pytest.mark.parametrize("act", ["drop", "clear", "number", "all"])
def test_what_is_dropped_is_gone_and_not_written_again(act: str, run: Run, folder: Path) -> None:
    session = run()
    session.chat(PROMPT)
    session.save()
    (copy,) = told(session).saved
    command: Any = {
        "drop": ChangeCache(1, "drop", "a"),
        "clear": ChangeCache(1, "clear"),
        "number": DropSaved(1, number=copy.number),
        "all": DropSaved(1),
    }[act]
    assert isinstance(session.scheduler.cache.answer(command), Finished)
    assert told(session).saved == []
    run()
    assert not files(folder)


def test_a_prefix_that_is_kept_is_all_that_is_left(run: Run, folder: Path) -> None:
    session = run()
    session.chat(PROMPT)
    session.save()
    answer = session.scheduler.cache.answer(ChangeCache(1, "keep_prefix", "a", keep=50))
    assert isinstance(answer, Finished)
    reply = run().chat([*PROMPT, 4])
    assert reply.reused == 50


def test_nothing_is_saved_where_the_cap_is_nothing(run: Run, folder: Path) -> None:
    run().chat(PROMPT)
    off = run(cap_bytes=0)
    off.wait_for_scan()
    off.chat(PROMPT)
    off.end()
    assert not files(folder)


def test_a_talk_is_written_some_time_after_its_last_reply(run: Run, folder: Path) -> None:
    now = [100.0]
    session = run(clock=lambda: now[0])
    session.wait_for_scan()
    session.chat(PROMPT)
    session.keeping.tend(is_idle=True)
    wait_s = session.keeping.idle_s
    assert wait_s is not None
    assert wait_s > 2.0
    now[0] += wait_s
    session.keeping.tend(is_idle=False)  # somebody is answered just now
    assert not session.keeping.states.is_writing
    session.keeping.tend(is_idle=True)
    assert session.keeping.states.wait_written(60)
    assert len(files(folder)) == 1
    assert session.keeping.idle_s is None


def test_nothing_is_written_while_somebody_is_answered(run: Run, folder: Path) -> None:
    session = run()
    session.wait_for_scan()
    session.chat(PROMPT)
    states, waits = session.keeping.states, threading.Event()

    class Quiet(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.set()
            return super().wait(timeout)

    states._quiet = Quiet()
    states.disturb(True)
    session.keeping._write_slot(session.keeping._unsaved_slots()[0])
    assert waits.wait(60)
    assert not list(folder.iterdir())
    states.disturb(False)
    assert states.wait_written(60)
    assert len(files(folder)) == 1


def test_what_was_computed_with_adapters_comes_back_for_the_same_alone(
    run: Run, tmp_path: Path
) -> None:
    first = run()
    path = tmp_path / "vector.gguf"
    write_vector(path, first.weights.n_layer, first.weights.n_embd)
    steered = Adapters(vectors=[ControlVector(str(path), 0.5)])
    summary = first.chat(PROMPT, adapters=steered)
    again, ids = run(), grown(PROMPT, summary)
    again.wait_for_scan()
    assert again.chat(ids).reused == 0
    assert again.chat(ids, adapters=steered).reuse_source == "saved"
    louder = Adapters(vectors=[ControlVector(str(path), 0.6)])
    assert again.chat(ids, adapters=louder).reused == 0
    again.weights.use(again.weights.usual_adapters)  # others decode with this context, too


@pytest.mark.parametrize("act", ["drop", "number", "deleted"])
def test_what_is_dropped_of_one_chat_costs_no_other_its_file(
    act: str, run: Run, folder: Path
) -> None:
    session = run()
    session.chat(PROMPT)
    session.save()
    (copy,) = told(session).saved
    session.chat([9, *PROMPT], "b")  # is to be saved at the end
    command: Any = {
        "drop": ChangeCache(1, "drop", "a"),
        "number": DropSaved(1, number=copy.number),
        "deleted": ForgetChats(1, ["a"]),
    }[act]
    assert isinstance(session.scheduler.cache.answer(command), Finished)
    again = run()
    again.wait_for_scan()
    assert [copy.conversation for copy in told(again).saved] == ["b"]


def test_what_was_steered_and_dropped_is_not_written_again(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    session = run()
    path = tmp_path / "vector.gguf"
    write_vector(path, session.weights.n_layer, session.weights.n_embd)
    session.chat(PROMPT, adapters=Adapters(vectors=[ControlVector(str(path), 0.5)]))
    session.wait_for_scan()
    assert isinstance(session.scheduler.cache.answer(DropSaved(1)), Finished)
    session.end()
    session.weights.use(session.weights.usual_adapters)  # others decode with this context, too
    assert not files(folder)


def test_a_clock_that_was_set_back_does_not_make_the_newest_chat_the_oldest(
    run: Run, folder: Path
) -> None:
    session = run()
    for name in "ab":
        session.chat([ord(name), *PROMPT], name)
        session.save()
    later = time.time() + 86_400
    for at, path in enumerate(sorted(files(folder), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (later + at, later + at))
    size_bytes = told(session).saved[0].size_bytes
    session = run(cap_bytes=2 * size_bytes + size_bytes // 2)
    session.wait_for_scan()
    assert all(copy.used_at <= time.time() for copy in told(session).saved)
    session.chat([ord("c"), *PROMPT], "c")
    session.save()
    assert [copy.conversation for copy in told(session).saved] == ["b", "c"]
    run().wait_for_scan()
    assert all(path.stat().st_mtime <= time.time() for path in files(folder))
