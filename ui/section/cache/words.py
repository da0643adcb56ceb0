"""What the cache panel says, with units. Pure; no Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.amounts import bytes_words
from app.engine.protocol.cache_messages import (
    CacheMap,
    CacheShape,
    LastTurn,
    ParkedCopy,
    StepMeasured,
)
from app.engine.protocol.saved_messages import SavedCopy
from app.insight.cache.cells import CellMap, Grid
from app.insight.cache.sizes import copy_size
from app.insight.prompt.media import place_words
from app.insight.prompt.parts import origin_words
from app.insight.trace.tokens_shown import visible

NO_NAMES: Final[Mapping[str, str]] = {}

TITLE: Final = 25
"""Characters of a chat's title in a legend."""

SOURCES: Final = {
    "slot": "from its own cells",
    "fork": "shared with another sequence",
    "parked": "from host memory",
    "saved": "from disk",
}


def cells_text(told: CacheMap) -> str:
    return f"KV cache: {told.n_used:,} of {told.n_ctx:,} cells"


def grid_text(grid: Grid, n_ctx: int) -> str:
    """What one square is, and what is not drawn."""
    if grid.per_square == 1:
        square = "One square = 1 cell"
    else:
        square = f"One square = {grid.per_square:,} cells, coloured by the first"
    if grid.n_shown >= n_ctx:
        return f"{square}; all {n_ctx:,} shown."
    return f"{square}; {grid.n_shown:,} of {n_ctx:,} shown, the rest are free."


def cell_lines(
    cells: CellMap,
    cell: int,
    per_square: int,
    piece: bytes | None,
    message: str = "",
    titles: Sequence[str] = (),
    names: Mapping[str, str] = NO_NAMES,
) -> tuple[str, str]:
    """Which cell it is and what it holds; then whose it is. `message`: the text that its message
    begins with; `titles`: of other chats that hold it; `names`: of pictures and sounds."""
    which = f"cell {cell:,}"
    if per_square > 1:
        which = f"cells {cell:,}–{cell + per_square - 1:,}, of the first"
    stretch = cells.at(cell)
    if stretch is None:
        return f"{which} · free", ""
    parts = [which, f"position {stretch.position + cell - stretch.first:,}"]
    token_id = cells.token_id(cell)
    if token_id is not None and token_id < -1:
        found = cells.media_at(cell)
        parts.append(place_words(*found, names) if found else "part of a picture or sound")
    elif token_id is not None:
        parts += [*([visible(piece)] if piece is not None else []), f"ID {token_id}"]
    origin = origin_words(stretch.origin)
    words = short_title(" ".join(message.split()))
    whose = [f"{origin}: “{words}”" if words else origin]
    whose += [f"chat “{short_title(title)}”" for title in dict.fromkeys(titles)]
    if len(stretch.holders) > 1:
        whose.append(f"shared by {len(stretch.holders)} sequences")
    if stretch.turn:
        whose.append(f"{stretch.turn} in the last turn")
    return " · ".join(parts), " · ".join(whose)


def reused_text(turn: LastTurn | None) -> str:
    """What was reused, and where it came from."""
    source = SOURCES.get(turn.source, "") if turn is not None and turn.reused else ""
    return f"cached, {source}" if source else "reused"


def window_text(shape: CacheShape) -> tuple[str, str]:
    """Which layers look through a window, and how wide it is.

    >>> from app.engine.protocol.cache_messages import CacheLayers
    >>> window_text(CacheShape([CacheLayers(18, 256, 256, 512, 512)], 15, 512))
    ('15 of 18 layers look back', '512 positions')
    """
    n_layers = sum(group.n_layers for group in shape.layers)
    return (
        f"{shape.n_window_layers:,} of {n_layers:,} layers look back",
        f"{shape.window:,} positions",
    )


def copy_text(shape: CacheShape | None, n_tokens: int, first: int, native: int) -> str:
    """The native size of a sequence's state against the formula."""
    size = None if shape is None else copy_size(shape, n_tokens, first)
    if size is None:
        return f"{native:,} bytes by llama.cpp"
    if size.total == native:
        return (
            f"{native:,} bytes by llama.cpp = {size.row_bytes:,} of K and V "
            f"+ {size.header_bytes:,} of header"
        )
    return f"{native:,} bytes by llama.cpp, {size.total:,} by the formula"


def measured_text(measured: StepMeasured) -> str:
    """How it was had."""
    n_steps, n_passes = len(measured.step_ms), len(measured.replay_ms)
    steps = f"median of {n_steps:,} cached runs" if n_steps > 1 else "1 cached run"
    passes = f"{n_passes:,} uncached runs" if n_passes > 1 else "1 uncached run"
    threads = f"{measured.n_threads:,} thread{'' if measured.n_threads == 1 else 's'}"
    return (
        f"For the token after {measured.n_tokens:,}: {steps}, {passes}, {threads}, in a separate "
        "context."
    )


