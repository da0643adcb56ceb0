"""What a picture's or a sound's file says of itself, read before native code decodes it.

stb_image and miniaudio take memory for whatever size a header claims, and unpack whatever comes, so
a few kB can ask for gigabytes; a failed allocation in there ends the process. So first the header
is read here, the size bounded, and what is compressed without a bound of its own (PNG) unpacked and
counted. Formats that the decoders do not know are refused by name. All of it raises Refusal.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NoReturn

from app.engine.protocol.media_messages import MAX_PIXELS, MAX_SIDE, MediaKind
from app.media_types import MAX_STEPS, READ_HERE, media_type_of, picture_size
from app.refusal import Refusal

MAX_SECONDS: Final = 900
_THINNEST: Final = 200
"""Sides of a picture to each other; thinner ones end in no pixel at all, as they are made smaller.
Qwen-VL's own limit."""
_PIECE: Final = 1 << 20
_MIN_RATE, _MAX_RATE = 4_000, 384_000

_OTHERS: Final = (
    (b"<svg", "SVG"),
    (b"<?xml", "SVG"),
    (b"%PDF", "PDF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"OggS", "Ogg"),
    (b"\x1aE\xdf\xa3", "Matroska"),
    (b"8BPS", "Photoshop"),
)
"""First bytes of formats that people bring along and nobody here decodes."""


def check_file(kind: MediaKind, data: bytes) -> None:
    """Raise Refusal for what no decoder may see."""
    try:
        _check(kind, data)
    except (struct.error, IndexError):  # it ends in the middle of what it has begun
        _damaged("picture" if kind == "image" else "audio")


def _check(kind: MediaKind, data: bytes) -> None:
    if kind == "image":
        width, height = _claimed(data)
        if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE) or width * height > MAX_PIXELS:
            _refuse(
                f"A picture of {width:,} × {height:,} pixels is too large: at most "
                f"{MAX_PIXELS // 1_000_000} megapixels can be shown to a model. Make it smaller."
                if width and height
                else "The picture has no pixels, so there is nothing to see. Choose another one."
            )
        if max(width, height) > _THINNEST * min(width, height):
            _refuse(
                f"A picture of {width:,} × {height:,} pixels is too long and thin. Cut out what "
                "matters."
            )
        if data.startswith(_PNG):
            _check_png(data, width, height)
        return
    seconds = sound_seconds(data)
    if seconds > MAX_SECONDS:
        _refuse(
            f"The audio is {seconds / 60:,.0f} minutes long, but at most {MAX_SECONDS // 60} "
            "minutes can be played to a model at once. Cut it."
        )
    if seconds <= 0:
        _refuse("The audio is empty, so there is nothing to hear. Choose another file.")


def _refuse(sentence: str) -> NoReturn:
    raise Refusal("bad_media", sentence)


def _damaged(what: str) -> NoReturn:
    _refuse(f"The {what} is damaged or cut off, so it can't be read. Choose another one.")


def _unknown(data: bytes, what: str, known: str) -> NoReturn:
    found = next((name for first, name in _OTHERS if data.lstrip().startswith(first)), "")
    if data[:4] == b"RIFF":
        found = {b"WEBP": "WebP", b"WAVE": "WAV", b"AVI ": "AVI"}.get(data[8:12], found)
    elif data[4:8] == b"ftyp":
        found = {b"heic": "HEIC", b"avif": "AVIF"}.get(data[8:12], "MP4")
    if not data:
        _refuse(f"The file is empty, so there is no {what} in it. Choose another one.")
    it_is = f"is a {found} file" if found else "has a format that isn't known"
    _refuse(f"The {what} {it_is}. Save it as {known} and attach that.")


# --- pictures ---------------------------------------------------------------------------------

_PNG: Final = b"\x89PNG\r\n\x1a\n"


def _claimed(data: bytes) -> tuple[int, int]:
    """Width and height in pixels. Raises Refusal."""
    kind = media_type_of(data)
    if not kind.startswith("image/") or kind not in READ_HERE:
        _unknown(data, "picture", "PNG or JPEG")
    return picture_size(data) or _damaged("picture")


