"""Colours, sizes and the style sheet: one `Theme` object is handed to every widget.

What must hold: every pair of a text colour and a plane that it stands on reaches a contrast
of 4.5:1 in both palettes (a test computes it); lengths are multiples of 4 px at 100 % and go
through `px`; nothing here needs a restart (`changed` says when to ask again).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from ui import fonts
from ui.theme_sheet import stylesheet

STYLE = "Fusion"
"""Of Qt's own styles the one that looks the same everywhere."""
MODES = ("system", "light", "dark")
MOTIONS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
    Qt.UIEffect.UI_AnimateToolBox,
)
ZOOM_MIN = 80
ZOOM_MAX = 300

__all__ = ["DARK", "LIGHT", "MODES", "ZOOM_MAX", "ZOOM_MIN", "Colors", "Theme", "stylesheet"]


@dataclass(frozen=True, slots=True)
class Colors:
    """One palette, as #rrggbb.

    `chat`, `side` and `card` are the three planes; `bubble` lies under what the user wrote,
    `code` under code, `hover` under the pointer. `ink`, `dim`, `accent`, `error` and `warning`
    may be written on any plane, `on_accent` on `accent` only. `ink` may be written on every tint
    between `tint_low` and `tint_high`, which lie behind tokens. The colours that begin with `from_`
    say where a token comes from (`ui.origins`); nothing is written on them.
    """

    is_dark: bool
    chat: str
    side: str
    card: str
    bubble: str
    code: str
    hover: str
    line: str
    ink: str
    dim: str
    accent: str
    accent_hover: str
    accent_tone: str
    on_accent: str
    selection: str
    second: str
    found: str
    found_now: str
    tint_low: str
    tint_middle: str
    tint_high: str
    from_template: str
    from_system: str
    from_you: str
    from_attachment: str
    from_reply: str
    from_tool: str
    error: str
    error_tone: str
    warning: str
    code_comment: str
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    code_type: str
    code_builtin: str


LIGHT = Colors(
    is_dark=False,
    chat="#faf9f7",
    side="#f2f0ec",
    card="#ffffff",
    bubble="#f2f0ec",
    code="#f4f2ee",
    hover="#eae7e1",
    line="#e4e0d9",
    ink="#1d1c1a",
    dim="#65615a",
    accent="#0f6e84",
    accent_hover="#0c5f72",
    accent_tone="#d8ecef",
    on_accent="#ffffff",
    selection="#bfe0e6",
    second="#c8a24a",
    found="#ffe9a3",
    found_now="#ffc14d",
    tint_low="#e3ebf2",
    tint_middle="#d5d6b4",
    tint_high="#d6a92c",
    from_template="#a39e92",
    from_system="#7d95b0",
    from_you="#0f6e84",
    from_attachment="#c8a24a",
    from_reply="#57a385",
    from_tool="#a77fb0",
    error="#a8231c",
    error_tone="#f9e9e6",
    warning="#7a5408",
    code_comment="#65615a",
    code_keyword="#8a3b7a",
    code_string="#2a6b3c",
    code_number="#9a4a12",
    code_name="#2457a6",
    code_type="#0f6e84",
    code_builtin="#7a4fa8",
)

DARK = Colors(
    is_dark=True,
    chat="#17181a",
    side="#1e1f22",
    card="#222427",
    bubble="#222427",
    code="#1e1f22",
    hover="#2a2c30",
    line="#303236",
    ink="#e9e7e3",
    dim="#a9a69f",
    accent="#5cc0d3",
    accent_hover="#7bd0e0",
    accent_tone="#1d3a41",
    on_accent="#0d1a1d",
    selection="#24525d",
    second="#c8a24a",
    found="#3d3410",
    found_now="#6b4a08",
    tint_low="#202b38",
    tint_middle="#3f4a3c",
    tint_high="#73600f",
    from_template="#85827b",
    from_system="#7f97b4",
    from_you="#3fa3b8",
    from_attachment="#c8a24a",
    from_reply="#63ad8f",
    from_tool="#b08abb",
    error="#f2a29b",
    error_tone="#3a2323",
    warning="#e0b968",
    code_comment="#a9a69f",
    code_keyword="#d69ac9",
    code_string="#93c99e",
    code_number="#e0a878",
    code_name="#8fb4ee",
    code_type="#5cc0d3",
    code_builtin="#c3a6ea",
)


