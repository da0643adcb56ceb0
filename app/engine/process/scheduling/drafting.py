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

import math
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from app.engine.process.cache.cells import Traits
from app.engine.process.cache.slot import Phase, SlotReply
from app.engine.process.drafting.lookup import Chances, Lookup
from app.engine.process.drafting.partner import DraftFailed, Partner
from app.engine.process.drafting.state import NONE, PLAIN, TRIAL, DraftState, Proposal, Trial
from app.engine.process.drafting.worth import PassTimes, best_count
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.pace import MAX_STEP_S
from app.engine.process.scheduling.rows import Row
from app.engine.protocol.messages import Generate

_PLAIN_AFTER: Final = 48
_PLAIN_AFTER_S: Final = 2.0
"""After so many passes with proposals, or so long, some come without."""

_LONGEST_STREAK: Final = 3
"""Times in a row that a draft model was slower; it rests for one reply then, three, seven."""

BY_SHARE: Final = ((0.0, 0.3), (0.3, 0.45), (0.5, 0.6), (0.7, 0.75), (0.85, 0.88), (0.95, 0.95))
"""From what a draft model gives its token on, the chance that it is drawn, before any was."""

CANNOT_CUT: Final = (
    "Speculative decoding is off: this model can't drop rejected tokens from its state."
)
NOT_REPEATABLE: Final = (
    "Speculative decoding is off for this reply: passes of varying size aren't repeatable."
)
WITH_PICTURES: Final = (
    "Speculative decoding is off for this reply: the draft model can't see this chat's pictures."
)
WITH_CUTS: Final = (
    "Speculative decoding is off for this reply: replies with cuts are compared in passes of equal "
    "size."
)
RESTS: Final = (
    "The draft model was slower in the last replies, so it rests for this one and is tried again "
    "later."
)
FAILED: Final = "The draft model failed, so this reply went on without it ({why})."
NO_MODEL: Final = "No draft model is loaded, so this reply was generated without one."


