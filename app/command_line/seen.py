"""What `inside` prints: a summary to read, or one JSON object."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from app.amounts import figures
from app.command_line.output import json_text
from app.engine.protocol.inside_messages import AXES, OF_EXPERTS
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Event, Progress
from app.engine.protocol.pieces import Pieces
from app.insight.inside.attention import HardLook, hardest_look
from app.insight.inside.votes import lens_of, votes
from app.insight.inside.way import norms, way

Values = np.ndarray[Any, Any]

FILE_ARRAYS: Final = (
    "token_ids",
    "embedding",
    "q_before",
    "q_after",
    "k_after",
    "attention",
    "attn_out",
    "ffn_out",
    "residual",
    "lens_ids",
    "lens_logits",
    "logits",
)
"""What the file holds, as far as the architecture has it …"""

SAVED: Final = (*FILE_ARRAYS, *OF_EXPERTS)
"""… and which experts the token passed, where there are any."""

N_BEST: Final = 10

_ALL_UP_TO: Final = 40
_AROUND: Final = 12
"""Tokens that are listed before the chosen one and behind it, in a long text."""

_LOOK_WIDTH: Final = 34


class ReadingLine:
    """How far a long text has been read, in one line of a terminal; otherwise nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def event(self, event: Event) -> None:
        if isinstance(event, Progress) and event.phase == "inside" and self._stream.isatty():
            self._write(f"Reading: {event.done:,} of {event.total:,} tokens")

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(f"\r{text:<{self._width}}" + "\r" * (not text))
            self._stream.flush()
        self._width = len(text)


@dataclass(frozen=True)
class Seen:
    """All that was found out about the token at `token` of the text `ids`. `arrays` as in
    docs/inside.md, and `lens_total`; `missing`: array → why."""

    path: str
    loaded: Loaded
    ids: list[int]
    token: int
    pieces: Pieces
    arrays: dict[str, Values]
    missing: dict[str, str]
    notes: list[str]


@dataclass(frozen=True)
class Candidate:
    """A token that could come next."""

    token_id: int
    logit: float
    probability: float


@dataclass(frozen=True)
class Layer:
    """Figures of a layer; None where the architecture doesn't offer them. Shares as
    `way.Way`."""

    norm: float | None
    attention_share: float | None
    ffn_share: float | None
    look: HardLook | None
    lens: Candidate | None


# --- figures ----------------------------------------------------------------------------------


def layers_of(seen: Seen) -> list[Layer]:
    """One for each layer that any array tells of."""
    arrays = seen.arrays
    of_layers = ("attn_out", "ffn_out", "residual", "attention", "lens_ids")
    n_layer = max((len(arrays[name]) for name in of_layers if name in arrays), default=0)
    columns: list[list[Any]] = [[None] * n_layer] * 3
    if "residual" in arrays:
        found = way(arrays["residual"], arrays.get("attn_out"), arrays.get("ffn_out"))
        told = (found.norms, found.attention_shares, found.ffn_shares)
        columns = [[_number(value) for value in values] for values in told]
    columns += [_looks(seen, n_layer), _lens(seen, n_layer)]
    return [Layer(*each) for each in zip(*columns, strict=True)]


def _looks(seen: Seen, n_layer: int) -> list[HardLook | None]:
    rows = seen.arrays.get("attention")
    return [None] * n_layer if rows is None else [hardest_look(of_layer) for of_layer in rows]


def _lens(seen: Seen, n_layer: int) -> list[Candidate | None]:
    lens = lens_of(seen.arrays)
    if lens is None:
        return [None] * n_layer
    return [
        Candidate(int(lens.ids[at, 0]), float(lens.logits[at, 0]), lens.probability(at))
        for at in range(n_layer)
    ]


def next_tokens(seen: Seen) -> list[Candidate]:
    """The best candidates for the next token; their probabilities are before any sampler."""
    logits = seen.arrays.get("logits")
    if logits is None:
        return []
    rows = votes(logits, N_BEST).rows
    return [Candidate(each.token_id, each.logit, each.probability) for each in rows]


def _number(value: float) -> float | None:
    """NaN where a layer has no such numbers."""
    return float(value) if math.isfinite(value) else None


# --- JSON -------------------------------------------------------------------------------------


def as_json(seen: Seen, out: Path | None, stream: TextIO) -> str:
    """One object in one line. Big arrays are in the file; here are their shapes."""
    loaded, embedding = seen.loaded, seen.arrays.get("embedding")
    axes = {**AXES, "token_ids": ("n_tok",)}
    said = {
        "file": seen.path,
        "name": loaded.name,
        "architecture": loaded.architecture,
        "out": None if out is None else str(out),
        "tokens": [{"position": at, **_named(seen, i)} for at, i in enumerate(seen.ids)],
        "token": seen.token,
        "arrays": {
            name: {
                "shape": list(values.shape),
                "axes": list(axes[name]),
                "dtype": values.dtype.name,
            }
            for name in SAVED
            if (values := seen.arrays.get(name)) is not None
        },
        "missing": seen.missing,
        "notes": seen.notes,
        "embedding_norm": None if embedding is None else _number(float(norms(embedding))),
        "layers": [_layer_fields(seen, at, layer) for at, layer in enumerate(layers_of(seen))],
        "next": [_candidate_fields(seen, each) for each in next_tokens(seen)],
    }
    return json_text(said, stream) + "\n"


