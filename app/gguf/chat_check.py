"""Whether a file that is sound can be chatted with, as far as its header tells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.gguf.architectures import DRAFT_HEADS, EMBEDDING, NOT_GENERATING
from app.gguf.header import Header, read_header
from app.gguf.local.split_names import part_names, split_name
from app.gguf.refusal import HeaderRefused

MAX_LAYERS: Final = 512  # LLAMA_MAX_LAYERS: llama.cpp keeps per-layer values in arrays of this size

MAX_EXPERTS: Final = 512  # LLAMA_MAX_EXPERTS: llama.cpp aborts above it
TENSOR_ALIGNMENT: Final = 32  # ggml's: a mapped file whose tensors lie otherwise ends in an abort
_NOT_COMPUTED: Final = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_K"})
"""Types that no matrix product of llama.cpp's takes; it aborts at the first step."""
_TABLES: Final = ("tid2eid",)
"""Of IDs, so they are integers by right."""
_ADDED: Final = ("norm.weight", ".bias")
"""What is multiplied with or added to activations, which are F32: llama.cpp aborts at others."""
_SEPARATOR: Final = 102  # llama.cpp's for WordPiece, where the file names none
_ROPE_SCALINGS: Final = frozenset({"none", "linear", "yarn", "longrope"})
_WITH_EXPERTS: Final = frozenset({"llada-moe", "smallthinker"})
"""llama.cpp asserts that these have some; of other architectures it says which tensor it misses."""
_WITH_SECTIONS: Final = frozenset({"paddleocr"})
"""RoPE in sections: llama.cpp loads these without any, and aborts at the first step."""
MAX_TENSOR_NAME_BYTES: Final = 63  # GGML_MAX_NAME, less the zero at its end

_NOT_WEIGHTS: Final = {
    "adapter": "a LoRA adapter, which needs the model it was made for",
    "mmproj": "a projector, which needs its language model",
    "imatrix": "an importance matrix, which is used for quantising models",
    "vocab": "a vocabulary without a model",
}

_PER_TOKEN: Final = {
    "scores": ("array of float32",),
    "token_type": ("array of int32", "array of uint32"),
}


def read_chat_header(path: Path | str) -> Header:
    """The header of a file that is to be chatted with, or HeaderRefused: also for files that are
    whole but write no text (embedding weights, projectors, adapters)."""
    header = read_header(path)
    check_for_chat(header)
    return header


def read_vector_header(path: Path | str) -> Header:
    """The header of a file that is to make vectors of texts, or HeaderRefused."""
    header = read_header(path)
    may_write = header.architecture not in EMBEDDING
    refused = refusal_for_chat(header) if may_write else _refusal_of_numbers(header)
    refused = refused or _refusal_of_parts(header)
    if refused is not None:
        if refused.kind != "not_a_chat_model":
            raise refused
        sentence = f"“{header.path.name}” makes no vectors of texts. Choose an embedding model."
        raise HeaderRefused("unsupported", sentence)
    return header


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
            f"“{name}” doesn't name its architecture, so it can't be loaded. Choose another file.",
        )
    if architecture in NOT_GENERATING:
        return _not_for_chat(
            f"“{name}” is a model of type {architecture}, which doesn't generate text."
        )
    if architecture in DRAFT_HEADS:
        return _not_for_chat(
            f"“{name}” is a model of type {architecture}, which only drafts for other models."
        )
    return _refusal_of_numbers(header)


def _refusal_of_numbers(header: Header) -> HeaderRefused | None:
    name, layers = header.path.name, header.n_layer
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        return HeaderRefused(
            "unsupported",
            f"“{name}” claims {layers:,} layers, but the engine supports at most {MAX_LAYERS}. "
            "The file is damaged or needs a newer engine.",
        )
    words = next(_impossible(header), None)
    if words is None:
        return None
    return HeaderRefused(
        "unsupported", f"“{name}” {words}. The file is damaged or needs a newer engine."
    )


def _impossible(header: Header) -> Iterator[str]:
    """What llama.cpp's reader does not take, or aborts at."""
    long = next((t for t in header.tensors if len(t.name.encode()) > MAX_TENSOR_NAME_BYTES), None)
    if long is not None:
        yield (
            f"has a tensor whose name is too long ({len(long.name.encode())} bytes: "
            f"“{long.name[:40]}…”)"
        )
    if header.tensors and header.data_offset % TENSOR_ALIGNMENT:
        yield f"has tensors that don't start at a multiple of {TENSOR_ALIGNMENT} bytes"
    yield from _impossible_types(header)
    yield from _impossible_experts(header)
    yield from _impossible_numbers(header)
    yield from _impossible_vocabulary(header)


def _impossible_types(header: Header) -> Iterator[str]:
    for tensor in header.tensors:
        is_table = any(name in tensor.name for name in _TABLES)
        is_added = tensor.name.endswith(_ADDED) and tensor.type_name != "F32"
        if is_added or (tensor.type_name in _NOT_COMPUTED and not is_table):
            yield f"stores the tensor “{tensor.name}” as {tensor.type_name}, which isn't supported"


