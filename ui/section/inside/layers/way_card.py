"""*Layers*: what attention and the feed-forward network add in each, and what is readable there."""

from __future__ import annotations

import math
from typing import Any, Final, cast

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.amounts import percent
from app.chat.inspection.inside import Seen
from app.insight.inside.votes import Lens, lens_of
from app.insight.inside.way import Way, way
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.legend import BarLegend
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools

HELP: Final = (
    "Each layer adds two vectors to the stream: what its attention heads collected from earlier "
    "tokens, and what its feed-forward network made of the sum. A bar is the length of the added "
    "vector divided by the length of the stream after the layer. Bars don't add up to 100%: the "
    "vectors point in different directions, and can cancel each other. On the right stands the "
    "token that would win if the model ended after this layer (see Lens). Layers count from 0, as "
    "in the file."
)
_NUMBER_PX: Final = 24
_WORD_SHARE: Final = 0.34
_MOST_WORD_PX: Final = 160
_FIGURE_PX: Final = 40
_BAR_PX: Final = 5


def word_room(theme: Theme, width: float) -> float:
    """How wide the column of words and their figures is, at the right."""
    return min(width * _WORD_SHARE, theme.px(_MOST_WORD_PX)) + theme.px(_FIGURE_PX)


class WayRows(PaintedRows):
    """A row for each layer."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, "inside_way", parent, can_choose=True)
        self.setAccessibleName("Layers")
        self._view = view
        self.way: Way | None = None
        self.lens: Lens | None = None
        self.full = 1.0

    def show_way(self, found: Way, lens: Lens | None) -> None:
        self.way, self.lens = found, lens
        shares = np.concatenate([found.attention_shares, found.ffn_shares])
        known = shares[np.isfinite(shares)]
        self.full = max(float(known.max()) if len(known) else 0.0, 0.01)
        self.set_rows(len(found))

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        assert self.way is not None
        colors, px = self._theme.colors, self._theme.px
        painter.setPen(QColor(colors.dim))
        number = QRectF(rect.left(), rect.top(), px(_NUMBER_PX), rect.height())
        painter.drawText(number.adjusted(0, 0, -px(6), 0), RIGHT, str(row))
        word = rect.adjusted(rect.width() - word_room(self._theme, rect.width()), 0, 0, 0)
        room = QRectF(number.right(), rect.top(), word.left() - number.right(), rect.height())
        room.adjust(0, 0, -px(8), 0)
        height = px(_BAR_PX)
        for at, (share, color) in enumerate(
            (
                (self.way.attention_shares[row], colors.accent),
                (self.way.ffn_shares[row], colors.second),
            )
        ):
            top = rect.center().y() + (at - 1) * (height + 1) + 0.5
            if math.isfinite(share):
                bar = QRectF(room.left(), top, room.width() * share / self.full, height)
                painter.fillRect(bar, QColor(color))
            else:
                painter.fillRect(QRectF(room.left(), top, px(2), height), QColor(colors.line))
        if self.lens is not None:
            self._paint_word(painter, row, word, self.lens)

    def _paint_word(self, painter: QPainter, row: int, rect: QRectF, lens: Lens) -> None:
        colors, px = self._theme.colors, self._theme.px
        token_id = int(lens.ids[row, 0])
        painter.setPen(QColor(colors.accent if token_id == self._view.target else colors.ink))
        elided(painter, rect.adjusted(0, 0, -px(_FIGURE_PX), 0), self._view.word(token_id))
        painter.setPen(QColor(colors.dim))
        painter.drawText(rect, RIGHT, percent(lens.probability(row)))

    def words_of(self, row: int, x: float) -> str:
        if self.way is None:
            return ""
        lines = [f"Layer {row}"]
        norm = self.way.norms[row]
        for name, size, share in (
            ("attention", self.way.attention[row], self.way.attention_shares[row]),
            ("feed-forward", self.way.ffn[row], self.way.ffn_shares[row]),
        ):
            if math.isfinite(share):
                lines.append(
                    f"{name}: ‖what it adds‖ ÷ ‖stream‖ = {size:,.2f} ÷ {norm:,.2f} = "
                    f"{percent(float(share))}"
                )
            else:
                lines.append(f"{name}: not in this layer")
        if self.lens is not None:
            word = quoted(self._view.word(int(self.lens.ids[row, 0])))
            lines.append(f"readable here: {word}, {percent(self.lens.probability(row))}")
        return "\n".join(lines)


class WayCard(InsideCard):
    title_words = "Layers"
    name = "way"
    needs = ("residual",)
    wants = ("attn_out", "ffn_out", "lens")
    help_words = HELP
    is_open_at_first = True

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.legend = BarLegend(tools.theme, word_room, self.content)
        self.layers = WayRows(tools.theme, view, self.content)
        self.lacking = small_label("", self.content)
        self.rows.addWidget(self.legend)
        self.rows.addWidget(self.layers)
        self.rows.addWidget(self.lacking)
        self.told = [self.lacking]
        self.layers.row_chosen.connect(lambda row: view.choose_layer(None if row < 0 else row))
        view.layer_changed.connect(self._on_layer)

    def _on_layer(self) -> None:
        self.layers.choose(self.view.layer)
        self.show_figure(self.view.seen)

    def show_figure(self, seen: Seen | None) -> None:
        layer = self.view.layer
        n_layer = self.view.n_layer
        chosen = f" · layer {layer} selected" if layer is not None else ""
        self.figure.set_text(f"{n_layer:,} layers{chosen}" if n_layer else "")

    def show_seen(self, seen: Seen) -> None:
        arrays = cast("Any", seen.arrays)
        found = way(arrays["residual"], arrays.get("attn_out"), arrays.get("ffn_out"))
        self.layers.show_way(found, lens_of(arrays))
        self.layers.choose(self.view.layer)
        full = percent(self.layers.full)
        self.legend.show_entries(("Attention", "accent"), ("Feed-forward", "second"))
        self.legend.show_end("Readable here" if "lens" not in seen.missing else "", f"up to {full}")
        reasons = dict.fromkeys(
            seen.missing[name] for name in ("attn_out", "ffn_out", "lens") if name in seen.missing
        )
        self.lacking.setText("\n".join(reasons))
        self.lacking.setVisible(bool(reasons))
