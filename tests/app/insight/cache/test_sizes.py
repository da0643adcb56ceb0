"""What a copied sequence takes, where that can be known. The numbers themselves are held against
llama.cpp's in tests/app/engine/process/cache/test_cache.py."""

from __future__ import annotations

from app.engine.protocol.cache_messages import CacheLayers, CacheShape
from app.insight.cache.sizes import copy_size, formula

SMOL = CacheShape([CacheLayers(30, 192, 192, 384, 384, 3)])
WINDOW = CacheShape([CacheLayers(18, 256, 256, 512, 512, 1)], n_window_layers=15, window=512)


def test_rows_and_header() -> None:
    size = copy_size(SMOL, 68)
    assert size is not None
    assert (size.row_bytes, size.header_bytes) == (68 * 23_040, 24 + 12 * 68 + 24 * 30)
    assert size.total == 1_568_280


def test_behind_a_window_only_the_window_is_copied() -> None:
    short, long = copy_size(WINDOW, 100), copy_size(WINDOW, 600)
    assert short is not None
    assert long is not None
    assert short.row_bytes == 100 * 18 * 1024
    assert long.row_bytes == 3 * 600 * 1024 + 15 * 512 * 1024
    moved_on = copy_size(WINDOW, 600, 400)
    assert moved_on is not None
    assert moved_on.row_bytes == 3 * 600 * 1024 + 15 * 200 * 1024


def test_what_the_header_does_not_tell_is_not_computed() -> None:
    two = [CacheLayers(3, 64, 64, 128, 128), CacheLayers(3, 32, 32, 64, 64)]
    assert copy_size(CacheShape(two, n_window_layers=3, window=512), 10) is None
    assert copy_size(CacheShape(two, is_state=True), 10) is None
    assert copy_size(CacheShape([]), 10) is None
    plain = copy_size(CacheShape(two), 10)
    assert plain is not None
    assert plain.row_bytes == 10 * 3 * (256 + 128)


def test_each_kind_of_layer_has_its_line() -> None:
    two = [CacheLayers(1, 64, 64, 64, 64), CacheLayers(3, 512, 0, 1024, 0)]
    assert formula(CacheShape(two)) == [
        "1 layer × (K 64 + V 64) × 1 byte",
        "3 layers × K 512 × 2 bytes",
    ]
    assert CacheShape(two).bytes_per_token == 128 + 3 * 1024
