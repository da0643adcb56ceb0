"""What a tag may be called, and which names mean the same tag. Pure; no SQL here.

What must hold: a name can be seen, stands on one line, and can be typed into the search
(`tag:work`, `tag:"my work"`, `#work`). Names that differ only in case, or in how Unicode writes the
same letters, are one tag: `key_of`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MAX_LENGTH: Final = 40
MAX_TAGS: Final = 30
"""Of one conversation."""

_HIDDEN: Final = re.compile(
    "[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


_REMEMBERED: Final = 4096
"""Names; the same few are asked about for each of many chats."""
_JOINERS: Final = "\u200c\u200d"
"""Part of how words are spelt, in Persian and Hindi, say, and of emoji."""


@lru_cache(_REMEMBERED)
def cleaned(text: str) -> str:
    """The name that somebody means; empty where nothing is left.

    >>> cleaned('  #my   "work"\\n'), cleaned("\\u200b#"), cleaned("C#")
    ('my work', '', 'C#')
    """
    text = _HIDDEN.sub("", text[: 4 * MAX_LENGTH].replace('"', "").replace(",", " "))
    text = "".join(
        " " if unicodedata.category(c)[0] in "CZ" and c not in _JOINERS else c for c in text
    )
    name = " ".join(unicodedata.normalize("NFC", text).split()).lstrip("# ")
    if not any(unicodedata.category(c)[0] not in "CZM" for c in name):
        return ""
    return name[:MAX_LENGTH].strip(f" {_JOINERS}")


@lru_cache(_REMEMBERED)
def key_of(name: str) -> str:
    """Equal for the names of one tag.

    >>> key_of("Straße") == key_of("STRASSE")
    True
    """
    return unicodedata.normalize("NFC", name.casefold())


def tidied(names: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, by name, and no more than a conversation may have.

    >>> tidied(["b", "A", "", "a", "#B"])
    ('A', 'b')
    """
    found: dict[str, str] = {}
    for name in map(cleaned, names):
        if name and len(found) < MAX_TAGS:
            found.setdefault(key_of(name), name)
    return tuple(found[key] for key in sorted(found))
