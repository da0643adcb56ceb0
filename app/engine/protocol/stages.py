"""Sampling as the user wrote it: a chain of stages, in the user's order.

Filters stand in any order, each as often as wanted; exactly one selecting stage is last.
Values are checked by `chain.check` before native code sees them; the defaults here are what
llama.cpp's own tools use where a stage is asked for without values.
"""

from __future__ import annotations

import msgspec

from app.engine.protocol.frames import WireMessage


class Stage(WireMessage, frozen=True):
    """One step of the sampling chain."""


class TokenBias(WireMessage, frozen=True, tag=True):
    """A number added to the logit of a token: by its ID, or of every token of `text`.

    The text is tokenised as ordinary text just as it is written, so "cat" does not mean " cat".
    Where a stage before it has removed a token, its bias changes nothing. -inf cannot travel in a
    settings file, so `ban` stands for it.
    """

    token_id: int | None = None
    text: str | None = None
    bias: float = 0.0
    ban: bool = False


class LogitBias(Stage, frozen=True, tag=True):
    """Add numbers to the logits of chosen tokens."""

    biases: list[TokenBias] = msgspec.field(default_factory=list)


class Penalties(Stage, frozen=True, tag=True):
    """llama.cpp's penalties. `last_n` tokens are looked at (-1: the whole context, 0: off)."""

    last_n: int = 64
    repeat: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0


class TopK(Stage, frozen=True, tag=True):
    """Keep the k most probable candidates (0 or -1: all)."""

    k: int = 40


class TopP(Stage, frozen=True, tag=True):
    """Keep the smallest set whose probability reaches p (nucleus sampling; 1: off)."""

    p: float = 0.95
    min_keep: int = 1


class MinP(Stage, frozen=True, tag=True):
    """Keep candidates with at least p times the probability of the best one (0: off)."""

    p: float = 0.05
    min_keep: int = 1


class Temperature(Stage, frozen=True, tag=True):
    """Divide the logits by t; 0 keeps only the best candidate."""

    t: float = 0.8


class Dry(Stage, frozen=True, tag=True):
    """DRY ("don't repeat yourself"): penalise tokens that would continue a repeated sequence.

    penalty = multiplier * base ** (length of the repeat - allowed_length), for repeats at least
    `allowed_length` long within `last_n` tokens (-1: the whole context). `multiplier` 0: off.
    A repeat does not reach across `breakers`.
    """

    multiplier: float = 0.8
    base: float = 1.75
    allowed_length: int = 2
    last_n: int = -1
    breakers: list[str] = msgspec.field(default_factory=lambda: ["\n", ":", '"', "*"])


class TopNSigma(Stage, frozen=True, tag=True):
    """Keep candidates whose logit is within n standard deviations of the best (<= 0: off)."""

    n: float = 1.0


class Typical(Stage, frozen=True, tag=True):
    """Locally typical sampling: keep those whose surprise is nearest to the entropy, until
    their probability reaches p (1: off)."""

    p: float = 0.95
    min_keep: int = 1


class Xtc(Stage, frozen=True, tag=True):
    """Exclude top choices: with `probability`, remove all candidates above `threshold` but the
    least probable of them (threshold above 0.5: off)."""

    probability: float = 0.5
    threshold: float = 0.1
    min_keep: int = 1


class DynamicTemperature(Stage, frozen=True, tag=True):
    """Temperature between t - spread and t + spread, by the entropy of the candidates."""

    t: float = 0.8
    spread: float = 0.5
    exponent: float = 1.0


class Greedy(Stage, frozen=True, tag=True):
    """Select the best candidate. No randomness."""


class Dist(Stage, frozen=True, tag=True):
    """Draw from what is left, with the request's seed."""


class Mirostat(Stage, frozen=True, tag=True):
    """Mirostat 1: keep the surprise of the drawn tokens near `tau` (bits); `eta` is the step,
    `m` how many candidates the estimate looks at. Filters and draws at once."""

    tau: float = 5.0
    eta: float = 0.1
    m: int = 100


class MirostatV2(Stage, frozen=True, tag=True):
    """Mirostat 2: cut what is more surprising than mu, draw, move mu towards `tau`."""

    tau: float = 5.0
    eta: float = 0.1


class AdaptiveP(Stage, frozen=True, tag=True):
    """Draw so that the probability of the drawn tokens stays near `target` over time; `decay`
    is how slowly it forgets. A negative target: off, a plain draw."""

    target: float = 0.55
    decay: float = 0.9


FilterStage = (
    LogitBias
    | Penalties
    | Dry
    | TopNSigma
    | TopK
    | Typical
    | TopP
    | MinP
    | Xtc
    | Temperature
    | DynamicTemperature
)
SelectStage = Greedy | Dist | Mirostat | MirostatV2 | AdaptiveP


class Sampling(WireMessage, frozen=True, tag=True):
    """A chain: filters in order, then exactly one selecting stage; and what binds every draw.

    `seed` None means: the engine draws a fresh one and reports it in the summary.
    Seeds are 0 ... 2**32 - 2 (2**32 - 1 is llama.cpp's "random" and is not accepted).

    `grammar` is GBNF with the rule `root`; `json_schema` is turned into one; at most one of the
    two. A token is drawn first and tested; only a refused one is drawn again under the grammar.
    Where the grammar is complete the reply ends, even if end tokens are banned. `banned_strings`
    never appear in the reply: at a match it is taken back to the token in which the match begins,
    that token is banned there, and another one is drawn. Fewer than `min_tokens` tokens cannot be
    followed by an end token; `ban_end_token` bans it throughout.
    """

    filters: list[FilterStage] = msgspec.field(
        default_factory=lambda: [Penalties(), TopK(), TopP(), MinP(), Temperature()]
    )
    select: SelectStage = msgspec.field(default_factory=Dist)
    seed: int | None = None
    grammar: str = ""
    json_schema: str = ""
    banned_strings: list[str] = msgspec.field(default_factory=list)
    min_tokens: int = 0
    ban_end_token: bool = False
