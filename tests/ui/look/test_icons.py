"""Icons are drawn from one font, in the colour asked for, without importing qtawesome."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QFontDatabase, QIcon, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.look import icons
from ui.look.icons import icon

USED = ("copy", "check", "caret-left", "caret-right", "caret-down", "arrow-clockwise", "gear")


def inked_box(image: QImage) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of what is not transparent."""
    points = [
        (x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() > 40
    ]
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


@pytest.mark.parametrize("name", USED)
def test_icon_has_ink_inside_its_box(qapp: QApplication, name: str) -> None:
    image = icon(name, "#0f6e84").pixmap(QSize(48, 48)).toImage()
    left, top, right, bottom = inked_box(image)
    assert left > 0
    assert top > 0
    assert right < 47
    assert bottom < 47
    assert abs((top + bottom) / 2 - 23.5) < 6, "sits in the middle"
    assert abs((left + right) / 2 - 23.5) < 6


def test_color_and_disabled_color(qapp: QApplication) -> None:
    drawn = icon("stop-fill", "#ff0000", "#00ff00")
    middle = drawn.pixmap(QSize(32, 32)).toImage().pixelColor(16, 16)
    assert middle == QColor("#ff0000")
    disabled = drawn.pixmap(QSize(32, 32), QIcon.Mode.Disabled).toImage().pixelColor(16, 16)
    assert disabled == QColor("#00ff00")


def test_painting_an_icon_changes_none_of_the_known_fonts(qtbot: QtBot, qapp: QApplication) -> None:
    """Texts that are laid out by then would be drawn with glyph numbers of other fonts."""
    icons._font.cache_clear()
    families = QFontDatabase.families()
    with qtbot.assertNotEmitted(qapp.fontDatabaseChanged, wait=1):
        assert not icon("copy", "#123456").pixmap(QSize(20, 20)).isNull()
    assert icons._font.cache_info().currsize == 1
    assert QFontDatabase.families() == families


def test_unknown_icon_is_an_error(qapp: QApplication) -> None:
    with pytest.raises(KeyError, match="no-such-icon"):
        icon("no-such-icon", "#000000")


def test_qtawesome_is_not_imported() -> None:
    program = (
        "import sys; from PySide6.QtWidgets import QApplication; app = QApplication([]);"
        "from PySide6.QtCore import QSize; from ui.look.icons import icon;"
        "icon('copy', '#000000').pixmap(QSize(16, 16));"
        "print([m for m in sys.modules if m.startswith(('qtpy', 'qtawesome'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_an_icon_is_made_once_and_stays(qapp: QApplication) -> None:
    """One that becomes garbage together with its engine is ended twice."""
    made = icon("copy", "#102030")
    assert icon("copy", "#102030") is made
    assert icon("copy", "#102031") is not made
