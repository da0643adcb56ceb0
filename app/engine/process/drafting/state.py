"""What drafts know and did for one reply."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.engine.process.drafting.lookup import Lookup
from app.engine.protocol.draft_messages import DraftKind, DraftPosition, DraftReport, Drafts

TRIAL: Final = 16
"""Passes with proposals before it is judged whether they are faster."""

PLAIN: Final = 3
FIRST_PLAIN: Final = 6
"""Passes without proposals in a row: to measure, and for the governor of threads, who goes by them
alone. A reply begins with them."""

_CLEARLY: Final = 0.97
"""Slower by less is what a machine varies by."""

SLOWER: Final = (
    "Speculative decoding was switched off for the rest of this reply: {over}{drafted:.1f} "
    "tokens/s with it, {plain:.1f} without."
)


class Proposal(NamedTuple):
    """A proposed token, and how probable the draft model found it (nat); a lookup knows none."""

    token_id: int
    logprob: float | None = None


class Trial(NamedTuple):
    """What it is judged by: passes with proposals, and what both ways took for how many tokens."""

    passes: int = 0
    drafted_s: float = 0.0
    drafted_tokens: int = 0
    plain_s: float = 0.0
    plain_tokens: int = 0


NONE: Final = Trial()


@dataclass(slots=True)
class DraftState:
    """`pending`: what the pass that is being looked at holds beyond the token to come.
    `since_plain`: passes with proposals since the last one without. `plain_due`: passes that are
    to be made without, to measure them. `n_prompt`: of the prompt that `lookup` knows.
    `before`: of replies that ended too early to be judged."""

    wish: Drafts
    name: str = ""
    lookup: Lookup | None = None
    n_prompt: int = 0
    pending: deque[Proposal] = field(default_factory=deque)
    since_plain: int = 0
    since_plain_s: float = 0.0
    plain_due: int = FIRST_PLAIN
    off: str = ""
    passes: int = 0
    proposed_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    drafted_s: float = 0.0
    drafted_tokens: int = 0
    plain_s: float = 0.0
    plain_tokens: int = 0
    before: Trial = NONE
    _n_proposed: int = 0

    @property
    def kind(self) -> DraftKind:
        return self.wish.kind

    def forget(self) -> None:
        """Tokens were taken back: nothing that followed them holds."""
        self.pending.clear()
        self.lookup = None

    def begin_pass(self, proposed: Sequence[Proposal]) -> None:
        """A decode has scored these."""
        self.pending.extend(proposed)
        self.passes += 1
        self.since_plain += 1
        self._n_proposed = len(proposed)

    def drawn(self, token_id: int) -> tuple[Proposal, ...]:
        """Of the pending ones this was drawn in the first one's place. What they were. One that is
        wrong takes those behind it along; what the reply ends or waits before was never judged,
        and is not counted."""
        proposed = tuple(self.pending)
        if proposed:
            is_right = proposed[0].token_id == token_id
            first = self._n_proposed - len(proposed)
            end = first + 1 if is_right else self._n_proposed
            more = end - len(self.proposed_at)
            self.proposed_at += [0] * more
            self.accepted_at += [0] * more
            for at in range(first, end):
                self.proposed_at[at] += 1
            self.accepted_at[first] += is_right
        return proposed

    def time(self, seconds: float, n_tokens: int, *, drafted: bool) -> None:
        """That took so long, drafting included, and gave so many tokens."""
        if drafted:
            self.drafted_s += seconds
            self.drafted_tokens += n_tokens
            self.since_plain_s += seconds
            return
        self.plain_s += seconds
        self.plain_tokens += n_tokens
        self.since_plain, self.since_plain_s = 0, 0.0
        self.plain_due = max(self.plain_due - 1, 0)

    @property
    def trial(self) -> Trial:
        """Of this reply and those before it."""
        before = self.before
        return Trial(
            before.passes + self.passes,
            before.drafted_s + self.drafted_s,
            before.drafted_tokens + self.drafted_tokens,
            before.plain_s + self.plain_s,
            before.plain_tokens + self.plain_tokens,
        )

    def judge(self) -> str:
        """Why it is off from now on, the first time that it is found to be slower."""
        trial = self.trial
        enough = trial.passes >= TRIAL and trial.plain_tokens >= PLAIN
        if self.off or self.wish.always or not enough or not trial.drafted_s or not trial.plain_s:
            return ""
        drafted, plain = trial.drafted_tokens / trial.drafted_s, trial.plain_tokens / trial.plain_s
        if drafted >= _CLEARLY * plain:
            return ""
        over = "over the last replies, " if self.before.passes else ""
        self.off = SLOWER.format(over=over, drafted=drafted, plain=plain)
        return self.off

    def report(self) -> DraftReport:
        return DraftReport(
            self.kind,
            self.name,
            self.passes,
            sum(self.proposed_at),
            sum(self.accepted_at),
            list(map(DraftPosition, self.proposed_at, self.accepted_at)),
            self.drafted_s,
            self.drafted_tokens,
            self.plain_s,
            self.plain_tokens,
            self.off,
        )
