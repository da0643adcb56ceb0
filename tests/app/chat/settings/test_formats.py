"""Chat formats, rendered as the engine does, against what each family was made with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.chat.replies.prompts import chat_prompt
from app.chat.settings.formats import FILE, FORMATS, NAMES, OWN, PLAIN, template_of
from app.chat.settings.settings import Settings, changed
from app.refusal import Refusal
from models.records import Conversation, Message, Role

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
]
EXPECTED = {
    "chatml": (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n"
    ),
    "llama3": (
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "llama2": ("[INST] <<SYS>>\nBe brief.\n\n<</SYS>>\n\nHi [/INST] Hello. </s>[INST] Bye [/INST]"),
    "gemma": (
        "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n"
        "<start_of_turn>model\nHello.<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"
    ),
    "mistral": "[INST] Be brief.\n\nHi [/INST] Hello.</s>[INST] Bye [/INST]",
    "alpaca": (
        "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello.\n\n"
        "### Instruction:\nBye\n\n### Response:\n"
    ),
    "vicuna": "Be brief.\n\nUSER: Hi\nASSISTANT: Hello.\nUSER: Bye\nASSISTANT:",
}


def rendered(name: str, messages: list[dict[str, str]], **options: Any) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(template_of(name) or "")
    return template.render(messages=messages, **({"add_generation_prompt": True} | options))


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_format_is_what_its_family_was_made_with(name: str) -> None:
    assert rendered(name, TALK) == EXPECTED[name]


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_talk_without_a_system_prompt_renders_too(name: str) -> None:
    text = rendered(name, TALK[1:])
    assert "Be brief" not in text
    assert text.index("Hi") < text.index("Hello.") < text.index("Bye")


def test_every_format_is_proven_and_the_others_have_no_template() -> None:
    assert {each.name for each in FORMATS} == {*EXPECTED, PLAIN, OWN}
    assert template_of(PLAIN) is template_of(FILE) is None
    assert FILE in NAMES


def test_the_chosen_format_enters_the_prompt_and_no_other_word_is_taken() -> None:
    now = datetime(2026, 11, 28, tzinfo=UTC)
    chat = Conversation("c", "A chat", now, now)
    said = [Message("m", "c", None, Role.USER, "Hi", now)]
    assert chat_prompt(chat, said, Settings(), "").template is None
    chosen = changed(Settings(), "chat_format", "gemma")
    assert chat_prompt(chat, said, chosen, "").template == template_of("gemma")
    with pytest.raises(Refusal):
        changed(Settings(), "chat_format", "mine")


def test_a_template_of_ones_own_counts_while_it_is_chosen_and_says_something() -> None:
    mine = changed(Settings(), "chat_template", "{{ 1 }}")
    assert mine.template is None
    assert changed(mine, "chat_format", OWN).template == "{{ 1 }}"
    assert changed(mine, "chat_format", "gemma").template == template_of("gemma")
    assert changed(Settings(), "chat_format", OWN).template is None
