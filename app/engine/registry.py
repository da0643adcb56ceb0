"""Every sampling stage: its name, what its values may be, and its native sampler.

A new stage needs a struct in `stages.py` and a row in `KINDS`. What a row says about its sampler
was read in llama.cpp's llama-sampler.cpp:

* `orders`: it may sort or shorten the array; before the first such stage candidate i is token i.
* `touches`: it changes the scores of some candidates, each by itself. So until the array is sorted
  it is enough to hand it those that it may change: on 262,144 candidates penalties take 5 ms, on
  the few hundred that have been seen 10 µs, with the same result.
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

from app.engine.bounds import (
    BadSetting,
    Bounds,
    check_list,
    check_number,
    check_switch,
    check_text,
    shown,
)
from app.engine.grammar import grammar_text
from app.engine.native import llama
from app.engine.protocol import (
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

if TYPE_CHECKING:
    from app.engine.vocabulary import Vocabulary

MAX_SEED: Final = 2**32 - 2
MAX_BIASES: Final = 1024
MAX_BREAKERS: Final = 32
MAX_BREAKER_BYTES: Final = 40
"""llama.cpp cuts a longer one, and if need be through the middle of a character."""

_MAX_BIAS_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class Context:
    """What a native constructor may need beyond its stage."""

    n_vocab: int
    n_ctx: int
    seed: int
    vocabulary: Vocabulary | None = None


Check = tuple[str, str, Bounds]
"""Attribute, its name for people, its bounds."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the registry. `more` checks what numbers alone do not say."""

    name: str
    checks: tuple[Check, ...]
    build: Callable[[Any, Context], Any]
    orders: bool = True
    touches: Literal["", "seen", "biased"] = ""
    draws: bool = False
    selects: bool = False
    more: Callable[[Any, str, Vocabulary | None], None] | None = None


SHARE: Final = Bounds(0.0, 1.0, "between 0 and 1")
KEEP: Final = Bounds(1, 1_000_000, "a whole number from 1", whole=True)
_WINDOW: Final = Bounds(-1, 1_000_000, "-1 (the whole context), 0 (off) or more", whole=True)
_FORCE: Final = Bounds(-100.0, 100.0, "between -100 and 100")
_HEAT: Final = Bounds(0.0, 100.0, "between 0 and 100")
_BIAS: Final = Bounds(-1000.0, 1000.0, "between -1000 and 1000 (“ban” forbids a token)")
_SURPRISE: Final = Bounds(0.01, 100.0, "between 0.01 and 100")


# --- stages that need more than their numbers -----------------------------------------------------


def _window(last_n: int, context: Context) -> int:
    # Native code takes −1 for "off"; the whole context is what the protocol means by it.
    return context.n_ctx if last_n < 0 else min(last_n, context.n_ctx)


def _penalties(stage: Penalties, context: Context) -> Any:
    return llama.llama_sampler_init_penalties(
        context.n_vocab,
        _window(stage.last_n, context),
        stage.repeat,
        stage.frequency,
        stage.presence,
    )


def _dry(stage: Dry, context: Context) -> Any:
    vocabulary, window = context.vocabulary, _window(stage.last_n, context)
    assert vocabulary is not None
    key = (stage.multiplier, stage.base, stage.allowed_length, window, *stage.breakers)
    return vocabulary.dry_sampler(key, lambda: _new_dry(stage, window, vocabulary))


def _new_dry(stage: Dry, window: int, vocabulary: Vocabulary) -> Any:
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


def _check_dry(stage: Dry, where: str, _: Vocabulary | None) -> None:
    check_list(stage.breakers, "DRY's breakers", f"{where}.breakers", most=MAX_BREAKERS)
    for breaker in stage.breakers:
        check_text(breaker, "A breaker of DRY", f"{where}.breakers", most=MAX_BREAKER_BYTES)


def biases_of(stage: LogitBias, vocabulary: Vocabulary | None) -> dict[int, float]:
    """Token ID → what is added to its score; −inf where it is banned.

    A text stands for every token of its tokenisation as ordinary text, just as it is written:
    "cat" and " cat" are different tokens, and only the one that is given is meant. Several
    biases of one token add up (native code would count them differently before and after
    sorting).
    """
    found: dict[int, float] = {}
    for entry in stage.biases:
        value = -math.inf if entry.ban else float(entry.bias)
        for token_id in _ids_of(entry, vocabulary):
            found[token_id] = found.get(token_id, 0.0) + value
    return found


