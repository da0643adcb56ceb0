"""The facts of the loaded file and of this computer: what the engine told of it as it was loaded,
what its header says, and what all of its parameters would take in other precisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.amounts import bytes_words, count_words
from app.engine.protocol.loading_messages import Loaded
from app.insight.tour.facts import Fact, Facts, count, said, share, size

if TYPE_CHECKING:
    from app.engine.protocol.embedding_messages import Rotations
    from app.gguf.facts import Facts as HeaderFacts
    from app.insight.inside.machine import Machine
    from app.insight.inside.position import Position

HASH_DIGITS: Final = 8
"""Of a fingerprint are shown: enough to see that two are the same."""


def loaded_facts(loaded: Loaded) -> Facts:
    """What the engine told. n bits for each parameter are n_params × n ÷ 8 bytes."""
    found = {
        "n_vocab": count(loaded.n_vocab),
        "n_embd": count(loaded.n_embd),
        "n_layer": count(loaded.n_layer),
        "flash": said("on" if loaded.flash_attention else "off"),
        "file_size": size(loaded.size_bytes),
    }
    if loaded.n_slots > 1:
        found["n_slots"] = count(loaded.n_slots, "replies")
    if loaded.kv_bytes_per_token:
        found["kv_per_token"] = size(loaded.kv_bytes_per_token)
    kv = sum(part.size_bytes for part in loaded.memory if part.what == "kv")
    if kv:
        found["kv_full"] = size(kv)
    if loaded.n_params:
        found["n_params"] = Fact(loaded.n_params, count_words(loaded.n_params))
        for n_bits in (16, 8, 4):
            n_bytes = loaded.n_params * n_bits / 8
            found[f"size_at_{n_bits}"] = Fact(n_bytes, f"{bytes_words(n_bytes)} at {n_bits} bits")
    if loaded.fast_hash:
        found["hash_loaded"] = fingerprint(loaded.fast_hash)
    return found


def fingerprint(digits: str) -> Fact:
    return Fact(digits, digits[:HASH_DIGITS])


def cell_facts(loaded: Loaded, n_cells: int) -> Facts:
    """What so many tokens keep: kv_per_token × n_cells."""
    n_bytes = loaded.kv_bytes_per_token * n_cells
    return {"kv_used": size(n_bytes)} if n_bytes else {}


def window_facts(loaded: Loaded, place: int) -> Facts:
    """How far the layers with a window see, once the text is longer: place + 1 > window."""
    shape = loaded.cache
    if shape is None or not shape.n_window_layers or place + 1 <= shape.window:
        return {}
    return {"n_window_layers": count(shape.n_window_layers), "window": count(shape.window)}


def machine_facts(machine: Machine) -> Facts:
    """Of all tensors: ffn_share = Σ parameters of feed-forward networks ÷ all. Of a file of which
    parts are missing nothing can be said."""
    if machine.missing or not machine.n_params:
        return {}
    bits = machine.bits_per_weight
    found = {"bits_per_weight": Fact(bits, f"{bits:.2f} bits")}
    in_ffns = sum(block.n_params for block in machine.blocks if block.kind == "ffn")
    if in_ffns:
        found["ffn_share"] = share(in_ffns / machine.n_params)
    return found


def header_facts(header: HeaderFacts) -> Facts:
    return {"quantisation": said(header.quantisation)} if header.quantisation else {}


def position_facts(told: Rotations, position: Position | None) -> Facts:
    """How a file tells the order of words: how many pairs of numbers its first rotating layer turns
    in each head (dimensions ÷ 2), or what it does instead. `position`: what its header says."""
    turning = [each for each in told.rotations if each.layers]
    if turning:
        first = min(turning, key=lambda each: min(each.layers))
        return {"n_pairs": count(first.n_dims // 2)}
    sentence = (position.sentence if position is not None else "") or told.sentence
    return {"position_otherwise": said(sentence)} if sentence else {}


def computer_facts(total_bytes: int) -> Facts:
    """`total_bytes`: of the host's memory; 0: it isn't known."""
    return {"memory_total": size(total_bytes)} if total_bytes else {}
