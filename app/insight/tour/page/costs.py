"""Pictures of what it costs: time, the KV cache, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.amounts import percent, time_text
from app.insight.time.bars import bars as token_bars
from app.insight.time.timeline import Lane, parts, total_ms
from app.insight.tour.page.markup import Markup, Row, bars, figure, lacking, picture, rect
from app.insight.tour.page.material import Material

LANES: Final[tuple[Lane, ...]] = ("waited", "prefill", "decode")
MOST_STRETCHES: Final = 400
NONE: Final = "–"
_WIDE: Final = 1_000

_KEPT: Final = (
    ("kv_per_token", "one token"),
    ("kv_used", "this chat"),
    ("kv_full", "a full context window"),
)
_STEPS: Final = (("step_with", "with the KV cache"), ("step_without", "without it"))
_SIZES: Final = (
    ("size_at_16", "16 bits for each parameter"),
    ("size_at_8", "8 bits"),
    ("size_at_4", "4 bits"),
    ("file_size", "this file"),
    ("kv_full", "KV cache of a full context window"),
    ("memory_total", "memory of that computer"),
)


def time_line(material: Material) -> Markup:
    """When it waited, read and wrote, and the followed token's time."""
    line = material.stretches
    whole = total_ms(line)
    if not line or whole <= 0:
        return lacking(material.why("timeline"))
    shown = sorted(line, key=lambda one: -one.ms)[:MOST_STRETCHES]
    shapes = [
        rect(
            one.start_ms / whole * _WIDE,
            LANES.index(one.lane),
            one.ms / whole * _WIDE,
            0.8,
            f"l-{one.lane}",
        )
        for one in shown
    ]
    marked = ""
    placed = token_bars(line, material.token_ms)
    if material.index is not None and material.index < len(placed):
        start, end = (float(at[material.index]) for at in (placed.starts, placed.ends))
        left, width = start / whole * _WIDE, (end - start) / whole * _WIDE
        shapes.append(rect(left, LANES.index("decode"), max(width, 2), 0.8, "mark"))
        marked = f"The followed token came {time_text(end)} after the message, and is marked. "
    rows = [
        Row(
            part.name,
            part.share,
            (
                time_text(part.ms),
                percent(part.share),
                f"{part.tokens:,}" if part.tokens else NONE,
                NONE if part.tokens_per_s is None else f"{part.tokens_per_s:,.1f}",
            ),
            f"l-{_lane(material, part.kind)}",
        )
        for part in parts(line)
    ]
    note = f"{marked}Waiting is the upper lane, reading the middle one, writing the lower one."
    if len(shown) < len(line):
        note += f" The {len(line) - len(shown):,} shortest stretches aren’t drawn."
    words = f"The time line of the reply, {time_text(whole)}"
    return figure(
        f"Where the time went: {time_text(whole)}",
        picture(_WIDE, len(LANES), words, *shapes, rem=3.6),
        bars(("Phase", "", "Time", "Share", "Tokens", "Tokens/s"), rows),
        note=note,
    )


def _lane(material: Material, kind: str) -> Lane:
    return next(one.lane for one in material.stretches if one.kind == kind)


def step_rows(material: Material) -> Markup:
    """One step with the cache and without, if it was measured."""
    known = [(words, material.facts[name]) for name, words in _STEPS if name in material.facts]
    most = max((float(fact.value) for _, fact in known), default=0.0)
    if most <= 0:
        return Markup("")
    rows = [Row(words, float(fact.value) / most, (fact.text,)) for words, fact in known]
    return figure("The next token, measured", bars(("", "", "Time"), rows))


def cache_rows(material: Material) -> Markup:
    return _amounts(material, "What the KV cache takes", _KEPT)


def memory_rows(material: Material) -> Markup:
    return _amounts(material, "Memory", _SIZES)


def _amounts(material: Material, title: str, names: Sequence[tuple[str, str]]) -> Markup:
    """Of facts that are bytes."""
    facts = material.facts
    known = [(words, facts[name]) for name, words in names if name in facts]
    most = max((float(fact.value) for _, fact in known), default=0.0)
    if most <= 0:
        return lacking(material.why("sizes"))
    rows = [Row(words, float(f.value) / most, (f.text.partition(" at ")[0],)) for words, f in known]
    return figure(title, bars(("", "", "Bytes"), rows))
