"""One saved state as a file: every bit of it is authenticated before anybody sees any."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.process.cache import saved_file
from app.engine.process.cache.saved_file import BadFile, Identity, Interrupted, read, read_head
from app.engine.protocol.saved_messages import name_start

KEY = bytes(range(32))
ME = Identity("llama.cpp 1", "weights", "settings")
IDS = np.arange(5, dtype=np.int32)


def data(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return (np.arange(size) * 31 % 251).astype(np.uint8)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_file, "CHUNK_BYTES", 64)


def write(folder: Path, size: int = 300, **options: Any) -> Path:
    return saved_file.write(folder, KEY, ME, "a chat", IDS, 2, data(size), **options)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 300])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_what_is_written_comes_back(tmp_path: Path, size: int, n_threads: int) -> None:
    path = write(tmp_path, size, n_threads=n_threads)
    head, state = read(path, KEY, n_threads)
    assert np.array_equal(state, data(size))
    assert head == read_head(path, KEY)
    assert (head.identity, head.conversation, head.first_position) == (ME, "a chat", 2)
    assert head.token_ids.tolist() == IDS.tolist()
    assert path.name.startswith(name_start("a chat"))
    assert "chat" not in path.name
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600


def test_not_one_flipped_bit_passes(tmp_path: Path) -> None:
    path = write(tmp_path, 150)
    whole = path.read_bytes()
    for at in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1 << at % 8
        path.write_bytes(spoilt)
        with pytest.raises(BadFile):
            read(path, KEY)


def test_nor_does_one_that_is_cut_off_or_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, 150)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadFile):
            read(path, KEY)
    path.write_bytes(whole + b"\0")
    with pytest.raises(BadFile):
        read(path, KEY)


@settings(max_examples=examples(30))
@given(st.binary(max_size=400))
def test_nor_does_anything_else(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "junk.kv"
    for start in (b"", saved_file.MAGIC, saved_file.MAGIC + (40).to_bytes(4, "little")):
        path.write_bytes(start + junk)
        with pytest.raises(BadFile):
            read(path, KEY)


def test_nothing_of_a_head_is_decoded_before_it_is_known_as_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    monkeypatch.setattr(msgspec.msgpack, "decode", lambda *_, **__: pytest.fail("it was decoded"))
    with pytest.raises(BadFile):
        read_head(path, KEY[::-1])


def test_a_folder_in_its_place_a_pipe_and_nothing_are_no_files(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
    for path in (tmp_path, tmp_path / "nothing", pipe):
        with pytest.raises(BadFile):
            read_head(path, KEY)
        with pytest.raises(BadFile):
            read(path, KEY)


def test_one_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    count = 0

    def pause() -> None:
        nonlocal count
        count += 1
        if count > 8:  # of five marks, and then five chunks
            raise Interrupted

    with pytest.raises(Interrupted):
        write(tmp_path, pause=pause)
    assert not list(tmp_path.iterdir())
