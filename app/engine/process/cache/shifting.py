"""The window is full in the middle of a reply: make room without ending it.

What the context policy would leave out of the next prompt (`midway.py`) leaves this one: its cells
go, and those behind them move up. llama.cpp turns their keys to the new positions, so nothing is
read again. They still hold what they saw of the text that is gone; so no other prompt goes on from
them (`Cells.common_prefix`), and whoever wants exactness asks again.

Where the cache cannot be shifted the rest is read again, and why is said. Not every cache can:
a key that is kept in few bits would be rounded a second time, and some types abort (C03); a sliding
window has forgotten what would move into it; a state has no parts; and positions that were added to
the embedding, or have several axes, are not in the key to be turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.process.cache.slot import Origins, Slot
from app.engine.process.native.native import llama
from app.engine.process.native.weights import Weights
from app.engine.prompts.midway import Stretch, latest_first, parts_without, shift_of, to_leave_out
from app.engine.protocol.midway_messages import ContextShift

_TURNED: Final = (llama.LLAMA_ROPE_TYPE_NORM, llama.LLAMA_ROPE_TYPE_NEOX)
_WHOLE_NUMBERS: Final = ("f16", "f32")

STATE: Final = "this model keeps a single state"
WINDOW: Final = "this model's sliding window has forgotten what would move into it"
QUANTIZED: Final = "its keys are quantized"
POSITIONS: Final = "this model's positions can't be moved"
SHARED: Final = "another reply shares these cells"


class Shifting:
    """Makes room in the slots of one context."""

    def __init__(self, weights: Weights, slots: Sequence[Slot]) -> None:
        self._n_ctx = weights.n_ctx
        self._slots = slots
        self._why_not = _why_not(weights, slots)

    def make_room(self, slot: Slot) -> ContextShift | None:
        """Leave out of a reply's prompt what its policy says; None: there is nothing left to go.
        Where its cells are fewer than its tokens then, the reply is to be read again."""
        reply = slot.reply
        assert reply is not None
        if reply.request.generate.cuts is not None:  # what is cut is known by its position
            return None
        gone = to_leave_out(reply.stretches, len(slot.cells), self._n_ctx)
        if not gone:
            return None
        why_not = self._why_not or self._shared(slot, gone) or _take_out(slot, gone)
        if why_not:
            slot.cells.cut(min(stretch.start for stretch in gone))
        reply.leave_out(gone)
        parts = parts_without(slot.origins.parts, gone)
        old = slot.origins
        slot.origins = Origins(parts, len(reply.prompt_ids), old.reply_id, old.media)
        return shift_of(gone, len(reply.generated), why_not)

    def _shared(self, slot: Slot, gone: Sequence[Stretch]) -> str:
        """llama.cpp moves a cell for whoever holds it."""
        start = min(stretch.start for stretch in gone)
        others = [other.cells for other in self._slots]
        return SHARED if slot.cells.shares_from(start, others) else ""


def _take_out(slot: Slot, gone: Sequence[Stretch]) -> str:
    for stretch in latest_first(gone):
        if not slot.cells.leave_out(stretch.start, stretch.end):
            return POSITIONS
    return ""


def _why_not(weights: Weights, slots: Sequence[Slot]) -> str:
    """Why the cache cannot be shifted; empty where it can."""
    traits = slots[0].cells.traits
    if traits.is_recurrent:
        return STATE
    if traits.n_swa:
        return WINDOW
    if weights.loaded.type_k not in _WHOLE_NUMBERS:
        return QUANTIZED
    can_turn = llama.llama_model_rope_type(weights.model) in _TURNED
    return "" if can_turn and llama.llama_memory_can_shift(weights.memory) else POSITIONS