def _impossible_experts(header: Header) -> Iterator[str]:
    experts, used = header.number("expert_count") or 0, header.number("expert_used_count") or 0
    if not 0 <= experts <= MAX_EXPERTS:
        yield f"claims {experts:,} experts, but the engine supports at most {MAX_EXPERTS}"
    if not experts and header.architecture in _WITH_EXPERTS:
        yield f"has no experts, which {header.architecture} models need"
    by_layer = header.metadata.get(f"{header.architecture}.expert_used_count")
    if isinstance(by_layer, list):
        used = max((int(n) for n in by_layer if isinstance(n, int)), default=0)
    is_long = f"{header.architecture}.expert_used_count" in header.array_counts and not by_layer
    if not is_long and not (0 < used <= experts or experts == used == 0):
        yield f"claims to use {used:,} of {experts:,} experts"
    groups = header.number("expert_group_count") or 0
    used_groups = header.number("expert_group_used_count") or 0
    is_split = groups <= 1 or (experts % groups == 0 and 0 < used_groups < groups)
    if not is_split or groups > max(experts - 1, 0):
        yield f"splits {experts:,} experts into {groups:,} groups and uses {used_groups:,} of them"


def _impossible_numbers(header: Header) -> Iterator[str]:
    extra, layers = header.number("nextn_predict_layers") or 0, header.n_layer
    if layers is not None and extra > layers:
        yield f"claims that {extra:,} of its {layers:,} layers predict extra tokens"
    scaling = header.metadata.get(f"{header.architecture}.rope.scaling.type")
    if isinstance(scaling, str) and scaling not in _ROPE_SCALINGS:
        yield f"uses the RoPE scaling “{scaling[:40]}”, which llama.cpp doesn't support"
    sections = header.metadata.get(f"{header.architecture}.rope.dimension_sections")
    has_section = any(sections[:3]) if isinstance(sections, list) else bool(sections)
    if header.architecture in _WITH_SECTIONS and not has_section:
        yield "lacks its RoPE dimension sections"
    rotated, head = header.number("rope.dimension_count"), _head_size(header)
    if rotated is not None and head is not None and (rotated > head or rotated % 2):
        yield f"applies RoPE to {rotated:,} of the {head:,} values of a head"
    start = f"{header.architecture}."
    for key, value in header.metadata.items():
        if not key.startswith(start) or not isinstance(value, float):
            continue
        if not math.isfinite(value) or (key.endswith("epsilon") and value < 0):
            yield f"has an impossible value for “{key[:80]}” ({value})"


def _head_size(header: Header) -> int | None:
    """Values per head of K, as llama.cpp has it; None where the header does not say it for all
    layers."""
    own = header.number("attention.key_length")
    heads, width = header.number("attention.head_count"), header.n_embd
    return own or (width // heads if heads and heads > 0 and width else None)


def _impossible_vocabulary(header: Header) -> Iterator[str]:
    """Each array of the vocabulary has its kind, and one item for each token."""
    tokens = header.entries.get("tokenizer.ggml.tokens")
    if tokens is None:
        return
    model = header.metadata.get("tokenizer.ggml.model")
    if model in ("none", "no_vocab"):
        yield "has no vocabulary"
    separator = header.metadata.get("tokenizer.ggml.seperator_token_id", _SEPARATOR)
    if model == "bert" and isinstance(separator, int) and not 0 <= separator < tokens.count:
        yield "has a vocabulary without the separator that its tokeniser (WordPiece) needs"
    if tokens.kind_name != "array of string":
        yield "has tokens that aren't text"
    for name, kinds in _PER_TOKEN.items():
        entry = header.entries.get(f"tokenizer.ggml.{name}")
        if entry is None:
            continue
        if entry.kind_name not in kinds:
            yield f"stores “{name}” of its vocabulary as {entry.kind_name}"
        elif entry.count < tokens.count:
            yield f"has {tokens.count:,} tokens, but “{name}” for only {entry.count:,} of them"


def _not_for_chat(sentence: str) -> HeaderRefused:
    return HeaderRefused("not_a_chat_model", f"{sentence} Choose a language model instead.")


def _refusal_of_parts(header: Header) -> HeaderRefused | None:
    """A split file is opened by its first part, with all others beside it."""
    count, number = header.metadata.get("split.count"), header.metadata.get("split.no")
    split = split_name(header.path.name)
    if not isinstance(count, int) or count <= 1:
        return None
    if split is None or split.of != count:
        which = number + 1 if isinstance(number, int) else 1
        return HeaderRefused(
            "unsupported",
            f"“{header.path.name}” is part {which:,} of {count:,}, but its name doesn't say so. "
            f"Rename the parts so that their names end in “-{which:05d}-of-{count:05d}.gguf”.",
        )
    if isinstance(number, int) and number > 0:
        return HeaderRefused(
            "unsupported",
            f"“{header.path.name}” is part {number + 1} of {count}. Open “{split.name_of(1)}”.",
        )
    for other in part_names(split):
        if not header.path.with_name(other).exists():
            return HeaderRefused(
                "incomplete_file",
                f"“{header.path.name}” has {count} parts, but “{other}” is missing. Download it "
                "into the same folder.",
            )
    return None
