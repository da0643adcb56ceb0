"""`/v1/embeddings`: vectors of texts, as numbers or as base64 of float32."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

from app.engine.protocol.pooling_messages import MAX_INPUTS, TextsEmbedded
from app.server.fields import Fields, is_id

_ONE_LENGTH: Final = "These vectors can't be shortened; leave dimensions out."


def read_inputs(fields: Fields) -> tuple[list[str | list[int]], bool]:
    """What is to be embedded, and whether base64 is wanted. Raises ApiError."""
    value = fields.any("input")
    is_base64 = fields.choice("encoding_format", ("float", "base64"), "float") == "base64"
    fields.only("dimensions", (), _ONE_LENGTH)
    fields.skip(("user",))
    fields.close()
    if isinstance(value, str) or (isinstance(value, list) and value and _is_ids(value)):
        value = [value]
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_INPUTS:
        raise fields.refuse("input", f"input must be a text, or a list of up to {MAX_INPUTS}.")
    for at, each in enumerate(value):
        if not (isinstance(each, str) and each) and not (isinstance(each, list) and _is_ids(each)):
            raise fields.refuse(f"input[{at}]", "Each input must be a text, or token IDs.")
    return value, is_base64


def _is_ids(value: list[Any]) -> bool:
    return bool(value) and all(map(is_id, value))


def told(found: TextsEmbedded, model: str, n_tokens: int, *, is_base64: bool) -> dict[str, Any]:
    """In OpenAI's form; `pooling` is ours."""
    numbers = list(found.vectors.numbers())
    rows = [numbers[at * found.n_embd : (at + 1) * found.n_embd] for at in range(found.n)]
    data = [
        {"object": "embedding", "index": at, "embedding": _packed(row) if is_base64 else row}
        for at, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {
        "object": "list",
        "data": data,
        "model": model,
        "usage": usage,
        "pooling": found.pooling,
    }


def _packed(row: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()