def ms_text(ms: float) -> str:
    """
    >>> ms_text(18.04), ms_text(690.2), ms_text(1.234), ms_text(12_345)
    ('18.0 ms', '690 ms', '1.23 ms', '12,345 ms')
    """
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 10 else f"{ms:.2f} ms"


def dropped_text(turn: LastTurn | None) -> str:
    """What became of the cells behind what was dropped in the middle of a reply."""
    again = turn is not None and turn.was_read_again
    return f"dropped midway, rest {'processed again' if again else 'moved up'}"


NO_SUMMARY: Final = "A text can't be summarized: it has no messages."


def short_title(title: str) -> str:
    """
    >>> short_title("What is the capital of France, and what is it known for?")
    'What is the capital of F…'
    """
    return title if len(title) <= TITLE else title[: TITLE - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a chat as a list shows it. `hint`: what its button does."""

    number: int
    title: str
    words: str
    hint: str


def parked_copy(copy: ParkedCopy, title: str, now: float) -> Copy:
    hint = f"Drop the parked copy of “{title}”. It is processed again when the chat continues."
    words = _copy_words(copy.n_tokens, copy.size_bytes, copy.since, now)
    return Copy(copy.number, title, words, hint)


def saved_copy(copy: SavedCopy, title: str, now: float) -> Copy:
    """One that the loaded model cannot go on from says so."""
    words = _copy_words(copy.n_tokens, copy.size_bytes, copy.used_at, now)
    if not copy.is_usable:
        words = f"{words} · other model"
    hint = f"Delete the saved copy of “{title}”. The chat stays; it may be processed again."
    return Copy(copy.number, title, words, hint)


def _copy_words(n_tokens: int, size_bytes: int, since: int, now: float) -> str:
    age = [age_text(now - since)] if since else []
    return " · ".join([tokens_text(n_tokens), bytes_words(size_bytes), *age])


def age_text(age_s: float) -> str:
    """
    >>> age_text(20), age_text(150), age_text(7_300), age_text(200_000)
    ('just now', '2 min', '2 h', '2 days')
    """
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if age_s >= size:
            n = int(age_s // size)
            return f"{n:,} {unit}{'s' if unit == 'day' and n > 1 else ''}"
    return "just now"


def tokens_text(n_tokens: int) -> str:
    return f"{n_tokens:,} token{'' if n_tokens == 1 else 's'}"


def policy_text(policy: str, used: int, size: int, n_cut: int, *, is_text: bool = False) -> str:
    """What a context policy would do with the next prompt, of `used` tokens once `n_cut` messages
    are left out (of a text, its beginning).

    >>> policy_text("stop", 5000, 4096, 0)
    "The next prompt needs 5,000 tokens, but the context window holds 4,096. It won't be answered."
    """
    too_long = f"The next prompt needs {used:,} tokens, but the context window holds {size:,}"
    if policy == "stop":
        if used > size:
            return f"{too_long}. It won't be {'continued' if is_text else 'answered'}."
        if is_text:
            return "If a text no longer fits, it isn't continued and you get a message."
        return "If a message no longer fits, it isn't answered and you get a message."
    if used > size:
        return f"{too_long}, even after dropping older messages. It won't be answered."
    is_middle = policy == "keep_ends"
    if policy == "summarize" and is_text:
        return (
            "A text can't be summarized: it has no messages. If it no longer fits, its beginning "
            "is dropped; nothing is deleted."
        )
    if policy == "summarize" and n_cut:
        messages = "message" if n_cut == 1 else "messages"
        return (
            f"{n_cut:,} older {messages}, above the line in the chat, will be summarized before "
            "the next message is sent. Nothing is deleted."
        )
    if policy == "summarize":
        return "Everything fits now. Later the oldest turns are summarized; nothing is deleted."
    if is_text and n_cut:
        part = "middle" if is_middle else "beginning"
        return f"The next prompt drops the {part} of the text. Nothing is deleted."
    if n_cut:
        messages = "message" if n_cut == 1 else "messages"
        which = f"{n_cut:,} {messages}" if is_middle else f"{n_cut:,} older {messages}"
        where = "between the lines" if is_middle else "above the line"
        return f"The next prompt drops {which}, {where} in the chat. Nothing is deleted."
    if is_text:
        later = "the middle of the text is" if is_middle else "the beginning of the text is"
    else:
        later = "turns in the middle are" if is_middle else "the oldest turns are"
    return f"Everything fits now. Later {later} dropped; nothing is deleted."
