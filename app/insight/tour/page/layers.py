"""Pictures of what is inside: the vector, the heads, what layers add, the lens, who wrote it."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from app.amounts import percent
from app.insight.inside.attention import hardest_look
from app.insight.inside.votes import lens_of
from app.insight.inside.way import norms, way
from app.insight.inside.wrote import MOST_ROWS
from app.insight.tour.page.markup import (
    Markup,
    Row,
    bar,
    bars,
    figure,
    joined,
    lacking,
    picture,
    rect,
    table,
    tag,
    words,
)
from app.insight.tour.page.material import Material, ends, short
from app.insight.trace.tokens_shown import quoted

MOST_NUMBERS: Final = 1_024
IN_A_ROW: Final = 64
MOST_LAYERS: Final = 48
MOST_HEADS: Final = 32
TILE_LETTERS: Final = 12
TILE_FIRST: Final = 1
TILE_LAST: Final = 31
MOST_CELLS: Final = 4_000
LEAST_CELL: Final = 0.01
"""Of attention: what is less would hardly be seen."""

NONE: Final = "–"

TILES: Final = (
    "A row is a layer, the first on top; a tile is a head; in it the tokens stand from left to "
    "right, and the stronger the colour, the more is taken from that one. Less than {least} isn’t "
    "drawn."
)
WAY: Final = (
    "The length of what is added, divided by the length of the vector after the layer: attention "
    "above in blue, FFN below in ochre. The two don’t add up to 100%, since they point in "
    "different directions. A full bar is {full}."
)
WROTE: Final = (
    "What each part added directly to the difference of the two scores, with the last norm held. "
    "“Unexplained” is what is left."
)


def exact(value: float) -> str:
    """Four figures.

    >>> exact(-0.123456), exact(13_828.4), exact(0.0)
    ('−0.1235', '13,828', '0')
    """
    shown = f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return shown.replace("-", "−")


# --- the vector ---------------------------------------------------------------------------------


def embedding_strip(material: Material) -> Markup:
    """The numbers that enter the first layer."""
    vector = material.arrays.get("embedding")
    if vector is None:
        return lacking(material.why("embedding"))
    shown = [float(value) for value in vector[:MOST_NUMBERS]]
    full = max((abs(value) for value in shown), default=0.0) or 1.0
    cells = [
        rect(
            at % IN_A_ROW,
            at // IN_A_ROW,
            1,
            1,
            "plus" if value >= 0 else "minus",
            strength=abs(value) / full,
        )
        for at, value in enumerate(shown)
    ]
    word = quoted(material.piece(material.at - 1))
    n = len(vector)
    is_whole = len(shown) == n
    note = (
        f"{'Each cell is a number' if is_whole else f'The first {len(shown):,} of {n:,} numbers'}: "
        f"plus is blue, minus ochre. Full colour is {exact(full)}; the vector is "
        f"{exact(float(norms(vector)))} long."
    )
    height = math.ceil(len(shown) / IN_A_ROW)
    return figure(
        f"The vector of {word}, {n:,} numbers",
        picture(IN_A_ROW, max(height, 1), f"{len(shown):,} numbers as coloured cells", *cells),
        tag(
            "details",
            tag("summary", "The numbers"),
            tag("p", " ".join(map(exact, shown)), class_="all"),
        ),
        note=note,
    )


# --- heads --------------------------------------------------------------------------------------


def head_tiles(material: Material) -> Markup:
    """What each head takes from each token: a row for each layer, a tile for each head."""
    attention = material.arrays.get("attention")
    if attention is None:
        return Markup("")  # it has been said why
    n_layer, n_head, n_tok = attention.shape
    layers = _spread(n_layer, MOST_LAYERS)
    heads = range(min(n_head, MOST_HEADS))
    first, last = ends(n_tok, TILE_FIRST, TILE_LAST)
    places = [*first, *last]
    shown = np.nan_to_num(attention[layers][:, : len(heads)][:, :, places])
    least = _least(shown)
    tiles = [
        _tile(shown[row, head], row, head, least, _look_words(material, attention, layer, head))
        for row, layer in enumerate(layers)
        for head in heads
        if not math.isnan(attention[layer, head, 0])
    ]
    width = len(heads) * (len(places) + 1) - 1
    shows = f"{len(layers)} layers × {len(heads)} heads as tiles"
    return figure(
        f"All heads: {n_layer:,} layers × {n_head:,} heads",
        picture(width, len(layers), shows, *tiles, rem=0.7 * len(layers)),
        _looks(material),
        note=_tile_note(attention.shape, len(layers), len(heads), len(places), least),
    )


def _tile(shares: Any, row: int, head: int, least: float, told: str) -> Markup:
    left = head * (len(shares) + 1)
    cells = [
        rect(left + at, row + 0.1, 1, 0.8, "plus", strength=float(share))
        for at, share in enumerate(shares)
        if share >= least
    ]
    ground = rect(left, row + 0.1, len(shares), 0.8, "ground")
    return tag("g", tag("title", told), ground, *cells)


def _spread(n: int, most: int) -> list[int]:
    """So many of them, evenly spread, the first and the last among them.

    >>> _spread(4, 8), _spread(9, 3)
    ([0, 1, 2, 3], [0, 4, 8])
    """
    if n <= most:
        return list(range(n))
    return [round(at * (n - 1) / (most - 1)) for at in range(most)]


def _least(shares: Any) -> float:
    """What a cell must have to be drawn, so that there are not too many."""
    if np.count_nonzero(shares >= LEAST_CELL) <= MOST_CELLS:
        return LEAST_CELL
    return float(np.partition(shares, -MOST_CELLS, axis=None)[-MOST_CELLS])


def _look_words(material: Material, attention: Any, layer: int, head: int) -> str:
    row = attention[layer, head]
    at = int(row.argmax())
    return (
        f"Layer {layer}, head {head}: {percent(float(row[at]))} on "
        f"{quoted(short(material.piece(at), TILE_LETTERS))} (position {at})"
    )


def _tile_note(
    shape: tuple[int, ...], n_layers: int, n_heads: int, n_places: int, least: float
) -> str:
    told = [TILES.format(least=percent(least))]
    if n_layers < shape[0]:
        told.append(f"{n_layers} of {shape[0]:,} layers are shown, evenly spread.")
    if n_heads < shape[1]:
        told.append(f"The first {n_heads} of {shape[1]:,} heads are shown.")
    if n_places < shape[2]:
        told.append(f"Of {shape[2]:,} tokens the first and the last {TILE_LAST} are shown.")
    return " ".join(told)


def _looks(material: Material) -> Markup:
    """The hardest look of each layer, as a table that can be opened."""
    rows: list[tuple[str, ...]] = []
    for layer, of_layer in enumerate(material.arrays["attention"]):
        look = hardest_look(of_layer)
        if look is None:
            rows.append((str(layer), NONE, NONE, NONE))
        else:
            word = f"{material.piece(look.token)} (position {look.token})"
            rows.append((str(layer), str(look.head), words(word), percent(look.weight)))
    return tag(
        "details",
        tag("summary", "The hardest look of each layer, the first token aside"),
        table(("Layer", "Head", "Looks at", "Share"), rows),
    )


# --- layers -------------------------------------------------------------------------------------


def way_rows(material: Material) -> Markup:
    """What attention and FFN add in each layer."""
    arrays = material.arrays
    if "residual" not in arrays:
        return lacking(material.why("residual"))
    found = way(arrays["residual"], arrays.get("attn_out"), arrays.get("ffn_out"))
    both = np.stack([found.attention_shares, found.ffn_shares])
    known = both[np.isfinite(both)]
    full = max(float(known.max()) if len(known) else 0.0, 0.01)
    rows = [
        tag(
            "tr",
            tag("th", str(layer), scope="row"),
            tag("td", _two_bars(both[:, layer], full), class_="room"),
            *(tag("td", _share(share), class_="number") for share in both[:, layer]),
            tag("td", exact(float(found.norms[layer])), class_="number"),
        )
        for layer in range(len(found))
    ]
    names = ("Layer", "", "Attention", "FFN", "Length after it")
    heads = tag("tr", *(tag("th", name, scope="col") for name in names))
    lacks = {material.missing[name] for name in ("attn_out", "ffn_out") if name in material.missing}
    return figure(
        "What each layer adds",
        tag("table", tag("thead", heads), tag("tbody", *rows)),
        *map(lacking, sorted(lacks)),
        note=WAY.format(full=percent(full)),
    )


def _two_bars(shares: Any, full: float) -> Markup:
    drawn = zip(shares, ("plus", "minus"), strict=True)
    return joined(bar(float(s) / full, tone) for s, tone in drawn if math.isfinite(s))


def _share(share: float) -> str:
    return percent(float(share)) if math.isfinite(share) else NONE


def lens_rows(material: Material) -> Markup:
    """What each layer would say if it were the last one."""
    lens = lens_of(material.arrays)
    if lens is None:
        return lacking(material.why("lens"))
    target = material.target
    rows = [
        Row(
            f"{layer}",
            lens.probability(layer),
            (
                words(material.said(int(lens.ids[layer, 0]))),
                percent(lens.probability(layer)),
                NONE if lens.ranks is None else f"{int(lens.ranks[layer]):,}",
            ),
            is_marked=int(lens.ids[layer, 0]) == target,
        )
        for layer in range(len(lens))
    ]
    own = quoted(material.piece(material.at))
    return figure(
        "The lens",
        bars(("Layer", "", "Best guess", "Probability", f"Rank of {own}"), rows),
        note=f"Where {own} is the best guess, the row is marked.",
    )


def wrote_rows(material: Material) -> Markup:
    """What the largest parts added to the score, and what none of them explains."""
    written = material.written
    if written is None:
        return lacking(material.why("written"))
    entries = [(each.words, each.value) for each in written.contributions[:MOST_ROWS]]
    rest = written.contributions[MOST_ROWS:]
    if rest:
        entries.append((f"{len(rest):,} others", math.fsum(each.value for each in rest)))
    entries.append(("unexplained", written.unexplained))
    most = max(abs(value) for _, value in entries) or 1.0
    rows = [Row(name, value / most, (_signed(value),)) for name, value in entries]
    rows.append(Row("all together", None, (_signed(written.difference),), is_marked=True))
    own, other = (quoted(material.said(each)) for each in (written.target, written.other))
    return figure(
        f"Who wrote {own} rather than {other}",
        bars(("Part", "", "Logits"), rows, is_signed=True),
        *(tag("p", note, class_="note") for note in written.notes),
        *map(lacking, dict.fromkeys(written.missing.values())),
        note=WROTE,
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
