"""The sampling chain: native samplers applied one by one to one candidate array.

`llama_sampler_chain_apply` is itself a loop over `llama_sampler_apply`, so applying the stages
one by one gives the same tokens as `llama_sampler_sample`; between two stages we can look at
what is left. What must hold:

* Every value is checked before anything native sees it (`check`): native samplers assert.
* The selecting stage is last, and before it a finite candidate is left; an empty or all −inf
  array would abort the process or select garbage. Otherwise `NoCandidate` names the stage.
* Every stage is applied once per draw: some have state, some draw from the seed.
* With a grammar a token is drawn first and tested; only if it is refused the whole vocabulary is
  masked and the chain applied again, as llama.cpp's server does. So a refused token costs a
  second number of each random stage.

The stages are in `registry.py`. Two things differ from llama.cpp's own chain, where that one goes
wrong: after a logit bias the array counts as unsorted (llama.cpp goes on with the old order, and
divides infinities once the best token is banned); and before typical sampling candidates without
any probability are dropped (of 0 · ln 0 llama.cpp makes "not a number", and keeps any tokens).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.grammar import Grammar, check_grammar, grammar_of, new_grammar
from app.engine.process.sampling.registry import KINDS, Context, StageKind, biases_of
from app.engine.process.sampling.uniforms import decides, holds, takes_number
from app.engine.process.trace.effects import Snapshot
from app.engine.process.trace.shortlist import Scores, Shortlist
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import MAX_SEED, check_stages
from app.engine.protocol.stages import LogitBias, Sampling, Stage, Temperature, TopK
from app.insight.sampling.dice import Uniforms
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.engine.process.native.vocabulary import Vocabulary

SCORES: Final = "scores"
END_TOKENS: Final = "end-token-ban"
BANNED: Final = "banned-strings"
GRAMMAR: Final = "grammar"

_NEGLIGIBLE: Final = np.float32(80.0)
"""This far below the best, e⁻⁸⁰ is the smallest share that float32 still tells from 0."""

_MAY_OVERFLOW: Final = frozenset(("temperature", "dynamic-temperature"))

Ids = np.ndarray[Any, np.dtype[np.int32]]


class NoCandidate(Refusal):
    """A stage left nothing to choose from."""

    def __init__(self, stage: str) -> None:
        sentence = _NOTHING_LEFT.get(
            stage,
            f"The sampling stage “{stage}” left no token to choose from. Use a milder value or "
            "remove it from the chain.",
        )
        super().__init__("no_candidate", sentence, stage)


_NOTHING_LEFT: Final = {
    SCORES: (
        "The model returned no usable scores (NaN or infinite). The file may be damaged. Reload "
        "it or choose another."
    ),
    GRAMMAR: (
        "The grammar allows none of the possible next tokens. Relax it, or remove bans and the "
        "minimum length."
    ),
    BANNED: "Every possible next token starts a banned string. Ban fewer strings.",
    END_TOKENS: "Only an end token is possible here, and end tokens are banned.",
}


# --- checks ---------------------------------------------------------------------------------------


def check(sampling: Sampling, vocabulary: Vocabulary | None = None) -> None:
    """Raise BadSetting for the first value that native code must not see.

    Token IDs and grammars can only be judged with a vocabulary; `scheduler.add` gives it.
    """
    check_stages(sampling, None if vocabulary is None else vocabulary.n_vocab)
    check_grammar(sampling.grammar, sampling.json_schema, vocabulary)


def fresh_seed() -> int:
    """A seed from the operating system, in the range that requests may use."""
    return int.from_bytes(os.urandom(8), "little") % (MAX_SEED + 1)


# --- the chain ------------------------------------------------------------------------------------


class Draw(msgspec.Struct, frozen=True):
    """A drawn token; where recorded, what each stage changed; and the number that drew it."""

    token_id: int
    snapshots: tuple[Snapshot, ...] = ()
    uniform: float | None = None


@dataclass(slots=True)
class _Step:
    """A stage at work. `idle`: llama.cpp made an empty sampler of it, which changes nothing.
    `unchanged`: what is recorded where it changes nothing. `keeps`: how many top-k keeps, 0 for
    others. `drawn`: how many numbers XTC has drawn, which has a generator of its own."""

    kind: StageKind
    stage: Stage
    sampler: Any
    idle: bool
    biased: Ids
    name: str
    unchanged: Snapshot
    keeps: int = 0
    drawn: int = 0

    @property
    def remembers(self) -> bool:
        """Whether accepting a token changes the sampler; of all others llama.cpp has no such
        function, and asking costs a microsecond each."""
        return not self.idle and (self.kind.touches == "seen" or self.kind.name == "adaptive-p")


@dataclass(slots=True)
class Moment:
    """The chain as it was before a draw. `Chain.restore` uses it up; else it must be freed."""

    draws: int
    drawn: list[int] = field(default_factory=list)
    samplers: dict[int, Any] = field(default_factory=dict)
    grammar: Grammar | None = None
    is_bound: bool = False

    def free(self) -> None:
        while self.samplers:
            llama.llama_sampler_free(self.samplers.popitem()[1])
        if self.grammar is not None:
            self.grammar.close()
            self.grammar = None


class _Seen:
    """The different tokens of prompt and reply: all that penalties and DRY could change."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._ids = np.empty(256, np.int32)

    def add(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            if token_id not in self._known:
                if len(self._known) == len(self._ids):
                    self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
                self._ids[len(self._known)] = token_id
                self._known.add(token_id)

    @property
    def ids(self) -> Ids:
        return self._ids[: len(self._known)]


class Chain:
    """The native stages of one request. Close it when the request ends.

    `seed` is the one in use: the request's, or a fresh one where it gave none. `vocabulary` is
    needed by what deals with texts: biases by text, DRY, grammars, end tokens.
    """

    def __init__(
        self,
        sampling: Sampling,
        *,
        n_vocab: int,
        n_ctx: int,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        check(sampling)
        self.seed = fresh_seed() if sampling.seed is None else sampling.seed
        self._context = Context(n_vocab, n_ctx, self.seed, vocabulary)
        self._steps: list[_Step] = []
        self._grammar: Grammar | None = None
        try:
            for stage in [*sampling.filters, sampling.select]:
                self._steps.append(self._step(stage))
            if vocabulary is not None:
                self._grammar = new_grammar(sampling.grammar, sampling.json_schema, vocabulary)
        except BaseException:
            self._free()
            raise
        self._remembering = [step for step in self._steps if step.remembers]
        self._end_ids = np.array(vocabulary.eog_ids if vocabulary is not None else [], np.int32)
        self._vocabulary = vocabulary
        self.is_bound = False
        """Whether a grammar has begun in the middle of the reply."""
        self._is_kept_on = False
        self._min_tokens = sampling.min_tokens
        self._ban_end_token = sampling.ban_end_token
        self._seen = _Seen()
        self._uniforms = Uniforms(self.seed) if holds() else None
        self._deciding = Uniforms(self.seed, is_float=True) if holds() else None
        self._draws = 0
        self._accepted = 0

    def _step(self, stage: Stage) -> _Step:
        kind = KINDS[type(stage)]
        biases = biases_of(stage, self._context.vocabulary) if isinstance(stage, LogitBias) else {}
        sampler = kind.build(stage, self._context)
        idle = (llama.llama_sampler_name(sampler) or b"").startswith(b"?")
        keeps = stage.k if isinstance(stage, TopK) else 0
        biased = np.array(list(biases), np.int32)
        return _Step(kind, stage, sampler, idle, biased, kind.name, Snapshot(kind.name), keeps)

    def see_prompt(self, token_ids: Sequence[int]) -> None:
        """Let the stages with a memory (penalties, DRY) see the prompt, as llama.cpp's server
        does. A grammar is about the reply alone."""
        self._seen.add(token_ids)
        for step in self._steps:
            if step.kind.touches == "seen" and not step.idle:
                window = getattr(step.stage, "last_n", -1)
                start = 0 if window < 0 else max(len(token_ids) - window, 0)
                for token_id in token_ids[start:]:
                    llama.llama_sampler_accept(step.sampler, token_id)

    def see_beginning(self, token_ids: Sequence[int]) -> None:
        """Let the grammar go on where these tokens, the reply so far, have left it. Where they do
        not fit it (somebody wrote "Sure:" before the JSON) it begins with what is written now."""
        if self._grammar is None or not token_ids:
            return
        ahead = self._grammar.clone()
        try:
            for token_id in token_ids:
                if not ahead.allows(token_id):
                    return
                ahead.accept(token_id)
            ahead, self._grammar = self._grammar, ahead
        finally:
            ahead.close()

    def bind(self, grammar: str, begun: str) -> bool:
        """From here on the reply is bound by this grammar, of which it has written `begun`. False:
        that does not fit, or there is no grammar; then it stays as free as it was."""
        if not grammar or self._vocabulary is None or self._grammar is not None:
            return False
        try:
            found = grammar_of(grammar, self._vocabulary)
        except BadSetting:
            return False
        for token_id in self._vocabulary.tokenize(begun) if begun else ():
            if not found.allows(token_id):
                found.close()
                return False
            found.accept(token_id)
        self._grammar, self.is_bound, self._is_kept_on = found, True, False
        return True

    def keeps_on(self, *, is_kept: bool) -> None:
        """Whether no end token may come for now."""
        self._is_kept_on = is_kept

    def draw(
        self,
        scores: Scores,
        candidates: Candidates,
        *,
        record: bool = False,
        banned: Iterable[int] = (),
        shortlist: Shortlist | None = None,
    ) -> Draw:
        """Draw a token from `scores` [n_vocab]; they are copied into `candidates`.

        `banned`: tokens that may not be drawn this time. `shortlist`: of the same scores, if
        somebody has made one.
        """
        if not math.isfinite(float(scores.max()) if shortlist is None else shortlist.best):
            raise NoCandidate(SCORES)
        snapshots: list[Snapshot] | None = [] if record else None
        self._fill(scores, candidates, banned, snapshots, shortlist)
        token_id, uniform = self._apply(candidates, snapshots)
        if self._grammar is None or self._grammar.allows(token_id):
            return Draw(token_id, tuple(snapshots or ()), uniform)
        snapshots = [] if record else None
        self._fill(scores, candidates, banned, snapshots)
        self._grammar.mask(candidates)
        if snapshots is not None:
            snapshots.append(Snapshot(GRAMMAR, scores=candidates.view["logit"].copy()))
        if not math.isfinite(float(np.max(candidates.view["logit"]))):
            return Draw(self._only_end(), tuple(snapshots or ()))
        token_id, uniform = self._apply(candidates, snapshots)
        return Draw(token_id, tuple(snapshots or ()), uniform)

    def _fill(
        self,
        scores: Scores,
        candidates: Candidates,
        banned: Iterable[int],
        snapshots: list[Snapshot] | None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """All candidates, without those that may not even reach the first stage."""
        candidates.fill(scores, shortlist)
        for name, ids in self._bans(banned):
            candidates.ban(ids)
            if snapshots is not None:
                nothing = np.full(len(ids), -np.inf, np.float32)
                snapshots.append(Snapshot(name, ids, nothing, is_partial=True))
            if not math.isfinite(candidates.best_score):
                raise NoCandidate(name)

    def _bans(self, banned: Iterable[int]) -> list[tuple[str, Ids]]:
        bans = []
        too_short = self._accepted < self._min_tokens
        if (too_short or self._ban_end_token or self._is_kept_on) and len(self._end_ids):
            bans.append((END_TOKENS, self._end_ids))
        if ids := list(banned):
            bans.append((BANNED, np.array(ids, np.int32)))
        return bans

    def _only_end(self) -> int:
        """Nothing is left under the grammar: an end token, if the grammar is complete and only
        bans stood against it."""
        assert self._grammar is not None
        for token_id in self._end_ids:
            if self._grammar.allows(int(token_id)):
                return int(token_id)
        raise NoCandidate(GRAMMAR)

    def _apply(
        self, candidates: Candidates, snapshots: list[Snapshot] | None
    ) -> tuple[int, float | None]:
        """All stages in order; the selected token and the number that selected it."""
        is_whole = True
        for step in self._steps:
            if not step.idle:
                is_whole = self._apply_one(step, candidates, is_whole, snapshots)
                if not _has_finite(candidates, step.name):
                    raise NoCandidate(step.name)
            elif snapshots is not None:
                snapshots.append(step.unchanged)
        name, token_id = self._steps[-1].name, candidates.selected_id
        if token_id < 0:
            raise NoCandidate(name)
        uniform = None
        if takes_number(name, int(candidates.native.size)):
            uniform = None if self._uniforms is None else self._uniforms[self._draws]
            self._draws += 1
        return token_id, uniform

    def _apply_one(
        self,
        step: _Step,
        candidates: Candidates,
        is_whole: bool,
        snapshots: list[Snapshot] | None,
    ) -> bool:
        """One stage; whether candidate i is still token i after it."""
        name, native = step.name, candidates.native
        if is_whole and step.kind.touches:
            ids = self._seen.ids if step.kind.touches == "seen" else step.biased
            changed = candidates.apply_to(step.sampler, ids)
            if snapshots is not None:
                snapshots.append(Snapshot(name, ids.copy(), changed, is_partial=True))
            return True
        before, was_sorted = int(native.size), bool(native.sorted)
        uniform = self._decide(step, before) if name == "xtc" else None
        if name == "typical":
            _drop_hopeless(candidates)
        elif step.keeps:
            candidates.narrow(step.keeps)
        llama.llama_sampler_apply(step.sampler, candidates.reference)
        if name == "logit-bias":
            native.sorted = False
        is_whole = is_whole and not step.kind.orders
        if snapshots is not None:
            snapshot = _snapshot(step, candidates, is_whole, before, was_sorted)
            if uniform is not None:
                snapshot = msgspec.structs.replace(snapshot, uniform=uniform)
            snapshots.append(snapshot)
        return is_whole

    def _decide(self, step: _Step, candidates: int) -> float | None:
        """The number by which XTC will decide whether it acts."""
        if not decides(candidates):
            return None
        step.drawn += 1
        return None if self._deciding is None else self._deciding[step.drawn - 1]

    def allows(self, token_id: int) -> bool:
        """Whether the grammar, if there is one, lets the token come next."""
        return self._grammar is None or self._grammar.allows(token_id)

    def accept(self, token_id: int) -> None:
        """The token becomes part of the reply: stages with a memory remember it."""
        self._accepted += 1
        self._seen.add((token_id,))
        for step in self._remembering:
            llama.llama_sampler_accept(step.sampler, token_id)
        if self._grammar is not None:
            self._grammar.accept(token_id)

    # --- going back -----------------------------------------------------------------------

    def before_draw(self) -> Moment:
        """What the next draw will change: the random stages. Microseconds."""
        moment = Moment(self._draws, [step.drawn for step in self._steps], is_bound=self.is_bound)
        for position, step in enumerate(self._steps):
            if step.kind.draws and not step.idle:
                moment.samplers[position] = llama.llama_sampler_clone(step.sampler)
        return moment

    def complete(self, moment: Moment) -> None:
        """After that draw, before its token is accepted: add what accepting will change."""
        for position, step in enumerate(self._steps):
            if step.kind.touches == "seen" and not step.idle:
                moment.samplers[position] = llama.llama_sampler_clone(step.sampler)
        if self._grammar is not None:
            moment.grammar = self._grammar.clone()

    def restore(self, moment: Moment, accepted: int) -> None:
        """Go back to before the draw, when `accepted` tokens had been accepted."""
        self._draws, self._accepted = moment.draws, accepted
        for step, drawn in zip(self._steps, moment.drawn, strict=True):
            step.drawn = drawn
        for position, sampler in moment.samplers.items():
            step = self._steps[position]
            llama.llama_sampler_free(step.sampler)
            step.sampler = sampler
            if step.kind.name == "adaptive-p":
                _advance(sampler, self._draws)
        moment.samplers.clear()
        # One that began with a token that is taken back has not begun.
        has_begun = self.is_bound and not moment.is_bound
        if self._grammar is not None and (moment.grammar is not None or has_begun):
            self._grammar.close()
            self._grammar, moment.grammar = moment.grammar, None
            self.is_bound = moment.is_bound

    def close(self) -> None:
        self._remembering.clear()
        self._free()

    def _free(self) -> None:
        while self._steps:
            llama.llama_sampler_free(self._steps.pop().sampler)
        if self._grammar is not None:
            self._grammar.close()
            self._grammar = None


def _advance(sampler: Any, draws: int) -> None:
    """Bring a clone's random generator to where it was: llama.cpp copies adaptive-p's running
    mean, but starts its generator anew. Accepting another token than the last one drawn leaves
    the mean as it is."""
    two = Candidates(2)
    for _ in range(draws):
        two.fill(np.zeros(2, np.float32))
        llama.llama_sampler_apply(sampler, two.reference)
    llama.llama_sampler_accept(sampler, -2)


def _snapshot(
    step: _Step, candidates: Candidates, is_whole: bool, before: int, was_sorted: bool
) -> Snapshot:
    """What the stage did, as little of it as says everything: see `Snapshot`."""
    name, native = step.name, candidates.native
    if name in ("greedy", "dist"):
        return step.unchanged
    if isinstance(step.stage, Temperature) and step.stage.t > 0:
        return Snapshot(name, scale=step.stage.t)
    if name in _ONLY_REMOVES and native.size == before and was_sorted == bool(native.sorted):
        return step.unchanged
    if was_sorted and not is_whole and name in _CUTS_SORTED:
        return Snapshot(name, first=int(native.size))
    if is_whole:
        return Snapshot(name, scores=candidates.view["logit"].copy())
    return Snapshot(name, left=candidates.copy())


_ONLY_REMOVES: Final = frozenset(("top-k", "top-p", "min-p", "typical", "xtc"))
_CUTS_SORTED: Final = frozenset(("top-k", "top-p", "min-p"))
"""Of sorted candidates these keep the first ones and do nothing else; of any the best one."""


def _drop_hopeless(candidates: Candidates) -> None:
    logits = candidates.view["logit"]
    wanted = logits > np.max(logits) - _NEGLIGIBLE
    if not wanted.all():
        candidates.keep(wanted)


def _has_finite(candidates: Candidates, name: str) -> bool:
    """Whether a usable candidate is left: the best score must be a finite number.

    Only some stages can make scores infinite; after any other one finite score is proof enough,
    and the first one nearly always is.
    """
    if not candidates.native.size:
        return False
    if name in _CUTS_SORTED:
        return True
    first_is_finite = math.isfinite(candidates.first_score)
    if candidates.native.sorted or (first_is_finite and name not in _MAY_OVERFLOW):
        return first_is_finite
    return math.isfinite(candidates.best_score)
