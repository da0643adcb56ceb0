"""A prompt as text in which every token can be seen: the widget that paints and walks through it.

Only the lines on screen are painted, and laying out goes on in slices while the window lives. The
tone behind a token is whatever the panel says it means; control tokens have a frame, what was
removed is struck through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui.section.prompt_lines import PromptLines, TokenStrip
from ui.theme import Theme

READ_S: Final = 0.006
LINE_HEIGHT: Final = 1.6
BOX_HEIGHT: Final = 1.35
FONT_PX: Final = 12.0
_KEYS: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
}


class NoTokens:
    """A strip without anything in it."""

    def __len__(self) -> int:
        return 0

    def pieces(self, first: int, end: int) -> list[bytes]:
        return []


def _nothing(_token: int) -> None:
    return None


def _no(_token: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Look:
    """How tokens are shown, by number: the tone behind (None: none), whether it is framed as a
    control token, whether it is struck through. `has_borders`: tokens are told from each other."""

    tone: Callable[[int], QColor | None] = field(default=_nothing)
    is_control: Callable[[int], bool] = field(default=_no)
    is_struck: Callable[[int], bool] = field(default=_no)
    has_borders: bool = True


class PromptText(QAbstractScrollArea):
    """`hovered` and `chosen` carry a token's number, −1 for none."""

    hovered = Signal(int)
    chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._strip: TokenStrip = NoTokens()
        self._look = Look()
        self._lines = self._laid_out()
        self._anchor: int | None = None
        self._hovered = -1
        self.current = -1
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)
        self.viewport().setAutoFillBackground(False)
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._read)
        theme.changed.connect(self._restart)

    # --- what is shown --------------------------------------------------------------------------

    @property
    def pointed(self) -> int:
        """The token that is meant: under the pointer, else the chosen one; −1 for none."""
        return self._hovered if self._hovered >= 0 else self.current

    @property
    def lines(self) -> PromptLines:
        return self._lines

    @property
    def is_whole(self) -> bool:
        """Whether all of it is laid out."""
        return self._lines.is_whole

    def show_tokens(self, strip: TokenStrip, look: Look) -> None:
        """Other tokens, from the beginning."""
        self._strip, self._look = strip, look
        self._anchor = None
        self._set_hovered(-1)
        self._set_current(-1)
        self.verticalScrollBar().setValue(0)
        self._restart(is_anew=True)

    def set_look(self, look: Look) -> None:
        """The same tokens, seen otherwise."""
        self._look = look
        self.viewport().update()

    def choose(self, token: int) -> None:
        """Go to a token; it is laid out for that. One that is not there means none."""
        if not 0 <= token < len(self._strip):
            self._set_current(-1)
            return
        self._read_to(token)
        self._set_current(token)
        self._show_token(token)

    def scroll_to(self, token: int) -> None:
        """Bring a token near the top, without choosing it."""
        self._read_to(token)
        boxes = self._lines.boxes_of_token(token)
        if boxes:
            top = max(self._lines.line_of_box(boxes.start) - 1, 0) * self._step
            self.verticalScrollBar().setValue(top)

    def _read_to(self, token: int) -> None:
        while not self._lines.is_whole and not self._lines.boxes_of_token(token):
            self._lines.read(READ_S)
        self._fit_bar()

    # --- laying out -----------------------------------------------------------------------------

    def _laid_out(self) -> PromptLines:
        theme = self._theme
        self._font = theme.font_mono(FONT_PX)
        metrics = QFontMetricsF(self._font)
        self._ascent, self._descent = metrics.ascent(), metrics.descent()
        self._step = round(self._font.pixelSize() * LINE_HEIGHT)
        self._box_height = round(self._font.pixelSize() * BOX_HEIGHT)
        self._pad = theme.px(1.5)
        self._margin = theme.px(8)
        widths: dict[str, float] = {}

        def measure(text: str) -> float:
            found = widths.get(text)
            if found is None:
                found = widths[text] = metrics.horizontalAdvance(text)
            return found

        room = self.viewport().width() - 2 * self._margin
        return PromptLines(self._strip, room, measure, self._pad, theme.px(1))

    def _restart(self, *, is_anew: bool = False) -> None:
        """Lay out from the first token on; what was at the top comes to the top again."""
        if not is_anew and self._anchor is None:
            self._anchor = self._top_token()
        self._lines = self._laid_out()
        self._read()
        if not self._lines.is_whole:
            self._timer.start()

    def _top_token(self) -> int | None:
        line = self.verticalScrollBar().value() // self._step
        return self._lines.token_at(line, 0.0, is_near=True) if line else None

    def _read(self) -> None:
        if self._lines.read(READ_S):
            self._timer.stop()
        self._fit_bar()
        if self._anchor is not None and self._lines.boxes_of_token(self._anchor):
            box = self._lines.boxes_of_token(self._anchor).start
            self._anchor = None
            self.verticalScrollBar().setValue(self._lines.line_of_box(box) * self._step)
        self.viewport().update()

    def _fit_bar(self) -> None:
        height = self._lines.n_lines * self._step + 2 * self._margin
        bar, page = self.verticalScrollBar(), self.viewport().height()
        bar.setPageStep(page)
        bar.setSingleStep(self._step)
        bar.setRange(0, max(height - page, 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._restart()
        else:
            self._fit_bar()

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setFont(self._font)
        top = self.verticalScrollBar().value() - self._margin
        clip = event.rect()
        first = max((clip.top() + top) // self._step, 0)
        end = min((clip.bottom() + top) // self._step + 1, self._lines.n_lines)
        painter.translate(self._margin, -top)
        for line in range(first, end):
            for box in self._lines.boxes_of_line(line):
                self._paint_box(painter, box, self._rect(line, box))
        self._paint_frames(painter)
        painter.end()

    def _rect(self, line: int, box: int) -> QRectF:
        top = line * self._step + (self._step - self._box_height) // 2
        return QRectF(self._lines.x[box], top, self._lines.width[box], self._box_height)

    def _paint_box(self, painter: QPainter, box: int, rect: QRectF) -> None:
        look, colors = self._look, self._theme.colors
        tokens = self._lines.tokens_of_box(box)
        share = rect.width() / max(len(tokens), 1)
        for number, token in enumerate(tokens):
            tone = look.tone(token)
            if tone is not None:
                part = QRectF(rect.left() + number * share, rect.top(), share, rect.height())
                painter.fillRect(part, tone)
            if number and look.has_borders:
                x = rect.left() + number * share
                painter.fillRect(QRectF(x, rect.top(), 1, rect.height()), QColor(colors.card))
        is_control = look.is_control(tokens.start)
        if is_control:
            painter.setPen(QPen(QColor(colors.dim), 1))
            painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5))
        self._paint_words(painter, box, rect)
        if look.is_struck(tokens.start):
            painter.fillRect(
                QRectF(rect.left(), rect.center().y(), rect.width(), self._theme.px(1)),
                QColor(colors.ink),
            )

    def _paint_words(self, painter: QPainter, box: int, rect: QRectF) -> None:
        """The text of a box; what stands for spaces and bytes is paler than letters."""
        colors, lines = self._theme.colors, self._lines
        spelling = lines.groups.spellings[lines.group_of_box[box]]
        start, end = lines.cut(box)
        y = rect.top() + (rect.height() + self._ascent - self._descent) / 2
        x = rect.left() + self._pad
        at = start
        for first, last in (*spelling.marks, (end, end)):
            for stop, is_mark in ((first, False), (last, True)):
                stop = min(max(stop, start), end)
                if stop > at:
                    text = spelling.shown[at:stop]
                    painter.setPen(QColor(colors.dim if is_mark else colors.ink))
                    painter.drawText(QPointF(x, y), text)
                    x += lines.measure(text)
                    at = stop

    def _paint_frames(self, painter: QPainter) -> None:
        """Around the token under the pointer, and around the chosen one."""
        colors, px = self._theme.colors, self._theme.px
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for token, color, width in (
            (self._hovered, colors.dim, px(1)),
            (self.current, colors.accent, px(2)),
        ):
            painter.setPen(QPen(QColor(color), width))
            for rect in self.rects(token):
                painter.drawRect(rect)

    def rects(self, token: int) -> list[QRectF]:
        """Where a token stands, in the coordinates of the text; of several that are one character
        each has its share."""
        found = []
        for box in self._lines.boxes_of_token(token):
            rect = self._rect(self._lines.line_of_box(box), box)
            tokens = self._lines.tokens_of_box(box)
            share = rect.width() / len(tokens)
            left = rect.left() + (token - tokens.start) * share
            found.append(QRectF(left, rect.top(), share, rect.height()))
        return found

    # --- walking through it -----------------------------------------------------------------------

    def token_at(self, point: QPointF) -> int:
        """The token under a point of the viewport; −1 where there is none."""
        y = point.y() + self.verticalScrollBar().value() - self._margin
        token = self._lines.token_at(int(y // self._step), point.x() - self._margin)
        return -1 if token is None else token

    def _set_hovered(self, token: int) -> None:
        if token != self._hovered:
            self._hovered = token
            self.hovered.emit(token)
            self.viewport().update()

    def _set_current(self, token: int) -> None:
        if token != self.current:
            self.current = token
            self.chosen.emit(token)
            self.viewport().update()

    def _show_token(self, token: int) -> None:
        """Scroll as little as needed."""
        boxes = self._lines.boxes_of_token(token)
        if not boxes:
            return
        top = self._lines.line_of_box(boxes.start) * self._step
        bar, page = self.verticalScrollBar(), self.viewport().height()
        bottom = top + self._step + 2 * self._margin
        if top < bar.value():
            bar.setValue(top)
        elif bottom > bar.value() + page:
            bar.setValue(bottom - page)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._set_hovered(self.token_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._set_current(self.token_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._set_hovered(-1)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        is_by_key = event.reason() in (
            Qt.FocusReason.TabFocusReason,
            Qt.FocusReason.BacktabFocusReason,
        )
        if is_by_key and self.current < 0 and len(self._strip):
            top = self._top_token()
            self.choose(0 if top is None else top)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        token = self._token_by_key(event)
        if token is None:
            super().keyPressEvent(event)
        elif len(self._strip):
            self.choose(min(max(token, 0), len(self._strip) - 1))

    def _token_by_key(self, event: QKeyEvent) -> int | None:
        """Where a key leads; None for a key of somebody else's."""
        key, current = event.key(), max(self.current, 0)
        page = max(self.viewport().height() // self._step - 1, 1)
        if key in _KEYS:
            return self.current + _KEYS[Qt.Key(key)]
        lines = {
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -page,
            Qt.Key.Key_PageDown: page,
        }.get(Qt.Key(key))
        if lines is not None:
            found = self._lines.token_beside(current, lines)
            return current if found is None else found
        if key == Qt.Key.Key_Home:
            return 0
        if key == Qt.Key.Key_End:
            return len(self._strip) - 1
        return None
