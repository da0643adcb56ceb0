"""*Lens by position*: what could be read after each layer at the last places of the text.

A column is a place, headed by the token that was read there; a row a layer, the last one below. A
cell is the layer's best candidate, tinted by its probability. Columns are asked for one at a time,
this token's first, and each is drawn when it comes.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.amounts import percent
from app.chat.inspection.inside import ReadText, Seen
from app.insight.inside.votes import Lens, lens_of
from app.insight.trace.tokens_shown import quoted
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.rows import LEFT, RIGHT, Picture, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools

HELP: Final = (
    "The lens at this token and those before it: a column each, a row for each layer, and in it "
    "the token that would win if the model ended there. The one that came next stands out. Click "
    "a column to look at its token."
)
N_PLACES: Final = 8
ROW_PX: Final = 16
_NUMBER_PX: Final = 22


class LensMap(Picture):
    """Hover tells a cell; a click on a column goes to its place."""

    def __init__(self, theme: Theme, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._view = view
        self.places: list[int] = []
        self.columns: dict[int, Lens] = {}
        self.setObjectName("inside_lens_map")
        theme.changed.connect(self.updateGeometry)

    def show_places(self, places: list[int]) -> None:
        """Other places; nothing is known of them yet."""
        self.places, self.columns = places, {}
        self._follow()

    def show_column(self, place: int, lens: Lens) -> None:
        self.columns[place] = lens
        self._follow()

    def _follow(self) -> None:
        words = (
            f"{self._view.piece(place)}: {self._view.word(int(lens.ids[-1, 0]))}"
            for place, lens in sorted(self.columns.items())
        )
        self.setAccessibleName("Last layer by position: " + "; ".join(words))
        self.updateGeometry()
        self.update()

    @property
    def n_layer(self) -> int:
        return max((len(lens) for lens in self.columns.values()), default=0)

    def cell(self, layer: int, column: int) -> QRectF:
        """Of a layer's row, −1 for the heading."""
        px = self._theme.px
        room = (self.width() - px(_NUMBER_PX)) / max(len(self.places), 1)
        return QRectF(
            px(_NUMBER_PX) + column * room, (layer + 1) * px(ROW_PX), room - px(2), px(ROW_PX)
        )

    def at(self, point: QPointF) -> tuple[int, int] | None:
        """(layer, column) under a point; layer −1 in the heading."""
        px = self._theme.px
        left = point.x() - px(_NUMBER_PX)
        if left < 0 or not self.places:
            return None
        column = int(left / ((self.width() - px(_NUMBER_PX)) / len(self.places)))
        layer = int(point.y() // px(ROW_PX)) - 1
        return (layer, column) if column < len(self.places) and layer < self.n_layer else None

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(300), self._theme.px(ROW_PX) * (self.n_layer + 1))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, px, colors = QPainter(self), self._theme.px, self._theme.colors
        painter.setFont(self._theme.font_small())
        first = max(int(event.rect().top() // px(ROW_PX)) - 1, 0)
        end = min(int(event.rect().bottom() // px(ROW_PX)), self.n_layer)
        painter.setPen(QColor(colors.dim))
        for layer in range(first, end):
            number = QRectF(0, (layer + 1) * px(ROW_PX), px(_NUMBER_PX) - px(6), px(ROW_PX))
            painter.drawText(number, RIGHT, str(layer))
        for column, place in enumerate(self.places):
            painter.setPen(QColor(colors.accent if place == self._view.place else colors.dim))
            elided(painter, self.cell(-1, column), self._view.piece(place), LEFT)
            lens = self.columns.get(place)
            for layer in range(first, min(end, len(lens))) if lens is not None else ():
                self._paint_cell(painter, lens, layer, self.cell(layer, column))

    def _paint_cell(self, painter: QPainter, lens: Lens | None, layer: int, rect: QRectF) -> None:
        assert lens is not None
        colors, px = self._theme.colors, self._theme.px
        tint = QColor(colors.accent_tone)
        tint.setAlphaF(lens.probability(layer))
        painter.fillRect(rect.adjusted(0, 0, 0, -1), tint)
        is_next = lens.ranks is not None and int(lens.ranks[layer]) == 1
        painter.setPen(QColor(colors.accent if is_next else colors.ink))
        words = self._view.word(int(lens.ids[layer, 0]))
        if QFontMetricsF(painter.font()).horizontalAdvance("…") < rect.width():
            elided(painter, rect.adjusted(px(2), 0, 0, 0), words, LEFT)

    def words_of(self, layer: int, column: int) -> str:
        place = self.places[column]
        lens = self.columns.get(place)
        read = quoted(self._view.piece(place))
        if lens is None or layer < 0:
            return f"Token {place + 1:,}, {read}"
        best = quoted(self._view.word(int(lens.ids[layer, 0])))
        lines = [f"Layer {layer} at {read}", f"{best} {percent(lens.probability(layer))}"]
        if lens.ranks is not None:
            next_word = quoted(self._view.piece(place + 1))
            lines.append(f"{next_word}, which came next, has rank {int(lens.ranks[layer]):,}")
        return "\n".join(lines)

    def words_at(self, point: QPointF) -> str:
        at = self.at(point)
        return "" if at is None else self.words_of(*at)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self.at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and at is not None:
            self._view.go_to(self.places[at[1]])


class LensMapCard(InsideCard):
    title_words = "Lens by position"
    name = "lens_map"
    needs = ("lens",)
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        self._key: tuple[object, ...] = ()
        self.map = LensMap(tools.theme, view, self.content)
        self.sentence = small_label("", self.content)
        self.rows.addWidget(self.map)
        self.rows.addWidget(self.sentence)
        self.sentence.setVisible(False)

    def show_seen(self, seen: Seen) -> None:
        text, place = self.view.text, self.view.place
        if text is None or place is None or not seen.is_whole:
            return
        key = (text, place, id(self._tools.desk.loader.loaded))
        if key == self._key:
            return
        self._key = key
        places = list(range(max(place - N_PLACES + 1, 0), place + 1))
        self.map.show_places(places)
        self.sentence.setVisible(False)
        self._ask(text, places[::-1], key)

    def _ask(self, text: ReadText, places: list[int], key: tuple[object, ...]) -> None:
        """One after the other, so that nothing is asked for that is no longer wanted."""
        if not places or not self.is_open:
            return

        def take(seen: Seen) -> None:
            lens = lens_of(seen.arrays)
            if lens is not None:
                self.map.show_column(places[0], lens)
            self._ask(text, places[1:], key)

        self._tools.desk.inside.lens_at(
            text, places[0], take, self._fail, still=lambda: self._key == key and self.is_open
        )

    def _fail(self, sentence: str) -> None:
        self._key = ()
        self.sentence.setText(sentence)
        self.sentence.setVisible(True)

    def set_open(self, is_open: bool) -> None:
        if not is_open:
            self._key = ()
        super().set_open(is_open)
