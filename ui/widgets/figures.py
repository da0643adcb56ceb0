"""Numbers as people read them, with units. Pure; no Qt."""

from __future__ import annotations

import re
from pathlib import PurePath

from app.amounts import bytes_words, part_words
from app.engine.protocol.loading_messages import Device, Loaded
from app.engine.protocol.media_messages import ProjectorOffer
from app.engine.protocol.remote_messages import EngineOffer, model_name

_QUANTISATION = re.compile(
    r"\b((?:I?Q|TQ|MXFP)\d\w*|BF16|F16|F32|F64)\b(?: - (Small|Medium|Large|Extra small))?"
)
INCLUDED = " (included)"
ALLOCATIONS = {"kv": "KV cache", "compute": "compute buffers"}
"""llama.cpp's short words for what it allocates, in ours."""


def cut_short(text: str, most: int) -> str:
    """
    >>> cut_short("a name", 9), cut_short("a long name", 8)
    ('a name', 'a long…')
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def known_device_text(device: Device) -> str:
    """A device in one line: `CPU: AMD EPYC, 12.3 of 32 GB free`."""
    text = f"{device.name}: {device.description}" if device.description else device.name
    if not device.total_bytes:
        return text
    return f"{text}, {part_words(device.free_bytes, device.total_bytes)} free"


def window_text(n_ctx: int) -> str:
    """A context window, short.

    >>> window_text(4096), window_text(131072), window_text(1000)
    ('4k', '128k', '1,000')
    """
    return f"{n_ctx // 1024}k" if n_ctx and n_ctx % 1024 == 0 else f"{n_ctx:,}"


def quantisation(description: str) -> str:
    """The number format out of llama.cpp's description, or empty.

    >>> quantisation("llama 134M Q4_1"), quantisation("qwen3 8B Q4_K - Medium")
    ('Q4_1', 'Q4_K_M')
    """
    found = _QUANTISATION.search(description)
    if found is None:
        return ""
    size = found.group(2)
    return found.group(1) + (f"_{size[0]}" if size else "")


def parameters_text(n_parameters: int) -> str:
    """
    >>> parameters_text(134_515_008), parameters_text(8_030_261_312), parameters_text(20_900)
    ('135M', '8.0B', '21k')
    """
    if n_parameters >= 999_500_000:
        return f"{n_parameters / 1e9:.1f}B"
    if n_parameters >= 999_500:
        return f"{n_parameters / 1e6:.0f}M"
    return f"{n_parameters / 1e3:.0f}k" if n_parameters >= 1000 else str(n_parameters)


def network_text(loaded: Loaded) -> str:
    """Architecture, parameters and number format. The parameters are counted: llama.cpp's own
    description names a size class that it looks up by the number of layers (256M for a 135M).
    """
    parts = (
        loaded.architecture,
        parameters_text(loaded.n_params),
        quantisation(loaded.description),
    )
    return " ".join(part for part in parts if part)


def plain_name(name: str) -> str:
    """Weights without the remark that they came with the installation."""
    return name.removesuffix(INCLUDED)


def loaded_text(name: str, loaded: Loaded) -> str:
    """The weights in one line: name, number format, window."""
    if loaded.remote is not None:
        window = window_text(loaded.n_ctx) if loaded.n_ctx else ""
        return " · ".join(part for part in (plain_name(name or loaded.name), window) if part)
    parts = [plain_name(name or loaded.name), quantisation(loaded.description)]
    # A name that already says its number format does not say it twice.
    if parts[1] and parts[1].lower() in parts[0].lower():
        parts[1] = ""
    return " · ".join(part for part in [*parts, window_text(loaded.n_ctx)] if part)


def device_text(loaded: Loaded) -> str:
    """Where the layers are.

    With some on a graphics device: its name and how many. `n_gpu_layers` counts the output
    layer too, which the sentence leaves out. A server is called by the name that it was given.
    """
    if loaded.remote is not None:
        return loaded.remote.name
    devices = [part.device for part in loaded.memory if part.what == "weights"]
    others = [name for name in dict.fromkeys(devices) if not name.startswith("CPU")]
    if loaded.n_gpu_layers <= 0 or not others:
        return "CPU"
    names = ", ".join(others)
    if loaded.n_gpu_layers >= loaded.n_layer:
        return names
    return f"{names} · {loaded.n_gpu_layers} of {loaded.n_layer} layers"


def place_text(loaded: Loaded) -> str:
    """Where the weights are: their file, or the server that has them."""
    if loaded.remote is None:
        return loaded.path
    return f"{model_name(loaded.remote.model_id or loaded.name)} on “{loaded.remote.name}”"


def _remote_details(loaded: Loaded, offer: EngineOffer) -> str:
    """What the server said of itself and of this model."""
    lines = [f"{offer.kind_name} {offer.version}".rstrip() + f" at “{offer.name}”"]
    if loaded.n_params:
        lines.append(f"{parameters_text(loaded.n_params)} parameters")
    if loaded.n_ctx:
        trained = f" (trained with {loaded.n_ctx_train:,})" if loaded.n_ctx_train else ""
        lines.append(f"context window {loaded.n_ctx:,} tokens{trained}")
    return "\n".join([*lines, *loaded.notes])


def loaded_details(loaded: Loaded) -> str:
    """What is in memory now, measured, line by line; then what the engine decided and why."""
    if loaded.remote is not None:
        return _remote_details(loaded, loaded.remote)
    where = device_text(loaded)
    lines = [
        f"{network_text(loaded)} · {bytes_words(loaded.size_bytes)} · {loaded.n_layer} layers",
        f"context window {loaded.n_ctx:,} tokens (trained with {loaded.n_ctx_train:,})",
        f"{loaded.n_threads} threads · {where} · loaded in {seconds_text(loaded.load_s)}",
    ]
    if loaded.projector is not None and not loaded.projector.why:
        lines.append(projector_text(loaded.projector))
    parts = [
        f"{ALLOCATIONS.get(part.what, part.what)} on {part.device} {bytes_words(part.size_bytes)}"
        for part in loaded.memory
    ]
    if parts:
        lines.append("Memory: " + ", ".join(parts))
    return "\n".join([*lines, *loaded.notes])


def projector_text(offer: ProjectorOffer) -> str:
    """What the weights take besides texts, and by which file.

    >>> projector_text(ProjectorOffer("/m/mmproj.gguf", images=True, tokens_per_image=256))
    'sees pictures (256 tokens each) by mmproj.gguf'
    """
    each = f" ({offer.tokens_per_image:,} tokens each)" if offer.tokens_per_image else ""
    senses = " and ".join([f"sees pictures{each}"] * offer.images + ["hears"] * offer.audio)
    return f"{senses or 'takes texts only'} by {PurePath(offer.path).name}"


def signed(value: float, form: str = ".2f") -> str:
    """A number that may be below zero, with a minus sign and not a hyphen. `form`: as Python
    formats it.

    >>> signed(-2.22), signed(1.5, "+.2f"), signed(-0.001), signed(-1234.5, ",.1f")
    ('−2.22', '+1.50', '0.00', '−1,234.5')
    """
    text = format(value, form)
    is_zero = not text.strip("+-0.")
    return text.removeprefix("-") if is_zero else text.replace("-", "−")


def rate_text(tokens_per_s: float) -> str:
    """Tokens per second with about three figures."""
    digits = 1 if tokens_per_s < 100 else 0
    return f"{tokens_per_s:,.{digits}f} tokens/s"


def seconds_text(seconds: float) -> str:
    """A short time.

    >>> seconds_text(0.31), seconds_text(12.3)
    ('0.31 s', '12 s')
    """
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
