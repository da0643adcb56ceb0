"""All tokens of a chat's replies as one table (CSV), with what was recorded of each.

What must hold: numbers as programs read them, a point for decimals and no unit; a spreadsheet takes
no cell for a formula, whatever a token or a title says (`safe_cell`): the bytes are told beside it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from app.chat.exchange.choices import Choices
from app.chat.exchange.reading import Chat
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.tokens_shown import hexadecimal, safe_cell, visible
from models.records import Role

HEADS: Final = (
    *("chat", "message", "version", "model", "token", "id", "piece", "bytes", "probability"),
    *("log_probability", "rank", "entropy_bits", "time_ms", "origin", "alternatives"),
)
AT_ONCE: Final = 512


def rows(chat: Chat, choices: Choices) -> Iterator[str]:
    """The heading, then some hundred rows at a time."""
    yield _written([HEADS])
    for stretch in chat.stretches(all_versions=choices.branches):
        for message in stretch.messages:
            chat.step()
            if message.role is not Role.ASSISTANT:
                continue
            traces = chat.trace(message)
            about = (
                safe_cell(chat.title),
                chat.numbers[message.id],
                message.sibling_index + 1,
                safe_cell(message.weights_name or ""),
            )
            for first in range(0, len(traces), AT_ONCE):
                chat.check()
                yield _written(
                    (*about, at + 1, *_row(traces[at], choices.alternatives))
                    for at in range(first, min(first + AT_ONCE, len(traces)))
                )


def _row(token: TokenTrace, n_alternatives: int) -> tuple[object, ...]:
    """`alternatives`: "id=probability", the likeliest first."""
    ids = np.frombuffer(token.alternative_ids.data, "<i4")[:n_alternatives].tolist()
    logprobs = np.frombuffer(token.alternative_logprobs.data, "<f4")[:n_alternatives].tolist()
    return (
        token.token_id,
        safe_cell(visible(token.piece)),
        hexadecimal(token.piece),
        f"{math.exp(min(token.logprob, 0.0)):.6g}",
        _number(token.logprob),
        token.rank or "",
        _number(token.entropy),
        f"{token.ms:.3f}",
        _origin(token),
        " ".join(f"{i}={math.exp(min(p, 0.0)):.6g}" for i, p in zip(ids, logprobs, strict=False)),
    )


def _number(number: float | None) -> str:
    """Empty where there is none: a spreadsheet takes "-inf" for a formula."""
    return "" if number is None or not math.isfinite(number) else f"{number + 0.0:.6g}"


def _origin(token: TokenTrace) -> str:
    if token.inserted:
        return "inserted"
    if token.chosen:
        return "chosen"
    return "drafted" if token.drafted else "drawn"


def _written(lines: object) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(lines)  # type: ignore[arg-type]
    return out.getvalue()
