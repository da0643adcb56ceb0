"""A chat template laid out to be read: one tag or text a line, blocks indented.

Many files have their template in one line. The breaks and the blanks at the ends of a text that
the source has are shown as ↵ and ·, so that those of ours are not taken for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_OPENING: Final = re.compile(r"\{[%{#]")
_CLOSING: Final = {"{%": "%}", "{{": "}}", "{#": "#}"}
_WORD: Final = re.compile(r"\{%[-+]?\s*(\w+)(.*)", re.DOTALL)
_OPENS: Final = frozenset({"if", "for", "macro", "filter", "call", "block", "generation", "raw"})
_MIDDLE: Final = frozenset({"else", "elif"})
INDENT: Final = "  "
MAX_DEPTH: Final = 20
MAX_CHARACTERS: Final = 200_000


def laid_out(template: str) -> str:
    """The template with line breaks of ours; what is beyond 200,000 characters stays as it is.

    >>> print(laid_out("{% for m in messages %}{{ m.content }}\\n{% endfor %}end"))
    {% for m in messages %}
      {{ m.content }}
      ↵
    {% endfor %}
    end
    """
    lines: list[str] = []
    depth, at = 0, 0
    for start, end in _tags(template):
        _put_text(lines, depth, template[at:start])
        tag, at = template[start:end], end
        word, is_block = _word_of(tag)
        if word in _MIDDLE or word.startswith("end"):
            depth = max(0, depth - 1)
        lines.append(INDENT * min(depth, MAX_DEPTH) + _one_line(tag))
        if is_block or word in _MIDDLE:
            depth += 1
        if end > MAX_CHARACTERS:
            return "\n".join([*lines, template[end:]])
    _put_text(lines, depth, template[at:])
    return "\n".join(lines)


def _tags(template: str) -> Iterator[tuple[int, int]]:
    """Where tags begin and end, up to the first that does not end."""
    opening = _OPENING.search(template)
    while opening is not None:
        closing = template.find(_CLOSING[opening[0]], opening.end())
        if closing < 0:
            return
        yield opening.start(), closing + 2
        opening = _OPENING.search(template, closing + 2)


def _word_of(tag: str) -> tuple[str, bool]:
    """The statement's word, and whether it opens a block."""
    found = _WORD.match(tag)
    if found is None:
        return "", False
    word, rest = found[1], found[2]
    return word, word in _OPENS or (word == "set" and "=" not in rest)


def _put_text(lines: list[str], depth: int, text: str) -> None:
    """Text outside tags, each of its own lines in one; blanks alone do not count."""
    if not text.strip(" "):
        return
    for part in text.splitlines(keepends=True):
        plain = part.rstrip("\r\n")
        inside = plain.strip(" ")
        left = len(plain) - len(plain.lstrip(" ")) if inside else len(plain)
        right = len(plain) - left - len(inside)
        marked = "·" * left + inside + "·" * right + "↵" * (plain != part)
        lines.append(INDENT * min(depth, MAX_DEPTH) + marked)


def _one_line(tag: str) -> str:
    return re.sub(r"\r\n|\r|\n", "↵", tag)
