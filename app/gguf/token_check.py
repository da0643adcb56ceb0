"""Whether the tokens of a vocabulary have a text each: llama.cpp aborts where two have the same.

They are read only before a load: the header's reader passes over them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from app.gguf.header import Header, HeaderRefused, opened, read_header

TOKENS_KEY: Final = "tokenizer.ggml.tokens"
MAX_COUNT: Final = 1 << 20
"""Real vocabularies have some 262,144 tokens; larger ones are left to the engine."""
MAX_BYTES: Final = 32 << 20

_LENGTH: Final = struct.Struct("<Q")


def read_for_load(path: Path | str) -> Header:
    """The header of a file that is to be loaded. Raises HeaderRefused as `read_header` does, and
    for a vocabulary that llama.cpp would abort at."""
    header = read_header(path)
    found = _same_tokens(header)
    if found is not None:
        first, second, text = found
        raise HeaderRefused(
            "unsupported",
            f"“{header.path.name}” has the token “{text}” twice (IDs {first:,} and {second:,}), "
            "which the engine does not take. The file is damaged: choose another one.",
        )
    return header


def _same_tokens(header: Header) -> tuple[int, int, str] | None:
    """IDs of two tokens with the same text, and that."""
    texts = _texts(header)
    different = set(texts)
    if len(different) == len(texts) and b"" not in different and b"\0" not in b"".join(texts):
        return None
    ids: dict[bytes, int] = {}
    for token_id, text in enumerate(texts):
        # As llama.cpp has it: a zero byte ends a text, and an empty one is called after its ID.
        text = text.partition(b"\0")[0] or b"[EMPTY_%d]" % token_id
        before = ids.setdefault(text, token_id)
        if before != token_id:
            return before, token_id, text[:40].decode("utf-8", "replace")
    return None


def _texts(header: Header) -> list[bytes]:
    """By ID; nothing where there are none, or more than any real vocabulary has."""
    entry = header.entries.get(TOKENS_KEY)
    if entry is None or entry.kind_name != "array of string":
        return []
    size = entry.end - entry.offset
    if entry.count > MAX_COUNT or size > MAX_BYTES:
        return []
    try:
        with opened(header.path) as source:
            data = source.read_at(entry.offset, size)
    except OSError:
        return []  # the engine says so, too
    texts, at, length_at = [], 0, _LENGTH.unpack_from
    for _ in range(entry.count):
        if at + 8 > len(data):
            return []  # it shrank meanwhile: the engine says so
        begin = at + 8
        at = begin + length_at(data, at)[0]
        texts.append(data[begin:at])
    return texts
