"""The adapters that a reply was written with, as they stand in its settings.

`loras` and `control_vectors` are lists of files with their scales and layers; at the end of the
reply the engine says which files they were, by the hash of their content. Whatever is computed for
that reply later has the same, or is refused in words: run again, a look inside, draws replayed.
What the file or a newer version wrote may be anything: what can't be read is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.chat.settings.settings import checked
from app.engine.protocol.adapter_messages import Adapters, AdapterUsed
from app.refusal import Refusal

NAMES: Final = {"lora": "loras", "control_vector": "control_vectors"}


def with_hashes(recorded: Mapping[str, Any], used: Sequence[AdapterUsed]) -> dict[str, Any]:
    """The lists, each file with its hash. One that had no effect (a scale of 0) has none."""
    hashes = {(NAMES.get(each.kind), _place(each.path)): each.hash for each in used}
    told = {}
    for name in NAMES.values():
        files = recorded.get(name)
        if isinstance(files, list):
            told[name] = [
                {**file, "hash": hashes.get((name, _place(file.get("path"))), "")}
                for file in files
                if isinstance(file, Mapping)
            ]
    return told


def _place(path: object) -> str:
    return str(Path(str(path)).expanduser())


def loras_of_load(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The LoRA adapters of a reply of an older version: they were loaded with the weights."""
    load = recorded.get("load")
    loras = load.get("loras") if isinstance(load, Mapping) else None
    return {"loras": loras} if loras and "loras" not in recorded else {}


def adapters_of(recorded: Mapping[str, Any]) -> Adapters:
    """What the engine is asked to compute with, for a reply with these settings."""
    values = {**loras_of_load(recorded), **recorded}
    found: dict[str, list[Any]] = {}
    for name in NAMES.values():
        try:
            found[name] = list(checked(name, values.get(name, ())))
        except Refusal:
            found[name] = []
    return Adapters(found["loras"], found["control_vectors"])


def adapter_words(
    recorded: Mapping[str, Any], name_of: Callable[[str], str] = lambda path: Path(path).stem
) -> list[str]:
    """Each adapter of a reply in a few words.

    >>> adapter_words({"control_vectors": [{"path": "/a/calm.gguf", "scale": -1.5, "last": 20}]})
    ['calm × −1.5, layers 1–20']
    """
    adapters = adapters_of(recorded)
    words = [f"{name_of(lora.path)} × {_number(lora.scale)}" for lora in adapters.loras]
    for vector in adapters.vectors:
        layers = f", layers {vector.first or 1}–{vector.last or 'last'}"
        is_part = vector.first or vector.last
        words.append(f"{name_of(vector.path)} × {_number(vector.scale)}{layers if is_part else ''}")
    return words


def _number(scale: float) -> str:
    return f"{scale:g}".replace("-", "−")
