"""Whether something that is dropped is to be imported or attached, by what is in it.

Nothing is opened that is no plain file, folder or archive, and of files no more than the beginning
is read: what they hold otherwise is for `importing` to say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.chat.exchange.json_format import FORMAT
from app.chat.exchange.refusals import FileRefused

if TYPE_CHECKING:
    from app.chat.exchange.brought.places import Place

SUFFIXES: Final = (".json", ".jsonl", ".zip", ".charx", ".db", ".png", ".yaml", ".yml", ".settings")
"""What exports are called, where it isn't a folder; all else that has a suffix is attached. A PNG
may hold a character card; others are pictures to attach."""

_FORMAT: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*\{[^{}]*?"format"\s*:\s*"%b"' % FORMAT.encode()
)


_MARKED: Final = b'<!-- cutaway {"part": "chat"'


def may_be_import(path: str) -> bool:
    """By its name alone, so that nobody waits for what surely is none."""
    suffix = Path(path).suffix.lower()
    return not suffix or suffix in SUFFIXES or " " in suffix


def is_own(head: bytes) -> bool:
    """Whether a file that begins so is an export of Cutaway."""
    return _FORMAT.match(head[:4096]) is not None


def own_in(place: Place) -> list[str]:
    """Cutaway's own exports among what was given, Markdown in a folder or archive too."""
    found = [name for name in place.named(".json") if is_own(place.head(name, 4096))]
    if place.kind != "file":
        found += [name for name in place.named(".md") if _MARKED in place.head(name, 4096)]
    return found


def is_import(path: str) -> bool:
    """False also where it cannot be read. Never waits for a pipe."""
    if not may_be_import(path):
        return False
    from app.chat.exchange.brought.formats import recognised
    from app.chat.exchange.brought.places import opened_place

    try:
        with opened_place(Path(path)) as place:
            return bool(own_in(place) or recognised(place))
    except FileRefused:
        return False
