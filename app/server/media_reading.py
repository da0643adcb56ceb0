"""Pictures and sounds in a request: as bytes in it, never fetched from anywhere.

    OpenAI      {"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}
                {"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}}
    Anthropic   {"type": "image", "source": {"type": "base64", "media_type": …, "data": "…"}}

An address would be a request to wherever a client likes, from this machine: it is refused in words,
and so is what the loaded model doesn't take, before anything is decoded.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Final

from app.amounts import bytes_words
from app.engine.prompts.media_taken import why_not_taken
from app.engine.protocol.bounds import shown
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import MAX_MEDIA_BYTES, MAX_SENT_BYTES, Media, MediaKind
from app.media_types import READ_HERE, media_type_of
from app.server.errors import ApiError
from app.server.fields import Fields

MAX_FILES: Final = 64
"""In one request."""
OPENAI_KINDS: Final = ("image_url", "input_image", "input_audio")
_ANY_FILE: Final = {"image": "PNG, JPEG, GIF or BMP", "audio": "WAV, MP3 or FLAC"}
_NO_ADDRESS: Final = (
    "Pictures aren't fetched from addresses. Send the picture itself, as “data:image/png;base64,…”."
)
_NO_SOURCE: Final = "Pictures must be in the request: use a source of the type “base64”."
_NOT_BASE64: Final = "This isn't base64 data."
WHOSE: Final = "Pictures and sounds can only be in user messages and tool results."


@dataclass
class Files:
    """Those of one request, as they are read. `loaded`: what they are for."""

    loaded: Loaded
    n: int = 0
    size_bytes: int = 0

    def take(self, fields: Fields, name: str, text: str, kind: MediaKind, at: int) -> Media:
        """What a field holds as base64. Raises ApiError."""
        sentence = why_not_taken(self.loaded, kind)
        if sentence:
            raise _refused(fields, name, sentence, "unsupported")
        self.n += 1
        if self.n > MAX_FILES:
            sentence = f"One request may have at most {MAX_FILES} pictures and sounds."
            raise fields.refuse(name, sentence)
        most = f"A picture or a sound may have at most {bytes_words(MAX_MEDIA_BYTES)}."
        if len(text) > MAX_MEDIA_BYTES // 3 * 4 + 64:
            raise fields.refuse(name, most)
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise fields.refuse(name, _NOT_BASE64) from None
        if len(data) > MAX_MEDIA_BYTES:
            raise fields.refuse(name, most)
        self.size_bytes += len(data)
        if self.size_bytes > MAX_SENT_BYTES:
            most = bytes_words(MAX_SENT_BYTES)
            sentence = f"The pictures and sounds of a request may have at most {most} together."
            raise fields.refuse(name, sentence)
        media_type = media_type_of(data)
        is_read = media_type in READ_HERE or self.loaded.remote is not None
        if not media_type.startswith(f"{kind}/") or not is_read:
            what = "picture" if kind == "image" else "sound"
            sentence = f"This isn't a {what} that can be read. Send {_ANY_FILE[kind]}."
            raise fields.refuse(name, sentence)
        return Media(f"file-{self.n}", kind, data, at)


@dataclass
class Content:
    """A message's texts and files, as they come: texts stand below each other, files where they
    stood among them."""

    text: str = ""
    media: list[Media] = field(default_factory=list)
    _ends_in_text: bool = False

    def add_text(self, text: str) -> None:
        self.text += f"\n{text}" if self._ends_in_text else text
        self._ends_in_text = True

    def add(self, media: Media) -> None:
        self.media.append(media)
        self._ends_in_text = False


def openai_file(part: Fields, kind: str, files: Files, at: int) -> Media:
    """One of `OPENAI_KINDS`. Raises ApiError."""
    if kind == "input_audio":
        inner = part.object("input_audio")
        if inner is None:
            raise part.refuse("input_audio", "input_audio is missing.")
        inner.text("format")
        found = files.take(inner, "data", inner.text("data"), "audio", at)
        inner.close()
        part.close()
        return found
    if isinstance(part.any("image_url"), str):
        inner, name = part, "image_url"
    else:
        inner, name = part.object("image_url"), "url"
    if inner is None:
        raise part.refuse("image_url", "image_url is missing.")
    url = inner.text(name)
    head, comma, data = url.partition(",")
    if head[:5].lower() != "data:" or not comma:
        raise inner.refuse(name, _NO_ADDRESS)
    if not head.lower().endswith(";base64"):
        raise inner.refuse(name, _NOT_BASE64)
    inner.skip(("detail",))
    found = files.take(inner, name, data.strip(), "image", at)
    inner.close()
    part.close()
    return found


def anthropic_file(block: Fields, files: Files, at: int) -> Media:
    """A block of the type “image”. Raises ApiError."""
    source = block.object("source")
    if source is None:
        raise block.refuse("source", "source is missing.")
    kind = source.text("type")
    if kind != "base64":
        raise source.refuse("type", f"{_NO_SOURCE} {shown(kind)} isn't supported.")
    source.text("media_type")
    found = files.take(source, "data", source.text("data"), "image", at)
    source.close()
    block.skip(("cache_control",))
    block.close()
    return found


def _refused(fields: Fields, name: str, sentence: str, code: str) -> ApiError:
    return ApiError(400, sentence, fields.named(name), code)
