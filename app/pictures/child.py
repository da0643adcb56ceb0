"""The picture process: it decodes what somebody dropped, pasted, or got with a chat.

Started as `main.py --child=pictures`; it ends when its standard input does. What must hold: no more
is decoded than `MAX_PIXELS`, whatever a file claims, and only kinds that Pillow reads by itself
(an EPS would start another program).
"""

from __future__ import annotations

import os
import signal
import sys
from io import BytesIO
from typing import Final, cast

from PIL import Image, ImageCms

from app.engine.protocol import wire
from app.engine.protocol.frames import ProtocolError
from app.pictures.kinds import HEAD_BYTES, picture_type
from app.pictures.messages import (
    DEADLINE_S,
    FIRST_FRAME,
    FIRST_PAGE,
    MAX_DRAWN,
    ON_WHITE,
    DrawPicture,
    PictureDrawn,
    PictureNotRead,
    PicturePrepared,
    PictureRefused,
    PictureReply,
    PictureRequest,
    PicturesReady,
    PreparePicture,
    decode_request,
)
from app.reading.limits import limit_process

MAX_PIXELS: Final = 64_000_000
MAX_JPEG_PIXELS: Final = 256_000_000
"""libjpeg makes them smaller while it reads them."""

_KINDS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_LOSSLESS: Final = frozenset({"PNG", "GIF", "BMP", "TIFF", ""})
_LARGE_PNG: Final = 2_000_000
_QUALITY: Final = 92

# EXIF's orientation: what turns the picture upright.
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION: Final = 0x0112
_LYING: Final = frozenset({5, 6, 7, 8})


def main() -> int:
    """Answer the parent until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire.die_with_parent()
    reader = wire.FrameReader(wire.claim_stdin())
    replies = wire.FrameWriter(wire.claim_stdout())
    Image.init()
    Image.MAX_IMAGE_PIXELS = None  # ours is checked
    if sys.platform != "win32":
        os.nice(5)  # behind the engine in the queue for a core
    limit_process(cpu_s=0)  # each request has its alarm
    replies.write(PicturesReady())
    try:
        while (payload := reader.read()) is not None:
            reply = answer(decode_request(payload))
            replies.write(reply)
            if isinstance(reply, PictureNotRead) and reply.kind == "memory":
                return 3  # what is left of the memory is not worth trusting
    except (ProtocolError, OSError) as error:
        print(f"the picture process ends: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


def answer(request: PictureRequest) -> PictureReply:
    """Do what one request asks. Never raises."""
    _set_alarm(2 * DEADLINE_S)  # for a parent that is gone itself
    try:
        if isinstance(request, PreparePicture):
            return prepared(request)
        return drawn(request)
    except PictureRefused as refused:
        return PictureNotRead(refused.kind, refused.sentence)
    except MemoryError:
        return PictureNotRead("memory", "needs too much memory. Make it smaller first.")
    except Exception as error:  # noqa: BLE001 - a decoder that stumbles, over whatever it is
        print(f"a picture was not read: {error!r}", file=sys.stderr)  # noqa: T201
        sentence = "is damaged or incomplete. Save or copy it again."
        return PictureNotRead("damaged", sentence)
    finally:
        _set_alarm(0)


def prepared(request: PreparePicture) -> PicturePrepared:
    image, kind = _opened(request)
    notes = []
    if getattr(image, "is_animated", False) and kind != "JPEG":
        notes.append(FIRST_PAGE if kind == "TIFF" else FIRST_FRAME)
    given = image.size
    turn = 1 if request.raw_width else _orientation(image)
    image, is_clear = _on_white(_fitting(image, request.longest, request.longest, turn))
    if is_clear:
        notes.append(ON_WHITE)
    data, media_type = _encoded(image, is_lossless=kind in _LOSSLESS)
    if turn in _LYING:
        given = given[::-1]
    return PicturePrepared(data, media_type, *image.size, *given, notes)


def drawn(request: DrawPicture) -> PictureDrawn:
    image, _ = _opened(request)
    width, height = (max(1, min(side, MAX_DRAWN)) for side in (request.width, request.height))
    image, _ = _on_white(_fitting(image, width, height, _orientation(image)))
    return PictureDrawn(*image.size, image.convert("RGBA").tobytes())


def _opened(request: PictureRequest) -> tuple[Image.Image, str]:
    """What the file's head says: nothing is decoded yet."""
    if isinstance(request, PreparePicture) and request.raw_width:
        size = request.raw_width, request.raw_height
        return Image.frombytes("RGBA", size, request.data), ""
    try:
        image = Image.open(BytesIO(request.data), formats=_KINDS)
    except (OSError, SyntaxError) as error:
        if picture_type(request.data[:HEAD_BYTES]) not in ("", "image/heic"):
            raise  # it only begins as one
        kinds = "PNG, JPEG, WebP, GIF, BMP, TIFF or AVIF"
        raise PictureRefused(
            "unknown", f"can't be read as a picture. Save it as {kinds}."
        ) from error
    kind = "JPEG" if image.format in ("JPEG", "MPO") else str(image.format)
    width, height = image.size
    if width * height > (MAX_JPEG_PIXELS if kind == "JPEG" else MAX_PIXELS):
        sentence = f"is {width:,} × {height:,} pixels, which is too large. Make it smaller first."
        raise PictureRefused("too_large", sentence)
    return image, kind


