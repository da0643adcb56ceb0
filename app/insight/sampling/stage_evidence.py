"""What each stage of a reply's chain did to the candidates of one token: the rows of its card.

It pairs the recorded effects with the stages that the reply was drawn with, never with others.
What forbids tokens before the first stage (end tokens, banned strings, a grammar) is an effect
without a stage of its own.

The draw is a mark on the candidates that were left, laid side by side as wide as their shares:

    0        0.64       0.87   1
    |  Paris  |   the    | a  |        uniform 0.70: “ the”
                  ^

They lie in llama.cpp's order: by ID until a stage sorts, then the most probable first. Whether
that was so is not recorded, so the mark is shown only where it falls on the token that was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.protocol.messages import StageEffect, TokenTrace
from app.engine.protocol.stage_rules import in_words, stage_name
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopP,
    Typical,
    Xtc,
)
from app.insight.sampling.waterfall import LEAST_SHARE, Candidate, Step, Waterfall, waterfall

BEFORE_STAGES: Final = frozenset(("end-token-ban", "banned-strings", "grammar"))
NOT_RECORDED: Final = "The stages weren't recorded for this token."
GONE: Final = (
    "The chosen token was removed here, and more are left than were recorded, so their shares are "
    "unknown."
)
OTHER_STAGES: Final = "The record doesn't match the stages of this reply."
_SLACK: Final = 1e-4
"""Shares follow from logarithms in float32."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A candidate that a stage left, and its share then; None where it cannot be told."""

    token_id: int
    share: float | None
    is_drawn: bool


@dataclass(frozen=True, slots=True)
class StageEvidence:
    """`position`: of the stage in the reply's chain; None: a ban or the grammar. `left` and
    `removed` count all candidates (None: it is not known how many there were); `kept` and
    `removed_known` are those of the recorded 64, the most probable first. `reason`: why shares
    cannot be told, or nothing."""

    name: str
    position: int | None
    left: int
    removed: int | None
    kept: tuple[Kept, ...]
    removed_known: tuple[Candidate, ...]
    uniform: float | None
    reason: str

    @property
    def removed_unknown(self) -> int:
        """How many of those that it removed are outside the recorded ones, if that is known."""
        return 0 if self.removed is None else self.removed - len(self.removed_known)


@dataclass(frozen=True, slots=True)
class Part:
    """A candidate's place in the draw."""

    token_id: int
    start: float
    end: float
    is_drawn: bool


