"""Pictures made of the words of the text: the prompt by origin, tokens with their IDs, attention
painted on what it looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from app.amounts import percent
from app.engine.protocol.cut_messages import Cut
from app.insight.inside.attention import hardest_look, strongest
from app.insight.inside.cuts import cut_words
from app.insight.prompt.parts import counts, origin_words
from app.insight.tour.page.markup import Markup, Row, bars, figure, joined, lacking, tag, words
from app.insight.tour.page.material import Material, ends
from app.insight.trace.tokens_shown import UNKNOWN, quoted

FIRST_WORDS: Final = 60
LAST_WORDS: Final = 300
"""Of a longer text the words between aren't shown."""

CHIPS_BEFORE: Final = 16
CHIPS_AFTER: Final = 7
MOST_ROWS: Final = 5
_WITHOUT_FIRST: Final = (
    "The stronger the colour, the more is taken from that word. Full colour is {full}. The first "
    "token has {first}, and isn’t coloured."
)


def words_of(material: Material, n: int, word: Callable[[int], Markup]) -> Markup:
    """The first `n` tokens of the text, one after the other."""
    first, last = ends(n, FIRST_WORDS, LAST_WORDS)
    parts = [_with_breaks(material, place, word) for place in first]
    if last:
        n_left_out = last.start - first.stop
        parts.append(tag("em", f" … {n_left_out:,} tokens left out … "))
        parts += [_with_breaks(material, place, word) for place in last]
    return tag("p", *parts, class_="text")


def _with_breaks(material: Material, place: int, word: Callable[[int], Markup]) -> Markup:
    behind = Markup("<br>") if b"\n" in material.pieces[place] else Markup("<wbr>")
    return joined((word(place), behind))


def prompt_words(material: Material) -> Markup:
    """All tokens of the prompt, each with its origin."""
    prompt = material.prompt
    if prompt is None:
        return lacking(material.why("text"))

    def word(place: int) -> Markup:
        origin = prompt.part(place).origin
        told = f"position {place}, ID {prompt.ids[place]}: {origin_words(origin)}"
        return tag("span", material.piece(place), class_=f"o-{_name(origin)}", title=told)

    rows = [
        Row(
            origin_words(each.origin),
            each.share,
            (f"{each.n_tokens:,}", percent(each.share)),
            f"o-{_name(each.origin)}",
        )
        for each in counts(prompt)
    ]
    return figure(
        f"The prompt, {len(prompt):,} tokens",
        words_of(material, len(prompt), word),
        bars(("From", "", "Tokens", "Share"), rows),
        note="A space is “·”, a line break “↵”.",
    )


def _name(origin: str) -> str:
    """A class of the page's style; nothing else of what an engine says gets there."""
    return origin if origin.isascii() and origin.isalpha() else "unknown"


def token_strip(material: Material) -> Markup:
    """The followed token among its neighbours, each with its ID."""
    first = max(material.at - CHIPS_BEFORE, 0)
    end = min(material.at + CHIPS_AFTER + 1, len(material.ids))
    chips = [
        tag(
            "li",
            tag("b", material.piece(place)),
            " ",
            tag("small", _id_text(material.ids[place])),
            class_="now" if place == material.at else None,
            title=f"position {place}" if material.n_prompt else None,
        )
        for place in range(first, end)
    ]
    n_left_out = len(material.ids) - len(chips)
    note = f"{n_left_out:,} tokens further away are left out." if n_left_out else ""
    return figure("Tokens and their IDs", tag("ol", *chips, class_="chips"), note=note)


def _id_text(token_id: int) -> str:
    """A server may not tell it."""
    return str(token_id) if token_id >= 0 else UNKNOWN


# --- attention ----------------------------------------------------------------------------------


def attention_words(material: Material) -> Markup:
    """The mean of all heads, painted on the words."""
    attention = material.arrays.get("attention")
    if attention is None:
        return lacking(material.why("attention"))
    known = attention[~np.isnan(attention[:, :, 0])]
    if not len(known):
        return lacking(material.why("attention"))
    row = known.mean(axis=0, dtype=np.float64)
    return _painted(material, row, f"Where {_read(material)} looks, mean of {len(known):,} heads")


def hardest_head(material: Material) -> Markup:
    """The one that looks hardest, on the same words."""
    attention = material.arrays.get("attention")
    if attention is None:
        return Markup("")  # it has been said why
    looks = [(layer, look) for layer, rows in enumerate(attention) if (look := hardest_look(rows))]
    if not looks:
        return Markup("")
    layer, look = max(looks, key=lambda each: each[1].weight)
    name = cut_words(Cut("head", layer, look.head))
    row = attention[layer, look.head]
    return _painted(material, row, f"Where {name} looks, the hardest of all, first token aside")


def _read(material: Material) -> str:
    return quoted(material.piece(material.at - 1))


def _painted(material: Material, row: Any, title: str) -> Markup:
    """`row` [at]: a share for each token up to the one that looks."""
    others = row[1:]
    full = float(others.max()) if len(others) else 0.0

    def word(place: int) -> Markup:
        share = float(row[place])
        strength = share / full if place and full > 0 else 0.0
        return tag(
            "span",
            material.piece(place),
            class_="look",
            style=f"--s:{min(strength, 1.0):.3f}",
            title=f"position {place}: {percent(share)}",
        )

    rows = [
        Row(words(f"{material.piece(place)} (position {place})"), share, (percent(share),))
        for place, share in strongest(row, MOST_ROWS)
    ]
    note = _WITHOUT_FIRST.format(full=percent(full), first=percent(float(row[0])))
    return figure(
        title,
        words_of(material, len(row), word),
        bars(("Looks most at", "", "Share"), rows),
        note=note if len(others) else "",
    )
