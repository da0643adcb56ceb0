"""Pictures that tests bring along: good ones by Pillow, odd and hostile ones by hand."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from app.engine.client.engine import Engine
from app.engine.protocol.wire import encode_frame
from app.pictures import child
from app.pictures.client import Pictures
from app.pictures.messages import PictureNotRead, PictureRefused, decode_reply

_LOAD = Engine.load

RED, BLUE = (220, 30, 40), (20, 60, 200)


def a_picture(width: int = 60, height: int = 40, kind: str = "PNG", **options: Any) -> bytes:
    """Red at the left, blue at the right."""
    return encoded(two_halves(width, height), kind, **options)


def two_halves(width: int, height: int, mode: str = "RGB") -> Image.Image:
    image = Image.new("RGB", (width, height), BLUE)
    image.paste(RED, (0, 0, width // 2, height))
    return image.convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(orientation: int, width: int = 60, height: int = 40, kind: str = "JPEG") -> bytes:
    """As a camera writes it that was held another way."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = "where it was taken"
    return a_picture(width, height, kind, exif=exif)


def an_animation(kind: str = "GIF") -> bytes:
    frames = [Image.new("RGB", (20, 20), color) for color in (RED, BLUE, "white")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=100, loop=0)


def png_claiming(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG of a few bytes that says it is of this size."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>while(true);</script></svg>'
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


def prepare_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test's window gives to the picture process is done in a thread of its own."""

    def answer(_pictures: Pictures, request: Any) -> Any:
        reply = child.answer(request)
        if isinstance(reply, PictureNotRead):
            raise PictureRefused(reply.kind, reply.sentence)
        return decode_reply(bytes(encode_frame(reply)[4:]))

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(child, "_set_alarm", lambda _seconds: None)
    monkeypatch.setattr(Pictures, "_answered", answer)


def load_with_projector(monkeypatch: pytest.MonkeyPatch, own: str = "eyes.gguf") -> None:
    """Whatever is loaded gets this projector; empty: none."""

    def load_seeing(
        engine: Engine, path: Any, options: Any = None, saved: Any = None, _projector: str = ""
    ) -> int:
        return _LOAD(engine, path, options, saved, own)

    monkeypatch.setattr(Engine, "load", load_seeing)
