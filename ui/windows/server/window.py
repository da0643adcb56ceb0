"""What the server was asked, live: a line for each request, and what can be done with it.

The log is read where it is kept (`desk.server.log`) whenever something is new, a few times a second
at most. Return or a double click opens a request as a chat; Delete stops one that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QItemSelection, QObject, Qt, Signal
from PySide6.QtGui import QFontMetrics, QGuiApplication, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPushButton,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import ServedChanged, ServerChanged
from app.chat.server.log import Logged
from ui.look.theme import Theme
from ui.section.plain_cells import PlainCells
from ui.shell.window_toasts import WindowToasts
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button, rest_timer
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside
from ui.windows.server.discarding import ask_to_discard
from ui.windows.server.model import (
    CACHED,
    CLIENT,
    ENDPOINT,
    IN,
    MODEL,
    OUT,
    RATE,
    STATE,
    TIME,
    RequestsModel,
)
from ui.windows.server.words import KEPT, NOTHING, base_url, row_words, state_words

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX: Final = (980, 480)
SHOW_MS: Final = 200
ROW_PX: Final = 26
PAD_PX: Final = 22
_WIDEST: Final = {
    TIME: "00:00:00",
    STATE: "Running",
    ENDPOINT: "/v1/messages/count_tokens",
    MODEL: "SmolLM2-135M-Instruct.Q4_1",
    IN: "Prompt",
    CACHED: "Cached",
    OUT: "88,888",
    RATE: "Tokens/s",
}
_FROM_PX: Final = {MODEL: 940, CACHED: 740, RATE: 660, TIME: 580, IN: 520, OUT: 460}
"""How wide the window must be for these columns."""


class RequestsWindow(WindowBeside):
    """`opened`: a request is on screen as a chat now; `settings_requested`: the server's page is
    wanted."""

    opened = Signal()
    settings_requested = Signal()

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "requests_window", "Server requests", parent)
        self._desk = desk
        self.model = RequestsModel()
        self.state_label = plain_label("", self, name="server_state", wraps=True)
        self.switch_button = push_button(
            "Start server", self, "server_switch_button", act=self._on_switch
        )
        self.copy_url_button = push_button(
            "Copy address",
            self,
            "copy_server_address_button",
            hint="The base address for programs",
            act=self._on_copy_url,
        )
        self.settings_button = push_button(
            "Settings…", self, "server_settings_button", act=self.settings_requested
        )
        self._make_table()
        self.nothing = plain_label(NOTHING, self, "dim", name="no_requests")
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.body = QStackedWidget(self)
        self.body.addWidget(self.table)
        self.body.addWidget(self.nothing)
        self.words = plain_label("", self, "small", name="request_words", wraps=True)
        self.words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.words.setAccessibleName("Selected request")
        self.open_button = push_button(
            "Open as chat",
            self,
            "open_request_button",
            kind="primary",
            hint="See its messages, and its reply in the panels",
            act=self.open_chosen,
        )
        self.stop_button = push_button(
            "Stop",
            self,
            "stop_request_button",
            spoken="Stop the selected request",
            act=self.stop_chosen,
        )
        self.curl_button = push_button(
            "Copy as curl", self, "copy_curl_button", act=self.copy_chosen
        )
        self.clear_button = push_button(
            "Clear",
            self,
            "clear_requests_button",
            spoken="Clear the requests that have ended",
            act=lambda _=False: desk.server.clear(),
        )
        self.kept = plain_label(KEPT, self, "small", name="requests_kept", wraps=True)
        self._build()
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self.table.setFocus)
        self._showing = rest_timer(self, self._show, SHOW_MS)
        bridge.on(ServedChanged, self._show_soon)
        bridge.on(ServerChanged, self._show_state)
        theme.changed.connect(self._fit_sizes)
        ZoomedSize(self, theme, SIZE_PX)
        self._fit_sizes()
        self._show_state()
        self._show()

    # --- building -------------------------------------------------------------------------------

    def _make_table(self) -> None:
        self.table = QTableView(self)
        self.table.setObjectName("requests_table")
        self.table.setAccessibleName("Requests, newest first")
        self.table.setProperty("kind", "tight")
        self.table.setModel(self.model)
        self.table.setItemDelegate(PlainCells(self._theme, self.model, self.table))
        self.table.setShowGrid(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        rows, columns = self.table.verticalHeader(), self.table.horizontalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        columns.setHighlightSections(False)
        columns.setSectionResizeMode(CLIENT, QHeaderView.ResizeMode.Stretch)
        self._theme.font(self.table, Theme.font_small)
        self.table.activated.connect(lambda _: self.open_chosen())
        self.table.installEventFilter(self)
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)

    def _build(self) -> None:
        head = FlowLayout()
        for button in (self.switch_button, self.copy_url_button, self.settings_button):
            head.addWidget(button)
        foot = FlowLayout()
        for button in (self.open_button, self.stop_button, self.curl_button, self.clear_button):
            foot.addWidget(button)
        column = QVBoxLayout(self)
        column.addWidget(self.state_label)
        column.addLayout(head)
        column.addWidget(self.body, 1)
        column.addWidget(self.words)
        column.addLayout(foot)
        column.addWidget(self.kept)
        self._theme.space(column, 10, margins=16)
        self._theme.space(head, 8)
        self._theme.space(foot, 8)

    def open(self) -> None:
        self.come_forward(self.table)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _fit_sizes(self) -> None:
        self.table.verticalHeader().setDefaultSectionSize(self._theme.px(ROW_PX))
        metrics = QFontMetrics(self._theme.font_small())
        for column, text in _WIDEST.items():
            wide = max(
                metrics.horizontalAdvance(text),
                metrics.horizontalAdvance(self.model.heading(column)),
            )
            self.table.setColumnWidth(column, wide + self._theme.px(PAD_PX))
        self._fit_columns()

    def _fit_columns(self) -> None:
        for column, from_px in _FROM_PX.items():
            self.table.setColumnHidden(column, self.width() < self._theme.px(from_px))

    # --- showing --------------------------------------------------------------------------------

    def _show_soon(self) -> None:
        if self.isVisible() and not self._showing.isActive():
            self._showing.start()

    def _show(self) -> None:
        self.model.show(self._desk.server.log)
        is_any = self.model.rowCount() > 0
        self.body.setCurrentIndex(0 if is_any else 1)
        if is_any and not self.table.currentIndex().isValid():
            self.table.setCurrentIndex(self.model.index(0, 0))
        self._show_chosen()

    def _show_state(self) -> None:
        state, is_on = self._desk.server.state, self._desk.server.is_on
        self.state_label.setText(state_words(state))
        self.switch_button.setText("Stop server" if is_on else "Start server")
        self.copy_url_button.setEnabled(bool(state.url))

    def _on_chosen(self, _now: QItemSelection, _before: QItemSelection) -> None:
        self._show_chosen()

    @property
    def chosen(self) -> Logged | None:
        at = self.table.currentIndex()
        return self.model.row(at.row()) if at.isValid() else None

    def _show_chosen(self) -> None:
        row = self.chosen
        self.words.setText(row_words(row) if row is not None else "")
        self.words.setVisible(row is not None)
        self._set_enabled(self.open_button, row is not None and bool(row.replies))
        self._set_enabled(self.stop_button, row is not None and not row.is_over)
        self._set_enabled(self.curl_button, row is not None)
        self._set_enabled(self.clear_button, any(r.is_over for r in self._desk.server.log))

    def _set_enabled(self, button: QPushButton, is_enabled: bool) -> None:
        """Whoever stands on a button that goes finds the table."""
        if not is_enabled and button.hasFocus():
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        button.setEnabled(is_enabled)

    # --- acts -----------------------------------------------------------------------------------

    def open_chosen(self) -> None:
        row, opened = self.chosen, self._desk.server.opened
        if row is None:
            return

        def open_it() -> None:
            self._desk.server.open(row.number)
            if row.replies:
                self.opened.emit()

        if opened.has_own and opened.row is not row and row.replies:
            ask_to_discard(self, open_it)
        else:
            open_it()

    def stop_chosen(self) -> None:
        row = self.chosen
        if row is not None:
            self._desk.server.stop(row.number)

    def copy_chosen(self) -> None:
        row = self.chosen
        if row is not None:
            QGuiApplication.clipboard().setText(self._desk.server.curl(row))

    def _on_switch(self) -> None:
        self._desk.server.set_on(not self._desk.server.is_on)

    def _on_copy_url(self) -> None:
        QGuiApplication.clipboard().setText(base_url(self._desk.server.state.url))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if (
            watched is self.table
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Delete
        ):
            self.stop_chosen()
            return True
        return super().eventFilter(watched, event)
