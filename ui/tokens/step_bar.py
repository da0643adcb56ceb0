"""Step mode above the composer: what was drawn, what else was on the table, and what to do.

The candidates stand as they were before the samplers, each with the stage that removed it. Enter
chooses the one under the keyboard, Space takes the drawn one, and so does a click on either. A
removed one can be chosen, too.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.trace.tokens_shown import bits_text, percent, rank_text, visible
from ui.look.theme import Theme
from ui.section.tokens.alternatives import AlternativesTable
from ui.shell.sizes import STATUS_FROM_PX
from ui.widgets.elided import PartsLabel
from ui.widgets.kit import plain_label, push_button

MOST_ROWS = 7
FEWEST_ROWS = 2
SHARE_OF_HEIGHT = 0.45
LONGEST_PIECE = 24
"""Characters of a piece that a button has room for; some tokens are lines of a hundred signs."""
END_LENGTH = 200
"""Characters of the text's end that are looked at; so many fit on no line."""


class StepTable(AlternativesTable):
    """`picked` by a click, too. `taken`: Space."""

    taken = Signal()
    may_branch = False

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.setObjectName("step_table")
        self.setAccessibleName("Candidates for the next token")
        self.setToolTip("Click a candidate or press Enter to choose it; Space takes the drawn one")
        self.clicked.connect(lambda index: self._pick(index.row()))
        self.doubleClicked.disconnect()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """The second of two quick clicks would choose at the next token, which may wait already."""
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if event.key() == Qt.Key.Key_Space or (
            is_enter and not self.selectionModel().hasSelection()
        ):
            self.taken.emit()
        else:
            super().keyPressEvent(event)


class _TextEnd(QLabel):
    """The end of the text so far and a caret: where there is no room, its beginning is cut."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("step_text")
        self.setTextFormat(Qt.TextFormat.PlainText)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        px, room = self._theme.px, QRectF(self.contentsRect())
        room.setRight(room.right() - px(4))
        metrics = self.fontMetrics()
        shown = metrics.elidedText(self.text(), Qt.TextElideMode.ElideLeft, int(room.width()))
        painter.setPen(self.palette().windowText().color())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(room, flags, shown)
        left, top = room.left() + metrics.horizontalAdvance(shown) + px(1), room.center().y()
        caret = QRectF(left, top - px(7), px(2), px(14))
        painter.fillRect(caret, self._theme.colors.accent)


class StepBar(QWidget):
    """`took`: the drawn token. `chose`: another one, by its ID."""

    took = Signal()
    chose = Signal(int)
    run_on_requested = Signal()
    stop_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._token: TokenTrace | None = None
        self._chat_height = 0
        self.setObjectName("step_bar")
        self.setAccessibleName("Step mode")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.card = QFrame(self)
        self.card.setProperty("plane", "card")
        self.text = _TextEnd(theme, self.card)
        self.figure = plain_label("", self.card, "small", name="step_figure")
        self.table = StepTable(theme, self.card)
        self.caption = PartsLabel("", self.card)
        self.caption.setObjectName("step_caption")
        self.caption.setProperty("kind", "small")
        self.take_button = push_button(
            "Take",
            self.card,
            "step_take_button",
            kind="primary",
            hint="Take the drawn token (Space)",
            act=self.took,
        )
        self.run_button = push_button(
            "Run to the end",
            self.card,
            "step_run_on_button",
            hint="Take the drawn token and generate the rest",
            act=self.run_on_requested,
        )
        self.stop_button = push_button(
            "Stop here",
            self.card,
            "step_stop_button",
            hint="End the reply without this token",
            act=self.stop_requested,
        )
        self._build()
        self.table.taken.connect(self.took)
        self.table.picked.connect(self._on_picked)
        theme.changed.connect(self._fit_rows)
        theme.space(self._inner, 6, margins=(12, 10))
        theme.space(self._head, 8)
        theme.space(self._row, 8)
        theme.font(self.text, Theme.font_mono, 13)
        for button in (self.take_button, self.run_button, self.stop_button):
            theme.font(button, Theme.font_small)
        self._fit_rows()

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.text, 1)
        self._head.addWidget(self.figure)
        self._row = QHBoxLayout()
        self._row.addWidget(self.take_button)
        self._row.addWidget(self.run_button)
        self._row.addWidget(self.stop_button)
        self._row.addStretch(1)
        self._inner = QVBoxLayout(self.card)
        self._inner.addLayout(self._head)
        self._inner.addWidget(self.table)
        self._inner.addWidget(self.caption)
        self._inner.addLayout(self._row)
        self._outer = QVBoxLayout(self)
        self._outer.addWidget(self.card)

    def stops(self) -> list[QWidget]:
        """What Tab goes through, in this order."""
        return [self.table, self.take_button, self.run_button, self.stop_button]

    def set_place(self, left: int, right: int, chat_height: int) -> None:
        """It stands under the transcript's column and leaves that the most of the height."""
        self._outer.setContentsMargins(left, self._theme.px(4), right, self._theme.px(4))
        if chat_height != self._chat_height:
            self._chat_height = chat_height
            self._fit_rows()

    def show_token(self, token: TokenTrace, text: str, words: Pieces | None) -> None:
        """Another token waits. `text`: what the reply says so far."""
        self._token = token
        self.text.setText(visible(text[-END_LENGTH:].encode()))
        self.text.setAccessibleName(f"Text so far ends with: {text[-END_LENGTH:]}")
        self.figure.setText(f"token {token.index + 1:,} · entropy {bits_text(token.entropy)} bits")
        self.show_words(words)
        self.table.scrollToTop()
        row = self.table.candidates.drawn_row
        if row is not None:  # else none is chosen, and Enter takes the drawn one
            self.table.selectRow(row)

    def show_words(self, words: Pieces | None) -> None:
        """What the candidates' IDs stand for."""
        token = self._token
        if token is None:
            return
        self.table.candidates.show(token, words)
        piece = visible(token.piece)
        if len(piece) > LONGEST_PIECE:
            piece = piece[:LONGEST_PIECE] + "…"
        self.take_button.setText(f"Take “{piece}”")
        share = percent(min(token.logprob, 0.0))
        place = f"rank {rank_text(token.rank)}" + (
            "" if self.table.candidates.drawn_row is not None else ", not shown here"
        )
        self.caption.set_text(
            f"Drawn: “{piece}”, {share}%, {place} · probabilities before samplers, at temperature 1"
        )

    def _on_picked(self, token_id: int) -> None:
        if self._token is not None and token_id == self._token.token_id:
            self.took.emit()
        else:
            self.chose.emit(token_id)

    def _fit_rows(self) -> None:
        """As many candidates as the height has room for; the others are scrolled to."""
        px = self._theme.px
        is_short = self._chat_height < px(STATUS_FROM_PX)
        self.caption.setVisible(not is_short)
        header = self.table.horizontalHeader()
        header.setVisible(not is_short)
        head = 0 if is_short else header.sizeHint().height()
        row = self.table.verticalHeader().defaultSectionSize()
        around = px(20 + 18) + head + self.text.sizeHint().height()
        around += self.take_button.sizeHint().height() + px(0 if is_short else 18)
        room = int(self._chat_height * SHARE_OF_HEIGHT) - around
        rows = min(max(room // max(row, 1), FEWEST_ROWS), MOST_ROWS)
        self.table.setFixedHeight(head + rows * row + 2 * self.table.frameWidth())