def _orientation(image: Image.Image) -> int:
    if image.format == "TIFF":
        return 1  # Pillow turns it as it decodes it, and says its size as it will be
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - what is beside the picture does not keep it away
        return 1


def _fitting(image: Image.Image, width: int, height: int, turn: int) -> Image.Image:
    """Decoded, upright, not larger than this."""
    if turn in _LYING:
        width, height = height, width
    scale = min(1.0, width / image.width, height / image.height)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    image.draft("RGB", size)
    image.load()
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    elif image.mode in ("I", "F"):
        image = _stretched(image)
    elif image.mode in ("P", "PA", "1"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    elif image.mode in ("L", "RGB") and image.has_transparency_data:
        image = image.convert("RGBA")
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    return image.transpose(_TURNS[turn]) if turn in _TURNS else image


def _stretched(image: Image.Image) -> Image.Image:
    """Measurements: the file does not say which number is white."""
    least, most = cast("tuple[float, float]", image.getextrema())
    scale = 255 / ((most - least) or 1)
    return image.point(lambda value: value * scale - least * scale).convert("L")


def _on_white(image: Image.Image) -> tuple[Image.Image, bool]:
    """As RGB in the colours of the web; whether anything of it was transparent."""
    profile = image.info.get("icc_profile")
    is_clear = False
    if image.mode in ("RGBA", "LA", "RGBa", "La"):
        image = image.convert("RGBA")
        alpha = image.getchannel("A")
        least, _ = alpha.getextrema()
        is_clear = isinstance(least, int | float) and least < 255
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=alpha)
        image = white
    return _in_srgb(image, profile), is_clear


def _in_srgb(image: Image.Image, profile: object) -> Image.Image:
    if isinstance(profile, bytes) and image.mode in ("RGB", "CMYK"):
        try:
            given = ImageCms.ImageCmsProfile(BytesIO(profile))
            ours = ImageCms.createProfile("sRGB")
            changed = ImageCms.profileToProfile(image, given, ours, outputMode="RGB")
        except Exception:  # noqa: BLE001 - a profile that does not fit: without it, then
            return image.convert("RGB")
        if changed is not None:
            return changed
    return image.convert("RGB")


def _encoded(image: Image.Image, *, is_lossless: bool) -> tuple[bytes, str]:
    """A photo as JPEG, else as PNG: letters stay sharp. A PNG that gets large is a photo, too."""
    image.info = {}
    if is_lossless:
        png = BytesIO()
        image.save(png, "PNG")
        if png.tell() <= _LARGE_PNG:
            return png.getvalue(), "image/png"
    jpeg = BytesIO()
    image.save(jpeg, "JPEG", quality=_QUALITY, subsampling=0)
    return jpeg.getvalue(), "image/jpeg"


def _set_alarm(seconds: float) -> None:
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)
