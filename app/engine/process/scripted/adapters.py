"""Adapters as a script has them: files that must be there, and change nothing."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from app.engine.process.native.arrays import as_array
from app.engine.process.scripted.inside import N_EMBD, N_LAYER
from app.engine.protocol.adapter_messages import (
    Adapters,
    AdapterUsed,
    ControlVector,
    Lora,
    MakeVector,
    VectorMade,
    check_groups,
)
from app.refusal import Refusal


def scripted_adapters(asked: Adapters | None) -> list[AdapterUsed]:
    """What a reply is told to have been written with. Raises Refusal as the real engine does: a
    file is gone, or has changed since."""
    used = []
    everything: list[Lora | ControlVector] = [*asked.loras, *asked.vectors] if asked else []
    for each in (each for each in everything if each.scale):
        kind = "control_vector" if isinstance(each, ControlVector) else "lora"
        path = Path(each.path)
        try:
            found = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        except OSError as error:
            sentence = f"“{path}” no longer exists. Choose another file or restore it."
            raise Refusal("missing_file", sentence, str(error)) from error
        if each.hash and each.hash != found:
            raise Refusal("changed_file", f"“{path.name}” has changed since.")
        first, last = 0, 0
        if isinstance(each, ControlVector):
            first, last = each.first or 1, each.last or N_LAYER - 1
        used.append(AdapterUsed(kind, str(path), found, each.scale, first, last))
    return used


def made_vector(command: MakeVector) -> VectorMade:
    """Drawn by chance from the examples. Raises Refusal."""
    import numpy as np

    check_groups(command.positive, command.negative, command.method)
    seed = zlib.crc32(repr((command.positive, command.negative, command.method)).encode())
    values = np.random.default_rng(seed).standard_normal((N_LAYER - 1) * N_EMBD)
    return VectorMade(
        N_LAYER,
        N_EMBD,
        len(command.positive),
        len(command.negative),
        command.method,
        as_array(values.astype(np.float32)),
        separation=[1.0 - 0.1 * layer for layer in range(N_LAYER - 1)],
        spread=[0.25] * (N_LAYER - 1),
    )
