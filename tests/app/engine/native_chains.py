"""llama.cpp's own chains, built by hand from a Sampling, and scores of many steps at once.

Nothing of `app.engine.process.sampling.chain` is used here: what the two have in common is
llama.cpp.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from examples import examples

from app.engine.process.native.arrays import CANDIDATE
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
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
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)

TEXT = (
    "Once upon a time, in a small village by the sea, there lived a girl who was not afraid of "
    "storms. Every morning she went down to the harbour, and every morning the old man who mended "
    "the nets asked her the same question. The girl laughed, and the old man laughed, and the sea "
    "went on as it always had, grey and green and grey again."
)
N_STEPS = 50
LARGE = 100_000
"""Tokens: sorting all of so many takes 25 ms."""


def native_chain(sampling: Sampling, weights: Weights, prompt: Sequence[int]) -> Any:
    """The chain as llama.cpp has it, with the prompt accepted. Free it."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for stage in [*sampling.filters, sampling.select]:
        llama.llama_sampler_chain_add(chain, _sampler(stage, sampling.seed or 0, weights))
    for token_id in prompt:
        llama.llama_sampler_accept(chain, token_id)
    return chain


def _sampler(stage: Stage, seed: int, weights: Weights) -> Any:
    n_vocab, n_ctx = weights.vocabulary.n_vocab, weights.n_ctx
    vocabulary = llama.llama_model_get_vocab(weights.model)
    match stage:
        case LogitBias():
            biases = (llama.llama_logit_bias * len(stage.biases))()
            for place, bias in enumerate(stage.biases):
                assert bias.token_id is not None
                biases[place].token = bias.token_id
                biases[place].bias = -math.inf if bias.ban else bias.bias
            return llama.llama_sampler_init_logit_bias(n_vocab, len(biases), biases)
        case Penalties():
            last_n = n_ctx if stage.last_n < 0 else stage.last_n
            return llama.llama_sampler_init_penalties(
                n_vocab, last_n, stage.repeat, stage.frequency, stage.presence
            )
        case Dry():
            breakers = [breaker.encode() for breaker in stage.breakers]
            array = (ctypes.c_char_p * len(breakers))(*breakers)
            last_n = n_ctx if stage.last_n < 0 else stage.last_n
            return llama.llama_sampler_init_dry(
                vocabulary,
                stage.multiplier,
                stage.base,
                stage.allowed_length,
                last_n,
                array,
                len(breakers),
            )
        case TopNSigma():
            return llama.llama_sampler_init_top_n_sigma(stage.n)
        case TopK():
            return llama.llama_sampler_init_top_k(stage.k)
        case Typical():
            return llama.llama_sampler_init_typical(stage.p, stage.min_keep)
        case TopP():
            return llama.llama_sampler_init_top_p(stage.p, stage.min_keep)
        case MinP():
            return llama.llama_sampler_init_min_p(stage.p, stage.min_keep)
        case Xtc():
            return llama.llama_sampler_init_xtc(
                stage.probability, stage.threshold, stage.min_keep, seed
            )
        case Temperature():
            return llama.llama_sampler_init_temp(stage.t)
        case DynamicTemperature():
            return llama.llama_sampler_init_temp_ext(stage.t, stage.spread, stage.exponent)
        case Greedy():
            return llama.llama_sampler_init_greedy()
        case Dist():
            return llama.llama_sampler_init_dist(seed)
        case Mirostat():
            return llama.llama_sampler_init_mirostat(n_vocab, seed, stage.tau, stage.eta, stage.m)
        case MirostatV2():
            return llama.llama_sampler_init_mirostat_v2(seed, stage.tau, stage.eta)
        case AdaptiveP():
            return llama.llama_sampler_init_adaptive_p(stage.target, stage.decay, seed)
    raise AssertionError(stage)


class Array:
    """A llama_token_data_array over the whole vocabulary, made anew for each use."""

    def __init__(self, scores: np.ndarray) -> None:
        self.data = np.empty(len(scores), CANDIDATE)
        self.data["id"] = np.arange(len(scores))
        self.data["logit"] = scores
        self.data["p"] = 0
        pointer = self.data.ctypes.data_as(llama.llama_token_data_p)
        self.native = llama.llama_token_data_array(
            data=pointer, size=len(scores), selected=-1, sorted=False
        )

    def apply(self, sampler: Any) -> None:
        llama.llama_sampler_apply(sampler, ctypes.byref(self.native))

    @property
    def left(self) -> np.ndarray:
        """What is left, in llama.cpp's order, without those of −∞. A sampler may have moved the
        beginning."""
        address = ctypes.cast(self.native.data, ctypes.c_void_p).value or 0
        start = (address - self.data.ctypes.data) // CANDIDATE.itemsize
        view = self.data[start : start + self.native.size]
        return view[view["logit"] > -np.inf]

    @property
    def selected(self) -> int:
        assert self.native.selected >= 0
        return int(self.native.data[self.native.selected].id)


