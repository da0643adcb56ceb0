"""Control vectors that are made here: the GGUF file, written and read again.

The form is llama.cpp's own (see `app/engine/process/native/control_vectors.py`), so other programs
can use the file. What it was made of stands in its metadata: the examples of both groups, how, and
of which weights. It is written under a temporary name and brought to the disk before it gets its
own; a file that is there already is never replaced.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.gguf.header import ARRAY, KIND_NAMES, MAGIC, STRING, Header, padded, read_header
from app.gguf.values import NewValue

ARCHITECTURE: Final = "controlvector"
ALIGNMENT: Final = 32
VERSION: Final = 3

_KIND: Final = {name: kind for kind, name in KIND_NAMES.items()}
_F32: Final = 0
"""ggml's number of the tensor type."""
_OWN: Final = "cutaway."
_LISTS: Final = ("positive", "negative", "separation")


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """What is known of a vector. `separation`: of the layers from 1 on, see `VectorMade`.
    `is_chat`: the examples were messages, and not bare text."""

    name: str
    architecture: str = ""
    weights_name: str = ""
    weights_hash: str = ""
    method: str = ""
    made_at: str = ""
    is_chat: bool = True
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    separation: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownVector:
    """A file that was made here. `name`: what people call it by now."""

    path: str
    name: str
    facts: VectorFacts


def write_vector(path: Path, facts: VectorFacts, rows: Sequence[bytes]) -> None:
    """Write the directions of the layers 1, 2, …, each float32 in little-endian order. Raises
    OSError."""
    entries = _entries(facts, len(rows))
    head = MAGIC + struct.pack("<IQQ", VERSION, len(rows), len(entries))
    head += b"".join(_text(key) + value.encoded() for key, value in entries.items())
    offset = 0
    for layer, row in enumerate(rows, 1):
        head += _text(f"direction.{layer}")
        head += struct.pack("<IQIQ", 1, len(row) // 4, _F32, offset)
        offset += padded(len(row), ALIGNMENT)
    head += bytes(padded(len(head), ALIGNMENT) - len(head))
    number, name = tempfile.mkstemp(".unfinished", ".vector-", path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(head)
            for row in rows:
                file.write(row + bytes(padded(len(row), ALIGNMENT) - len(row)))
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)  # fails where there is one
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _entries(facts: VectorFacts, n_rows: int) -> dict[str, NewValue]:
    texts = {
        "general.architecture": ARCHITECTURE,
        "general.type": "controlvector",
        "general.name": facts.name,
        "controlvector.model_hint": facts.architecture,
        f"{_OWN}weights_name": facts.weights_name,
        f"{_OWN}weights_hash": facts.weights_hash,
        f"{_OWN}method": facts.method,
        f"{_OWN}made_at": facts.made_at,
    }
    entries = {key: NewValue(STRING, 0, text) for key, text in texts.items()}
    entries["controlvector.layer_count"] = NewValue(_KIND["uint32"], 0, n_rows)
    entries[f"{_OWN}is_chat"] = NewValue(_KIND["bool"], 0, facts.is_chat)
    for name in ("positive", "negative"):
        entries[f"{_OWN}{name}"] = NewValue(ARRAY, STRING, list(getattr(facts, name)))
    entries[f"{_OWN}separation"] = NewValue(ARRAY, _KIND["float32"], list(facts.separation))
    return entries


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def read_vector(path: Path) -> VectorFacts:
    """What a file says of itself; of one from elsewhere that is little. Raises Refusal."""
    header = read_header(path, keep_arrays=frozenset(f"{_OWN}{name}" for name in _LISTS))

    def text(key: str) -> str:
        value = header.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    return VectorFacts(
        header.name,
        text("controlvector.model_hint"),
        text(f"{_OWN}weights_name"),
        text(f"{_OWN}weights_hash"),
        text(f"{_OWN}method"),
        text(f"{_OWN}made_at"),
        header.metadata.get(f"{_OWN}is_chat") is not False,
        tuple(each for each in _list(header, "positive") if isinstance(each, str)),
        tuple(each for each in _list(header, "negative") if isinstance(each, str)),
        tuple(float(each) for each in _list(header, "separation") if isinstance(each, float)),
    )


def _list(header: Header, name: str) -> list[object]:
    found = header.metadata.get(f"{_OWN}{name}")
    return [*found] if isinstance(found, list) else []
