"""Bytes of the KV cache by arithmetic, to be held against what llama.cpp says.

A sequence that is copied out of the cache (llama_state_seq_get_data) is its cells behind a header:

    8 bytes, and for each cache (a sliding-window file has two) 16 bytes
    12 bytes for each cell of each cache: position, number of sequences, sequence
    24 bytes for each layer: types and row sizes of K and of V
    the rows of K and V of each layer

In the layers that look through a window the copy holds only the window.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.protocol.cache_messages import CacheLayers, CacheShape


@dataclass(frozen=True, slots=True)
class CopySize:
    """`header_bytes` + `row_bytes` is what a copy takes."""

    header_bytes: int
    row_bytes: int

    @property
    def total(self) -> int:
        return self.header_bytes + self.row_bytes


def copy_size(shape: CacheShape, n_tokens: int, first_position: int = 0) -> CopySize | None:
    """What a sequence of `n_tokens` takes when it is copied out; `first_position`: the oldest one
    held in the layers that look through a window.

    None where the header does not tell: a state of another kind, or window layers that keep
    something else than the others.
    """
    groups = shape.layers
    if shape.is_state or not groups or (shape.n_window_layers and len(groups) > 1):
        return None
    n_layers = sum(group.n_layers for group in groups)
    if not shape.n_window_layers:
        header = 8 + 16 + 12 * n_tokens + 24 * n_layers
        return CopySize(header, shape.bytes_per_token * n_tokens)
    row = groups[0].k_bytes + groups[0].v_bytes
    in_window = n_tokens - max(first_position, n_tokens - shape.window, 0)
    n_whole = n_layers - shape.n_window_layers
    header = 8 + 2 * 16 + 12 * (n_tokens + in_window) + 24 * n_layers
    return CopySize(header, row * (n_whole * n_tokens + shape.n_window_layers * in_window))


def formula(shape: CacheShape) -> list[str]:
    """How the bytes of one token come about, a line for each kind of layer.

    >>> formula(CacheShape([CacheLayers(30, 192, 192, 384, 384, 3)]))
    ['30 layers × (K 192 + V 192) × 2 bytes']
    >>> formula(CacheShape([CacheLayers(2, 192, 192, 204, 384, 3)]))
    ['2 layers × (K 192 in 204 + V 192 in 384 bytes)']
    """
    lines = []
    for group in shape.layers:
        layers = f"{group.n_layers:,} layer{'' if group.n_layers == 1 else 's'}"
        lines.append(f"{layers} × {_widths(group)}")
    return lines


def _widths(group: CacheLayers) -> str:
    """Latent attention keeps one row, which counts as K."""
    of_k = _bytes_of_each(group.k_width, group.k_bytes)
    of_v = _bytes_of_each(group.v_width, group.v_bytes) if group.v_width else of_k
    if of_k is None or of_k != of_v:
        values = f"V {group.v_width:,} in {group.v_bytes:,}"
        return f"(K {group.k_width:,} in {group.k_bytes:,} + {values} bytes)"
    both = f"(K {group.k_width:,} + V {group.v_width:,})"
    unit = "byte" if of_k == 1 else "bytes"
    return f"{both if group.v_width else f'K {group.k_width:,}'} × {of_k} {unit}"


def _bytes_of_each(width: int, size: int) -> int | None:
    """Bytes of one value, where that is a whole number."""
    return size // width if width and size % width == 0 else None
