"""Fonts, formats and lengths for laying out messages, made once per theme and zoom."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QTextCharFormat, QTextOption

from app.markdown.blocks import Span
from ui.look.colors import Colors
from ui.look.theme import Theme
from ui.markdown.recent import Recent

if TYPE_CHECKING:
    from ui.markdown.formulas import Formulas, Picture
    from ui.pictures.thumbnails import Thumbnails

LINE_HEIGHT = 1.55
CODE_LINE_HEIGHT = 1.45
HEADING_LINE_HEIGHT = 1.35
CODE_PX = 13
# Scripts that the carried fonts lack.
_FOREIGN = re.compile("[\u0590-\u1dff\u2e80-\U0010ffff]")
MAX_CELLS = 800
"""Cells of tables whose layouts are kept; a view shows some hundred."""


class Styles:
    """What the layouts need to know of a theme. `draws_by_line`: on paper, where a text is cut
    between two lines."""

    draws_by_line = False

    def __init__(
        self, theme: Theme, formulas: Formulas | None = None, *, is_dim: bool = False
    ) -> None:
        self.theme = theme
        self._formulas = formulas
        self.thumbnails: Thumbnails | None = None
        self.colors: Colors = theme.colors
        if is_dim:
            self.colors = theme.colors._replace(ink=theme.colors.dim)
        self.scale = theme.scale
        self.reply = theme.font_reply()
        self.bold = theme.font_reply(QFont.Weight.DemiBold)
        self.small = theme.font_small()
        self.text = theme.font_text()
        # Fixed-pitch letters are wider and taller: a size below looks the same.
        self.code = theme.font_mono(CODE_PX)
        self.cells = Recent(MAX_CELLS)
        self.measures = Recent(MAX_CELLS)
        self._headings: dict[int, QFont] = {}
        self._spans: dict[tuple[bool | int, ...], QTextCharFormat] = {}
        self._runs: dict[str, QTextCharFormat] = {}

    def px(self, length: float) -> float:
        """A length at 100 %, in (fractional) pixels now."""
        return length * self.scale

    @cached_property
    def dimmed(self) -> Styles:
        """The same with dim ink: for what is not the answer itself."""
        return Styles(self.theme, self._formulas, is_dim=True)

    def picture(self, tex: str, *, is_display: bool = False) -> Picture | None:
        """The picture of a formula, if it is there."""
        return self._formulas.find(tex, is_display=is_display) if self._formulas else None

    def is_known(self, tex: str, *, is_display: bool = False) -> bool:
        """Whether `picture` has its last word on a formula."""
        return self._formulas is None or self._formulas.is_known(tex, is_display=is_display)

    @property
    def line_step(self) -> float:
        return round(self.reply.pixelSize() * LINE_HEIGHT)

    @property
    def code_step(self) -> float:
        return round(self.code.pixelSize() * CODE_LINE_HEIGHT)

    def heading(self, level: int) -> QFont:
        """The font of a heading, 1 to 6."""
        if level not in self._headings:
            self._headings[level] = self.theme.font_heading(level)
        return self._headings[level]

    def heading_step(self, level: int) -> float:
        return max(self.line_step, round(self.heading(level).pixelSize() * HEADING_LINE_HEIGHT))

    @cached_property
    def char_width(self) -> float:
        """Of an average letter: for guessing heights."""
        return QFontMetricsF(self.reply).averageCharWidth()

    @cached_property
    def code_tab(self) -> float:
        return 4 * QFontMetricsF(self.code).horizontalAdvance(" ")

    def code_width(self, line: str) -> float:
        """How wide a line of code is, tabs included."""
        return QFontMetricsF(self.code).horizontalAdvance(line.expandtabs(4))

    def span_format(
        self, span: Span, *, is_heading: bool = False, level: int = 0
    ) -> QTextCharFormat:
        """The format of a run; the same object for the same style. `level` is that of a heading;
        the head of a table is bold in the size of its text."""
        weight = QFont.Weight.Normal
        if span.is_bold or is_heading or level > 0:
            weight = _bold_weight(span.text)
        key = (
            level,
            weight,
            span.is_italic,
            span.is_struck,
            span.is_code,
            span.is_dim,
            bool(span.href),
            span.is_note,
            bool(span.tex),
        )
        if key not in self._spans:
            self._spans[key] = self._made(*key)
        return self._spans[key]

    def run_format(self, color: str) -> QTextCharFormat:
        """The format of highlighted code; `color` is a field of `Colors`."""
        if color not in self._runs:
            made = QTextCharFormat()
            made.setForeground(QColor(getattr(self.colors, color)))
            made.setFontItalic(color == "code_comment")
            self._runs[color] = made
        return self._runs[color]

    @cached_property
    def selection_format(self) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setBackground(QColor(self.colors.selection))
        made.setForeground(QColor(self.colors.ink))
        return made

    def _made(
        self,
        level: int,
        weight: QFont.Weight,
        italic: bool,
        struck: bool,
        code: bool,
        dim: bool,
        link: bool,
        note: bool,
        formula: bool,
    ) -> QTextCharFormat:
        made = QTextCharFormat()
        around = self.heading(level) if level else self.reply
        font = QFont(self.code if code or formula else around)
        if code or formula:
            font.setPixelSize(around.pixelSize() - self.reply.pixelSize() + self.code.pixelSize())
        font.setWeight(weight)
        font.setItalic(italic)
        font.setStrikeOut(struck)
        font.setUnderline(link)
        made.setFont(font)
        ink = self.colors.dim if dim else self.colors.ink
        made.setForeground(QColor(self.colors.accent if link or note else ink))
        if note:
            made.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignSuperScript)
        if code:
            made.setBackground(QColor(self.colors.code))
        return made


def _bold_weight(text: str) -> QFont.Weight:
    """The carried fonts' bold is semibold. A system's font often has no such weight, nor a bold
    one (Droid Sans Fallback), and Qt draws a regular one bolder only from Bold on.

    >>> _bold_weight("bold").name, _bold_weight("重点。").name
    ('DemiBold', 'Bold')
    """
    is_foreign = not text.isascii() and _FOREIGN.search(text) is not None
    return QFont.Weight.Bold if is_foreign else QFont.Weight.DemiBold


def text_option(*, is_rtl: bool = False, is_code: bool = False, wraps: bool = True) -> QTextOption:
    """Wrap at words, anywhere where a word is too long; right-to-left text starts at the right."""
    option = QTextOption()
    mode = QTextOption.WrapMode
    option.setWrapMode(mode.WrapAtWordBoundaryOrAnywhere if wraps else mode.NoWrap)
    direction = Qt.LayoutDirection.RightToLeft if is_rtl else Qt.LayoutDirection.LeftToRight
    option.setTextDirection(direction)
    align = Qt.AlignmentFlag.AlignRight if is_rtl and not is_code else Qt.AlignmentFlag.AlignLeft
    option.setAlignment(align | Qt.AlignmentFlag.AlignAbsolute)
    return option
