"""Chat templates by family, in our words: short, with what each really does about reasoning.

`Family.choices`: what a person can choose, and the variables (or the flag in the system prompt)
that the family's own documentation asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    name: str
    template: str
    auto: str = ""
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    has_reasoning: bool = True
    budget: str = ""


ENABLE = {"off": {"enable_thinking": False}, "on": {"enable_thinking": True}}

CHATML = (
    "{%- for m in messages %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)

QWEN3 = (
    "{%- for m in messages %}"
    "{%- if m.role == 'assistant' and m.reasoning_content %}"
    "{{ '<|im_start|>assistant\\n<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' "
    "+ m.content + '<|im_end|>\\n' }}"
    "{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)

QWEN35 = (
    "{%- for m in messages %}"
    "{%- if m.role == 'assistant' and m.reasoning_content and preserve_thinking is defined %}"
    "{{ '<think>' + m.reasoning_content + '</think>' }}{%- endif %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}"
    "{%- endif %}"
)

DEEPSEEK_V31 = (
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}"
    "{{- bos_token }}"
    "{%- for m in messages %}"
    "{%- if m.role == 'system' %}{{ m.content }}"
    "{%- elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}"
    "{%- else %}{{ '<｜Assistant｜></think>' + m.content + eos_token }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{ '<｜Assistant｜>' }}{%- if thinking %}{{ '<think>' }}{%- else %}{{ '</think>' }}"
    "{%- endif %}{%- endif %}"
)

GLM45 = (
    "[gMASK]<sop>"
    "{%- macro text(content) -%}{{ content }}{%- endmacro -%}"
    "{%- for m in messages %}"
    "{%- if m.role == 'user' %}<|user|>\n{{ text(m.content) }}"
    "{{- '/nothink' if (enable_thinking is defined and not enable_thinking "
    "and not text(m.content).endswith('/nothink')) else '' -}}"
    "{%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}<|assistant|>"
    "{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}"
    "{%- endif %}"
)

GRANITE33 = (
    "{%- if thinking %}"
    "{%- set start = 'You are helpful. Write your thoughts between <think></think> and your "
    "response between <response></response>.' %}"
    "{%- else %}{%- set start = 'You are helpful.' %}{%- endif %}"
    "{%- if messages[0].role != 'system' %}"
    "{{ '<|start_of_role|>system<|end_of_role|>' + start + '<|end_of_text|>\\n' }}{%- endif %}"
    "{%- for m in messages %}"
    "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant' }}"
    "{%- if controls %}{{ ' ' + controls | tojson }}{%- endif %}{{ '<|end_of_role|>' }}{%- endif %}"
)

GPT_OSS = (
    "{%- macro about() -%}"
    "{%- if model_identity is not defined %}{%- set model_identity = 'You are a model.' %}"
    "{%- endif %}{{- model_identity + '\\nCurrent date: ' + strftime_now('%Y-%m-%d') + '\\n\\n' }}"
    "{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}"
    "{{- 'Reasoning: ' + reasoning_effort + '\\n\\n' }}"
    "{{- '# Valid channels: analysis, final.' }}"
    "{%- endmacro -%}"
    "{{- '<|start|>system<|message|>' }}{{- about() }}{{- '<|end|>' }}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'assistant' %}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
    "{%- else %}{{- '<|start|>' + ('developer' if m.role == 'system' else m.role) + '<|message|>' "
    "+ m.content + '<|end|>' }}{%- endif %}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"
)

SMOLLM3 = (
    "{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}"
    "{%- if enable_thinking -%}{%- set mode = '/think' -%}{%- else -%}{%- set mode = '/no_think' "
    "-%}{%- endif -%}"
    "{%- if messages[0].role == 'system' -%}{%- set own = messages[0].content -%}"
    "{%- if '/no_think' in own -%}{%- set mode = '/no_think' -%}"
    "{%- elif '/think' in own -%}{%- set mode = '/think' -%}{%- endif -%}"
    "{%- set own = own.replace('/no_think', '').replace('/think', '').rstrip() -%}{%- endif -%}"
    "{{- '<|im_start|>system\\nReasoning Mode: ' + mode + '\\n' }}"
    "{%- if own %}{{- own + '\\n' }}{%- elif mode == '/think' %}{{- 'Think in <think> tags.\\n' }}"
    "{%- endif %}{{- '<|im_end|>\\n' }}"
    "{%- for m in messages -%}{%- if m.role == 'user' -%}"
    "{{ '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- elif m.role == 'assistant' -%}{%- if mode == '/think' -%}"
    "{{ '<|im_start|>assistant\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- else -%}{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' + m.content "
    "+ '<|im_end|>\\n' }}{%- endif -%}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' }}"
    "{%- if mode != '/think' %}{{- '<think>\\n\\n</think>\\n' }}{%- endif %}{%- endif -%}"
)

NEMOTRON2 = (
    "{%- set ns = namespace(thinks=true) -%}"
    "{%- for m in messages -%}{%- if m['role'] in ('user', 'system') -%}"
    "{%- if '/think' in m['content'] -%}{%- set ns.thinks = true -%}"
    "{%- elif '/no_think' in m['content'] -%}{%- set ns.thinks = false -%}{%- endif -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- for m in messages -%}"
    "{{- '<SPECIAL_10>' + m['role'] + '\\n' + "
    "m['content'].replace('/think', '').replace('/no_think', '').strip() + '\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<SPECIAL_11>Assistant\\n' -}}"
    "{{- '<think>\\n\\n' if ns.thinks else '<think></think>' -}}{%- endif -%}"
)

SEED_OSS = (
    "{%- if not thinking_budget is defined %}{%- set thinking_budget = -1 %}{%- endif %}"
    "{%- if thinking_budget == 0 %}"
    "{{- '<seed:bos>systemAnswer in one step; your thinking budget is 0.<seed:eos>' }}"
    "{%- elif not thinking_budget == -1 %}"
    "{{- '<seed:bos>systemFinish thinking within ' }}{{ thinking_budget }}"
    "{{- ' tokens.<seed:eos>' }}"
    "{%- endif %}"
    "{%- for m in messages %}{{- '<seed:bos>' + m.role + '\\n' + m.content + '<seed:eos>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<seed:bos>assistant\\n' }}"
    "{%- if thinking_budget == 0 %}{{- '<seed:think><seed:cot_budget_reflect>' }}{%- endif %}"
    "{%- endif %}"
)

KIMI_K3 = (
    "{%- if thinking is undefined -%}{%- set thinking = true -%}{%- endif -%}"
    "{%- if thinking_effort is undefined -%}{%- set thinking_effort = 'max' -%}{%- endif -%}"
    "{%- if thinking and thinking_effort not in ['low', 'medium', 'high', 'max'] -%}"
    "{{- raise_exception('Unsupported thinking_effort: ' + thinking_effort|string) -}}{%- endif -%}"
    "{%- if thinking %}{{- '<|open|>system: thinking effort ' + thinking_effort + '<|close|>' }}"
    "{%- endif %}"
    "{%- for m in messages %}{{- '<|open|>' + m.role + '<|sep|>' + m.content + '<|close|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|open|>assistant<|sep|><|open|>' + ('think' if thinking else 'response') + '<|sep|>' }}"
    "{%- endif %}"
)

MISTRAL = (
    "{%- set reasoning_effort = reasoning_effort if reasoning_effort is defined else 'none' %}"
    "{%- if reasoning_effort not in ['none', 'high'] %}"
    "{{- raise_exception('reasoning_effort must be none or high.') }}{%- endif %}"
    '{{- bos_token + \'[MODEL_SETTINGS]{"reasoning_effort": "\' + reasoning_effort + '
    "'\"}[/MODEL_SETTINGS]' }}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '[INST]' + m.content + '[/INST]' }}"
    "{%- elif m.role == 'system' %}{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{%- else %}{{- m.content + eos_token }}{%- endif %}{%- endfor %}"
)

STEP = (
    "{%- if reasoning_effort is defined %}"
    "{{- '<|im_start|>system\\nReasoning: ' + reasoning_effort + '<|im_end|>\\n' }}{%- endif %}"
    + CHATML.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")
)

GEMMA4 = (
    "{{- bos_token }}"
    "{%- if (enable_thinking is defined and enable_thinking) or messages[0].role == 'system' %}"
    "{{- '<|turn>system\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking %}{{- '<|think|>\\n' }}{%- endif %}"
    "{%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}"
    "{{- '<turn|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role != 'system' %}"
    "{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | trim + "
    "'<turn|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}"
    "{%- if not enable_thinking | default(false) %}{{- '<|channel>thought\\n<channel|>' }}"
    "{%- endif %}{%- endif %}"
)

COMMAND_A = (
    "{{- bos_token }}"
    "{%- for m in messages %}{{- '<|START_OF_TURN|>' + m.role + ': ' + m.content + "
    "'<|END_OF_TURN|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|START_OF_TURN|>chatbot: ' }}"
    "{%- if reasoning is defined and not reasoning %}"
    "{{- '<|START_THINKING|><|END_THINKING|>' }}{%- endif %}{%- endif %}"
)

HUNYUAN = (
    "{{- bos_token }}"
    "{%- set ns = namespace(last=messages[-1].content) %}"
    "{%- if enable_thinking is defined and not enable_thinking %}"
    "{%- set ns.last = '/no_think' + ns.last %}{%- endif %}"
    "{%- for m in messages[:-1] %}{{- m.role + ': ' + m.content + '\\n' }}{%- endfor %}"
    "{{- 'user: ' + ns.last + '\\n' }}"
    "{%- if add_generation_prompt %}{{- 'assistant: ' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}"
    "{{- '<think>\\n\\n</think>\\n' }}{%- endif %}{%- endif %}"
)

UNHEARD_OF = CHATML + ("{%- if add_generation_prompt and muse %}{{- '<thinking>\\n' }}{%- endif %}")
"""A variable whose name says nothing: what it does is what counts."""

LLAMA3 = (
    "{%- if date_string is not defined %}{%- set date_string = '26 Jul 2024' %}{%- endif %}"
    "{%- if tools_in_user_message is not defined %}{%- set tools_in_user_message = true %}"
    "{%- endif %}"
    "{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + "
    "date_string + '\\n\\n' }}"
    "{%- for m in messages %}{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + "
    "m.content | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)

R1 = CHATML.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")

FAMILIES = (
    Family("Qwen 3", QWEN3, "on", ENABLE),
    Family("Qwen 3.5", QWEN35, "on", ENABLE, others=("preserve_thinking",)),
    Family(
        "DeepSeek V3.1", DEEPSEEK_V31, "off", {"off": {"thinking": False}, "on": {"thinking": True}}
    ),
    Family("GLM 4.5", GLM45, "on", ENABLE),
    Family(
        "Granite 3.3",
        GRANITE33,
        "off",
        {"off": {"thinking": False}, "on": {"thinking": True}},
        others=("controls",),
    ),
    Family(
        "gpt-oss",
        GPT_OSS,
        "medium",
        {effort: {"reasoning_effort": effort} for effort in ("low", "medium", "high")},
        others=("model_identity",),
    ),
    Family("SmolLM3", SMOLLM3, "on", ENABLE),
    Family(
        "Nemotron Nano 2",
        NEMOTRON2,
        "on",
        {"off": {}, "on": {}},
        flags={"off": "/no_think", "on": "/think"},
    ),
    Family(
        "Seed-OSS",
        SEED_OSS,
        "on",
        {"off": {"thinking_budget": 0}, "on": {}},
        budget="thinking_budget",
    ),
    Family(
        "Kimi K3",
        KIMI_K3,
        "on",
        {"off": {"thinking": False}, "on": {"thinking": True}}
        | {e: {"thinking": True, "thinking_effort": e} for e in ("low", "medium", "high", "max")},
    ),
    Family(
        "Mistral Small 4",
        MISTRAL,
        "off",
        {"off": {"reasoning_effort": "none"}, "high": {"reasoning_effort": "high"}},
    ),
    Family(
        "Step 3.7",
        STEP,
        "",
        {effort: {"reasoning_effort": effort} for effort in ("low", "medium", "high")},
    ),
    Family("Gemma 4", GEMMA4, "off", ENABLE),
    Family("Command A", COMMAND_A, "on", {"off": {"reasoning": False}, "on": {"reasoning": True}}),
    Family("Hunyuan", HUNYUAN, "on", ENABLE),
    Family(
        "a name never heard of", UNHEARD_OF, "off", {"off": {"muse": False}, "on": {"muse": True}}
    ),
    Family("DeepSeek R1", R1),
    Family("Llama 3", LLAMA3, others=("date_string", "tools_in_user_message"), has_reasoning=False),
    Family("ChatML", CHATML, has_reasoning=False),
)
