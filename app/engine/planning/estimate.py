"""The estimate of a load, in the same parts as llama.cpp's measured ones.

Weights and cache are exact arithmetic on the header and stay within 5 % of what is measured
afterwards (`tests/plain_memory.py` asks llama.cpp without the app, for twelve settings of two
files); the compute buffer is a reserve, an upper bound. Sliding-window layers are kept whole, as
the engine does; layers with a state instead of cells count by sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.engine.planning.placement import Placement
from app.engine.planning.sizes import WeightSizes
from app.engine.protocol.loading_messages import Loaded, MemoryPart

HOST = "CPU"

_PADDING = 264
"""Cells by which a cache may be longer than its text."""


MEAN_OVER = 128
"""Positions that the mean of a part that is cut is taken over, at most: the prompt's last ones."""


def cells_beside(n_tokens: int, n_ctx: int, n_layer: int) -> int:
    """Cells of a second context for so many tokens, and for the rows of the lens behind them.
    Doubled sizes, so that a growing chat does not need a new context for each token."""
    wanted = n_tokens + n_layer + 1
    size = 512
    while size < wanted:
        size *= 2
    return min(size, max(n_ctx, wanted))


def mean_cells(n_tokens: int, *, can_share: bool) -> int:
    """Cells that means take beside a text of so many tokens. `can_share`: those of its beginning
    serve them, too."""
    return min(n_tokens, MEAN_OVER) if can_share else n_tokens


def cut_bytes(loaded: Loaded, n_before: int, max_tokens: int) -> int:
    """What a reply with cuts takes at most beside loaded weights: a context of its own.
    `n_before`: tokens that it goes on from."""
    n_ctx, shape = loaded.n_ctx, loaded.cache
    can_share = shape is not None and not (shape.n_window_layers or shape.is_state)
    most = min(n_before + max_tokens, n_ctx) if max_tokens else n_ctx
    n_tokens = max(most, n_before + mean_cells(n_before, can_share=can_share))
    return looking_bytes(loaded.memory, n_ctx, loaded.n_layer, n_tokens)


def looking_bytes(
    parts: Iterable[MemoryPart], n_ctx: int, n_layer: int, n_tokens: int | None = None
) -> int:
    """What looking inside takes at most beside weights that are loaded in these parts, estimated or
    measured: a second context like theirs, with a few more cells (`engine/process/probe`).
    `n_tokens`: of the text; None: of the longest one."""
    longest = cells_beside(n_ctx, n_ctx, n_layer)
    n_cells = longest if n_tokens is None else cells_beside(n_tokens, n_ctx, n_layer)
    total = 0
    for part in parts:
        if part.what == "kv":
            total += part.size_bytes * (n_cells + _PADDING) // max(n_ctx, 1)
        elif part.what in ("compute", "output"):  # with its masks, which grow with the cells
            total += part.size_bytes * max(n_cells, longest) // longest
    return total


def estimate(
    sizes: WeightSizes, placement: Placement, devices: Sequence[str], *, n_ubatch: int
) -> list[MemoryPart]:
    """What will be allocated where. `devices` are those that `placement` speaks of.

    A layer's cache lies beside the layer. The processor keeps some matrices in a second order;
    the mapped file stays readable behind them, so they count twice, as llama.cpp counts them.
    """
    parts: list[MemoryPart] = []
    layer = sizes.n_layer + 1 - placement.n_gpu_layers
    weights, cache = _host_weights(sizes, placement, layer), _cache(sizes, placement, 0, layer)
    _add(parts, HOST, weights, cache, sizes.compute_bytes(n_ubatch, placement.n_ctx))
    for name, count in zip(devices, placement.layers_by_device, strict=True):
        end = layer + count
        weights = sum(_on_device(sizes, placement, index) for index in range(layer, end))
        if count:
            compute = sizes.compute_bytes(n_ubatch, placement.n_ctx)
            _add(parts, name, weights, _cache(sizes, placement, layer, end), compute)
        layer = end
    if sizes.adapter_bytes:
        parts.append(MemoryPart(HOST, "adapter", sizes.adapter_bytes))
    return parts


def _add(parts: list[MemoryPart], device: str, weights: int, cache: int, compute: int) -> None:
    for what, size in (("weights", weights), ("kv", cache), ("compute", compute)):
        if size:
            parts.append(MemoryPart(device, what, size))


def _host_weights(sizes: WeightSizes, placement: Placement, first_on_device: int) -> int:
    """Embedding, the layers below the devices', and experts that were told to stay."""
    total = sizes.input_bytes
    for layer in range(min(first_on_device, sizes.n_layer)):
        total += sizes.layer_bytes[layer] + sizes.repacked_of(layer)
    if first_on_device > sizes.n_layer:
        total += sizes.output_bytes - sizes.tied_bytes + sizes.repacked_of(sizes.n_layer)
    for layer in range(first_on_device, placement.cpu_moe_layers):
        total += sizes.experts_of(layer)
    return total


def _on_device(sizes: WeightSizes, placement: Placement, layer: int) -> int:
    if layer == sizes.n_layer:
        return sizes.output_bytes
    kept_back = sizes.experts_of(layer) if layer < placement.cpu_moe_layers else 0
    return sizes.layer_bytes[layer] - kept_back


def _cache(sizes: WeightSizes, placement: Placement, start: int, end: int) -> int:
    per_token = sum(sizes.kv_bytes_per_token[start : min(end, sizes.n_layer)])
    return per_token * placement.n_ctx + sum(sizes.state_bytes[start:end])
