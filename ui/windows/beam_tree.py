"""The tree of a beam search, painted: a column for each step, a box for each token.

    filled            on the way to a text that was found
    dashed, no fill   a branch that was given up
    barred below      the greedy line
    square ended      a text has ended here

Arrow keys go along branches (←, →) and between them (↑, ↓), Home and End to the ends of the branch;
Return takes the text that ends at the token. Only what is on screen is painted.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from app.insight.beams.places import Place, places_of
from app.insight.beams.tree import BeamTree
from app.insight.trace.tokens_shown import percent, visible
from ui.look.theme import Theme
from ui.shell.notices import announce
from ui.widgets.kit import show_tip

NOTHING: Final = "The tree appears here, step by step."
ENDS: Final = "end"
"""What a token that ends a text is called in its box."""

_ROW_PX: Final = 30
_BOX_PX: Final = 22
_GAP_PX: Final = 24
_MARGIN_PX: Final = 12
_LEAST_PX: Final = 28
_MOST_PX: Final = 132
_BAR_PX: Final = 3
_FATES: Final = {
    "alive": "still searched",
    "finished": "finished",
    "cut off": "at the length limit",
    "greedy": "on the greedy line only",
}


class BeamTreeView(QAbstractScrollArea):
    """`chosen`: another node is the current one (0: none); `taken`: its text is wanted."""

    chosen = Signal(int)
    taken = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.tree = BeamTree()
        self.current = 0
        self._with_pruned = True
        self._places: dict[int, Place] = {}
        self._at: dict[Place, int] = {}
        self._kept: set[int] = set()
        self._path: set[int] = set()
        self._columns: list[float] = [0.0]
        """Where each column begins, and where the last one ends."""
        self._n_rows = 0
        self._boxes: dict[int, QRectF] = {}
        self.setObjectName("beam_tree")
        self.setAccessibleName("Beam search tree")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        theme.changed.connect(self._lay_out)

    # --- what is shown --------------------------------------------------------------------------

    def show_tree(self, tree: BeamTree) -> None:
        """The same as it grows, or another one."""
        follows = self._is_at_the_end()
        if tree is not self.tree:
            self.tree, follows = tree, True
        if self.current not in tree.grown:
            self._set_current(0)
        self._lay_out()
        if follows and self.tree.found is None:
            bar = self.horizontalScrollBar()
            bar.setValue(bar.maximum())

    def show_pruned(self, shown: bool) -> None:
        self._with_pruned = shown
        self._lay_out()
        if self.current and self.current not in self._places:
            self.choose(0)

    def choose(self, number: int) -> None:
        """Make a node the current one, and have it in view."""
        if number != self.current:
            self._set_current(number)
            self.chosen.emit(number)
        if number in self._places:
            self._bring_into_view(self._box(number))

    def _set_current(self, number: int) -> None:
        self.current = number
        self._path = set(self.tree.path(number)) if number in self.tree.grown else set()
        words = self.words_of(number) if self._path else ""
        self.setAccessibleDescription(words)
        if words and self.hasFocus():
            announce(self, words)
        self.viewport().update()

    def words_of(self, number: int) -> str:
        """Text so far, the token's own figures, and what became of it."""
        grown, tree = self.tree.grown[number], self.tree
        node = grown.node
        text = tree.text(number).decode("utf-8", "replace")
        fate = _FATES.get(tree.fate(number), "")
        if grown.pruned_at:
            fate = f"pruned at step {grown.pruned_at}"
        elif grown.children and number not in tree.leaves:
            fate = "continued" if number in self._kept else "pruned later"
        marks = [fate, "greedy line" if node.is_greedy and node.kind != "greedy" else ""]
        token = ENDS if node.is_end else visible(node.piece)
        place = f"Token {grown.step}: {token} (ID {node.token_id})"
        return "\n".join(
            (
                text or "(no text)",
                f"{place}, {percent(node.logprob)}%, log p {_signed(node.logprob)}",
                f"Σ log p {_signed(node.total)}, score {_signed(node.score)}",
                ", ".join(filter(None, marks)),
            )
        )

    # --- places ---------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        px = self._theme.px
        self._places = places_of(self.tree, with_pruned=self._with_pruned)
        self._at = {place: number for number, place in self._places.items()}
        self._kept = self.tree.kept
        metrics = QFontMetricsF(self._theme.font_mono())
        widths = [float(px(_LEAST_PX))] * (
            1 + max((place.column for place in self._places.values()), default=-1)
        )
        known: dict[str, float] = {}
        for number, place in self._places.items():
            words = self._words_in(number)
            if words not in known:
                known[words] = metrics.horizontalAdvance(words) + px(12)
            widths[place.column] = min(max(widths[place.column], known[words]), px(_MOST_PX))
        starts = accumulate(
            (width + px(_GAP_PX) for width in widths), initial=float(px(_MARGIN_PX))
        )
        self._columns = list(starts)
        self._n_rows = 1 + max((place.row for place in self._places.values()), default=-1)
        self._boxes = {number: self._made_box(place) for number, place in self._places.items()}
        self._fit_bars()
        self.viewport().update()

    def _fit_bars(self) -> None:
        px, view = self._theme.px, self.viewport().size()
        size = QSize(int(self._columns[-1]), px(2 * _MARGIN_PX) + self._n_rows * px(_ROW_PX))
        for bar, whole, shown in (
            (self.horizontalScrollBar(), size.width(), view.width()),
            (self.verticalScrollBar(), size.height(), view.height()),
        ):
            bar.setRange(0, max(whole - shown, 0))
            bar.setPageStep(shown)
            bar.setSingleStep(px(_ROW_PX))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_bars()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(560), self._theme.px(240))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self._theme.px(90))

    def _is_at_the_end(self) -> bool:
        bar = self.horizontalScrollBar()
        return bar.value() >= bar.maximum()

    def _box(self, number: int) -> QRectF:
        """On the whole plane."""
        return self._boxes[number]

    def _made_box(self, place: Place) -> QRectF:
        px = self._theme.px
        left = self._columns[place.column]
        width = self._columns[place.column + 1] - left - px(_GAP_PX)
        top = px(_MARGIN_PX) + place.row * px(_ROW_PX) + (px(_ROW_PX) - px(_BOX_PX)) / 2
        return QRectF(left, top, width, px(_BOX_PX))

    def box_of(self, number: int) -> QRect:
        """In the viewport."""
        return self._box(number).translated(-self._scrolled()).toRect()

    def _scrolled(self) -> QPointF:
        return QPointF(self.horizontalScrollBar().value(), self.verticalScrollBar().value())

    def _bring_into_view(self, box: QRectF) -> None:
        margin, view = self._theme.px(_GAP_PX), self.viewport().size()
        for bar, low, high, shown in (
            (self.horizontalScrollBar(), box.left(), box.right(), view.width()),
            (self.verticalScrollBar(), box.top(), box.bottom(), view.height()),
        ):
            if low - margin < bar.value():
                bar.setValue(int(low - margin))
            elif high + margin > bar.value() + shown:
                bar.setValue(int(high + margin - shown))

    def node_at(self, point: QPoint) -> int:
        """0: there is none."""
        at = QPointF(point) + self._scrolled()
        column = bisect_right(self._columns, at.x()) - 1
        row = int((at.y() - self._theme.px(_MARGIN_PX)) // self._theme.px(_ROW_PX))
        number = self._at.get(Place(row, column), 0)
        return number if number and self._box(number).contains(at) else 0

    def _words_in(self, number: int) -> str:
        node = self.tree.grown[number].node
        return ENDS if node.is_end else visible(node.piece)

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), QColor(self._theme.colors.card))
        if not self._places:
            painter.setPen(QColor(self._theme.colors.dim))
            painter.setFont(self._theme.font_text())
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect(), int(flags), NOTHING)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(-self._scrolled())
        shown = QRectF(event.rect()).translated(self._scrolled())
        numbers = [n for n in self._places if self._reaches(n, shown)]
        for number in sorted(numbers, key=lambda n: (n in self._path, n in self._kept)):
            self._paint_branch(painter, number)
        painter.setFont(self._theme.font_mono())
        for number in numbers:
            self._paint_box(painter, number)

    def _reaches(self, number: int, shown: QRectF) -> bool:
        box = self._box(number)
        parent = self.tree.grown[number].node.parent
        if parent in self._places:
            box = box.united(self._box(parent))
        return box.intersects(shown)

    def _paint_branch(self, painter: QPainter, number: int) -> None:
        parent = self.tree.grown[number].node.parent
        if parent not in self._places:
            return
        start, end = self._box(parent), self._box(number)
        from_, to = (
            QPointF(start.right(), start.center().y()),
            QPointF(end.left(), end.center().y()),
        )
        path = QPainterPath(from_)
        middle = (from_.x() + to.x()) / 2
        path.cubicTo(QPointF(middle, from_.y()), QPointF(middle, to.y()), to)
        colors, is_kept = self._theme.colors, number in self._kept
        is_chosen = number in self._path
        pen = QPen(QColor(colors.accent if is_chosen or is_kept else colors.dim))
        pen.setWidthF(self._theme.px(3 if is_chosen else 1))
        if not is_kept and not is_chosen:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.strokePath(path, pen)

    def _paint_box(self, painter: QPainter, number: int) -> None:
        colors, px, node = self._theme.colors, self._theme.px, self.tree.grown[number].node
        box, is_kept, is_current = self._box(number), number in self._kept, number == self.current
        pen = QPen(QColor(colors.accent if is_kept or is_current else colors.dim))
        pen.setWidthF(px(2) if is_current else 1.0)
        if not is_kept and not is_current:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(QColor(colors.accent_tone if is_kept else colors.card))
        corner = 0 if node.is_end else px(4)
        painter.drawRoundedRect(box, corner, corner)
        if node.is_greedy:
            bar = QRectF(box.left(), box.bottom() + px(1), box.width(), px(_BAR_PX))
            painter.fillRect(bar, QColor(colors.second))
        if is_current and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(colors.accent), 1, Qt.PenStyle.DotLine))
            painter.drawRect(box.adjusted(-px(3), -px(3), px(3), px(3)))
        painter.setPen(QColor(colors.ink if is_kept else colors.dim))
        metrics = QFontMetricsF(painter.font())
        words = metrics.elidedText(
            self._words_in(number), Qt.TextElideMode.ElideRight, box.width() - px(6)
        )
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), words)

    # --- the mouse ------------------------------------------------------------------------------

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            number = self.node_at(event.pos())
            if number:
                show_tip(event.globalPos(), self.words_of(number), self.viewport())
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        is_on_one = bool(self.node_at(event.position().toPoint()))
        shape = Qt.CursorShape.PointingHandCursor if is_on_one else Qt.CursorShape.ArrowCursor
        self.viewport().setCursor(shape)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.choose(self.node_at(event.position().toPoint()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()  # it was pressed here

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if number := self.node_at(event.position().toPoint()):
            self.taken.emit(number)

    # --- the keyboard ---------------------------------------------------------------------------

    def focusInEvent(self, event: QEvent) -> None:
        super().focusInEvent(event)  # type: ignore[arg-type]
        if not self.current and self._places:
            self.choose(next(iter(self.tree.leaves), next(iter(self._places))))
        self.viewport().update()

    def focusOutEvent(self, event: QEvent) -> None:
        super().focusOutEvent(event)  # type: ignore[arg-type]
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.current:
                self.taken.emit(self.current)
            return
        number = self._reached(key)
        if number is None:
            super().keyPressEvent(event)
        elif number:
            self.choose(number)

    def _reached(self, key: Qt.Key) -> int | None:
        """The node that a key leads to; 0: there is none that way; None: it is another key."""
        if key not in _KEYS or not self._places:
            return None
        here = self._places.get(self.current)
        if here is None:
            return next(iter(self.tree.leaves), next(iter(self._places)))
        if key == Qt.Key.Key_Left:
            return self.tree.grown[self.current].node.parent
        if key == Qt.Key.Key_Right:
            return self._straight_on(self.current)
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            sign = 1 if key == Qt.Key.Key_Down else -1
            rows = [
                place.row
                for place in self._at
                if place.column == here.column and (place.row - here.row) * sign > 0
            ]
            nearest = min(rows, key=lambda row: abs(row - here.row), default=None)
            return 0 if nearest is None else self._at[Place(nearest, here.column)]
        if key == Qt.Key.Key_Home:
            return self.tree.path(self.current)[0]
        number = self.current
        while after := self._straight_on(number):
            number = after
        return number

    def _straight_on(self, number: int) -> int:
        """What follows in the same row, else the highest one that follows."""
        shown = [n for n in self.tree.grown[number].children if n in self._places]
        return min(shown, key=lambda n: self._places[n].row, default=0)


_KEYS: Final = frozenset(
    (
        Qt.Key.Key_Left,
        Qt.Key.Key_Right,
        Qt.Key.Key_Up,
        Qt.Key.Key_Down,
        Qt.Key.Key_Home,
        Qt.Key.Key_End,
    )
)


def _signed(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
