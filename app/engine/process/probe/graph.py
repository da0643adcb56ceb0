"""Which node of a computation graph is what, found out from the graph itself.

llama.cpp names some nodes, but each architecture its own way, and one name may stand on two of them
(`ffn_out-N` of a Llama is the feed-forward network's write *and* the sum after it). What all of
them share is how they are built, and that is what is followed here:

    token_embd ─▶ stream ─┬──────────────▶ + ─┬─────────▶ + ─▶ … ─▶ norm ─▶ output
                          └▶ norm ▶ attention ┘└▶ norm ▶ FFN ┘

The stream (residual stream) is one vector per token, which each block reads and adds to. So the
additions are walked from the first layer's input on: the other side of each is a *write*, and the
tensors that it was made of (`blk.7.attn_output.weight`, `blk.7.ffn_down.weight`) say whose it is.

Pure: it works on `Node`s, which `watch.learn` makes of a real graph. What must hold: nothing is
guessed; what cannot be found for certain is missing, with a reason for a person.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.engine.protocol.inside_messages import NO_EXPERTS


class Leaf(NamedTuple):
    """A tensor that is not computed: a weight, an input, a cache. Inputs of two caches bear one
    name, so `key` tells them apart: it is where the tensor lies, and tensors lie in the order in
    which they were made. Negative: a copy on another device, which lies anywhere."""

    name: str
    key: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A computed tensor. `shape`: ggml's extents, fastest first. `sources`: the ordinal of another
    node, or a leaf. `params`: of a rotation what it was given (`op_params`, sixteen int32)."""

    name: str
    op: str
    shape: tuple[int, ...]
    sources: tuple[int | Leaf, ...]
    params: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """A product with a matrix of the file, `weight`, of the node `source`. Behind it there may come
    a `bias` (added), then a norm with its `gain` (multiplied): names of tensors."""

    ordinal: int
    source: int
    weight: str
    bias: str = ""
    has_norm: bool = False
    gain: str = ""


@dataclass(slots=True)
class LayerNodes:
    """Ordinals of one layer; None or empty: this graph has no such node.

    `attention`: where rows of attention can be read: FLASH_ATTN_EXT (from its sources) or SOFT_MAX;
    `weighted`: the node that has values as a source, which is the former, or a product.
    `heads`: the outputs of all `n_head` heads, which share `n_kv_head` KV heads, before they are
    mixed (`kqv_out`); `mix`: how they become what attention writes. `attn_writes`, `ffn_writes`:
    what is added to the stream; `other_writes`: of blocks that are neither (a state space, a
    convolution). `residual`: the stream after this layer. `cache_write`: SET_ROWS of K; `cache`:
    which of the graph's caches its queries read, that of an earlier layer where it has no keys of
    its own.
    `rotation`: what the query's rotation was given; `rotation_factors`: the tensor that has a
    factor for each pair, where there is one.
    """

    attention: int | None = None
    weighted: int | None = None
    q_before: int | None = None
    q_after: int | None = None
    k_after: int | None = None
    heads: int | None = None
    n_head: int = 0
    n_kv_head: int = 0
    mix: Product | None = None
    attn_writes: list[int] = field(default_factory=list)
    ffn_writes: list[int] = field(default_factory=list)
    other_writes: list[int] = field(default_factory=list)
    residual: int | None = None
    cache: int | None = None
    cache_write: int | None = None
    rotation: tuple[int, ...] = ()
    rotation_factors: str = ""
    experts: int | None = None
    expert_weights: int | None = None


@dataclass(slots=True)
class GraphMap:
    """What a graph offers. `embedding`: what enters the first layer. `norm`: the last norm, before
    its `norm_gain` and `norm_bias`, which make `result_norm` of it. `output`: the product with the
    output matrix; what is done to it then (a scale, a soft cap) gives `logits`. `caches`: the
    layers by the cache that they write to: those without a window, then those with one, as far as
    `caches_in_order`; between several devices that is not known."""

    layers: list[LayerNodes]
    embedding: int | None = None
    result_norm: int | None = None
    norm: int | None = None
    norm_gain: str = ""
    norm_bias: str = ""
    output: Product | None = None
    logits: int | None = None
    caches: list[list[int]] = field(default_factory=list)
    caches_in_order: bool = True
    missing: dict[str, str] = field(default_factory=dict)

    def in_order_of_caches(self, n_layers: Sequence[int]) -> list[int] | None:
        """Of things that llama.cpp has one of for each cache, without a window first, and of which
        each is about so many layers: their order by `caches`. None where it can't be told."""
        wanted = [len(layers) for layers in self.caches]
        if len(wanted) == len(n_layers) == 1:
            return [0]  # it may have room for layers that store nothing
        if sorted(wanted) != sorted(n_layers):
            return None
        if len(set(wanted)) == len(wanted):
            return [list(n_layers).index(count) for count in wanted]
        return list(range(len(wanted))) if self.caches_in_order else None


