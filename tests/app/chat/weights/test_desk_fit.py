"""Whether files fit, asked at the desk: answers come later, each once, and the last wish counts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama

from app.chat import events
from app.chat.weights import fits
from app.engine.planning import host_memory
from app.engine.planning.fit import Fit, Verdict
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.loading_messages import LoadOptions, ReadDevices
from app.gguf.header import read_header
from app.library import outlines

GIB = 2**30
SCRIPT: dict[str, Any] = {"replies": [{"text": "blue sky"}]}


class Answers:
    """What came back, in order."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Fit]] = []

    def take(self, key: str, fit: Fit) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.found.append((key, fit))


def free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    monkeypatch.setattr(host_memory, "host_memory", lambda: (free_bytes, 32 * GIB))


def long(path: Path) -> Path:
    """With 100,000 tokens it takes 190 MiB, most of it a reserve for buffers."""
    tiny_llama(path, n_ctx_train=131_072)
    return path


def test_a_list_is_judged_file_by_file(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 8 * GIB)
    room, answers = make_room(SCRIPT), Answers()
    paths = [tmp_path / f"{number}.gguf" for number in range(3)]
    for path in paths[:2]:
        tiny_llama(path)
    paths[2].write_text("<!doctype html>")
    room.desk.fits.files([str(path) for path in [*paths, tmp_path / "gone.gguf"]], answers.take)
    assert answers.found == []
    room.until(lambda: len(answers.found) == 4, "all answers")
    assert [Path(key).name for key, _ in answers.found] == [
        *("0.gguf", "1.gguf", "2.gguf", "gone.gguf")
    ]
    assert [fit.words for _, fit in answers.found] == ["fits", "fits", *[fits.UNREADABLE] * 2]
    assert "no longer exists" in answers.found[3][1].why
    assert all(fit.why.endswith(".") for _, fit in answers.found)


def test_one_file_comes_before_a_list_and_the_last_wish_counts(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 400 * 2**20)
    path = long(tmp_path / "long.gguf")
    reading, gate = threading.Event(), threading.Event()
    read = outlines.read_header

    def slow(each: Path, **more: Any) -> Any:
        reading.set()
        assert gate.wait(10)
        return read(each, **more)

    monkeypatch.setattr(outlines, "read_header", slow)
    room, listed, single = make_room(SCRIPT), Answers(), Answers()
    room.desk.fits.files([str(path)] * 3, listed.take)
    assert reading.wait(10)
    room.desk.fits.file(str(path), single.take, LoadOptions(n_ctx=512))
    room.desk.fits.file(str(path), single.take, LoadOptions(n_ctx=100_000))
    gate.set()
    room.until(lambda: len(listed.found) == 3, "the list")
    assert len(single.found) == 1
    fit = single.found[0][1]
    assert (fit.n_ctx, fit.verdict) == (100_096, Verdict.FITS_LESS)


def test_a_disk_that_does_not_answer_holds_only_what_lies_on_it(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 8 * GIB)
    monkeypatch.setattr(fits, "STUCK_AFTER_S", 0.2)
    asleep, here = tmp_path / "asleep", tmp_path / "here"
    for folder in (asleep, here):
        folder.mkdir()
        for name in "abc":
            tiny_llama(folder / f"{name}.gguf")
    answers_again, read, asked = threading.Event(), outlines.read_header, []

    def slow(each: Path, **more: Any) -> Any:
        asked.append(each)
        if each.parent == asleep:
            assert answers_again.wait(20)
        return read(each, **more)

    monkeypatch.setattr(outlines, "read_header", slow)
    room, answers = make_room(SCRIPT), Answers()
    paths = [folder / f"{name}.gguf" for name in "abc" for folder in (asleep, here)]
    room.desk.fits.files([str(path) for path in paths], answers.take)
    room.until(lambda: len(answers.found) == 3, "the disk that answers")
    assert [Path(key).parent for key, _ in answers.found] == [here] * 3
    assert asked.count(asleep / "a.gguf") == 1
    assert asleep / "b.gguf" not in asked
    answers_again.set()
    room.until(lambda: len(answers.found) == 6, "the other disk")
    assert sorted(key for key, _ in answers.found) == sorted(map(str, paths))
    assert {fit.words for _, fit in answers.found} == {"fits"}


def test_nobody_is_called_after_a_stop(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 2 * GIB)
    path = tmp_path / "a.gguf"
    tiny_llama(path)
    room, stopped, other = make_room(SCRIPT), Answers(), Answers()
    room.desk.fits.files([str(path)] * 20, stopped.take)
    room.desk.fits.stop(stopped.take)
    room.desk.fits.files([str(path)], other.take)
    room.until(lambda: other.found, "the other one's answer")
    assert stopped.found == []


