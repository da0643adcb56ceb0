"""What a sampling chain may hold, without llama.cpp: names, bounds, and the sentences of refusals.

The engine checks every request by it, and the window every value while it is typed: both refuse
the same in the same words. What needs the vocabulary's words or llama.cpp's parser (grammars) is
checked by the engine alone. `registry.py` says what a new stage needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.engine.protocol import stages
from app.engine.protocol.bounds import (
    BadSetting,
    Bounds,
    check_list,
    check_number,
    check_switch,
    check_text,
    shown,
)

MAX_SEED: Final = 2**32 - 2
MAX_STAGES: Final = 32
MAX_MIN_TOKENS: Final = 10_000_000
MAX_BIASES: Final = 1024
MAX_BANNED: Final = 64
MAX_BANNED_BYTES: Final = 1000
MAX_BREAKERS: Final = 32
MAX_BREAKER_BYTES: Final = 40
"""llama.cpp cuts a longer one, and if need be through the middle of a character."""

_MAX_BIAS_TEXT: Final = 1000

Check = tuple[str, str, Bounds]
"""Attribute, its name for people, its bounds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A stage's name and what its numbers may be. `more` checks what numbers alone do not say;
    its last argument is the size of the vocabulary, where that is known."""

    name: str
    checks: tuple[Check, ...] = ()
    selects: bool = False
    more: Callable[[Any, str, int | None], None] | None = None


SHARE: Final = Bounds(0.0, 1.0, "between 0 and 1")
KEEP: Final = Bounds(1, 1_000_000, "a whole number from 1 to 1,000,000", whole=True)
_WINDOW: Final = Bounds(
    -1, 1_000_000, "-1 (the whole context), 0 (off) or up to 1,000,000", whole=True
)
_FORCE: Final = Bounds(-100.0, 100.0, "between -100 and 100")
_HEAT: Final = Bounds(0.0, 100.0, "between 0 and 100")
BIAS: Final = Bounds(-1000.0, 1000.0, "between -1000 and 1000 (“ban” forbids a token)")
_SURPRISE: Final = Bounds(0.01, 100.0, "between 0.01 and 100")


def _check_dry(stage: stages.Dry, where: str, _: int | None) -> None:
    check_list(stage.breakers, "DRY's breakers", f"{where}.breakers", most=MAX_BREAKERS)
    for breaker in stage.breakers:
        check_text(breaker, "A breaker of DRY", f"{where}.breakers", most=MAX_BREAKER_BYTES)


def _check_biases(stage: stages.LogitBias, where: str, n_vocab: int | None) -> None:
    check_list(stage.biases, "Logit bias", f"{where}.biases", most=MAX_BIASES)
    for position, entry in enumerate(stage.biases):
        field = f"{where}.biases[{position}]"
        if not isinstance(entry, stages.TokenBias):
            raise BadSetting(field, f"A logit bias must name a token, not be {shown(entry)}.")
        check_number(entry.bias, "Logit bias", f"{field}.bias", BIAS)
        check_switch(entry.ban, "Ban", f"{field}.ban")
        if (entry.token_id is None) == (entry.text is None):
            raise BadSetting(field, "A logit bias must name either a token's ID or a text.")
        if entry.text is not None:
            check_text(entry.text, "The text of a logit bias", f"{field}.text", most=_MAX_BIAS_TEXT)
        else:
            most = 2**31 - 1 if n_vocab is None else n_vocab - 1
            bounds = Bounds(0, most, f"a token's ID, 0 to {most:,}", whole=True)
            check_number(entry.token_id, "The token of a logit bias", f"{field}.token_id", bounds)


RULES: Final[dict[type[stages.Stage], Rule]] = {
    stages.LogitBias: Rule("logit-bias", more=_check_biases),
    stages.Penalties: Rule(
        "penalties",
        (
            ("last_n", "Penalty window", _WINDOW),
            ("repeat", "Repetition penalty", Bounds(0.01, 100.0, "between 0.01 and 100")),
            ("frequency", "Frequency penalty", _FORCE),
            ("presence", "Presence penalty", _FORCE),
        ),
    ),
    stages.Dry: Rule(
        "dry",
        (
            ("multiplier", "DRY's multiplier", Bounds(0.0, 100.0, "0 (off) to 100")),
            ("base", "DRY's base", Bounds(1.0, 100.0, "between 1 and 100")),
            (
                "allowed_length",
                "DRY's allowed length",
                Bounds(0, 1_000_000, "a whole number from 0 to 1,000,000", whole=True),
            ),
            ("last_n", "DRY's window", _WINDOW),
        ),
        more=_check_dry,
    ),
    stages.TopNSigma: Rule(
        "top-n-sigma", (("n", "Top-n-sigma", Bounds(-1.0, 1000.0, "0 (off) to 1000")),)
    ),
    stages.TopK: Rule(
        "top-k",
        (
            (
                "k",
                "Top-k",
                Bounds(-1, 10_000_000, "0 (off) or a whole number up to 10,000,000", whole=True),
            ),
        ),
    ),
    stages.Typical: Rule(
        "typical",
        (("p", "Typical", SHARE), ("min_keep", "Typical's minimum number of tokens", KEEP)),
    ),
    stages.TopP: Rule(
        "top-p",
        (("p", "Top-p", SHARE), ("min_keep", "Top-p's minimum number of tokens", KEEP)),
    ),
    stages.MinP: Rule(
        "min-p",
        (("p", "Min-p", SHARE), ("min_keep", "Min-p's minimum number of tokens", KEEP)),
    ),
    stages.Xtc: Rule(
        "xtc",
        (
            ("probability", "XTC's probability", SHARE),
            ("threshold", "XTC's threshold", SHARE),
            ("min_keep", "XTC's minimum number of tokens", KEEP),
        ),
    ),
    stages.Temperature: Rule("temperature", (("t", "Temperature", _HEAT),)),
    stages.DynamicTemperature: Rule(
        "dynamic-temperature",
        (
            ("t", "Dynamic temperature", _HEAT),
            ("spread", "Dynamic temperature's spread", _HEAT),
            ("exponent", "Dynamic temperature's exponent", Bounds(0.0, 100.0, "between 0 and 100")),
        ),
    ),
    stages.Greedy: Rule("greedy", selects=True),
    stages.Dist: Rule("dist", selects=True),
    stages.Mirostat: Rule(
        "mirostat",
        (
            ("tau", "Mirostat's tau", _SURPRISE),
            ("eta", "Mirostat's eta", SHARE),
            (
                "m",
                "Mirostat's m",
                Bounds(2, 1_000_000, "a whole number from 2 to 1,000,000", whole=True),
            ),
        ),
        selects=True,
    ),
    stages.MirostatV2: Rule(
        "mirostat-v2",
        (("tau", "Mirostat's tau", _SURPRISE), ("eta", "Mirostat's eta", SHARE)),
        selects=True,
    ),
    stages.AdaptiveP: Rule(
        "adaptive-p",
        (
            ("target", "Adaptive-p's target", Bounds(-1.0, 1.0, "below 0 (off) or 0 to 1")),
            ("decay", "Adaptive-p's decay", Bounds(0.0, 0.99, "between 0 and 0.99")),
        ),
        selects=True,
    ),
}


def stage_name(stage: stages.Stage) -> str:
    return RULES[type(stage)].name


_IN_WORDS: Final = {
    "dry": "DRY",
    "xtc": "XTC",
    "logit-bias": "logit bias",
    "dynamic-temperature": "dynamic temperature",
    "mirostat": "Mirostat 1",
    "mirostat-v2": "Mirostat 2",
    "dist": "a draw by probability",
}


_FIELDS: Final = {"last_n": "window", "repeat": "repetition penalty", "m": "number of tokens (m)"}


def in_words(name: str) -> str:
    """A stage's name as a sentence has it, or that of one of its fields.

    >>> in_words("logit-bias"), in_words("top-k"), in_words("penalties.last_n")
    ('logit bias', 'top-k', 'the window of penalties')
    """
    stage, _, field = name.partition(".")
    words = _IN_WORDS.get(stage, stage)
    return f"the {_FIELDS.get(field, field.replace('_', ' '))} of {words}" if field else words


def check_stage(stage: stages.Stage, where: str, n_vocab: int | None = None) -> None:
    """Raise BadSetting for the first value of `stage` that native code must not see. Its field is
    `where`, a dot, and the attribute."""
    rule = RULES.get(type(stage))
    if rule is None:
        raise BadSetting(where, f"Unknown sampling stage “{type(stage).__name__}”.")
    for attribute, label, bounds in rule.checks:
        check_number(getattr(stage, attribute), label, f"{where}.{attribute}", bounds)
    if rule.more is not None:
        rule.more(stage, where, n_vocab)


def check_stages(sampling: stages.Sampling, n_vocab: int | None = None) -> None:
    """Raise BadSetting for the first value of a chain, or of what binds every draw, that cannot be
    used; grammars are not looked at."""
    if len(sampling.filters) > MAX_STAGES:
        raise BadSetting("filters", f"A sampling chain can have at most {MAX_STAGES} stages.")
    for position, stage in enumerate(sampling.filters):
        if type(stage) in RULES and RULES[type(stage)].selects:
            raise BadSetting(
                "filters", f"“{stage_name(stage)}” selects a token, so it must be the last stage."
            )
        check_stage(stage, f"filters[{position}]", n_vocab)
    if type(sampling.select) not in RULES or not RULES[type(sampling.select)].selects:
        names = ", ".join(rule.name for rule in RULES.values() if rule.selects)
        raise BadSetting(
            "select", f"The last stage of a sampling chain must select a token ({names})."
        )
    check_stage(sampling.select, "select", n_vocab)
    check_seed(sampling.seed)
    words = f"a whole number from 0 to {MAX_MIN_TOKENS:,}"
    shortest = Bounds(0, MAX_MIN_TOKENS, words, whole=True)
    check_number(sampling.min_tokens, "The minimum length", "min_tokens", shortest)
    check_switch(sampling.ban_end_token, "Banning end tokens", "ban_end_token")
    _check_banned(sampling.banned_strings)


def _check_banned(strings: object) -> None:
    check_list(strings, "Banned strings", "banned_strings", most=MAX_BANNED)
    assert isinstance(strings, list | tuple)
    for position, text in enumerate(strings):
        check_text(text, "A banned string", f"banned_strings[{position}]", most=MAX_BANNED_BYTES)


def check_seed(seed: object) -> None:
    """Raise BadSetting for a seed that cannot be used; None is drawn fresh."""
    if seed is not None:
        bounds = Bounds(0, MAX_SEED, f"a whole number from 0 to {MAX_SEED}", whole=True)
        check_number(seed, "Seed", "seed", bounds)
