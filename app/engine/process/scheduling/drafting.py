"""Speculative decoding in the scheduler's steps: what is proposed for each writer, and what it
cost.

A pass holds, for each writer, the token that is certain and those that are proposed after it; all
of them give scores. `writing.py` then draws position by position from the weights' own scores by
the reply's own chain, and goes on while the draw is what was proposed: rejection sampling for a
proposal that is one token with certainty (accepted with probability p(x), else the rest of p; Chen
et al., arXiv 2302.01318; Leviathan et al., arXiv 2211.17192). Since what is kept is always the
chain's own draw, every stage with a memory (penalties, DRY, grammar, mirostat) and every seed give
what they give without drafts, up to what another batch shape does to the numbers. Sampling the
proposal instead, as the papers do, would be accepted no more often and would cost that.

How many are proposed follows from what passes of each size take here and how often proposals came
true (`drafting/worth.py`). Plain passes in between measure what it is held against; where drafts
are slower they end for this reply, which is said. What must hold: nothing is proposed that could
not be taken back, and nobody else waits longer than for a chunk of a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from app.engine.process.cache.cells import Traits
from app.engine.process.cache.slot import Phase, SlotReply
from app.engine.process.drafting.lookup import Lookup
from app.engine.process.drafting.state import PLAIN, DraftState, Proposal
from app.engine.process.drafting.worth import PassTimes, best_count
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.pace import MAX_STEP_S
from app.engine.process.scheduling.rows import Row
from app.engine.protocol.messages import Generate

_PLAIN_AFTER: Final = 48
_PLAIN_AFTER_S: Final = 2.0
"""After so many passes with proposals, or so long, some come without."""

CANNOT_CUT: Final = (
    "Speculative decoding is off: this model can't drop rejected tokens from its state."
)
NOT_REPEATABLE: Final = (
    "Speculative decoding is off for this reply: passes of varying size aren't repeatable."
)
NO_MODEL: Final = "No draft model is loaded, so this reply was generated without one."


class Drafting:
    """Of the replies of one context."""

    def __init__(self, weights: Weights, traits: Traits) -> None:
        self._is_eog = weights.vocabulary.is_eog
        self._traits = traits
        self._times = PassTimes()
        self._n_threads = weights.n_threads

    def begin(self, generate: Generate) -> tuple[DraftState | None, str]:
        """What drafts a reply has, and why it has none where some are wished for."""
        wish = generate.drafts
        if wish is None or generate.cuts is not None:
            return None, ""
        if self._traits.is_recurrent:
            return None, CANNOT_CUT
        if generate.repeatable:
            return None, NOT_REPEATABLE
        if wish.kind == "model":
            return None, NO_MODEL
        return DraftState(wish), ""

    # --- before a pass --------------------------------------------------------------------------

    def propose(self, rows: Sequence[Row], room: int) -> None:
        """Put proposals behind the certain tokens of these writers, `room` rows at most."""
        n_rows = len(rows)
        for row in rows:
            reply = row.reply
            if reply.drafts is None or room <= 0 or not _may_draft(reply, reply.drafts):
                continue
            room_here = min(room, reply.drafts.wish.most, _left(reply) - 1)
            found = self._proposals(reply, reply.drafts, room_here, len(rows), n_rows)
            if found:
                row.proposed = tuple(found)
                row.tokens = [*row.tokens, *(each.token_id for each in found)]
                room -= len(found)
                n_rows += len(found)

    def _proposals(
        self, reply: SlotReply, drafts: DraftState, most: int, writers: int, n_rows: int
    ) -> list[Proposal]:
        if drafts.lookup is None:
            drafts.lookup = Lookup([*reply.request.prompt.ids, *reply.generated])
        lookup, n_before = drafts.lookup, len(reply.request.prompt.ids)
        for token_id in reply.generated[len(lookup) - n_before :]:
            lookup.feed(token_id)
        ids = list(takewhile(lambda token_id: not self._is_eog(token_id), lookup.propose(most)))
        if ids and not drafts.wish.always:
            if drafts.off or drafts.plain_due:
                return []
            chances = [lookup.chances.of(lookup.length + ahead) for ahead in range(len(ids))]
            longest_s = MAX_STEP_S if writers > 1 else float("inf")
            count = best_count(
                chances, self._times.of, writers=writers, rows=n_rows, longest_s=longest_s
            )
            ids = ids[:count]
        return [Proposal(token_id) for token_id in ids]

    # --- after it -------------------------------------------------------------------------------

    def learn(self, rows: Sequence[Row], size: int, seconds: float, n_threads: int) -> list[Row]:
        """A pass of writers alone is over, with `size` rows, and all of it took so long. Those
        rows whose drafts were found to be slower."""
        if n_threads != self._n_threads:
            self._n_threads = n_threads
            self._times.clear()
        self._times.add(size, seconds)
        slower = []
        for row in rows:
            drafts = row.reply.drafts
            if drafts is None:
                continue
            drafts.time(seconds, 1 + row.n_accepted, drafted=bool(row.proposed))
            if drafts.since_plain >= _PLAIN_AFTER or drafts.since_plain_s >= _PLAIN_AFTER_S:
                drafts.plain_due = PLAIN
            if drafts.judge():
                slower.append(row)
        return slower


def _may_draft(reply: SlotReply, drafts: DraftState) -> bool:
    """Whether what was drawn will be gone on from at once: nobody chooses by hand."""
    return reply.phase is Phase.WRITING and not reply.forced and not reply.request.hold


def _left(reply: SlotReply) -> int:
    limit = reply.request.generate.max_tokens
    return limit - len(reply.generated) if limit else 1 << 30
