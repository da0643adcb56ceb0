"""Bytes at an offset: of files, and of what answers like one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from gguf_writer import write_gguf

from app.gguf.header import read_header, read_header_of
from app.gguf.refusal import HeaderRefused
from app.gguf.source import FileSource, NotAFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


class CountedSource:
    """A file as a hub would send it, with all requests noted."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.size_bytes = path.stat().st_size
        self.asked: list[tuple[int, int]] = []
        self._data = path.read_bytes()

    def read_at(self, offset: int, count: int) -> bytes:
        self.asked.append((offset, count))
        return self._data[offset : offset + count]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "which", ["starter_gguf", pytest.param("gemma_gguf", marks=pytest.mark.soak)]
)
def test_a_header_from_afar_costs_few_requests(which: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(which)
    source = CountedSource(path)
    header = read_header_of(source)
    assert replace(header, path=path) == read_header(path)
    assert len(source.asked) <= 4
    ends = [offset + count for offset, count in source.asked]
    assert max(ends) < header.data_offset + (4 << 20)
    assert all(begin >= end for end, (begin, _) in zip(ends, source.asked[1:], strict=False))


def test_source_that_fails_is_a_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(path)
    source = CountedSource(path)

    def fail(offset: int, count: int) -> bytes:
        raise ConnectionResetError("gone")

    monkeypatch.setattr(source, "read_at", fail)
    with pytest.raises(HeaderRefused) as caught:
        read_header_of(source)
    assert caught.value.kind == "not_readable"


def test_a_file_is_read_at_any_place(path: Path) -> None:
    path.write_bytes(bytes(range(100)))
    with FileSource(path) as source:
        assert (source.name, source.size_bytes) == ("weights.gguf", 100)
        assert source.read_at(95, 10) == bytes(range(95, 100))
        assert source.read_at(3, 2) == b"\3\4"
        assert source.read_at(200, 5) == source.read_at(0, 0) == b""


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAFile):
        FileSource(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        FileSource(tmp_path)
    with pytest.raises(FileNotFoundError):
        FileSource(tmp_path / "none")
