"""Candidates before and after the values that are being moved: a row of two bars for each.

token      logit    before                      after
● Paris      0.0    41.2 %  ▬▬▬▬▬▬▬▬▬▬▬▬        58.0 %
▸ the       −0.9    16.4 %  ▬▬▬▬                14.1 %
  Lyon      −3.2     1.6 %  ▬                   cut: top-p
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.look.theme import Theme

ROW_PX: Final = 21
_NAME_SHARE: Final = 0.27
_LOGIT_PX: Final = 42
_BEFORE_PX: Final = 52
_AFTER_PX: Final = 66
_MARK_PX: Final = 12
_BEFORE_STRENGTH: Final = 0.4
HEADS: Final = ("token", "logit", "before", "after")


@dataclass(frozen=True, slots=True)
class LiveRow:
    """`after`: as it is written; the bar is as long as `after_share`. `is_hit`: the recorded number
    falls on it now. `is_sum`: of several candidates."""

    name: str
    logit: str
    before: str
    before_share: float
    after: str
    after_share: float
    is_drawn: bool = False
    is_hit: bool = False
    is_sum: bool = False

    @property
    def spoken(self) -> str:
        marks = (", drawn" if self.is_drawn else "") + (", the number falls here" * self.is_hit)
        return f"{self.name} {self.logit}: before {self.before}, after {self.after}{marks}"


class LiveBars(QWidget):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows: tuple[LiveRow, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setObjectName("live_bars")
        self.setToolTip(
            "● drawn token. ▸ where its recorded number falls now. Upper bar: before; lower "
            "bar: after."
        )
        theme.changed.connect(self.updateGeometry)

    @property
    def rows(self) -> tuple[LiveRow, ...]:
        return self._rows

    def show_rows(self, rows: Sequence[LiveRow]) -> None:
        if tuple(rows) == self._rows:
            return
        n_before, self._rows = len(self._rows), tuple(rows)
        self.setAccessibleName("; ".join(row.spoken for row in rows))
        if len(self._rows) != n_before:
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(240), self._theme.px(ROW_PX) * (len(self._rows) + 1))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def _columns(self) -> tuple[float, float, float, float, float]:
        """Where the columns begin: name, logit, before, bars, after."""
        px, width = self._theme.px, float(self.width())
        logit = width * _NAME_SHARE
        before = logit + px(_LOGIT_PX)
        bars = before + px(_BEFORE_PX)
        return float(px(_MARK_PX)), logit, before, bars, max(width - px(_AFTER_PX), bars)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_heads(painter)
        for at, row in enumerate(self._rows, 1):
            self._paint_row(painter, row, float(at * self._theme.px(ROW_PX)))

    def _paint_heads(self, painter: QPainter) -> None:
        painter.setFont(self._theme.font_small())
        painter.setPen(QColor(self._theme.colors.dim))
        name, logit, before, bars, after = self._columns()
        self._write(painter, name, logit, 0.0, HEADS[0], right=False)
        self._write(painter, logit, before, 0.0, HEADS[1])
        self._write(painter, before, bars, 0.0, HEADS[2])
        self._write(painter, after, float(self.width()), 0.0, HEADS[3])

    def _write(
        self,
        painter: QPainter,
        left: float,
        end: float,
        top: float,
        text: str,
        *,
        right: bool = True,
    ) -> None:
        """Text between two x; what does not fit is elided."""
        place = QRectF(left, top, max(end - left, 1.0), float(self._theme.px(ROW_PX)))
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        metrics = painter.fontMetrics()
        text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(place.width()))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | side, text)

    def _paint_row(self, painter: QPainter, row: LiveRow, top: float) -> None:
        px, colors, theme = self._theme.px, self._theme.colors, self._theme
        name, logit, before, bars, after = self._columns()
        strong = QColor(colors.ink if row.is_drawn or row.is_hit else colors.dim)
        painter.setPen(QColor(colors.accent))
        painter.setFont(theme.font_small())
        mark = "●" if row.is_drawn else "▸" if row.is_hit else ""
        self._write(painter, 0.0, name, top, mark, right=False)
        painter.setPen(strong)
        painter.setFont(theme.font_small() if row.is_sum else theme.font_mono(12))
        self._write(painter, name, logit, top, row.name, right=False)
        painter.setFont(theme.font_small())
        painter.setPen(QColor(colors.dim))
        self._write(painter, logit, before, top, row.logit)
        self._write(painter, before, bars, top, row.before)
        painter.setPen(strong)
        self._write(painter, after, float(self.width()), top, row.after)
        start, room = bars + px(8), after - bars - px(14)
        if room > px(8):
            self._paint_bars(painter, row, start, room, top)

    def _paint_bars(
        self, painter: QPainter, row: LiveRow, start: float, room: float, top: float
    ) -> None:
        px, colors = self._theme.px, self._theme.colors
        middle, thick, gap = top + px(ROW_PX) / 2, float(px(5)), float(px(1))
        painter.setPen(Qt.PenStyle.NoPen)
        for share, y, color, strength in (
            (row.before_share, middle - thick - gap, colors.dim, _BEFORE_STRENGTH),
            (row.after_share, middle + gap, colors.accent, 1.0),
        ):
            if share > 0:
                fill = QColor(color)
                fill.setAlphaF(strength)
                painter.setBrush(fill)
                length = max(room * min(share, 1.0), float(px(1)))
                painter.drawRoundedRect(QRectF(start, y, length, thick), px(1), px(1))