def _ids_of(entry: TokenBias, vocabulary: Vocabulary | None) -> list[int]:
    if entry.token_id is not None:
        return [entry.token_id]
    assert vocabulary is not None
    return sorted(set(vocabulary.tokenize(entry.text or "")))


def _logit_bias(stage: LogitBias, context: Context) -> Any:
    found = biases_of(stage, context.vocabulary)
    biases = (llama.llama_logit_bias * max(len(found), 1))()
    for place, (token_id, value) in enumerate(found.items()):
        biases[place].token, biases[place].bias = token_id, value
    return llama.llama_sampler_init_logit_bias(context.n_vocab, len(found), biases)


def _check_biases(stage: LogitBias, where: str, vocabulary: Vocabulary | None) -> None:
    check_list(stage.biases, "Logit bias", f"{where}.biases", most=MAX_BIASES)
    for position, entry in enumerate(stage.biases):
        field = f"{where}.biases[{position}]"
        if not isinstance(entry, TokenBias):
            raise BadSetting(field, f"A logit bias must name a token, not be {shown(entry)}.")
        check_number(entry.bias, "Logit bias", f"{field}.bias", _BIAS)
        check_switch(entry.ban, "Ban", f"{field}.ban")
        if (entry.token_id is None) == (entry.text is None):
            raise BadSetting(field, "A logit bias must name either a token's ID or a text.")
        if entry.text is not None:
            check_text(entry.text, "The text of a logit bias", f"{field}.text", most=_MAX_BIAS_TEXT)
        else:
            most = 2**31 - 1 if vocabulary is None else vocabulary.n_vocab - 1
            bounds = Bounds(0, most, f"a token's ID, 0 to {most:,}", whole=True)
            check_number(entry.token_id, "The token of a logit bias", f"{field}.token_id", bounds)


# --- the registry ---------------------------------------------------------------------------------

