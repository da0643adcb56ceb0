"""Chat formats for weights whose file carries no template, by the names they are known by.

Each is the layout that a family of weights was trained on, as a Jinja template; the engine
renders it like a file's own. Where a family knows no system prompt, it stands before the first
message of the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FILE: Final = ""
"""The file's own template, or the plain format where it has none."""
PLAIN: Final = "plain"
"""Names and blank lines, chosen on purpose."""
OWN: Final = "own"
"""The template that is written in the settings (`chat_template`)."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    title: str
    words: str
    template: str | None


_CHATML: Final = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LLAMA_3: Final = (
    "{% for message in messages %}"
    "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n{{ message.content }}<|eot_id|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_FIRST_SYSTEM: Final = (
    "{% set ns = namespace(system='') %}"
    "{% for message in messages if message.role == 'system' %}"
    "{% set ns.system = ns.system + message.content + '\\n\\n' %}"
    "{% endfor %}"
)
_GEMMA: Final = (
    _FIRST_SYSTEM + "{% for message in messages if message.role != 'system' %}"
    "{% set role = 'model' if message.role == 'assistant' else 'user' %}"
    "<start_of_turn>{{ role }}\n"
    "{% if loop.first %}{{ ns.system }}{% endif %}{{ message.content }}<end_of_turn>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_MISTRAL: Final = (
    _FIRST_SYSTEM + "{% for message in messages if message.role != 'system' %}"
    "{% if message.role == 'assistant' %} {{ message.content }}</s>"
    "{% else %}[INST] {% if loop.first %}{{ ns.system }}{% endif %}"
    "{{ message.content }} [/INST]{% endif %}"
    "{% endfor %}"
)
_LLAMA_2: Final = (
    _FIRST_SYSTEM + "{% for message in messages if message.role != 'system' %}"
    "{% if message.role == 'assistant' %} {{ message.content }} </s>"
    "{% else %}[INST] "
    "{% if loop.first and ns.system %}<<SYS>>\n{{ ns.system }}<</SYS>>\n\n{% endif %}"
    "{{ message.content }} [/INST]{% endif %}"
    "{% endfor %}"
)
_ALPACA: Final = (
    _FIRST_SYSTEM + "{{ ns.system }}"
    "{% for message in messages if message.role != 'system' %}"
    "### {{ 'Response' if message.role == 'assistant' else 'Instruction' }}:\n"
    "{{ message.content }}\n\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}### Response:\n{% endif %}"
)
_VICUNA: Final = (
    _FIRST_SYSTEM + "{{ ns.system }}"
    "{% for message in messages if message.role != 'system' %}"
    "{{ 'ASSISTANT' if message.role == 'assistant' else 'USER' }}: {{ message.content }}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)

FORMATS: Final = (
    Format("chatml", "ChatML", "Qwen, SmolLM, Hermes, many others", _CHATML),
    Format("llama3", "Llama 3", "Llama 3 and derivatives", _LLAMA_3),
    Format("llama2", "Llama 2", "Llama 2 and derivatives", _LLAMA_2),
    Format("gemma", "Gemma", "Gemma 2 and 3", _GEMMA),
    Format("mistral", "Mistral", "Mistral and Mixtral, Instruct", _MISTRAL),
    Format("alpaca", "Alpaca", "Instruction and Response headings", _ALPACA),
    Format("vicuna", "Vicuna", "USER and ASSISTANT", _VICUNA),
    Format(PLAIN, "Plain", "Names and blank lines, for base models", None),
    Format(OWN, "My own", "Your template for this model", None),
)
NAMES: Final = (FILE, *(each.name for each in FORMATS))


def template_of(name: str) -> str | None:
    """The Jinja source; None for the file's own and for the plain format."""
    return next((each.template for each in FORMATS if each.name == name), None)
