"""What of a growing Markdown text is said, sentence by sentence.

What must hold: a sentence is given once, in order, and only when it is sure that it ends there;
what is no speech (code, tables, formulas, long addresses) is named in a word. The text is parsed as
the transcript parses it (`app.markdown.document`), so that marks are never read out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from app.markdown.blocks import Block, CodeBlock, MathBlock, Span, TableBlock, TextBlock, plain_text
from app.markdown.document import Document

MAX_CHARS: Final = 300
"""Of what is said in one go: how soon it stops, pauses or goes on depends on it."""
CODE, TABLE, FORMULA = "Code.", "Table.", "Formula."

_ADDRESS: Final = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_ENDS: Final = re.compile(
    r"(?:[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[”」』）]*|\n+)",
)
_ABBREVIATIONS: Final = frozenset(
    {
        *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "etc", "e.g", "i.e", "cf"),
        *("fig", "no", "vol", "approx", "z.b", "d.h", "u.a", "bzw", "usw", "nr", "ca", "ggf"),
        *("inkl", "evtl", "p.ex", "sra", "srta", "ud", "p.m", "a.m"),
    }
)
_PAUSES: Final = re.compile(r"[,;:—–]\s+|[，；：、]")


class SpokenText:
    """A text that may still grow. `take` gives what has become sure since it was last asked."""

    def __init__(self) -> None:
        self._document = Document(is_open=True)
        self._length = 0
        self._segment = 0
        self._n_given = 0

    @property
    def length(self) -> int:
        """Characters of the text so far."""
        return self._length

    def append(self, text: str) -> None:
        self._length += len(text)
        self._document.append(text)

    def end(self) -> None:
        """No more is coming."""
        self._document.set_open(False)

    def take(self) -> list[str]:
        found: list[str] = []
        segments = self._document.segments
        for number in range(self._segment, len(segments)):
            segment = segments[number]
            sentences = [
                each for block in self._document.blocks(segment) for each in sentences_of(block)
            ]
            is_last = number == len(segments) - 1
            if is_last and self._document.is_open:
                found += sentences[self._n_given : -1]
                self._n_given = max(self._n_given, len(sentences) - 1)
                self._segment = number
                break
            found += sentences[self._n_given :]
            self._segment, self._n_given = number + 1, 0
        return found


def sentences_of(block: Block) -> list[str]:
    """What is said of a block.

    >>> sentences_of(CodeBlock("x = 1"))
    ['Code.']
    """
    match block:
        case CodeBlock():
            return [CODE] if block.is_first else []
        case TableBlock():
            return [] if block.is_continuation else [TABLE]
        case MathBlock():
            return [FORMULA]
        case TextBlock():
            return list(sentences("".join(map(_said, block.spans))))
    return list(sentences(plain_text(block)))


def _said(span: Span) -> str:
    if span.tex:
        return "formula" if len(span.tex) > 3 else span.tex
    if span.is_note:
        return ""
    return _ADDRESS.sub(_host, span.text)


def _host(match: re.Match[str]) -> str:
    """An address is called by its host: "example.com"."""
    text = match.group()
    try:
        host = urlsplit(text if "://" in text else f"https://{text}").hostname or ""
    except ValueError:
        host = ""
    tail = text[len(text.rstrip(".,;:!?)]")) :]
    return (host.removeprefix("www.") or "link") + tail


def sentences(text: str) -> Iterator[str]:
    """A text in what is said in one go.

    >>> list(sentences("Dr. No met J. Bond at 3.14 p.m. today. Really?! Yes"))
    ['Dr. No met J. Bond at 3.14 p.m. today.', 'Really?!', 'Yes']
    """
    start = 0
    for match in _ENDS.finditer(text):
        if not _is_end(text, start, match):
            continue
        yield from _in_pieces(text[start : match.end()])
        start = match.end()
    yield from _in_pieces(text[start:])


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    if not match.group().startswith(".") or len(match.group()) > 1:
        return True
    word = re.split(r"\s", text[start : match.start()])[-1].casefold().lstrip("(\"'“‘«[")
    after = text[match.end() :].lstrip()[:1]
    is_initial = len(word) == 1 and word.isalpha()
    is_number = word.isdigit() and len(word) < 3  # "1. Paris", "am 3. Mai"
    return not (word in _ABBREVIATIONS or is_initial or is_number or after.islower())


def _in_pieces(sentence: str) -> Iterator[str]:
    """A long one is cut where one would breathe."""
    rest = _clean(sentence)
    while len(rest) > MAX_CHARS:
        pauses = [m.end() for m in _PAUSES.finditer(rest, 0, MAX_CHARS) if m.end() > MAX_CHARS // 3]
        space = rest.rfind(" ", MAX_CHARS // 3, MAX_CHARS)
        cut = pauses[-1] if pauses else space if space > 0 else MAX_CHARS
        yield rest[:cut].strip()
        rest = rest[cut:].strip()
    if any(map(str.isalnum, rest)):
        yield rest


def _clean(text: str) -> str:
    """One line without what no voice can say; no commands of a voice (`say` has `[[rate 90]]`)."""
    kept = "".join(" " if unicodedata.category(c) in _UNSAID else c for c in text)
    return " ".join(kept.replace("[[", "[").replace("]]", "]").split())


_UNSAID: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "So", "Sk", "Zl", "Zp"})
