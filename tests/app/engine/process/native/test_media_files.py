"""Pictures and sounds that are not what they claim: refused before native code sees them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from each import each
from small_projectors import bmp, flac, gif, jpeg, mp3, png, wav

from app.engine.process.native.media_files import check_file, picture_size, sound_seconds
from app.refusal import Refusal


def test_sizes_are_read_as_the_headers_have_them() -> None:
    assert picture_size(png(7, 5)) == (7, 5)
    assert picture_size(gif(3, 2)) == (3, 2)
    assert picture_size(bmp(6, 4)) == (6, 4)
    assert picture_size(jpeg(24, 16)) == (24, 16)
    assert sound_seconds(wav(0.5)) == pytest.approx(0.5)
    assert sound_seconds(flac(1.25)) == pytest.approx(1.25)
    assert sound_seconds(mp3(10)) == pytest.approx(10 * 1152 / 44100)
    for data in (png(7, 5), gif(3, 2), bmp(6, 4), jpeg(24, 16)):
        check_file("image", data)
    for data in (wav(0.5), flac(1.25), mp3(10)):
        check_file("audio", data)


def test_a_file_of_nothing_but_beginnings_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 MB of them would hold up everybody's text for half a minute."""
    chunk = struct.pack(">I4sI", 0, b"tEXt", 0)
    seen, heard = png(4, 4), wav(0.1)
    for n in (5, 15):
        monkeypatch.setattr("app.media_types.MAX_STEPS", 10)
        monkeypatch.setattr("app.engine.process.native.media_files.MAX_STEPS", 10)
        for kind, data in (
            ("image", b"\xff\xd8" + b"\xff\xe0\0\2" * n + jpeg(8, 8)[2:]),
            ("image", b"\xff\xd8" + b"\xff" * n + jpeg(8, 8)[2:]),
            ("image", seen[:33] + chunk * n + seen[33:]),
            ("audio", heard[:12] + b"junk\0\0\0\0" * n + heard[12:]),
            ("audio", b"\xff\xfb" + b"\xff\0" * n + mp3(10)),
        ):
            if n < 10:
                check_file(kind, data)  # type: ignore[arg-type]
                continue
            with pytest.raises(Refusal) as caught:
                check_file(kind, data)  # type: ignore[arg-type]
            assert "damaged" in caught.value.sentence, data[:20]


def _bomb() -> bytes:
    """A picture of 10 x 10 whose data unpacks to 200 MB."""
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
    head = png(10, 10)
    at = head.index(b"IDAT") - 4
    return (
        head[:at]
        + struct.pack(">I", len(data))
        + b"IDAT"
        + data
        + struct.pack(">I", zlib.crc32(b"IDAT" + data))
        + head[head.index(b"IEND") - 4 :]
    )


SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'
HOSTILE: list[tuple[str, Any, bytes, str]] = [
    ("nothing", "image", b"", "is empty"),
    ("zeros", "image", bytes(1000), "isn't known"),
    ("SVG", "image", SVG, "SVG"),
    ("WebP", "image", b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20), "WebP"),
    ("HEIC", "image", b"\0\0\0\x18ftypheic" + bytes(20), "HEIC"),
    ("a sound as a picture", "image", wav(0.1), "WAV"),
    ("a picture as a sound", "audio", png(4, 4), "isn't known"),
    ("a PDF", "image", b"%PDF-1.7\n", "PDF"),
    ("60,000 x 60,000", "image", png(4, 4, claims=(60_000, 60_000)), "60,000 × 60,000"),
    ("4 billion pixels wide", "image", png(4, 4, claims=(2**32 - 1, 1)), "too large"),
    ("no pixels", "image", png(4, 4, claims=(0, 4)), "no pixels"),
    ("too thin", "image", png(900, 1), "long and thin"),
    ("larger than its data", "image", png(4, 4)[:40], "damaged"),
    ("cut off", "image", png(40, 40)[:-600], "damaged"),
    ("only the first bytes", "image", png(4, 4)[:10], "damaged"),
    ("a bomb", "image", _bomb(), "damaged"),
    (
        "an odd depth",
        "image",
        png(4, 4).replace(b"\x08\x02\0\0\0", b"\x07\x09\0\0\0", 1),
        "damaged",
    ),
    (
        "GIF of 60,000 x 60,000",
        "image",
        b"GIF89a" + struct.pack("<HHBBB", 60000, 60000, 0, 0, 0),
        "60,000 × 60,000",
    ),
    ("GIF without a size", "image", b"GIF89a\1", "damaged"),
    ("JPEG without a size", "image", b"\xff\xd8\xff\xd9", "damaged"),
    ("JPEG of markers alone", "image", b"\xff\xd8" + b"\xff" * 500, "damaged"),
    ("JPEG that is all segments", "image", b"\xff\xd8\xff\xe0\0\2" * 50, "damaged"),
    ("WAV that claims 4 GB", "audio", wav(0.1, claims=2**32 - 1), "damaged"),
    ("WAV of one sample a second", "audio", wav(0.1, rate=1), "damaged"),
    ("WAV without data", "audio", wav(0.1)[:36], "damaged"),
    ("WAV of nothing", "audio", wav(0), "empty"),
    ("FLAC of a year", "audio", flac(31_536_000), "minutes"),
    ("MP3 of nothing", "audio", b"ID3" + bytes(40), "damaged"),
    ("MP3 of noise", "audio", b"\xff\xe0" + bytes(400), "damaged"),
    ("MP3 of an hour", "audio", mp3(140_000, bits=1), "minutes"),
]


@each(("name", "kind", "data", "words"), HOSTILE)
def test_what_no_decoder_may_see_is_refused(name: str, kind: Any, data: bytes, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_file(kind, data)
    assert refused.value.kind == "bad_media"
    assert words in refused.value.sentence, refused.value.sentence


def test_an_animation_is_its_first_picture() -> None:
    check_file("image", gif(3, 2, frames=50))
