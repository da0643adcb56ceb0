"""Where a projector goes, and what it takes there: its share is kept free first, as a draft's.

It stands whole on one device: the first that takes layers of the weights if it has room for it,
else in main memory. Its weights are exact, from the tensor table; the buffer for one picture is a
reserve for the largest that is looked at in one piece. llama.cpp computes its attention with flash
attention wherever the device can, so what grows with the square of the patches is not among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.engine.planning.estimate import HOST
from app.engine.planning.load_plan import Machine
from app.engine.planning.placement import DeviceMemory
from app.engine.planning.sizes import MIB
from app.engine.protocol.loading_messages import BESIDE, MemoryPart
from app.gguf.header import Header
from app.gguf.projector import MAX_PATCHES, projector_of

PROJECTOR: Final = "projector"
ANY_SIZE: Final = ("qwen", "pixtral", "kimivl", "lightonocr", "youtuvl", "paddleocr", "glm4v")
"""How kinds begin that look at pictures of any size; llama.cpp warms up with one of 46 × 46 cells
of four patches (`clip.cpp`, `set_warmup_n_tokens`)."""
_ANY_PATCHES: Final = 46 * 46 * 4
_SOUND_FRAMES: Final = 1500
"""Of thirty seconds, which is what Whisper's encoder hears at once."""
_ROWS: Final = 8
"""Vectors of the embedding's size for each patch at the widest step: residual, its norm, queries,
keys, values and attention's outcome, twice where they are copied."""


@dataclass(frozen=True, slots=True)
class ProjectorSizes:
    """`picture_bytes`: the buffer that one picture, or sound, is computed in."""

    weights_bytes: int
    picture_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.weights_bytes + self.picture_bytes


def projector_sizes(header: Header) -> ProjectorSizes | None:
    """None for what is no projector."""
    facts = projector_of(header)
    if facts is None:
        return None
    most = 0
    if facts.sees:
        patches = facts.vision.n_patches
        if facts.kind.startswith(ANY_SIZE):
            patches = max(patches, _ANY_PATCHES)
        most = _computed(patches, facts.vision.n_embd, facts.vision.n_ff)
        most += 3 * 4 * min(facts.vision.image_size, 8192) ** 2
    if facts.hears:
        width = header.number("audio.embedding_length") or 0
        most = max(
            most, _computed(_SOUND_FRAMES, width, header.number("audio.feed_forward_length"))
        )
    weights = sum(tensor.size_bytes for tensor in header.tensors)
    return ProjectorSizes(weights, min(most, 64 << 30) + 16 * MIB)


def by_size(size_bytes: int) -> ProjectorSizes:
    """Of one whose header was not read: a tenth of it again for the picture."""
    return ProjectorSizes(size_bytes, size_bytes // 10 + 64 * MIB)


def _computed(rows: int, n_embd: int, n_ff: int | None) -> int:
    rows = min(max(rows, 1), MAX_PATCHES)
    return rows * (max(n_embd, 0) * _ROWS + 2 * max(n_ff or 4 * n_embd, 0)) * 4


def chosen_projector(path: Path | str, wish: str) -> str:
    """The file that a load of these weights takes: for `BESIDE` the best one that lies beside them,
    if any. Reads folders: for a thread."""
    if wish != BESIDE:
        return wish
    from app.gguf.local.projecting import find_projectors

    found = find_projectors(path)
    return str(found[0].path) if found else ""


def projector_parts(sizes: ProjectorSizes, devices: Sequence[DeviceMemory]) -> list[MemoryPart]:
    """What it will take, and where. `devices`: those that take layers of the weights."""
    able = devices[:1] if devices and devices[0].budget_bytes >= sizes.size_bytes else ()
    name = able[0].name if able else HOST
    return [MemoryPart(name, PROJECTOR, sizes.size_bytes)]


def left_beside(machine: Machine, parts: Sequence[MemoryPart]) -> Machine:
    """The machine with this taken."""
    taken: dict[str, int] = {}
    for part in parts:
        taken[part.device] = taken.get(part.device, 0) + part.size_bytes

    def left_on(device: DeviceMemory) -> DeviceMemory:
        name = HOST if device.kind == "cpu" else device.name
        return replace(device, free_bytes=max(device.free_bytes - taken.get(name, 0), 0))

    return replace(machine, devices=tuple(map(left_on, machine.devices)))
