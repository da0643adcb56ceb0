"""What a slot has in the batch that is being computed."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.process.cache.slot import Phase, Slot, SlotReply
from app.engine.process.drafting.state import Proposal
from app.engine.process.native.projector import Chunk


@dataclass(slots=True)
class Row:
    """A slot's share of the batch in flight: `tokens` at the end of its cells, the last of them
    only `proposed`, of which `n_accepted` were drawn. `is_catching_up`: a draft model was still
    reading what it shall go on from. `picture`: what stands in place of tokens, from its cell
    `picture_offset` on; then it is the only row."""

    slot: Slot
    reply: SlotReply
    tokens: list[int]
    wants_scores: bool
    index: int = -1
    proposed: tuple[Proposal, ...] = ()
    n_accepted: int = 0
    is_catching_up: bool = False
    picture: Chunk | None = None
    picture_offset: int = 0

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
