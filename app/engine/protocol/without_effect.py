"""Which settings of a sampling chain change nothing, and why: told before the reply begins.

A setting has no effect by its value (top-p 1), by what stands before it (a second top-k that is
larger than the first) or by the stage that selects (with greedy only the best candidate counts).
Only what is certain is said; what depends on the scores is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.protocol.stage_rules import stage_name
from app.engine.protocol.stages import (
    AdaptiveP,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)

Found = tuple[str, str]
"""The stage's name, and the sentence."""

_KEEPS_BEST: Final = (TopK, TopP, MinP, TopNSigma, Temperature, DynamicTemperature)
"""None of them removes the best candidate or puts another one above it."""

_SO: Final = ", so it has no effect."
NEUTRAL: Final = "The penalty stage is neutral (repeat 1, the others 0)"
"""So every window's chain begins, and nobody means anything by it."""


def without_effect(sampling: Sampling, *, n_vocab: int, n_ctx: int) -> list[Found]:
    """Stages and settings of `sampling` that cannot change any token's chance, in order.

    >>> from app.engine.protocol.stages import Dist
    >>> without_effect(Sampling([TopP(p=1.0)], Dist()), n_vocab=100, n_ctx=100)
    [('top-p', 'Top-p 1 keeps every token, so it has no effect.')]
    """
    found = [
        (stage_name([*sampling.filters, sampling.select][at]), sentence)
        for at, sentence in idle_stages(sampling, n_vocab=n_vocab).items()
    ]
    return found + _of_the_rest(sampling)


def idle_stages(sampling: Sampling, *, n_vocab: int) -> dict[int, str]:
    """The same for the stages alone, by their position; the selecting one is behind the filters."""
    found: dict[int, str] = {}
    for position, stage in enumerate(sampling.filters):
        reason = _by_value(stage, n_vocab) or _by_place(sampling, position, n_vocab)
        if reason:
            found[position] = f"{reason}{_SO}"
    if sentence := _of_selection(sampling):
        found[len(sampling.filters)] = sentence
    return found


def worth_saying(sampling: Sampling, *, n_vocab: int, n_ctx: int) -> list[Found]:
    """The same without penalties at their neutral values: every window's chain begins with them,
    switched off, and nobody means anything by it."""
    neutral = any(_is_neutral(s) for s in sampling.filters if isinstance(s, Penalties))
    found = without_effect(sampling, n_vocab=n_vocab, n_ctx=n_ctx)
    return [f for f in found if not (neutral and f == ("penalties", f"{NEUTRAL}{_SO}"))]


def _is_neutral(stage: Penalties) -> bool:
    return stage.repeat == 1 and stage.frequency == 0 and stage.presence == 0


def _by_value(stage: Stage, n_vocab: int) -> str:
    """Why the stage's own values make it idle, or ""."""
    match stage:
        case LogitBias() if not any(b.ban or b.bias for b in stage.biases):
            return "The logit bias is 0 for every token"
        case Penalties() if _is_neutral(stage):
            return NEUTRAL
        case Penalties(last_n=0):
            return "The penalty stage has a window of 0 tokens"
        case Dry(multiplier=0):
            return "DRY's multiplier is 0"
        case Dry(last_n=0):
            return "DRY has a window of 0 tokens"
        case TopNSigma() if stage.n <= 0:
            return "Top-n-sigma 0 keeps every token"
        case TopK() if stage.k <= 0:
            return "Top-k 0 keeps every token"
        case TopK() if stage.k >= n_vocab:
            return f"Top-k {stage.k:,} keeps all {n_vocab:,} tokens of the vocabulary"
        case Typical() if stage.p >= 1:
            return "Typical 1 keeps every token"
        case TopP() if stage.p >= 1:
            return "Top-p 1 keeps every token"
        case MinP() if stage.p <= 0:
            return "Min-p 0 keeps every token"
        case Xtc() if stage.probability <= 0:
            return "XTC has probability 0"
        case Xtc() if stage.threshold > 0.5:
            return "XTC's threshold is above 0.5, which no two tokens can both reach"
        case Temperature(t=1):
            return "Temperature 1 leaves scores unchanged"
        case DynamicTemperature(t=1) if stage.spread <= 0:
            return "Dynamic temperature 1 without spread leaves scores unchanged"
        case TopP() | MinP() | Typical() | Xtc() if stage.min_keep >= n_vocab:
            return f"{_title(stage)} must keep every token of the vocabulary"
    return ""


def _by_place(sampling: Sampling, position: int, n_most: int) -> str:
    """Why the stage is idle where it stands, or ""."""
    stage, before = sampling.filters[position], sampling.filters[:position]
    name = _title(stage)
    if not isinstance(stage, LogitBias) and any(_leaves_one(earlier) for earlier in before):
        return f"Only one token is left before {name}"
    if isinstance(stage, TopK):
        smaller = [s.k for s in before if isinstance(s, TopK) and 0 < s.k <= stage.k]
        if smaller:
            return f"An earlier top-k already keeps only {min(smaller):,} tokens"
    after = sampling.filters[position + 1 :]
    is_greedy = isinstance(sampling.select, Greedy)
    if is_greedy and isinstance(stage, _KEEPS_BEST) and _no_longer_matters(after):
        return f"{name} never changes the best token, and greedy always takes it"
    most = min((s.k for s in before if isinstance(s, TopK) and s.k > 0), default=n_most)
    if isinstance(stage, Xtc) and most <= stage.min_keep:
        return f"XTC must keep {stage.min_keep:,} tokens, and no more than that are left"
    return ""


def _title(stage: Stage) -> str:
    """The stage's name as a sentence begins with it.

    >>> _title(Xtc()), _title(TopP())
    ('XTC', 'Top-p')
    """
    name = stage_name(stage)
    return name.upper() if isinstance(stage, Xtc | Dry) else name.capitalize()


def _leaves_one(stage: Stage) -> bool:
    match stage:
        case TopK(k=1) | Temperature(t=0):
            return True
        case TopP(p=0, min_keep=1):
            return True
        case DynamicTemperature(t=0) if stage.spread <= 0:
            return True
    return False


def _no_longer_matters(after: Sequence[Stage]) -> bool:
    """Whether what stands behind it works on the best candidate alike with and without it.

    A penalty, a bias, XTC or typical sampling may put another one on top, and which ones are left
    or how far apart they are then counts.
    """
    return all(isinstance(later, _KEEPS_BEST) for later in after)


def _of_selection(sampling: Sampling) -> str:
    select = sampling.select
    if isinstance(select, Greedy):
        if sampling.seed is not None and not _draws_otherwise(sampling):
            return "Greedy always takes the best token, so the seed has no effect."
        return ""
    last = sampling.filters and any(_leaves_one(s) for s in sampling.filters)
    if last and isinstance(select, Mirostat | MirostatV2 | AdaptiveP):
        name = stage_name(select)
        return f"Only one token is left before {name}, so its values have no effect."
    if isinstance(select, AdaptiveP) and select.target < 0:
        return "Adaptive-p has no target, so its decay has no effect."
    return ""


def _draws_otherwise(sampling: Sampling) -> bool:
    return any(
        isinstance(s, Xtc) and s.probability > 0 and s.threshold <= 0.5 for s in sampling.filters
    )


def _of_the_rest(sampling: Sampling) -> list[Found]:
    if sampling.ban_end_token and sampling.min_tokens > 0:
        sentence = "End tokens are banned, so the minimum length has no effect."
        return [("min-tokens", sentence)]
    return []
