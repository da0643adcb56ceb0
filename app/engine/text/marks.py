"""What stands around reasoning in a reply that somebody else goes on with: tags, or channels.

tags        <think>\n … \n</think>\n\n answer
channels    ⟨channel⟩analysis⟨message⟩ … ⟨end⟩⟨start⟩assistant⟨channel⟩final⟨message⟩ answer
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.engine.text.channels import ANALYSIS, TO_ANSWER
from app.engine.text.reasoning import closing_of, opened_reasoning, tags_in_prompt, used_tags


@dataclass(frozen=True, slots=True)
class Marks:
    """`answer`: what stands before an answer without reasoning. `is_open`: the prompt ends inside
    reasoning already."""

    opening: str
    closing: str
    answer: str = ""
    is_open: bool = False


CHANNELS = Marks(f"<|channel|>{ANALYSIS}<|message|>", TO_ANSWER, "<|channel|>final<|message|>")


def is_in_channels(rendered: str) -> bool:
    """Whether a prompt is written in channels."""
    return "<|message|>" in rendered and "<|start|>" in rendered


def reasoning_marks(template: str, rendered: str, given: Iterable[tuple[str, str]] = ()) -> Marks:
    """The marks of a reply to this prompt: those given, else the template's, else the usual ones.

    >>> reasoning_marks("", "<|im_start|>assistant\\n<think>\\n").is_open
    True
    """
    if is_in_channels(rendered) and "<|channel|>" in template:
        return CHANNELS
    given = list(given)
    opened = opened_reasoning(rendered, used_tags(given, rendered, template))
    tags = tags_in_prompt(template, given) if opened is None else opened[0]
    start = tags.start if tags.answer else f"{tags.start}\n"
    return Marks(start, closing_of(tags), is_open=opened is not None)
