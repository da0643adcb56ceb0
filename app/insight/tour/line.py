"""The whole pipeline for one token, as one line of parts.

    prompt › token › ID › vector › position › layers › logit › probability › choice › text ↺ loop
    ⤳ cache ⤳ draft

Each part has one figure of this token; what isn't known is a dash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.insight.tour.facts import Facts
from app.insight.tour.token import BY_BEAMS, BY_ENGINE, BY_HAND, MOST_PROBABLE

UNKNOWN: Final = "–"


@dataclass(frozen=True, slots=True)
class Stage:
    """`fact`: its figure, as `figure` says it; `panel` and `room`: where it is seen; `does`: the
    tooltip. `is_rare`: it has no place where there is no such figure."""

    name: str
    fact: str
    panel: str
    room: str
    does: str
    figure: str = "{}"
    arrow: str = "›"
    is_rare: bool = False


STAGES: Final = (
    Stage("Prompt", "n_prompt", "Prompt", "", "The text that the model was given", "{} tokens", ""),
    Stage("Token", "token", "Tokens", "This reply", "A piece of text, as the model knows it"),
    Stage("ID", "id", "Tokens", "Vocabulary", "The token's number in the vocabulary"),
    Stage("Vector", "n_embd", "Inside", "embedding", "The numbers that stand for it", "{} numbers"),
    Stage("Position", "position", "Inside", "position", "Where the token before it stands"),
    Stage("Layers", "n_layer", "Inside", "attention", "What each layer reads and adds"),
    Stage("Logit", "logit", "Inside", "logits", "Its raw score"),
    Stage("Probability", "probability", "Inside", "probabilities", "Its score after softmax"),
    Stage("Choice", "choice", "Sampling", "Chain", "How it was chosen from what sampling left"),
    Stage("Text", "n_bytes", "Time", "", "Its bytes, appended to the reply", "{} bytes"),
    Stage("Loop", "n_reply", "Time", "", "Repeated for each token of the reply", "{} times", "↺"),
    Stage("KV cache", "n_cells", "Cache", "", "What is kept for the next token", "{} cells", "⤳"),
    Stage(
        *("Draft", "draft", "Time", "", "Whether speculative decoding had proposed it"),
        arrow="⤳",
        is_rare=True,
    ),
)


def figure_of(stage: Stage, facts: Facts) -> str:
    fact = facts.get(stage.fact)
    if fact is None:
        return UNKNOWN
    if stage.fact == "choice":
        words = {
            BY_HAND: "by hand",
            BY_BEAMS: "beam",
            BY_ENGINE: "limit",
            MOST_PROBABLE: "greedy",
        }
        return words.get(fact.text, f"drawn {fact.text}")
    return stage.figure.format(fact.text)
