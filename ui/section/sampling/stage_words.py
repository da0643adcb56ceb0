"""What each sampling stage is called, what it does in one sentence, and how its values are shown.

Sentences need no more than token, logit (the raw score), softmax and probability to be understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a stage. `step`: what one key press, or a few pixels of dragging, change."""

    attribute: str
    label: str
    step: float
    unit: str = ""
    is_whole: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class StageWords:
    """The first of the `values` stands beside the title."""

    title: str
    sentence: str
    values: tuple[Value, ...] = ()


def _keep() -> Value:
    return Value("min_keep", "keep at least", 1, "tokens", is_whole=True)


_LAST_N: Final = Value(
    "last_n",
    "last",
    16,
    "tokens",
    is_whole=True,
    hint="How far back it looks. -1: the whole context; 0: off",
)

WORDS: Final[dict[type[Stage], StageWords]] = {
    LogitBias: StageWords(
        "Logit bias", "Adds a number to the logits of chosen tokens, or bans them."
    ),
    Penalties: StageWords(
        "Penalties",
        "Lowers the logits of tokens that already stand in prompt or reply.",
        (
            Value("repeat", "repeat", 0.05, "×", hint="Divides their logits; 1: off"),
            _LAST_N,
            Value("frequency", "frequency", 0.1, hint="Taken off the logit for each time. 0: off"),
            Value("presence", "presence", 0.1, hint="Taken off the logit once. 0: off"),
        ),
    ),
    Dry: StageWords(
        "DRY",
        "Lowers the logits of tokens that would go on with a repetition: the longer, the more.",
        (
            Value("multiplier", "multiplier", 0.1, "logit", hint="0: off"),
            Value("base", "base", 0.05, "×"),
            Value("allowed_length", "allowed length", 1, "tokens", is_whole=True),
            _LAST_N,
        ),
    ),
    TopNSigma: StageWords(
        "Top-n-sigma",
        "Keeps tokens whose logit is within n standard deviations of the best one.",
        (Value("n", "n", 0.1, "σ", hint="0: off"),),
    ),
    TopK: StageWords(
        "Top-k",
        "Keeps the k most probable tokens.",
        (Value("k", "k", 5, "tokens", is_whole=True, hint="0: all"),),
    ),
    Typical: StageWords(
        "Typical",
        "Keeps the tokens whose surprise is nearest to the entropy, until they reach p together.",
        (Value("p", "p", 0.05, hint="1: off"), _keep()),
    ),
    TopP: StageWords(
        "Top-p",
        "Keeps the fewest tokens whose probabilities reach p together.",
        (Value("p", "p", 0.01, hint="1: off"), _keep()),
    ),
    MinP: StageWords(
        "Min-p",
        "Keeps tokens that are at least p times as probable as the best one.",
        (Value("p", "p", 0.01, hint="0: off"), _keep()),
    ),
    Xtc: StageWords(
        "XTC",
        "By chance removes all tokens above the threshold but the least probable of them.",
        (
            Value("probability", "chance", 0.05, hint="0: never"),
            Value("threshold", "threshold", 0.01, hint="Above 0.5: off"),
            _keep(),
        ),
    ),
    Temperature: StageWords(
        "Temperature",
        "Divides all logits by t before softmax: below 1 the best gain, above 1 the others.",
        (Value("t", "t", 0.05, hint="0: the best token alone; 1: off"),),
    ),
    DynamicTemperature: StageWords(
        "Dynamic temperature",
        "A temperature from t − spread to t + spread: the higher, the less sure the weights are.",
        (
            Value("t", "t", 0.05),
            Value("spread", "spread", 0.05),
            Value("exponent", "exponent", 0.1),
        ),
    ),
    Dist: StageWords(
        "By probability", "Draws one of what is left, each as often as its probability says."
    ),
    Greedy: StageWords("Greedy", "Takes the most probable token. No chance in it."),
    Mirostat: StageWords(
        "Mirostat 1",
        "Cuts and draws so that the surprise of the drawn tokens stays near tau.",
        (
            Value("tau", "tau", 0.1, "bits"),
            Value("eta", "step", 0.01),
            Value("m", "looks at", 10, "tokens", is_whole=True),
        ),
    ),
    MirostatV2: StageWords(
        "Mirostat 2",
        "Cuts what is too surprising and draws, so that the surprise stays near tau.",
        (Value("tau", "tau", 0.1, "bits"), Value("eta", "step", 0.01)),
    ),
    AdaptiveP: StageWords(
        "Adaptive-p",
        "Draws so that the probability of the drawn tokens stays near the target.",
        (
            Value("target", "target", 0.05, hint="Below 0: off"),
            Value("decay", "forgets slowly", 0.05),
        ),
    ),
}

BEFORE: Final = {
    "end-token-ban": ("End tokens banned", "The reply was too short to end, or may never end."),
    "banned-strings": (
        "Banned string",
        "A banned string began here: the token in which it began is not drawn again.",
    ),
    "grammar": (
        "Grammar",
        "It refused the token that was drawn first, so one of those that it allows was drawn.",
    ),
}
"""Title and sentence of what forbids tokens before the first stage."""

LEVELS: Final = {
    "app": "the app",
    "weights": "these weights",
    "chat": "this chat",
    "message": "this reply",
}


def words_of(stage: Stage) -> StageWords:
    return WORDS[type(stage)]
