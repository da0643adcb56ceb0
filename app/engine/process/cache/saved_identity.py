"""What a saved state is good for: the same weights, loaded so that the same numbers mean the same.

Left out is what only rounds otherwise or does not shape the state: threads, devices, batch sizes,
and the size of the context window, but for one thing: some files have two sets of rotation factors,
and llama.cpp takes the one for long texts where the window is larger than that of the training.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from app.engine.process.cache.saved_file import Identity
from app.engine.process.native import native
from app.engine.process.native.native import llama
from app.engine.process.native.weights import Weights
from app.engine.protocol.loading_messages import LoadOptions

_DIGEST_BYTES: Final = 16


def identity_of(weights: Weights, options: LoadOptions) -> Identity | None:
    """None where the file can no longer be known again. What the state was computed with besides
    stands with it (`Head.adapters`)."""
    loaded = weights.loaded
    if not loaded.fast_hash:
        return None
    settings: list[Any] = [
        loaded.type_k,
        loaded.type_v,
        loaded.flash_attention,  # without it V lies transposed
        int(llama.llama_model_n_swa(weights.model)),
        msgspec.to_builtins(options.rope),
        loaded.n_ctx > _trained_window(weights),
    ]
    digest = hashlib.blake2b(msgspec.json.encode(settings), digest_size=_DIGEST_BYTES)
    return Identity(native.library_version(), loaded.fast_hash, digest.hexdigest())


def _trained_window(weights: Weights) -> int:
    """`n_ctx_orig_yarn` of llama.cpp: of the first training, where a later one widened it."""
    name = f"{weights.loaded.architecture}.rope.scaling.original_context_length"
    value = native.metadata(weights.model, name)
    return int(value) if value.isdigit() else weights.loaded.n_ctx_train
