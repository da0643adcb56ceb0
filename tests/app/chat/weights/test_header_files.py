"""Headers are looked into beside the window: answers, refusals, copies and the end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Shape, tiny_llama

from app.chat.alarms import Alarms
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.header_files import HeaderFiles
from app.gguf import rewrite
from app.gguf.fingerprint import fast_hash
from app.gguf.header import read_header
from app.gguf.values import value_typed

CHANGES = {"general.name": value_typed("string", "Another")}


class Turns:
    """The owner's thread: what is posted runs when a test asks for it."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.answers: list[Any] = []
        self.told: list[tuple[int, int]] = []
        post = self.posted.put
        self.around = Surroundings(post=post, emit=lambda _: None, alarms=Alarms(post))
        self.files = HeaderFiles(self.around)

    def answer(self) -> Any:
        while not self.answers:
            self.posted.get(timeout=10)()
        return self.answers.pop(0)

    def copy(self, original: Path, target: Path) -> Any:
        return self.files.write_copy(
            original,
            target,
            CHANGES,
            on_progress=lambda done, total: self.told.append((done, total)),
            then=self.answers.append,
            failed=self.answers.append,
        )


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    made.around.alarms.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "weights.gguf")
    return tmp_path / "weights.gguf"


def test_a_header_and_its_values(turns: Turns, path: Path) -> None:
    put = turns.answers.append
    turns.files.read(path, put, put, still=ALWAYS)
    shown = turns.answer()
    assert shown.facts.architecture == "llama"
    tokens = shown.header.entries["tokenizer.ggml.tokens"]
    turns.files.read_items(path, tokens, 1, 2, put, put, still=ALWAYS)
    assert [item.text for item in turns.answer()] == ["<|im_start|>", "<|im_end|>"]
    turns.files.read_text(
        path, shown.header.entries["tokenizer.ggml.model"], put, put, still=ALWAYS
    )
    assert turns.answer().text == "gpt2"


def test_how_a_file_tells_the_order_of_words(turns: Turns, path: Path) -> None:
    put = turns.answers.append
    turns.files.position(path, put, put, still=ALWAYS)
    found = turns.answer()
    assert (found.kind, found.scaling) == ("rope", "none")
    assert found.rope.n_dims == Shape().n_embd // Shape().n_head
    assert found.rope.base == 10_000
    path.write_bytes(b"<!DOCTYPE html>")
    turns.files.position(path, put, put, still=ALWAYS)
    assert "a web page" in turns.answer()


def test_the_fingerprint_is_that_of_the_file_as_it_lies_there(turns: Turns, path: Path) -> None:
    put = turns.answers.append
    turns.files.fingerprint(path, put, put, still=ALWAYS)
    first = turns.answer()
    assert first == fast_hash(read_header(path))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    turns.files.fingerprint(path, put, put, still=ALWAYS)
    assert turns.answer() not in (first, "")


def test_what_cannot_be_read_is_a_sentence(turns: Turns, path: Path) -> None:
    put = turns.answers.append
    path.write_bytes(b"<!DOCTYPE html>")
    turns.files.read(path, put, put, still=ALWAYS)
    assert "a web page" in turns.answer()
    turns.files.read(path.with_name("none.gguf"), put, put, still=ALWAYS)
    assert "no longer exists" in turns.answer()


def test_a_fault_of_ours_is_a_sentence_too(
    turns: Turns, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.library.header_shown.read_shown", lambda _: 1 / 0)
    turns.files.read(path, turns.answers.append, turns.answers.append, still=ALWAYS)
    assert turns.answer() == "The header of this file couldn't be read (ZeroDivisionError)."


def test_a_copy_is_told_of_to_its_end(turns: Turns, path: Path) -> None:
    target = path.with_name("copy.gguf")
    turns.copy(path, target)
    assert turns.answer() == target
    size = target.stat().st_size
    assert turns.told[-1] == (size, size)
    turns.copy(path, target)
    assert "exists" in turns.answer()


class Held:
    """Holds a copy at its first byte until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        put = rewrite._Copy._put

        def held(copy: Any, file: Any, data: bytes) -> None:
            self.begun.set()
            self.go.wait(10)
            put(copy, file, data)

        monkeypatch.setattr(rewrite._Copy, "_put", held)


def test_a_copy_is_cancelled(turns: Turns, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    job = turns.copy(path, path.with_name("copy.gguf"))
    assert held.begun.wait(10)
    assert [each.suffix for each in path.parent.iterdir()].count(".unfinished") == 1
    job.cancel()
    held.go.set()
    assert "was cancelled" in turns.answer()
    assert [each.name for each in path.parent.iterdir()] == ["weights.gguf"]


def test_closing_ends_a_copy_and_tells_nobody(
    turns: Turns, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    job = turns.copy(path, path.with_name("copy.gguf"))
    assert held.begun.wait(10)
    turns.around.is_closing = True
    threading.Timer(0.1, held.go.set).start()
    turns.files.close()
    assert job.thread is not None
    assert not job.thread.is_alive()
    assert [each.name for each in path.parent.iterdir()] == ["weights.gguf"]
    while not turns.posted.empty():
        turns.posted.get()()
    assert turns.answers == turns.told == []
