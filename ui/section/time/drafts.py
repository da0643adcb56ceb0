"""What speculative decoding did for the reply: accepted of drafted, how long, where, how fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.insight.time.drafts import DraftFigures
from ui.look.theme import Theme
from ui.section.figure_card import FigureCard
from ui.section.term_label import term_label
from ui.widgets.figures import rate_text

KINDS: Final = {"lookup": "Lookup in the chat", "model": "Draft model"}
MEASURED: Final = (
    "Measured in this reply, in turns; passes without drafts come between those with them."
)
GROWING: Final = "Counted from the tokens so far. Speeds follow when the reply is finished."
NONE_YET: Final = "Nothing was drafted: no words stood before that were worth a larger pass."
ROW_PX: Final = 18
NAME_PX: Final = 20
FIGURE_PX: Final = 120


@dataclass(frozen=True, slots=True)
class CountBar:
    """`part` of `whole`."""

    name: str
    part: int
    whole: int

    @property
    def figure(self) -> str:
        share = f" ({100 * self.part / self.whole:.0f}%)" if self.whole else ""
        return f"{self.part:,} of {self.whole:,}{share}"


class CountBars(QWidget):
    """A bar for each count, as long as its share of the whole."""

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._title = title
        self.bars: tuple[CountBar, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_bars(self, bars: Sequence[CountBar]) -> None:
        if tuple(bars) == self.bars:
            return
        self.bars = tuple(bars)
        spoken = "; ".join(f"{bar.name}: {bar.figure}" for bar in bars)
        self.setAccessibleName(f"{self._title}: {spoken}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self._theme.px(ROW_PX) * len(self.bars))

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, px = self._theme, self._theme.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font_small())
        metrics = QFontMetricsF(painter.font())
        names = max((metrics.horizontalAdvance(bar.name) for bar in self.bars), default=0.0)
        figures = max((metrics.horizontalAdvance(bar.figure) for bar in self.bars), default=0.0)
        left = max(names + px(8), float(px(NAME_PX)))
        room = max(self.width() - left - figures - px(8), 0.0)
        height, thick = px(ROW_PX), px(8)
        for at, bar in enumerate(self.bars):
            row = QRectF(0, at * height, self.width(), height)
            painter.setPen(QColor(theme.colors.dim))
            painter.drawText(row, Qt.AlignmentFlag.AlignVCenter, bar.name)
            painter.setPen(QColor(theme.colors.ink))
            aligned = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(row, aligned, bar.figure)
            track = QRectF(left, row.center().y() - thick / 2, room, thick)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.colors.line))
            painter.drawRoundedRect(track, px(2), px(2))
            track.setWidth(room * bar.part / bar.whole if bar.whole else 0.0)
            painter.setBrush(QColor(theme.colors.accent))
            painter.drawRoundedRect(track, px(2), px(2))


class DraftsCard(FigureCard):
    """Hidden where a reply had no drafts."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Speculative decoding", parent)
        self.setObjectName("drafts_card")
        self.setAccessibleName("Speculative decoding")
        self.accepted = self.add_row("drafts_accepted", "Accepted ÷ drafted")
        self.length = self.add_row("drafts_length", "Mean accepted length + 1")
        self.fast = self.add_row("drafts_rate", "With drafts")
        self.plain = self.add_row("drafts_plain_rate", "Without")
        self._by_place = term_label("Accepted by position in the draft", self, "small")
        self.places = CountBars(theme, "Accepted by position in the draft", self)
        self.places.setObjectName("drafts_places")
        self._by_length = term_label("Passes by accepted tokens", self, "small")
        self.lengths = CountBars(theme, "Passes by accepted tokens", self)
        self.lengths.setObjectName("drafts_lengths")
        for widget in (self._by_place, self.places, self._by_length, self.lengths):
            self.body.addWidget(widget)
        self.caption = self.add_caption("drafts_caption")
        self.hide()

    def show_figures(self, figures: DraftFigures | None, *, is_growing: bool) -> None:
        self.setVisible(figures is not None)
        if figures is None:
            return
        gain = figures.gain
        self.figure.set_text(
            (f"{gain:.2f}× · " if gain is not None else "")
            + (figures.name or KINDS.get(figures.kind, figures.kind))
        )
        share = figures.accepted / figures.proposed if figures.proposed else 0.0
        self.accepted.show(
            f"{figures.accepted:,} of {figures.proposed:,} ({100 * share:.0f}%)"
            if figures.proposed
            else ""
        )
        self.length.show(
            f"{figures.mean_length:.2f} tokens in {figures.passes:,} "
            f"{'pass' if figures.passes == 1 else 'passes'}"
            if figures.passes
            else ""
        )
        self.fast.show(*_speed(figures.drafted_rate, figures.drafted_tokens, "With drafts"))
        self.plain.show(*_speed(figures.plain_rate, figures.plain_tokens, "Without"))
        places = figures.by_position
        self.places.show_bars([CountBar(f"{i}", a, p) for i, (p, a) in enumerate(places, 1)])
        passes = figures.passes
        histogram = figures.histogram if passes else ()
        self.lengths.show_bars([CountBar(f"{n}", c, passes) for n, c in enumerate(histogram)])
        for widget in (self._by_place, self.places, self._by_length, self.lengths):
            widget.setVisible(passes > 0)
        if is_growing:
            self.caption.setText(GROWING)
        else:
            self.caption.setText(figures.off or (MEASURED if passes else NONE_YET))


def _speed(rate: float | None, tokens: int, label: str) -> tuple[str, str]:
    counted = f"{label} ({tokens:,} token{'' if tokens == 1 else 's'})"
    return ("" if rate is None else rate_text(rate)), counted
