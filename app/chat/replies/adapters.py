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


def names_of(
    paths: Sequence[str], name_of: Callable[[str], str] = lambda path: Path(path).stem
) -> list[str]:
    """What files are called where they stand beside each other: those of one name are told apart
    by their folder, or their file's name.

    >>> names_of(["/old/calm.gguf", "/new/calm.gguf", "/new/wild.gguf", "/new/wild.gguf"])
    ['calm (old)', 'calm (new)', 'wild', 'wild']
    """
    names = {path: name_of(path) for path in paths}
    found = []
    for path in paths:
        alike = {Path(other) for other, name in names.items() if name == names[path]}
        is_alone_there = len({other.parent for other in alike}) == len(alike)
        apart = Path(path).parent.name if is_alone_there else Path(path).stem
        found.append(names[path] if len(alike) == 1 else f"{names[path]} ({apart})")
    return found


def adapter_words(
    recorded: Mapping[str, Any], name_of: Callable[[str], str] = lambda path: Path(path).stem
) -> list[str]:
    """Each adapter of a reply in a few words.

    >>> adapter_words({"control_vectors": [{"path": "/a/calm.gguf", "scale": -1.5, "last": 20}]})
    ['calm × −1.5, layers 1–20']
    """
    adapters = adapters_of(recorded)
    loras = zip(
        names_of([lora.path for lora in adapters.loras], name_of), adapters.loras, strict=True
    )
    words = [f"{name} × {_number(lora.scale)}" for name, lora in loras]
    names = names_of([vector.path for vector in adapters.vectors], name_of)
    for name, vector in zip(names, adapters.vectors, strict=True):
        layers = f", layers {vector.first or 1}–{vector.last or 'last'}"
        is_part = vector.first or vector.last
        words.append(f"{name} × {_number(vector.scale)}{layers if is_part else ''}")
    return words


def _number(scale: float) -> str:
    return f"{scale:g}".replace("-", "−")