class Steps:
    """One decode of a text whose last tokens all gave scores, in a context of its own: `N_STEPS`,
    and with a large vocabulary, where each draw takes milliseconds, so many only in make soak.

    They lie in the context until its next decode, so any number of chains can draw from them: at
    each step all see the same scores.
    """

    def __init__(self, weights: Weights) -> None:
        n_vocab = weights.vocabulary.n_vocab
        count = N_STEPS if n_vocab < LARGE else examples(N_STEPS)
        self.weights = weights
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 512, 64, 64
        params.n_threads = params.n_threads_batch = 1
        self.context = llama.llama_init_from_model(weights.model, params)
        ids = weights.vocabulary.tokenize(TEXT, add_bos=weights.vocabulary.add_bos)
        self.prompt, rest = ids[:-count], ids[-count:]
        assert len(self.prompt) > 3
        batch = Batch(weights.n_ubatch, 1)
        for start in range(0, len(self.prompt), weights.n_ubatch):
            batch.clear()
            batch.add(self.prompt[start : start + weights.n_ubatch], start, 0, want_scores=False)
            assert llama.llama_decode(self.context, batch.native) == 0
        batch.clear()
        for place, token_id in enumerate(rest):
            batch.add([token_id], len(self.prompt) + place, 0, want_scores=True)
        assert llama.llama_decode(self.context, batch.native) == 0
        self.rows = [scores_of(self.context, row, n_vocab) for row in range(count)]

    def close(self) -> None:
        llama.llama_free(self.context)


def random_sampling(source: random.Random, n_vocab: int, prompt: Sequence[int]) -> Sampling:
    """A chain as somebody might write it: two to seven filters in any order.

    Left out is what llama.cpp's own chain gets wrong (see chain.py): a logit bias behind a stage
    that sorts, and typical sampling behind one that leaves candidates of no probability.
    """
    filters: list[Any] = source.sample(_filters(source, prompt), source.randint(2, 7))
    if any(isinstance(stage, LogitBias) for stage in filters):
        filters.sort(key=lambda stage: not isinstance(stage, LogitBias))
    if any(isinstance(stage, Typical) for stage in filters):
        filters.sort(key=lambda stage: not isinstance(stage, Typical))
        filters = [s for s in filters if not isinstance(s, LogitBias)]
    if n_vocab > LARGE and source.random() < 0.75:
        filters.insert(1 if isinstance(filters[0], LogitBias) else 0, TopK(3000))
    select = source.choice(
        [
            Greedy(),
            Dist(),
            Dist(),
            Mirostat(source.uniform(2, 6), source.uniform(0.05, 0.3), source.randint(20, 200)),
            MirostatV2(source.uniform(2, 6), source.uniform(0.05, 0.3)),
            AdaptiveP(source.uniform(0.1, 0.9), source.uniform(0.3, 0.95)),
        ]
    )
    return Sampling(filters, select, seed=source.randint(0, 2**32 - 2))


def _filters(source: random.Random, prompt: Sequence[int]) -> list[Any]:
    uniform, keep = source.uniform, source.choice([1, 1, 2, 5])
    some = source.sample(sorted(set(prompt)), min(8, len(set(prompt))))
    biases = [TokenBias(t, bias=uniform(-8, 8), ban=source.random() < 0.3) for t in some]
    return [
        LogitBias(biases),
        Penalties(source.choice([-1, 16, 64]), uniform(0.9, 1.6), uniform(0, 1), uniform(0, 1)),
        Dry(uniform(0.3, 3), uniform(1.1, 2.5), source.randint(1, 3), source.choice([-1, 64])),
        TopNSigma(uniform(0.5, 3)),
        TopK(source.choice([1, 5, 40, 200, 1000])),
        Typical(uniform(0.2, 0.99), keep),
        TopP(uniform(0.2, 0.99), keep),
        MinP(uniform(0.01, 0.3), keep),
        Xtc(uniform(0.3, 1), uniform(0.02, 0.3), keep),
        Temperature(uniform(0.5, 1.8)),
        DynamicTemperature(uniform(0.5, 1.5), uniform(0.1, 0.5), uniform(0.5, 2)),
    ]
