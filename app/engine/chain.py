"""The sampling chain: native samplers applied one by one to one candidate array.

`llama_sampler_chain_apply` is itself a loop over `llama_sampler_apply`, so applying the stages
one by one gives the same tokens as `llama_sampler_sample`; between two stages we can look at
what is left. What must hold:

* Every value is checked before anything native sees it (`check`): native samplers assert.
* The selecting stage is last, and before it a finite candidate is left; an empty or all −inf
  array would abort the process or select garbage. Otherwise `NoCandidate` names the stage.
* Every stage is applied once per token: some have state, some draw from the seed.

A new stage needs a struct in `protocol.py` and a row in `_KINDS`: its name, its checks and its
native constructor.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.engine.native import Candidates, llama
from app.engine.protocol import (
    Dist,
    Greedy,
    MinP,
    Penalties,
    Sampling,
    Stage,
    Temperature,
    TopK,
    TopP,
)
from app.engine.tracing import Scores, Snapshot

MAX_SEED: Final = 2**32 - 2
MAX_STAGES: Final = 32
_SCORES: Final = "scores"


class BadSetting(Exception):  # noqa: N818
    """A value that cannot be used; `sentence` names the field and what it may be."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


class NoCandidate(Exception):  # noqa: N818
    """A stage left nothing to choose from."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage
        if stage == _SCORES:
            self.sentence = (
                "The weights gave no usable scores (not a number, or infinite). "
                "The file may be damaged; load it again or choose another one."
            )
        else:
            self.sentence = (
                f"The sampling stage “{stage}” left no token to choose from. "
                "Give it a milder value or take it out of the chain."
            )


# --- checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a field may hold. `words` follows "must be"."""

    low: float
    high: float
    words: str
    whole: bool = False


_Check = tuple[str, str, _Bounds]
"""Attribute, its name for people, its bounds."""

_SHARE: Final = _Bounds(0.0, 1.0, "between 0 and 1")
_KEEP: Final = _Bounds(1, 1_000_000, "a whole number from 1", whole=True)


def _check_number(value: object, label: str, field: str, bounds: _Bounds) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole and (bounds.whole or not isinstance(value, float)):
        kind = "a whole number" if bounds.whole else "a number"
        raise BadSetting(field, f"{label} must be {kind}, not {_shown(value)}.")
    assert isinstance(value, int | float)
    if not math.isfinite(value) or not bounds.low <= value <= bounds.high:
        raise BadSetting(field, f"{label} must be {bounds.words}, not {_shown(value)}.")


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:40] + "…"


@dataclass(frozen=True, slots=True)
class _Context:
    """What a native constructor may need beyond its stage."""

    n_vocab: int
    n_ctx: int
    seed: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """A row of the registry."""

    name: str
    checks: tuple[_Check, ...]
    build: Callable[[Any, _Context], Any]


def _penalties(stage: Penalties, context: _Context) -> Any:
    # Native code takes −1 for "off"; the whole context is what the protocol means by it.
    last_n = context.n_ctx if stage.last_n < 0 else stage.last_n
    return llama.llama_sampler_init_penalties(
        context.n_vocab, last_n, stage.repeat, stage.frequency, stage.presence
    )


_KINDS: Final[dict[type[Stage], _Kind]] = {
    Penalties: _Kind(
        "penalties",
        (
            (
                "last_n",
                "Penalty window",
                _Bounds(-1, 1_000_000, "-1 (the whole context), 0 (off) or more", whole=True),
            ),
            ("repeat", "Repetition penalty", _Bounds(0.01, 100.0, "between 0.01 and 100")),
            ("frequency", "Frequency penalty", _Bounds(-100.0, 100.0, "between -100 and 100")),
            ("presence", "Presence penalty", _Bounds(-100.0, 100.0, "between -100 and 100")),
        ),
        _penalties,
    ),
    TopK: _Kind(
        "top-k",
        (("k", "Top-k", _Bounds(-1, 10_000_000, "0 (off) or a whole number above", whole=True)),),
        lambda stage, _: llama.llama_sampler_init_top_k(stage.k),
    ),
    TopP: _Kind(
        "top-p",
        (("p", "Top-p", _SHARE), ("min_keep", "Top-p's smallest number of tokens", _KEEP)),
        lambda stage, _: llama.llama_sampler_init_top_p(stage.p, stage.min_keep),
    ),
    MinP: _Kind(
        "min-p",
        (("p", "Min-p", _SHARE), ("min_keep", "Min-p's smallest number of tokens", _KEEP)),
        lambda stage, _: llama.llama_sampler_init_min_p(stage.p, stage.min_keep),
    ),
    Temperature: _Kind(
        "temperature",
        (("t", "Temperature", _Bounds(0.0, 100.0, "between 0 and 100")),),
        lambda stage, _: llama.llama_sampler_init_temp(stage.t),
    ),
    Greedy: _Kind("greedy", (), lambda _, __: llama.llama_sampler_init_greedy()),
    Dist: _Kind("dist", (), lambda _, context: llama.llama_sampler_init_dist(context.seed)),
}
_SELECTING: Final = (Greedy, Dist)


