"""What the time line says about a moment, in words. Pure; no Qt."""

from __future__ import annotations

from typing import Final

from app.amounts import time_text
from app.insight.time.timeline import COUNTED, KINDS, LEAST_MS, Stretch

_PASSES: Final = COUNTED
_READING: Final = frozenset({"prefill", "reread"})


def tick_text(ms: float, step_ms: float) -> str:
    """A moment on the axis, as exact as its neighbours are apart.

    >>> tick_text(0, 50), tick_text(150, 50), tick_text(1500, 500), tick_text(2.5, 0.5)
    ('0', '150 ms', '1.5 s', '2.5 ms')
    """
    if ms == 0:
        return "0"
    if step_ms >= 100:
        return f"{ms / 1000:,.{0 if step_ms >= 1000 else 1}f} s"
    digits = 0 if step_ms >= 1 else 1 if step_ms >= 0.1 else 2
    return f"{ms:,.{digits}f} ms"


def tokens_text(n_tokens: int) -> str:
    return f"{n_tokens:,} token" if n_tokens == 1 else f"{n_tokens:,} tokens"


def pass_text(slots: int, batch: int, *, of_many: bool = False) -> str:
    """Who shared a pass; empty where that was not recorded.

    >>> pass_text(1, 1), pass_text(3, 3), pass_text(2, 65)
    ('alone in its pass', '3 replies in the pass', '2 replies in the pass, 65 tokens')
    """
    if not slots:
        return ""
    if slots == 1:
        return "alone in its pass"
    most = "up to " if of_many else ""
    tokens = "" if batch == slots else f", {most}{tokens_text(batch)}"
    return f"{most}{slots} replies in the pass{tokens}"


def stretch_lines(stretch: Stretch) -> list[str]:
    """Its name and length, its figures, what it is."""
    kind = KINDS[stretch.kind]
    lines = [f"{kind.name} · {time_text(stretch.ms)}"]
    figures = []
    if stretch.tokens and stretch.kind in _PASSES:
        figures.append(tokens_text(stretch.tokens))
    elif stretch.tokens:
        figures.append(f"{tokens_text(stretch.tokens)} kept")
    if stretch.kind in _READING and stretch.ms >= LEAST_MS:
        figures.append(f"{1000 * stretch.tokens / stretch.ms:,.0f} tokens/s")
    figures.append(pass_text(stretch.slots, stretch.batch, of_many=stretch.parts > 1))
    figures.append(f"from {time_text(stretch.start_ms)}")
    if stretch.parts > 1:
        figures.append(f"merged from {stretch.parts:,}")
    lines.append(" · ".join(figure for figure in figures if figure))
    return [*lines, kind.sentence]


def token_lines(
    index: int, piece: str, ms: float, start_ms: float, slots: int, batch: int
) -> list[str]:
    """Its piece and time, and who shared its pass."""
    lines = [f"{piece} · token {index + 1:,} of the reply"]
    figures = [time_text(ms), pass_text(slots, batch), f"from {time_text(start_ms)}"]
    lines.append(" · ".join(figure for figure in figures if figure))
    if slots > 1 and batch == slots and ms >= LEAST_MS:
        lines.append(f"{1000 * slots / ms:,.0f} tokens/s for all {slots} together")
    return lines
