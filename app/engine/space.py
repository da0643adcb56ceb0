"""Who gets which slot, and who keeps cells: all slots share one cache of n_ctx cells."""

from __future__ import annotations

from typing import Final

from app.engine.slot import Request, Slot

MAX_IDLE_CELLS: Final = 512
"""Cells that idle slots may keep while others work: each one slows every step a little."""

_RESERVE: Final = 256
"""Cells kept for what a reply without a limit will still write, before another one joins."""


class CellSpace:
    """The slots of one context and the cells that they share."""

    def __init__(self, slots: list[Slot], n_ctx: int) -> None:
        self._slots = slots
        self._n_ctx = n_ctx

    @property
    def free(self) -> int:
        return self._n_ctx - sum(len(slot.cells) for slot in self._slots)

    def best_slot(self, request: Request) -> Slot | None:
        """The idle slot with the longest common prefix; of equals the one of this conversation,
        then the one with the fewest cells, so that others keep theirs."""
        idle = [slot for slot in self._slots if slot.is_idle]

        def merit(slot: Slot) -> tuple[int, bool, int]:
            common = slot.cells.common_prefix(request.prompt.ids)
            same = bool(slot.conversation) and slot.conversation == request.generate.conversation
            return common, same, -len(slot.cells)

        return max(idle, key=merit, default=None)

    def fits(self, request: Request) -> bool:
        """Whether the prompt fits beside what others will still write. Alone it always does."""
        busy = [slot for slot in self._slots if slot.reply is not None]
        taken = sum(self._wanted(slot) for slot in busy)
        return not busy or taken + len(request.prompt.ids) + 1 <= self._n_ctx

    def _wanted(self, slot: Slot) -> int:
        """What a busy slot holds and may soon hold."""
        reply = slot.reply
        assert reply is not None
        more = min(_RESERVE, self._n_ctx // 8)
        if reply.request.generate.max_tokens:
            more = min(more, reply.request.generate.max_tokens)
        return max(len(slot.cells), len(reply.ids)) + more

    def thin_out(self) -> None:
        """Let idle slots keep only a few cells, the ones used last."""
        left = MAX_IDLE_CELLS
        for slot in sorted(self._idle_with_cells(), key=lambda s: -s.used_at):
            if len(slot.cells) > left:
                slot.cells.clear()
            left -= len(slot.cells)

    def make_room(self, cells: int) -> int:
        """Take cells from idle slots, least recently used first, until `cells` are free.

        Returns how many are free then, at most `cells`.
        """
        for slot in sorted(self._idle_with_cells(), key=lambda s: s.used_at):
            if self.free >= cells:
                break
            slot.cells.clear()
        return min(self.free, cells)

    def _idle_with_cells(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.is_idle and len(slot.cells)]