def _check_png(data: bytes, width: int, height: int) -> None:
    """The decoder unpacks all there is before it asks whether it fits."""
    depth, colour = data[24], data[25]
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 0)
    if not channels or depth not in (1, 2, 4, 8, 16):
        _damaged("picture")
    # Interlaced ones have seven passes, each with rows of its own.
    most = ((width * channels * depth + 7) // 8 + 8) * height * 2 + 1024
    unpacker, n_bytes = zlib.decompressobj(), 0
    try:
        for part in _png_data(data):
            while part and not unpacker.eof:
                n_bytes += len(unpacker.decompress(part, _PIECE))
                part = unpacker.unconsumed_tail
                if n_bytes > most:
                    _damaged("picture")
    except zlib.error:
        _damaged("picture")
    if not unpacker.eof:
        _damaged("picture")


def _png_data(data: bytes) -> Iterator[bytes]:
    at = len(_PNG)
    for _ in range(MAX_STEPS):
        if at + 8 > len(data):
            return
        size, name = struct.unpack_from(">I4s", data, at)
        if name == b"IDAT":
            yield data[at + 8 : at + 8 + size]
        if name == b"IEND":
            return
        at += 12 + size


# --- sounds -----------------------------------------------------------------------------------


def sound_seconds(data: bytes) -> float:
    """How long a sound is, by its header or its frames. Raises Refusal, and
    struct.error or IndexError where it is cut off."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _wav_seconds(data)
    if data[:4] == b"fLaC":
        return _flac_seconds(data)
    if data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:] and data[1] & 0xE0 == 0xE0):
        return _mp3_seconds(data)
    _unknown(data, "audio", "WAV, MP3 or FLAC")


def _rate(rate: int) -> int:
    if not _MIN_RATE <= rate <= _MAX_RATE:
        _damaged("audio")
    return rate


def _wav_seconds(data: bytes) -> float:
    at, rate, frame = 12, 0, 0
    for _ in range(MAX_STEPS):
        if at + 8 > len(data):
            break
        name, size = struct.unpack_from("<4sI", data, at)
        if name == b"fmt ":
            form, channels, rate, _, frame = struct.unpack_from("<HHIIH", data, at + 8)
            if form not in (1, 3, 6, 7, 0xFFFE) or not 1 <= channels <= 8 or not 0 < frame <= 64:
                _damaged("audio")
        elif name == b"data":
            if size > len(data) - at - 8 or not frame:  # what it claims is what is made room for
                _damaged("audio")
            return float(size / frame / _rate(rate))
        at += 8 + size + size % 2
    _damaged("audio")


def _flac_seconds(data: bytes) -> float:
    if data[4] & 0x7F or struct.unpack_from(">I", b"\0" + data[5:8])[0] != 34:
        _damaged("audio")
    (packed,) = struct.unpack_from(">Q", data, 18)
    rate, count = packed >> 44, packed & ((1 << 36) - 1)
    return float(count / _rate(rate))


_MP3_RATES: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MP3_BITS: Final = {
    (True, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 1): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""(whether MPEG 1, 3 for layer I … 1 for layer III) → kbit/s (ISO 11172-3, 13818-3)."""


def _mp3_seconds(data: bytes) -> float:
    """Sums up the frames: no header says how many there are."""
    at, seconds, n_frames, n_false = 0, 0.0, 0, 0
    if data[:3] == b"ID3":
        a, b, c, d = data[6:10]
        at = 10 + ((a & 127) << 21 | (b & 127) << 14 | (c & 127) << 7 | d & 127)
    while at + 4 <= len(data):
        frame = _mp3_frame(data, at)
        if frame is None:
            at = data.find(b"\xff", at + 1)
            n_false += 1
            if n_false > MAX_STEPS:
                _damaged("audio")
            if at < 0:
                break
            continue
        n_frames += 1
        seconds += frame[1]
        at += frame[0]
        if seconds > MAX_SECONDS:
            return seconds
    if not n_frames:
        _damaged("audio")
    return seconds


def _mp3_frame(data: bytes, at: int) -> tuple[int, float] | None:
    """(bytes, seconds) of the frame that begins here; None: none does."""
    (head,) = struct.unpack_from(">I", data, at)
    version, layer = head >> 19 & 3, head >> 17 & 3
    bits, rate = head >> 12 & 15, head >> 10 & 3
    if head >> 21 != 0x7FF or version == 1 or layer == 0 or not 0 < bits < 15 or rate == 3:
        return None
    is_first = version == 3
    per_s, kbits = _MP3_RATES[version][rate], _MP3_BITS[is_first, layer][bits]
    n_samples = 384 if layer == 3 else 1152 if layer == 2 or is_first else 576
    padding = (head >> 9 & 1) * (4 if layer == 3 else 1)
    size = n_samples // 8 * kbits * 1000 // per_s + padding
    if layer == 3:
        size = (12 * kbits * 1000 // per_s) * 4 + padding
    return max(size, 4), n_samples / per_s
