"""What the loaded weights' file says of its vocabulary, read and replayed beside the owner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, write_gguf

from app.chat.alarms import Alarms
from app.chat.inspection.questions import NO_WEIGHTS
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights import vocabulary_file
from app.chat.weights.vocabulary_file import REPLACED, VocabularyFiles
from app.gguf import vocabulary as gguf_vocabulary
from app.gguf.fingerprint import fast_hash
from app.gguf.header import read_header
from app.gguf.vocabulary import FileVocabulary
from app.insight.tokenizer.merges import NO_FILE, Replay, spelled

SCRIPT: dict[str, Any] = {"replies": [{"text": "blue sky"}]}


class Words:
    def __init__(self, control_ids: frozenset[int] = frozenset()) -> None:
        self.control_ids = control_ids

    def of(self, _weights_hash: str) -> Words:
        return self


def hash_of(path: Path) -> str:
    return fast_hash(read_header(path)) if path.exists() else ""


class Owner:
    """Takes what is posted, and lets a test wait for it."""

    def __init__(self, path: Path) -> None:
        self.posted: list[Callable[[], None]] = []
        self.came = threading.Semaphore(0)
        self.around = Surroundings(self.post, lambda _event: None, Alarms(self.post))
        loaded = type("L", (), {"path": str(path), "fast_hash": hash_of(path)})()
        self.loader = type("Loader", (), {"loaded": loaded})()
        self.files = VocabularyFiles(self.around, self.loader, Words())  # type: ignore[arg-type]
        self.answers: list[Any] = []

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)
        self.came.release()

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.came.acquire(timeout=20)
            self.posted.pop(0)()

    def failed(self, sentence: str) -> None:
        self.answers.append(f"failed: {sentence}")


@pytest.fixture
def owner(tmp_path: Path):
    path = tmp_path / "weights.gguf"
    write_gguf(path, vocabulary=bpe_vocabulary(["hello"], pre="smollm"))
    owner = Owner(path)
    yield owner
    owner.around.alarms.close()


def test_it_is_read_once_for_the_same_weights_on_a_thread_of_its_own(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, threads = gguf_vocabulary.read_vocabulary, []

    def counted(path: str) -> FileVocabulary:
        threads.append(threading.current_thread())
        return read(path)

    monkeypatch.setattr(gguf_vocabulary, "read_vocabulary", counted)
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    assert not owner.answers
    owner.run(2)
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    first, second, third = owner.answers
    assert first is second is third
    assert first.merges[0] == "h e"
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_a_text_is_replayed_to_the_ids_that_the_engine_gave(owner: Owner) -> None:
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    hello = owner.answers.pop().ids["hello"]
    owner.files.replay("hello", [hello], owner.answers.append, owner.failed, still=ALWAYS)
    owner.run(2)
    (found,) = owner.answers
    assert isinstance(found, Replay)
    assert found.ids == [hello]
    assert (len(found.steps), found.rule) == (4, "smollm")


def test_a_text_is_replayed_as_the_engine_had_it(owner: Owner) -> None:
    """The engine replaces what is no character."""
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    ids = owner.answers.pop().ids
    wanted = [ids["a"], *(ids[c] for c in spelled("\ufffd".encode()))]
    owner.files.replay("a\ud800", wanted, owner.answers.append, owner.failed, still=ALWAYS)
    owner.run(2)
    (found,) = owner.answers
    assert found.ids == wanted


def test_what_the_engine_takes_for_control_is_no_token_of_a_plain_text(
    owner: Owner, tmp_path: Path
) -> None:
    """The file calls it user-defined, so by the file alone it would be found in any text."""
    path = tmp_path / "own.gguf"
    write_gguf(path, vocabulary=bpe_vocabulary(["hello"], user_defined=["<x>"], pre="smollm"))
    owner.loader.loaded.path = str(path)
    owner.loader.loaded.fast_hash = hash_of(Path(owner.loader.loaded.path))
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    vocabulary = owner.answers.pop()
    spelled = [vocabulary.ids[c] for c in "<x>"]
    for controls, words_from in ((frozenset(), "tokens"), ({vocabulary.ids["<x>"]}, "rule")):
        owner.files._words = Words(frozenset(controls))  # type: ignore[assignment]
        owner.files.replay("<x>", spelled, owner.answers.append, owner.failed, still=ALWAYS)
        owner.run(2)
        found = owner.answers.pop()
        assert (found.ids, found.words_from) == (spelled, words_from)


def test_failures_are_sentences_and_are_tried_again(owner: Owner, tmp_path: Path) -> None:
    owner.loader.loaded.path = str(tmp_path / "script.json")
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    assert "no longer exists" in owner.answers.pop()
    (tmp_path / "script.json").write_text("{}")
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    assert owner.answers.pop() == f"failed: {NO_FILE}"
    owner.files.replay("x" * 5000, [1], owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    assert owner.answers.pop() == f"failed: {NO_FILE}"
    owner.loader.loaded = None
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    assert owner.answers == [f"failed: {NO_WEIGHTS}"]


def test_a_file_that_was_replaced_is_not_taken_for_the_loaded_one(
    owner: Owner, tmp_path: Path
) -> None:
    """Its IDs would be shown with the ranks and scores of other tokens."""
    write_gguf(tmp_path / "weights.gguf", vocabulary=bpe_vocabulary(["jelly"], pre="smollm"))
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    assert owner.answers == [f"failed: {REPLACED}"]


def test_what_is_not_replayed_says_why(owner: Owner) -> None:
    owner.files.replay("x" * 5000, [1], owner.answers.append, owner.failed, still=ALWAYS)
    owner.run(2)
    assert owner.answers[0].startswith("failed: Merges are replayed for texts of up to")


def test_a_fault_of_ours_is_said_and_logged(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_path: str) -> FileVocabulary:
        raise ZeroDivisionError

    monkeypatch.setattr(gguf_vocabulary, "read_vocabulary", broken)
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.run()
    assert owner.answers == [
        "failed: The vocabulary of this file couldn't be read (ZeroDivisionError)."
    ]
    assert caplog.records[0].name == vocabulary_file.__name__


def test_nobody_is_told_once_the_program_ends(owner: Owner) -> None:
    owner.files.read(owner.answers.append, owner.failed, still=ALWAYS)
    owner.around.is_closing = True
    owner.run()
    assert not owner.answers


def test_the_desk_hands_it_out(make_room) -> None:
    room = make_room(SCRIPT).start_ready()
    said: list[Any] = []
    room.desk.vocabulary.read(said.append, said.append, still=ALWAYS)
    room.desk.vocabulary.replay("blue sky", [1, 2], said.append, said.append, still=ALWAYS)
    room.until(lambda: len(said) == 2, "both answers")
    assert said == [NO_FILE] * 2


def test_what_counts_as_control_is_that_of_the_weights_that_gave_the_ids(
    owner: Owner, tmp_path: Path
) -> None:
    """A large vocabulary takes a second to be read, and others may be loaded by then."""
    path = tmp_path / "own.gguf"
    write_gguf(path, vocabulary=bpe_vocabulary(["hello"], user_defined=["<x>"], pre="smollm"))
    own = type("L", (), {"path": str(path), "fast_hash": hash_of(path)})()
    vocabulary = gguf_vocabulary.read_vocabulary(str(path))
    controls = {own.fast_hash: Words(frozenset({vocabulary.ids["<x>"]}))}
    owner.files._words = type("W", (), {"of": controls.get})()  # type: ignore[assignment]
    owner.loader.loaded, other = own, owner.loader.loaded
    spelled_out = [vocabulary.ids[c] for c in "<x>"]
    owner.files.replay("<x>", spelled_out, owner.answers.append, owner.failed, still=ALWAYS)
    owner.loader.loaded = other
    owner.run(2)
    found = owner.answers.pop()
    assert (found.ids, found.words_from) == (spelled_out, "rule")
