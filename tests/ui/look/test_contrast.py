"""Contrast measured from what is painted (row G16): each text on the ground it stands on.

The palettes' own numbers are in `test_theme.py`; here nothing is believed but the pixels, in
every window, in both themes, after a change while they are open.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QApplication,
    QCompleter,
    QDialog,
    QFileDialog,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import ConversationOpened, EngineStateChanged
from app.chat.settings.settings import Settings
from models.records import Attachment, Role
from ui.chat.attachment_reader import AttachmentReader
from ui.chat.compare_ask import AskSeveral
from ui.look.theme import Theme
from ui.shell.window import MainWindow
from ui.windows.progress import IMPORT, PAGE, Progress

WANTED = 4.5
WITH_TEXT = (QLabel, QPushButton, QLineEdit, QPlainTextEdit, QTabBar)


@functools.cache
def luminance(pixel: int) -> float:
    parts = [((pixel >> shift) & 255) / 255 for shift in (16, 8, 0)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: int, second: int) -> float:
    one, other = luminance(first), luminance(second)
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


def painted_contrast(image: QImage, rect: QRect) -> float:
    """Of the pixel that stands out most from the ground, which is what there is most of."""
    part = image.copy(rect.intersected(image.rect()))
    pixels = Counter(memoryview(part.constBits()).cast("B").cast("I"))
    ground = pixels.most_common(1)[0][0]
    return max(contrast(ground, pixel) for pixel in pixels)


def words_of(widget: QWidget) -> str:
    if isinstance(widget, QLineEdit):
        return widget.text() or widget.placeholderText()
    if isinstance(widget, QPlainTextEdit):
        return widget.toPlainText() or widget.placeholderText()
    if isinstance(widget, QTabBar):
        return widget.tabText(0)
    assert isinstance(widget, QLabel | QPushButton)
    return widget.text()


def texts(window: QWidget) -> Iterator[tuple[QWidget, QRect]]:
    """Every piece of text that is wholly on screen, without its frame."""
    for widget in window.findChildren(QWidget):
        is_there = (
            isinstance(widget, WITH_TEXT) and widget.isVisible() and widget.window() is window
        )
        if not is_there or not words_of(widget).strip():
            continue
        corner = widget.mapTo(window, QPoint(0, 0))
        inner = QRect(corner, widget.size()).adjusted(3, 3, -3, -3)
        if window.rect().contains(inner) and widget.visibleRegion().boundingRect() == widget.rect():
            yield widget, inner


def faint(window: QWidget) -> dict[str, float]:
    image = window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    found = {}
    for widget, rect in texts(window):
        measured = painted_contrast(image, rect)
        if measured < WANTED:
            found[f"{widget.objectName() or words_of(widget)[:30]}"] = round(measured, 2)
    return found


@pytest.fixture
def window(
    open_window: Callable[..., MainWindow], desk: FakeDesk, bridge: FakeBridge
) -> MainWindow:
    desk.shelf.conversations = (conversation(1, "Trip to Paris"), conversation(2, "Quicksort"))
    made = open_window()
    bridge.emit_event(EngineStateChanged("ready", "SmolLM2", loaded()))
    reply = "It is **Paris**, see [here](https://a.b).\n\n```python\nx = 1  # one\n```\n"
    path = (message(1, Role.USER, "What is it?"), message(2, Role.ASSISTANT, reply))
    bridge.emit_event(ConversationOpened(desk.shelf.conversations[0], path))
    return made


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_all_text_of_the_main_window(window: MainWindow, theme: Theme, mode: str) -> None:
    other = {"light": "dark", "dark": "light"}[mode]
    theme.apply_to(QApplication.instance())  # type: ignore[arg-type]
    for each in (other, mode):  # changed while it is open
        theme.set_mode(each)
        QApplication.processEvents()
        assert faint(window) == {}
    assert len(list(texts(window))) >= 6


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_all_text_of_the_settings(
    window: MainWindow, desk: FakeDesk, theme: Theme, mode: str
) -> None:
    theme.apply_to(QApplication.instance())  # type: ignore[arg-type]
    settings = window.settings_window()
    settings.resize(680, 900)
    settings.show_page("appearance")
    theme.set_mode(mode)
    n_texts = 0
    for place in range(settings.tabs.count()):
        settings.tabs.setCurrentIndex(place)
        QApplication.processEvents()
        assert faint(settings) == {}, settings.tabs.tabText(place)
        n_texts += len(list(texts(settings)))
    assert n_texts > 40


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_message_text_code_and_links(window: MainWindow, theme: Theme, mode: str) -> None:
    theme.apply_to(QApplication.instance())  # type: ignore[arg-type]
    theme.set_mode(mode)
    QApplication.processEvents()
    viewport = window.chat.transcript.viewport()
    image = viewport.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    lines = 0
    for top in range(0, image.height() - 12, 12):
        rect = QRect(0, top, image.width(), 12)
        ground_only = painted_contrast(image, rect) < 1.4  # tone beside tone, no text
        lines += not ground_only
        assert ground_only or painted_contrast(image, rect) >= WANTED, top
    assert lines >= 3


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_selected_text_stays_readable(qtbot, theme: Theme, mode: str) -> None:  # type: ignore[no-untyped-def]
    theme.apply_to(QApplication.instance())  # type: ignore[arg-type]
    theme.set_mode(mode)
    field = QLineEdit("selected words")
    qtbot.addWidget(field)
    field.resize(200, 32)
    field.show()
    field.setFocus(Qt.FocusReason.TabFocusReason)
    field.selectAll()
    image = field.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    assert painted_contrast(image, field.rect().adjusted(9, 6, -90, -6)) >= WANTED


def test_nothing_moves_by_itself(theme: Theme) -> None:
    theme.apply_to(QApplication.instance())  # type: ignore[arg-type]
    for effect in Qt.UIEffect:
        if effect is not Qt.UIEffect.UI_General:
            assert not QApplication.isEffectEnabled(effect), effect


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_list_that_is_a_window_of_its_own_has_an_opaque_ground(
    qapp: QApplication, qtbot: QtBot, theme: Theme, mode: str
) -> None:
    """As the completions of a file dialog, of which we build nothing."""
    theme.set_mode(mode)
    theme.apply_to(qapp)
    field = QLineEdit()
    qtbot.addWidget(field)
    completer = QCompleter(["tests", "tools"], field)
    field.setCompleter(completer)
    with qtbot.waitExposed(field):
        field.show()
    field.setFocus()
    qtbot.keyClicks(field, "t")
    popup = completer.popup()
    qtbot.waitUntil(popup.isVisible)
    image = popup.grab().toImage().convertToFormat(QImage.Format.Format_ARGB32)
    corner = image.pixelColor(image.width() - 4, image.height() - 4)
    assert (corner.name(), corner.alpha()) == (theme.colors.card, 255)
    popup.hide()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_all_dialogs_stand_on_one_plane(
    qapp: QApplication, window: MainWindow, theme: Theme, mode: str
) -> None:
    theme.set_mode(mode)
    theme.apply_to(qapp)
    text = Attachment("a", "c", "a.txt", "words", 5, NOON)
    window.message_acts.show_map()
    dialogs = [
        *window.findChildren(QDialog, "branch_map"),
        QMessageBox(window),
        QFileDialog(window),
        AskSeveral(theme, Settings(), window),
        AttachmentReader(theme, text, window, put_into_text=None, remove=None),
        Progress(theme, IMPORT, window),
        Progress(theme, PAGE, window),
    ]
    assert len(dialogs) == 7
    for dialog in dialogs:
        dialog.show()
        image = dialog.grab().toImage()
        ground = image.pixelColor(image.width() - 2, 2).name()
        assert ground == theme.colors.side, dialog
        dialog.close()
