"""Pictures in the window: dropped, pasted, chosen, seen, looked at; by the events of real hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_pictures import a_picture, load_with_projector, prepare_here
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QPushButton, QWidget

from app.pictures.messages import PictureDrawn
from ui.pictures import thumbnails as thumbs
from ui.pictures.viewer import MediaViewer

SCRIPT: dict[str, Any] = {"replies": [{"text": "Red and blue."}], "projector": {"tokens": 16}}
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_here(monkeypatch)
    load_with_projector(monkeypatch)


def drop(target: QWidget, data: QMimeData) -> None:
    left, none, copy = (
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.DropAction.CopyAction,
    )
    QApplication.sendEvent(target, QDragEnterEvent(QPoint(5, 5), copy, data, left, none))
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), copy, data, left, none))


def chips(person: Any) -> list[Any]:
    composer = person.window.chat.composer
    return composer.chips.chips()


def tiles(person: Any, index: int) -> list[Any]:
    item = person.window.chat.transcript.rows.item(index)
    return [each for each in item.actions(0, 5000) if "picture" in each.name]


def colours(image: QImage) -> set[str]:
    """Of a picture of two halves."""
    places = (
        QPoint(image.width() // 4, image.height() // 2),
        QPoint(image.width() * 3 // 4, image.height() // 2),
    )
    return {
        "red" if image.pixelColor(p).red() > image.pixelColor(p).blue() else "blue" for p in places
    }


def test_pasted_dropped_and_chosen_they_are_counted_sent_and_seen(
    open_window: Any, tmp_path: Path
) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    composer = person.find(QWidget, "composer")
    pixels = QImage(300, 200, QImage.Format.Format_RGB32)
    pixels.fill(0xDC1E28)
    QGuiApplication.clipboard().setImage(pixels)
    QTest.keyClick(composer, Qt.Key.Key_V, CONTROL)
    person.wait(lambda: len(chips(person)) == 1)

    # A browser gives the picture, its address and a piece of a page.
    dragged = QMimeData()
    dragged.setData("image/png", a_picture(90, 60))
    dragged.setUrls([QUrl("https://example.org/ä b.png")])
    dragged.setText("https://example.org/ä b.png\n")
    dragged.setHtml('<img src="https://example.org/ä b.png">')
    drop(composer.viewport(), dragged)
    person.wait(lambda: len(chips(person)) == 2)
    assert person.written() == ""

    files = QMimeData()
    path = tmp_path / "halves.jpg"
    path.write_bytes(a_picture(600, 400, "JPEG"))
    files.setUrls([QUrl.fromLocalFile(str(path))])
    drop(person.window, files)
    person.wait(lambda: len(chips(person)) == 3)

    # A spreadsheet's cells are a text, with a picture beside it.
    cells = QMimeData()
    cells.setText("1\t2")
    cells.setImageData(pixels)
    QGuiApplication.clipboard().setMimeData(cells)
    QTest.keyClick(composer, Qt.Key.Key_V, CONTROL)
    assert person.written() == "1\t2"
    person.window.chat.composer.set_text("")

    person.wait(lambda: all(chip.attachment.tokens == 16 for chip in chips(person)))
    names = [chip.accessibleName() for chip in chips(person)]
    assert names[2] == "Attached picture: halves.jpg, 600 × 400 · 16 tokens"
    person.send("What are these?")
    assert person.wait_ended().content == "Red and blue."
    assert [len(m.attachments) for m in person.app.desk.shelf.path] == [3, 0]
    assert [t.label for t in tiles(person, 0)][2] == "Open the picture halves.jpg"

    # Painted from pixels that came back, and found again by the words of a screen reader.
    own = person.window.composing.thumbnails
    person.wait(lambda: own.held_bytes)
    found = person.wait(lambda: own.find(person.app.desk.shelf.path[0].attachments[2].id, 40, 40))
    assert colours(found) == {"red", "blue"}


def test_a_click_opens_a_window_that_zooms_copies_and_saves(
    open_window: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    paths = [tmp_path / f"{n}.png" for n in range(2)]
    for path in paths:
        path.write_bytes(a_picture(400, 300))
    person.app.desk.attachments.add_files([str(path) for path in paths])
    person.wait(lambda: [chip.attachment.tokens for chip in chips(person)] == [16, 16])
    person.press(Qt.Key.Key_Return)
    person.wait_ended()
    view = person.window.chat.transcript
    tile = tiles(person, 0)[1]
    view.scroll_to(0)
    place = (view.item_origin(0) + tile.rect.center()).toPoint()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    viewer = person.find(MediaViewer, "media_viewer")
    person.wait(lambda: viewer.canvas.image is not None)
    words = viewer.findChild(QLabel, "media_words")
    assert words.text() == "1.png · 400 × 300 · 16 tokens · 2 of 2 · 100%"
    for zoom in (200, 100):
        person.app.desk.settings.set("zoom_percent", zoom)
        person.app.application.processEvents()
        assert viewer.minimumSizeHint().width() <= 600
        room, size = viewer.screen().availableSize(), viewer.size()
        assert size == size.boundedTo(room)
    QTest.keyClick(viewer, Qt.Key.Key_Minus)
    assert viewer.canvas.zoom == 0.8
    QTest.keyClick(viewer, Qt.Key.Key_0)
    assert viewer.canvas.is_fitting
    QTest.keyClick(viewer, Qt.Key.Key_Right)
    person.wait(lambda: words.text().startswith("0.png"))
    person.wait(lambda: viewer.canvas.image is not None)
    QTest.keyClick(viewer, Qt.Key.Key_C, CONTROL)
    assert colours(QGuiApplication.clipboard().image()) == {"red", "blue"}
    QTest.mouseClick(viewer.findChild(QPushButton, "media_save"), Qt.MouseButton.LeftButton)
    dialog = viewer.findChild(QFileDialog, "save_media_dialog")
    target = tmp_path / "saved.png"
    dialog.fileSelected.emit(str(target))
    dialog.close()
    person.wait(target.exists)
    stored = person.app.desk.around.store.load_file(viewer.shown.id).result(20)
    assert target.read_bytes() == stored[1]

    # Another one is asked for, and the window is closed before it is there.
    late: list[Any] = []
    monkeypatch.setattr(person.app.desk.media, "draw", lambda *asked, still: late.append(asked[-1]))
    QTest.mouseClick(viewer.findChild(QPushButton, "media_next"), Qt.MouseButton.LeftButton)
    viewer.close()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    late[0](PictureDrawn(1, 1, b"1234"))


def test_where_the_model_cannot_see_it_is_said_with_what_would_do(
    open_window: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_with_projector(monkeypatch, "")
    person = open_window(SCRIPT)
    person.wait_ready()
    (tmp_path / "a.png").write_bytes(a_picture())
    person.app.desk.attachments.add_files([str(tmp_path / "a.png")])
    words = person.wait(lambda: person.window.findChild(QLabel, "unseen_words"))
    assert "can't see pictures" in words.text()
    assert person.find(QPushButton, "unseen_button").text()

    # In the smallest window, at the highest zoom, with pictures for two lines.
    for name in ("b.png", "c.png"):
        (tmp_path / name).write_bytes(a_picture())
    person.app.desk.attachments.add_files([str(tmp_path / name) for name in ("b.png", "c.png")])
    person.wait(lambda: len(chips(person)) == 3)
    chat = person.window.chat
    for zoom in (200, 100):
        person.app.desk.settings.set("zoom_percent", zoom)
        person.window.resize(900, 600)
        person.app.application.processEvents()
        assert chat.transcript.viewport().height() > 80
        assert words.height() >= words.heightForWidth(words.width())
        above = chat.composer.chips
        assert words.mapTo(chat, QPoint()).y() >= above.mapTo(chat, QPoint(0, above.height())).y()
    for _ in range(2):
        QTest.keyClick(chips(person)[-1], Qt.Key.Key_Delete)
    person.wait(lambda: len(chips(person)) == 1)
    person.type("What is this?")
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: person.written() == "What is this?")
    assert person.app.desk.shelf.path == ()
    QTest.keyClick(chips(person)[0], Qt.Key.Key_Delete)
    person.wait(lambda: not words.isVisible())
    person.press(Qt.Key.Key_Return)
    person.wait_ended()


@pytest.mark.parametrize("n_turns", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_many_pictures_are_read_as_they_are_seen_and_few_are_held(
    open_window: Any, monkeypatch: pytest.MonkeyPatch, n_turns: int
) -> None:
    """A chat of many messages with a picture each, all the way up."""
    from dataclasses import replace
    from datetime import timedelta

    from whole_chats import NOON, a_chat

    from models.records import Attachment

    most = 3_000_000
    monkeypatch.setattr(thumbs, "MAX_BYTES", most)
    person = open_window(SCRIPT)
    person.wait_ready()
    store = person.app.desk.around.store
    chat, files, messages = a_chat("album", n_turns), {}, []
    picture = a_picture(320, 240)
    for number, message in enumerate(chat.messages):
        if message.role == "user":
            own = f"picture {number}"
            files[own] = ("image/png", picture)
            details = {"width": 320, "height": 240, "media_type": "image/png"}
            attached = Attachment(
                own, "album", f"{number}.png", "", len(picture), NOON + timedelta(seconds=number),
                message.id, kind="picture", details=details,
            )  # fmt: skip
            message = replace(message, attachments=(attached,))
        messages.append(message)
    store.add_all([replace(chat, messages=tuple(messages), files=files)])
    own, view = person.window.composing.thumbnails, person.window.chat.transcript
    drawn: set[str] = set()
    own.arrived.connect(drawn.add)
    person.app.desk.shelf.open_stored("album")
    person.wait(lambda: len(person.app.desk.shelf.path) == len(messages))
    person.wait(lambda: drawn)
    bar = view.verticalScrollBar()
    n_asked = 0
    while bar.value() > bar.minimum():
        bar.setValue(bar.value() - view.viewport().height())
        person.app.application.processEvents()
        n_asked = max(n_asked, len(own._asked))
        assert own.held_bytes <= most + 320 * 240 * 4
    person.wait(lambda: "picture 0" in drawn)
    assert n_asked <= thumbs.MAX_ASKED
    assert view.rows.items_made < len(messages)