def _named(seen: Seen, token_id: int) -> dict[str, Any]:
    piece = seen.pieces.piece(token_id)
    return {"id": token_id, "text": piece.decode("utf-8", "replace"), "bytes": piece.hex()}


def _candidate_fields(seen: Seen, candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    figures = {"logit": candidate.logit, "probability": candidate.probability}
    return _named(seen, candidate.token_id) | figures


def _layer_fields(seen: Seen, at: int, layer: Layer) -> dict[str, Any]:
    return {
        "layer": at,
        "norm": layer.norm,
        "attention_share": layer.attention_share,
        "ffn_share": layer.ffn_share,
        "look": None if layer.look is None else layer.look._asdict(),
        "lens": _candidate_fields(seen, layer.lens),
    }


# --- to read ----------------------------------------------------------------------------------


def as_text(seen: Seen, out: Path | None) -> str:
    """The summary, in lines."""
    lines = [*_text_lines(seen), "", *_layer_lines(seen), "", *_next_lines(seen)]
    reasons: dict[str, list[str]] = {}
    for name, why in seen.missing.items():
        reasons.setdefault(why, []).append(name)
    remarks = [f"Missing: {', '.join(names)}. {why}" for why, names in reasons.items()]
    remarks += seen.notes
    if out is not None:
        remarks.append(f"Saved to {out}")
    return "\n".join([*lines, *(["", *remarks] if remarks else [])]) + "\n"


def _text_lines(seen: Seen) -> Iterator[str]:
    loaded, n_tok = seen.loaded, len(seen.ids)
    yield f"{loaded.name or seen.path} ({loaded.architecture})"
    yield f"{n_tok:,} token{'' if n_tok == 1 else 's'}. Looking at token {seen.token}:"
    yield ""
    shown = range(n_tok)
    if n_tok > _ALL_UP_TO:
        shown = range(max(seen.token - _AROUND, 0), min(seen.token + _AROUND + 1, n_tok))
    width = len(str(n_tok - 1))
    if shown[0] > 0:
        yield f"  {'…':>{width}}"
    for at in shown:
        arrow = "→" if at == seen.token else " "
        yield f"{arrow} {at:>{width}}  {_quoted(seen, seen.ids[at])}"
    if shown[-1] < n_tok - 1:
        yield f"  {'…':>{width}}"


def _layer_lines(seen: Seen) -> Iterator[str]:
    embedding = seen.arrays.get("embedding")
    if embedding is not None:
        yield f"Embedding: norm {figures(float(norms(embedding)))}"
        yield ""
    yield "Norm: of the stream after the layer. Attention, FFN: norm of what each adds, against it."
    yield "Strongest look: the most attention that any head gives to a token other than the first."
    yield "Lens: the next token if this layer were the last."
    yield ""
    heading = "Strongest look"
    yield f"Layer     Norm  Attention     FFN  {heading:<{_LOOK_WIDTH}}  Lens"
    for at, layer in enumerate(layers_of(seen)):
        norm = "–" if layer.norm is None else figures(layer.norm)
        yield (
            f"{at:>5}  {norm:>7}  {_percent(layer.attention_share):>9}  "
            f"{_percent(layer.ffn_share):>6}  {_look_words(seen, layer.look):<{_LOOK_WIDTH}}  "
            f"{_lens_words(seen, layer.lens)}"
        )


def _next_lines(seen: Seen) -> Iterator[str]:
    found = next_tokens(seen)
    if found:
        yield "Next token"
    for rank, each in enumerate(found, 1):
        name = _quoted(seen, each.token_id)
        yield f"{rank:>5}  {each.probability:>6.1%}  logit {each.logit:>6.2f}  {name}"


def _look_words(seen: Seen, look: HardLook | None) -> str:
    if look is None:
        return "–"
    where = _quoted(seen, seen.ids[look.token])
    return f"head {look.head}, {look.weight:.0%} on {look.token} {where}"


def _lens_words(seen: Seen, lens: Candidate | None) -> str:
    if lens is None:
        return "–"
    return f"{lens.probability:>6.1%}  {_quoted(seen, lens.token_id)}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _quoted(seen: Seen, token_id: int) -> str:
    """A token's text as it can stand in a line: a line feed is \\n, half a character \\xf0.
    Terminals obey what is not printable, so none of it is printed."""
    text = seen.pieces.piece(token_id).decode("utf-8", "backslashreplace")
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"“{plain}”"
