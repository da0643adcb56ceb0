"""Paints weights in a list: a line with the name, figures and the fit, and below it, across all
columns, what else is to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QStyleOptionViewItem,
    QTableView,
)

from ui.library.fit.badge import paint_badge
from ui.library.local.model import FIT, FIT_ROLE, NAME, ROW_ROLE, LocalModel
from ui.library.local.two_lines import PAD_PX, TwoLineDelegate
from ui.library.local.words import is_projector, one_line
from ui.look.icons import paint_icon
from ui.look.theme import Theme
from ui.widgets.any_index import AnyIndex

if TYPE_CHECKING:
    from app.gguf.local.entries import FoundWeights

SIDE_PX: Final = 5
SIGN_PX: Final = 14


class LocalDelegate(TwoLineDelegate):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(theme, parent)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        text = self._paint_ground(painter, option, index)
        side, first_px = self._theme.px(SIDE_PX), QFontMetrics(self._theme.font_text()).height()
        room = option.rect.adjusted(side, 0, -side, 0)
        line = QRect(room.left(), room.top() + self._theme.px(PAD_PX), room.width(), first_px)
        weights = index.data(ROW_ROLE)
        painter.save()
        painter.setFont(self._theme.font_text())
        painter.setPen(QColor(self._color(weights.can_load)))
        if index.column() == NAME:
            self._paint_name(painter, line, index, weights)
        elif index.column() != FIT:
            flag = index.data(Qt.ItemDataRole.TextAlignmentRole)
            self._draw(painter, line, text, flag)
        elif weights.can_load:
            paint_badge(painter, QRectF(line), index.data(FIT_ROLE), self._theme)
        self._paint_words(painter, option, index, weights)
        painter.restore()

    def _paint_name(
        self, painter: QPainter, line: QRect, index: AnyIndex, weights: FoundWeights
    ) -> None:
        px, colors = self._theme.px, self._theme.colors
        model = index.model()
        if isinstance(model, LocalModel) and model.is_loaded(weights):
            sign = QRectF(
                line.left(), line.center().y() - px(SIGN_PX) / 2, px(SIGN_PX), px(SIGN_PX)
            )
            paint_icon(painter, sign, "check-circle", QColor(colors.accent))
            line.setLeft(line.left() + px(SIGN_PX) + px(4))
        self._draw(painter, line, one_line(weights.name))

    def _paint_words(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: AnyIndex,
        weights: FoundWeights,
    ) -> None:
        """Each cell paints its part of the one line that goes across all of them."""
        view, px, colors = option.widget, self._theme.px, self._theme.colors
        left, width = option.rect.left(), option.rect.width()
        if isinstance(view, QTableView):
            left = view.columnViewportPosition(NAME)
            width = view.horizontalHeader().length()
        small = self._theme.font_small()
        words_px = QFontMetrics(small).height()
        top = option.rect.bottom() + 1 - px(PAD_PX) - words_px
        below = QRect(left + px(SIDE_PX), top, width - 2 * px(SIDE_PX), words_px)
        painter.setClipRect(option.rect)
        is_well = weights.can_load or is_projector(weights)
        painter.setPen(QColor(colors.dim if is_well else colors.warning))
        painter.setFont(small)
        model = index.model()
        words = model.words_of(weights) if isinstance(model, LocalModel) else ""
        self._draw(painter, below, words)

    def _color(self, can_load: bool) -> str:
        return self._theme.colors.ink if can_load else self._theme.colors.dim
