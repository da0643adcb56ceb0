"""Texts of a file, made fit for a text field: laying out one long line takes Qt seconds. No Qt."""

from __future__ import annotations

from typing import Final

MAX_CHARACTERS: Final = 60_000
MAX_LINES: Final = 3_000
MAX_LINE: Final = 500


def fit_for_field(text: str) -> str:
    """The text, or its beginning and how much more there is. Longer lines are broken; what cannot
    be seen has a sign.

    >>> fit_for_field("a\\x00b")
    'a�b'
    """
    head = text[:MAX_CHARACTERS]
    shown: list[str] = []
    n_shown = 0
    for line in head.split("\n"):
        pieces = [line[at : at + MAX_LINE] for at in range(0, len(line), MAX_LINE)] or [""]
        room = MAX_LINES - len(shown)
        shown += pieces[:room]
        n_shown += sum(map(len, pieces[:room])) + 1  # and its end
        if len(pieces) >= room:
            break
    n_more = len(text) - min(n_shown, len(head))
    if n_more:
        shown.append(f"… {n_more:,} more characters")
    return "".join(map(_visible, "\n".join(shown)))


def _visible(character: str) -> str:
    """Letters of every script stay, with what joins them; controls and marks of direction get a
    sign."""
    if character >= " " and character.isprintable():
        return character
    return character if character in "\n\t\u200c\u200d\u00a0\u3000\u2028" else "�"