class Drafting:
    """Of the replies of one context."""

    def __init__(self, weights: Weights, traits: Traits, clock: Callable[[], float]) -> None:
        self._draft, self._no_draft = weights.draft, weights.no_draft
        self._clock = clock
        self._partner: Partner | None = None
        self._by_share = Chances(BY_SHARE)
        self._last: DraftState | None = None
        """Of the last reply that a draft model drafted for."""
        self._streak = 0
        self._rest = 0
        self.waits = False
        """Whether passes of the usual shape are wanted for a moment."""
        self._is_eog = weights.vocabulary.is_eog
        self._traits = traits
        self._times = PassTimes()
        self._n_threads = weights.n_threads

    def begin(
        self, generate: Generate, *, has_pictures: bool = False
    ) -> tuple[DraftState | None, str]:
        """What drafts a reply has, and why it has none where some are wished for. `has_pictures`:
        its prompt has what a draft model can't see."""
        wish = generate.drafts
        if wish is None:
            return None, ""
        if generate.cuts is not None:
            return None, WITH_CUTS
        if self._traits.is_recurrent:
            return None, CANNOT_CUT
        if generate.repeatable:
            return None, NOT_REPEATABLE
        if wish.kind == "lookup":
            return DraftState(wish), ""
        if self._draft is None:
            return None, self._no_draft or NO_MODEL
        if has_pictures:
            return None, WITH_PICTURES
        self._partner = self._partner or Partner(self._draft, self._clock)
        state = DraftState(wish, self._partner.name, before=self._unjudged())
        self._last = state
        if self._rest and not wish.always:
            self._rest -= 1
            state.off = RESTS
        return state, ""

    def _unjudged(self) -> Trial:
        """Many short replies would each be a trial of its own, and drafts never be ended."""
        if self._last is None or self._last.off or self._last.trial.passes >= TRIAL:
            return NONE
        return self._last.trial

    # --- before a pass --------------------------------------------------------------------------

    def propose(self, rows: Sequence[Row], room: int) -> None:
        """Put proposals behind the certain tokens of these writers, `room` rows at most."""
        n_rows = len(rows)
        for row in rows:
            reply = row.reply
            if reply.drafts is None or room <= 0 or not _may_draft(reply, reply.drafts):
                continue
            room_here = min(room, reply.drafts.wish.most, _left(reply) - 1)
            found: list[Proposal] = []
            if room_here > 0:
                find = self._looked_up if reply.drafts.kind == "lookup" else self._drafted
                found = find(row, reply.drafts, room_here, len(rows), n_rows)
            if found:
                row.proposed = tuple(found)
                row.tokens = [*row.tokens, *(each.token_id for each in found)]
                room -= len(found)
                n_rows += len(found)

    def _looked_up(
        self, row: Row, drafts: DraftState, most: int, writers: int, n_rows: int
    ) -> list[Proposal]:
        reply = row.reply
        n_before = len(reply.prompt_ids)
        if drafts.lookup is None or drafts.n_prompt != n_before:  # it may be left out in part
            drafts.lookup = Lookup([*reply.prompt_ids, *reply.generated])
            drafts.n_prompt = n_before
        lookup = drafts.lookup
        for token_id in reply.generated[len(lookup) - n_before :]:
            lookup.feed(token_id)
        ids = list(takewhile(lambda token_id: not self._is_eog(token_id), lookup.propose(most)))
        if ids and not drafts.wish.always:
            if drafts.off or drafts.plain_due or self.waits:
                return []
            chances = [lookup.chances.of(lookup.length + ahead) for ahead in range(len(ids))]
            ids = ids[: self._best(chances, writers, n_rows)]
        return [Proposal(token_id) for token_id in ids]

    def _best(self, chances: Sequence[float], writers: int, n_rows: int) -> int:
        longest_s = MAX_STEP_S if writers > 1 else float("inf")
        return best_count(
            chances, self._times.of, writers=writers, rows=n_rows, longest_s=longest_s
        )

    def _drafted(
        self, row: Row, drafts: DraftState, most: int, writers: int, n_rows: int
    ) -> list[Proposal]:
        """While another token is worth its share of a pass, the draft model gives one more."""
        always = drafts.wish.always
        if self._partner is None or drafts.off:
            return []
        if not always and (drafts.plain_due or self.waits):
            return []
        partner, times, both, count = self._partner, self._times, 1.0, 0

        def goes_on(share: float) -> bool:
            nonlocal both, count
            both *= self._by_share.of(share)
            count += 1
            more_s = partner.token_s + times.of(n_rows + count + 1) - times.of(n_rows + count)
            return always or both * times.of(n_rows) / writers > more_s

        ids = [*row.slot.cells.ids, *row.tokens]
        try:
            found = partner.propose(row.slot.cells.sequence, ids, most, goes_on)
        except DraftFailed as failed:
            drafts.off = FAILED.format(why=failed)
            return []
        row.is_catching_up = not count and not found
        if not found or always:
            return found
        chances = [self._by_share.of(math.exp(each.logprob or 0.0)) for each in found]
        return found[: max(self._best(chances, writers, n_rows), 1)]  # drafted they are already

    # --- after it -------------------------------------------------------------------------------

    def learn(
        self, rows: Sequence[Row], size: int, seconds: float, pass_s: float, n_threads: int
    ) -> list[Row]:
        """A step of writers alone is over: its pass of `size` rows took `pass_s`, and all of it,
        drafting and drawing included, `seconds`. Those rows whose drafts were found to be
        slower."""
        if n_threads != self._n_threads:
            self._n_threads = n_threads
            self._times.clear()
            self._last = None
            if self._partner is not None:
                self._partner.set_threads(n_threads)
        self._times.add(size, pass_s)
        slower = []
        for row in rows:
            drafts = row.reply.drafts
            if drafts is None:
                continue
            if row.is_catching_up:  # once, for all that follows: no pass to compare
                continue
            drafts.time(seconds, 1 + row.n_accepted, drafted=bool(row.proposed))
            for at, proposal in enumerate(row.proposed[: row.n_accepted + 1]):
                if proposal.logprob is not None:
                    self._by_share.learn(math.exp(proposal.logprob), at < row.n_accepted)
            if drafts.since_plain >= _PLAIN_AFTER or drafts.since_plain_s >= _PLAIN_AFTER_S:
                drafts.plain_due = PLAIN
            if drafts.judge():
                slower.append(row)
                self._streak = min(self._streak + 1, _LONGEST_STREAK)
                self._rest = 2**self._streak - 1 if drafts.kind == "model" else 0
            elif drafts.passes > 2 * TRIAL and drafts.kind == "model":
                self._streak = 0
        return slower


def _may_draft(reply: SlotReply, drafts: DraftState) -> bool:
    """Whether what was drawn will be gone on from at once: nobody chooses by hand."""
    return reply.phase is Phase.WRITING and not reply.forced and not reply.request.hold


def _left(reply: SlotReply) -> int:
    limit = reply.request.generate.max_tokens
    return limit - len(reply.generated) if limit else 1 << 30
