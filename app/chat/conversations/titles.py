"""A conversation's title, taken from its first message until the user gives one.

What must hold: it can be seen. Text that hides (Unicode's tags, spaces without a width) and marks
that turn the order of letters around are no part of it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

UNTITLED: Final = "New chat"
MAX_LENGTH: Final = 48
MAX_READ: Final = 10_000
# A flag is spelt with tags, too; it is the first group, which stays.
_HIDDEN: Final = re.compile(
    "(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)"
    "|[\U000e0000-\U000e007f\u200b\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069]"
)


def title_from(text: str) -> str:
    """The first line that says something, cut at a word.

    >>> title_from("  \\n## What is the capital of France?\\nPlease be brief.")
    'What is the capital of France?'
    """
    text = _HIDDEN.sub(r"\1", text[:MAX_READ])  # a pasted book has its title at its beginning
    for line in text.splitlines():
        title = " ".join(line.strip().lstrip("#>*-`").split())
        if any(character.isalnum() for character in title):
            return _cut(title)
    rest = " ".join(text.split())
    # Controls, separators and marks, alone, are nothing to be seen.
    return _cut(rest) if any(unicodedata.category(c)[0] not in "CZM" for c in rest) else UNTITLED


def _cut(title: str) -> str:
    if len(title) <= MAX_LENGTH:
        return title
    head = title[: MAX_LENGTH - 1]
    at_word = head.rpartition(" ")[0] if title[MAX_LENGTH - 1] != " " else head
    # A word longer than half the title (or a language without spaces) is cut inside.
    if len(at_word) < MAX_LENGTH // 2:
        at_word = head
    return at_word.rstrip(" ,;:.–-") + "…"
