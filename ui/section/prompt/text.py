"""A prompt as text in which every token can be seen: the widget that paints and walks through it.

Only the lines on screen are painted, and laying out goes on in slices while the window lives, so
32,000 tokens never hold it up. The tone behind a token is whatever the panel says it means; control
tokens have a frame, what was removed is struck through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui.look.theme import Theme
from ui.section.prompt.lines import LineRuns, PromptLines, TokenStrip

READ_S: Final = 0.006
LINE_HEIGHT: Final = 1.65
BOX_HEIGHT: Final = 1.4
FONT_PX: Final = 12.0
AIR_PX: Final = 0.6
GAP_PX: Final = 2
BLOCK_PX: Final = 150
MOST_KEPT_LINES: Final = 400
_STEPS: Final = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_BY_KEY: Final = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)


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


def _no_picture(_id: str, _width: float, _height: float) -> QImage | None:
    return None


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens [start, end) are the cells of one picture or sound, which `words` name. `media_id`:
    of a picture; a sound has none to show."""

    start: int
    end: int
    media_id: str
    words: str


@dataclass(frozen=True, slots=True)
class Look:
    """How tokens are shown, by number: the tone behind (None: none), whether it is framed as a
    control token, whether it is struck through. `has_borders`: tokens are told from each other;
    `blocks`: the pictures and sounds among them."""

    tone: Callable[[int], QColor | None] = field(default=_nothing)
    is_control: Callable[[int], bool] = field(default=_no)
    is_struck: Callable[[int], bool] = field(default=_no)
    has_borders: bool = True
    blocks: tuple[Block, ...] = ()
    picture: Callable[[str, float, float], QImage | None] = field(default=_no_picture)
    """Finds the picture of a block as it fits into so many device pixels."""


