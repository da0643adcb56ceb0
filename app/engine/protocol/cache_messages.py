"""The KV cache as the two processes speak of it: what it holds, changes by hand, one step timed.

Positions count the tokens of one sequence from 0. llama.cpp does not say which physical cell a
token lies in; what it says, and what the engine mirrors, is which sequences hold which positions.
A *run* is a stretch of cells that one sequence wrote. Sequences that share a beginning hold the
same run, by its number, so that its cells are counted once (see `cells.py`).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from app.engine.protocol.frames import (
    FEW,
    MANY,
    Amount,
    Count,
    Int32s,
    Milliseconds,
    Name,
    ProtocolError,
    WireMessage,
    Word,
)
from app.engine.protocol.media_messages import Spans, check_spans
from app.engine.protocol.replay_messages import ReplayDraws
from app.engine.protocol.saved_messages import SavedCommand, SavedCopy

CacheAct = Literal["clear", "park", "drop", "keep_prefix"]


class CacheLayers(WireMessage, frozen=True, tag=True):
    """`n_layers` layers that keep the same for each token: `k_width` and `v_width` values, in
    `k_bytes` and `v_bytes` bytes, which are `n_head_kv` heads (0: the header does not say it)."""

    n_layers: Count
    k_width: Count
    v_width: Count
    k_bytes: Count
    v_bytes: Count
    n_head_kv: Count = 0


class CacheShape(WireMessage, frozen=True, tag=True):
    """What a cell is made of, by the header. `n_window_layers` of the layers look back `window`
    positions and no further (by llama.cpp's own count; 0: none). `is_state`: these weights keep
    one state after the last token, beside cells or in place of them."""

    layers: Annotated[list[CacheLayers], FEW]
    n_window_layers: Count = 0
    window: Count = 0
    is_state: bool = False

    @property
    def bytes_per_token(self) -> int:
        return sum(group.n_layers * (group.k_bytes + group.v_bytes) for group in self.layers)


class ReadCache(WireMessage, frozen=True, tag=True):
    """What the KV cache holds now; answered between two steps. -> CacheMap"""

    id: Amount


class ChangeCache(WireMessage, frozen=True, tag=True):
    """Change the cache by hand. -> Done

    clear: all cells, all parked copies, and what is saved for the loaded weights go. park: what
    `conversation` has in cells goes to host memory. drop: what it has in cells, in host memory and
    on disk goes; with `copy`, that parked copy alone. keep_prefix: only its first `keep` positions
    stay.
    Refused where a reply is being written in a slot that would change.
    """

    id: Amount
    act: CacheAct
    conversation: str = ""
    keep: int = 0
    copy: int = 0


class MeasureStep(WireMessage, frozen=True, tag=True):
    """Time the scores of the next token of `conversation`, with its cells and by reading all of
    it again, in a context of its own: the cache stays as it is. -> StepMeasured"""

    id: Amount
    conversation: str


class CellRun(WireMessage, frozen=True, tag=True):
    """Positions [start, end) of a sequence, in the cells of run `number`."""

    number: Amount
    start: Count
    end: Count


class CellPart(WireMessage, frozen=True, tag=True):
    """Positions [start, end) come from `origin`: scaffold, a role, text, or reply (drawn in this
    slot's last turn), and belong to this message, if to any."""

    start: Count
    end: Count
    origin: Word
    message_id: Name | None = None


class CacheSlot(WireMessage, frozen=True, tag=True):
    """A sequence that holds cells. `token_ids` (i4): the token at each position. `first_position`:
    the oldest one still held in every layer (above 0 where a sliding window has moved on).
    `state_bytes`: what llama.cpp says that a copy of it takes. `media`: which of them are cells of
    pictures."""

    sequence: Count
    conversation: Name
    is_busy: bool
    first_position: Count
    token_ids: Int32s
    runs: Annotated[list[CellRun], MANY]
    parts: Annotated[list[CellPart], MANY]
    state_bytes: Amount
    media: Spans = msgspec.field(default_factory=list)

    def check(self) -> None:
        """Runs follow each other and cover the sequence, and so do parts, as far as there are."""
        at = 0
        for run in self.runs:
            if run.start != at or run.end <= at:
                raise ProtocolError("the runs of a sequence do not follow each other")
            at = run.end
        if at != self.token_ids.size:
            raise ProtocolError("the runs of a sequence do not cover it")
        borders = [place for part in self.parts for place in (part.start, part.end)]
        if borders != sorted(borders) or (borders and borders[-1] > at):
            raise ProtocolError("the parts of a sequence do not follow each other")
        check_spans(self.media, at)


class ParkedCopy(WireMessage, frozen=True, tag=True):
    """A sequence in host memory. `number` names it in `ChangeCache.copy`; `since`: when it was
    parked, in seconds since 1970."""

    number: Amount
    conversation: Name
    n_tokens: Count
    size_bytes: Amount
    first_position: Count
    since: Amount = 0


class LastTurn(WireMessage, frozen=True, tag=True):
    """The newest reply of a conversation: prompt tokens `reused` (from slot, fork, parked, or
    nowhere) and `evaluated`, tokens `written`. Where the window was full in the middle of it, so
    many tokens of the prompt were `dropped`, and the rest `was_read_again` or shifted."""

    conversation: Name
    reused: Count
    evaluated: Count
    written: Count
    source: Word
    dropped: Count = 0
    was_read_again: bool = False


class CacheMap(WireMessage, frozen=True, tag=True):
    """`n_used` of `n_ctx` cells are taken, shared ones counted once. `saved`: on disk, the longest
    unused first; a cap of 0: none is saved."""

    n_ctx: Count
    n_used: Count
    slots: Annotated[list[CacheSlot], FEW]
    parked: Annotated[list[ParkedCopy], MANY]
    parked_bytes: Amount
    parked_cap_bytes: Amount
    turns: Annotated[list[LastTurn], FEW]
    saved: Annotated[list[SavedCopy], MANY] = msgspec.field(default_factory=list)
    saved_bytes: Amount = 0
    saved_cap_bytes: Amount = 0

    def check(self) -> None:
        """A run begins at the same position wherever it is held, and all have room."""
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        for run in (run for slot in self.slots for run in slot.runs):
            if begins.setdefault(run.number, run.start) != run.start:
                raise ProtocolError("a run does not begin where it did")
            ends[run.number] = max(ends.get(run.number, 0), run.end)
        if not sum(ends[n] - begins[n] for n in ends) <= self.n_ctx or self.n_ctx < 1:
            raise ProtocolError("there are more cells in use than there are")


class StepMeasured(WireMessage, frozen=True, tag=True):
    """Milliseconds until the scores of the next token after `n_tokens` are there: `step_ms` with
    the cells of all but the last one (each of the steps that were timed), `replay_ms` reading
    every token again (each pass). The middle ones are what is shown."""

    n_tokens: Count
    step_ms: Annotated[list[Milliseconds], FEW]
    replay_ms: Annotated[list[Milliseconds], FEW]
    n_threads: Count

    @property
    def step(self) -> float:
        return _median(self.step_ms)

    @property
    def replay(self) -> float:
        return _median(self.replay_ms)


def _median(values: list[float]) -> float:
    """
    >>> _median([3.0, 1.0, 2.0])
    2.0
    """
    return sorted(values)[len(values) // 2] if values else 0.0


CacheCommand = ReadCache | ChangeCache | MeasureStep | ReplayDraws | SavedCommand
"""What is answered between two steps, and makes way for replies."""
