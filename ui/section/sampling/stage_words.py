"""What each sampling stage is called, what it does in one sentence, and how its values are shown.

Sentences need no more than token, logit (the raw score), softmax and probability to be understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.engine.protocol import stages


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
    hint="How many recent tokens count. −1: the whole context; 0: off",
)

WORDS: Final[dict[type[stages.Stage], StageWords]] = {
    stages.LogitBias: StageWords(
        "Logit bias", "Adds a number to the logits of chosen tokens, or bans them."
    ),
    stages.Penalties: StageWords(
        "Penalties",
        "Lowers the logits of tokens already in the prompt or reply.",
        (
            Value("repeat", "repeat", 0.05, "×", hint="Divides the logits. 1: off"),
            _LAST_N,
            Value("frequency", "frequency", 0.1, hint="Subtracted for each occurrence. 0: off"),
            Value("presence", "presence", 0.1, hint="Subtracted once. 0: off"),
        ),
    ),
    stages.Dry: StageWords(
        "DRY",
        "Lowers the logits of tokens that would extend a repetition; longer repetitions are "
        "penalised more.",
        (
            Value("multiplier", "multiplier", 0.1, "logit", hint="0: off"),
            Value("base", "base", 0.05, "×"),
            Value("allowed_length", "allowed length", 1, "tokens", is_whole=True),
            _LAST_N,
        ),
    ),
    stages.TopNSigma: StageWords(
        "Top-n-sigma",
        "Keeps tokens whose logit is within n standard deviations of the best one.",
        (Value("n", "n", 0.1, "σ", hint="0: off"),),
    ),
    stages.TopK: StageWords(
        "Top-k",
        "Keeps the k most probable tokens.",
        (Value("k", "k", 5, "tokens", is_whole=True, hint="0: all"),),
    ),
    stages.Typical: StageWords(
        "Typical",
        "Keeps the tokens whose surprise is closest to the entropy, up to a total probability "
        "of p.",
        (Value("p", "p", 0.05, hint="1: off"), _keep()),
    ),
    stages.TopP: StageWords(
        "Top-p",
        "Keeps the smallest set of tokens whose probabilities add up to p.",
        (Value("p", "p", 0.01, hint="1: off"), _keep()),
    ),
    stages.MinP: StageWords(
        "Min-p",
        "Keeps tokens at least p times as probable as the best one.",
        (Value("p", "p", 0.01, hint="0: off"), _keep()),
    ),
    stages.Xtc: StageWords(
        "XTC",
        "Sometimes removes all tokens above the threshold but the least probable one.",
        (
            Value("probability", "chance", 0.05, hint="0: never"),
            Value("threshold", "threshold", 0.01, hint="Above 0.5: off"),
            _keep(),
        ),
    ),
    stages.Temperature: StageWords(
        "Temperature",
        "Divides all logits by t before softmax: below 1 favours the best, above 1 the others.",
        (Value("t", "t", 0.05, hint="0: always the best token; 1: off"),),
    ),
    stages.DynamicTemperature: StageWords(
        "Dynamic temperature",
        "A temperature from t − spread to t + spread, higher when the model is less certain.",
        (
            Value("t", "t", 0.05),
            Value("spread", "spread", 0.05),
            Value("exponent", "exponent", 0.1),
        ),
    ),
    stages.Dist: StageWords(
        "By probability", "Draws one of the remaining tokens according to their probabilities."
    ),
    stages.Greedy: StageWords("Greedy", "Always takes the most probable token."),
    stages.Mirostat: StageWords(
        "Mirostat 1",
        "Cuts and draws so that surprise stays near tau.",
        (
            Value("tau", "tau", 0.1, "bits"),
            Value("eta", "step", 0.01),
            Value("m", "looks at", 10, "tokens", is_whole=True),
        ),
    ),
    stages.MirostatV2: StageWords(
        "Mirostat 2",
        "Cuts tokens that are too surprising so that surprise stays near tau.",
        (Value("tau", "tau", 0.1, "bits"), Value("eta", "step", 0.01)),
    ),
    stages.AdaptiveP: StageWords(
        "Adaptive-p",
        "Draws so that the probability of the chosen tokens stays near the target.",
        (
            Value("target", "target", 0.05, hint="Below 0: off"),
            Value("decay", "decay", 0.05),
        ),
    ),
}

BEFORE: Final = {
    "end-token-ban": (
        "End tokens banned",
        ("The reply was too short to end, or end tokens are banned."),
    ),
    "banned-strings": (
        "Banned string",
        "A banned string started here, so another token was drawn.",
    ),
    "grammar": (
        "Grammar",
        "It rejected the first token drawn, so an allowed one was drawn.",
    ),
}
"""Title and sentence of what forbids tokens before the first stage."""

LEVELS: Final = {
    "app": "the app",
    "weights": "this model",
    "chat": "this chat",
    "message": "this reply",
}


def words_of(stage: stages.Stage) -> StageWords:
    return WORDS[type(stage)]
