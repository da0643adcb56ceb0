"""What was chosen about reasoning becomes variables of the chat template, or a flag in its system
prompt.

What each choice means was found out by rendering (`app/engine/templates/thinking.py`). A reply that
goes on says for itself whether it reasons: one that has reasoning is rendered with reasoning on,
whatever was chosen since, and one without it is not put into a block that the template opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from app.engine.prompts.prompt import PromptNote
from app.engine.prompts.tokens import TemplateWords
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, Prompt
from app.engine.protocol.template_variables import as_text, read_variables
from app.engine.protocol.thinking_messages import (
    AUTO,
    OFF,
    ON,
    TemplateInspected,
    ThinkingChoice,
)

Inspect = Callable[..., TemplateInspected]
"""As `TemplateClient.inspect`."""

UNKNOWN: Final = "thinking_unknown"
NEEDS_NO_SYSTEM: Final = (
    "This chat template ignores thinking “{name}” in a chat with a system prompt. Clear the system "
    "prompt to use it."
)


def inspected(
    template: str,
    words: TemplateWords,
    inspect: Inspect,
    tags: Sequence[tuple[str, str]] = (),
    variables: str = "",
) -> TemplateInspected:
    """What this template offers with the special tokens of this vocabulary. What it does unasked is
    what it does with these `variables`. Raises BadSetting."""
    return inspect(
        template,
        bos_token=words.bos_text,
        eos_token=words.eos_text,
        extra={**getattr(words, "other_tokens", {}), **read_variables(variables)},
        tags=tags,
    )


def with_thinking(
    prompt: Prompt, template: str | None, words: TemplateWords, inspect: Inspect
) -> tuple[Prompt, list[PromptNote]]:
    """The prompt with what the template has to be given. `template`: the one that counts."""
    if not isinstance(prompt, ChatPrompt) or template is None or not template.strip():
        return prompt, []
    last = prompt.messages[-1] if prompt.messages and prompt.continue_last else None
    if last is not None and last.role != "assistant":
        last = None
    if not prompt.thinking and not prompt.reasoning_budget and last is None:
        return prompt, []  # nobody has to wait for the template to be looked at
    found = inspected(template, words, inspect, prompt.reasoning_tags, prompt.variables)
    name = prompt.thinking if last is None else _of_continued(prompt.thinking, last, found)
    choice = found.choice(name)
    notes: list[PromptNote] = []
    if name and choice is None and found.choices:
        offered = ", ".join(found.offer.choices)
        sentence = f"This chat template has no thinking mode “{name}”, only {offered}."
        notes.append(PromptNote(UNKNOWN, sentence))
    variables: dict[str, Any] = read_variables(prompt.variables)
    if found.budget and prompt.reasoning_budget and name != OFF:
        variables[found.budget] = prompt.reasoning_budget
    messages = prompt.messages
    if choice is not None:
        if choice.needs_no_system and any(m.role == "system" for m in messages):
            notes.append(PromptNote(UNKNOWN, NEEDS_NO_SYSTEM.format(name=name)))
        variables |= read_variables(choice.variables)
        messages = _flagged(messages, choice)
    given = as_text(variables)
    return msgspec.structs.replace(prompt, messages=messages, variables=given), notes


def _of_continued(name: str, last: ChatMessage, found: TemplateInspected) -> str:
    usual = name or found.offer.auto
    if last.reasoning and usual in (OFF, ""):
        return ON if found.choice(ON) is not None else name if usual else AUTO
    if last.content and not last.reasoning and found.choice(OFF) is not None:
        choice = found.choice(usual)
        is_open = found.usual_opens if choice is None else choice.opens
        return OFF if is_open else name
    return name


def _flagged(messages: list[ChatMessage], choice: ThinkingChoice) -> list[ChatMessage]:
    """With the flag at the end of the system prompt; one of its own where there is none."""
    if not choice.flag:
        return messages
    for at, message in enumerate(messages):
        if message.role == "system":
            content = f"{message.content}\n{choice.flag}"
            flagged = msgspec.structs.replace(message, content=content)
            return [*messages[:at], flagged, *messages[at + 1 :]]
    return [ChatMessage("system", choice.flag), *messages]
