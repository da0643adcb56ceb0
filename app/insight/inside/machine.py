"""The machine that a file holds: its blocks, in the order in which a token passes them.

    embedding ─▶ attention ─▶ feed-forward ─▶ attention ─▶ … ─▶ output norm ─▶ output
                 └──────── layer 0 ───────┘

Only what the file says counts: a block is the tensors whose names put them there (`blk.7.ffn_up`
belongs to layer 7's feed-forward network), heads and windows stand in the header, sizes in the
tensor table. What the file leaves open is None, and nothing is guessed for it. Each tensor belongs
to one block, so parameters and bytes of all blocks add up to those of the file. An output matrix
that the file does not have is the embedding used once more (tied): its parameters count there, as
llama.cpp counts them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal, Protocol

from app.gguf.header import Header

Kind = Literal["embedding", "attention", "state", "ffn", "other", "output_norm", "output"]


class Named(Protocol):
    """A row of a tensor table (`header.TensorInfo`, `header_shown.TensorRow`)."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def type_name(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor. `name` without the layer: "ffn_up.weight"; `shape` as ggml has it, inputs first:
    a matrix of [n_in, n_out] makes n_out numbers of n_in."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    size_bytes: int

    @property
    def n_params(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Heads:
    """`n_head` query heads that share `n_kv` pairs of keys and values; `d_key` numbers in a query
    or key, `d_value` in a value. `window`: how far back it looks, 0 without a limit, None where it
    isn't known whether this layer is one with the window. `is_latent`: keys and values are kept as
    one compressed row (MLA). `has_sinks`: a learned place to look at nothing."""

    n_head: int
    n_kv: int
    d_key: int
    d_value: int
    window: int | None = 0
    has_qk_norm: bool = False
    has_bias: bool = False
    has_sinks: bool = False
    is_latent: bool = False


@dataclass(frozen=True, slots=True)
class Hidden:
    """A feed-forward network of `size` hidden numbers, each the product of two where it is
    `is_gated`. Of `n_expert` such networks a token passes `n_used` (0: there are none), and
    `n_shared` more that all tokens pass."""

    size: int
    is_gated: bool
    n_expert: int = 0
    n_used: int = 0
    n_shared: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """`norms`: names of the tensors that scale what comes in or goes out. `heads` of attention,
    `hidden` of a feed-forward network, as far as the file says."""

    kind: Kind
    parts: tuple[Part, ...]
    heads: Heads | None = None
    hidden: Hidden | None = None

    @property
    def n_params(self) -> int:
        return sum(part.n_params for part in self.parts)

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def bits_per_weight(self) -> float:
        return bits(self.size_bytes, self.n_params)

    @property
    def norms(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if "norm" in part.name)

    @property
    def form(self) -> tuple[object, ...]:
        """What makes two blocks alike, however their numbers are stored."""
        return (
            self.kind,
            tuple(sorted((part.name, part.shape) for part in self.parts)),
            self.heads,
            self.hidden,
        )


@dataclass(frozen=True, slots=True)
class Fold:
    """Layers from `first` to `last`, one after the other, that are built alike. `blocks[i]` are
    those of layer `first + i`: the same kinds in the same order."""

    first: int
    last: int
    blocks: tuple[tuple[Block, ...], ...]

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def form(self) -> tuple[object, ...]:
        return tuple(block.form for block in self.blocks[0])

    def column(self, at: int) -> tuple[Block, ...]:
        """The block `at` of each layer."""
        return tuple(blocks[at] for blocks in self.blocks)


@dataclass(frozen=True, slots=True)
class Machine:
    """`layers`: the blocks of each. `other`: what belongs to no block (tables of rotations, say);
    it has no place on the way. `window`: what the header says, wherever it holds; 0: none.
    `is_tied`: the output is the embedding. `missing`: parts of a split file that aren't there."""

    embedding: Block
    layers: tuple[tuple[Block, ...], ...]
    output_norm: Block
    output: Block
    other: Block
    n_embd: int
    n_vocab: int
    window: int = 0
    is_tied: bool = False
    missing: tuple[str, ...] = ()

    @property
    def blocks(self) -> Iterator[Block]:
        """All of them, in the order of the way."""
        yield self.embedding
        for layer in self.layers:
            yield from layer
        yield from (self.output_norm, self.output, self.other)

    @property
    def n_params(self) -> int:
        return sum(block.n_params for block in self.blocks)

    @property
    def size_bytes(self) -> int:
        return sum(block.size_bytes for block in self.blocks)

    @property
    def bits_per_weight(self) -> float:
        return bits(self.size_bytes, self.n_params)

    @property
    def knows_windows(self) -> bool:
        """Whether it is known of each layer how far back it looks."""
        return all(block.heads is None or block.heads.window is not None for block in self.blocks)

    @property
    def folds(self) -> tuple[Fold, ...]:
        """Neighbouring layers that are alike in one."""
        found: list[Fold] = []
        for number, blocks in enumerate(self.layers):
            one = Fold(number, number, (blocks,))
            if found and found[-1].form == one.form:
                before = found[-1]
                found[-1] = Fold(before.first, number, (*before.blocks, blocks))
            else:
                found.append(one)
        return tuple(found)


_LAYER: Final = re.compile(r"blk\.(\d+)\.(.+)")
_EMBEDDING: Final = ("token_embd", "token_types", "position_embd")
_FFN: Final = ("ffn_", "post_ffw_norm", "channel_mix_", "exp_probs_b")
_STATE: Final = ("ssm_", "shortconv.", "time_mix_")
"""Blocks that keep a state instead of keys and values: state spaces, convolutions, RWKV."""
_ATTENTION: Final = ("attn_", "post_attention_norm")
_NORMS_AT_ENDS: Final = ("attn_norm", "post_attention_norm")
_MAX_LAYERS: Final = 1 << 12


def machine_of(
    header: Header,
    tensors: Iterable[Named] | None = None,
    *,
    window_layers: Collection[int] | None = None,
    missing: Sequence[str] = (),
) -> Machine:
    """The machine of a file. `tensors`: those of all parts where it is split (None: the header's
    own). `window_layers`: those that look back no further than the window, if the engine has told;
    else the header is asked, which need not say it."""
    outside: dict[Kind, list[Part]] = {
        "embedding": [],
        "output_norm": [],
        "output": [],
        "other": [],
    }
    n_layer = min(header.n_layer or 0, _MAX_LAYERS)
    inside: list[list[Part]] = [[] for _ in range(n_layer)]
    for tensor in header.tensors if tensors is None else tensors:
        match = _LAYER.fullmatch(tensor.name)
        if match is not None and int(match[1]) < n_layer:
            inside[int(match[1])].append(_part(match[2], tensor))
        else:
            outside[_kind_outside(tensor.name)].append(_part(tensor.name, tensor))
    embedding = Block("embedding", tuple(outside["embedding"]))
    table = next((p for p in embedding.parts if p.name == "token_embd.weight"), None)
    return Machine(
        embedding=embedding,
        layers=tuple(
            _layer(header, number, parts, window_layers) for number, parts in enumerate(inside)
        ),
        output_norm=Block("output_norm", tuple(outside["output_norm"])),
        output=Block("output", tuple(outside["output"])),
        other=Block("other", tuple(outside["other"])),
        n_embd=header.n_embd or 0,
        n_vocab=table.shape[-1] if table is not None and len(table.shape) == 2 else 0,
        window=_window(header),
        is_tied=not missing
        and table is not None
        and not any(part.name == "output.weight" for part in outside["output"]),
        missing=tuple(missing),
    )


def _part(name: str, tensor: Named) -> Part:
    return Part(name, tensor.shape, tensor.type_name, tensor.size_bytes)


def _kind_outside(name: str) -> Kind:
    if name.startswith(_EMBEDDING):
        return "embedding"
    if name.startswith("output_norm"):
        return "output_norm"
    return "output" if name.startswith("output.") else "other"


# --- a layer ------------------------------------------------------------------------------------


def _layer(
    header: Header, number: int, parts: Sequence[Part], window_layers: Collection[int] | None
) -> tuple[Block, ...]:
    """Its blocks, those that are there."""
    found: dict[Kind, list[Part]] = {"attention": [], "state": [], "ffn": [], "other": []}
    for part in parts:
        found[_kind_inside(part.name)].append(part)
    if found["state"] and all(p.name.startswith(_NORMS_AT_ENDS) for p in found["attention"]):
        # A block with a state has its norm under attention's name.
        found["state"] = found["attention"] + found["state"]
        found["attention"] = []
    heads = _heads(header, number, found["attention"], window_layers)
    hidden = _hidden(header, number, found["ffn"])
    return tuple(
        Block(
            kind,
            tuple(of_kind),
            heads if kind == "attention" else None,
            hidden if kind == "ffn" else None,
        )
        for kind, of_kind in found.items()
        if of_kind
    )


def _kind_inside(name: str) -> Kind:
    if name.startswith(_ATTENTION):
        return "attention"
    if name.startswith(_STATE):
        return "state"
    return "ffn" if name.startswith(_FFN) else "other"


def _heads(
    header: Header, number: int, parts: Sequence[Part], window_layers: Collection[int] | None
) -> Heads | None:
    """None where the header does not say how many there are, or the layer has no attention."""
    shapes = {part.name: part.shape for part in parts}
    n_head = _of_layer(header, "attention.head_count", number)
    if not n_head or not any(name.startswith(("attn_q", "attn_k", "attn_o")) for name in shapes):
        return None
    n_kv = _of_layer(header, "attention.head_count_kv", number) or n_head
    d_key = _width(shapes, "attn_q.weight", n_head) or header.number("attention.key_length") or 0
    d_key = d_key or (header.n_embd or 0) // n_head
    d_value = _width(shapes, "attn_v.weight", n_kv) or header.number("attention.value_length")
    return Heads(
        n_head=n_head,
        n_kv=n_kv,
        d_key=d_key,
        d_value=d_value or d_key,
        window=_window_of(header, number, window_layers),
        has_qk_norm=any(name.startswith(("attn_q_norm", "attn_k_norm")) for name in shapes),
        has_bias=any(name.endswith(".bias") and "norm" not in name for name in shapes),
        has_sinks=any(name.startswith("attn_sinks") for name in shapes),
        is_latent="attn_kv_a_mqa.weight" in shapes,
    )


def _width(shapes: dict[str, tuple[int, ...]], name: str, n_head: int) -> int:
    """Numbers per head, by the matrix that makes them; 0 where there is no such matrix."""
    shape = shapes.get(name, ())
    return shape[1] // n_head if len(shape) == 2 and shape[1] % n_head == 0 else 0


def _hidden(header: Header, number: int, parts: Sequence[Part]) -> Hidden | None:
    shapes = {part.name: part.shape for part in parts}
    experts = shapes.get("ffn_up_exps.weight") or shapes.get("ffn_gate_up_exps.weight")
    if experts is not None and len(experts) == 3:
        is_fused = "ffn_up_exps.weight" not in shapes
        size = experts[1] // 2 if is_fused else experts[1]
        shared = shapes.get("ffn_up_shexp.weight", ())
        n_shared = header.number("expert_shared_count") or (1 if shared else 0)
        return Hidden(
            size=size,
            is_gated=is_fused or "ffn_gate_exps.weight" in shapes,
            n_expert=experts[2],
            n_used=_of_layer(header, "expert_used_count", number) or 0,
            n_shared=n_shared if shared else 0,
        )
    up = shapes.get("ffn_up.weight", ())
    if len(up) != 2:
        return None
    # Some files keep the gate and what it gates in one matrix, twice as wide.
    said = _of_layer(header, "feed_forward_length", number)
    is_fused = "ffn_gate.weight" not in shapes and said is not None and up[1] == 2 * said
    return Hidden(
        size=up[1] // 2 if is_fused else up[1],
        is_gated=is_fused or "ffn_gate.weight" in shapes,
    )


def _of_layer(header: Header, key: str, number: int) -> int | None:
    """A number, or that of one layer where the header has a list of them."""
    value = header.metadata.get(f"{header.architecture}.{key}")
    if isinstance(value, list):
        value = value[number] if number < len(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


# --- the window -----------------------------------------------------------------------------------


def _window(header: Header) -> int:
    return max(header.number("attention.sliding_window") or 0, 0)


def _window_of(header: Header, number: int, window_layers: Collection[int] | None) -> int | None:
    window = _window(header)
    if not window:
        return 0
    if window_layers is not None:
        return window if number in window_layers else 0
    said = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(said, list) and number < len(said) and isinstance(said[number], bool):
        return window if said[number] else 0
    return None


# --- figures --------------------------------------------------------------------------------------


def bits(size_bytes: int, n_params: int) -> float:
    """Bits per weight; 0 of nothing."""
    return 8 * size_bytes / n_params if n_params else 0.0
