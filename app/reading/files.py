"""Opening a file that somebody gave, whatever it is: a plain one only, never waiting, in bounds.

A dropped path may be a folder, a pipe that never ends, a device, or gone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.amounts import bytes_words
from app.reading.document import DocumentRefused, cleaned


@contextmanager
def opened(path: str, name: str, max_bytes: int) -> Iterator[BinaryIO]:
    """The file, open at its beginning. Raises DocumentRefused for what is no plain file, is larger,
    or can't be read; also where reading it fails later."""
    try:
        # Without blocking: a pipe would keep `open` until somebody writes.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        sentence = f"“{name}” is no longer there. Check its location."
        raise DocumentRefused("Missing", sentence) from None
    except PermissionError:
        raise _no_entry(path, name) from None
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    try:
        _check_kind(name, os.fstat(descriptor), max_bytes)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise _unreadable(name, error) from error
    finally:
        os.close(descriptor)


def read_bytes(path: str, name: str, max_bytes: int) -> bytes:
    """All of a file. Raises DocumentRefused."""
    with opened(path, name, max_bytes) as file:
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:  # it grew, or says nothing of its size
        raise too_large(name, len(raw), max_bytes)
    return raw


def shown_name(path: str) -> str:
    """The file's name on one line, without characters that cannot be stored or shown.

    >>> shown_name("/home/ada/notes.txt")
    'notes.txt'
    """
    name = Path(path).name or path
    return on_one_line(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def on_one_line(name: str) -> str:
    """Without characters that cannot be stored or shown, or turn the order of letters around.

    >>> on_one_line("a\\u202egpj.exe"), on_one_line("\\n")
    ('a gpj.exe', 'File')
    """
    return "".join(c if c.isprintable() else " " for c in cleaned(name)).strip()[:200] or "File"


def too_large(name: str, size: int, max_bytes: int) -> DocumentRefused:
    most = bytes_words(max_bytes)
    return DocumentRefused(
        f"Larger than {most}",
        f"“{name}” is {bytes_words(size)}; the limit is {most}. Attach only the part that matters.",
    )


def _check_kind(name: str, status: os.stat_result, max_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise _folder(name)
    if not stat.S_ISREG(status.st_mode):
        sentence = f"“{name}” can't be attached: it isn't a regular file."
        raise DocumentRefused("Not a regular file", sentence)
    if status.st_size > max_bytes:
        raise too_large(name, status.st_size, max_bytes)


def _no_entry(path: str, name: str) -> DocumentRefused:
    if Path(path).is_dir():
        return _folder(name)
    sentence = f"You don't have permission to read “{name}”. Change its permissions or copy it."
    return DocumentRefused("No permission to read", sentence)


def _folder(name: str) -> DocumentRefused:
    return DocumentRefused("Folder", f"“{name}” is a folder. Attach the files in it.")


def _unreadable(name: str, error: OSError | ValueError) -> DocumentRefused:
    why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
    sentence = f"“{name}” can't be read ({why}). Copy it elsewhere and try again."
    return DocumentRefused(f"Unreadable ({why})", sentence)
