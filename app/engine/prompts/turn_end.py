"""What a chat template writes after a reply, where that is no token of its own.

Weights end a reply with a token. But some files (made by odd converters) spell the marker that
their template closes a turn with in several ordinary tokens: `<`, `|`, `im`, `_end`, `|>`. It
would then stand at the end of each answer, and the weights would go on and answer themselves. So
such a marker ends a reply, as the template means it: at a line's end or at the reply's. In the
middle of a line it is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from app.engine.prompts.tokens import PromptVocabulary
from app.engine.protocol.template_messages import TemplateFailed

_MARK = "\ue000reply\ue001"
_MARKER = re.compile(r"\s*([<\[{|(]\S{2,62})(\n?)")


def turn_end(template: str | None, vocabulary: PromptVocabulary, render: Callable[..., str]) -> str:
    """The marker as it stands after a reply, with the line break after it, if it has one; or "":
    there is none, or it is a single token, which llama.cpp knows."""
    if template is None or not template.strip():
        return ""
    try:
        rendered = render(
            template,
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": _MARK}],
            bos_token=vocabulary.bos_text,
            eos_token=vocabulary.eos_text,
            add_generation_prompt=False,
        )
    except TemplateFailed:
        return ""  # it will say so itself
    return marker_in(rendered.rpartition(_MARK)[2] if _MARK in rendered else "", vocabulary)


def marker_in(after_reply: str, vocabulary: PromptVocabulary) -> str:
    """The marker that a text begins with, if it is several tokens."""
    found = _MARKER.match(after_reply)
    if found is None:
        return ""
    marker = found[1]
    if len(vocabulary.tokenize(marker, special=True)) == 1:
        return ""
    # "</s><s>[INST]": the first token is a control token and the rest another turn's.
    if any(marker.startswith(control) for control in vocabulary.control_texts if control):
        return ""
    return marker + found[2]