KINDS: Final[dict[type[Stage], Kind]] = {
    LogitBias: Kind(
        "logit-bias", (), _logit_bias, orders=False, touches="biased", more=_check_biases
    ),
    Penalties: Kind(
        "penalties",
        (
            ("last_n", "Penalty window", _WINDOW),
            ("repeat", "Repetition penalty", Bounds(0.01, 100.0, "between 0.01 and 100")),
            ("frequency", "Frequency penalty", _FORCE),
            ("presence", "Presence penalty", _FORCE),
        ),
        _penalties,
        orders=False,
        touches="seen",
    ),
    Dry: Kind(
        "dry",
        (
            ("multiplier", "DRY's multiplier", Bounds(0.0, 100.0, "0 (off) to 100")),
            ("base", "DRY's base", Bounds(1.0, 100.0, "between 1 and 100")),
            (
                "allowed_length",
                "DRY's allowed length",
                Bounds(0, 1_000_000, "a whole number from 0", whole=True),
            ),
            ("last_n", "DRY's window", _WINDOW),
        ),
        _dry,
        orders=False,
        touches="seen",
        more=_check_dry,
    ),
    TopNSigma: Kind(
        "top-n-sigma",
        (("n", "Top-n-sigma", Bounds(-1.0, 1000.0, "0 (off) to 1000")),),
        lambda stage, _: llama.llama_sampler_init_top_n_sigma(stage.n),
        orders=False,
    ),
    TopK: Kind(
        "top-k",
        (("k", "Top-k", Bounds(-1, 10_000_000, "0 (off) or a whole number above", whole=True)),),
        lambda stage, _: llama.llama_sampler_init_top_k(stage.k),
    ),
    Typical: Kind(
        "typical",
        (("p", "Typical", SHARE), ("min_keep", "Typical's smallest number of tokens", KEEP)),
        lambda stage, _: llama.llama_sampler_init_typical(stage.p, stage.min_keep),
    ),
    TopP: Kind(
        "top-p",
        (("p", "Top-p", SHARE), ("min_keep", "Top-p's smallest number of tokens", KEEP)),
        lambda stage, _: llama.llama_sampler_init_top_p(stage.p, stage.min_keep),
    ),
    MinP: Kind(
        "min-p",
        (("p", "Min-p", SHARE), ("min_keep", "Min-p's smallest number of tokens", KEEP)),
        lambda stage, _: llama.llama_sampler_init_min_p(stage.p, stage.min_keep),
    ),
    Xtc: Kind(
        "xtc",
        (
            ("probability", "XTC's probability", SHARE),
            ("threshold", "XTC's threshold", SHARE),
            ("min_keep", "XTC's smallest number of tokens", KEEP),
        ),
        lambda stage, context: llama.llama_sampler_init_xtc(
            stage.probability, stage.threshold, stage.min_keep, context.seed
        ),
        draws=True,
    ),
    Temperature: Kind(
        "temperature",
        (("t", "Temperature", _HEAT),),
        lambda stage, _: llama.llama_sampler_init_temp(stage.t),
        orders=False,
    ),
    DynamicTemperature: Kind(
        "dynamic-temperature",
        (
            ("t", "Dynamic temperature", _HEAT),
            ("spread", "Dynamic temperature's spread", _HEAT),
            ("exponent", "Dynamic temperature's exponent", Bounds(0.0, 100.0, "between 0 and 100")),
        ),
        lambda stage, _: llama.llama_sampler_init_temp_ext(stage.t, stage.spread, stage.exponent),
    ),
    Greedy: Kind(
        "greedy", (), lambda _, __: llama.llama_sampler_init_greedy(), orders=False, selects=True
    ),
    Dist: Kind(
        "dist",
        (),
        lambda _, context: llama.llama_sampler_init_dist(context.seed),
        orders=False,
        draws=True,
        selects=True,
    ),
    Mirostat: Kind(
        "mirostat",
        (
            ("tau", "Mirostat's tau", _SURPRISE),
            ("eta", "Mirostat's eta", SHARE),
            ("m", "Mirostat's m", Bounds(2, 1_000_000, "a whole number from 2", whole=True)),
        ),
        lambda stage, context: llama.llama_sampler_init_mirostat(
            context.n_vocab, context.seed, stage.tau, stage.eta, stage.m
        ),
        draws=True,
        selects=True,
    ),
    MirostatV2: Kind(
        "mirostat-v2",
        (("tau", "Mirostat's tau", _SURPRISE), ("eta", "Mirostat's eta", SHARE)),
        lambda stage, context: llama.llama_sampler_init_mirostat_v2(
            context.seed, stage.tau, stage.eta
        ),
        draws=True,
        selects=True,
    ),
    AdaptiveP: Kind(
        "adaptive-p",
        (
            ("target", "Adaptive-p's target", Bounds(-1.0, 1.0, "below 0 (off) or 0 to 1")),
            ("decay", "Adaptive-p's decay", Bounds(0.0, 0.99, "between 0 and 0.99")),
        ),
        lambda stage, context: llama.llama_sampler_init_adaptive_p(
            stage.target, stage.decay, context.seed
        ),
        orders=False,
        draws=True,
        selects=True,
    ),
}


def stage_name(stage: Stage) -> str:
    return KINDS[type(stage)].name


def check_stage(stage: Stage, where: str, vocabulary: Vocabulary | None = None) -> None:
    """Raise BadSetting for the first value of `stage` that native code must not see."""
    kind = KINDS.get(type(stage))
    if kind is None:
        raise BadSetting(where, f"There is no sampling stage “{type(stage).__name__}”.")
    for attribute, label, bounds in kind.checks:
        check_number(getattr(stage, attribute), label, f"{where}.{attribute}", bounds)
    if kind.more is not None:
        kind.more(stage, where, vocabulary)


def prepare(sampling: Sampling, vocabulary: Vocabulary, n_ctx: int) -> None:
    """Make what takes long to make, DRY's breakers, on a thread on which nobody waits for the next
    token; and read a large grammar's shape there, which is remembered.

    Values are not judged here: what cannot be used is left alone.
    """
    for position, stage in enumerate(sampling.filters):
        with suppress(BadSetting):
            check_stage(stage, f"filters[{position}]", vocabulary)
            if isinstance(stage, Dry):
                context = Context(vocabulary.n_vocab, n_ctx, 0, vocabulary)
                llama.llama_sampler_free(_dry(stage, context))
    with suppress(BadSetting):
        grammar_text(sampling.grammar, sampling.json_schema)
