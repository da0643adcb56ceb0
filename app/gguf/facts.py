"""What a header says about its weights, in the form that lists, badges and searches show.

The header may lie about itself in harmless ways (its name, its file type); what can be counted
is counted from the tensor table.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import Final

from app.gguf.architectures import EMBEDDING, KNOWN, NOT_GENERATING
from app.gguf.chat_check import refusal_for_chat
from app.gguf.header import Header
from app.gguf.projector import ProjectorFacts, may_take_pictures, projector_of
from app.gguf.quantisation import FILE_TYPES, GUESSED

_NOT_QUANTISED: Final = frozenset({"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"})
_EMBEDDING_POOLS: Final = frozenset({1, 2, 3})  # llama.cpp's LLAMA_POOLING_TYPE_…: mean, cls, last
_RANKING: Final = 4
_KINDS: Final = {"adapter": "adapter", "mmproj": "projector", "imatrix": "other", "vocab": "other"}


@dataclass(frozen=True, slots=True)
class TypeShare:
    """All tensors of one type."""

    type_name: str
    n_tensors: int
    n_weights: int
    size_bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.size_bytes / self.n_weights if self.n_weights else 0.0


@dataclass(frozen=True, slots=True)
class Facts:
    """`kind`: "chat", "base" (writes text, has no template), "embedding", "adapter", "projector"
    or "other". `types` has the largest share first. `trouble` is empty, or says why the file
    cannot be chatted with and what to do. `projector`: of one; `takes_pictures`: the template has
    a place for them, so a projector is of use."""

    name: str
    architecture: str
    kind: str
    n_parameters: int
    n_layer: int | None
    n_head: int | None
    n_head_kv: int | None
    n_embd: int | None
    n_ctx_train: int | None
    n_vocab: int | None
    tokenizer: str
    has_template: bool
    licence: str
    languages: tuple[str, ...]
    size_label: str
    quantisation: str
    bits_per_weight: float
    types: tuple[TypeShare, ...]
    trouble: str
    projector: ProjectorFacts | None = None
    takes_pictures: bool = False


def facts_of(header: Header, *others: Header) -> Facts:
    """The facts of one file, or of a split set: the first part's header, then the `others`."""
    types = type_shares(header, *others)
    n_weights = sum(share.n_weights for share in types)
    size = sum(share.size_bytes for share in types)
    return Facts(
        name=header.name,
        architecture=header.architecture,
        kind=_kind(header),
        n_parameters=n_weights,
        n_layer=header.n_layer,
        n_head=_most(header, "attention.head_count"),
        n_head_kv=_most(header, "attention.head_count_kv"),
        n_embd=header.n_embd,
        n_ctx_train=header.n_ctx_train,
        n_vocab=_n_vocab(header),
        tokenizer=_tokenizer(header),
        has_template=bool(header.template_names),
        licence=_text(header, "general.license") or _text(header, "general.license.name"),
        languages=_texts(header, "general.languages"),
        size_label=_text(header, "general.size_label") or size_label(n_weights),
        quantisation=_quantisation(header, types),
        bits_per_weight=8 * size / n_weights if n_weights else 0.0,
        types=types,
        trouble=trouble_of(header),
        projector=projector_of(header),
        takes_pictures=may_take_pictures(header),
    )


def trouble_of(header: Header) -> str:
    """Why these weights cannot be chatted with, and what to do; "" if they can."""
    refused = refusal_for_chat(header)
    if refused is not None:
        return refused.sentence
    if header.architecture not in KNOWN:
        return (
            f"“{header.path.name}” uses the architecture “{header.architecture[:80]}”, which "
            "this version of llama.cpp doesn't support. Update the engine or choose another "
            "file."
        )
    return ""


def type_shares(*headers: Header) -> tuple[TypeShare, ...]:
    """Tensors by type, the one that holds the most weights first."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for header in headers:
        for tensor in header.tensors:
            row = counts[tensor.type_name]
            row[0] += 1
            row[1] += prod(tensor.shape)
            row[2] += tensor.size_bytes
    shares = [TypeShare(name, *row) for name, row in counts.items()]
    return tuple(sorted(shares, key=lambda share: (-share.n_weights, share.type_name)))


def size_label(n_weights: int) -> str:
    """A number of parameters as people say it.

    >>> size_label(134_515_008), size_label(8_030_261_312), size_label(0)
    ('135M', '8B', '')
    """
    if not n_weights:
        return ""
    for unit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        value = n_weights / unit
        if value >= 0.9995:
            digits = 0 if value >= 9.95 else 1
            return f"{value:.{digits}f}".removesuffix(".0") + letter
    return f"{max(1, round(n_weights / 1000))}K"


def _kind(header: Header) -> str:
    if header.kind in _KINDS:
        return _KINDS[header.kind]
    if header.architecture == "clip":
        return "projector"
    pooling = header.number("pooling_type")
    if header.architecture in EMBEDDING or pooling in _EMBEDDING_POOLS:
        return "embedding"
    if not header.architecture or header.architecture in NOT_GENERATING or pooling == _RANKING:
        return "other"
    return "chat" if header.template_names else "base"


def _n_vocab(header: Header) -> int | None:
    counted = header.array_counts.get("tokenizer.ggml.tokens")
    return counted if counted is not None else header.number("vocab_size")


def _tokenizer(header: Header) -> str:
    model, pre = _text(header, "tokenizer.ggml.model"), _text(header, "tokenizer.ggml.pre")
    return f"{model} ({pre})" if model and pre and pre not in (model, "default") else model


def _most(header: Header, key: str) -> int | None:
    """A number, or the largest of a list that has one for each layer."""
    value = header.metadata.get(f"{header.architecture}.{key}")
    if isinstance(value, list):
        numbers = [item for item in value if isinstance(item, int)]
        return max(numbers, default=None)
    return header.number(key)


def _text(header: Header, key: str) -> str:
    value = header.metadata.get(key)
    return value.strip() if isinstance(value, str) else ""


def _texts(header: Header, key: str) -> tuple[str, ...]:
    value = header.metadata.get(key)
    if isinstance(value, str):
        value = [value]
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _quantisation(header: Header, types: tuple[TypeShare, ...]) -> str:
    """The file type's name if a type of its family is really there, else the largest share's
    that is quantised; nearly all files keep some tensors unquantised."""
    if not types:
        return ""
    number = header.metadata.get("general.file_type")
    named = FILE_TYPES.get(number & ~GUESSED, "") if isinstance(number, int) else ""
    families = {share.type_name[:3] for share in types if share.n_weights}
    largest = next((s.type_name for s in types if s.type_name not in _NOT_QUANTISED), "")
    if named in _NOT_QUANTISED and named != types[0].type_name:
        named = ""
    if named and any(named.startswith(family) for family in families):
        return named
    return largest or types[0].type_name
