"""Where a JSON value ends that is still being written, and which part of it is what.

The end is found while the text grows, each character looked at once. Bounded in depth, so that
what was found can be read by a parser that recurses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

MAX_DEPTH: Final = 64

_INTERESTING: Final = re.compile(r'["\\{}\[\]]')
_SPACE: Final = re.compile(r"\s*")
_decoder: Final = json.JSONDecoder(strict=False)


class TooDeepError(ValueError):
    """It nests further than anybody means."""


@dataclass(slots=True)
class JsonScan:
    """`at`: the first character that has not been looked at. `depth` of brackets there."""

    at: int
    depth: int = 0
    in_text: bool = False

    def end_in(self, text: str) -> int | None:
        """Where the object or list ends that begins at the first `at`; None: not yet. `text` is the
        same each time, and longer. Raises TooDeepError."""
        while (found := _INTERESTING.search(text, self.at)) is not None:
            mark, here = found[0], found.start()
            if mark == "\\" and self.in_text:
                if here + 1 == len(text):
                    self.at = here
                    return None
                self.at = here + 2
                continue
            self.at = here + 1
            if mark == '"':
                self.in_text = not self.in_text
            elif not self.in_text and mark in "{[":
                self.depth += 1
                if self.depth > MAX_DEPTH:
                    raise TooDeepError
            elif not self.in_text and mark in "}]":
                self.depth -= 1
                if self.depth <= 0:
                    return self.at
        self.at = len(text)
        return None


def members(text: str) -> dict[str, str]:
    """The values of a JSON object as they are written, by key. Raises ValueError.

    >>> members('{"name": "f", "arguments": {"a":  1}}')
    {'name': '"f"', 'arguments': '{"a":  1}'}
    """
    found: dict[str, str] = {}
    at = _behind(text, 0, "{")
    if text.startswith("}", at):
        return found
    while True:
        key, at = _value(text, at)
        if not isinstance(key, str):
            raise ValueError("a key is no text")  # noqa: TRY004 - as the parser says it
        start = _behind(text, at, ":")
        _, at = _value(text, start)
        found[key] = text[start:at]
        at = _space(text, at)
        if not text.startswith(",", at):
            _behind(text, at, "}")
            return found
        at = _space(text, at + 1)


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        value, end = _decoder.raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value, end


def _behind(text: str, at: int, mark: str) -> int:
    at = _space(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"no {mark} at {at}")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
