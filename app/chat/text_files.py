"""Text files that somebody attaches: read within bounds, or refused in one sentence.

A dropped path may be anything: a folder, a pipe that never ends, a film, a file that is gone.
So nothing is opened that is no plain file, never more than `MAX_BYTES` are read, and what is not
text is refused. What must hold: every refusal is a sentence that says what to do, and a guess
about the encoding is said as a guess.
"""

from __future__ import annotations

import codecs
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.chat.prompts import clean_message

MAX_BYTES: Final = 8 * 1024 * 1024
"""More than any context window holds."""

_LOOKED_AT: Final = 64 * 1024
_MOST_CONTROLS: Final = 0.01
_MARKS: Final = (
    # UTF-32 first: its mark begins as that of UTF-16 does.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class FileRefused(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """The file cannot be attached. The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """`note` is a sentence where the text may not be what its author wrote, else empty."""

    name: str
    text: str
    size_bytes: int
    note: str = ""


def read_text_file(path: str) -> TextFile:
    """Read a file as text, or raise FileRefused. Never waits for a pipe."""
    name = shown_name(path)
    text, note = decoded(name, _bytes_of(path, name))
    return TextFile(name, text, len(text.encode()), note)


def shown_name(path: str) -> str:
    """The file's name on one line, without characters that cannot be stored or shown.

    >>> shown_name("/home/ada/notes.txt")
    'notes.txt'
    """
    name = Path(path).name or path
    name = clean_message(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return "".join(c if c.isprintable() else " " for c in name).strip()[:200] or "File"


def decoded(name: str, raw: bytes) -> tuple[str, str]:
    """The text of a file's bytes and a note, or FileRefused where it is no text.

    Without a mark at its beginning a file is UTF-8; else UTF-16 where every other byte is 0, as
    Windows' tools write it; else Windows-1252, which is a guess and said to be one.
    """
    if not raw.strip():
        raise FileRefused(f"“{name}” is empty: there is nothing to attach.")
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _decoded_as(name, raw, encoding), ""
    if b"\0" in raw[:_LOOKED_AT]:
        encoding = _without_mark(raw[:_LOOKED_AT])
        if not encoding:
            raise _not_text(name)
        return _decoded_as(name, raw, encoding), ""
    try:
        return _checked(name, raw.decode("utf-8")), ""
    except UnicodeDecodeError:
        text = _checked(name, raw.decode("cp1252", "replace"))
    note = f"“{name}” is not UTF-8 and was read as Windows-1252: open it to check its text."
    return text, note


def _bytes_of(path: str, name: str) -> bytes:
    try:
        # Without blocking: a pipe would keep `open` until somebody writes.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise FileRefused(f"“{name}” is not there any more: check where it is.") from None
    except PermissionError:
        raise _unreadable(path, name) from None
    except (OSError, ValueError) as error:
        raise FileRefused(
            f"“{name}” cannot be read ({_reason(error)}): copy it to another place and try again."
        ) from error
    try:
        _check_kind(name, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileRefused(
            f"“{name}” cannot be read ({_reason(error)}): copy it elsewhere and try again."
        ) from error
    finally:
        os.close(descriptor)
    if len(raw) > MAX_BYTES:  # it grew, or says nothing of its size
        raise _too_large(name, len(raw))
    return raw


def _check_kind(name: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise FileRefused(f"“{name}” is a folder: attach the files in it.")
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"“{name}” is no plain file and cannot be attached.")
    if status.st_size > MAX_BYTES:
        raise _too_large(name, status.st_size)


def _unreadable(path: str, name: str) -> FileRefused:
    if Path(path).is_dir():
        return FileRefused(f"“{name}” is a folder: attach the files in it.")
    return FileRefused(f"You may not read “{name}”: change its permissions or copy it.")


def _too_large(name: str, size: int) -> FileRefused:
    limit = MAX_BYTES // 2**20
    return FileRefused(
        f"“{name}” has {size / 2**20:,.0f} MB and a text of at most {limit} MB can be attached: "
        "attach the part that matters."
    )


def _not_text(name: str) -> FileRefused:
    return FileRefused(f"“{name}” is not a text file: only text can be attached.")


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _decoded_as(name: str, raw: bytes, encoding: str) -> str:
    try:
        return _checked(name, raw.decode(encoding))
    except UnicodeDecodeError:
        raise _not_text(name) from None


def _without_mark(head: bytes) -> str:
    """UTF-16 of mostly Latin text has a 0 in every other byte."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return ""


def _checked(name: str, text: str) -> str:
    """Text as it is stored; FileRefused where it is full of control characters."""
    head = text[:_LOOKED_AT]
    controls = sum(1 for c in head if (c < " " and c not in "\t\n\r\f\x1b") or c == "\x7f")
    if controls > _MOST_CONTROLS * len(head):
        raise _not_text(name)
    text = clean_message(text)
    if not text.strip():
        raise FileRefused(f"“{name}” is empty: there is nothing to attach.")
    return text