def test_headers_from_elsewhere_and_parts_of_a_set(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 8 * GIB)
    whole = tmp_path / "whole.gguf"
    tiny_llama(whole)
    header = read_header(whole)
    half = len(header.tensors) // 2
    parts = [
        replace(header, tensors=each) for each in (header.tensors[:half], header.tensors[half:])
    ]
    room, answers = make_room(SCRIPT), Answers()
    room.desk.fits.headers([header], "one", answers.take)
    room.desk.fits.headers(parts, "two", answers.take)
    room.until(lambda: len(answers.found) == 2, "both")
    (_, one), (_, two) = answers.found
    assert one == two


def test_a_set_of_files_is_judged_as_one(tmp_path):
    whole = tmp_path / "whole.gguf"
    tiny_llama(whole)
    alone = outlines.Outlines().read(str(whole))
    for number in (1, 2):
        os.link(whole, tmp_path / f"set-0000{number}-of-00002.gguf")
    both = outlines.Outlines().read(str(tmp_path / "set-00001-of-00002.gguf"))
    assert sum(both.layer_bytes) == 2 * sum(alone.layer_bytes)


def test_a_header_is_read_once_while_the_file_stays(tmp_path, monkeypatch):
    path = tmp_path / "a.gguf"
    tiny_llama(path)
    read, count = outlines.read_header, []
    monkeypatch.setattr(
        outlines, "read_header", lambda *a, **k: (count.append(1), read(*a, **k))[1]
    )
    kept = outlines.Outlines()
    first = kept.read(str(path))
    assert kept.read(str(path)) is first
    assert len(count) == 1
    tiny_llama(path, shape=Shape(n_layer=3))
    assert kept.read(str(path)).n_layer == 3
    assert len(count) == 2


def test_settings_of_weights_count(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 8 * GIB)
    path = long(tmp_path / "long.gguf")
    room, answers = make_room(SCRIPT), Answers()
    room.desk.settings.set("n_ctx", 4096)
    room.desk.fits.file(str(path), answers.take)
    room.until(lambda: answers.found, "the answer")
    assert answers.found[0][1].n_ctx == 4096
    assert room.desk.loader.options_of(str(path)).n_ctx == 4096


def test_adapters_count(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 8 * GIB)
    path, adapter = tmp_path / "a.gguf", tmp_path / "lora.gguf"
    tiny_llama(path)
    adapter.write_bytes(b"x" * 2**20)
    room, answers = make_room(SCRIPT), Answers()
    kinds = ([], [Lora(str(adapter))], [Lora("/gone.gguf"), Lora("\0")])
    for number, loras in enumerate(kinds, 1):
        room.desk.fits.file(str(path), answers.take, LoadOptions(loras=loras))
        room.until(lambda number=number: len(answers.found) == number, "the answer")
    plain, with_one, with_none = [fit.need_bytes for _, fit in answers.found]
    assert (with_one - plain, with_none) == (2**20, plain)


def test_rough_at_once(make_room, monkeypatch):
    free(monkeypatch, 8 * GIB)
    room = make_room(SCRIPT)
    assert room.desk.fits.rough(4 * GIB).words == "probably fits"
    assert room.desk.fits.rough(40 * GIB).words == "probably does not fit"


def test_what_loaded_weights_hold_counts_as_free(make_room, monkeypatch):
    free(monkeypatch, 2 * GIB)
    memory = [
        {"@": "MemoryPart", "device": "CPU", "what": "kv", "size_bytes": 3 * GIB},
        {"@": "MemoryPart", "device": "CPU_Mapped", "what": "weights", "size_bytes": 9 * GIB},
    ]
    room = make_room({**SCRIPT, "load": {"loaded": {"memory": memory}}}).start_ready()
    found = room.desk.fits.rough(3 * GIB)
    assert found.free_bytes == 5 * GIB
    assert found.words == "probably fits"
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped", "the unload")
    assert room.desk.fits.rough(3 * GIB).words == "probably does not fit"


def test_what_was_free_before_a_load_does_not_come_back_again(make_room, monkeypatch):
    """Hello and the first look are from before the load: nothing of the weights was in them."""
    free(monkeypatch, 8 * GIB)
    memory = [
        {"@": "MemoryPart", "device": device, "what": "kv", "size_bytes": GIB}
        for device in ("CPU", "CUDA0")
    ]
    load = {"loaded": {"memory": memory}}
    room = make_room({**SCRIPT, "load": load, "hello": {"devices": [gpu(20 * GIB), cpu()]}})
    assert room.desk.fits.rough(1).free_bytes == 8 * GIB
    room.start_ready()
    assert room.desk.fits.rough(1).free_bytes == 28 * GIB
    room.desk.fits.look()
    room.until(lambda: room.desk.fits.rough(1).free_bytes == 30 * GIB, "both looked at again")
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped", "the unload")
    assert room.desk.fits.rough(1).free_bytes == 28 * GIB


