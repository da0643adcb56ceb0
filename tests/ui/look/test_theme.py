"""Contrast, zoom, mode: what the theme promises to every widget."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialogButtonBox,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QStyle,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.chat.settings.settings import Settings
from ui.look.colors import DARK, LIGHT, Colors
from ui.look.theme import Theme
from ui.look.theme_sheet import stylesheet

TEXTS = ("ink", "dim", "accent", "error", "warning")
PLANES = ("chat", "side", "card", "bubble", "code", "hover", "accent_tone")
CODE_TEXTS = tuple(name for name in Colors._fields if name.startswith("code_"))


def luminance(color: str) -> float:
    """Relative luminance by WCAG 2.2."""

    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(color[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_reaches_the_contrast(colors: Colors) -> None:
    pairs = [(text, plane) for text in TEXTS for plane in PLANES]
    pairs += [(text, "code") for text in CODE_TEXTS]
    pairs += [(text, "selection") for text in ("ink",)]
    pairs += [("on_accent", "accent"), ("on_accent", "accent_hover")]
    pairs += [("ink", "error_tone"), ("error", "error_tone")]
    low = {
        pair: round(contrast(getattr(colors, pair[0]), getattr(colors, pair[1])), 2)
        for pair in pairs
    }
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_palette_roles_are_readable(qapp: QApplication, colors: Colors) -> None:
    palette = Theme("dark" if colors.is_dark else "light").palette()
    role = QPalette.ColorRole
    for text, plane in (
        (role.WindowText, role.Window),
        (role.Text, role.Base),
        (role.PlaceholderText, role.Base),
        (role.ButtonText, role.Button),
        (role.ToolTipText, role.ToolTipBase),
        (role.HighlightedText, role.Highlight),
        (role.Link, role.Base),
    ):
        pair = (palette.color(text).name(), palette.color(plane).name())
        assert contrast(*pair) >= 4.5, (text, plane)


def test_unknown_system_scheme_is_light(qapp: QApplication) -> None:
    assert QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Unknown
    assert Theme("system").colors == LIGHT


def test_mode_changes_live(qtbot, qapp: QApplication) -> None:
    theme = Theme("light")
    with qtbot.waitSignal(theme.changed):
        theme.set_mode("dark")
    assert theme.colors == DARK
    with qtbot.waitSignal(theme.changed):
        theme.set_mode("light")
    assert theme.colors == LIGHT
    theme.set_mode("system")


def test_system_scheme_is_followed(qtbot, qapp: QApplication, monkeypatch) -> None:
    theme = Theme("system")
    hints = QGuiApplication.styleHints()
    monkeypatch.setattr(type(hints), "colorScheme", lambda _self: Qt.ColorScheme.Dark)
    with qtbot.waitSignal(theme.changed):
        hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.colors == DARK


def test_unknown_mode_is_refused(qapp: QApplication) -> None:
    with pytest.raises(ValueError, match="sepia"):
        Theme().set_mode("sepia")
    assert Theme("sepia").mode == "system"


def test_zoom_is_clamped_and_scales(qtbot, qapp: QApplication) -> None:
    theme = Theme()
    with qtbot.waitSignal(theme.changed):
        theme.set_zoom(1000)
    assert theme.zoom_percent == 300
    assert theme.px(4) == 12
    assert theme.font_text().pixelSize() == 42
    theme.set_zoom(10)
    assert theme.zoom_percent == 80
    assert theme.px(1) == 1
    assert theme.px(0) == 0
    assert theme.font_small().pixelSize() == 10


def test_three_sizes(qapp: QApplication) -> None:
    theme = Theme()
    sizes = [f.pixelSize() for f in (theme.font_reply(), theme.font_text(), theme.font_small())]
    assert sizes == [15, 14, 12]
    assert theme.font_mono().fixedPitch()


def test_high_contrast_drops_the_dim_ink(qapp: QApplication, monkeypatch) -> None:
    accessibility = QGuiApplication.styleHints().accessibility()
    monkeypatch.setattr(
        type(accessibility),
        "contrastPreference",
        lambda _self: Qt.ContrastPreference.HighContrast,
    )
    colors = Theme("light").colors
    assert colors.dim == LIGHT.ink
    assert colors.line == LIGHT.dim


@pytest.mark.parametrize("zoom", [80, 100, 300])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_style_sheet_parses_and_dresses(qtbot, qapp: QApplication, mode: str, zoom: int) -> None:
    """Qt warns about a sheet that it cannot parse, and a warning fails the run."""
    theme = Theme(mode, zoom)
    button = QPushButton("Send")
    button.setProperty("kind", "primary")
    qtbot.addWidget(button)
    button.setStyleSheet(stylesheet(theme))
    button.ensurePolished()
    button.resize(button.sizeHint())
    edge = button.grab().toImage().pixelColor(button.width() // 2, theme.px(4))
    assert edge == QColor(theme.colors.accent)


def test_buttons_of_dialogs_have_no_pictures_of_the_systems(qtbot, qapp: QApplication) -> None:
    box = QDialogButtonBox()
    qtbot.addWidget(box)
    box.setStyleSheet(
        "QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 1; }" + stylesheet(Theme("light"))
    )
    box.addButton(QDialogButtonBox.StandardButton.Cancel)
    box.ensurePolished()
    has_icons = QStyle.StyleHint.SH_DialogButtonBox_ButtonsHaveIcons
    assert not box.style().styleHint(has_icons, None, box)


def test_chosen_fonts_and_sizes_count_at_once_and_keep_their_proportions(
    qapp: QApplication, qtbot: QtBot
) -> None:
    theme = Theme("light")
    family = QFontDatabase.families()[0]
    small, heading = theme.font_small().pixelSize(), theme.font_heading(1).pixelSize()
    with qtbot.waitSignal(theme.changed):
        theme.set_fonts(Settings(font_text=family, text_px=28, reading_px=30))
    assert theme.font_text().family() == theme.font_reply().family() == family
    assert (theme.font_text().pixelSize(), theme.font_reply().pixelSize()) == (28, 30)
    assert theme.font_small().pixelSize() == 2 * small
    assert theme.font_heading(1).pixelSize() == 2 * heading
    assert f"font-size: {2 * small}px" in stylesheet(theme)
    theme.set_fonts(Settings(font_text=family, font_reading="Other", font_mono="Third"))
    assert theme.font_reply().family() == "Other"
    assert theme.font_mono().family() == "Third"


@pytest.mark.parametrize(
    "look",
    [
        {"text_px": "large", "reading_px": 15},
        {"text_px": True, "reading_px": 15},
        {"text_px": 10_000, "reading_px": 15},
        {"font_text": 5, "font_mono": ["x"]},
    ],
)
def test_remembered_fonts_that_cannot_be_are_as_usual(
    qapp: QApplication, look: dict[str, object]
) -> None:
    theme, usual = Theme.remembered(look), Theme()
    assert theme.font_text() == usual.font_text()
    assert theme.font_mono() == usual.font_mono()


def tab_bar() -> QTabBar:
    bar = QTabBar()
    for name in ("General", "Appearance"):
        bar.addTab(name)
    return bar


@pytest.mark.parametrize(
    "make",
    [
        tab_bar,
        lambda: QCheckBox("Compact"),
        lambda: QRadioButton("Compact"),
        lambda: QPushButton("Compact"),
        lambda: QToolButton(text="Compact"),
    ],
    ids=["tab", "check", "radio", "button", "tool"],
)
def test_the_keyboards_focus_is_around_a_label_and_not_on_it(
    qtbot: QtBot, qapp: QApplication, make: Callable[[], QWidget]
) -> None:
    """Qt draws a frame of its own once Tab was pressed in a window."""
    theme = Theme("light")
    window = QWidget()
    qtbot.addWidget(window)
    window.setStyleSheet(stylesheet(theme))
    field, widget = QLineEdit(), make()
    column = QVBoxLayout(window)
    column.addWidget(field)
    column.addWidget(widget)
    with qtbot.waitExposed(window):
        window.show()
    window.activateWindow()
    field.setFocus()
    at_rest = widget.grab().toImage()
    QTest.keyClick(field, Qt.Key.Key_Tab)
    assert widget.hasFocus()
    focused = widget.grab().toImage()
    assert focused != at_rest, "it shows where the keyboard is"
    metrics = widget.fontMetrics()
    label = QRect(0, 0, metrics.horizontalAdvance("Genera"), metrics.ascent() // 2)
    whole = widget.tabRect(0) if isinstance(widget, QTabBar) else widget.rect()
    label.moveCenter(whole.center())
    assert focused.copy(label) == at_rest.copy(label)
