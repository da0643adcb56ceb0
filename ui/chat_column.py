"""The middle of the window: header, banners, transcript, composer, status line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from models.records import Weights
from ui.composer import Composer
from ui.empty_state import EmptyState
from ui.header import Header
from ui.notices import BannerArea, ToastArea
from ui.sizes import COLUMN_PX, SIDE_PX, STATUS_FROM_PX
from ui.status import StatusLine
from ui.theme import Theme
from ui.transcript import TranscriptView


class ChatColumn(QWidget):
    """Lays the parts out; what they say to whom is the window's business. `composer` is the one
    that was there first (`ui.first_frame`)."""

    def __init__(
        self,
        theme: Theme,
        list_weights: Callable[[], Sequence[Weights]],
        composer: Composer,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("chat_column")
        self.setProperty("plane", "chat")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.header = Header(theme, list_weights, self)
        self.banners = BannerArea(theme, self)
        self.transcript = TranscriptView(theme)
        self.empty = EmptyState(theme)
        self.body = QStackedWidget(self)
        self.body.addWidget(self.transcript)
        self.body.addWidget(self.empty)
        self.body.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
        self.toasts = ToastArea(theme, self.body)
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
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        self._column.setSpacing(0)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Banners, composer and figures stand exactly under the transcript's column.

        Where height is short (a high zoom), the transcript needs it more than figures do.
        """
        px = self._theme.px
        side = max(px(SIDE_PX), (self.width() - px(COLUMN_PX)) // 2)
        self.banners.setContentsMargins(side, px(4), side, px(8))
        self.composer.setContentsMargins(side, px(8), side, px(4))
        self.status.setContentsMargins(side, px(4), side, px(12))
        self.status.setVisible(self.height() >= px(STATUS_FROM_PX))

    def show_transcript(self, is_shown: bool) -> None:
        self.body.setCurrentWidget(self.transcript if is_shown else self.empty)
