"""A real file with its numbers as float32, so that two builds of llama.cpp compute the same.

With quantised weights activations are rounded to 8 bits before each product, and which way a last
bit falls depends on the build: log-probabilities of the starter file then differ by 0.04 at the
first token already, and greedy texts part where two tokens are close.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

_MADE_BY_THE_WRITER = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture")
_FILE_TYPE = "general.file_type"
_ALL_FLOAT32 = 0


CHAT_TEMPLATE = "tokenizer.chat_template"
TURNS = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message.role == 'assistant' else message.role }}\n"
    "{{ message.content }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
"""For a base model, which has none."""


def in_float32(source: Path, target: Path) -> Path:
    """The same network, tensor by tensor."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name in _MADE_BY_THE_WRITER or field.name == _FILE_TYPE:
            continue
        kind = field.types[0]
        of = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=of)
    writer.add_file_type(_ALL_FLOAT32)
    if CHAT_TEMPLATE not in reader.fields:
        writer.add_chat_template(TURNS)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
