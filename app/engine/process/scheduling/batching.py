"""What the next step computes: one row per writer, and a share of the rest per prompt.

Nobody who writes waits for a prompt: writers come first, and prompts get what still fits into
the time that a step may take (`pace.py`). Prompts share it evenly, so that a short one is not
held up by a long one that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from app.engine.process.cache.slot import Phase, Slot, SlotReply
from app.engine.process.cache.space import CellSpace
from app.engine.process.native.native import Batch
from app.engine.process.native.projector import Chunk
from app.engine.process.scheduling.drafting import Drafting
from app.engine.process.scheduling.guests import GuestShare
from app.engine.process.scheduling.pace import Pace
from app.engine.process.scheduling.rows import Row
from app.engine.prompts.media import is_media

REPEATABLE_CHUNK: Final = 128
"""Prompt tokens per step of a repeatable reply, whatever the machine's speed."""


class Batching:
    """Fills the one batch of a context. `max_outputs`: rows that may ask for scores at once."""

    def __init__(
        self,
        slots: list[Slot],
        space: CellSpace,
        pace: Pace,
        batch: Batch,
        max_outputs: int,
        drafting: Drafting,
        guests: GuestShare | None = None,
    ) -> None:
        self._slots = slots
        self._space = space
        self._pace = pace
        self._batch = batch
        self._max_outputs = max_outputs
        self._drafting = drafting
        self._guests = guests or GuestShare()
        self.is_person_coming = False
        self._is_turn_of_pictures = False

    def build(self, give_way: Callable[[Slot], None], adapters: str = "") -> list[Row]:
        """The rows of the next step, already in the batch: of the replies with these adapters.
        `give_way(slot)` takes the cells of a reply where others need them: of the newest ones, and
        no more than needed, so that the oldest one always gets on."""
        self._batch.clear()
        if (picture := self._picture(give_way, adapters)) is not None:
            self._batch.size = len(picture.tokens)
            return [picture]
        rows = self._writers(give_way, adapters)
        reading = [slot for slot in self._in_phase(Phase.READING) if not _before_picture(slot)]
        if reading:
            rows += self._readers(reading, len(rows), give_way, adapters)
        elif any(row.reply.drafts is not None for row in rows):
            self._drafting.propose(rows, self._spare(len(rows)))
        for row in rows:
            row.index = self._batch.add(
                row.tokens,
                row.slot.cells.position(len(row.slot.cells)),
                row.slot.cells.sequence,
                want_scores=row.wants_scores,
                want_all=row.scores_prompt or bool(row.proposed),
            )
        return rows

    def unseen(self) -> list[Slot]:
        """Those that wait for the vectors of a picture, the oldest first."""
        found = []
        for slot in sorted(self._in_phase(Phase.READING), key=_began):
            seen = _before_picture(slot)
            if seen is not None and seen[0].vectors is None:
                found.append(slot)
        return found

    @staticmethod
    def next_chunk(slot: Slot) -> Chunk | None:
        """Of what its next cells are computed; None: of tokens."""
        seen = _before_picture(slot)
        return None if seen is None else seen[0]

    def _picture(self, give_way: Callable[[Slot], None], adapters: str) -> Row | None:
        """A row of vectors in the place of tokens. A pass holds either, so where others have
        something to compute they take turns."""
        ready = [
            (slot, *seen)
            for slot in _with(adapters, sorted(self._in_phase(Phase.READING), key=_began))
            if (seen := _before_picture(slot)) is not None and seen[0].vectors is not None
        ]
        others = [s for s in self._in_phase(Phase.READING) if _before_picture(s) is None]
        others += self._in_phase(Phase.WRITING)
        self._is_turn_of_pictures = not (others and self._is_turn_of_pictures) and bool(ready)
        if not self._is_turn_of_pictures:
            return None
        slot, chunk, offset = ready[0]
        reply = slot.reply
        assert reply is not None
        # Cells that see each other are read at once. (They are no more than a pass can have.)
        left = len(chunk.ids) - offset
        least = 1 if chunk.is_causal else left
        while self._space.make_room(least) < least:
            held = [s for s in self._slots if not s.is_idle and len(s.cells) and s is not slot]
            give_way(max([s for s in held if self.rests(s)] or held, key=_newest, default=slot))
            if not held:
                return None
        most = min(left, self._batch.capacity)
        if chunk.is_causal and not reply.request.generate.repeatable:
            most = min(most, max(self._pace.chunk(somebody_writes=bool(others)), 1))
        count = self._space.make_room(most)
        at = len(slot.cells)
        ids = reply.ids[at : at + count]
        return Row(slot, reply, ids, False, picture=chunk, picture_offset=offset)

    def _spare(self, n_writers: int) -> int:
        """Rows that writers may have beside one each: nobody makes way for what is only
        proposed."""
        room = min(self._batch.room, self._max_outputs) - n_writers
        return min(room, self._space.free - n_writers)

    def _in_phase(self, phase: Phase) -> list[Slot]:
        found = [s for s in self._slots if s.reply is not None and s.reply.phase is phase]
        return [slot for slot in found if not self.rests(slot)]

    def rests(self, slot: Slot) -> bool:
        """Whether a reply in the background waits until nobody else reads or writes, or a guest's
        for its part of a person's time."""
        reply = slot.reply
        if reply is None or reply.is_persons:
            return False
        return self.is_anybody_at_work if reply.is_background else self._is_persons_turn

    @property
    def _is_persons_turn(self) -> bool:
        if self.is_person_coming:
            return True
        replies = [slot.reply for slot in self._slots if slot.reply is not None]
        phases = {reply.phase for reply in replies if reply.is_persons}
        if Phase.READING in phases:
            return True
        return not phases.isdisjoint(_AT_WORK) and not self._guests.may_join

    @property
    def is_anybody_at_work(self) -> bool:
        """Whether anything is to be computed that is not in the background, now or in a moment."""
        replies = [slot.reply for slot in self._slots if slot.reply is not None]
        return self.is_person_coming or any(
            not r.is_background and r.phase in _AT_WORK for r in replies
        )

    def _resting(self) -> list[Slot]:
        """Those that rest, and hold cells that others may need."""
        return [slot for slot in self._slots if len(slot.cells) and self.rests(slot)]

    @property
    def adapters(self) -> list[str]:
        """Those of each reply that has something to compute, the oldest first."""
        at_work = [*self._in_phase(Phase.WRITING), *self._in_phase(Phase.READING)]
        return [_adapters(slot) for slot in sorted(at_work, key=_began)]

    def _writers(self, give_way: Callable[[Slot], None], adapters: str) -> list[Row]:
        writing = _with(adapters, self._in_phase(Phase.WRITING))
        while writing and self._space.make_room(len(writing)) < len(writing):
            others = [*self._in_phase(Phase.WRITING), *self._in_phase(Phase.READING)]
            give_way(max(self._resting() or others, key=_newest))
            writing = _with(adapters, self._in_phase(Phase.WRITING))
        return [
            Row(slot, slot.reply, [slot.reply.next_token], wants_scores=True)
            for slot in writing
            if slot.reply is not None and slot.reply.next_token is not None
        ]

    def _readers(
        self,
        reading: list[Slot],
        n_writers: int,
        give_way: Callable[[Slot], None],
        adapters: str,
    ) -> list[Row]:
        while (rest := self._resting()) and self._space.make_room(n_writers + 1) <= n_writers:
            give_way(rest[0])
        while len(reading) > 1 and not self._in_phase(Phase.WRITING):
            if self._space.make_room(1):
                break
            give_way(max(reading, key=_newest))  # each would wait for the other one's end
            reading = self._in_phase(Phase.READING)
        reading = _with(adapters, reading)
        if not reading:
            return []
        reading.sort(key=_began)
        replies = [slot.reply for slot in reading if slot.reply is not None]
        chunk = self._pace.chunk(somebody_writes=n_writers > 0)
        if n_writers:
            chunk = max(chunk - n_writers, 1)
        if replies[0].request.generate.repeatable:
            chunk = REPEATABLE_CHUNK
        wants = [_text_ahead(r, len(s.cells)) for s, r in zip(reading, replies, strict=True)]
        # Each slot may ask for one row of scores; what is left of them goes to scored prompts.
        scorable = max(self._max_outputs - n_writers - len(reading) + 1, 1)
        for number, reply in enumerate(replies):
            if reply.request.generate.score_prompt:
                wants[number] = min(wants[number], scorable)
                scorable = max(scorable - wants[number], 1)
        # No more than they take: others' cells would be moved out for nothing.
        room = min(self._batch.room - n_writers, chunk, sum(wants))
        room = self._space.make_room(n_writers + room) - n_writers
        rows = []
        for slot, reply, share in zip(reading, replies, shares(wants, room), strict=True):
            if share:
                at = len(slot.cells)
                ids = reply.ids[at : at + share]
                rows.append(Row(slot, reply, ids, at + share == len(reply.ids)))
        return rows


def _before_picture(slot: Slot) -> tuple[Chunk, int] | None:
    """What picture the next cells of a reading slot are of, and where in it."""
    reply, at = slot.reply, len(slot.cells)
    if reply is None or not reply.pictures or at >= len(reply.ids):
        return None
    return reply.picture_at(at)


def _text_ahead(reply: SlotReply, at: int) -> int:
    """How many tokens are to be read before the next picture, or the end."""
    if reply.pictures:
        for place in range(at, len(reply.ids)):
            if is_media(reply.ids[place]):
                return place - at
    return len(reply.ids) - at


def _adapters(slot: Slot) -> str:
    return slot.reply.request.adapters.key if slot.reply is not None else ""


def _with(adapters: str, slots: list[Slot]) -> list[Slot]:
    return [slot for slot in slots if _adapters(slot) == adapters]


_AT_WORK: Final = (Phase.READING, Phase.WRITING, Phase.REDRAWING)


def _began(slot: Slot) -> tuple[float, int]:
    return (slot.reply.started if slot.reply is not None else 0.0, slot.cells.sequence)


def _newest(slot: Slot) -> tuple[bool, float, int]:
    """A guest's gives way before a person's."""
    return (slot.reply is not None and slot.reply.is_guest, *_began(slot))


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
