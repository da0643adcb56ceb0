"""What can be attached, and what is refused, each in one sentence."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from app.chat.text_files import MAX_BYTES, FileRefused, decoded, read_text_file, shown_name


@pytest.mark.parametrize(
    "raw",
    [
        "Zürich, 漢字 🙂\n".encode(),
        b"\xef\xbb\xbf" + "Zürich, 漢字 🙂\n".encode(),
        "Zürich, 漢字 🙂\n".encode("utf-16"),
        "Zürich, 漢字 🙂\n".encode("utf-32"),
    ],
)
def test_unicode_files_are_read_as_written(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(raw)
    read = read_text_file(str(path))
    assert (read.name, read.text, read.note) == ("notes.txt", "Zürich, 漢字 🙂\n", "")
    assert read.size_bytes == len("Zürich, 漢字 🙂\n".encode())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_known_by_its_zeros(encoding: str) -> None:
    assert decoded("a.txt", "Plain words.\r\n".encode(encoding)) == ("Plain words.\n", "")


def test_an_old_encoding_is_a_guess_and_said_to_be_one() -> None:
    text, note = decoded("alt.txt", "Größe: 3 €".encode("cp1252"))
    assert text == "Größe: 3 €"
    assert note == "“alt.txt” is not UTF-8 and was read as Windows-1252: open it to check its text."


def refusal(path: Path) -> str:
    with pytest.raises(FileRefused) as caught:
        read_text_file(str(path))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert re.fullmatch(r"[^.]*(\.\w[^.]*)*\.", sentence), f"not one sentence: {sentence}"
    return sentence


def test_binary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(os.urandom(4096) + b"\0" * 100)
    assert refusal(path) == "“film.mp4” is not a text file: only text can be attached."


def test_binary_without_zeros_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(1, 256)) * 20)
    assert "is not a text file" in refusal(path)


def test_50_mb_are_refused_without_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    with path.open("wb") as file:
        file.truncate(50 * 2**20)
    assert refusal(path).startswith("“book.txt” has 50 MB and a text of at most 8 MB")


def test_the_largest_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "most.txt"
    path.write_bytes(b"a" * MAX_BYTES)
    assert read_text_file(str(path)).size_bytes == MAX_BYTES


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is no plain file" in refusal(pipe)
    assert "is a folder" in refusal(tmp_path)
    assert "is not there any more" in refusal(tmp_path / "gone.txt")
    assert "is no plain file" in refusal(Path("/dev/zero"))


@pytest.mark.parametrize("raw", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_nothing_to_attach(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "nothing.txt"
    path.write_bytes(raw)
    assert "is empty" in refusal(path)


def test_what_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the system's answer is played."""
    path = tmp_path / "secret.txt"
    path.write_text("secret")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(path) == ("You may not read “secret.txt”: change its permissions or copy it.")


def test_names_are_shown_on_one_line() -> None:
    assert shown_name("/a/b\nc.txt") == "b c.txt"
    broken = b"/a/\xff.txt".decode(sys.getfilesystemencoding(), "surrogateescape")
    assert shown_name(broken) == "\ufffd.txt"


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_refused(raw: bytes) -> None:
    try:
        text, _note = decoded("x", raw)
    except FileRefused:
        return
    assert "\0" not in text
    assert text.encode("utf-8")
    assert text.strip()


@given(st.text(min_size=1).filter(lambda t: t.strip() and t.isprintable()))
def test_printable_text_comes_back(text: str) -> None:
    assert decoded("x", b"\xef\xbb\xbf" + text.encode())[0] == text
