"""How many bytes a GGUF file takes in memory: arithmetic on its header.

Pure functions; nothing here imports llama.cpp, so that an estimate can be shown before anything
is loaded. The sizes of matrices and caches are exact (a test compares them with what llama.cpp
reports); the compute buffer is a reserve.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from app.engine.protocol.cache_messages import CacheLayers
from app.gguf.header import Header, TensorInfo
from app.gguf.tensor_types import TENSOR_TYPES, TensorType

MIB: Final = 1024 * 1024

CACHE_TYPES: Final[dict[str, TensorType]] = {
    kind.name.lower(): kind
    for kind in TENSOR_TYPES.values()
    if kind.name in ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL")
}
"""Types that a KV cache may have, by the names that the protocol uses."""

PLAIN_TYPES: Final = frozenset(("f32", "f16", "bf16"))
"""Of these, in which numbers lie as they are."""

_EXPERTS: Final = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
"""llama.cpp's own pattern for the tensors that `--n-cpu-moe` keeps in host memory."""

_REPACK_ROWS: Final = 8


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """What the header says about sizes.

    `layer_bytes[i]` and `kv_bytes_per_token[i]` belong to repeating layer i, `expert_bytes[i]`
    is the part of a layer that is experts, `repacked_bytes[i]` what the processor keeps of it a
    second time in another order (the last entry is the output matrix's). `output_bytes` is the
    output matrix (a copy of the embedding where the file ties them), `input_bytes` the embedding
    and whatever else stays in host memory; `is_tied` says that the two share the same bytes as
    long as both lie in host memory. `state_bytes[i]`: what layer i keeps of all sequences together,
    however long they are (layers that have a state instead of cells).
    """

    layer_bytes: tuple[int, ...]
    kv_bytes_per_token: tuple[int, ...]
    input_bytes: int
    output_bytes: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    expert_bytes: tuple[int, ...] = ()
    repacked_bytes: tuple[int, ...] = ()
    tied_bytes: int = 0
    adapter_bytes: int = 0
    state_bytes: tuple[int, ...] = ()

    @property
    def n_layer(self) -> int:
        return len(self.layer_bytes)

    @property
    def has_experts(self) -> bool:
        return any(self.expert_bytes)

    def kv_bytes(self, n_ctx: int) -> int:
        return sum(self.kv_bytes_per_token) * n_ctx

    def experts_of(self, layer: int) -> int:
        return self.expert_bytes[layer] if layer < len(self.expert_bytes) else 0

    def state_of(self, layer: int) -> int:
        return self.state_bytes[layer] if layer < len(self.state_bytes) else 0

    def repacked_of(self, layer: int) -> int:
        return self.repacked_bytes[layer] if layer < len(self.repacked_bytes) else 0

    def compute_bytes(self, n_ubatch: int, n_ctx: int) -> int:
        """Reserve for the compute buffer: activations, the attention mask, one row of scores.

        Generous on purpose: llama.cpp reports 7 to 60 % of it on the files that we measured.
        """
        activations = n_ubatch * self.n_embd * 4 * 16
        mask = n_ubatch * n_ctx * 6
        return activations + mask + 4 * self.n_vocab * 4 + 64 * MIB


