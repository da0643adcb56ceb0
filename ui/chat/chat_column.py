"""The middle of the window: header, banners, transcript, composer, status line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from models.records import Weights
from ui.chat.composer import Composer
from ui.chat.empty_state import EmptyState
from ui.chat.header import ChatHeader
from ui.look.theme import Theme
from ui.shell.notices import BannerArea, ToastArea
from ui.shell.sizes import COLUMN_PX, SIDE_PX, STATUS_FROM_PX, beside_column
from ui.shell.status import StatusLine
from ui.transcript.view import TranscriptView
from ui.widgets.click_focus import leave_focus
from ui.widgets.plane import Plane

if TYPE_CHECKING:
    from ui.chat.aloud_bar import AloudBar
    from ui.chat.find_bar import FindBar
    from ui.tokens.step_bar import StepBar
    from ui.tokens.token_bar import TokenBar
    from ui.tools.call_bar import CallBar


class ChatColumn(Plane):
    """Lays the parts out; what they say to whom is the window's business. `composer` is the one
    that was there first (`ui.shell.first_frame`). `wanted`: something in here is about to take the
    keyboard, so it has to be on screen where there is room for one column only."""

    wanted = Signal()

    def __init__(
        self,
        theme: Theme,
        list_weights: Callable[[], Sequence[Weights]],
        composer: Composer,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, "chat", parent)
        self._theme = theme
        self.setObjectName("chat_column")
        self.header = ChatHeader(theme, list_weights, self)
        self.header.left.connect(self.go_on_writing)
        self.banners = BannerArea(theme, self)
        self.transcript = TranscriptView(theme)
        self.empty = EmptyState(theme)
        self._text_page: QWidget | None = None
        self._shown: QWidget = self.empty
        self.body = QStackedWidget(self)
        self.body.addWidget(self.transcript)
        self.body.addWidget(self.empty)
        self.body.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
        self.toasts = ToastArea(theme, self.body)
        self._find_bar: FindBar | None = None
        self._token_bar: TokenBar | None = None
        self._is_token_bar_wanted = False
        self._bars: list[StepBar | CallBar | AloudBar] = []
        self.composer = composer
        self.status = StatusLine(theme, self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.header)
        self._column.addWidget(self.banners)
        self._column.addWidget(self.body, 1)
        self._column.addWidget(self.composer)
        self._column.addWidget(self.status)
        self.setTabOrder(self.transcript, self.composer)
        theme.changed.connect(self._arrange)
        theme.space(self._column, 0)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Banners, composer and figures stand exactly under the transcript's column.

        Where height is short (a high zoom), the transcript needs it more than figures do.
        """
        px = self._theme.px
        side, right = beside_column(self.width(), px(COLUMN_PX), px(SIDE_PX))
        self.banners.setContentsMargins(side, px(4), right, px(8))
        is_short = self.height() < px(STATUS_FROM_PX)
        self.header.set_tight(is_short)
        if self._token_bar is not None:
            self._token_bar.set_sides(side, right)
            self._show_token_bar()
        for bar in self._bars:
            bar.set_place(side, right, self.height())
        self.composer.setContentsMargins(side, px(4 if is_short else 8), right, px(4))
        self.status.setContentsMargins(side, px(4), right, px(12))
        self.status.setVisible(not is_short)

    def open_find(self) -> None:
        """Find in the open chat. The bar is built at first use."""
        if len(self.transcript.rows):
            self.wanted.emit()
            self.find_bar().open_bar()

    def find_on(self, direction: int) -> None:
        """To the next place that was found, or the one before."""
        if self._find_bar is not None and self._find_bar.isVisible():
            self._find_bar.step(direction)
        else:
            self.open_find()

    def find_bar(self) -> FindBar:
        if self._find_bar is None:
            from ui.chat.find_bar import FindBar
            from ui.shell.tab_order import put_in_order, stops_in

            self._find_bar = FindBar(self._theme, self.transcript)
            put_in_order([*stops_in(self._find_bar), self.transcript], self.transcript)
        return self._find_bar

    def show_token_bar(self, bar: TokenBar | None) -> None:
        """The bar of the token view, above the transcript; None: none."""
        if self._token_bar is None and bar is not None:
            from ui.shell.tab_order import put_in_order

            self._token_bar = bar
            leave_focus(*bar.findChildren(QAbstractButton))
            self._column.insertWidget(self._column.indexOf(self.body), bar)
            put_in_order([*bar.stops(), self.transcript], self.transcript)
            self._arrange()
        self._is_token_bar_wanted = bar is not None
        self._choose()

    def add_bar(self, bar: StepBar | CallBar | AloudBar) -> None:
        """A bar above the composer, of step mode, for calls of tools or reading aloud; it shows and
        hides itself."""
        from ui.shell.tab_order import put_in_order

        self._bars.append(bar)
        self._column.insertWidget(self._column.indexOf(self.composer), bar)
        put_in_order([self.transcript, *bar.stops()], self.transcript)
        self._arrange()

    def _choose(self) -> None:
        """A document is its own page, but for its tokens: those are seen in the transcript. The
        keyboard goes along."""
        had_focus = self.body.isAncestorOf(QApplication.focusWidget() or self)
        has_tokens = self._is_token_bar_wanted and self._shown is self.transcript
        page = None if has_tokens else self._text_page
        shown = self._shown if page is None else page
        self.body.setCurrentWidget(shown)
        if had_focus and self._text_page is not None and not self._is_in_focus(shown):
            shown.setFocus(Qt.FocusReason.OtherFocusReason)
        self._show_token_bar()

    def _show_token_bar(self) -> None:
        """Where height is short, the tokens need it more."""
        if self._token_bar is not None:
            is_seen = self.body.currentWidget() is self.transcript
            is_short = self.height() < self._theme.px(STATUS_FROM_PX)
            self._token_bar.setVisible(self._is_token_bar_wanted and is_seen and not is_short)

    @staticmethod
    def _is_in_focus(widget: QWidget) -> bool:
        focus = QApplication.focusWidget()
        return focus is not None and (focus is widget or widget.isAncestorOf(focus))

    def show_transcript(self, is_shown: bool) -> None:
        self._shown = self.transcript if is_shown else self.empty
        self._choose()

    def show_text_page(self, page: QWidget | None) -> None:
        """A document in place of transcript and composer; None: those again."""
        self._text_page = page
        if page is not None and self.body.indexOf(page) < 0:
            self.body.addWidget(page)
        self.composer.setVisible(page is None)
        self._choose()

    def go_on_writing(self) -> None:
        """As `focus_writing`, unless somebody is at work in a bar above the composer."""
        if not any(map(self._is_in_focus, self._bars)):
            self.focus_writing()

    def focus_writing(self) -> None:
        """The keyboard goes where the next words are written."""
        if self._text_page is None:
            self.composer.focus()
        else:
            self._text_page.setFocus(Qt.FocusReason.OtherFocusReason)
