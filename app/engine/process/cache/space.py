"""Who gets which slot, and from where its first cells come. All slots share n_ctx cells.

The longest beginning of a prompt that is already known is not computed again. It may lie

    slot     in the idle slot that the reply will use: the rest is cut off
    fork     in another slot, busy or of another chat: its cells are shared, nothing is copied
    parked   in host memory: copied back
    saved    the same, read from disk before (`keeping.py`)

What a slot leaves behind is parked if it is worth it, so that A, B, A, B … reads neither again.
Idle slots keep nothing when somebody else begins: each cell slows every step a little. Only what
finds no place in host memory stays until its cells are needed: to read it again costs far more. A
chat is forked rather than cut where too much of another one would be lost (`PARK_FROM`,
`PARK_OWN_FROM`); what begins like a prompt that is just being read waits until it can share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from app.engine.process.cache.cells import CANNOT_CUT, cells_in_use, common_length
from app.engine.process.cache.parking import Parked, Parking, copy_bytes
from app.engine.process.cache.slot import Phase, Request, Slot, SlotReply, origins_of

PARK_FROM: Final = 32
"""Fewer cells are read again as fast as they are copied."""

PARK_OWN_FROM: Final = 256
"""Of its own chat, a slot loses cells at each new attempt: so only what takes long to read."""

SAME_FROM: Final = 8
"""Several answers to one prompt: from so many tokens on it is read once, and then forked. Fewer
are read by all in one pass, in which they hardly show."""

_RESERVE: Final = 256
"""Cells kept for what a reply will still write, before another one joins. It may write more: who
came last then gives way, and goes on when there is room. More kept would let fewer write at once,
less would let them begin only to give way."""

PARKED_LOST: Final = (
    "The cached part of this chat was no longer usable, so the whole chat was processed again."
)

Source = Literal["slot", "fork", "parked", "saved", ""]


@dataclass(slots=True)
class Plan:
    """Where a request will be answered, and which beginning of its prompt is there already.

    `refused`: why more, which this chat has in its cells, cannot be used.
    """

    target: Slot
    keep: int = 0
    slot: Slot | None = None
    parked: Parked | None = None
    refused: str | None = None

    @property
    def source(self) -> Source:
        if not self.keep:
            return ""
        if self.parked is not None:
            return "saved" if self.parked.is_from_disk else "parked"
        return "slot" if self.slot is self.target else "fork"


class CellSpace:
    """The slots of one context, the cells that they share, and what is parked."""

    def __init__(self, slots: list[Slot], n_ctx: int, parking: Parking) -> None:
        self._slots = slots
        self._n_ctx = n_ctx
        self.parking = parking

    @property
    def used(self) -> int:
        return cells_in_use(slot.cells for slot in self._slots)

    @property
    def free(self) -> int:
        return self._n_ctx - self.used

    # --- joining ----------------------------------------------------------------------------

    def fits(self, request: Request, *, reuse: bool) -> bool:
        """Whether the prompt fits beside what others will still write. Alone it always does."""
        replies = [(slot, slot.reply) for slot in self._slots]
        busy = [slot for slot, reply in replies if reply is not None and not reply.is_background]
        busy = _counted(busy, request)
        return self._fits(request, request.prompt.ids, 1, busy, reuse=reuse)

    def _fits(
        self, request: Request, ids: list[int], more: int, busy: list[Slot], *, reuse: bool
    ) -> bool:
        """Whether `ids` and `more` tokens fit beside the busy slots."""
        if not busy:
            return True
        wanted = cells_in_use(slot.cells for slot in busy) + sum(map(self._wanted, busy))
        shared = 0
        for slot in busy if reuse else []:
            keep = min(slot.cells.common_prefix(ids, request.adapters.key), len(ids) - 1)
            if keep > shared and slot.cells.usable(keep) is None:
                shared = keep
        return wanted + len(ids) - shared + more <= self._n_ctx

    def _wanted(self, slot: Slot) -> int:
        """How many more cells a busy slot may soon take."""
        assert slot.reply is not None
        return max(len(slot.reply.ids) - len(slot.cells), 0) + self._reserve(slot.reply)

    def _reserve(self, reply: SlotReply) -> int:
        more = min(_RESERVE, self._n_ctx // 8)
        limit = reply.request.generate.max_tokens
        return min(more, limit - len(reply.generated)) if limit else more

    def waits_for_prefix(self, request: Request) -> bool:
        """Whether a slot is just reading what this prompt begins with: then it can be shared in
        a moment, instead of being read twice."""
        return self._is_being_read(request)

    def _is_being_read(self, request: Request, ids: list[int] | None = None) -> bool:
        ids, adapters = ids or request.prompt.ids, request.adapters.key
        for slot in _counted(self._slots, request):
            reply = slot.reply
            if reply is None or reply.phase is not Phase.READING or slot.cells.traits.is_recurrent:
                continue
            if reply.request.adapters.key != adapters:
                continue
            promised = min(common_length(reply.ids, ids), len(ids) - 1)
            least = SAME_FROM if promised == len(ids) - 1 else PARK_FROM
            if promised >= least and promised > len(slot.cells):
                return True
        return False

    def plan(self, request: Request, *, reuse: bool) -> Plan | None:
        """Where the request goes; None while no slot is idle."""
        idle = self.idle()
        if not idle:
            return None
        plan = Plan(idle[0])
        if not reuse:
            return plan
        ids, adapters = request.prompt.ids, request.adapters.key
        self._look_into_slots(plan, ids, request.generate.conversation, adapters)
        # The last prompt token is always evaluated again: its scores are not kept.
        parked, keep = self.parking.best(ids, len(ids) - 1, adapters)
        if keep > plan.keep:
            plan.keep, plan.parked, plan.slot = keep, parked, None
        if plan.slot is not None and plan.slot.is_idle and self._may_cut(plan, request, idle):
            plan.target = plan.slot
        if plan.keep >= PARK_FROM:
            plan.refused = None
        return plan

    def idle(self) -> list[Slot]:
        """Idle slots, first those in which the least would be lost."""
        idle = [slot for slot in self._slots if slot.is_idle]
        return sorted(idle, key=lambda slot: (len(slot.cells) > 0, slot.used_at))

    def would_lose(self, plan: Plan, request: Request) -> bool:
        """Whether a chat may lose its cells by this: it would have to make way, and there is no
        place for it in host memory."""
        wanted = len(request.prompt.ids) + request.generate.max_tokens
        if not len(plan.target.cells) and self.free >= wanted:
            return False
        found = [slot.cells for slot in self._idle_with_cells() if len(slot.cells) >= PARK_FROM]
        cap = self.parking.cap_bytes
        return any(copy_bytes(len(cells), cells.state_bytes()) > cap for cells in found)

    def _look_into_slots(
        self, plan: Plan, ids: list[int], conversation: str, adapters: str
    ) -> None:
        best = (0, False, False)
        for slot in self._slots:
            keep = min(slot.cells.common_prefix(ids, adapters), len(ids) - 1)
            if not keep:
                continue
            refused = slot.cells.usable(keep)
            if refused is not None:
                if slot.is_idle and slot.conversation == conversation:
                    plan.refused = refused
                continue
            merit = (keep, slot.is_idle, slot.conversation == conversation)
            if merit > best:
                best, plan.keep, plan.slot = merit, keep, slot

    @staticmethod
    def _may_cut(plan: Plan, request: Request, idle: list[Slot]) -> bool:
        """Whether the slot with the best prefix is used itself, rather than forked."""
        assert plan.slot is not None
        lost = len(plan.slot.cells) - plan.keep
        same = plan.slot.conversation == request.generate.conversation
        return lost < (PARK_OWN_FROM if same else PARK_FROM) or len(idle) == 1

    def settle(self, plan: Plan, request: Request) -> str | None:
        """Bring the prefix into the target's cells. Returns why not, if it could not be."""
        target = plan.target
        same = target.conversation == request.generate.conversation
        refused = plan.refused
        if plan.slot is target:
            if len(target.cells) - plan.keep >= (PARK_OWN_FROM if same else PARK_FROM):
                self._park(target, self.parking.cap_bytes)
            if not target.cells.cut(plan.keep):
                refused = CANNOT_CUT
        else:
            self._vacate(target)
            if plan.slot is not None:
                target.cells.fork_from(plan.slot.cells, plan.keep)
            elif plan.parked is not None and not self._restore(target, plan.parked, plan.keep):
                refused = PARKED_LOST
        target.cells.adapters = request.adapters.key
        target.conversation = request.generate.conversation
        target.origins = origins_of(request)
        target.is_stored = request.generate.is_stored
        return refused

    def _restore(self, target: Slot, parked: Parked, keep: int) -> bool:
        wanted = len(parked.ids)
        if self.make_room(wanted) < wanted:
            return True  # others write: there is no room for all of it, and it stays parked
        if not target.cells.restore(parked.data, parked.ids.tolist()):
            self.parking.drop(parked)
            return False
        if keep >= wanted - 1:
            self.parking.drop(parked)  # the slot holds all of it now
        else:
            self.parking.touch(parked)
        return target.cells.usable(keep) is None and target.cells.cut(keep)

    # --- reading again ----------------------------------------------------------------------

    def may_restart(self, slot: Slot, *, reuse: bool) -> bool:
        """Whether a reply that has lost its cells can be read again now. Forks that shared cells
        may not fit together until they share them again, so one reads after the other."""
        assert slot.reply is not None
        ids, request = slot.reply.ids, slot.reply.request
        if reuse and self._is_being_read(request, ids):
            return False
        busy = _counted(self._at_work(), request)
        return self._fits(request, ids, self._reserve(slot.reply), busy, reuse=reuse)

    def restart(self, slot: Slot) -> None:
        """Bring back what is known of what is to be read again: other slots hold it, or it is
        parked. What is shared takes no room, so a copy of more must fit beside what others will
        still write."""
        assert slot.reply is not None
        plan, ids, request = Plan(slot), slot.reply.ids, slot.reply.request
        self._look_into_slots(plan, ids, slot.conversation, request.adapters.key)
        parked, keep = self.parking.best(ids, len(ids) - 1, request.adapters.key)
        if (
            parked is not None
            and keep > plan.keep
            and self._fits(request, ids, self._reserve(slot.reply), self._at_work(), reuse=False)
        ):
            self._restore(slot, parked, keep)
        elif plan.slot is not None and plan.slot is not slot:  # else it has them already
            slot.cells.fork_from(plan.slot.cells, plan.keep)

    def _at_work(self) -> list[Slot]:
        """The busy slots but those that have lost their cells."""
        return [
            slot
            for slot in self._slots
            if slot.reply is not None and slot.reply.phase is not Phase.RESTARTING
        ]

    def give_way(self, slot: Slot) -> None:
        """Leave a reply's cells to others, in the middle of it."""
        if slot.reply is not None and slot.reply.request.is_passing:
            slot.cells.clear()
        else:
            self._vacate(slot)

    # --- leaving ----------------------------------------------------------------------------

    def thin_out(self) -> None:
        """Let idle slots keep no cells that are theirs alone while others work: a copy to host
        memory and back takes milliseconds, once, and a cell slows every step. They are parked, as
        far as nothing else has to make way for them."""
        busy = cells_in_use(slot.cells for slot in self._slots if not slot.is_idle)
        for slot in sorted(self._idle_with_cells(), key=lambda s: s.used_at):
            if self.used == busy:
                break
            if len(slot.cells) < PARK_FROM or self._park(slot, self.parking.free_bytes):
                slot.cells.clear()

    def make_room(self, cells: int) -> int:
        """Park idle slots, least recently used first, until `cells` are free.

        Returns how many are free then, at most `cells`.
        """
        at_most = sum(len(slot.cells.ids) for slot in self._slots)  # what is shared counts twice
        if self._n_ctx - at_most >= cells:
            return cells
        free = self.free
        for slot in sorted(self._idle_with_cells(), key=lambda s: s.used_at):
            if free >= cells:
                break
            self._vacate(slot)
            free = self.free
        return min(free, cells)

    def vacate_all(self) -> None:
        """Park whatever idle slots hold."""
        for slot in self._idle_with_cells():
            self._vacate(slot)

    def move_out(self, slot: Slot) -> bool:
        """Park what a slot holds, however little it is. False: there is no place for it."""
        if not self._park(slot, self.parking.cap_bytes):
            return False
        slot.cells.clear()
        return True

    def _idle_with_cells(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.is_idle and len(slot.cells)]

    def _vacate(self, slot: Slot) -> None:
        if len(slot.cells) >= PARK_FROM:
            self._park(slot, self.parking.cap_bytes)
        slot.cells.clear()

    def _park(self, slot: Slot, most_bytes: int) -> bool:
        """Whether what the slot holds is in host memory now; no copy takes more than this."""
        cells = slot.cells
        cells.cut_to_exact()
        if self.parking.holds(cells.ids, cells.adapters):
            return True
        if copy_bytes(len(cells), cells.state_bytes()) > most_bytes:
            return False
        first_position = cells.first_position_of_copy
        data = cells.save()
        return data is not None and self.parking.put(
            cells.ids,
            data,
            first_position,
            slot.conversation,
            is_stored=slot.is_stored,
            adapters=cells.adapters,
        )


def _counted(slots: list[Slot], request: Request) -> list[Slot]:
    """Those whose replies this request has to make room for, or may wait for: no guest's, where a
    person asks. They give way, and may rest."""
    if request.generate.is_guest:
        return slots
    return [slot for slot in slots if slot.reply is None or not slot.reply.is_guest]
