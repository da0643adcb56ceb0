"""Whether the tokens of a vocabulary are what its model says: llama.cpp aborts where two have the
same text, and where it looks for a byte in vain.

They are read only before a load: the header's reader passes over them.
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import Final

from app.gguf.chat_check import read_chat_header, read_vector_header
from app.gguf.header import Entry, Header, opened
from app.gguf.refusal import HeaderRefused

TOKENS_KEY: Final = "tokenizer.ggml.tokens"
MAX_COUNT: Final = 1 << 20
"""Real vocabularies have some 262,144 tokens; larger ones are left to the engine."""
MAX_BYTES: Final = 32 << 20

_BYTE: Final = 6  # LLAMA_TOKEN_TYPE_BYTE
_LENGTH: Final = struct.Struct("<Q")


def read_for_load(path: Path | str) -> Header:
    """The header of a file that is to be loaded. Raises HeaderRefused as `read_chat_header` does,
    and for a vocabulary that llama.cpp would abort at."""
    return _checked(read_chat_header(path))


def read_for_vectors(path: Path | str) -> Header:
    """The same of a file that is to make vectors of texts."""
    return _checked(read_vector_header(path))


def _checked(header: Header) -> Header:
    texts = _texts(header)
    missing = _missing_bytes(header, texts)
    if missing:
        raise HeaderRefused(
            "unsupported",
            f"“{header.path.name}” lacks tokens for {missing} of the 256 bytes, so some texts "
            "would crash the engine. The file is damaged or names the wrong tokeniser. Choose "
            "another one.",
        )
    if _has_bytes_as_words(header):
        raise HeaderRefused(
            "unsupported",
            f"“{header.path.name}” has tokens for single bytes, which its tokeniser (WordPiece) "
            "can't have. The file is damaged or names the wrong tokeniser. Choose another one.",
        )
    found = _same_tokens(texts)
    if found is not None:
        first, second, text = found
        raise HeaderRefused(
            "unsupported",
            f"“{header.path.name}” has the token “{text}” twice (IDs {first:,} and {second:,}), "
            "so it is damaged. Choose another one.",
        )
    return header


def _missing_bytes(header: Header, texts: list[bytes]) -> int:
    """For how many bytes SentencePiece would find no token: neither `<0xE9>` nor the byte itself.
    Nothing where the texts are not known."""
    if not texts or header.metadata.get("tokenizer.ggml.model") != "llama":
        return 0
    known = set(texts)
    return sum(
        b"<0x%02X>" % byte not in known and bytes([byte]) not in known for byte in range(256)
    )


def _has_bytes_as_words(header: Header) -> bool:
    """Whether WordPiece has tokens of the type BYTE."""
    entry = header.entries.get("tokenizer.ggml.token_type")
    if entry is None or header.metadata.get("tokenizer.ggml.model") != "bert":
        return False
    return entry.count <= MAX_COUNT and _BYTE in array("i", _read(header, entry))


def _same_tokens(texts: list[bytes]) -> tuple[int, int, str] | None:
    """IDs of two tokens with the same text, and that."""
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


def _read(header: Header, entry: Entry) -> bytes:
    """The items of an array as they stand in the file; nothing where it cannot be read."""
    try:
        with opened(header.path) as source:
            data = source.read_at(entry.offset, entry.end - entry.offset)
    except OSError:
        return b""  # the engine says so, too
    return data[: len(data) // 4 * 4] if entry.kind_name != "array of string" else data


def _texts(header: Header) -> list[bytes]:
    """By ID; nothing where there are none, or more than any real vocabulary has."""
    entry = header.entries.get(TOKENS_KEY)
    if entry is None or entry.kind_name != "array of string":
        return []
    size = entry.end - entry.offset
    if entry.count > MAX_COUNT or size > MAX_BYTES:
        return []
    data = _read(header, entry)
    texts, at, length_at = [], 0, _LENGTH.unpack_from
    for _ in range(entry.count):
        if at + 8 > len(data):
            return []  # it shrank meanwhile: the engine says so
        begin = at + 8
        at = begin + length_at(data, at)[0]
        texts.append(data[begin:at])
    return texts
