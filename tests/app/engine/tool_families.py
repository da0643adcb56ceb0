"""Chat templates that take tools, by family, in our words: short, with what each really writes
around tools, calls and results.

`controls`: the texts that are control tokens in its vocabulary; `end`: what ends a reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolFamily:
    name: str
    template: str
    end: str
    controls: tuple[str, ...] = ()


_CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_HERMES_TOOLS = (
    "{%- if tools %}{{ '<|im_start|>system\\n' }}"
    "{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{%- endif %}"
    "{{ '# Tools\\n\\nSignatures:\\n<tools>' }}"
    "{%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{%- endfor %}"
    "{{ '\\n</tools>\\n\\nAnswer with JSON within <tool_call></tool_call>.<|im_end|>\\n' }}"
    "{%- elif messages[0].role == 'system' %}"
    "{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}"
)
_CHATML_RESULTS = (
    "{%- elif m.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}"
    "{{ '<|im_start|>user' }}{%- endif %}"
    "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}"
    "{%- endif %}"
    "{%- elif m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)

HERMES = ToolFamily(
    "hermes",  # Qwen 2.5, Hermes 2 Pro and 3, Granite 4
    _HERMES_TOOLS + "{%- for m in messages %}{%- if m.role == 'assistant' %}"
    "{{ '<|im_start|>assistant' }}{%- if m.content %}{{ '\\n' + m.content }}{%- endif %}"
    "{%- for call in m.tool_calls or [] %}{%- set f = call.function %}"
    '{{ \'\\n<tool_call>\\n{"name": "\' + f.name + \'", "arguments": \' }}'
    "{{ f.arguments | tojson }}{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}"
    + _CHATML_RESULTS,
    "<|im_end|>",
    _CHATML,
)

QWEN3 = ToolFamily(
    "qwen3",
    _HERMES_TOOLS + "{%- set ns = namespace(last=0) %}{%- for m in messages %}"
    "{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
    "{%- if loop.index0 > ns.last and (loop.last or m.reasoning_content) %}"
    "{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{%- endif %}"
    "{{ m.content }}{%- for call in m.tool_calls or [] %}{%- set f = call.function %}"
    "{%- if (loop.first and m.content) or not loop.first %}{{ '\\n' }}{%- endif %}"
    '{{ \'<tool_call>\\n{"name": "\' + f.name + \'", "arguments": \' }}'
    "{%- if f.arguments is string %}{{ f.arguments }}{%- else %}{{ f.arguments | tojson }}"
    "{%- endif %}{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}" + _CHATML_RESULTS,
    "<|im_end|>",
    (*_CHATML, "<think>", "</think>"),
)

QWEN3_CODER = ToolFamily(
    "qwen3-coder",
    "{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n<tools>' }}{%- for tool in tools %}"
    "{%- set f = tool.function %}{{ '\\n<function>\\n<name>' + f.name + '</name>' }}"
    "{{ '\\n<description>' + f.description + '</description>\\n<parameters>' }}"
    "{%- for name, field in (f.parameters.properties or {}) | items %}"
    "{{ '\\n<parameter>\\n<name>' + name + '</name>\\n<type>' + field.type | string + '</type>' }}"
    "{{ '\\n<description>' + (field.description or '') + '</description>\\n</parameter>' }}"
    "{%- endfor %}{{ '\\n</parameters>\\n</function>' }}{%- endfor %}"
    "{{ '\\n</tools><|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
    "{%- if m.content %}{{ m.content }}{%- endif %}{%- for call in m.tool_calls or [] %}"
    "{%- set f = call.function %}{%- if not loop.first or m.content %}{{ '\\n' }}{%- endif %}"
    "{{ '<tool_call>\\n<function=' + f.name + '>\\n' }}"
    "{%- for key, value in f.arguments | items %}{{ '<parameter=' + key + '>\\n' }}"
    "{{ (value if value is string else value | tojson) + '\\n</parameter>\\n' }}{%- endfor %}"
    "{{ '</function>\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}"
    "{%- elif m.role == 'system' %}{{ '<|im_start|>system\\n' + m.content + '<|im_end|>\\n' }}"
    + _CHATML_RESULTS,
    "<|im_end|>",
    _CHATML,
)

_HEAD = "'<|start_header_id|>' + {} + '<|end_header_id|>\\n\\n'"
LLAMA3 = ToolFamily(
    "llama-3",
    "{{ bos_token }}{%- if tools %}{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
    "{{ 'Environment: ipython\\nRespond in the format {\"name\": function name, \"parameters\": '"
    " + '{}}.\\n' }}{%- for tool in tools %}{{ tool | tojson(indent=4) + '\\n\\n' }}{%- endfor %}"
    "{{ '<|eot_id|>' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.tool_calls %}{%- if m.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}"
    "{%- set f = m.tool_calls[0].function %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    '{{ \'{"name": "\' + f.name + \'", "parameters": \' }}{{ f.arguments | tojson }}'
    "{{ '}<|eot_id|>' }}"
    "{%- elif m.role == 'tool' %}{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}"
    "{{ m.content | tojson }}{{ '<|eot_id|>' }}"
    "{%- else %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{{ m.content | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    "{%- endif %}",
    "<|eot_id|>",
    ("<|begin_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>",
     "<|python_tag|>"),
)  # fmt: skip

MISTRAL = ToolFamily(
    "mistral",
    "{{ bos_token }}{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}"
    "{%- set ns = namespace(n=0) %}{%- for m in messages %}"
    "{%- if m.role in ('user', 'assistant') and not m.tool_calls %}"
    "{%- if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
    "{%- endif %}{%- set ns.n = ns.n + 1 %}{%- endif %}{%- endfor %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}"
    "{%- if tools and m == users[-1] %}{{ '[AVAILABLE_TOOLS] ' + tools | tojson }}"
    "{{ '[/AVAILABLE_TOOLS]' }}{%- endif %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{%- elif m.tool_calls %}{{ '[TOOL_CALLS] [' }}{%- for call in m.tool_calls %}"
    "{%- set out = call.function | tojson %}{{ out[:-1] }}"
    "{%- if call.id | length < 9 %}{{ raise_exception('ids have 9 characters') }}{%- endif %}"
    "{{ ', \"id\": \"' + call.id[-9:] + '\"}' }}{{ ', ' if not loop.last else ']' + eos_token }}"
    "{%- endfor %}"
    "{%- elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}"
    "{%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS] {\"content\": ' + m.content | string }}"
    "{{ ', \"call_id\": \"' + m.tool_call_id[-9:] + '\"}[/TOOL_RESULTS]' }}"
    "{%- elif m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}"
    "{%- endif %}{%- endfor %}",
    "</s>",
    ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
     "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
)  # fmt: skip

MISTRAL_ARGS = ToolFamily(
    "mistral-args",  # since 2025
    "{{ bos_token }}{%- if tools %}{{ '[AVAILABLE_TOOLS]' + tools | tojson }}"
    "{{ '[/AVAILABLE_TOOLS]' }}{%- endif %}{%- for m in messages %}"
    "{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}"
    "{%- elif m.role == 'assistant' %}{{ m.content }}{%- for call in m.tool_calls or [] %}"
    "{{ '[TOOL_CALLS]' + call.function.name + '[ARGS]' }}"
    "{{ call.function.arguments if call.function.arguments is string "
    "else call.function.arguments | tojson }}{%- endfor %}{{ eos_token }}"
    "{%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}"
    "{%- else %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}{%- endif %}{%- endfor %}",
    "</s>",
    (*MISTRAL.controls, "[ARGS]"),
)

DEEPSEEK_V3 = ToolFamily(
    "deepseek-v3",
    "{{ bos_token }}{%- if tools %}{{ '## Tools\\n' + tools | tojson }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}"
    "{%- elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + (m.content or '') }}"
    "{%- for call in m.tool_calls or [] %}"
    "{{ '<｜tool▁calls▁begin｜>' if loop.first else '\\n' }}"
    "{{ '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name }}"
    "{{ '\\n```json\\n' + call.function.arguments + '\\n```<｜tool▁call▁end｜>' }}"
    "{{ '<｜tool▁calls▁end｜>' if loop.last else '' }}{%- endfor %}{{ '<｜end▁of▁sentence｜>' }}"
    "{%- elif m.role == 'tool' %}"
    "{{ '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}"
    "{%- else %}{{ m.content }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{%- endif %}",
    "<｜end▁of▁sentence｜>",
    ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>",
     "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
     "<｜tool▁calls▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
)  # fmt: skip

DEEPSEEK_V31 = ToolFamily(
    "deepseek-v3.1",  # it renders calls and tells of no tools
    DEEPSEEK_V3.template.replace(
        "{%- if tools %}{{ '## Tools\\n' + tools | tojson }}{%- endif %}", ""
    )
    .replace("call.type + '<｜tool▁sep｜>' + ", "")
    .replace("'\\n```json\\n' + ", "'<｜tool▁sep｜>' + ")
    .replace("'\\n```<｜tool▁call▁end｜>'", "'<｜tool▁call▁end｜>'")
    .replace("if loop.first else '\\n'", "if loop.first else ''")
    .replace(
        "'<｜Assistant｜>' + (m.content or '')", "'<｜Assistant｜></think>' + (m.content or '')"
    )
    .replace("{{ '<｜Assistant｜>' }}", "{{ '<｜Assistant｜></think>' }}"),
    "<｜end▁of▁sentence｜>",
    DEEPSEEK_V3.controls,
)

GLM = ToolFamily(
    "glm-4.6",
    "[gMASK]<sop>{%- if tools %}{{ '<|system|>\\n# Tools\\n<tools>' }}{%- for tool in tools %}"
    "{{ '\\n' + tool | tojson }}{%- endfor %}{{ '\\n</tools>' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'assistant' %}{{ '<|assistant|>' }}"
    "{{ '\\n<think></think>' }}{%- if m.content %}{{ '\\n' + m.content }}{%- endif %}"
    "{%- for call in m.tool_calls or [] %}{{ '\\n<tool_call>' + call.function.name + '\\n' }}"
    "{%- for key, value in call.function.arguments | items %}{{ '<arg_key>' + key }}"
    "{{ '</arg_key>\\n<arg_value>' + (value if value is string else value | tojson) }}"
    "{{ '</arg_value>\\n' }}{%- endfor %}{{ '</tool_call>' }}{%- endfor %}"
    "{%- elif m.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|observation|>' }}{%- endif %}"
    "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}"
    "{%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}",
    "<|user|>",
    ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
)

KIMI = ToolFamily(
    "kimi-k2",
    "{%- if tools %}{{ '<|im_system|>tool_declare<|im_middle|>' + tools | tojson + '<|im_end|>' }}"
    "{%- endif %}{%- for m in messages %}{%- set of = m.role %}"
    "{%- if of == 'assistant' %}{{ '<|im_assistant|>assistant<|im_middle|>' + m.content }}"
    "{%- if m.tool_calls %}{{ '<|tool_calls_section_begin|>' }}{%- for call in m.tool_calls %}"
    "{{ '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' }}"
    "{{ call.function.arguments if call.function.arguments is string "
    "else call.function.arguments | tojson }}{{ '<|tool_call_end|>' }}{%- endfor %}"
    "{{ '<|tool_calls_section_end|>' }}{%- endif %}{{ '<|im_end|>' }}"
    "{%- elif of == 'tool' %}{{ '<|im_system|>tool<|im_middle|>## Return of ' + m.tool_call_id }}"
    "{{ '\\n' + m.content + '<|im_end|>' }}"
    "{%- else %}{{ '<|im_user|>user<|im_middle|>' + m.content + '<|im_end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}"
    "{{ '<|im_assistant|>assistant<|im_middle|>' }}{%- endif %}",
    "<|im_end|>",
    ("<|im_end|>", "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>",
     "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
     "<|tool_call_end|>", "<|tool_calls_section_end|>"),
)  # fmt: skip

COMMAND = ToolFamily(
    "command-r7b",
    "{{ bos_token }}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}{%- for tool in tools or [] %}"
    "{{ '{\"name\": \"' + tool.function.name + '\", \"description\": \"' }}"
    "{{ tool.function.description + '\", \"parameters\": ' + tool.function.parameters | tojson }}"
    "{{ '}\\n' }}{%- endfor %}{{ '<|END_OF_TURN_TOKEN|>' }}"
    "{%- set ns = namespace(at=0) %}{%- for m in messages %}"
    "{%- if m.role == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}"
    "{%- if m.tool_calls %}{{ '<|START_THINKING|>' + (m.reasoning_content or '') }}"
    "{{ '<|END_THINKING|><|START_ACTION|>[\\n' }}{%- for call in m.tool_calls %}"
    "{{ '    {\"tool_call_id\": \"' + ns.at | string + '\", \"tool_name\": \"' }}"
    "{{ call.function.name + '\", \"parameters\": ' + call.function.arguments | tojson + '}' }}"
    "{{ ',\\n' if not loop.last else '\\n' }}{%- set ns.at = ns.at + 1 %}{%- endfor %}"
    "{{ ']<|END_ACTION|>' }}{%- else %}"
    "{{ '<|START_RESPONSE|>' + m.content + '<|END_RESPONSE|>' }}{%- endif %}"
    "{{ '<|END_OF_TURN_TOKEN|>' }}"
    "{%- elif m.role == 'tool' %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}"
    "{{ '<|START_TOOL_RESULT|>[{\"results\": {\"0\": ' + m.content | tojson }}"
    "{{ '}}]<|END_TOOL_RESULT|><|END_OF_TURN_TOKEN|>' }}"
    "{%- else %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + m.content + '<|END_OF_TURN_TOKEN|>' }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}"
    "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}",
    "<|END_OF_TURN_TOKEN|>",
    ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>",
     "<|CHATBOT_TOKEN|>", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>",
     "<|END_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TOOL_RESULT|>",
     "<|END_TOOL_RESULT|>"),
)  # fmt: skip

GEMMA4 = ToolFamily(
    "gemma-4",
    "{%- macro value(x) %}{%- if x is string %}{{ '<|\"|>' + x + '<|\"|>' }}"
    "{%- elif x is boolean %}{{ 'true' if x else 'false' }}{%- elif x is mapping %}{{ '{' }}"
    "{%- for k, v in x | dictsort %}{{ ',' if not loop.first else '' }}{{ k + ':' }}"
    "{{ value(v) }}{%- endfor %}{{ '}' }}{%- elif x is sequence %}{{ '[' }}{%- for v in x %}"
    "{{ ',' if not loop.first else '' }}{{ value(v) }}{%- endfor %}{{ ']' }}"
    "{%- else %}{{ x }}{%- endif %}{%- endmacro %}"
    "{{ bos_token }}{%- if tools %}{{ '<|turn>system\\n' }}{%- for tool in tools %}"
    "{{ '<|tool>declaration:' + tool.function.name + '{description:' }}"
    "{{ value(tool.function.description) + ',parameters:' + value(tool.function.parameters) }}"
    "{{ '}<tool|>' }}{%- endfor %}{{ '<turn|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) }}"
    "{{ '\\n' }}{%- for call in m.tool_calls or [] %}"
    "{{ '<|tool_call>call:' + call.function.name + '{' }}"
    "{%- for k, v in call.function.arguments | dictsort %}"
    "{{ ',' if not loop.first else '' }}{{ k + ':' }}{{ value(v) }}{%- endfor %}"
    "{{ '}<tool_call|>' }}{%- endfor %}{{ m.content | trim + '<turn|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|turn>model\\n' }}{%- endif %}",
    "<turn|>",
    ("<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
)

LFM2 = ToolFamily(
    "lfm2",
    "{{ bos_token }}{%- if tools %}{{ '<|im_start|>system\\nList of tools: ' + tools | tojson }}"
    "{{ '<|im_end|>\\n' }}{%- endif %}{%- for m in messages %}"
    "{{ '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.tool_calls %}{{ '<|tool_call_start|>[' }}{%- for call in m.tool_calls %}"
    "{{ call.function.name + '(' }}{%- for k, v in call.function.arguments | items %}"
    "{{ k + '=' + (v | tojson) }}{{ ', ' if not loop.last else '' }}{%- endfor %}{{ ')' }}"
    "{{ ', ' if not loop.last else '' }}{%- endfor %}{{ ']<|tool_call_end|>' }}{%- endif %}"
    "{{ m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}",
    "<|im_end|>",
    (*_CHATML, "<|tool_call_start|>", "<|tool_call_end|>"),
)

MINIMAX = ToolFamily(
    "minimax-m2",
    "{{ ']~!b[]~b]system\\n' }}{%- if tools %}{{ '# Tools\\n<tools>\\n' }}"
    "{%- for tool in tools %}{{ '<tool>' + tool.function | tojson + '</tool>\\n' }}{%- endfor %}"
    "{{ '</tools>' }}{%- endif %}{{ '[e~[\\n' }}{%- for m in messages %}"
    "{%- if m.role == 'assistant' %}{{ ']~b]ai\\n' + m.content }}{%- if m.tool_calls %}"
    "{{ '\\n<minimax:tool_call>\\n' }}{%- for call in m.tool_calls %}"
    "{{ '<invoke name=\"' + call.function.name + '\">\\n' }}"
    "{%- for k, v in call.function.arguments | items %}{{ '<parameter name=\"' + k + '\">' }}"
    "{{ (v if v is string else v | tojson) + '</parameter>\\n' }}{%- endfor %}"
    "{{ '</invoke>\\n' }}{%- endfor %}{{ '</minimax:tool_call>' }}{%- endif %}{{ '[e~[\\n' }}"
    "{%- elif m.role == 'tool' %}{{ ']~b]tool\\n<response>' + m.content + '</response>[e~[\\n' }}"
    "{%- else %}{{ ']~b]' + m.role + '\\n' + m.content + '[e~[\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ ']~b]ai\\n' }}{%- endif %}",
    "[e~[",
    ("]~!b[", "]~b]", "[e~["),
)

GPT_OSS = ToolFamily(
    "gpt-oss",
    "{{ '<|start|>system<|message|>Valid channels: analysis, commentary, final.<|end|>' }}"
    "{%- if tools %}{{ '<|start|>developer<|message|># Tools\\n\\nnamespace functions {\\n' }}"
    "{%- for tool in tools %}{{ '// ' + tool.function.description + '\\ntype ' }}"
    "{{ tool.function.name + ' = (_: ' + tool.function.parameters | tojson + ') => any;\\n' }}"
    "{%- endfor %}{{ '}<|end|>' }}{%- endif %}{%- set ns = namespace(name='') %}"
    "{%- for m in messages %}{%- if m.role == 'assistant' and m.tool_calls %}"
    "{%- set f = m.tool_calls[0].function %}{%- set ns.name = f.name %}"
    "{%- if m.reasoning_content %}{{ '<|start|>assistant<|channel|>analysis<|message|>' }}"
    "{{ m.reasoning_content + '<|end|>' }}{%- endif %}"
    "{{ '<|start|>assistant to=functions.' + f.name + '<|channel|>commentary json<|message|>' }}"
    "{{ f.arguments | tojson + '<|call|>' }}"
    "{%- elif m.role == 'assistant' %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
    "{%- elif m.role == 'tool' %}{%- if not ns.name %}"
    "{{ raise_exception('no previous tool call') }}{%- endif %}"
    "{{ '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary<|message|>' }}"
    "{{ m.content | tojson + '<|end|>' }}"
    "{%- else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{%- endif %}",
    "<|return|>",
    ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>",
     "<|return|>"),
)  # fmt: skip

GRANITE = ToolFamily(
    "granite-3",  # it describes calls and renders none
    "{%- if tools %}{{ '<|start_of_role|>tools<|end_of_role|>' + tools | tojson(indent=4) }}"
    "{{ '<|end_of_text|>\\nWhen a tool is needed, begin with <|tool_call|> followed by a JSON '"
    " + 'list of tools.' }}{%- endif %}{%- for m in messages %}"
    "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}"
    "{{ '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}",
    "<|end_of_text|>",
    ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"),
)

PLAIN = ToolFamily(
    "chatml",  # it knows no tools
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}",
    "<|im_end|>",
    _CHATML,
)

FAMILIES = (
    HERMES, QWEN3, QWEN3_CODER, LLAMA3, MISTRAL, MISTRAL_ARGS, DEEPSEEK_V3, DEEPSEEK_V31, GLM,
    KIMI, COMMAND, GEMMA4, LFM2, MINIMAX, GPT_OSS, GRANITE, PLAIN,
)  # fmt: skip


class FamilyVocabulary:
    """A family's control tokens; any other character is the tokens of its bytes."""

    def __init__(self, family: ToolFamily) -> None:
        self.bos_text, self.eos_text = "<s>", family.end
        self.control_texts = list(dict.fromkeys(["<s>", family.end, *family.controls]))
        self.end_texts = [family.end]
        self.bos_id, self.add_bos = 0, False
        self._pattern = re.compile("|".join(map(re.escape, self.control_texts)))

    def tokenize(self, text: str, special: bool = False, add_bos: bool = False) -> list[int]:
        ids, at = list[int](), 0
        for found in self._pattern.finditer(text) if special else ():
            ids += self._bytes(text[at : found.start()])
            ids.append(self.control_texts.index(found[0]))
            at = found.end()
        return ids + self._bytes(text[at:])

    def _bytes(self, text: str) -> list[int]:
        return [len(self.control_texts) + value for value in text.encode()]

    def piece(self, token_id: int) -> bytes:
        n_controls = len(self.control_texts)
        if token_id < n_controls:
            return self.control_texts[token_id].encode()
        return bytes([token_id - n_controls])

    def controls_in(self, ids: list[int]) -> list[str]:
        """The control tokens among these, in order."""
        return [self.control_texts[i] for i in ids if i < len(self.control_texts)]
