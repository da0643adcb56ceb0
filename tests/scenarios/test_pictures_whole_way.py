"""A picture in the real window: the real engine, a projector, and the process that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_pictures import turned
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLabel
from small_networks import small_network
from small_projectors import CELLS, small_projector

from app.engine.prompts.media import is_media
from app.engine.protocol.cache_messages import CacheMap, ReadCache

pytestmark = pytest.mark.soak


def drop(person: Any, path: Path) -> Any:
    """On the window, and wait for its chip."""
    files, target = QMimeData(), person.window
    files.setUrls([QUrl.fromLocalFile(str(path))])
    how = (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    copy = Qt.DropAction.CopyAction
    QApplication.sendEvent(target, QDragEnterEvent(QPoint(5, 5), copy, files, *how))
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), copy, files, *how))
    (chip,) = person.wait(lambda: person.window.chat.composer.chips.chips())
    return chip


def test_it_is_described_and_without_its_projector_refused(
    open_window: Any, tmp_path: Path
) -> None:
    weights, eyes = tmp_path / "tiny-VL.gguf", tmp_path / "mmproj-tiny-VL.gguf"
    small_network(weights, "grouped")
    small_projector(eyes, "gemma3")
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(turned(6, 600, 400))

    person = open_window(None, "--gguf", str(weights))
    person.wait_ready()
    person.app.desk.settings.set("max_tokens", 8)
    chip = drop(person, photo)
    person.wait(lambda: chip.attachment.tokens)
    assert chip.accessibleName() == "Attached picture: photo.jpg, 400 × 600 · 34 tokens"
    person.send("What is this?")
    reply = person.wait_ended()
    assert (reply.state.value, len(reply.token_ids)) == ("complete", 8)
    found: list[CacheMap] = []
    person.app.desk.questions.ask(
        ReadCache(0), CacheMap, found.append, lambda why: None, still=lambda: True
    )
    person.wait(lambda: found)
    (slot,) = found[0].slots
    assert sum(map(is_media, slot.token_ids.numbers())) == CELLS["gemma3"]
    person.app.close()

    eyes.unlink()
    person = open_window(None, "--gguf", str(weights))
    person.wait_ready()
    words = person.wait(lambda: person.window.findChild(QLabel, "unseen_words"))
    person.wait(lambda: "only told their names" in words.accessibleName())
    drop(person, photo)
    person.wait(lambda: "can't see pictures" in words.accessibleName())
    before = len(person.app.desk.shelf.path)
    person.type("And this?")
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: person.written() == "And this?")
    assert len(person.app.desk.shelf.path) == before