def check(sampling: Sampling) -> None:
    """Raise BadSetting for the first value that native code must not see."""
    if len(sampling.filters) > MAX_STAGES:
        raise BadSetting("filters", f"A sampling chain may have at most {MAX_STAGES} stages.")
    for position, stage in enumerate(sampling.filters):
        if isinstance(stage, _SELECTING):
            raise BadSetting(
                "filters", f"“{stage_name(stage)}” selects a token, so it must be the last stage."
            )
        _check_stage(stage, f"filters[{position}]")
    if not isinstance(sampling.select, _SELECTING):
        raise BadSetting(
            "select", "The last stage of a sampling chain must select a token (greedy or dist)."
        )
    _check_stage(sampling.select, "select")
    if sampling.seed is not None:
        _check_number(
            sampling.seed,
            "Seed",
            "seed",
            _Bounds(0, MAX_SEED, f"a whole number from 0 to {MAX_SEED}", whole=True),
        )


def _check_stage(stage: Stage, where: str) -> None:
    kind = _KINDS.get(type(stage))
    if kind is None:
        raise BadSetting(where, f"There is no sampling stage “{type(stage).__name__}”.")
    for attribute, label, bounds in kind.checks:
        _check_number(getattr(stage, attribute), label, f"{where}.{attribute}", bounds)


def stage_name(stage: Stage) -> str:
    return _KINDS[type(stage)].name


def fresh_seed() -> int:
    """A seed from the operating system, in the range that requests may use."""
    return int.from_bytes(os.urandom(8), "little") % (MAX_SEED + 1)


# --- the chain ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """A drawn token and, where recorded, the candidates after each stage."""

    token_id: int
    snapshots: tuple[Snapshot, ...]


class Chain:
    """The native stages of one request. Close it when the request ends.

    `seed` is the one in use: the request's, or a fresh one where it gave none.
    """

    def __init__(self, sampling: Sampling, *, n_vocab: int, n_ctx: int) -> None:
        check(sampling)
        self.seed = fresh_seed() if sampling.seed is None else sampling.seed
        context = _Context(n_vocab, n_ctx, self.seed)
        self._stages: list[tuple[str, Any]] = []
        for stage in [*sampling.filters, sampling.select]:
            kind = _KINDS[type(stage)]
            self._stages.append((kind.name, kind.build(stage, context)))
        self._window = max(
            (n_ctx if s.last_n < 0 else s.last_n)
            for s in [Penalties(last_n=0), *sampling.filters]
            if isinstance(s, Penalties)
        )

    def see_prompt(self, token_ids: Sequence[int]) -> None:
        """Let the stages with a memory (penalties) see the prompt, as llama.cpp's server does."""
        for token_id in token_ids[max(len(token_ids) - self._window, 0) :]:
            self.accept(token_id)

    def draw(self, scores: Scores, candidates: Candidates, *, record: bool = False) -> Draw:
        """Draw a token from `scores` [n_vocab]; they are copied into `candidates`."""
        best = float(scores.max())
        if not math.isfinite(best):
            raise NoCandidate(_SCORES)
        candidates.fill(scores)
        snapshots: list[Snapshot] = []
        for name, sampler in self._stages:
            llama.llama_sampler_apply(sampler, candidates.reference)
            if not _has_finite(candidates, name):
                raise NoCandidate(name)
            if record:
                view = candidates.view
                snapshots.append(Snapshot(name, view["id"].copy(), view["logit"].copy()))
        selected = int(candidates.native.selected)
        if not 0 <= selected < candidates.native.size:
            raise NoCandidate(self._stages[-1][0])
        return Draw(int(candidates.native.data[selected].id), tuple(snapshots))

    def accept(self, token_id: int) -> None:
        """The token becomes part of the text: stages with a memory remember it."""
        for _, sampler in self._stages:
            llama.llama_sampler_accept(sampler, token_id)

    def close(self) -> None:
        while self._stages:
            llama.llama_sampler_free(self._stages.pop()[1])


def _has_finite(candidates: Candidates, name: str) -> bool:
    """Whether a usable candidate is left: the best score must be a finite number.

    Only a division (temperature) can make scores infinite; after any other stage one finite
    score is proof enough, and the first one nearly always is.
    """
    size = int(candidates.native.size)
    if size == 0:
        return False
    first_is_finite = math.isfinite(candidates.native.data[0].logit)
    if candidates.native.sorted or (first_is_finite and name != _KINDS[Temperature].name):
        return first_is_finite
    return math.isfinite(float(np.max(candidates.view["logit"])))
