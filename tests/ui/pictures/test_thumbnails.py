"""Small pictures: asked for once, given up when many others are wanted, few held."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QImage

from app.pictures.messages import PictureDrawn
from ui.pictures import thumbnails as thumbs
from ui.pictures.given import MAX_PIXELS, is_picture, picture_in
from ui.pictures.thumbnails import Thumbnails

Then = Callable[[PictureDrawn | None], None]


class Drawer:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Then, Callable[[], bool]]] = []

    def __call__(
        self, attachment_id: str, width: int, height: int, then: Then, *, still: Callable[[], bool]
    ) -> None:
        self.asked.append((attachment_id, then, still))


def red(width: int = 4, height: int = 3) -> PictureDrawn:
    return PictureDrawn(width, height, b"\xff\0\0\xff" * (width * height))


def test_one_is_asked_for_once_and_what_was_scrolled_past_is_given_up(qapp: object) -> None:
    drawer = Drawer()
    own = Thumbnails(drawer)
    arrived: list[str] = []
    own.arrived.connect(arrived.append)
    for _ in range(2):
        assert own.find("a", 40, 30) is None
    assert [each for each, _, _ in drawer.asked] == ["a"]
    for number in range(thumbs.MAX_ASKED):
        own.find(f"later {number}", 40, 30)
    _, then, still = drawer.asked[0]
    assert not still()
    then(None)  # nobody has drawn it
    assert not own.is_lost("a")
    assert own.find("a", 40, 30) is None
    assert drawer.asked[-1][0] == "a"
    assert drawer.asked[-1][2]()
    drawer.asked[-1][1](red())
    image = own.find("a", 40, 30)
    assert image is not None
    assert image.pixelColor(3, 2).name() == "#ff0000"
    assert arrived == ["a"]
    drawer.asked[5][1](None)
    assert own.is_lost("later 4")
    n_asked = len(drawer.asked)
    assert own.find("later 4", 40, 30) is None
    assert len(drawer.asked) == n_asked


def test_no_more_is_held_than_the_bound(qapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbs, "MAX_BYTES", 3 * 48)
    drawer = Drawer()
    own = Thumbnails(drawer)
    for number in range(9):
        own.find(str(number), 4, 3)
        drawer.asked[-1][1](red())
        assert own.held_bytes <= 3 * 48
    assert own.find("8", 4, 3) is not None
    assert own.find("0", 4, 3) is None


def test_what_is_meant_as_a_picture(qapp: object) -> None:
    def data(text: str = "", url: str = "", *, is_file: bool = False) -> QMimeData:
        made = QMimeData()
        if is_file:
            made.setData("image/jpeg", b"\xff\xd8\xff")
        else:
            made.setImageData(QImage(4, 3, QImage.Format.Format_RGB32))
        if url:
            made.setUrls([QUrl(url)])
        if text:
            made.setText(text)
        return made

    page = "https://example.org/ant.png"
    assert is_picture(data())
    assert is_picture(data(is_file=True))
    assert is_picture(data(page, page))
    assert not is_picture(data("cells of a table"))
    only_text = QMimeData()
    only_text.setText("hello")
    assert not is_picture(only_text)
    assert picture_in(only_text) is None
    drawing = QMimeData()
    drawing.setData("image/svg+xml", b"<svg/>")
    assert not is_picture(drawing)

    huge = QMimeData()
    huge.setImageData(QImage(6000, 4000, QImage.Format.Format_RGB32))
    given = picture_in(huge)
    assert given is not None
    width, height = given.raw_size
    assert width * height <= MAX_PIXELS
    assert len(given.data) == 4 * width * height
    assert abs(width / height - 1.5) < 0.01