# --- what is free -------------------------------------------------------------------------------


def gpu(free_bytes: int) -> dict[str, Any]:
    text = {"name": "CUDA0", "description": "Made-up", "kind": "gpu"}
    return {"@": "Device", **text, "free_bytes": free_bytes, "total_bytes": 24 * GIB}


def cpu() -> dict[str, Any]:
    return {**gpu(1), "name": "CPU", "kind": "cpu", "total_bytes": 1}


def test_it_is_told_when_it_is_clearly_another_amount(make_room, monkeypatch):
    free(monkeypatch, 8 * GIB)
    room = make_room(SCRIPT).start_ready()
    look_until_told(room, lambda: room.of(events.MemoryChanged))
    free(monkeypatch, 8 * GIB - 2**20)
    room.desk.fits.look()
    room.until(lambda: room.desk.fits.machine().host.free_bytes == 8 * GIB - 2**20, "the look")
    assert len(room.of(events.MemoryChanged)) == 1
    free(monkeypatch, 7 * GIB)
    look_until_told(room, lambda: len(room.of(events.MemoryChanged)) == 2)
    assert room.desk.fits.machine().host.free_bytes == 7 * GIB


def look_until_told(room: Any, condition: Callable[[], Any]) -> None:
    room.desk.fits.look()
    room.until(condition, "the memory")


def test_graphics_devices_are_asked_beside_a_reply(make_room, monkeypatch):
    free(monkeypatch, 8 * GIB)
    slow = [{"tokens": [{"text": "on ", "ms": 5, "repeat": 4000}]}]
    script = {"replies": slow, "hello": {"devices": [gpu(20 * GIB), cpu()]}}
    room = make_room(script).start_ready()
    asked = []
    request = room.desk._engine.request
    monkeypatch.setattr(
        room.desk._engine,
        "request",
        lambda command, *to: (asked.append(command), request(command, *to))[1],
    )
    machine = room.desk.fits.machine()
    assert [(d.name, d.free_bytes) for d in machine.devices] == [
        ("CUDA0", 20 * GIB),
        ("CPU", 8 * GIB),
    ]
    room.desk.replies.send("Go")
    room.until(lambda: len(room.of(events.TokenRecorded)) > 3, "some tokens")
    look_until_told(room, lambda: room.of(events.MemoryChanged))
    assert any(isinstance(command, ReadDevices) for command in asked)
    assert room.desk.replies.is_generating
    room.desk.replies.stop()


def test_without_an_engine_the_host_alone_is_known(make_room, monkeypatch):
    free(monkeypatch, 3 * GIB)
    room = make_room(SCRIPT)
    assert [device.name for device in room.desk.fits.machine().devices] == ["CPU"]
    assert room.desk.fits.machine().host.free_bytes == 3 * GIB
    look_until_told(room, lambda: room.of(events.MemoryChanged))


def test_where_memory_cannot_be_read_it_stays_as_it_was(make_room, monkeypatch):
    free(monkeypatch, 3 * GIB)
    room = make_room(SCRIPT)
    assert room.desk.fits.machine().host.free_bytes == 3 * GIB

    def broken() -> tuple[int, int]:
        raise OSError("no /proc here")

    monkeypatch.setattr(host_memory, "host_memory", broken)
    room.desk.fits.look()
    time.sleep(0.05)
    room.pump()
    free(monkeypatch, 2 * GIB)
    look_until_told(room, lambda: room.desk.fits.machine().host.free_bytes == 2 * GIB)


def test_a_question_at_the_end_is_dropped(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 2 * GIB)
    path = tmp_path / "a.gguf"
    tiny_llama(path)
    room, answers = make_room(SCRIPT), Answers()
    room.desk.fits.files([str(path)] * 50, answers.take)
    room.desk.shutdown()
    room.desk.fits.files([str(path)], answers.take)
    room.desk.fits.look()
    time.sleep(0.1)
    room.pump()
    assert answers.found == []


def test_a_fault_of_ours_ends_neither_the_thread_nor_the_list(make_room, tmp_path, monkeypatch):
    free(monkeypatch, 2 * GIB)
    path = tmp_path / "a.gguf"
    tiny_llama(path)
    real = outlines.outline_of
    faults = [ZeroDivisionError("a fault"), None]

    def outline_of(header: Any) -> Any:
        if (fault := faults.pop(0)) is not None:
            raise fault
        return real(header)

    monkeypatch.setattr(outlines, "outline_of", outline_of)
    room, answers = make_room(SCRIPT), Answers()
    room.desk.fits.files([str(path)] * 2, answers.take)
    room.until(lambda: len(answers.found) == 2, "both answers")
    assert [fit.words for _, fit in answers.found] == [fits.UNREADABLE, "fits"]
    assert answers.found[0][1].why == fits.FAULT