class PromptText(QAbstractScrollArea):
    """`hovered` and `chosen` carry a token's number, −1 for none."""

    hovered = Signal(int)
    chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._strip: TokenStrip = NoTokens()
        self._look = Look()
        self._runs: dict[int, LineRuns] = {}
        self._goal: tuple[int, bool] | None = None
        self._hovered = -1
        self.current = -1
        self._lines = self._laid_out()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)
        self.viewport().setAutoFillBackground(False)
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._read)
        self.verticalScrollBar().actionTriggered.connect(self._forget_goal)
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
        self._set_hovered(-1)
        self._set_current(-1)
        self.verticalScrollBar().setValue(0)
        self._goal = None
        self._lay_out_anew()

    def set_look(self, look: Look) -> None:
        """The same tokens, seen otherwise."""
        self._look = look
        self.viewport().update()

    def choose(self, token: int) -> None:
        """Choose a token and bring it on screen; one that is not there means none."""
        if not 0 <= token < len(self._strip):
            self._set_current(-1)
            return
        self._set_current(token)
        self._go_to(token, to_top=False)

    def scroll_to(self, token: int) -> None:
        """Bring a token near the top, without choosing it."""
        self._go_to(token, to_top=True)

    def _go_to(self, token: int, *, to_top: bool) -> None:
        """At once where it is laid out, else as soon as it is."""
        self._goal = (token, to_top)
        self._reach_goal()

    def _forget_goal(self) -> None:
        """Somebody scrolls."""
        self._goal = None

    def _reach_goal(self) -> None:
        if self._goal is None:
            return
        token, to_top = self._goal
        boxes = self._lines.boxes_of_token(token)
        if not boxes:
            return
        self._goal = None
        self._fit_bar()
        top = self._lines.line_of_box(boxes.start) * self._step
        bar, page = self.verticalScrollBar(), self.viewport().height()
        bottom = top + self._step + 2 * self._margin
        if to_top:
            wanted = max(top - self._step, 0)
            bar.setValue(wanted)
            if (
                bar.value() < wanted
            ):  # as near as it can be, until there is more below, or less room
                self._goal = (token, to_top)
        elif top < bar.value():
            bar.setValue(top)
        elif bottom > bar.value() + page:
            bar.setValue(bottom - page)

    # --- laying out -----------------------------------------------------------------------------

    def _laid_out(self) -> PromptLines:
        theme = self._theme
        self._font = theme.font_mono(FONT_PX)
        # A little air, so that the gap between two tokens cuts no letter.
        self._font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, AIR_PX * theme.scale)
        metrics = QFontMetricsF(self._font)
        self._ascent, self._descent = metrics.ascent(), metrics.descent()
        self._step = round(self._font.pixelSize() * LINE_HEIGHT)
        self._box_height = round(self._font.pixelSize() * BOX_HEIGHT)
        self._margin = theme.px(8)
        widths: dict[str, float] = {}

        def measure(text: str) -> float:
            found = widths.get(text)
            if found is None:
                found = widths[text] = metrics.horizontalAdvance(text)
            return found

        self._runs.clear()
        room = self.viewport().width() - 2 * self._margin
        return PromptLines(self._strip, room, measure)

    def _restart(self) -> None:
        """Another width, font or theme: what was at the top comes to the top again."""
        if self._goal is None:
            line = self.verticalScrollBar().value() // self._step
            token = self._lines.token_at(line + 1, 0.0, is_near=True) if line else None
            self._goal = None if token is None else (token, True)
        self._lay_out_anew()

    def _lay_out_anew(self) -> None:
        self._lines = self._laid_out()
        self._read()
        if not self._lines.is_whole:
            self._timer.start()

    def _read(self) -> None:
        n_before = self._lines.n_lines
        if self._lines.read(READ_S):
            self._timer.stop()
        self._runs.pop(n_before - 1, None)  # the last line has grown
        self._fit_bar()
        self._reach_goal()
        bottom = self.verticalScrollBar().value() + self.viewport().height()
        if (n_before - 1) * self._step <= bottom:
            self.viewport().update()

    @property
    def whole_height(self) -> int:
        """Pixels that all of it takes, as far as it is laid out."""
        return self._lines.n_lines * self._step + 2 * self._margin

    def _fit_bar(self) -> None:
        height = self.whole_height
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
            self._reach_goal()

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        top = self.verticalScrollBar().value() - self._margin
        clip = event.rect()
        first = max((clip.top() + top) // self._step, 0)
        end = min((clip.bottom() + top) // self._step + 1, self._lines.n_lines)
        painter.translate(self._margin, -top)
        for line in range(first, end):
            self._paint_tones(painter, line)
        self._paint_words(painter, first, end)
        for block in self._look.blocks:
            self._paint_block(painter, block)
        if self._look.is_struck is not _no:
            self._strike(painter, first, end)
        self._paint_frames(painter)
        painter.end()

    def _paint_tones(self, painter: QPainter, line: int) -> None:
        """What lies behind the tokens of a line, its borders, and what goes over them."""
        look, lines, colors = self._look, self._lines, self._theme.colors
        top = line * self._step + (self._step - self._box_height) // 2
        height = self._box_height
        borders: list[QLineF] = []
        frames: list[QRectF] = []
        begun, since, x = None, 0.0, 0.0
        for box in lines.boxes_of_line(line):
            left, wide = lines.x[box], lines.width[box]
            tokens = lines.tokens_of_box(box)
            share = wide / max(len(tokens), 1)
            for number, token in enumerate(tokens):
                tone = look.tone(token)
                x = left + number * share
                if tone is not begun:
                    if begun is not None:
                        painter.fillRect(QRectF(since, top, x - since, height), begun)
                    begun, since = tone, x
                if x:
                    borders.append(QLineF(x, top, x, top + height))
            if look.is_control(tokens.start):
                frames.append(QRectF(left + 0.5, top + 0.5, wide - 1.5, height - 1))
            x = left + wide
        if begun is not None:
            painter.fillRect(QRectF(since, top, x - since, height), begun)
        if look.has_borders:
            pen = QPen(QColor(colors.card), self._theme.px(GAP_PX))
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            painter.drawLines(borders)
        painter.setPen(QPen(QColor(colors.dim), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRects(frames)

    def _paint_words(self, painter: QPainter, first: int, end: int) -> None:
        """What stands for spaces and bytes is paler than letters."""
        colors = self._theme.colors
        painter.setFont(self._font)
        base = (self._step + self._ascent - self._descent) / 2
        found = [(line * self._step + base, self._runs_of(line)) for line in range(first, end)]
        painter.setPen(QColor(colors.dim))
        for y, runs in found:
            for x, text in runs.marks:
                painter.drawText(QPointF(x, y), text)
        painter.setPen(QColor(colors.ink))
        for y, runs in found:
            for x, text in runs.letters:
                painter.drawText(QPointF(x, y), text)

    def block_rect(self, block: Block) -> QRectF:
        """The whole lines that are nothing but this block's; empty where there is none."""
        lines = self._lines
        first, last = lines.boxes_of_token(block.start), lines.boxes_of_token(block.end - 1)
        if not first:
            return QRectF()
        top = lines.line_of_box(first.start)
        if lines.tokens_of_box(lines.boxes_of_line(top).start).start < block.start:
            top += 1
        bottom = lines.line_of_box(last.start) if last else lines.n_lines
        y, room = top * self._step, self.viewport().width() - 2 * self._margin
        return QRectF(0, y, room, max(0, bottom - top) * self._step)

    def _paint_block(self, painter: QPainter, block: Block) -> None:
        """Over its cells: the picture, and what it is."""
        rect, px = self.block_rect(block), self._theme.px
        if rect.height() < 2 * self._step:
            return
        painter.save()
        sharp = self.devicePixelRatioF()
        high = min(rect.height() - 4, float(px(BLOCK_PX)))
        find = self._look.picture if block.media_id else _no_picture
        image = find(block.media_id, 2 * high * sharp, high * sharp)
        x = rect.left() + 2
        if image is not None:
            wide = high * image.width() / image.height()
            target = QRectF(x, rect.top() + 2, min(wide, rect.width() / 2), high)
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.fillRect(target.adjusted(-2, -2, 2, 2), QColor(self._theme.colors.card))
            painter.drawImage(target, image)
            x = target.right() + 6
        font = self._theme.font_small()
        metrics = QFontMetricsF(font)
        room = rect.right() - x - 2 * px(6)
        name, between, count = block.words.rpartition(" · ")
        left = room - metrics.horizontalAdvance(between + count)  # how many they are is whole
        words = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, left) + between + count
        label = QRectF(x, rect.top() + 2, metrics.horizontalAdvance(words) + 2 * px(6), px(24))
        painter.fillRect(label, QColor(self._theme.colors.card))
        painter.setFont(font)
        painter.setPen(QColor(self._theme.colors.ink))
        painter.drawText(label, Qt.AlignmentFlag.AlignCenter, words)
        painter.restore()

    def _strike(self, painter: QPainter, first: int, end: int) -> None:
        lines, ink = self._lines, QColor(self._theme.colors.ink)
        for line in range(first, end):
            y = line * self._step + self._step / 2
            for box in lines.boxes_of_line(line):
                if self._look.is_struck(lines.tokens_of_box(box).start):
                    rect = QRectF(lines.x[box], y, lines.width[box], self._theme.px(1))
                    painter.fillRect(rect, ink)

    def _runs_of(self, line: int) -> LineRuns:
        found = self._runs.get(line)
        if found is None:
            if len(self._runs) >= MOST_KEPT_LINES:
                self._runs.clear()
            found = self._runs[line] = self._lines.runs(line)
        return found

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
            line = self._lines.line_of_box(box)
            top = line * self._step + (self._step - self._box_height) // 2
            tokens = self._lines.tokens_of_box(box)
            share = self._lines.width[box] / len(tokens)
            left = self._lines.x[box] + (token - tokens.start) * share
            found.append(QRectF(left, top, share, self._box_height))
        return found

    def _repaint_tokens(self, *tokens: int) -> None:
        """Where these stand, and their frames."""
        top = self.verticalScrollBar().value() - self._margin
        for token in tokens:
            for rect in self.rects(token):
                around = rect.translated(self._margin, -top).toAlignedRect()
                self.viewport().update(around.adjusted(-4, -4, 4, 4))

    # --- walking through it -----------------------------------------------------------------------

    def token_at(self, point: QPointF) -> int:
        """The token under a point of the viewport; −1 where there is none."""
        y = point.y() + self.verticalScrollBar().value() - self._margin
        token = self._lines.token_at(int(y // self._step), point.x() - self._margin)
        return -1 if token is None else token

    def _set_hovered(self, token: int) -> None:
        if token != self._hovered:
            self._repaint_tokens(self._hovered, token)
            self._hovered = token
            self.hovered.emit(token)

    def _set_current(self, token: int) -> None:
        if token != self.current:
            self._repaint_tokens(self.current, token)
            self.current = token
            self.chosen.emit(token)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._set_hovered(self.token_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._set_current(self.token_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._set_hovered(-1)

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        super().scrollContentsBy(dx, dy)
        self._set_hovered(-1)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() in _BY_KEY and self.current < 0 and len(self._strip):
            line = self.verticalScrollBar().value() // self._step
            self.choose(self._lines.token_at(line, 0.0, is_near=True) or 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        token = self._token_by_key(Qt.Key(event.key()))
        if token is None:
            super().keyPressEvent(event)
        elif len(self._strip):
            self.choose(min(max(token, 0), len(self._strip) - 1))

    def _token_by_key(self, key: Qt.Key) -> int | None:
        """Where a key leads; None for a key of somebody else's."""
        if key in _STEPS:
            return self.current + _STEPS[key]
        if key == Qt.Key.Key_Home:
            return 0
        if key == Qt.Key.Key_End:
            return len(self._strip) - 1
        page = max(self.viewport().height() // self._step - 1, 1)
        lines = {
            Qt.Key.Key_Up: -1,
            Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -page,
            Qt.Key.Key_PageDown: page,
        }.get(key)
        if lines is None:
            return None
        current = max(self.current, 0)
        found = self._lines.token_beside(current, lines)
        return current if found is None else found
