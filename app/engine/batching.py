"""What the next step computes: one row per writer, and a share of the rest per prompt.

Nobody who writes waits for a prompt: writers come first, and prompts get what still fits into
the time that a step may take (`pace.py`). Prompts share it evenly, so that a short one is not
held up by a long one that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.native import Batch
from app.engine.pace import Pace
from app.engine.slot import Phase, Reply, Slot
from app.engine.space import CellSpace

REPEATABLE_CHUNK: Final = 128
"""Prompt tokens per step of a repeatable reply, whatever the machine's speed."""


@dataclass(slots=True)
class Row:
    """A slot's share of the batch in flight: `tokens` at the end of its cells."""

    slot: Slot
    reply: Reply
    tokens: list[int]
    wants_scores: bool
    index: int = -1

    @property
    def is_reading(self) -> bool:
        return self.reply.phase is Phase.READING

    @property
    def scores_prompt(self) -> bool:
        """Whether each of the row's tokens asks for scores."""
        return self.is_reading and self.reply.request.generate.score_prompt

    @property
    def start(self) -> int:
        """The batch row of its first token."""
        return self.index - len(self.tokens) + 1


class Batching:
    """Fills the one batch of a context. `max_outputs`: rows that may ask for scores at once."""

    def __init__(
        self, slots: list[Slot], space: CellSpace, pace: Pace, batch: Batch, max_outputs: int
    ) -> None:
        self._slots = slots
        self._space = space
        self._pace = pace
        self._batch = batch
        self._max_outputs = max_outputs

    def build(self, end_full: Callable[[Slot], None]) -> list[Row]:
        """The rows of the next step, already in the batch. `end_full(slot)` ends a writer for
        whom there is no cell left: the newest ones, and no more than needed."""
        self._batch.clear()
        rows = self._writers(end_full)
        reading = [s for s in self._slots if s.reply is not None and s.reply.phase is Phase.READING]
        if reading:
            rows += self._readers(reading, len(rows))
        for row in rows:
            row.index = self._batch.add(
                row.tokens,
                len(row.slot.cells),
                row.slot.cells.sequence,
                want_scores=row.wants_scores,
                want_all=row.scores_prompt,
            )
        return rows

    def _writers(self, end_full: Callable[[Slot], None]) -> list[Row]:
        writing = [
            (slot, slot.reply, slot.reply.next_token)
            for slot in self._slots
            if slot.reply is not None
            and slot.reply.phase is Phase.WRITING
            and slot.reply.next_token is not None
        ]
        while writing and self._space.make_room(len(writing)) < len(writing):
            newest = max(writing, key=lambda one: one[1].started)
            end_full(newest[0])
            writing.remove(newest)
        return [Row(slot, reply, [token], wants_scores=True) for slot, reply, token in writing]

    def _readers(self, reading: list[Slot], n_writers: int) -> list[Row]:
        reading.sort(key=lambda slot: slot.reply.started if slot.reply else 0.0)
        replies = [slot.reply for slot in reading if slot.reply is not None]
        chunk = self._pace.chunk(somebody_writes=n_writers > 0)
        if n_writers:
            chunk = max(chunk - n_writers, 1)
        if replies[0].request.generate.repeatable:
            chunk = REPEATABLE_CHUNK
        room = min(self._batch.room - n_writers, chunk)
        room = self._space.make_room(n_writers + room) - n_writers
        wants = [len(r.ids) - len(s.cells) for s, r in zip(reading, replies, strict=True)]
        # Each slot may ask for one row of scores; what is left of them goes to scored prompts.
        scorable = max(self._max_outputs - n_writers - len(reading) + 1, 1)
        for number, reply in enumerate(replies):
            if reply.request.generate.score_prompt:
                wants[number] = min(wants[number], scorable)
                scorable = max(scorable - wants[number], 1)
        rows = []
        for slot, reply, share in zip(reading, replies, shares(wants, room), strict=True):
            if share:
                at = len(slot.cells)
                ids = reply.ids[at : at + share]
                rows.append(Row(slot, reply, ids, at + share == len(reply.ids)))
        return rows


def shares(wants: Sequence[int], room: int) -> list[int]:
    """Deal `room` evenly, at most what each wants; what is left over goes to the first ones.

    >>> shares([100, 5, 30], 65), shares([4, 4], 3), shares([9], 20)
    ([30, 5, 30], [2, 1], [9])
    """
    given = [0] * len(wants)
    while room > 0 and (hungry := [i for i, want in enumerate(wants) if given[i] < want]):
        each = max(room // len(hungry), 1)
        for i in hungry:
            portion = min(each, wants[i] - given[i], room)
            given[i] += portion
            room -= portion
    return given
