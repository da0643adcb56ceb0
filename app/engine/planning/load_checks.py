"""What load options may say: checked before native code sees them.

Each refusal is a sentence that names the setting. The combinations of cache types and flash
attention that llama.cpp refuses, computes wrongly or aborts on were found by trying all of them;
`tests/app/engine/process/cache/test_cache_types.py` tries them all again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from app.engine.planning.placement import DeviceMemory
from app.engine.planning.sizes import CACHE_TYPES, PLAIN_TYPES, Outline
from app.engine.protocol.adapter_messages import Lora
from app.engine.protocol.loading_messages import LoadOptions, RopeScaling
from app.refusal import bad_setting

MAX_SLOTS: Final = 64
MAX_LORAS: Final = 16
MAX_LORA_SCALE: Final = 100.0

_WHOLE_NUMBERS: Final = {
    "n_ctx": ("Context window", 1, 1 << 24),
    "n_threads": ("Threads", 1, 512),
    "n_gpu_layers": ("Layers on the GPU", 0, 1 << 16),
    "n_ubatch": ("Prefill batch", 1, 1 << 14),
    "n_slots": ("Replies at once", 1, MAX_SLOTS),
    "parked_bytes": ("Memory for parked chats", 0, 1 << 50),
    "main_device": ("Main device", 0, 255),
    "cpu_moe_layers": ("Experts in main memory", -1, 1 << 16),
}

_ROPE_NUMBERS: Final = {
    "freq_base": ("RoPE frequency base", 0.0, 1e12),
    "freq_scale": ("RoPE frequency scale", 0.0, 1000.0),
    "yarn_orig_ctx": ("YaRN's trained context", 0, 1 << 24),
    "yarn_ext_factor": ("YaRN's extrapolation", 0.0, 100.0),
    "yarn_attn_factor": ("YaRN's attention factor", 0.0, 100.0),
    "yarn_beta_fast": ("YaRN's fast beta", 0.0, 1e6),
    "yarn_beta_slow": ("YaRN's slow beta", 0.0, 1e6),
}


def check_options(options: LoadOptions) -> None:
    """Refuse what no file and no machine could make right."""
    for field, (label, low, high) in _WHOLE_NUMBERS.items():
        value = getattr(options, field)
        if value is not None and not low <= value <= high:
            raise bad_setting(f"{label} must be between {low:,} and {high:,}, not {value:,}.")
    if options.n_ubatch is not None and (options.n_slots or 1) > options.n_ubatch:
        raise bad_setting(
            f"A prefill batch of {options.n_ubatch:,} is too small for {options.n_slots} replies "
            "at once. Increase it, or allow fewer replies."
        )
    for label, name in (("keys", options.type_k), ("values", options.type_v)):
        if name not in CACHE_TYPES:
            choices = ", ".join(CACHE_TYPES)
            raise bad_setting(
                f"The cache type for {label} must be one of {choices}, not “{name[:20]}”."
            )
    if options.flash_attention == "off" and options.type_v not in PLAIN_TYPES:
        raise bad_setting(
            f"A value cache of type {options.type_v} needs flash attention. "
            "Turn flash attention on, or use f16 for values."
        )
    _check_split(options.tensor_split)
    _check_rope(options.rope)
    _check_loras(options.loras)


def _check_split(shares: Sequence[float] | None) -> None:
    if shares is None:
        return
    if not all(math.isfinite(share) and 0 <= share <= 1e6 for share in shares) or not sum(shares):
        raise bad_setting(
            "The split over devices needs one number per device, none below 0 and at least one "
            "above."
        )


def _check_rope(rope: RopeScaling) -> None:
    for field, (label, low, high) in _ROPE_NUMBERS.items():
        value = getattr(rope, field)
        if value is not None and not (math.isfinite(value) and low <= value <= high):
            raise bad_setting(f"{label} must be between {low:g} and {high:g}, not {value:g}.")
    if 0 < rope.freq_scale < 1e-4 or 0 < rope.freq_base < 1:
        raise bad_setting(
            "A RoPE frequency scale below 0.0001 or a base below 1 makes positions "
            "indistinguishable. Use larger values, or 0 for the file's own."
        )


def _check_loras(loras: Sequence[Lora]) -> None:
    if len(loras) > MAX_LORAS:
        raise bad_setting(f"At most {MAX_LORAS} LoRA adapters can be loaded at once.")
    for lora in loras:
        if not lora.path:
            raise bad_setting("A LoRA adapter has no path. Enter the path of a GGUF file.")
        if not math.isfinite(lora.scale) or abs(lora.scale) > MAX_LORA_SCALE:
            raise bad_setting(
                f"The scale of a LoRA adapter must be between -{MAX_LORA_SCALE:g} and "
                f"{MAX_LORA_SCALE:g}, not {lora.scale:g}."
            )


def check_cache_types(outline: Outline, options: LoadOptions) -> None:
    """Refuse cache types that do not go with the heads of this file.

    Quantised types keep blocks of 32 values. Where a head is no whole number of blocks,
    llama.cpp refuses with flash attention, and without it reads the keys of one head out of the
    middle of a block: numbers that look like an answer and are none.
    """
    name = outline.file_name
    if outline.is_latent and options.type_k != options.type_v:
        raise bad_setting(
            f"“{name}” stores keys and values together, so both caches need the same type."
        )
    widths = outline.head_widths
    if widths is None:
        return
    for label, kind, width in (
        ("key", options.type_k, widths[0]),
        ("value", options.type_v, widths[1]),
    ):
        block = CACHE_TYPES[kind].block_elements
        if width % block:
            raise bad_setting(
                f"A {label} cache of type {kind} stores blocks of {block} values, but the heads "
                f"of “{name}” have {width}. Use f16 instead."
            )


def choose_devices(
    names: Sequence[str] | None, usable: Sequence[DeviceMemory]
) -> list[DeviceMemory]:
    """The devices that take layers, in the order in which they were named (None: all).

    `usable`: the devices of this build that can take layers.
    """
    if names is None:
        return list(usable)
    known = {device.name: device for device in usable}
    for name in names:
        if name not in known:
            raise bad_setting(_unknown_device(name, list(known)))
    if len(set(names)) != len(names):
        raise bad_setting("A device is listed twice. List each one once.")
    return [known[name] for name in names]


def _unknown_device(name: str, known: list[str]) -> str:
    if not known:
        return (
            f"Unknown device “{name[:40]}”: this engine runs on the CPU only. Leave the list of "
            "devices empty."
        )
    return (
        f"Unknown device “{name[:40]}”. Available: {', '.join(known)}. An empty list means CPU "
        "only."
    )


def check_devices_and_split(options: LoadOptions, n_devices: int) -> None:
    """Refuse a main device or shares for devices that are not there."""
    if n_devices and options.split_mode != "layer" and options.main_device >= n_devices:
        raise bad_setting(
            f"Main device {options.main_device} doesn't exist: {n_devices} can be used, counted "
            "from 0."
        )
    if n_devices and options.tensor_split and len(options.tensor_split) > n_devices:
        raise bad_setting(
            f"The split lists {len(options.tensor_split)} devices, but only {n_devices} can be "
            "used."
        )
