"""The slim bar of the token view: what is tinted, what the tints mean, and two short ways."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.insight.trace.tokens_shown import TINTS, Tint
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.widgets.combo import Combo
from ui.widgets.elided import PartsLabel
from ui.widgets.icon_button import IconButton

SWATCH_PX: Final = 88
LEAST_SWATCH_PX: Final = 40
ENDS: Final[dict[Tint, tuple[str, str]]] = {
    "probability": ("100%", "0%"),
    "rank": ("rank 1", "1,024 or more"),
    "entropy": ("0 bits", "10 bits or more"),
    "surprise": ("0 bits", "10 bits or more"),
    "time": ("0 ms", "3 × median"),
}
HINTS: Final[dict[Tint, str]] = {
    "probability": "Probability of the token over the whole vocabulary, at temperature 1",
    "rank": "Number of tokens at least as probable; log scale",
    "entropy": "How uncertain the choice was: 0 bits means certain",
    "surprise": "−log2 of the token's probability after all samplers",
    "time": "Time since the previous token, compared with the median",
}


PAINTED: Final = "Shown by the panel Inside. Close its card to see the tint chosen here again."


class Legend(QWidget):
    """From weak to strong, with a value and its unit at either end."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.ends = ("", "")
        self.setObjectName("token_legend")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)

    def show_ends(self, weak: str, strong: str, hint: str) -> None:
        self.ends = (weak, strong)
        self.setToolTip(hint)
        self.setAccessibleName(f"Tint from {weak} (weak) to {strong} (strong)")
        self.setAccessibleDescription(hint)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._words_width() + self._theme.px(SWATCH_PX), self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._words_width() + self._theme.px(LEAST_SWATCH_PX), self._height())

    def _words_width(self) -> int:
        words = sum(self.fontMetrics().horizontalAdvance(end) for end in self.ends)
        return words + 2 * self._theme.px(6) + 2

    def _height(self) -> int:
        return max(self._theme.px(20), self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        px, metrics = self._theme.px, self.fontMetrics()
        painter.setPen(self._theme.colors.dim)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(self.rect(), flags, self.ends[0])
        left, height = metrics.horizontalAdvance(self.ends[0]) + px(6), px(10)
        room = min(self.width() - self._words_width(), px(SWATCH_PX))
        colors = tint_colors(self._theme.colors)
        width, top = room / len(colors), (self.height() - height) / 2
        for at, color in enumerate(colors):
            painter.fillRect(QRectF(left + at * width, top, width + 0.5, height), color)
        rest = self.rect().adjusted(left + room + px(6), 0, 0, 0)
        painter.drawText(rest, flags, self.ends[1])


class TokenBar(QWidget):
    tint_chosen = Signal(str)
    uncertain_requested = Signal()
    picture_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._side = (0, 0)
        self.setObjectName("token_bar")
        self.setAccessibleName("Token view")
        self.picker = Combo(theme, self)
        self.picker.setObjectName("token_tint_picker")
        self.picker.setAccessibleName("Tint by")
        self.picker.setToolTip("Value shown by the tint behind each token")
        for name, caption in TINTS.items():
            self.picker.addItem(caption, name)
        self.legend = Legend(theme, self)
        self.sentence = PartsLabel("", self)
        self.sentence.setObjectName("token_view_sentence")
        self.sentence.setProperty("kind", "small")
        self.uncertain_button = IconButton(
            theme, "target", "Go to the least certain token", parent=self
        )
        self.uncertain_button.setObjectName("token_view_uncertain_button")
        self.picture_button = IconButton(
            theme, "image", "Copy as image", hint="Copy the reply as an image", parent=self
        )
        self.picture_button.setObjectName("token_view_picture_button")
        self._row = QHBoxLayout()
        for widget in (self.picker, self.legend):
            self._row.addWidget(widget)
        self._row.addStretch(1)
        self._row.addWidget(self.uncertain_button)
        self._row.addWidget(self.picture_button)
        self._column = QVBoxLayout(self)
        self._column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetNoConstraint)
        self._column.addLayout(self._row)
        self._column.addWidget(self.sentence)
        self.sentence.hide()
        self.picker.activated.connect(
            lambda at: self.tint_chosen.emit(str(self.picker.itemData(at)))
        )
        self.uncertain_button.clicked.connect(self.uncertain_requested)
        self.picture_button.clicked.connect(self.picture_requested)
        theme.changed.connect(self._fit)
        theme.space(self._column, 2)
        theme.space(self._row, 8)
        theme.font(self.picker, Theme.font_small)
        theme.size(self.picker, height=30)
        theme.font(self.legend, Theme.font_small)
        self._fit()

    def show_paint(self, words: str) -> None:
        """A panel tints the words, for as long as it does."""
        self.picker.setEnabled(False)
        self.legend.show_ends(f"{words}: little", "much", PAINTED)
        self._share_room()

    def show_tint(self, tint: Tint, usual_ms: float = 0.0) -> None:
        self.picker.setEnabled(True)
        self.picker.setCurrentIndex(self.picker.findData(tint))
        weak, strong = ENDS[tint]
        if tint == "time" and usual_ms > 0:
            strong = f"{strong} ({3 * usual_ms:.0f} ms) or more"
        self.legend.show_ends(weak, strong, HINTS[tint])
        self._share_room()

    def ends(self) -> tuple[str, str]:
        """What the weakest and the strongest tint stand for."""
        return self.legend.ends

    def stops(self) -> list[QWidget]:
        """What Tab stops at."""
        return [self.picker, self.uncertain_button, self.picture_button]

    def say(self, sentence: str) -> None:
        """What is to be known of the messages in view; empty: nothing."""
        self.sentence.set_text(sentence)
        self.sentence.setVisible(bool(sentence))

    def set_has_trace(self, has_trace: bool) -> None:
        """Whether a reply with recorded tokens is at hand."""
        for button in (self.uncertain_button, self.picture_button):
            button.setEnabled(has_trace)

    def set_sides(self, left: int, right: int) -> None:
        """What is free beside the transcript's column."""
        self._side = (left, right)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_room()

    def _share_room(self) -> None:
        """Where it is narrow the legend leaves; its words stay with the picker."""
        px = self._theme.px
        room = self.width() - sum(self._side) - 2 * (self.uncertain_button.width() + px(8))
        is_wide = (
            room >= self.picker.sizeHint().width() + px(8) + self.legend.minimumSizeHint().width()
        )
        self.legend.setVisible(is_wide)
        self.picker.setToolTip(self.legend.accessibleName())

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(self._side[0], 0, self._side[1], px(4))
        self.picker.setMinimumContentsLength(22)
        self.legend.updateGeometry()
        self._share_room()
