"""Every sampling stage and its native sampler.

A new stage is a struct in `stages.py` (and a name in its `FilterStage` or `SelectStage`), a row in
`stage_rules.py` (its name, what its values may be), one in `KINDS`, and its words in
`ui/section/sampling/stage_words.py`. Panels that redo stages (`app/insight/sampling/filters.py`)
say that they cannot tell until they have its formula. What a row says about its sampler was read in
llama.cpp's llama-sampler.cpp:

* `orders`: it may sort or shorten the array; before the first such stage candidate i is token i.
* `touches`: it changes the scores of some candidates, each by itself. So until the array is sorted
  it is enough to hand it those that it may change: on 262,144 candidates penalties take 5 ms, on
  the few hundred that have been seen 10 µs, with the same result (a whole token of Gemma 3 270M:
  0.5 ms instead of 1.65).
* `draws`: it has a random generator or another state that applying it changes. All other state
  changes only when a token is accepted.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from app.engine.process.native.native import llama
from app.engine.process.sampling.grammar import grammar_text
from app.engine.prompts.tokens import inside_ids
from app.engine.protocol import stages
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import RULES, check_stage

if TYPE_CHECKING:
    from app.engine.process.native.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Context:
    """What a native constructor may need beyond its stage."""

    n_vocab: int
    n_ctx: int
    seed: int
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True, slots=True)
class StageKind:
    """A row of the registry."""

    name: str
    build: Callable[[Any, Context], Any]
    orders: bool = True
    touches: Literal["", "seen", "biased"] = ""
    draws: bool = False


# --- stages that need more than their numbers -----------------------------------------------------


def _window(last_n: int, context: Context) -> int:
    # Native code takes −1 for "off"; the whole context is what the protocol means by it.
    return context.n_ctx if last_n < 0 else min(last_n, context.n_ctx)


def _penalties(stage: stages.Penalties, context: Context) -> Any:
    return llama.llama_sampler_init_penalties(
        context.n_vocab,
        _window(stage.last_n, context),
        stage.repeat,
        stage.frequency,
        stage.presence,
    )


def _dry(stage: stages.Dry, context: Context) -> Any:
    vocabulary, window = context.vocabulary, _window(stage.last_n, context)
    assert vocabulary is not None
    key = (stage.multiplier, stage.base, stage.allowed_length, window, *stage.breakers)
    return vocabulary.dry_sampler(key, lambda: _new_dry(stage, window, vocabulary))


def _new_dry(stage: stages.Dry, window: int, vocabulary: Vocabulary) -> Any:
    data = [breaker.encode() for breaker in stage.breakers]
    breakers = (ctypes.c_char_p * len(data))(*data)
    return llama.llama_sampler_init_dry(
        vocabulary.handle,
        stage.multiplier,
        stage.base,
        stage.allowed_length,
        window,
        breakers,
        len(data),
    )


def biases_of(stage: stages.LogitBias, vocabulary: Vocabulary | None) -> dict[int, float]:
    """Token ID → what is added to its score; −inf where it is banned.

    A text stands for every token of its tokenisation as ordinary text behind another one, just as
    it is written: "cat" and " cat" are different tokens, and only the one that is given is meant,
    also where a vocabulary would put a space before a text. Several
    biases of one token add up (native code would count them differently before and after
    sorting).
    """
    found: dict[int, float] = {}
    for entry in stage.biases:
        value = -math.inf if entry.ban else float(entry.bias)
        for token_id in _ids_of(entry, vocabulary):
            found[token_id] = found.get(token_id, 0.0) + value
    return found


def _ids_of(entry: stages.TokenBias, vocabulary: Vocabulary | None) -> list[int]:
    if entry.token_id is not None:
        return [entry.token_id]
    assert vocabulary is not None
    return sorted(set(inside_ids(entry.text or "", vocabulary)))


def _logit_bias(stage: stages.LogitBias, context: Context) -> Any:
    found = biases_of(stage, context.vocabulary)
    biases = (llama.llama_logit_bias * max(len(found), 1))()
    for place, (token_id, value) in enumerate(found.items()):
        biases[place].token, biases[place].bias = token_id, value
    return llama.llama_sampler_init_logit_bias(context.n_vocab, len(found), biases)


# --- the registry ---------------------------------------------------------------------------------


def _rows() -> dict[type[stages.Stage], StageKind]:
    def row(stage: type[stages.Stage], build: Callable[[Any, Context], Any], **says: Any) -> None:
        rule = RULES[stage]
        rows[stage] = StageKind(rule.name, build, **says)

    rows: dict[type[stages.Stage], StageKind] = {}
    row(stages.LogitBias, _logit_bias, orders=False, touches="biased")
    row(stages.Penalties, _penalties, orders=False, touches="seen")
    row(stages.Dry, _dry, orders=False, touches="seen")
    row(stages.TopNSigma, lambda s, _: llama.llama_sampler_init_top_n_sigma(s.n), orders=False)
    row(stages.TopK, lambda s, _: llama.llama_sampler_init_top_k(s.k))
    row(stages.Typical, lambda s, _: llama.llama_sampler_init_typical(s.p, s.min_keep))
    row(stages.TopP, lambda s, _: llama.llama_sampler_init_top_p(s.p, s.min_keep))
    row(stages.MinP, lambda s, _: llama.llama_sampler_init_min_p(s.p, s.min_keep))
    row(
        stages.Xtc,
        lambda s, c: llama.llama_sampler_init_xtc(s.probability, s.threshold, s.min_keep, c.seed),
        draws=True,
    )
    row(stages.Temperature, lambda s, _: llama.llama_sampler_init_temp(s.t), orders=False)
    row(
        stages.DynamicTemperature,
        lambda s, _: llama.llama_sampler_init_temp_ext(s.t, s.spread, s.exponent),
    )
    row(stages.Greedy, lambda _, __: llama.llama_sampler_init_greedy(), orders=False)
    row(stages.Dist, lambda _, c: llama.llama_sampler_init_dist(c.seed), orders=False, draws=True)
    row(
        stages.Mirostat,
        lambda s, c: llama.llama_sampler_init_mirostat(c.n_vocab, c.seed, s.tau, s.eta, s.m),
        draws=True,
    )
    row(
        stages.MirostatV2,
        lambda s, c: llama.llama_sampler_init_mirostat_v2(c.seed, s.tau, s.eta),
        draws=True,
    )
    row(
        stages.AdaptiveP,
        lambda s, c: llama.llama_sampler_init_adaptive_p(s.target, s.decay, c.seed),
        orders=False,
        draws=True,
    )
    return rows


KINDS: Final = _rows()


def prepare(sampling: stages.Sampling, vocabulary: Vocabulary, n_ctx: int) -> None:
    """Make what takes long to make, DRY's breakers, on a thread on which nobody waits for the next
    token; and read a large grammar's shape there, which is remembered.

    Values are not judged here: what cannot be used is left alone.
    """
    for position, stage in enumerate(sampling.filters):
        with suppress(BadSetting):
            check_stage(stage, f"filters[{position}]", vocabulary.n_vocab)
            if isinstance(stage, stages.Dry):
                context = Context(vocabulary.n_vocab, n_ctx, 0, vocabulary)
                llama.llama_sampler_free(_dry(stage, context))
    with suppress(BadSetting):
        grammar_text(sampling.grammar, sampling.json_schema)
