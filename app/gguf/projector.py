"""What the header of a projector (architecture `clip`, usually called mmproj) says.

A projector turns pictures or sounds into vectors as long as the embedding of the language model
that it was made for. Keys and tensors are those of llama.cpp's clip files (`tools/mtmd/clip-impl.h`
names them); files that its converter wrote say the length as `projection_dim`, older ones have it
in the last matrix alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.gguf.header import Header

ARCHITECTURE: Final = "clip"
MAX_PATCHES: Final = 1 << 16
"""More than any picture is cut into; where a header claims more, it is damaged."""
_WIDEST: Final = 1 << 20
_PICTURES: Final = (
    "<image",
    "<|image",
    "<start_of_image>",
    "[img]",
    "vision_start",
    "image_pad",
    "image_url",
    "'image'",
    '"image"',
)
"""What templates of models for pictures have in them, in small letters."""
_SOUNDS: Final = ("<|audio", "<audio", "input_audio", "'audio'", '"audio"')


@dataclass(frozen=True, slots=True)
class Encoder:
    """The network that looks (or listens). 0: the header doesn't say."""

    n_embd: int = 0
    n_ff: int = 0
    n_head: int = 0
    image_size: int = 0
    patch_size: int = 0

    @property
    def n_patches(self) -> int:
        """Of a picture of `image_size`."""
        side = -(-self.image_size // self.patch_size) if self.patch_size else 0
        return min(side * side, MAX_PATCHES)


@dataclass(frozen=True, slots=True)
class ProjectorFacts:
    """`kind`: how it projects, in llama.cpp's words ("gemma3"). `widths`: embedding sizes that it
    may give: of a file that tells it exactly that one."""

    kind: str
    sees: bool
    hears: bool
    widths: tuple[int, ...]
    vision: Encoder = Encoder()

    def fits(self, n_embd: int | None) -> bool:
        """Whether its vectors can be as long as this embedding. What nobody tells may be."""
        return not n_embd or not self.widths or n_embd in self.widths


def projector_of(header: Header) -> ProjectorFacts | None:
    """None for what is no projector."""
    if header.architecture != ARCHITECTURE:
        return None
    sees, hears = _flag(header, "has_vision_encoder"), _flag(header, "has_audio_encoder")
    kinds = (header.metadata.get(f"{ARCHITECTURE}.{at}projector_type") for at in _PLACES)
    kind = next((each for each in kinds if isinstance(each, str) and each), "")
    return ProjectorFacts(
        kind=kind[:40] if kind.isprintable() else "",
        sees=sees or not hears,
        hears=hears,
        widths=_widths(header),
        vision=Encoder(
            n_embd=_number(header, "vision.embedding_length"),
            n_ff=_number(header, "vision.feed_forward_length"),
            n_head=_number(header, "vision.attention.head_count"),
            image_size=_number(header, "vision.image_size"),
            patch_size=_number(header, "vision.patch_size"),
        ),
    )


def may_take_pictures(header: Header) -> bool:
    """Whether the chat template has a place for pictures or sounds: then the model was trained for
    a projector, or is the sister of one that was."""
    template = (header.chat_template or "").casefold()
    return any(mark in template for mark in (*_PICTURES, *_SOUNDS))


_PLACES: Final = ("", "vision.", "audio.")


def _widths(header: Header) -> tuple[int, ...]:
    """The converter's files have their kind in `general.type` and tell the width; in older ones
    `projection_dim` is CLIP's own, so any side of the projecting matrices may be it."""
    told = {_number(header, f"{at}projection_dim") for at in ("vision.", "audio.")} - {0}
    if told and header.kind == "mmproj":
        return tuple(sorted(told))
    for tensor in header.tensors:
        if tensor.name.startswith(("mm.", "model.mm", "resampler.", "a.mm", "mm_")):
            told.update(side for side in tensor.shape if 1 < side < _WIDEST)
    return tuple(sorted(told))


def _flag(header: Header, key: str) -> bool:
    return header.metadata.get(f"{ARCHITECTURE}.{key}") is True


def _number(header: Header, key: str) -> int:
    value = header.number(key)
    return value if value is not None and 0 < value < _WIDEST else 0
