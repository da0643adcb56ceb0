"""A conversation's title, taken from its first message until the user gives one."""

from __future__ import annotations

from typing import Final

UNTITLED: Final = "New chat"
MAX_LENGTH: Final = 48
MAX_READ: Final = 10_000


def title_from(text: str) -> str:
    """The first line that says something, cut at a word.

    >>> title_from("  \\n## What is the capital of France?\\nPlease be brief.")
    'What is the capital of France?'
    """
    text = text[:MAX_READ]  # a pasted book has its title at its beginning
    for line in text.splitlines():
        title = " ".join(line.strip().lstrip("#>*-`").split())
        if any(character.isalnum() for character in title):
            return _cut(title)
    rest = " ".join(text.split())
    return _cut(rest) if rest else UNTITLED


def _cut(title: str) -> str:
    if len(title) <= MAX_LENGTH:
        return title
    head = title[: MAX_LENGTH - 1]
    at_word = head.rpartition(" ")[0] if title[MAX_LENGTH - 1] != " " else head
    # A word longer than half the title (or a language without spaces) is cut inside.
    if len(at_word) < MAX_LENGTH // 2:
        at_word = head
    return at_word.rstrip(" ,;:.–-") + "…"