NO_STREAM: Final = "This architecture's layers aren't a chain of additions, so they can't be shown."
NO_ATTENTION: Final = "This architecture has no attention."
NO_ROTATION: Final = "This architecture doesn't rotate its queries and keys (no RoPE)."
NO_HEADS: Final = "This architecture's heads can't be told apart in its graph."
NO_LOGITS: Final = "This architecture's output can't be found in its graph."
SOME_LAYERS: Final = "Some layers of this architecture don't have it."

_NORMS: Final = frozenset(("RMS_NORM", "NORM", "GROUP_NORM", "L2_NORM"))
_SAME: Final = frozenset(("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "CONT", "CPY", "DUP", "CAST"))
"""They change where numbers lie, and not the numbers."""

_EXPERT_WEIGHTS: Final = frozenset(
    f"ffn_moe_weights{step}" for step in ("", "_softmax", "_norm", "_scaled")
)
_BLOCK: Final = re.compile(r"blk\.(\d+)\.")
_ATTENTION: Final = re.compile(r"blk\.(\d+)\.attn_")
_CACHE_K: Final = re.compile(r"cache_k_l(\d+)")
_UNNAMED: Final = "leaf_"
"""How ggml calls a tensor that nobody has named."""

_ATTENTION_OUTPUT: Final = re.compile(r"blk\.\d+\.attn_(output|out|o)\.weight$")


def read_graph(nodes: Sequence[Node], n_layer: int, n_embd: int) -> GraphMap:
    """Find everything that there is in the graph of one token."""
    found = GraphMap([LayerNodes() for _ in range(n_layer)])
    _find_attention(nodes, found)
    _find_output(nodes, found)
    _find_last_norm(nodes, found)
    if not _walk_stream(nodes, found, n_embd):
        for layer in found.layers:
            layer.attn_writes, layer.ffn_writes, layer.other_writes = [], [], []
            layer.residual = None
        found.missing |= dict.fromkeys(("attn_out", "ffn_out", "residual"), NO_STREAM)
    for layer in found.layers:
        if layer.heads is not None and len(layer.attn_writes) == 1:
            layer.mix = _mix(nodes, layer.attn_writes[0], layer.heads)
    _name_what_is_missing(found)
    return found


# --- the residual stream ----------------------------------------------------------------------


def _walk_stream(nodes: Sequence[Node], found: GraphMap, n_embd: int) -> bool:
    """Follow the stream from addition to addition. False where it does not reach the output."""
    begin = _first_input(nodes)
    if begin is None:
        return False
    found.embedding = begin
    consumers = _consumers(nodes)
    stream, passed, layer = begin, {begin}, None
    while (step := _next_step(nodes, consumers, stream, n_embd)) is not None:
        stream, write = step.stream, step.write
        passed |= {stream, *step.aliases}
        if write is None:
            if step.is_direction and layer is not None:
                found.layers[layer].residual = stream
            continue
        layer = _attribute(nodes, found, write, passed)
        if layer is None:
            return False
        found.layers[layer].residual = stream
    if found.result_norm is None:
        return False
    return stream in set(_back(nodes, found.result_norm, _NORMS))


class _Step(NamedTuple):
    stream: int
    write: int | None
    aliases: frozenset[int]
    is_direction: bool = False


def _first_input(nodes: Sequence[Node]) -> int | None:
    """What the first layer reads: the embedding, scaled or with its position added."""
    for node in nodes:
        if any(isinstance(s, Leaf) and s.name.startswith("blk.0.") for s in node.sources):
            begin = next((s for s in node.sources if isinstance(s, int)), None)
            while begin is not None and nodes[begin].op in _NORMS | _SAME:
                begin = next((s for s in nodes[begin].sources if isinstance(s, int)), None)
            return begin
    return None


def _consumers(nodes: Sequence[Node]) -> dict[int, list[int]]:
    consumers: dict[int, list[int]] = {}
    for ordinal, node in enumerate(nodes):
        for source in node.sources:
            if isinstance(source, int):
                consumers.setdefault(source, []).append(ordinal)
    return consumers


def _next_step(
    nodes: Sequence[Node], consumers: dict[int, list[int]], stream: int, n_embd: int
) -> _Step | None:
    """The next addition to the stream, or its scaling; a control vector is added as it is, behind
    a layer's own writes (`build_cvec`), and has no name in the file. The last layer first takes out
    the rows whose scores are wanted (GET_ROWS): they are the stream as well."""
    same = {stream}
    for ordinal in consumers.get(stream, ()):
        if nodes[ordinal].op == "GET_ROWS" and nodes[ordinal].sources[0] == stream:
            same.add(ordinal)
    readers = sorted(c for s in same for c in consumers.get(s, ()))
    for ordinal in readers:
        node = nodes[ordinal]
        others = [s for s in node.sources if s not in same]
        if node.op == "ADD" and node.shape[0] == n_embd and len(others) == 1:
            write = others[0]
            if isinstance(write, int):
                return _Step(ordinal, write, frozenset(same))
            if write.name.startswith(_UNNAMED) or not write.name:
                return _Step(ordinal, None, frozenset(same), is_direction=True)
    for ordinal in readers:
        node = nodes[ordinal]
        others = [s for s in node.sources if s not in same]
        is_scale = node.op == "SCALE" or (
            node.op == "MUL" and all(isinstance(s, Leaf) and "norm" not in s.name for s in others)
        )
        if is_scale and node.shape[0] == n_embd:
            return _Step(ordinal, None, frozenset(same))
    return None


def _attribute(
    nodes: Sequence[Node], found: GraphMap, write: int, stream: Collection[int]
) -> int | None:
    """Note whose write it is; its layer, or None where that cannot be told."""
    weights = set(_weights_of(nodes, write, stream))
    layers = {int(match[1]) for name in weights if (match := _BLOCK.match(name))}
    if len(layers) != 1:
        return None
    number = layers.pop()
    if number >= len(found.layers):
        return None
    has_attention = any(map(_ATTENTION_OUTPUT.match, weights))
    has_ffn = any(".ffn_" in name and "norm" not in name for name in weights)
    layer, node = found.layers[number], nodes[write]
    parts = [s for s in node.sources if isinstance(s, int)]
    if has_attention and has_ffn and node.op == "ADD" and len(parts) == 2:
        if any(_attribute(nodes, found, part, stream) is None for part in parts):
            return None
    elif has_attention and has_ffn:
        return None
    elif has_attention:
        layer.attn_writes.append(write)
    elif has_ffn:
        layer.ffn_writes.append(write)
    else:
        layer.other_writes.append(write)
    return number


def _weights_of(nodes: Sequence[Node], ordinal: int, stop: Collection[int]) -> Iterator[str]:
    """Names of the leaves that a node is made of, without what the stream brought along."""
    seen, waiting = set(stop), [ordinal]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        for source in nodes[at].sources:
            if isinstance(source, int):
                waiting.append(source)
            else:
                yield source.name


# --- attention --------------------------------------------------------------------------------


def _find_attention(nodes: Sequence[Node], found: GraphMap) -> None:
    caches: dict[int, list[int]] = {}
    for ordinal, node in enumerate(nodes):
        if node.op == "SET_ROWS":
            layer = _layer_of_cache(nodes, ordinal)
            if layer is not None and layer < len(found.layers):
                at = found.layers[layer]
                at.cache_write = ordinal
                at.k_after = _rotated(nodes, node.sources[0])
                index = node.sources[1]
                caches.setdefault(index.key if isinstance(index, Leaf) else -1, []).append(layer)
    found.caches = [caches[key] for key in sorted(caches)]
    found.caches_in_order = min(caches, default=0) >= 0
    for ordinal, node in enumerate(nodes):
        if node.op == "FLASH_ATTN_EXT":
            (query, keys), layer = node.sources[:2], _layer_of_cache(nodes, node.sources[1])
        elif node.op == "SOFT_MAX" and node.name.startswith("kq_soft_max"):
            product = _product(nodes, node.sources[0])
            if product is None:
                continue
            (keys, query), layer = product, _layer_of_cache(nodes, product[0])
        else:
            if node.op == "MUL_MAT" and isinstance(node.sources[0], Leaf):
                match = _ATTENTION_OUTPUT.match(node.sources[0].name)
                source = node.sources[1]
                number = int(match[0].split(".")[1]) if match else len(found.layers)
                if number < len(found.layers) and isinstance(source, int):
                    found.layers[number].heads = source
            continue
        cache = next((c for c, layers in enumerate(found.caches) if layer in layers), None)
        layer = _layer_of_query(nodes, query)
        if cache is None or layer is None or layer >= len(found.layers):
            continue
        at = found.layers[layer]
        at.attention, at.cache = ordinal, cache
        at.weighted = ordinal if node.op == "FLASH_ATTN_EXT" else _weighing(nodes, ordinal)
        # [d_head, n_head, n_tok] of the one, [n_cells, n_tok, n_head] of the other
        at.n_head = node.shape[1 if node.op == "FLASH_ATTN_EXT" else 2]
        at.n_kv_head = nodes[keys].shape[2] if isinstance(keys, int) else 0
        at.q_after = _rotated(nodes, query)
        if at.q_after is not None:
            rotation = nodes[at.q_after]
            before, *_, last = rotation.sources
            at.q_before = before if isinstance(before, int) else None
            at.rotation = rotation.params
            if len(rotation.sources) == 3 and isinstance(last, Leaf):
                at.rotation_factors = last.name


def _layer_of_query(nodes: Sequence[Node], query: int | Leaf) -> int | None:
    """Whose queries these are: the layer of the nearest matrix of attention that they come from."""
    waiting, seen = deque([query]), {query}
    while waiting:
        source = waiting.popleft()
        if isinstance(source, Leaf):
            if match := _ATTENTION.match(source.name):
                return int(match[1])
            continue
        new = [each for each in nodes[source].sources if each not in seen]
        seen.update(new)
        waiting.extend(new)
    return None


def _weighing(nodes: Sequence[Node], softmax: int) -> int | None:
    """The product of the values with the rows of a softmax."""
    followers = (
        at
        for at in range(softmax + 1, len(nodes))
        if nodes[at].op == "MUL_MAT" and nodes[at].sources[1] == softmax
    )
    return next(followers, None)


def _layer_of_cache(nodes: Sequence[Node], source: int | Leaf) -> int | None:
    """Whose keys these are: the layer in the name of the cache that they lie in."""
    for _ in range(len(nodes)):
        if isinstance(source, Leaf):
            match = _CACHE_K.match(source.name)
            return int(match[1]) if match else None
        node = nodes[source]
        if node.op == "SET_ROWS":
            source = node.sources[2]
        elif node.op in _SAME:
            source = node.sources[0]
        else:
            return None
    return None


def _product(nodes: Sequence[Node], source: int | Leaf) -> tuple[int | Leaf, int | Leaf] | None:
    """K and Q of the scores, which a soft cap may have bent on their way to the softmax."""
    while isinstance(source, int):
        node = nodes[source]
        if node.op == "MUL_MAT":
            return node.sources[0], node.sources[1]
        source = node.sources[0]
    return None


def _rotated(nodes: Sequence[Node], source: int | Leaf) -> int | None:
    """The rotation (ROPE) that a query or key comes from. On its way it may have been scaled, and
    turned once more for a quantised cache (a product with a leaf)."""
    while isinstance(source, int):
        node = nodes[source]
        if node.op == "ROPE":
            return source
        if node.op == "MUL_MAT" and isinstance(node.sources[0], Leaf):
            if "rot" not in node.sources[0].name:
                return None
            source = node.sources[1]
        elif node.op in _SAME or node.op == "SCALE":
            source = node.sources[0]
        else:
            return None
    return None


# --- output -----------------------------------------------------------------------------------


def _find_output(nodes: Sequence[Node], found: GraphMap) -> None:
    for ordinal, node in enumerate(nodes):
        name, _, number = node.name.rpartition("-")
        if node.name == "result_norm":
            found.result_norm = ordinal
        elif node.name == "result_output":
            found.logits = ordinal
        elif number.isdigit() and int(number) < len(found.layers):
            layer = found.layers[int(number)]
            if name == "ffn_moe_topk":
                layer.experts = ordinal
            elif name in _EXPERT_WEIGHTS:
                layer.expert_weights = ordinal  # the last of them is what counts
    if found.logits is None:
        found.missing["logits"] = NO_LOGITS


def _find_last_norm(nodes: Sequence[Node], found: GraphMap) -> None:
    """How the last stream becomes scores: norm · gain + bias, then the output matrix."""
    at: int | Leaf | None = found.result_norm
    while isinstance(at, int) and nodes[at].op not in _NORMS:
        node = nodes[at]
        leaf = next((s.name for s in node.sources if isinstance(s, Leaf)), "")
        if node.op == "MUL" and leaf:
            found.norm_gain = leaf
        elif node.op == "ADD" and leaf:
            found.norm_bias = leaf
        elif node.op not in _SAME:
            return
        at = next((s for s in node.sources if isinstance(s, int)), None)
    if not isinstance(at, int) or nodes[at].op not in ("RMS_NORM", "NORM"):
        return
    found.norm = at
    at, bias = found.logits, ""
    while isinstance(at, int):
        node = nodes[at]
        if node.op == "MUL_MAT" and isinstance(node.sources[0], Leaf):
            source = node.sources[1]
            if isinstance(source, int) and ".lora_" not in node.sources[0].name:
                found.output = Product(at, source, node.sources[0].name, bias)
            return
        leaf = next((s.name for s in node.sources if isinstance(s, Leaf)), "")
        bias = leaf if node.op == "ADD" and leaf else bias
        at = next((s for s in node.sources if isinstance(s, int)), None)


def _mix(nodes: Sequence[Node], write: int, heads: int) -> Product | None:
    """From what attention writes back to the product of all heads with W_O. None where something
    else lies between than is known here."""
    at, bias, gain, has_norm = write, "", "", False
    while True:
        node = nodes[at]
        leaf = next((s for s in node.sources if isinstance(s, Leaf)), None)
        inputs = [s for s in node.sources if isinstance(s, int)]
        if node.op == "MUL_MAT" and leaf is not None and inputs == [heads]:
            return Product(at, heads, leaf.name, bias, has_norm, gain)
        if node.op == "MUL" and leaf is not None and not gain and not has_norm:
            gain = leaf.name
        elif node.op == "ADD" and leaf is not None and not bias:
            bias = leaf.name
        elif node.op == "RMS_NORM" and not has_norm and not bias:
            has_norm = True
        elif node.op not in _SAME and node.op not in ("SCALE", "GET_ROWS"):
            return None
        if not inputs:
            return None
        at = inputs[0]


def _back(nodes: Sequence[Node], ordinal: int, ops: frozenset[str]) -> Iterator[int]:
    """A node and what it comes from through these operations and products with a leaf."""
    at: int | None = ordinal
    while at is not None:
        yield at
        node = nodes[at]
        inputs = [s for s in node.sources if isinstance(s, int)]
        is_passed = node.op in ops | _SAME or node.op in ("MUL", "ADD", "GET_ROWS")
        at = inputs[0] if is_passed and len(inputs) == 1 else None


def _name_what_is_missing(found: GraphMap) -> None:
    def note(name: str, has: Sequence[object], reason: str) -> None:
        if name not in found.missing and not all(has):
            found.missing[name] = SOME_LAYERS if any(has) else reason

    layers = found.layers
    note("attention", [n.attention is not None for n in layers], NO_ATTENTION)
    if any(n.attention is not None for n in layers):
        note("q_before", [n.q_before is not None for n in layers], NO_ROTATION)
        note("q_after", [n.q_after is not None for n in layers], NO_ROTATION)
        note("k_after", [n.k_after is not None for n in layers], NO_ROTATION)
        note("heads", [n.heads is not None for n in layers], NO_HEADS)
        mixed = [n.weighted is not None and n.mix is not None for n in layers]
        note("value_norms", mixed, NO_HEADS)
    else:
        names = ("value_norms", "q_before", "q_after", "k_after", "heads")
        found.missing |= dict.fromkeys(names, NO_ATTENTION)
    note("attn_out", [n.attn_writes for n in layers], NO_ATTENTION)
    note("ffn_out", [n.ffn_writes for n in layers], "This architecture has no feed-forward block.")
    note("residual", [n.residual is not None for n in layers], NO_STREAM)
    note("experts", [n.experts is not None for n in layers], NO_EXPERTS)
    note("expert_weights", [n.expert_weights is not None for n in layers], NO_EXPERTS)
    if found.embedding is None:
        found.missing["embedding"] = NO_STREAM
    if layers[-1].residual is None or found.logits is None:
        found.missing["lens"] = found.missing.get("residual") or found.missing.get("logits", "")
