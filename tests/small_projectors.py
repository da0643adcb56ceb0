"""Tiny projectors (mmproj) in float32 with random weights: each kind reads pictures, or sounds, in
another way, for networks of `small_networks.py`, whose stream is 64 wide.

    mlp        llava: 4 x 4 patches of a square become 16 cells, read one after the other
    gemma3     4 x 4 patches are pooled to 4 cells, which see each other: attention is not causal
    qwen2vl    as many cells as the picture is large, in rows and columns (M-RoPE)
    ultravox   sounds: whisper's encoder, four frames to a cell
"""

from __future__ import annotations

import math
import random
import struct
import zlib
from pathlib import Path
from typing import Any, Final

from gguf_writer import Tensor, normal_numbers, write_gguf
from small_networks import _attention, _ends, _feed_forward, _write

TEXT_WIDTH: Final = 64
WIDTH: Final = 32
_HEADS: Final = 2
_FF: Final = 48
_PATCH: Final = 8
_SIDE: Final = 32
_N_MEL: Final = 16
CELLS: Final = {"mlp": 16, "gemma3": 4}
IMAGE_KINDS: Final = ("mlp", "gemma3", "qwen2vl")


def small_projector(
    path: Path,
    kind: str,
    seed: int = 0,
    *,
    name: str = "",
    text_width: int = TEXT_WIDTH,
    **more: Any,
) -> None:
    """Write one. `name`: another name of its kind, `text_width`: another width of what it gives,
    and `more`: keys of its header that are other than usual, without their prefix; None: missing.
    """
    source = random.Random(f"{kind} {seed}")
    writers = {"mlp": _mlp, "gemma3": _gemma3, "qwen2vl": _qwen2vl}
    factor = more.get("projector.stack_factor", 4)
    if kind == "ultravox":
        tensors = _ultravox(source, text_width, more.get("embedding_length", WIDTH), factor)
    else:
        tensors = writers[kind](source, text_width)
    is_audio = kind == "ultravox"
    modality = "audio" if is_audio else "vision"
    own = {
        "embedding_length": WIDTH,
        "attention.head_count": _HEADS,
        "feed_forward_length": _FF,
        "block_count": 2,
        "projection_dim": TEXT_WIDTH,
        "attention.layer_norm_epsilon": 1e-5,
    }
    if is_audio:
        own |= {"num_mel_bins": _N_MEL, "projector.stack_factor": 4}
    else:
        own |= {"image_size": _SIDE, "patch_size": _PATCH}
        own |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    if kind == "gemma3":
        own["projector.scale_factor"] = 2
    name = name or {"qwen2vl": "qwen2vl_merger"}.get(kind, kind)
    keys = {
        f"clip.has_{modality}_encoder": True,
        "clip.projector_type": name,
        "clip.use_gelu": True,
        "general.type": "mmproj",
    } | {f"clip.{modality}.{key}": value for key, value in (own | more).items()}
    write_gguf(path, architecture="clip", metadata=keys, tensors=tensors)


def axes_network(path: Path) -> None:
    """A network whose positions have axes, as Qwen2-VL's: two layers, six words."""
    source, n_layer, d_head = random.Random(5), 2, TEXT_WIDTH // 4
    tensors = _ends(source, is_tied=True)
    for layer in range(n_layer):
        parts = _attention(source, d_head, 2) | _feed_forward(source, 0)
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
        for part, width in (("q", 64), ("k", 2 * d_head), ("v", 2 * d_head)):
            tensors[f"blk.{layer}.attn_{part}.bias"] = _vector(source, width)
    more = {"rope.dimension_sections": [2, 3, 3, 0], "rope.freq_base": 500.0}
    _write(path, "qwen2vl", n_layer, 2, tensors, more)


def _mlp(source: random.Random, width: int) -> dict[str, Tensor]:
    tensors = _vision(source) | {
        "v.class_embd": _vector(source, WIDTH),
        "v.position_embd.weight": _matrix(source, WIDTH, 17),
        "v.pre_ln.weight": _ones(source, WIDTH),
        "v.pre_ln.bias": _vector(source, WIDTH),
    }
    for number, (wide, out) in {0: (WIDTH, width), 2: (width, width)}.items():
        tensors[f"mm.{number}.weight"] = _matrix(source, wide, out)
        tensors[f"mm.{number}.bias"] = _vector(source, out)
    return tensors


def _gemma3(source: random.Random, width: int) -> dict[str, Tensor]:
    return _vision(source) | {
        "v.position_embd.weight": _matrix(source, WIDTH, 16),
        "v.patch_embd.bias": _vector(source, WIDTH),
        "v.post_ln.weight": _ones(source, WIDTH),
        "v.post_ln.bias": _vector(source, WIDTH),
        "mm.input_projection.weight": _matrix(source, width, WIDTH),
        "mm.soft_emb_norm.weight": _ones(source, WIDTH),
    }


def _qwen2vl(source: random.Random, width: int) -> dict[str, Tensor]:
    tensors = _vision(source) | {
        "v.patch_embd.weight.1": _matrix(source, _PATCH, _PATCH, 3, WIDTH),
        "v.post_ln.weight": _ones(source, WIDTH),
        "v.post_ln.bias": _vector(source, WIDTH),
    }
    for number, out in {0: 4 * WIDTH, 2: width}.items():
        tensors[f"mm.{number}.weight"] = _matrix(source, 4 * WIDTH, out)
        tensors[f"mm.{number}.bias"] = _vector(source, out)
    return tensors