@dataclass(frozen=True, slots=True)
class DrawEvidence:
    """`parts` are empty where the mark cannot be placed; `reason` says why."""

    uniform: float | None
    parts: tuple[Part, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """`sentence`: why there is nothing."""

    stages: tuple[StageEvidence, ...] = ()
    draw: DrawEvidence | None = None
    sentence: str = ""


def evidence(token: TokenTrace, stages: Sequence[Stage], n_vocab: int | None) -> Evidence:
    """`stages`: those of the reply, the selecting one last. `n_vocab`: of the weights that wrote
    it, None where it is not known."""
    if not token.stages:
        return Evidence(sentence=NOT_RECORDED)
    positions = _positions(token.stages, stages)
    if positions is None:
        return Evidence(sentence=OTHER_STAGES)
    temperatures = {
        at: stage.t
        for at, position in enumerate(positions)
        if position is not None and isinstance(stage := stages[position], Temperature)
    }
    fall = waterfall(token, n_vocab, temperatures)
    first = next((at for at, each in enumerate(positions) if _weighs(each, stages)), len(positions))
    fall = replace(
        fall,
        steps=tuple(
            step if at < first else replace(step, shares=None) for at, step in enumerate(fall.steps)
        ),
    )
    rows = tuple(
        _row(at, position, fall, token, is_weighed=at >= first)
        for at, position in enumerate(positions)
    )
    return Evidence(rows, _draw(token, stages, fall, rows[-1]))


def _weighs(position: int | None, stages: Sequence[Stage]) -> bool:
    """Whether the stage changes scores by itself or by a temperature that is not recorded. That
    the drawn token's share stayed the same proves nothing about a rare candidate's."""
    if position is None:
        return False
    match stage := stages[position]:
        case Penalties():
            is_neutral = stage.repeat == 1 and stage.frequency == 0 and stage.presence == 0
            return stage.last_n != 0 and not is_neutral
        case Dry():
            return stage.multiplier > 0 and stage.last_n != 0
        case LogitBias():
            return any(entry.ban or entry.bias for entry in stage.biases)
        case DynamicTemperature():
            return stage.t != 1 or stage.spread > 0
        case AdaptiveP():
            return stage.target >= 0
    return False


def _positions(effects: Iterable[StageEffect], stages: Sequence[Stage]) -> list[int | None] | None:
    """For each effect the position of its stage; None for all: they do not belong together."""
    positions: list[int | None] = []
    following = iter(range(len(stages)))
    for effect in effects:
        if effect.stage in BEFORE_STAGES:
            positions.append(None)
            continue
        position = next(following, None)
        if position is None or stage_name(stages[position]) != effect.stage:
            return None
        positions.append(position)
    return positions if next(following, None) is None else None


def _row(
    at: int, position: int | None, fall: Waterfall, token: TokenTrace, *, is_weighed: bool
) -> StageEvidence:
    """`is_weighed`: a stage up to here has changed scores."""
    step = fall.steps[at]
    kept = [
        Kept(candidate.token_id, None if step.shares is None else step.shares[n], is_drawn)
        for n, candidate in enumerate(fall.candidates)
        if candidate.removed_by is None or candidate.removed_by > at
        for is_drawn in [candidate.is_drawn]
    ]
    is_recorded = any(candidate.is_drawn for candidate in fall.candidates)
    # One that was chosen by hand may have been removed; its share is 0 then.
    if not is_recorded and (step.probability > 0 or not token.chosen):
        kept.append(Kept(token.token_id, step.probability, is_drawn=True))
    if step.shares is not None:
        kept.sort(key=lambda each: -(each.share or 0.0))
    else:
        kept = [Kept(k.token_id, step.probability, True) if k.is_drawn else k for k in kept]
    is_alone = step.left == 1 and len(kept) == 1
    if is_alone:  # whatever was changed before
        kept = [replace(kept[0], share=1.0)]
    return StageEvidence(
        step.stage,
        position,
        step.left,
        step.removed,
        tuple(kept),
        tuple(c for c in fall.candidates if c.removed_by == at),
        step.uniform,
        ""
        if is_alone
        else _why_not_told(
            fall.steps[: at + 1],
            is_gone=token.chosen and step.probability < LEAST_SHARE and not is_weighed,
        ),
    )


def _why_not_told(steps: Sequence[Step], *, is_gone: bool) -> str:
    """`is_gone`: the token itself, which was chosen, is not left."""
    if steps[-1].shares is not None:
        return ""
    if is_gone:
        return GONE
    first = next(step.stage for step in steps if step.shares is None)
    first = in_words(first)
    if len(steps) > 1 and steps[-2].shares is None:
        return f"The other shares after {first} are unknown."
    return (
        f"The shares after {first} are unknown: it changes scores, and only the drawn token's "
        "share was recorded."
    )


# --- the draw -------------------------------------------------------------------------------------


def _draw(
    token: TokenTrace, stages: Sequence[Stage], fall: Waterfall, last: StageEvidence
) -> DrawEvidence:
    if token.inserted:
        return DrawEvidence(None, (), "The engine wrote this to end the reasoning at its limit.")
    if token.chosen:
        return DrawEvidence(None, (), "You chose this token, so no number was drawn.")
    if isinstance(stages[-1], Greedy):
        return DrawEvidence(None, (), "Greedy takes the best candidate, so no number is drawn.")
    if last.left == 1 and not isinstance(stages[-1], Dist):
        return DrawEvidence(None, (), "Only one candidate was left, so no number was drawn.")
    if token.uniform is None:
        return DrawEvidence(None, (), "The random number of this draw wasn't recorded.")
    reason = last.reason
    if not reason and last.left > len(last.kept):
        reason = (
            f"{last.left:,} candidates were left, but only the top {len(fall.candidates)} were "
            "recorded, so which one the number selects is unknown."
        )
    is_plain = isinstance(stages[-1], Dist) and not any(isinstance(s, Typical) for s in stages)
    if not reason and not is_plain:
        reason = "This stage sorts the candidates in a way that wasn't recorded."
    if reason:
        return DrawEvidence(token.uniform, (), reason)
    parts = _laid_out(last.kept, stages)
    drawn = next(part for part in parts if part.is_drawn)
    if not drawn.start - _SLACK <= token.uniform <= drawn.end + _SLACK:
        return DrawEvidence(token.uniform, (), "The order of the candidates wasn't recorded.")
    return DrawEvidence(token.uniform, parts, "")


def _laid_out(kept: Sequence[Kept], stages: Sequence[Stage]) -> tuple[Part, ...]:
    """The candidates side by side in native order, from 0 to 1."""
    if not any(map(_sorts, stages)):
        kept = sorted(kept, key=lambda each: each.token_id)
    total = sum(each.share or 0.0 for each in kept) or 1.0
    parts, start = [], 0.0
    for each in kept:
        end = start + (each.share or 0.0) / total
        parts.append(Part(each.token_id, start, end, each.is_drawn))
        start = end
    return tuple(parts)


def _sorts(stage: Stage) -> bool:
    match stage:
        case TopK():
            return stage.k > 0
        case TopP():
            return stage.p < 1
        case Xtc():
            return stage.probability > 0 and stage.threshold <= 0.5
        case DynamicTemperature():
            return stage.spread > 0
    return False
