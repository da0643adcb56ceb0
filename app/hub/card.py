"""Model cards as they can be shown: Markdown, with the HTML that people put into it taken out.

Cards centre their pictures and headings with HTML, which the window's renderer shows letter by
letter. The tags go, what stands between them stays; pictures become nothing, since none is loaded
from the network. Code keeps every letter. A card is untrusted: the time is linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS: Final = re.compile(r"`+")
_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,15})((?:[\s/][^<>]*)?)>")
_HREF: Final = re.compile(r"\bhref\s*=\s*[\"']?([^\"'<>\s]{1,2000})", re.IGNORECASE)
_PICTURE: Final = re.compile(
    r"!\[[^\[\]\n]{0,500}\]\([^()\s]{0,2000}(?:[ \t]+\"[^\"\n]{0,500}\")?\)"
)
_EMPTY_LINK: Final = re.compile(r"\[[ \t]{0,20}\]\([^()\n]{0,2000}\)")
_HIDDEN: Final = frozenset({"script", "style", "svg", "video", "audio", "iframe"})
_NEW_LINE: Final = frozenset({"br", "hr", "/p", "/div", "/tr", "/summary", "/center"})
_BEGUN: Final = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>]{0,2000})?$")
_TAG_LINES: Final = 12
_MAX_LINE: Final = 20_000
"""Longer lines are shown as they are: nobody writes them, and code in them is not looked for."""


def shown_card(markdown: str) -> str:
    """The card without HTML and pictures.

    >>> shown_card('<h1 align="center">Tiny</h1>\\n<img src="x.png">\\n`<b>`')
    '# Tiny\\n\\n`<b>`'
    """
    cleaner = _Cleaner()
    fence = ""
    for line in _lines(markdown):
        mark = _FENCE.match(line)
        if fence:
            cleaner.keep(f"{line}\n")
            if mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark is not None and not cleaner.is_hidden:
            fence = mark[1]
            cleaner.keep(f"{line}\n")
        elif len(line) > _MAX_LINE:
            cleaner.keep(f"{line}\n")
        else:
            cleaner.is_in_table = line.lstrip().startswith("|")
            for text, is_code in _codes(line):
                (cleaner.keep if is_code else cleaner.clean)(text)
            cleaner.clean("\n")
    return cleaner.result()


def _lines(markdown: str) -> Iterator[str]:
    """The lines; one that ends inside a tag goes on in the next."""
    begun: list[str] = []
    for line in markdown.splitlines():
        begun.append(line)
        if len(begun) < _TAG_LINES and _BEGUN.search(line if len(begun) == 1 else f"<a {line}"):
            continue
        yield from [" ".join(begun)] if ">" in begun[-1] else begun
        begun = []
    yield from begun


def _codes(line: str) -> Iterator[tuple[str, bool]]:
    """The line cut into code in backticks, and the rest."""
    runs = [(run.start(), run.end()) for run in _TICKS.finditer(line)]
    later: dict[int, list[tuple[int, int]]] = {}
    for start, end in reversed(runs):
        later.setdefault(end - start, []).append((start, end))
    at = 0
    for start, end in runs:
        others = later[end - start]
        while others and others[-1][0] <= max(start, at - 1):
            others.pop()
        if start < at or not others:
            continue
        yield line[at:start], False
        yield line[start : others[-1][1]], True
        at = others.pop()[1]
    yield line[at:], False


class _Cleaner:
    """Takes a card piece by piece."""

    def __init__(self) -> None:
        self._out: list[list[str]] = [[]]
        self._links: list[str] = []
        self._hidden = ""
        self._in_comment = False
        self._in_heading = False
        self.is_in_table = False

    @property
    def is_hidden(self) -> bool:
        """Whether this part is not to be shown."""
        return self._in_comment or bool(self._hidden)

    def keep(self, text: str) -> None:
        if not self.is_hidden:
            self._out[-1].append(text)

    def clean(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._in_comment:
                end = text.find("-->", at)
                if end < 0:
                    return
                self._in_comment, at = False, end + 3
                continue
            start = text.find("<", at)
            if start < 0:
                self._say(text[at:])
                return
            self._say(text[at:start])
            tag = _TAG.match(text, start)
            if text.startswith("<!--", start) and not self._hidden:
                self._in_comment, at = True, start + 4
            elif tag is None:
                self._say("<")
                at = start + 1
            else:
                self._take(tag[1], tag[2].lower(), tag[3])
                at = tag.end()

    def _say(self, text: str) -> None:
        self.keep(text.replace("\n", " ") if self._in_heading else text)

    def _take(self, slash: str, name: str, inside: str) -> None:
        if self._hidden:
            if slash and name == self._hidden:
                self._hidden = ""
            return
        if name in _HIDDEN and not slash and not inside.endswith("/"):
            self._hidden = name
        elif len(name) == 2 and name[0] == "h" and name[1] in "123456":
            self._in_heading = not slash
            self.keep("\n" if slash else f"\n{'#' * int(name[1])} ")
        elif name == "a":
            self._take_link(slash, inside)
        elif name in ("b", "strong"):
            self.keep("**")
        elif name == "li":
            self.keep("\n" if slash else "\n- ")
        elif f"{slash}{name}" in _NEW_LINE:
            self._say(" " if self.is_in_table else "\n")

    def _take_link(self, slash: str, inside: str) -> None:
        if not slash:
            href = _HREF.search(inside)
            if href is not None and not self._links:
                self._links.append(href[1])
                self._out.append([])
        elif self._links:
            self._end_link()

    def _end_link(self) -> None:
        words = " ".join("".join(self._out.pop()).split())
        target = self._links.pop()
        self._out[-1].append(f"[{words}]({target})" if _PICTURE.sub("", words).strip() else "")

    def result(self) -> str:
        while self._links:
            self._end_link()
        lines: list[str] = []
        fence = ""
        for line in "".join(self._out[0]).splitlines():
            mark = _FENCE.match(line)
            if mark is not None and (not fence or mark[1].startswith(fence)):
                fence = "" if fence else mark[1]
            elif not fence and len(line) <= _MAX_LINE:
                line = _EMPTY_LINK.sub("", _PICTURE.sub("", line))
                if not line.strip() and (not lines or not lines[-1].strip()):
                    continue
            lines.append(line)
        return "\n".join(lines).strip()