def cache_row_bytes(type_name: str, width: int) -> int:
    """Bytes of one row of `width` values of a cache type (whole blocks).

    >>> cache_row_bytes("f16", 192), cache_row_bytes("q8_0", 192)
    (384, 204)
    """
    kind = CACHE_TYPES[type_name]
    return -(-width // kind.block_elements) * kind.block_bytes


@dataclass(frozen=True, slots=True)
class Outline:
    """What of a header decides how much memory it takes.

    A few numbers for each layer, some kilobytes in all: hundreds of files can be judged again for
    other settings without their headers. `matrices[i]` has the bytes of layer i by tensor type, as
    far as the processor could keep them in another order; the last entry is the output's.
    `cache_widths[i]`: values of K and V that layer i keeps for a token; `state_bytes[i]`: what it
    keeps of a sequence beside them. `head_widths`, `is_latent`:
    see the functions of these names.
    """

    file_name: str
    layer_bytes: tuple[int, ...]
    expert_bytes: tuple[int, ...]
    matrices: tuple[Mapping[str, int], ...]
    cache_widths: tuple[tuple[int, int], ...]
    input_bytes: int
    output_bytes: int
    tied_bytes: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    head_widths: tuple[int, int] | None
    is_latent: bool
    state_bytes: tuple[int, ...] = ()

    @property
    def n_layer(self) -> int:
        return len(self.layer_bytes)

    def sizes(
        self,
        type_k: str,
        type_v: str,
        repacked: frozenset[str] = frozenset(),
        n_slots: int = 1,
    ) -> WeightSizes:
        """For these types of the cache and so many sequences. `repacked`: tensor types that this
        processor keeps in another order (see `native`)."""
        rows = {
            widths: cache_row_bytes(type_k, widths[0]) + cache_row_bytes(type_v, widths[1])
            for widths in set(self.cache_widths)
        }
        again = (sum(found.get(name, 0) for name in repacked) for found in self.matrices)
        return WeightSizes(
            layer_bytes=self.layer_bytes,
            kv_bytes_per_token=tuple(rows[widths] for widths in self.cache_widths),
            input_bytes=self.input_bytes,
            output_bytes=self.output_bytes,
            n_embd=self.n_embd,
            n_vocab=self.n_vocab,
            n_ctx_train=self.n_ctx_train,
            expert_bytes=self.expert_bytes,
            repacked_bytes=tuple(again),
            tied_bytes=self.tied_bytes,
            state_bytes=tuple(size * n_slots for size in self.state_bytes),
        )


def outline_of(header: Header) -> Outline:
    """Bytes per layer from the tensor table, and what the layers keep of each token."""
    n_layer = header.n_layer or 1
    layers, experts = [0] * n_layer, [0] * n_layer
    matrices: list[dict[str, int]] = [{} for _ in range(n_layer + 1)]
    shapes: dict[str, tuple[int, ...]] = {}
    state = [0] * n_layer
    output = outside = embedding = 0
    for tensor in header.tensors:
        shapes[tensor.name] = tensor.shape
        layer = layer_of(tensor.name, n_layer)
        if layer is not None:
            state[layer] = state[layer] or _state_bytes(header, tensor.name)
            layers[layer] += tensor.size_bytes
            experts[layer] += tensor.size_bytes if _EXPERTS.search(tensor.name) else 0
            _count_matrix(matrices[layer], tensor)
        elif tensor.name.startswith("output"):
            output += tensor.size_bytes
            _count_matrix(matrices[n_layer], tensor)
        else:
            outside += tensor.size_bytes
            if tensor.name == "token_embd.weight":
                embedding = tensor.size_bytes
    tied = 0 if "output.weight" in shapes else embedding
    return Outline(
        file_name=header.path.name,
        layer_bytes=tuple(layers),
        expert_bytes=tuple(experts),
        matrices=tuple(matrices),
        cache_widths=tuple(_cache_widths(header, shapes, layer) for layer in range(n_layer)),
        input_bytes=outside,
        output_bytes=output + tied,
        tied_bytes=tied,
        n_embd=header.n_embd or 4096,
        n_vocab=shapes.get("token_embd.weight", (0, 32_000))[-1],
        n_ctx_train=header.n_ctx_train or 4096,
        head_widths=head_widths(header),
        is_latent=is_latent(header),
        state_bytes=tuple(state) if any(state) else (),
    )


def _state_bytes(header: Header, tensor_name: str) -> int:
    """What a layer with such a tensor keeps of each sequence, in f32; 0 where it keeps cells.

    State spaces keep the last inputs of their convolution and the state (llama.cpp's
    `n_embd_r` and `n_embd_s`), short convolutions the former alone, RWKV the tokens that it
    shifts in and a matrix for each head.
    """
    part = tensor_name.split(".", 2)[2]
    n_embd = header.n_embd or 0
    if part.startswith("ssm_"):
        inner, state = header.number("ssm.inner_size") or 0, header.number("ssm.state_size") or 0
        groups = header.number("ssm.group_count") or 0
        kept = max((header.number("ssm.conv_kernel") or 0) - 1, 0)
        return 4 * (kept * (inner + 2 * groups * state) + state * inner)
    if part.startswith("shortconv."):
        return 4 * max((header.number("shortconv.l_cache") or 1) - 1, 0) * n_embd
    if part.startswith("time_mix_"):
        shifted = header.number("token_shift_count") or 2
        return 4 * n_embd * (shifted + (header.number("wkv.head_size") or 0))
    return 0


def _count_matrix(by_type: dict[str, int], tensor: TensorInfo) -> None:
    """Matrices are kept in another order in groups of eight rows."""
    if len(tensor.shape) >= 2 and tensor.shape[1] % _REPACK_ROWS == 0:
        by_type[tensor.type_name] = by_type.get(tensor.type_name, 0) + tensor.size_bytes


def cache_layers(header: Header, type_k: str, type_v: str) -> list[CacheLayers]:
    """What the layers keep for each token; neighbours that keep the same are one entry."""
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    heads = header.metadata.get(f"{header.architecture}.attention.head_count_kv")
    found: list[CacheLayers] = []
    for layer in range(header.n_layer or 1):
        keys, values = _cache_widths(header, shapes, layer)
        one = CacheLayers(
            n_layers=1,
            k_width=keys,
            v_width=values,
            k_bytes=cache_row_bytes(type_k, keys),
            v_bytes=cache_row_bytes(type_v, values),
            n_head_kv=_head_count(heads, layer),
        )
        if found and _with_layers(found[-1], 1) == one:
            found[-1] = _with_layers(found[-1], found[-1].n_layers + 1)
        else:
            found.append(one)
    return found


def _with_layers(group: CacheLayers, n_layers: int) -> CacheLayers:
    return msgspec.structs.replace(group, n_layers=n_layers)


def _head_count(heads: object, layer: int) -> int:
    """A number, or one for each layer; 0 where the header says neither."""
    found = heads[layer] if isinstance(heads, list | tuple) and layer < len(heads) else heads
    return found if isinstance(found, int) else 0


def layer_of(name: str, n_layer: int) -> int | None:
    """
    >>> layer_of("blk.7.attn_k.weight", 30)
    7
    """
    parts = name.split(".", 2)
    if parts[0] != "blk" or len(parts) < 3 or not parts[1].isdecimal():
        return None
    layer = int(parts[1])
    return layer if layer < n_layer else None


def _cache_widths(
    header: Header, shapes: dict[str, tuple[int, ...]], layer: int
) -> tuple[int, int]:
    """Values per token that one layer keeps: for K and for V.

    The widths stand in the shapes of the key and value matrices, whatever the metadata say;
    fused matrices need the metadata, and latent attention (MLA) keeps one compressed row. The last
    layers keep nothing where they read what earlier ones keep (Gemma 3n, Gemma 4), or only predict
    further tokens (llama.cpp's `n_layer_kv_from_start`).
    """
    borrowing = header.number("attention.shared_kv_layers") or header.number("nextn_predict_layers")
    if borrowing and layer >= (header.n_layer or 1) - borrowing:
        return 0, 0
    keys = shapes.get(f"blk.{layer}.attn_k.weight")
    values = shapes.get(f"blk.{layer}.attn_v.weight")
    if keys is not None and len(keys) == 2:
        return keys[1], values[1] if values is not None and len(values) == 2 else keys[1]
    latent = header.number("attention.kv_lora_rank")
    if latent:
        return latent + (header.number("rope.dimension_count") or 64), 0
    if f"blk.{layer}.attn_qkv.weight" not in shapes:
        return 0, 0
    heads = header.number("attention.head_count") or 1
    per_head = header.number("attention.key_length") or (header.n_embd or 4096) // heads
    width = (header.number("attention.head_count_kv") or heads) * per_head
    return width, width


def head_widths(header: Header) -> tuple[int, int] | None:
    """Values per head of K and of V, or None where the header does not say it for all layers."""
    keys = header.number("attention.key_length")
    values = header.number("attention.value_length")
    heads = header.number("attention.head_count")
    if heads and header.n_embd:
        keys, values = keys or header.n_embd // heads, values or header.n_embd // heads
    return (keys, values) if keys and values else None


def is_latent(header: Header) -> bool:
    """Latent attention (MLA) keeps K and V in one row, so both have one type."""
    return header.number("attention.kv_lora_rank") is not None
