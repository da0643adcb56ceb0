"""The card beside a token: what is known of it, and what else was on the table."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QCursor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.transcript.tokens.facts import N_ALTERNATIVES, Alternative, TokenFacts, shown_percent
from ui.widgets.elided import ElidedLabel, PartsLabel, tip_text
from ui.widgets.kit import push_button

WIDTH_PX: Final = 380
BAR_PX: Final = 8

TokenSpot = tuple[str, int]
"""A message's id, and the number of a token in it."""


class ShareBar(QWidget):
    """A bar as long as a probability; that of what was drawn in the accent's full colour."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._share = 0.0
        self._is_drawn = False

    def show_share(self, share: float, is_drawn: bool) -> None:
        self._share, self._is_drawn = share, is_drawn
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        px = self._theme.px
        color = QColor(self._theme.colors.accent)
        if not self._is_drawn:
            color.setAlphaF(0.45)
        height = px(BAR_PX)
        width = max(self.width() * self._share, float(px(2)))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawRoundedRect(
            QRectF(0, (self.height() - height) / 2, width, height), px(2), px(2)
        )


class _Row:
    """One alternative: its piece, probability, bar, and the way to a version with it."""

    def __init__(self, theme: Theme, card: TokenCard, at: int) -> None:
        self.token_id = 0
        self.bytes = b""
        self.piece = ElidedLabel("", card)
        self.percent = QLabel(card)
        self.percent.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.percent.setProperty("kind", "small")
        self.bar = ShareBar(theme, card)
        self.state = QLabel("drawn", card)
        self.state.setProperty("kind", "small")
        self.state.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.link = push_button(
            "branch ›",
            card,
            f"branch_link_{at}",
            kind="quiet",
            act=lambda: card.ask(self.token_id, self.bytes),
        )
        self.link.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.font(self.piece, Theme.font_mono, 13)
        theme.size(self.piece, 96)
        theme.size(self.percent, 70)
        theme.size(self.bar, height=24)
        theme.sheet(self.link, _link_sheet)

    def show(self, found: Alternative | None) -> None:
        for widget in (self.piece, self.percent, self.bar):
            widget.setVisible(found is not None)
        self.state.setVisible(found is not None and found.is_drawn)
        self.link.setVisible(found is not None and found.may_branch)
        if found is None:
            return
        self.token_id, self.bytes = found.token_id, found.piece
        self.state.setText("chosen" if found.is_chosen else "drawn")
        self.piece.set_text(found.text)
        self.percent.setText(f"{shown_percent(found.probability)}%")
        self.bar.show_share(found.probability, found.is_drawn)
        self.link.setAccessibleName(f"Branch here with {found.text}")
        hint = f"A new version of this reply that continues with {found.text}"
        self.link.setToolTip(tip_text(hint))


def _link_sheet(theme: Theme) -> str:
    px = theme.px
    return (
        f"QPushButton {{ color: {theme.colors.accent}; padding: {px(2)}px {px(6)}px;"
        f" font-size: {px(theme.small_px)}px; }}"
    )


class TokenCard(QFrame):
    """`branch_requested`: by the ID of the token that shall stand there; `piece_requested`: by its
    bytes, where it has none. `spot`: the message and the number of the token that it is about."""

    branch_requested = Signal(int)
    piece_requested = Signal(bytes)

    def __init__(self, theme: Theme, owner: QWidget) -> None:
        super().__init__(owner.window())
        self._theme = theme
        self._owner = owner
        self.spot: TokenSpot | None = None
        self.setObjectName("token_card")
        self.setAccessibleName("About this token")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "above")
        self.piece = ElidedLabel("", self)
        self.piece.setObjectName("token_card_piece")
        self.figures = PartsLabel("", self)
        self.figures.setObjectName("token_card_figures")
        self.figures.setProperty("kind", "small")
        self.details = PartsLabel("", self)
        self.details.setObjectName("token_card_details")
        self.details.setProperty("kind", "small")
        self.bytes = ElidedLabel("", self)
        self.bytes.setObjectName("token_card_bytes")
        self.bytes.setProperty("kind", "small")
        self.caption = QLabel(self)
        self.caption.setObjectName("token_card_caption")
        self.caption.setProperty("kind", "small")
        self.caption.setWordWrap(True)
        self.rows = [_Row(theme, self, at) for at in range(N_ALTERNATIVES)]
        self._build()
        theme.space(self._column, 4, margins=(14, 12))
        theme.space(self._head, 12)
        theme.space(self._grid, (10, 0))
        theme.font(self.piece, Theme.font_mono, 13)
        self.hide()

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.piece, 1)
        self._head.addWidget(self.figures)
        self._grid = QGridLayout()
        for at, row in enumerate(self.rows):
            self._grid.addWidget(row.piece, at, 0)
            self._grid.addWidget(row.percent, at, 1)
            self._grid.addWidget(row.bar, at, 2)
            self._grid.addWidget(row.state, at, 3)
            self._grid.addWidget(row.link, at, 3)
        self._grid.setColumnStretch(2, 1)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._head)
        self._column.addWidget(self.details)
        self._column.addWidget(self.bytes)
        self._column.addLayout(self._grid)
        self._column.addWidget(self.caption)

    def ask(self, token_id: int, piece: bytes) -> None:
        if piece:
            self.piece_requested.emit(piece)
        else:
            self.branch_requested.emit(token_id)

    def show_facts(self, spot: TokenSpot, facts: TokenFacts) -> None:
        self.spot = spot
        self.piece.set_text(facts.piece)
        self.figures.set_text(facts.figures)
        self.figures.setVisible(bool(facts.figures))
        self.details.set_text(facts.details)
        self.details.setVisible(bool(facts.details))
        self.bytes.set_text(facts.bytes)
        for at, row in enumerate(self.rows):
            row.show(facts.alternatives[at] if at < len(facts.alternatives) else None)
        self.caption.setText(facts.caption)
        self.caption.setVisible(bool(facts.caption))
        spoken = (facts.piece, facts.figures, facts.details, facts.bytes, facts.caption)
        self.setAccessibleDescription(". ".join(part for part in spoken if part))
        self.show()
        self.raise_()

    def place(self, token: QRect, view: QRect, window: QRect) -> None:
        """Beside its token, which is at a place of the window."""
        width = min(self._theme.px(WIDTH_PX), view.width())
        self.figures.setMaximumWidth(max(width * 3 // 4, 1))
        height = self._height_for(width)
        self.setGeometry(area_beside(token, (width, height), view, window, self._theme.px(4)))

    def _height_for(self, width: int) -> int:
        self._column.activate()
        if self._column.hasHeightForWidth():
            return self._column.totalHeightForWidth(width)
        return self.sizeHint().height()

    def is_pointed_at(self) -> bool:
        return self.isVisible() and self.rect().contains(self.mapFromGlobal(QCursor.pos()))

    def links(self) -> list[QPushButton]:
        return [row.link for row in self.rows if not row.link.isHidden()]

    def take_focus(self) -> bool:
        """Put the keyboard on the first way out; False where there is none."""
        links = self.links()
        if links:
            links[0].setFocus(Qt.FocusReason.TabFocusReason)
        return bool(links)

    def focusNextPrevChild(self, is_next: bool) -> bool:
        """Tab goes through the links and then back to the text."""
        links = self.links()
        at = next((i for i, link in enumerate(links) if link.hasFocus()), None)
        if at is None:
            return super().focusNextPrevChild(is_next)
        at += 1 if is_next else -1
        if 0 <= at < len(links):
            links[at].setFocus(Qt.FocusReason.TabFocusReason)
        else:
            self._owner.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Down: True, Qt.Key.Key_Up: False}.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape:
            self._owner.setFocus(Qt.FocusReason.OtherFocusReason)
            self.hide()
        elif step is not None:
            self.focusNextPrevChild(step)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        # A click on the card is none on what lies below it.
        if event.type() in (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonRelease):
            super().event(event)
            event.accept()
            return True
        return super().event(event)


def area_beside(token: QRect, size: tuple[int, int], view: QRect, window: QRect, gap: int) -> QRect:
    """Where a card of a size stands: below its token, else above, within the window."""
    width, height = min(size[0], window.width()), min(size[1], window.height())
    left = min(max(token.left(), view.left()), max(view.right() - width, window.left()))
    below, above = token.bottom() + gap, token.top() - gap - height
    top = below if below + height <= window.bottom() or above < window.top() else above
    return QRect(left, min(max(top, window.top()), window.bottom() - height + 1), width, height)
