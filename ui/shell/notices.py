"""Sentences for the user: banners that stay above the chat, toasts that pass below it.
Neither hides what is being read.

A banner speaks of a state (the engine is down, nothing can be saved) and leaves when the
state does. A toast speaks of an act that is done, with its undo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

TOAST_MS = 8_000
TOAST_WITH_UNDO_MS = 15_000
READ_MS_PER_CHARACTER = 60
"""Some 200 words a minute: a long toast stays until it is read."""
TOAST_LIMIT = 3
GAP_PX = 8
SHORT_PX = 360
"""Lower than this the host has room for one toast only."""
EVIDENCE_LINES = 7


@dataclass(frozen=True)
class Act:
    """A button of a notice."""

    text: str
    run: Callable[[], None]


@dataclass(frozen=True)
class Notice:
    """`key`: a later notice with the same key takes this one's place. `evidence`: the lines
    that engineers want, folded away."""

    key: str
    level: str
    sentence: str
    evidence: str = ""
    acts: tuple[Act, ...] = ()
    can_close: bool = True


def announce(source: QWidget, sentence: str, *, at_once: bool = False) -> None:
    """Say a sentence to a screen reader, where one listens."""
    if not QAccessible.isActive():
        return
    event = QAccessibleAnnouncementEvent(source, sentence)
    politeness = QAccessible.AnnouncementPoliteness
    event.setPoliteness(politeness.Assertive if at_once else politeness.Polite)
    QAccessible.updateAccessibility(event)


class NoticeCard(QFrame):
    """One notice as a card. `closed` when the user has put it away."""

    closed = Signal()

    def __init__(self, theme: Theme, notice: Notice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.notice = notice
        self.setObjectName("notice")
        self.setAccessibleName(f"{notice.level.capitalize()}: {notice.sentence}")
        self.sentence = plain_label(notice.sentence, self, name="notice_sentence", wraps=True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.evidence: QPlainTextEdit | None = None
        self._build()
        theme.changed.connect(self._fit)
        theme.space(self._column, 0, margins=(14, 6, 8, 6))
        theme.space(self._row, 2)
        theme.space(self._buttons, 4)
        theme.space(self.sentence, margins=(0, 7, 8, 7))
        self._fit()

    def _build(self) -> None:
        self._column = QVBoxLayout(self)
        self._row = QHBoxLayout()
        self._row.addWidget(self.sentence, 1)
        self._column.addLayout(self._row)
        self._buttons = QHBoxLayout()
        has_many = len(self.notice.acts) + bool(self.notice.evidence) > 1
        if has_many:
            self._column.addLayout(self._buttons)
        else:
            self._row.addLayout(self._buttons)
        if self.notice.evidence:
            self._add_evidence(self.notice.evidence)
        for act in self.notice.acts:
            self._buttons.addWidget(self._act_button(act), 0, Qt.AlignmentFlag.AlignTop)
        if has_many:
            self._buttons.addStretch()
        if self.notice.can_close:
            close = IconButton(self._theme, "x", "Dismiss", parent=self)
            close.setObjectName("close_notice_button")
            close.clicked.connect(self.closed)
            self._row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)

    def _act_button(self, act: Act) -> QPushButton:
        button = push_button(act.text, self, kind="quiet", spoken=act.text, act=lambda: act.run())
        button.setProperty("act", "true")
        return button

    def _add_evidence(self, text: str) -> None:
        self.details_button = push_button(
            "Details",
            self,
            "notice_details_button",
            kind="quiet",
            spoken="Show the engine's latest log lines",
        )
        self.details_button.setCheckable(True)
        evidence = QPlainTextEdit(text, self)
        evidence.setObjectName("notice_evidence")
        evidence.setAccessibleName("The engine's latest log lines")
        evidence.setReadOnly(True)
        evidence.setTabChangesFocus(True)
        evidence.setVisible(False)
        self.details_button.toggled.connect(evidence.setVisible)
        self._buttons.addWidget(self.details_button, 0, Qt.AlignmentFlag.AlignTop)
        self._column.addWidget(evidence)
        self.evidence = evidence

    def _fit(self) -> None:
        px, colors = self._theme.px, self._theme.colors
        is_error = self.notice.level == "error"
        background = colors.error_tone if is_error else colors.card
        line = colors.error_tone if is_error else colors.line
        self.setStyleSheet(
            f"#notice {{ background: {background}; border: 1px solid {line};"
            f" border-radius: {px(10)}px; }}"
            f"QPushButton {{ padding: {px(6)}px {px(8)}px; }}"
            f"QPushButton[act=true] {{ color: {colors.accent}; font-weight: 600; }}"
        )
        if self.evidence is not None:
            self.evidence.setFont(self._theme.font_mono(12))
            lines = min(EVIDENCE_LINES, self.evidence.blockCount()) + 1
            height = self.evidence.fontMetrics().lineSpacing() * lines
            self.evidence.setFixedHeight(height + px(16))


class BannerArea(QWidget):
    """Banners one under the other; nothing, and no space, without any.

    `focus_released`: a card went that had the keyboard's focus.
    """

    focus_released = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("banners")
        self._cards: dict[str, NoticeCard] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        old = self._cards.get(notice.key)
        if old is not None and _same_words(old.notice, notice):
            return
        self.dismiss(notice.key)
        card = NoticeCard(self._theme, notice, self)
        card.closed.connect(lambda: self.dismiss(notice.key))
        self._cards[notice.key] = card
        self._column.setSpacing(self._theme.px(8))
        self._column.addWidget(card)
        self.show()
        announce(self, notice.sentence, at_once=notice.level == "error")

    def dismiss(self, key: str) -> None:
        card = self._cards.pop(key, None)
        if card is None:
            return
        had_focus = _let_go(card)
        self.setVisible(bool(self._cards))
        if had_focus:
            self.focus_released.emit()

    def card(self, key: str) -> NoticeCard | None:
        return self._cards.get(key)


class ToastArea(SteadyArea):
    """Lies at the bottom of `host`, which leaves it the room: nothing that is read is hidden.

    Toasts wait while the pointer or the focus is on them. Where they are higher than the host
    they scroll, the latest from its beginning.
    """

    focus_released = Signal()

    def __init__(self, theme: Theme, host: QWidget) -> None:
        super().__init__(host)
        self._theme = theme
        self._host = host
        self.setObjectName("toasts")
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._cards: list[NoticeCard] = []
        self.setWidget(inside)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        inside.setAutoFillBackground(False)
        host.installEventFilter(self)
        theme.changed.connect(self._place)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        for old in [card for card in self._cards if card.notice.key == notice.key]:
            self._drop(old)
        is_short = self._host.height() < self._theme.px(SHORT_PX)
        while len(self._cards) >= (1 if is_short else TOAST_LIMIT):
            self._drop(self._cards[0])
        card = NoticeCard(self._theme, notice, self.widget())
        card.closed.connect(lambda: self._drop(card))
        timer = QTimer(card)
        least = TOAST_WITH_UNDO_MS if notice.acts else TOAST_MS
        timer.setInterval(max(least, READ_MS_PER_CHARACTER * len(notice.sentence)))
        timer.timeout.connect(lambda: self._drop_unless_used(card))
        timer.start()
        self._cards.append(card)
        self._column.setSpacing(self._theme.px(8))
        self._column.addWidget(card)
        card.show()  # a card that is not shown yet has no height
        self._place()
        self.verticalScrollBar().setValue(card.y())
        announce(self, notice.sentence)

    def dismiss(self, key: str) -> None:
        for card in [card for card in self._cards if card.notice.key == key]:
            self._drop(card)

    def cards(self) -> list[NoticeCard]:
        return list(self._cards)

    def _drop_unless_used(self, card: NoticeCard) -> None:
        focus = QApplication.focusWidget()
        has_focus = focus is not None and card.isAncestorOf(focus)
        if not has_focus and not card.underMouse():
            self._drop(card)

    def _drop(self, card: NoticeCard) -> None:
        if card in self._cards:
            self._cards.remove(card)
            had_focus = _let_go(card)
            self._place()
            if had_focus:
                self.focus_released.emit()

    def _place(self) -> None:
        self.setVisible(bool(self._cards))
        if not self._cards:
            self._host.setContentsMargins(0, 0, 0, 0)
            return
        px = self._theme.px
        width = min(px(560), self._host.width() - px(32))
        height = self._column.heightForWidth(width) if self._column.hasHeightForWidth() else -1
        height = height if height > 0 else self._column.sizeHint().height()
        height = min(height, self._host.height() - 2 * px(GAP_PX))
        left = (self._host.width() - width) // 2
        self.setGeometry(left, self._host.height() - height - px(GAP_PX), width, height)
        self._host.setContentsMargins(0, 0, 0, height + 2 * px(GAP_PX))
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._host:
            if event.type() == QEvent.Type.Resize:
                self._place()
            return False
        if event.type() == QEvent.Type.LayoutRequest:  # a card has another height now
            self._place()
        return super().eventFilter(watched, event)


def _same_words(one: Notice, other: Notice) -> bool:
    return (one.level, one.sentence, one.evidence) == (other.level, other.sentence, other.evidence)


def _let_go(card: NoticeCard) -> bool:
    """Take a card out at once. Whether the keyboard's focus was in it."""
    focus = QApplication.focusWidget()
    had_focus = focus is not None and card.isAncestorOf(focus)
    card.hide()
    card.setParent(None)
    card.deleteLater()
    return had_focus
