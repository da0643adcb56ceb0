"""What the layouts need for paper: letters as they are designed, not as a screen's dots want them,
formulas as shapes, text drawn line by line."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, QUrl
from PySide6.QtGui import QColor, QFont, QPainter, QTextCharFormat
from PySide6.QtSvg import QSvgRenderer

from app.chat.exchange.pdf_finish import stand_in
from app.markdown.blocks import Span
from app.markdown.formula_child import INK
from app.markdown.formula_drawings import Drawing
from ui.look import fonts
from ui.look.theme import Theme
from ui.markdown.formulas import Picture
from ui.markdown.styles import Styles


class PaperTheme(Theme):
    """At 100 %, whatever the window's zoom is."""

    @classmethod
    def like(cls, theme: Theme, *, is_dark: bool = False) -> PaperTheme:
        """With the same fonts."""
        return cls("dark" if is_dark else "light", 100, theme._chosen)

    def font_text(self, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        return _as_designed(super().font_text(weight))

    def font_small(self, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        return _as_designed(super().font_small(weight))

    def font_mono(self, size_px: float = fonts.TEXT_PX) -> QFont:
        return _as_designed(super().font_mono(size_px))

    def _reading(self, size_px: float, weight: QFont.Weight) -> QFont:
        return _as_designed(super()._reading(size_px, weight))


def _as_designed(font: QFont) -> QFont:
    """Figures as wide as they are: of the others a PDF could not say which letters they are."""
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    font.setFeature(QFont.Tag("tnum"), 0)
    return font


def _address(href: str) -> str:
    """As Qt writes it into a PDF as it is: it decodes what it can, and escapes nothing, so that an
    address could end its own text and say what a click does. `pdf_finish` puts the others right."""
    encoded = bytes(QUrl(href).toEncoded().data()).decode("ascii")
    for letter in "()\\<>":
        encoded = encoded.replace(letter, f"%{ord(letter):02X}")
    return encoded if QUrl(encoded).toString() == encoded else stand_in(encoded)


class Shapes(Picture):
    """A formula that stays sharp at any size."""

    def paint(
        self, painter: QPainter, x: float, baseline: float, em_px: float, color: QColor
    ) -> None:
        svg = self.svg.replace(INK, color.name())
        high = (self.ascent + self.descent) * em_px
        place = QRectF(x, baseline - self.ascent * em_px, self.width * em_px, high)
        QSvgRenderer(QByteArray(svg.encode())).render(painter, place)


class PaperStyles(Styles):
    """Formulas are there before a text is laid out (`know`); those that aren't have no picture."""

    draws_by_line = True

    def __init__(self, theme: Theme, *, is_dim: bool = False) -> None:
        super().__init__(theme, is_dim=is_dim)
        self._known: dict[tuple[str, bool], Picture] = {}

    def know(self, drawn: dict[tuple[str, bool], Drawing]) -> None:
        """The formulas of what is laid out next, and of nothing else."""
        self._known = {
            key: Shapes(one.svg, one.width, one.ascent, one.descent) for key, one in drawn.items()
        }

    def span_format(
        self, span: Span, *, is_heading: bool = False, level: int = 0
    ) -> QTextCharFormat:
        """A link says where it leads: Qt makes one of it that can be clicked in the PDF."""
        made = super().span_format(span, is_heading=is_heading, level=level)
        address = _address(span.href) if span.href else ""
        if address:
            made = QTextCharFormat(made)
            made.setAnchor(True)
            made.setAnchorHref(address)
        return made

    def picture(self, tex: str, *, is_display: bool = False) -> Picture | None:
        return self._known.get((tex, is_display))
