"""Names under which files of a repository are saved.

What a repository calls its files is untrusted: on the way to a disk such a name may not leave the
folder it is meant for, mean a device, or be one that a system cannot open again. A name that only
an attack has is refused; one that is merely awkward is changed, the same way each time, so that
the parts of a split set stay parts of one set.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

MAX_NAME_BYTES: Final = 180
"""Of the 255 that most systems take, so that the partial's name and “ (2)” fit too."""

_DEVICES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}
    | {f"{port}{n}" for port in ("COM", "LPT") for n in "0123456789¹²³"}
)
_RESERVED: Final = frozenset('<>:"|?*\\/')
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_PART: Final = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


class NameRefused(Exception):  # noqa: N818
    """A name that is not used; the text is a sentence for the user."""


def saved_name(name: str) -> str:
    """The name to save a repository's file under: its last part, made safe.

    >>> saved_name("Q4_K_M/tiny-00001-of-00002.gguf")
    'tiny-00001-of-00002.gguf'
    >>> saved_name("NUL.gguf")
    '_NUL.gguf'

    Raises NameRefused for one that leads out of its folder, or is no GGUF file's.
    """
    parts = name.split("/")
    if "\\" in name or _DRIVE.match(name) or any(part in ("", ".", "..") for part in parts):
        raise NameRefused(
            f"The file is called “{_shown(name)}” on the hub, a name that leads outside its "
            "folder, so it wasn't downloaded. Choose a file from another repository."
        )
    safe = safe_part(parts[-1])
    if not safe.lower().endswith(".gguf"):
        raise NameRefused(
            f"“{_shown(name)}” isn't a GGUF file, so it wasn't downloaded. Choose a file that "
            "ends in .gguf."
        )
    return safe


def safe_part(part: str) -> str:
    """One part of a path made safe: never empty, hidden, a device, or too long."""
    kept = "".join("_" if _is_odd(char) else char for char in unicodedata.normalize("NFC", part))
    kept = kept.rstrip(". ")
    if not kept or kept[0] in ". ":
        kept = f"_{kept}"
    if kept.split(".")[0].rstrip().upper() in _DEVICES:
        kept = f"_{kept}"
    return _shortened(kept)


def _is_odd(char: str) -> bool:
    """Control and format characters (those that turn text round, too), lone surrogates, and what
    some system does not take."""
    return char in _RESERVED or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _shortened(name: str) -> str:
    """The beginning, a mark of the whole, and the end that tells which part it is."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    found = _PART.search(name)
    ending = found.group() if found else (".gguf" if name.lower().endswith(".gguf") else "")
    stem = name[: len(name) - len(ending)]
    mark = f"~{hashlib.sha256(stem.encode()).hexdigest()[:8]}{ending}"
    room = MAX_NAME_BYTES - len(mark.encode())
    return stem.encode()[:room].decode(errors="ignore") + mark


def _shown(name: str) -> str:
    shown = "".join("�" if unicodedata.category(c).startswith("C") else c for c in name)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
