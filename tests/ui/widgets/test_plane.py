"""A plane paints every pixel of its own: what was on the screen before never shines through."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage, QRegion
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.widgets.plane import Plane


def drawn(widget: QWidget) -> QImage:
    """The widget over what was there before, without Qt's own clearing."""
    picture = QImage(widget.size(), QImage.Format.Format_RGB32)
    picture.fill(QColor("magenta"))
    widget.render(picture, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
    return picture


def colors_of(picture: QImage) -> set[str]:
    places = ((x, y) for x in range(picture.width()) for y in range(picture.height()))
    return {picture.pixelColor(x, y).name() for x, y in places}


@pytest.mark.parametrize("color", ["chat", "side"])
def test_it_is_one_colour_all_over_in_each_theme(
    qtbot: QtBot, qapp: QApplication, own_look: None, color: str
) -> None:
    theme = Theme("light")
    theme.apply_to(qapp)
    window = QWidget()
    qtbot.addWidget(window)
    plane = Plane(theme, color, window)  # type: ignore[arg-type]
    label = QLabel("", plane)
    label.resize(20, 20)
    window.resize(60, 40)
    plane.resize(60, 40)
    window.show()
    for name in ("light", "dark", "light"):
        theme.set_mode(name)
        theme.apply_to(qapp)
        assert colors_of(drawn(window)) == {QColor(getattr(theme.colors, color)).name()}, name


def test_what_is_behind_it_is_not_painted_with_what_is_in_it(qtbot: QtBot) -> None:
    counts = {"window": 0, "plane": 0}

    class Window(QWidget):
        def paintEvent(self, event: object) -> None:
            counts["window"] += 1

    class Counted(Plane):
        def paintEvent(self, event: object) -> None:
            counts["plane"] += 1
            super().paintEvent(event)  # type: ignore[arg-type]

    window = Window()
    qtbot.addWidget(window)
    plane = Counted(Theme("light"), "chat", window)
    label = QLabel("a", plane)
    window.resize(100, 100)
    plane.resize(100, 100)
    window.show()
    qtbot.waitUntil(lambda: counts["plane"] > 0)
    before = dict(counts)
    label.setText("b")
    label.repaint()
    assert counts["plane"] > before["plane"]
    assert counts["window"] == before["window"]
    assert plane.testAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