def _ultravox(source: random.Random, width: int, own: int, factor: int) -> dict[str, Tensor]:
    """`own`: the width of the encoder; it puts `factor` frames together."""
    tensors = _layers(source, "a", own) | {
        "a.conv1d.1.weight": _matrix(source, 3, _N_MEL, own),
        "a.conv1d.1.bias": Tensor((1, own), _vector(source, own).values),
        "a.conv1d.2.weight": _matrix(source, 3, own, own),
        "a.conv1d.2.bias": Tensor((1, own), _vector(source, own).values),
        "a.position_embd.weight": _matrix(source, own, 1500),
        "a.post_ln.weight": _ones(source, own),
        "a.post_ln.bias": _vector(source, own),
        "mm.a.norm_pre.weight": _ones(source, factor * own),
        "mm.a.mlp.1.weight": _matrix(source, factor * own, 2 * width),
        "mm.a.norm_mid.weight": _ones(source, width),
        "mm.a.mlp.2.weight": _matrix(source, width, width),
    }
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("attn_k.bias")}


def _vision(source: random.Random) -> dict[str, Tensor]:
    patches = _matrix(source, _PATCH, _PATCH, 3, WIDTH, spread=0.1)
    return {"v.patch_embd.weight": patches} | _layers(source, "v")


def _layers(source: random.Random, prefix: str, width: int = WIDTH) -> dict[str, Tensor]:
    tensors = {}
    for layer in range(2):
        sizes = {f"attn_{part}": (width, width) for part in ("q", "k", "v", "out")}
        sizes |= {"ffn_up": (width, _FF), "ffn_down": (_FF, width)}
        for name, (wide, out) in sizes.items():
            tensors[f"{prefix}.blk.{layer}.{name}.weight"] = _matrix(source, wide, out)
            tensors[f"{prefix}.blk.{layer}.{name}.bias"] = _vector(source, out)
        for name in ("ln1", "ln2"):
            tensors[f"{prefix}.blk.{layer}.{name}.weight"] = _ones(source, width)
            tensors[f"{prefix}.blk.{layer}.{name}.bias"] = _vector(source, width)
    return tensors


def _matrix(source: random.Random, *shape: int, spread: float = 0.3) -> Tensor:
    return Tensor(shape, normal_numbers(source, math.prod(shape), spread))


def _vector(source: random.Random, size: int) -> Tensor:
    return _matrix(source, size, spread=0.1)


def _ones(source: random.Random, size: int) -> Tensor:
    return Tensor((size,), [source.uniform(0.5, 1.5) for _ in range(size)])


# --- what is looked at, and heard -------------------------------------------------------------


def png(width: int, height: int, seed: int = 0, *, claims: tuple[int, int] | None = None) -> bytes:
    """A picture of random colours; `claims`: what its header says of its size instead."""
    source = random.Random(seed)
    rows = b"".join(b"\0" + source.randbytes(3 * width) for _ in range(height))
    size = struct.pack(">II", *(claims or (width, height)))
    parts = (
        (b"IHDR", size + bytes((8, 2, 0, 0, 0))),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


def gif(width: int, height: int, frames: int = 1) -> bytes:
    """All pixels are of the first of two colours; each code stands for one pixel."""
    clear, end = 4, 5
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2"
    bits, n_bits = 0, 0
    for code in [*(c for _ in range(width * height) for c in (clear, 0)), end]:
        bits |= code << n_bits
        n_bits += 3
    data = bits.to_bytes(-(-n_bits // 8), "little")
    blocks = [data[at : at + 255] for at in range(0, len(data), 255)]
    frame += b"".join(bytes((len(block),)) + block for block in blocks) + b"\0"
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0)
    return head + bytes((255, 0, 0, 0, 0, 255)) + frame * frames + b";"


def bmp(width: int, height: int) -> bytes:
    row = bytes(3 * width) + bytes(-3 * width % 4)
    data = row * height
    form = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + form + data


def jpeg(width: int, height: int) -> bytes:
    """By Qt."""
    from PySide6.QtCore import QBuffer
    from PySide6.QtGui import QImage

    picture, buffer = QImage(width, height, QImage.Format.Format_RGB888), QBuffer()
    picture.fill(0x3366CC)
    assert picture.save(buffer, "JPEG")
    return buffer.data().data()


def wav(
    seconds: float, pitch: float = 440.0, rate: int = 16000, claims: int | None = None
) -> bytes:
    """A tone, 16 bits, one channel; `claims`: what the header says of its bytes instead."""
    count = int(seconds * max(rate, 100))
    data = struct.pack(
        f"<{count}h", *(int(9000 * math.sin(math.tau * pitch * i / rate)) for i in range(count))
    )
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    size = struct.pack("<I", len(data) if claims is None else claims)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + form
        + b"data"
        + size
        + data
    )


def flac(seconds: float, rate: int = 16000) -> bytes:
    """The header of one."""
    packed = rate << 44 | 15 << 36 | int(seconds * rate)
    return b"fLaC\0\0\0\x22" + bytes(10) + struct.pack(">Q", packed) + bytes(16)


def mp3(frames: int, bits: int = 9) -> bytes:
    """Empty frames of MPEG 1, layer III, at 44.1 kHz; `bits`: which rate (1: 32 kbit/s)."""
    kbits = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128)[bits]
    size = 144 * kbits * 1000 // 44100
    return (bytes((0xFF, 0xFB, bits << 4, 0)) + bytes(size - 4)) * frames
