"""Code → coloured runs, by Pygments. Imported at the first code block with a known language."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from app.markdown.segments import MAX_CHARS, MAX_CODE_LINES, CodeGroup

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Pygments' token names, longest first where they nest, and the colour that they get.
_COLORS = {
    ("Comment",): "code_comment",
    ("Keyword", "Type"): "code_type",
    ("Keyword",): "code_keyword",
    ("Operator", "Word"): "code_keyword",
    ("Literal", "String"): "code_string",
    ("Literal", "Number"): "code_number",
    ("Literal", "Date"): "code_number",
    ("Name", "Function"): "code_name",
    ("Name", "Class"): "code_type",
    ("Name", "Exception"): "code_type",
    ("Name", "Namespace"): "code_type",
    ("Name", "Builtin"): "code_builtin",
    ("Name", "Decorator"): "code_builtin",
    ("Name", "Tag"): "code_keyword",
    ("Name", "Attribute"): "code_name",
    ("Name", "Constant"): "code_number",
    ("Generic", "Heading"): "code_name",
    ("Generic", "Subheading"): "code_name",
    ("Generic", "Inserted"): "code_string",
    ("Generic", "Deleted"): "code_number",
    ("Generic", "Prompt"): "code_comment",
}

Run = tuple[int, int, str]

MAX_LINES = 20_000
"""Longer code keeps the colours that its parts get alone."""


def runs(code: str, language: str) -> Iterator[Run]:
    """(start, length, name of a colour) for everything that is not plain ink, in order.

    The iterator is lazy: a caller may take as many runs as it has time for.
    """
    lexer = _lexer(language)
    if lexer is None:
        return
    for start, token, text in _tokens(lexer, code):
        color = _color(tuple(token))
        if color and text.strip():
            yield start, len(text), color


class GroupHighlight:
    """Colours a whole fenced block in small steps, then leaves the result in its group."""

    def __init__(self, group: CodeGroup) -> None:
        self.group = group
        code = group.code
        self._runs = runs(code, group.language)
        self._starts = [0, *accumulate(len(line) + 1 for line in group.lines)]
        self._lines: list[list[Run]] = [[] for _line in group.lines]

    def step(self, seconds: float) -> bool:
        """Go on for about so long; whether it is done."""
        end = time.perf_counter() + seconds
        for run in self._runs:
            self._place(run)
            if time.perf_counter() > end:
                return False
        self.group.runs = self._lines
        return True

    def _place(self, run: Run) -> None:
        """Cut a run at line ends: a part of the code is a number of whole lines."""
        start, length, color = run
        line = bisect_right(self._starts, start) - 1
        while length > 0 and line < len(self._lines):
            here = min(length, self._starts[line + 1] - start)
            self._lines[line].append((start - self._starts[line], here, color))
            start, length, line = start + here, length - here, line + 1


def needs_group_highlight(group: CodeGroup) -> bool:
    """Whether a code block in several parts waits for the colours of the whole."""
    is_long = len(group.lines) > MAX_CODE_LINES or sum(map(len, group.lines)) > MAX_CHARS
    is_due = group.is_closed and group.runs is None and not group.is_broken
    return is_due and is_long and len(group.lines) < MAX_LINES and bool(group.language)


def runs_of_part(group: CodeGroup, first: int, count: int) -> list[Run] | None:
    """The colours of some lines, with positions in the text of those lines; None if unknown."""
    if group.runs is None:
        return None
    found = []
    start = 0
    for number in range(first, min(first + count, len(group.lines))):
        found += [(start + at, length, color) for at, length, color in group.runs[number]]
        start += len(group.lines[number]) + 1
    return found


def warm_up() -> None:
    """Import what the first code block needs, while nobody waits for it."""
    for _run in runs("x = 1", "python"):
        pass


def _tokens(lexer: Lexer, code: str) -> Iterator[tuple[int, Any, str]]:
    # The unprocessed ones keep positions: get_tokens() strips and adds line feeds.
    tokens: Iterator[tuple[int, Any, str]] = lexer.get_tokens_unprocessed(code)
    return tokens


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """Of those that Pygments brings: for an unknown name it would look through, and import,
    what other packages offer, which takes 60 ms."""
    from pygments.lexers import find_lexer_class

    name = _names().get(language.lower())
    made = find_lexer_class(name) if name else None
    return made() if made is not None else None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """What Pygments' own lexers are called, by their aliases."""
    from pygments.lexers import get_all_lexers

    found: dict[str, str] = {}
    for name, aliases, _patterns, _types in get_all_lexers(plugins=False):
        for alias in aliases:
            found.setdefault(alias.lower(), name)
    return found


@lru_cache(maxsize=512)
def _color(token: tuple[str, ...]) -> str:
    for size in range(len(token), 0, -1):
        if color := _COLORS.get(token[:size]):
            return color
    return ""
