"""The picture process: real files by Pillow's own writers, odd and hostile ones by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from io import BytesIO
from typing import Any

import psutil
import pytest
from each import each
from made_pictures import (
    BLUE,
    EPS,
    RED,
    SVG,
    a_picture,
    an_animation,
    encoded,
    png_claiming,
    turned,
    two_halves,
)
from PIL import Image

from app.pictures.client import Pictures
from app.pictures.messages import (
    FIRST_FRAME,
    FIRST_PAGE,
    ON_WHITE,
    PictureDrawn,
    PicturePrepared,
    PictureRefused,
)

WAIT_S = 30


@pytest.fixture(scope="module")
def pictures() -> Iterator[Pictures]:
    made = Pictures()
    made.draw(a_picture(), 1, 1).result(WAIT_S)
    yield made
    made.close()


def prepared(pictures: Pictures, data: bytes, longest: int = 1000) -> PicturePrepared:
    return pictures.prepare(data, longest).result(WAIT_S)


def opened(found: PicturePrepared) -> Image.Image:
    image = Image.open(BytesIO(found.data))
    assert image.size == (found.width, found.height)
    assert Image.MIME[image.format or ""] == found.media_type
    assert image.mode == "RGB"
    return image


def colour_at(image: Image.Image, x: float, y: float) -> str:
    """The nearest of those that the pictures are made of: what is near is what was meant."""
    place = int(x * image.width), int(y * image.height)
    found = image.getpixel(place)
    assert isinstance(found, tuple)
    known = {"red": RED, "blue": BLUE, "white": (255, 255, 255), "black": (0, 0, 0)}
    return min(
        known, key=lambda name: sum(abs(a - b) for a, b in zip(known[name], found, strict=True))
    )


@each(
    ("kind", "options", "media_type"),
    [
        ("PNG", {}, "image/png"),
        ("JPEG", {"quality": 95}, "image/jpeg"),
        ("JPEG", {"progressive": True}, "image/jpeg"),
        ("GIF", {}, "image/png"),
        ("WEBP", {}, "image/jpeg"),
        ("BMP", {}, "image/png"),
        ("TIFF", {"compression": "tiff_lzw"}, "image/png"),
        ("AVIF", {}, "image/jpeg"),
    ],
)
def test_each_kind_is_read_and_scaled(
    pictures: Pictures, kind: str, options: dict[str, Any], media_type: str
) -> None:
    found = prepared(pictures, a_picture(600, 400, kind, **options), 150)
    assert (found.width, found.height, found.media_type) == (150, 100, media_type)
    assert (found.given_width, found.given_height, found.notes) == (600, 400, [])
    image = opened(found)
    assert (colour_at(image, 0.2, 0.5), colour_at(image, 0.8, 0.5)) == ("red", "blue")
    small = prepared(pictures, a_picture(60, 40, kind, **options), 150)
    assert (small.width, small.height) == (60, 40)  # never enlarged


# Where the red half is after a viewer has turned it, from the EXIF standard's drawing of an F.
@each(
    ("orientation", "red_at"),
    [(1, "left"), (2, "right"), (3, "right"), (4, "left"),
     (5, "top"), (6, "top"), (7, "bottom"), (8, "bottom")],
)  # fmt: skip
def test_a_camera_may_have_been_held_any_way(
    pictures: Pictures, orientation: int, red_at: str
) -> None:
    found = prepared(pictures, turned(orientation, 600, 400), 300)
    image = opened(found)
    places = {"left": (0.1, 0.5), "right": (0.9, 0.5), "top": (0.5, 0.1), "bottom": (0.5, 0.9)}
    assert colour_at(image, *places[red_at]) == "red"
    is_lying = red_at in ("top", "bottom")
    assert image.size == ((200, 300) if is_lying else (300, 200))
    assert (found.given_width, found.given_height) == ((400, 600) if is_lying else (600, 400))
    assert b"taken" not in found.data  # where, when and by whom is nobody's business
    shown = pictures.draw(turned(orientation, 600, 400), 90, 90).result(WAIT_S)
    assert (shown.width, shown.height) == ((60, 90) if is_lying else (90, 60))
    for kind in ("TIFF", "PNG", "WEBP", "AVIF"):
        found = prepared(pictures, turned(orientation, 60, 40, kind), 30)
        image = opened(found)
        assert colour_at(image, *places[red_at]) == "red", kind
        assert image.size == ((20, 30) if is_lying else (30, 20))
        assert (found.given_width, found.given_height) == ((40, 60) if is_lying else (60, 40))


def test_what_is_transparent_stands_on_white_and_is_said(pictures: Pictures) -> None:
    clear = two_halves(40, 40, "RGBA")
    clear.paste((0, 0, 0, 0), (0, 0, 20, 40))
    palette = two_halves(40, 40).quantize(2)
    red = palette.getpixel((0, 0))
    for data in (
        encoded(clear, "PNG"),
        encoded(clear, "WEBP", lossless=True),
        encoded(palette, "GIF", transparency=red),
        encoded(palette, "PNG", transparency=red),
    ):
        found = prepared(pictures, data)
        image = opened(found)
        assert found.notes == [ON_WHITE]
        assert (colour_at(image, 0.2, 0.5), colour_at(image, 0.8, 0.5)) == ("white", "blue")
    assert prepared(pictures, encoded(two_halves(40, 40, "RGBA"), "PNG")).notes == []


@each("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_taken_and_that_is_said(
    pictures: Pictures, kind: str
) -> None:
    found = prepared(pictures, an_animation(kind))
    assert found.notes == [FIRST_FRAME]
    assert colour_at(opened(found), 0.5, 0.5) == "red"


def test_of_pages_the_first_one_is_taken(pictures: Pictures) -> None:
    pages = [two_halves(60, 40), Image.new("RGB", (60, 40), "white")]
    found = prepared(pictures, encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    assert found.notes == [FIRST_PAGE]
    assert colour_at(opened(found), 0.2, 0.5) == "red"


@each("mode", ["L", "LA", "1", "I;16", "I", "F", "CMYK", "YCbCr"])
def test_all_ways_to_store_colours_come_out_as_they_look(pictures: Pictures, mode: str) -> None:
    if mode in ("I;16", "I", "F"):
        image = Image.new(mode, (40, 20), {"I;16": 65535, "I": 900, "F": 0.9}[mode])
        image.paste(0, (0, 0, 20, 20))
    else:
        image = Image.new("L", (40, 20), 255)
        image.paste(0, (0, 0, 20, 20))
        image = image.convert("RGB").convert(mode) if mode == "CMYK" else image.convert(mode)
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG", "I": "TIFF", "F": "TIFF"}.get(mode, "PNG")
    found = opened(prepared(pictures, encoded(image, kind)))
    assert (colour_at(found, 0.2, 0.5), colour_at(found, 0.8, 0.5)) == ("black", "white")


def test_pixels_of_the_clipboard_are_a_picture_too(pictures: Pictures) -> None:
    raw = two_halves(60, 40, "RGBA").tobytes()
    found = pictures.prepare(raw, 30, (60, 40)).result(WAIT_S)
    assert (found.width, found.height, found.media_type) == (30, 20, "image/png")
    assert colour_at(opened(found), 0.2, 0.5) == "red"
    with pytest.raises(PictureRefused):
        pictures.prepare(raw, 30, (600, 400)).result(WAIT_S)


def test_a_drawing_has_the_pixels_that_the_picture_has(pictures: Pictures) -> None:
    drawn: PictureDrawn = pictures.draw(a_picture(60, 40), 600, 600).result(WAIT_S)
    image = Image.frombytes("RGBA", (60, 40), drawn.pixels)
    assert (drawn.width, drawn.height) == (60, 40)
    assert list(image.get_flattened_data()) == list(two_halves(60, 40, "RGBA").get_flattened_data())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
def test_a_process_of_many_pictures_does_not_run_out_of_time(pictures: Pictures) -> None:
    pictures.draw(a_picture(6, 4), 6, 4).result(WAIT_S)
    assert pictures._child is not None
    own, its = (
        psutil.Process(pid).rlimit(psutil.RLIMIT_CPU) for pid in (None, pictures._child.pid)
    )
    assert its == own, "each picture has a deadline of its own"


@each(
    ("data", "kind", "words"),
    [
        pytest.param(b"", "unknown", "can't be read as a picture", id="nothing"),
        pytest.param(b"hello" * 99, "unknown", "can't be read as a picture", id="text"),
        pytest.param(SVG, "unknown", "can't be read as a picture", id="SVG"),
        pytest.param(EPS, "unknown", "can't be read as a picture", id="EPS"),
        pytest.param(a_picture()[:70], "damaged", "damaged or incomplete", id="a cut PNG"),
        pytest.param(a_picture(kind="JPEG")[:-90], "damaged", "damaged", id="a cut JPEG"),
        pytest.param(a_picture(kind="JPEG")[:300], "damaged", "damaged", id="a JPEG's head"),
        pytest.param(an_animation()[:60], "damaged", "damaged or incomplete", id="a cut GIF"),
        pytest.param(
            png_claiming(60_000, 60_000), "too_large", "60,000 × 60,000 pixels", id="a claim"
        ),
        pytest.param(png_claiming(8000, 7000), "damaged", "damaged", id="a claim that fits"),
        pytest.param(
            a_picture(kind="JPEG").replace(b"\x00\x28\x00\x3c", b"\xff\xff\xff\xff"),
            "too_large", "65,535 × 65,535 pixels", id="a JPEG's claim",
        ),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_in_words(
    pictures: Pictures, data: bytes, kind: str, words: str
) -> None:
    for asked in (pictures.prepare(data, 100), pictures.draw(data, 100, 100)):
        with pytest.raises(PictureRefused) as refused:
            asked.result(WAIT_S)
        assert refused.value.kind == kind
        assert words in refused.value.sentence
    # It costs nothing but itself.
    assert prepared(pictures, a_picture()).width == 60


CHILD = """
import sys, time
sys.path.insert(0, {root!r})
from app.pictures import child
answered = child.answer
def answer(request):
    if request.data == b"crash":
        import ctypes
        ctypes.string_at(0)
    if request.data == b"hang":
        time.sleep(600)
    return answered(request)
child.answer = answer
sys.exit(child.main())
"""


def test_one_that_crashes_or_hangs_costs_one_sentence_and_the_next_is_read(
    tmp_path: Any,
) -> None:
    from pathlib import Path

    script = tmp_path / "child.py"
    script.write_text(CHILD.format(root=str(Path(__file__).parents[3])))
    pictures = Pictures(command=[sys.executable, str(script)], deadline_s=0.3, idle_s=0.05)
    try:
        crash, hang = pictures.prepare(b"crash", 9), pictures.prepare(b"hang", 9)
        later = pictures.draw(a_picture(), 9, 9)
        unwanted = pictures.draw(a_picture(), 9, 9)
        assert unwanted.cancel()
        with pytest.raises(PictureRefused, match="damaged"):
            crash.result(WAIT_S)
        with pytest.raises(PictureRefused, match="too long"):
            hang.result(WAIT_S)
        assert later.result(WAIT_S).width == 9
    finally:
        pictures.close()
    with pytest.raises(CancelledError):
        pictures.draw(a_picture(), 9, 9).result(WAIT_S)
