"""*Lens*: what each layer would say if it were the last one."""

from __future__ import annotations

from typing import Any, Final, cast

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QWidget

from app.amounts import percent
from app.chat.inspection.inside import Seen
from app.insight.inside.votes import Lens, lens_of
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import LEFT, RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.figures import signed

HELP: Final = (
    "The lens puts the stream after each layer through the model’s own last norm and output "
    "matrix, as if the remaining layers weren't there. It shows what is readable at that point, "
    "not what the layer “thinks”: later layers expect another basis, so early rows look like "
    "noise. Tinted cells are likelier. “Rank” is the place of the token that came next."
)
SHOWN: Final = 3
_NUMBER_PX: Final = 24
_RANK_PX: Final = 52
_MOST_PX: Final = 560
"""In a wide panel, words and ranks stay side by side."""


def used_width(theme: Theme, width: float) -> float:
    return min(width, theme.px(_MOST_PX))


class LensRows(PaintedRows):
    """A row for each layer, below a heading: its three best, and the rank of what came next."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, "inside_lens_rows", parent, can_choose=True)
        self.setAccessibleName("Lens by layer")
        self._view = view
        self.lens: Lens | None = None

    def show_lens(self, lens: Lens) -> None:
        self.lens = lens
        self.set_rows(len(lens))

    def cell(self, row: int, at: int) -> QRectF:
        """Where a candidate of a layer stands."""
        px = self._theme.px
        rect = self.rect_of(row)
        first, end = px(_NUMBER_PX), used_width(self._theme, rect.width()) - px(_RANK_PX)
        width = (end - first) / SHOWN
        return QRectF(first + at * width, rect.top(), width, rect.height())

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        assert self.lens is not None
        lens, colors, px = self.lens, self._theme.colors, self._theme.px
        painter.setPen(QColor(colors.dim))
        number = QRectF(rect.left(), rect.top(), px(_NUMBER_PX) - px(6), rect.height())
        painter.drawText(number, RIGHT, str(row))
        for at in range(min(SHOWN, lens.ids.shape[1])):
            cell = self.cell(row, at)
            tint = QColor(colors.accent_tone)
            tint.setAlphaF(lens.probability(row, at))
            painter.fillRect(cell.adjusted(0, 0, -px(2), -1), tint)
            token_id = int(lens.ids[row, at])
            painter.setPen(QColor(colors.accent if token_id == self._view.target else colors.ink))
            elided(painter, cell.adjusted(px(3), 0, -px(5), 0), self._view.word(token_id))
        if lens.ranks is not None:
            rank = int(lens.ranks[row])
            painter.setPen(QColor(colors.accent if rank == 1 else colors.dim))
            place = QRectF(0, rect.top(), used_width(self._theme, rect.width()), rect.height())
            painter.drawText(place, RIGHT, f"{rank:,}")

    def words_of(self, row: int, x: float) -> str:
        if self.lens is None:
            return ""
        lens = self.lens
        lines = [f"Layer {row}"]
        for at in range(min(SHOWN, lens.ids.shape[1])):
            logit, total = float(lens.logits[row, at]), float(lens.total[row])
            lines.append(
                f"{quoted(self._view.word(int(lens.ids[row, at])))}: e^(logit − total) = "
                f"e^({signed(logit)} − {signed(total)}) = {percent(lens.probability(row, at))}"
            )
        if lens.ranks is not None and self._view.target is not None:
            word = quoted(self._view.word(self._view.target))
            lines.append(f"{word} has rank {int(lens.ranks[row]):,} here")
        return "\n".join(lines)


class LensHeading(QWidget):
    """Above the ranks: whose they are."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.words = ""
        theme.size(self, height=16)

    def paintEvent(self, _event: object) -> None:
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        painter.setPen(QColor(self._theme.colors.dim))
        first = self._theme.px(_NUMBER_PX)
        painter.drawText(QRectF(first, 0, self.width() - first, self.height()), LEFT, "Best three")
        width = used_width(self._theme, self.width())
        painter.drawText(QRectF(0, 0, width, self.height()), RIGHT, self.words)


class LensCard(InsideCard):
    title_words = "Lens"
    name = "lens"
    needs = ("lens",)
    wants = ("logits",)
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self.heading = LensHeading(tools.theme, self.content)
        self.layers = LensRows(tools.theme, view, self.content)
        self.check = small_label("", self.content)
        self.check.setObjectName("inside_lens_check")
        self.rows.addWidget(self.heading)
        self.rows.addWidget(self.layers)
        self.rows.addWidget(self.check)
        self.told = [self.check]
        self.layers.row_chosen.connect(lambda row: view.choose_layer(None if row < 0 else row))
        view.layer_changed.connect(lambda: self.layers.choose(view.layer))

    def show_figure(self, seen: Seen | None) -> None:
        lens = None if seen is None else lens_of(seen.arrays)
        self.figure.set_text("" if lens is None else self._leading(lens))

    def _leading(self, lens: Lens) -> str:
        if lens.ranks is None or self.view.target is None:
            return ""
        word = quoted(self.view.word(self.view.target))
        if lens.leads_from is None:
            return f"{word} ends at rank {int(lens.ranks[-1]):,}"
        return f"{word} leads from layer {lens.leads_from}"

    def show_seen(self, seen: Seen) -> None:
        lens = lens_of(seen.arrays)
        assert lens is not None
        self.heading.words = "" if lens.ranks is None else "Rank"
        self.heading.update()
        self.layers.show_lens(lens)
        self.layers.choose(self.view.layer)
        logits = cast("Any", seen.arrays.get("logits"))
        words = "" if logits is None else _check_words(lens.difference(logits))
        self.check.setText(words)
        self.check.setVisible(bool(words))


def _check_words(difference: float) -> str:
    return f"The last row against the real logits: largest difference {difference:.2g}."
