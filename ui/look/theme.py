"""Colours, sizes and the style sheet: one `Theme` object is handed to every widget.

What must hold: lengths are multiples of 4 px at 100 % and go through `px`; nothing here needs a
restart. What a widget says once (`space`, `size`, `font`, `sheet`) the theme keeps right by itself;
whoever paints or computes with lengths asks again when `changed` comes, which is after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QLayout, QWidget
from shiboken6 import isValid

from ui.look import fonts
from ui.look.colors import DARK, LIGHT, Colors
from ui.look.theme_sheet import stylesheet

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

Font = ParamSpec("Font")
Margins = float | tuple[float, float] | tuple[float, float, float, float]
"""All around; at the sides, and above and below; or left, top, right, bottom."""


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
        self._application: QApplication | None = None
        # By weak references, and each rule is handed what it is about: nothing lives longer by it.
        self._kept: WeakKeyDictionary[QObject, dict[str, Callable[[Any], None]]]
        self._kept = WeakKeyDictionary()
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
    def text_px(self) -> int:
        """The size of the interface at 100 %."""
        return self._chosen.text_px

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
            self._tell()

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
            self._tell()

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
        self._application = app
        self._dress()

    def _dress(self) -> None:
        app = self._application
        if app is None:
            return
        font, palette, sheet = self.font_text(), self.palette(), stylesheet(self)
        if (app.font(), app.palette(), app.styleSheet()) == (font, palette, sheet):
            return  # Qt would ask every widget again
        app.setFont(font)
        app.setPalette(palette)
        app.setStyleSheet(sheet)

    # --- what it keeps right ------------------------------------------------------------

    def space(
        self,
        one: QLayout | QWidget,
        spacing: float | tuple[float | None, float | None] | None = None,
        *,
        margins: Margins | None = None,
    ) -> None:
        """Lengths at 100 %, now and after every change, as long as `one` lives. `spacing`: between
        what it holds, for a grid also (across, down); `margins`: around it."""
        kind: Any = type(one)
        if isinstance(spacing, tuple):
            across, down = spacing
            if across is not None:
                self.keep(one, kind.setHorizontalSpacing, across)
            if down is not None:
                self.keep(one, kind.setVerticalSpacing, down)
        elif spacing is not None:
            self.keep(one, kind.setSpacing, spacing)
        if margins is not None:
            around = margins if isinstance(margins, tuple) else (margins, margins)
            self.keep(one, kind.setContentsMargins, *(around * 2)[:4])

    def size(
        self, widget: QWidget, width: float | None = None, height: float | None = None
    ) -> None:
        """How wide and how high it is, as `space` keeps it."""
        self._keep_size(widget, QWidget.setFixedWidth, width, QWidget.setFixedHeight, height)

    def at_least(
        self, widget: QWidget, width: float | None = None, height: float | None = None
    ) -> None:
        self._keep_size(widget, QWidget.setMinimumWidth, width, QWidget.setMinimumHeight, height)

    def at_most(
        self, widget: QWidget, width: float | None = None, height: float | None = None
    ) -> None:
        self._keep_size(widget, QWidget.setMaximumWidth, width, QWidget.setMaximumHeight, height)

    def font(
        self,
        widget: QWidget,
        font: Callable[Concatenate[Theme, Font], QFont],
        *args: Font.args,
        **kwargs: Font.kwargs,
    ) -> None:
        """What it is written in, as `space` keeps it: `theme.font(text, Theme.font_mono, 12)`."""
        self._keep_rule(widget, "font", lambda one: one.setFont(font(self, *args, **kwargs)))

    def line(
        self,
        label: QWidget,
        font: Callable[Concatenate[Theme, Font], QFont],
        *args: Font.args,
        **kwargs: Font.kwargs,
    ) -> None:
        """A line in this font, which is as high where it says nothing. Not by the label's own
        font: while the theme changes that may still be the former one."""
        self.font(label, font, *args, **kwargs)

        def rule(one: QWidget) -> None:
            one.setMinimumHeight(QFontMetrics(font(self, *args, **kwargs)).height())

        self._keep_rule(label, "line", rule)

    def sheet(self, widget: QWidget, rules: Callable[[Theme], str]) -> None:
        """A style sheet of its own, as `space` keeps it; what several share is in `theme_sheet`."""
        self._keep_rule(widget, "sheet", lambda one: one.setStyleSheet(rules(self)))

    def pill(self, button: QWidget, height: float) -> None:
        """A button that is round at its sides."""
        self.size(button, height=height)
        # A radius of more than half the height would be no radius to Qt.
        self.sheet(
            button,
            lambda theme: (
                f"QPushButton {{ border-radius: {theme.px(height) // 2 - 1}px;"
                f" padding: 0 {theme.px(12)}px; }}"
            ),
        )

    def _keep_size(
        self,
        widget: QWidget,
        set_width: Callable[..., None],
        width: float | None,
        set_height: Callable[..., None],
        height: float | None,
    ) -> None:
        if width is not None:
            self.keep(widget, set_width, width)
        if height is not None:
            self.keep(widget, set_height, height)

    def keep(self, one: QObject, setter: Callable[..., None], *lengths: float) -> None:
        """A setter of these lengths: `theme.keep(split, QSplitter.setHandleWidth, 8)`."""
        self._keep_rule(
            one, setter.__name__, lambda one: setter(one, *(self.px(each) for each in lengths))
        )

    def _keep_rule(self, one: QObject, name: str, rule: Callable[[Any], None]) -> None:
        self._kept.setdefault(one, {})[name] = rule
        rule(one)

    def _tell(self) -> None:
        """First the program, then what is kept, then whoever computes with both."""
        self._dress()
        for one, rules in list(self._kept.items()):
            if isValid(one):
                for rule in rules.values():
                    rule(one)
            else:
                del self._kept[one]
        self.changed.emit()

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
            return colors._replace(line=colors.dim, dim=colors.ink, code_comment=colors.ink)
        return colors

    def _refresh(self) -> None:
        colors = self._choose()
        if colors != self._colors:
            self._colors = colors
            self._tell()

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
