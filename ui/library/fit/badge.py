"""Whether weights fit, as a small label for lists: a sign, words and a colour.

`FitBadge` is the widget; delegates of lists paint the same with `paint_badge`.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.engine.planning.fit import Fit, Verdict
from ui.look.icons import paint_icon
from ui.look.theme import Theme

SIGNS: Final = {
    Verdict.FITS: "check-circle",
    Verdict.FITS_LESS: "warning-circle",
    Verdict.FITS_NOT: "x-circle",
}
"""Icons of three shapes, so that the verdict is told without its colour."""
UNKNOWN: Final = "fit unknown"

_SIGN_PX: Final = 14
_GAP_PX: Final = 4


def badge_words(fit: Fit | None) -> str:
    """What the label says; None: nothing is known yet."""
    return fit.words if fit is not None else UNKNOWN


def badge_color(fit: Fit | None, theme: Theme) -> QColor:
    """Of sign and words; it may be written on any plane."""
    colors = theme.colors
    if fit is None:
        return QColor(colors.dim)
    named = {
        Verdict.FITS: colors.accent,
        Verdict.FITS_LESS: colors.warning,
        Verdict.FITS_NOT: colors.error,
    }
    return QColor(named[fit.verdict])


def badge_size(fit: Fit | None, theme: Theme) -> QSize:
    """The room that sign and words need, in pixels."""
    metrics = QFontMetricsF(theme.font_small())
    lead = theme.px(_SIGN_PX) + theme.px(_GAP_PX)
    width = lead + metrics.horizontalAdvance(badge_words(fit))
    return QSize(int(width) + 1, max(theme.px(_SIGN_PX), int(metrics.height()) + 1))


def paint_badge(painter: QPainter, rect: QRectF, fit: Fit | None, theme: Theme) -> None:
    """Sign and words into a rectangle, from its left, in the middle of its height; words that
    find no room are cut with an ellipsis."""
    side, gap = theme.px(_SIGN_PX), theme.px(_GAP_PX)
    color, font = badge_color(fit, theme), theme.font_small()
    painter.save()
    sign = QRectF(rect.left(), rect.center().y() - side / 2, side, side)
    paint_icon(painter, sign, SIGNS[fit.verdict] if fit is not None else "question", color)
    room = QRectF(rect.left() + side + gap, rect.top(), rect.width() - side - gap, rect.height())
    painter.setFont(font)
    painter.setPen(color)
    words = QFontMetricsF(font).elidedText(
        badge_words(fit), Qt.TextElideMode.ElideRight, max(room.width(), 0.0)
    )
    painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)
    painter.restore()


class FitBadge(QLabel):
    """`show_fit` shows a verdict; the sentence behind it is the tool tip and is read aloud."""

    def __init__(self, theme: Theme, parent: QWidget | None = None, fit: Fit | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._fit = fit
        self.setObjectName("fit_badge")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._dress)
        self.show_fit(fit)

    @property
    def fit(self) -> Fit | None:
        return self._fit

    def show_fit(self, fit: Fit | None) -> None:
        """None: nothing is known yet."""
        self._fit = fit
        words = badge_words(fit)
        self.setText(words)
        self.setAccessibleName(f"Memory: {words}")
        self.setAccessibleDescription(fit.why if fit is not None else "")
        # The words too: they may be cut.
        self.setToolTip(f"{words[:1].upper()}{words[1:]}\n{fit.why}" if fit is not None else "")
        self._dress()

    def sizeHint(self) -> QSize:
        return badge_size(self._fit, self._theme)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(_SIGN_PX), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_badge(QPainter(self), QRectF(self.rect()), self._fit, self._theme)

    def _dress(self) -> None:
        self.updateGeometry()
        self.update()
