"""Where emphasis begins and ends beside Chinese, Japanese and Korean: rules for markdown-it.

CommonMark decides by what stands beside the asterisks, and takes it that words are parted by
spaces. `这是**重点。**然后` therefore keeps its asterisks: punctuation within, a letter outside.
The rule here is the amendment that CommonMark's issue 650 led to (markdown-cjk-friendly): CJK
punctuation is a letter like any other, and a CJK character outside is as good as a space.

What must hold: text without a CJK character beside the marks reads as in CommonMark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from unicodedata import category, east_asian_width

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

    Rule = Callable[[StateInline, bool], bool]

# Jamo that follow another one are of no width of their own, so "wide" does not find them.
_JAMO = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"))
_SELECTORS = (("\ufe00", "\ufe0e"), ("\U000e0100", "\U000e01ef"))
"""What chooses a form of the character before it. (U+FE0F makes an emoji of it.)"""


def is_cjk(char: str) -> bool:
    """Whether a character is written without spaces between words: wide, halfwidth or Hangul,
    and no emoji (which is wide, too).

    >>> [is_cjk(char) for char in "语。ー한🙂a”"]
    [True, True, True, True, False, False, False]
    """
    if char < "\u1100":
        return False
    if any(first <= char <= last for first, last in _JAMO):
        return True
    is_emoji = category(char) in ("So", "Sk") and (char < "\u2e80" or char >= "\U0001f000")
    return east_asian_width(char) in "WFH" and not is_emoji


def use(markdown: MarkdownIt) -> None:
    """Reads `*`, `_` and `~~` by the amended rule."""
    from markdown_it.rules_inline import emphasis, strikethrough

    markdown.inline.ruler.at("emphasis", _amended(emphasis.tokenize))
    markdown.inline.ruler.at("strikethrough", _amended(strikethrough.tokenize))


def _amended(rule: Rule) -> Rule:
    """A rule of markdown-it; what it says of its marks is said anew where CJK stands beside."""

    def tokenize(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.delimiters)
        if not rule(state, silent):
            return False
        if state.src.isascii():
            return True
        before = _before(state.src, start)
        # As in markdown-it, the beginning and the end of what is read count as a space.
        after = state.src[state.pos] if state.pos < state.posMax else " "
        if is_cjk(before) or is_cjk(after):
            opens, closes = _flanking(before, after, is_split=state.src[start] != "_")
            for delimiter in state.delimiters[known:]:
                delimiter.open, delimiter.close = opens, closes
        return True

    return tokenize


def _before(text: str, start: int) -> str:
    """The character before the marks, not the selector of its form."""
    at = start - 1
    if at > 0 and any(first <= text[at] <= last for first, last in _SELECTORS):
        at -= 1
    return text[at] if at >= 0 else " "


def _flanking(before: str, after: str, *, is_split: bool) -> tuple[bool, bool]:
    """Whether marks may open, and close, emphasis. `is_split`: within a word, too."""
    from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace

    def is_mark(char: str) -> bool:
        return isMdAsciiPunct(ord(char)) or isPunctChar(char)

    def parts(char: str) -> bool:
        """What may stand outside of punctuation."""
        return isWhiteSpace(ord(char)) or is_mark(char) or is_cjk(char)

    def is_plain_mark(char: str) -> bool:
        return is_mark(char) and not is_cjk(char)

    is_left = not isWhiteSpace(ord(after)) and (not is_plain_mark(after) or parts(before))
    is_right = not isWhiteSpace(ord(before)) and (not is_plain_mark(before) or parts(after))
    opens = is_left and (is_split or not is_right or is_mark(before))
    closes = is_right and (is_split or not is_left or is_mark(after))
    return opens, closes
