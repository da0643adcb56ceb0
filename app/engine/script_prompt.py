"""Prompts of the scripted engine: the made-up vocabulary has a plain chat format of its own."""

from __future__ import annotations

from app.engine.prompt import BuiltPrompt
from app.engine.prompt_tokens import PromptPart
from app.engine.protocol import IdsPrompt, Prompt, TextPrompt
from app.engine.script import ScriptVocabulary

END_ID = 0


def build_scripted(prompt: Prompt, vocabulary: ScriptVocabulary) -> BuiltPrompt:
    """`<|role|>text<|end|>` for each message, and the opening of the reply."""
    if isinstance(prompt, IdsPrompt):
        text = b"".join(vocabulary.pieces[i] for i in prompt.token_ids).decode("utf-8", "replace")
        return BuiltPrompt(prompt.token_ids, text, [])
    if isinstance(prompt, TextPrompt):
        return BuiltPrompt(vocabulary.tokenize(prompt.text), prompt.text, [])
    ids: list[int] = []
    text = ""
    parts: list[PromptPart] = []

    def add(more: list[int], origin: str, message_id: str | None = None) -> None:
        if more:
            parts.append(PromptPart(len(ids), len(ids) + len(more), origin, message_id))
            ids.extend(more)

    for message in prompt.messages:
        add([vocabulary.id_of(f"<|{message.role}|>".encode())], "scaffold")
        content = message.token_ids or vocabulary.tokenize(message.content)
        add(content, message.role, message.message_id)
        add([END_ID], "scaffold")
        text += f"<|{message.role}|>{message.content}<|end|>"
    if prompt.continue_last:
        return BuiltPrompt(ids[:-1], text.removesuffix("<|end|>"), parts[:-1])
    add([vocabulary.id_of(b"<|assistant|>")], "scaffold")
    return BuiltPrompt(ids, text + "<|assistant|>", parts)
