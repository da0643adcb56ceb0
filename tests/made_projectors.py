"""Projector files, and weights that go with them, by their headers alone: some hundred bytes of
tensors, written as llama.cpp's converter and older scripts write them (`clip-impl.h`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf_writer import CHATML, Tensor, Typed, write_gguf

SEEING = (
    "{% for m in messages %}{% if m['type'] == 'image' %}<|vision_start|>{% endif %}{% endfor %}"
)
"""A template with a place for pictures."""


def put_projector(
    path: Path,
    n_embd: int = 64,
    *,
    sees: bool = True,
    hears: bool = False,
    name: str = "",
    kind: str = "f16",
    is_old: bool = False,
    **metadata: Any,
) -> Path:
    """`is_old`: as before the converter wrote them: no type, CLIP's own `projection_dim`, and the
    embedding's size in the last matrix alone."""
    told: dict[str, Any] = {"general.architecture": "clip", "clip.has_vision_encoder": sees}
    if name:
        told["general.name"] = name
    if hears:
        told |= {"clip.has_audio_encoder": True, "clip.audio.projection_dim": Typed("u32", n_embd)}
    if sees:
        told |= {
            "clip.vision.projection_dim": Typed("u32", 48 if is_old else n_embd),
            "clip.vision.image_size": Typed("u32", 28),
            "clip.vision.patch_size": Typed("u32", 14),
            "clip.vision.embedding_length": Typed("u32", 32),
            "clip.vision.feed_forward_length": Typed("u32", 128),
            "clip.vision.block_count": Typed("u32", 1),
            "clip.vision.attention.head_count": Typed("u32", 2),
        }
    told["clip.projector_type"] = "mlp" if is_old else "gemma3"
    if not is_old:
        told["general.type"] = "mmproj"
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix = Tensor((32, n_embd), (0.0,) * (32 * n_embd), kind=kind)
    write_gguf(path, metadata=told | metadata, tensors={"mm.2.weight": matrix})
    return path


def put_weights(path: Path, n_embd: int = 64, *, name: str = "", template: str = SEEING) -> Path:
    """Weights of which only the header can be read."""
    told = {
        "general.architecture": "llama",
        "general.name": name or path.stem,
        "llama.embedding_length": Typed("u32", n_embd),
        "llama.block_count": Typed("u32", 1),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_gguf(path, template=template, metadata=told, tensors={"t": Tensor((4,), (0.0,) * 4)})
    return path


PLAIN = CHATML
"""A template that knows texts alone."""
