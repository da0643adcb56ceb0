"""What a chat template writes before a reply, where it does not write it into the prompt.

A template that is asked for a generation prompt ends with what begins a reply:
`<|im_start|>assistant`. Some know no generation prompt, or pass over the question. Their weights
would have to write that themselves, and the role's name would stand in the reply. So it is read
off a reply that the template renders:

    asked, and not asked     <user>Hi</user>                      the same: it passes over it
    with a reply ⟨m⟩         <user>Hi</user><bot>⟨m⟩</bot>
    what is missing                         <bot>

Where nothing but space stands there (`[/INST] reply`), nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.engine.prompts.tokens import TemplateWords
from app.engine.protocol.template_messages import TemplateFailed
from app.engine.text.reasoning import KNOWN

_MARK: Final = "\ue000reply\ue001"
_USER: Final = {"role": "user", "content": "Hi"}
_REPLY: Final = {"role": "assistant", "content": _MARK}


def missing_opening(template: str, words: TemplateWords, render: Callable[..., str]) -> str:
    """What has to be added to a prompt, so that a reply follows; "" where nothing is missing."""

    def run(messages: list[dict[str, Any]], *, asked: bool) -> str:
        return render(
            template,
            messages,
            bos_token=words.bos_text,
            eos_token=words.eos_text,
            add_generation_prompt=asked,
        )

    try:
        question = run([_USER], asked=False)
        if run([_USER], asked=True) != question:
            return ""
        before, mark, _ = run([_USER, _REPLY], asked=False).partition(_MARK)
    except TemplateFailed as failed:
        if failed.fault not in ("raised", "failed"):
            raise
        return ""  # on the messages of the conversation it may do better, or it says so then
    if not mark or not before.startswith(question):
        return ""
    opening = before[len(question) :]
    for tags in KNOWN:  # what a reply of the past has around its reasoning begins no new one
        opening = opening.partition(tags.opening)[0]
    # A space at the end would be cut off from the word that the weights begin with.
    return opening.rstrip(" ") if opening.strip() else ""
