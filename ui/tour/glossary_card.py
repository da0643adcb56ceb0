"""The entry of a term beside the word that was clicked.

It has the keyboard while it is open: Escape, a click elsewhere, or Tab out of it close it, and the
keyboard is then where it was.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QHideEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QVBoxLayout, QWidget
from shiboken6 import isValid

from app.chat.tour.chapters import Term
from ui.look.theme import Theme
from ui.section.term_label import TermLabel
from ui.shell.notices import announce
from ui.tour.placing import place
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

WIDTH_PX: Final = 320
GAP_PX: Final = 4
MARGIN_PX: Final = 8
EDGE_PERCENT: Final = 45
"""How much of the dim ink its edge has."""
SHOW_ME: Final = "Show me"
ALL_TERMS: Final = "All terms"


class GlossaryCard(QFrame):
    """`show_wanted`, `all_wanted`: by its buttons, about the term that it shows."""

    show_wanted = Signal(object)
    all_wanted = Signal(object)

    def __init__(self, theme: Theme, host: QWidget) -> None:
        super().__init__(host)
        self._theme = theme
        self._host = host
        self._word = QRect()
        self._had_focus: QWidget | None = None
        self.term: Term | None = None
        self.setObjectName("glossary_card")
        self.setProperty("plane", "above")
        self._make()
        self._lay_out()
        self.hide()
        host.installEventFilter(self)
        theme.changed.connect(self._settle)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._application = application
        application.focusChanged.connect(self._on_focus_changed)

    def _make(self) -> None:
        self.name = plain_label("", self, name="glossary_card_name", wraps=True)
        self.close_button = IconButton(self._theme, "x", "Close", hint="Close (Esc)", parent=self)
        self.close_button.setObjectName("glossary_card_close")
        self.close_button.clicked.connect(self.dismiss)
        self.words = QWidget(self)
        self.text = TermLabel("", self.words)
        self.text.setObjectName("glossary_card_text")
        self.text.setWordWrap(True)
        self.sentence = plain_label(
            "", self.words, "small", name="glossary_card_sentence", wraps=True
        )
        self.all_button = push_button(
            ALL_TERMS, self, "glossary_card_all", kind="compact", act=self._on_all
        )
        self.show_button = push_button(
            SHOW_ME, self, "glossary_card_show", kind="primary", act=self._on_show
        )
        self._theme.font(self.name, Theme.font_text, QFont.Weight.DemiBold)
        self._theme.size(self.close_button, 22, 22)

    def _lay_out(self) -> None:
        theme = self._theme
        head = QHBoxLayout()
        head.addWidget(self.name, 1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        rows = QVBoxLayout(self.words)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.addWidget(self.text)
        rows.addWidget(self.sentence)
        rows.addStretch(1)
        self._area = SteadyArea(self)
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setMinimumHeight(1)  # else it takes that of its scroll bar
        self._area.setWidget(self.words)
        self.words.setAutoFillBackground(False)
        self._area.viewport().setAutoFillBackground(False)
        foot = QHBoxLayout()
        foot.addWidget(self.all_button)
        foot.addStretch(1)
        foot.addWidget(self.show_button)
        self._column = QVBoxLayout(self)
        self._column.addLayout(head)
        self._column.addWidget(self._area, 1)
        self._column.addLayout(foot)
        theme.space(self._column, 8, margins=12)
        theme.space(rows, 6)
        for layout in (head, foot):
            theme.space(layout, 6)
        theme.sheet(self, _sheet)

    # --- what is shown --------------------------------------------------------------------------

    def show_term(self, term: Term, word: QRect | None = None) -> None:
        """`word`: where in the host it was clicked; None: in this card."""
        if word is not None:
            self._word = word
        if not self.isVisible():
            self._had_focus = QApplication.focusWidget()
        self.term = term
        self.name.setText(term.name)
        self.setAccessibleName(f"{term.name}: {term.text}")
        self.text.leave_out(term.name)
        self.text.setText(term.text)
        self._area.verticalScrollBar().setValue(0)
        self.say("")

    def say(self, sentence: str) -> None:
        """What to do before it can be shown, with the keyboard back here."""
        self.sentence.setText(sentence)
        self.sentence.setVisible(bool(sentence))
        self.show_button.setAccessibleDescription(sentence)
        self._settle()
        if not self.isVisible():
            self.show()
            self._application.installEventFilter(self)
        self.raise_()
        self.show_button.setFocus(Qt.FocusReason.PopupFocusReason)
        if sentence:
            announce(self.show_button, sentence)

    def dismiss(self) -> None:
        """Close, and give the keyboard back to where it was."""
        had_focus = self.isAncestorOf(QApplication.focusWidget() or self._host)
        self.hide()
        before, self._had_focus = self._had_focus, None
        if had_focus and before is not None and isValid(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.PopupFocusReason)

    def _on_show(self) -> None:
        self.show_wanted.emit(self.term)

    def _on_all(self) -> None:
        self.dismiss()
        self.all_wanted.emit(self.term)

    # --- where it stands ------------------------------------------------------------------------

    def _settle(self) -> None:
        if self.term is None:
            return
        px = self._theme.px
        margin = px(MARGIN_PX)
        window = self._host.rect().adjusted(margin, margin, -margin, -margin)
        wanted = self._wanted_size(window.width())
        size = wanted.boundedTo(window.size())
        self._area.allow_bar(size.height() < wanted.height())
        self.setGeometry(_below_or_above(size, self._word, window, px(GAP_PX)))

    def _wanted_size(self, widest: int) -> QSize:
        """With all of its words."""
        width = min(self._theme.px(WIDTH_PX), widest)
        layout = self.words.layout()
        assert layout is not None
        layout.invalidate()
        self._column.invalidate()
        room = width - sum(
            margins.left() + margins.right()
            for margins in (self._column.contentsMargins(), self.contentsMargins())
        )
        place = self._column.itemAt(1)  # of the area, which asks for more than its words need
        assert place is not None
        rest = self._column.totalHeightForWidth(width) - place.sizeHint().height()
        return QSize(width, rest + layout.totalHeightForWidth(room))

    # --- Qt -------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Its Escape is not the window's, which stops a reply."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, is_next: bool) -> bool:
        """Tab stays in it."""
        stops = [self.close_button, self.all_button, self.show_button]
        focus = QApplication.focusWidget()
        at = stops.index(focus) if focus in stops else 0
        reason = Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
        stops[(at + (1 if is_next else -1)) % len(stops)].setFocus(reason)
        return True

    def hideEvent(self, event: QHideEvent) -> None:
        self._application.removeEventFilter(self)
        super().hideEvent(event)

    def _on_focus_changed(self, _former: QWidget | None, now: QWidget | None) -> None:
        """The keyboard has gone elsewhere, as by a key that opens a panel."""
        is_elsewhere = now is not None and not self.isAncestorOf(now)
        if is_elsewhere and now.window() is self._host and self.isVisible():  # type: ignore[union-attr]
            self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.Resize and watched is self._host and self.isVisible():
            self._settle()
        elif (
            kind == QEvent.Type.MouseButtonPress
            and isinstance(event, QMouseEvent)
            and isinstance(watched, QWidget)
            and self.isVisible()
            and not self.rect().contains(self.mapFromGlobal(event.globalPosition().toPoint()))
        ):
            self.dismiss()
        return False


def _sheet(theme: Theme) -> str:
    """In the dark an edge of its own tells it from the card below."""
    edge = QColor(theme.colors.dim)
    color = f"rgba({edge.red()}, {edge.green()}, {edge.blue()}, {EDGE_PERCENT}%)"
    return f"#glossary_card {{ border: 1px solid {color}; border-radius: {theme.px(10)}px; }}"


def _below_or_above(size: QSize, word: QRect, window: QRect, gap: int) -> QRect:
    """Below the word that was clicked, where there is room, else above it, else beside it."""
    left = min(max(word.left(), window.left()), window.right() - size.width() + 1)
    for top in (word.bottom() + 1 + gap, word.top() - gap - size.height()):
        spot = QRect(QPoint(left, top), size)
        if window.contains(spot):
            return spot
    return place(size, word, window, gap)
