"""Weights are known by what is in them, not by their names."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import pytest
from gguf_writer import Tensor, overwrite, write_gguf

from app.gguf import fingerprint
from app.gguf.fingerprint import BLOCK_BYTES, fast_hash
from app.gguf.header import Header, read_header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.gguf"
    write_gguf(path, tensors={"token_embd.weight": Tensor((1024, 512), [0.5] * (1024 * 512))})
    return path


def hash_of(path: Path) -> str:
    return fast_hash(read_header(path))


def test_a_copy_of_another_name_is_the_same(path: Path) -> None:
    copy = path.with_name("b.gguf")
    shutil.copyfile(path, copy)
    assert hash_of(copy) == hash_of(path)
    assert len(hash_of(path)) == 32


@pytest.mark.parametrize("place", ["header", "first", "last"])
def test_a_changed_byte_in_header_or_a_sampled_block_is_seen(path: Path, place: str) -> None:
    before, header = hash_of(path), read_header(path)
    offsets = {
        "header": path.read_bytes().index(b"llama"),
        "first": header.data_offset,
        "last": header.size_bytes - 1,
    }
    overwrite(path, offsets[place], b"k")
    assert hash_of(path) != before


def test_little_is_read_of_a_large_file(path: Path) -> None:
    """The blocks cover the tensors' ends; between them most is left unread."""
    header = read_header(path)
    starts = fingerprint._block_starts(header.data_offset, header.size_bytes)
    assert starts[0] == header.data_offset
    assert starts[-1] + BLOCK_BYTES == header.size_bytes
    assert starts == sorted(set(starts))


def test_a_file_that_has_vanished_is_an_error_of_the_system(path: Path) -> None:
    header: Header = read_header(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        fast_hash(header)


def test_the_example_holds() -> None:
    assert doctest.testmod(fingerprint).failed == 0
