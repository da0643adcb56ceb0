"""Rows of tokens that are no prompt of their own: a text without tokens, and two prompts in one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from app.insight.prompt.parts import PromptTokens
from app.insight.trace.message_tokens import plain

_UP_TO_LINE_END: Final = re.compile(rb"[^\n]*\n|[^\n]+")


class WordStrip:
    """A text of which no tokens are known, in words; none goes on behind the end of a line."""

    def __init__(self, text: str) -> None:
        words = plain(text).before
        self._words = [part for word in words for part in _UP_TO_LINE_END.findall(word)]

    def __len__(self) -> int:
        return len(self._words)

    def pieces(self, first: int, end: int) -> list[bytes]:
        return list(self._words[first:end])


class ChangedStrip:
    """The tokens of two prompts in a row: the common beginning, what is gone, what is new."""

    def __init__(self, now: PromptTokens, gone: Sequence[bytes], common: int) -> None:
        self._now = now
        self._gone = gone
        self.common = common

    def __len__(self) -> int:
        return len(self._now) + len(self._gone)

    def pieces(self, first: int, end: int) -> list[bytes]:
        behind = self.common + len(self._gone)
        found = self._now.pieces(first, min(end, self.common)) if first < self.common else []
        found += self._gone[max(first - self.common, 0) : max(end - self.common, 0)]
        if end > behind:
            n_gone = len(self._gone)
            found += self._now.pieces(max(first, behind) - n_gone, end - n_gone)
        return found

    def is_gone(self, number: int) -> bool:
        return self.common <= number < self.common + len(self._gone)

    def place(self, number: int) -> int | None:
        """The place of a token in the present prompt; None of one that is gone."""
        if self.is_gone(number):
            return None
        return number if number < self.common else number - len(self._gone)