class Theme(QObject):
    """The present colours, fonts and zoom. `changed` follows every change of any of them."""

    changed = Signal()

    def __init__(
        self,
        mode: str = "system",
        zoom_percent: int = 100,
        chosen: fonts.Choice = fonts.Choice(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        self._chosen = chosen
        self._mode = mode if mode in MODES else "system"
        self._zoom_percent = _clamped(zoom_percent)
        self._colors = self._choose()
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._on_system_changed)
        hints.accessibility().contrastPreferenceChanged.connect(self._on_system_changed)

    @classmethod
    def remembered(cls, look: Mapping[str, Any]) -> Theme:
        """The theme that was last used, as far as `look` says something that can be."""
        mode, percent = look.get("theme"), look.get("zoom_percent")
        return cls(
            mode if mode in MODES else "system",
            percent if isinstance(percent, int) else 100,
            _chosen_fonts(look.get),
        )

    @property
    def colors(self) -> Colors:
        return self._colors

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def zoom_percent(self) -> int:
        return self._zoom_percent

    @property
    def scale(self) -> float:
        """1.0 at 100 %."""
        return self._zoom_percent / 100

    def px(self, length: float) -> int:
        """A length at 100 % in pixels of the present zoom; never 0 for a positive length."""
        scaled = round(length * self.scale)
        return max(1, scaled) if length > 0 else scaled

    @property
    def small_px(self) -> int:
        """The size of figures and captions at 100 %."""
        return self._chosen.small_px

    @property
    def reading_px(self) -> int:
        """The size of what people read at 100 %."""
        return self._chosen.reading_px

    def font_text(self, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """The interface: 14 px unless the user chose otherwise."""
        chosen = self._chosen
        return fonts.text_font(chosen.text_px * self.scale, weight=weight, family=chosen.text)

    def font_reply(self, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """What people read: 15 px."""
        return self._reading(fonts.REPLY_PX, weight)

    def font_heading(self, level: int) -> QFont:
        """Level 1 is the largest; from the fourth on they are as large as the text."""
        size = fonts.HEADING_PX[min(level, len(fonts.HEADING_PX)) - 1]
        return self._reading(size, QFont.Weight.DemiBold)

    def font_small(self, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """Figures and captions: 12 px."""
        chosen = self._chosen
        return fonts.text_font(chosen.small_px * self.scale, weight=weight, family=chosen.text)

    def font_mono(self, size_px: float = fonts.TEXT_PX) -> QFont:
        """The fixed-pitch font; `size_px` is the size at 100 % beside a reply of usual size."""
        size = size_px * self._chosen.reading_px / fonts.REPLY_PX
        return fonts.mono_font(size * self.scale, self._chosen.mono)

    def _reading(self, size_px: float, weight: QFont.Weight) -> QFont:
        chosen = self._chosen
        size = size_px * chosen.reading_px / fonts.REPLY_PX
        family = chosen.reading or chosen.text
        return fonts.text_font(size * self.scale, weight=weight, family=family)

    def set_fonts(self, settings: object) -> None:
        """Take over families and sizes from the user's settings."""
        chosen = _chosen_fonts(lambda name: getattr(settings, name))
        if chosen != self._chosen:
            self._chosen = chosen
            self.changed.emit()

    def set_mode(self, mode: str) -> None:
        """mode: system, light or dark. Raises ValueError for anything else."""
        if mode not in MODES:
            raise ValueError(f"unknown theme mode {mode!r}")
        if mode == self._mode:
            return
        self._mode = mode
        self._tell_platform()
        self._refresh()

    def set_zoom(self, percent: int) -> None:
        """Zoom in percent, kept within 80 to 300."""
        percent = _clamped(percent)
        if percent != self._zoom_percent:
            self._zoom_percent = percent
            self.changed.emit()

    def palette(self) -> QPalette:
        """The colours as Qt's own widgets understand them."""
        return _palette(self._colors)

    def apply_to(self, app: QApplication, *, has_style: bool = False) -> None:
        """Dress the whole program, now and after every change. `has_style`: it was started with
        `STYLE` (asking takes PySide a tenth of the way to the first paint)."""
        if not has_style and app.style().name() != STYLE.lower():
            app.setStyle(STYLE)
        # Nothing of ours moves by itself, and Qt's own shall not where somebody asked for rest.
        for effect in MOTIONS:
            app.setEffectEnabled(effect, False)
        self._tell_platform()

        def dress() -> None:
            font, palette, sheet = self.font_text(), self.palette(), stylesheet(self)
            if (app.font(), app.palette(), app.styleSheet()) == (font, palette, sheet):
                return  # Qt would ask every widget again
            app.setFont(font)
            app.setPalette(palette)
            app.setStyleSheet(sheet)

        self.changed.connect(dress)
        dress()

    def _tell_platform(self) -> None:
        """Title bars and native dialogs follow, where the platform can."""
        hints = QGuiApplication.styleHints()
        if self._mode == "system":
            hints.unsetColorScheme()
        else:
            scheme = Qt.ColorScheme.Dark if self._mode == "dark" else Qt.ColorScheme.Light
            hints.setColorScheme(scheme)

    def _choose(self) -> Colors:
        hints = QGuiApplication.styleHints()
        is_dark = self._mode == "dark"
        if self._mode == "system":
            is_dark = hints.colorScheme() == Qt.ColorScheme.Dark
        colors = DARK if is_dark else LIGHT
        if hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast:
            return replace(colors, line=colors.dim, dim=colors.ink, code_comment=colors.ink)
        return colors

    def _refresh(self) -> None:
        colors = self._choose()
        if colors != self._colors:
            self._colors = colors
            self.changed.emit()

    def _on_system_changed(self) -> None:
        self._refresh()


def _chosen_fonts(value_of: Callable[[str], Any]) -> fonts.Choice:
    """Families and sizes by the names of their settings; what cannot be is as usual."""
    families = [value_of(name) for name in ("font_text", "font_reading", "font_mono")]
    text, reading, mono = (each if isinstance(each, str) else "" for each in families)
    sizes = [value_of(name) for name in ("text_px", "reading_px")]
    is_usable = all(type(size) is int and 8 <= size <= 60 for size in sizes)
    text_px, reading_px = sizes if is_usable else (fonts.TEXT_PX, fonts.REPLY_PX)
    return fonts.Choice(text, reading, mono, text_px, reading_px)


def _clamped(percent: int) -> int:
    return min(ZOOM_MAX, max(ZOOM_MIN, int(percent)))


def _palette(colors: Colors) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    pairs = {
        role.Window: colors.chat,
        role.WindowText: colors.ink,
        role.Base: colors.card,
        role.AlternateBase: colors.side,
        role.Text: colors.ink,
        role.Button: colors.card,
        role.ButtonText: colors.ink,
        role.BrightText: colors.error,
        role.ToolTipBase: colors.card,
        role.ToolTipText: colors.ink,
        role.PlaceholderText: colors.dim,
        role.Highlight: colors.selection,
        role.HighlightedText: colors.ink,
        role.Accent: colors.accent,
        role.Link: colors.accent,
        role.LinkVisited: colors.accent,
        role.Light: colors.card,
        role.Midlight: colors.hover,
        role.Mid: colors.line,
        role.Dark: colors.dim,
        role.Shadow: colors.line,
    }
    for name, value in pairs.items():
        palette.setColor(name, QColor(value))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(colors.dim))
    return palette
