"""Whether a file that is sound can be chatted with, as far as its header tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.gguf.architectures import DRAFT_HEADS, NOT_GENERATING
from app.gguf.refusal import HeaderRefused
from app.gguf.split_names import part_names, split_name

if TYPE_CHECKING:
    from app.gguf.header import Header

MAX_LAYERS: Final = 512  # LLAMA_MAX_LAYERS: llama.cpp keeps per-layer values in arrays of this size

_NOT_WEIGHTS: Final = {
    "adapter": "a LoRA adapter, which needs the weights that it was made for",
    "mmproj": "a projector for images, which needs its language weights",
    "imatrix": "an importance matrix, which is used to make other files",
    "vocab": "a vocabulary without weights",
}


def check_for_chat(header: Header) -> None:
    """Raise HeaderRefused if the file is sound but cannot write text, or lacks its other parts."""
    refused = refusal_for_chat(header) or _refusal_of_parts(header)
    if refused is not None:
        raise refused


def refusal_for_chat(header: Header) -> HeaderRefused | None:
    """Why these weights write no text; None if they may. Does not look for other files."""
    name, architecture = header.path.name, header.architecture
    if header.kind in _NOT_WEIGHTS:
        return _not_for_chat(f"“{name}” is {_NOT_WEIGHTS[header.kind]}.")
    if not architecture:
        return HeaderRefused(
            "unsupported",
            f"“{name}” does not say which architecture it holds, so it cannot be loaded. "
            "Choose another file.",
        )
    if architecture in NOT_GENERATING:
        return _not_for_chat(f"“{name}” holds {architecture} weights, which do not write text.")
    if architecture in DRAFT_HEADS:
        return _not_for_chat(
            f"“{name}” holds {architecture} weights, which only guess ahead for others."
        )
    layers = header.n_layer
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        return HeaderRefused(
            "unsupported",
            f"“{name}” says that it has {layers:,} layers; the engine takes at most {MAX_LAYERS}. "
            "The file is damaged, or it needs a newer engine.",
        )
    return None


def _not_for_chat(sentence: str) -> HeaderRefused:
    return HeaderRefused("not_a_chat_model", f"{sentence} Choose language weights instead.")


def _refusal_of_parts(header: Header) -> HeaderRefused | None:
    """A split file is opened by its first part, with all others beside it."""
    count, number = header.metadata.get("split.count"), header.metadata.get("split.no")
    split = split_name(header.path.name)
    if not isinstance(count, int) or count <= 1 or split is None:
        return None
    if isinstance(number, int) and number > 0:
        return HeaderRefused(
            "unsupported",
            f"“{header.path.name}” is part {number + 1} of {count}. Open “{split.name_of(1)}”.",
        )
    for other in part_names(split):
        if not header.path.with_name(other).exists():
            return HeaderRefused(
                "incomplete_file",
                f"“{header.path.name}” has {count} parts and “{other}” is missing. "
                "Download that into the same folder.",
            )
    return None
