"""Pictures and sounds on the wire: what a message brings along, and what the loaded projector makes
of it.

A projector (llama.cpp: mmproj) turns a picture into cells as tokens are cells: some hundred vectors
that stand in the prompt where the picture stood. It is a GGUF file of its own, of general
architecture "clip", and belongs to weights of one embedding length.

Where a picture stands is said by a place in the text and by no mark in it, so nothing that a person
types can be taken for one. In texts that come back U+FFFC stands there. In token IDs, each of its
cells has a number below -1: the same for the same picture, and another one for any other
(`app/engine/prompts/media.py`). Such an ID is understood by nobody but the engine that gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from app.engine.protocol.frames import (
    FEW,
    Amount,
    Count,
    Name,
    ProtocolError,
    Sentence,
    WireMessage,
    Word,
)

MediaKind = Literal["image", "audio"]

SHOWN: Final = "\ufffc"
"""Stands for a picture or a sound in a text."""

MAX_MEDIA: Final = 256
"""In one prompt."""
MAX_MEDIA_BYTES: Final = 32 * 2**20
"""Of one file, as it is stored."""
MAX_SENT_BYTES: Final = 40 * 2**20
"""Of all those of a prompt: a frame has to hold them, with the text."""
MAX_PIXELS: Final = 50_000_000
MAX_SIDE: Final = 32_768
"""Of a picture. Larger ones are made smaller before they come here."""


class Media(WireMessage, frozen=True, tag=True):
    """A picture (PNG, JPEG, BMP, GIF: its first frame) or a sound (WAV, MP3, FLAC) as its file has
    it. `at`: before which character of the message's content it stands. `id`: whatever the asker
    calls it; what comes back names it so."""

    id: str
    kind: MediaKind
    data: bytes
    at: int = 0


class MediaSpan(WireMessage, frozen=True, tag=True):
    """Tokens [start, start + count) of a prompt are the cells of this picture or sound; one that is
    looked at in parts has several spans. `columns` and `rows`: how the cells lie on a picture, 0
    where the projector does not say it. `kind`: image, audio."""

    start: Count
    count: Count
    media_id: Name
    columns: Count = 0
    rows: Count = 0
    kind: Word = "image"


Spans = Annotated[list[MediaSpan], FEW]


class ProjectorOffer(WireMessage, frozen=True, tag=True):
    """What became of `LoadWeights.projector`. `why`: it could not be loaded, for this reason; then
    the weights stand without it, and the rest says what its header told, if it told anything.
    `kind`: llama.cpp's name of its type, such as "gemma3". `image_size`: side of the square that it
    looks at, in pixels, and `tokens_per_image`: what any picture takes of the window, tokens around
    it included; 0 where that depends on the picture. `size_bytes`: of the file."""

    path: Name
    kind: Word = ""
    images: bool = False
    audio: bool = False
    image_size: Count = 0
    tokens_per_image: Count = 0
    size_bytes: Amount = 0
    why: Sentence = ""


def check_spans(spans: Sequence[MediaSpan], n_tokens: int) -> None:
    """Raise ProtocolError where spans overlap, or lie outside of the tokens."""
    at = 0
    for span in spans:
        if span.start < at or span.count < 1:
            raise ProtocolError("the pictures of a prompt do not follow each other")
        if span.columns and span.rows and span.columns * span.rows != span.count:
            raise ProtocolError("the cells of a picture do not cover it")
        at = span.start + span.count
    if at > n_tokens:
        raise ProtocolError("a picture lies outside of its prompt")
