"""What a sound is by its first bytes, and how long it lasts by its head. Nothing is decoded."""

from __future__ import annotations

from typing import Final

_MARKS: Final = (
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)
_MP3_KBITS: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)
_MP3_2_KBITS: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)
_MP3_RATES: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
"""By the version's two bits."""


def sound_type(head: bytes) -> str:
    """The media type; "" for what is no sound.

    >>> sound_type(b"RIFF....WAVEfmt "), sound_type(b"fLaC"), sound_type(b"\\xff\\xfb\\x90\\x00")
    ('audio/wav', 'audio/flac', 'audio/mpeg')
    """
    for mark, media_type in _MARKS:
        if head.startswith(mark):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[4:12] in (b"ftypM4A ", b"ftypM4B "):
        return "audio/mp4"
    return "audio/mpeg" if _mp3_frame(head, 0) else ""


def length_s(media_type: str, data: bytes) -> float | None:
    """By what its head says; None where it does not say it."""
    try:
        match media_type:
            case "audio/wav":
                return _wav_s(data)
            case "audio/flac":
                return _flac_s(data)
            case "audio/mpeg":
                return _mp3_s(data)
    except (IndexError, ZeroDivisionError):
        return None
    return None


def _wav_s(data: bytes) -> float | None:
    at, per_s = 12, 0
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if name == b"fmt ":
            per_s = int.from_bytes(data[at + 16 : at + 20], "little")
        elif name == b"data":
            return min(size, len(data) - at - 8) / per_s
        at += 8 + size + size % 2
    return None


def _flac_s(data: bytes) -> float | None:
    packed = int.from_bytes(data[18:26], "big")  # of STREAMINFO, which comes first
    rate, samples = packed >> 44, packed & ((1 << 36) - 1)
    return samples / rate if samples else None


def _mp3_s(data: bytes) -> float | None:
    """By the count that a head frame has, or the first frame's rate, which then holds for all."""
    at = 0
    if data.startswith(b"ID3"):
        parts = data[6:10]
        at = 10 + sum(part << shift for part, shift in zip(parts, (21, 14, 7, 0), strict=True))
    at = next(
        (place for place in range(at, min(at + 4096, len(data))) if _mp3_frame(data, place)), -1
    )
    frame = _mp3_frame(data, at) if at >= 0 else None
    if frame is None:
        return None
    rate, kbits, samples = frame
    head = data[at : at + 200]
    for mark in (b"Xing", b"Info"):
        place = head.find(mark)
        if place >= 0 and head[place + 7] & 1:
            return int.from_bytes(head[place + 8 : place + 12], "big") * samples / rate
    return (len(data) - at) / (kbits * 125)


def _mp3_frame(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Sample rate, kbit/s and samples of the frame of layer III that begins here."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, kbits_at, rate_at = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or rate_at == 3:
        return None
    kbits = (_MP3_KBITS if version == 3 else _MP3_2_KBITS)[kbits_at]
    if not kbits:
        return None
    return _MP3_RATES[version][rate_at], kbits, 1152 if version == 3 else 576
