"""Whether something that is dropped is to be imported or attached, by what is in it.

Nothing is opened that is no plain file, folder or archive, and of files no more than the beginning
is read: what they hold otherwise is for `importing` to say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from app.chat.exchange.json_format import FORMAT
from app.chat.exchange.refusals import FileRefused

SUFFIXES: Final = (".json", ".jsonl", ".zip", ".charx", ".db", ".png")
"""What exports are called, where it isn't a folder; all else that has a suffix is attached. A PNG
may hold a character card; others are pictures to attach."""

_FORMAT: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*\{[^{}]*?"format"\s*:\s*"%b"' % FORMAT.encode()
)


def may_be_import(path: str) -> bool:
    """By its name alone, so that nobody waits for what surely is none."""
    suffix = Path(path).suffix.lower()
    return not suffix or suffix in SUFFIXES or " " in suffix


def is_own(head: bytes) -> bool:
    """Whether a file that begins so is an export of Cutaway."""
    return _FORMAT.match(head[:4096]) is not None


def is_import(path: str) -> bool:
    """False also where it cannot be read. Never waits for a pipe."""
    if not may_be_import(path):
        return False
    from app.chat.exchange.brought.formats import recognised
    from app.chat.exchange.brought.places import opened_place

    try:
        with opened_place(Path(path)) as place:
            is_file = place.kind == "file"
            return bool((is_file and is_own(place.head(place.name))) or recognised(place))
    except FileRefused:
        return False
