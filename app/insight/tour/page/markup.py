"""HTML as text that can't be mixed up with text: what isn't `Markup` is escaped where it goes in.

tag("p", "a < b", class_="note")   →   <p class="note">a &lt; b</p>
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_NO_TEXT: Final = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""What HTML doesn't allow, and what UTF-8 can't write."""


class Markup(str):
    """HTML that is whole."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """
    >>> escaped('<b title="x">\\0')
    '&lt;b title=&quot;x&quot;&gt;\ufffd'
    """
    if isinstance(text, Markup):
        return text
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # as browsers read them
    return Markup(html.escape(_NO_TEXT.sub("\ufffd", lines)))


def tag(name: str, *inside: str, **attributes: str | float | None) -> Markup:
    """An element. `class_` is class, `aria_label` aria-label; None is left out.

    >>> tag("rect", x=0.25, aria_hidden="true", id=None)
    '<rect x="0.25" aria-hidden="true"></rect>'
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{shown}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    return Markup("".join(map(escaped, parts)))


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else plain(value)


def plain(number: float) -> str:
    """For a place or a width in a picture: as short as it can be, to a thousandth.

    >>> plain(0.25), plain(3.0), plain(-0.0001), plain(12)
    ('0.25', '3', '0', '12')
    """
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# --- what all pictures are made of --------------------------------------------------------------


def figure(title: str, *inside: str, note: str = "") -> Markup:
    """A picture with its name, and below it what is to be known of it."""
    below = (tag("p", note, class_="note"),) if note else ()
    return tag("figure", tag("figcaption", title), *inside, *below)


def lacking(sentence: str) -> Markup:
    """In place of a picture that there are no numbers for."""
    return tag("p", sentence, class_="lack")


def picture(width: float, height: float, words: str, *inside: str, rem: float = 0.0) -> Markup:
    """Shapes in an area of so many units. `words`: what it shows, for who can't see it. `rem`: its
    height on the page, whatever its width; else as wide as there is room, in proportion."""
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {plain(width)} {plain(height)}",
        preserveAspectRatio="none" if rem else None,
        style=f"height:{plain(rem)}rem" if rem else None,
        role="img",
        aria_label=words,
    )


def rect(x: float, y: float, width: float, height: float, tone: str, *inside: str,
         strength: float | None = None) -> Markup:  # fmt: skip
    """`tone`: a class of the page's style. `strength`: how opaque, from 0 to 1."""
    return tag(
        "rect", *inside, x=x, y=y, width=width, height=height, class_=tone, fill_opacity=strength
    )


class Row(NamedTuple):
    """Of a table of bars. `share`: of the room, from 0 to 1, below 0 to the left from the middle;
    None: there is no bar. `cells`: what stands behind it."""

    label: str
    share: float | None
    cells: tuple[str, ...]
    tone: str = "plus"
    is_marked: bool = False


def bars(heads: tuple[str, ...], rows: Iterable[Row], *, is_signed: bool = False) -> Markup:
    """A picture that is its own table. `heads`: of the label, the bar and each cell."""
    head = tag("tr", *(tag("th", words, scope="col") for words in heads))
    body = [
        tag(
            "tr",
            tag("th", row.label, scope="row"),
            tag("td", _bar(row, is_signed=is_signed), class_="room"),
            *(tag("td", cell, class_="number") for cell in row.cells),
            class_="now" if row.is_marked else None,
        )
        for row in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *body))


def words(text: str) -> Markup:
    """A cell that may be broken anywhere, as numbers may not."""
    return tag("span", text, class_="words")


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Markup:
    head = tag("tr", *(tag("th", words, scope="col") for words in heads))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", c, class_="number") for c in row[1:]))
        for row in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="plain")


def bar(share: float, tone: str = "plus") -> Markup:
    """From the left, as far as `share` goes."""
    return tag("span", tag("i", class_=tone, style=f"width:{_percent(share)}"), class_="bar")


def _bar(row: Row, *, is_signed: bool) -> Markup:
    if row.share is None:
        return Markup("")
    if not is_signed:
        return bar(row.share, row.tone)
    half = min(abs(row.share), 1.0) / 2
    left = 0.5 if row.share >= 0 else 0.5 - half
    tone = "plus" if row.share >= 0 else "minus"
    style = f"margin-left:{_percent(left)};width:{_percent(half)}"
    return tag("span", tag("i", class_=tone, style=style), class_="bar both")


def _percent(share: float) -> str:
    return f"{plain(100 * min(max(share, 0.0), 1.0))}%"
